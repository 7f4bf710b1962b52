"""Every place that infer-forge writes to. Standard library only; nothing else computes a path.

`INFER_FORGE_HOME` moves them all under one folder; `INFER_FORGE_STATE`, `INFER_FORGE_CACHE`, `INFER_FORGE_STORES` and
`INFER_FORGE_RUNS` override single ones. Otherwise the XDG base directories count
(https://specifications.freedesktop.org/basedir-spec).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Paths:
    """The places. Folders are made by whoever first writes into them.

    Attributes:
        state: ownership, jobs, audit, reports; kept over reboots.
        cache: columns of traces and the like; may be deleted at any time.
        stores: git repositories of registry, journal, tasks.
        runs: run directories of campaigns and tasks that name no other root.
    """

    def __init__(self, state: Path, cache: Path, stores: Path, runs: Path) -> None:
        self.state = state
        self.cache = cache
        self.stores = stores
        self.runs = runs

    @property
    def jobs(self) -> Path:
        """State files of long work (`base.jobs`)."""
        return self.state / "jobs"

    @property
    def audit(self) -> Path:
        """The guard's audit log."""
        return self.state / "audit"

    @property
    def reports(self) -> Path:
        """Reports kept by the hash of their inputs (`base.report_store`)."""
        return self.state / "reports"

    @property
    def artifacts(self) -> Path:
        """Full tables behind a capped answer of an MCP tool."""
        return self.state / "artifacts"

    @property
    def ownership(self) -> Path:
        """The ownership file: what this run owns, with proof (`base.ownership`)."""
        return self.state / "ownership.json"

    def store(self, name: str) -> Path:
        """The git repository of one store: `registry`, `journal` or `tasks`."""
        return self.stores / f"{name}.git"


def paths() -> Paths:
    """The places as the environment says now (read at each call: tests and servers move them)."""
    from pathlib import Path

    return Paths(**{name: Path(text) for name, text in place_texts().items()})


def place_texts() -> dict[str, str]:
    """`paths()` as plain text, without pathlib: the guard's hook runs before every command and pays for each import."""
    env = os.environ
    home = env.get("INFER_FORGE_HOME")
    if home:
        base = _absolute(home)
        state, cache, data = f"{base}/state", f"{base}/cache", base
    else:
        state = f"{_user_folder('XDG_STATE_HOME', '.local/state')}/infer-forge"
        cache = f"{_user_folder('XDG_CACHE_HOME', '.cache')}/infer-forge"
        data = f"{_user_folder('XDG_DATA_HOME', '.local/share')}/infer-forge"
    places = {"state": state, "cache": cache, "stores": f"{data}/stores", "runs": f"{data}/runs"}
    named = {name: env.get(f"INFER_FORGE_{name.upper()}") for name in places}
    return {name: _absolute(value) if value else places[name] for name, value in named.items()}


def user_config_folder() -> str:
    """The user's folder of settings: `INFER_FORGE_HOME`, else the one in the XDG config folder."""
    home = os.environ.get("INFER_FORGE_HOME")
    return _absolute(home) if home else f"{_user_folder('XDG_CONFIG_HOME', '.config')}/infer-forge"


def user_config_file() -> Path:
    """`infer-forge.yaml` of the user: under `INFER_FORGE_HOME`, else in the XDG config folder."""
    from pathlib import Path

    return Path(user_config_folder()) / "infer-forge.yaml"


def _absolute(text: str) -> str:
    path = os.path.expanduser(text)
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)


def _user_folder(variable: str, below_home: str) -> str:
    return os.environ.get(variable) or f"{os.path.expanduser('~')}/{below_home}"
