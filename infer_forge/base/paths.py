"""Every place that infer-forge writes to. Standard library only; nothing else computes a path.

`INFER_FORGE_HOME` moves them all under one folder; `INFER_FORGE_STATE`, `INFER_FORGE_CACHE`, `INFER_FORGE_STORES` and
`INFER_FORGE_RUNS` override single ones. Otherwise the XDG base directories count
(https://specifications.freedesktop.org/basedir-spec).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Paths:
    """The places. Folders are made by whoever first writes into them.

    Attributes:
        state: ownership, jobs, audit, reports; kept over reboots.
        cache: columns of traces and the like; may be deleted at any time.
        stores: git repositories of registry, journal, tasks.
        runs: run directories of campaigns and tasks that name no other root.
    """

    state: Path
    cache: Path
    stores: Path
    runs: Path

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
    env = os.environ
    home = env.get("INFER_FORGE_HOME")
    user = Path.home()
    if home:
        base = Path(home).expanduser().absolute()
        state, cache, data = base / "state", base / "cache", base
    else:
        state = Path(env.get("XDG_STATE_HOME") or user / ".local" / "state") / "infer-forge"
        cache = Path(env.get("XDG_CACHE_HOME") or user / ".cache") / "infer-forge"
        data = Path(env.get("XDG_DATA_HOME") or user / ".local" / "share") / "infer-forge"

    def place(name: str, default: Path) -> Path:
        value = env.get(f"INFER_FORGE_{name}")
        return Path(value).expanduser().absolute() if value else default

    return Paths(
        state=place("STATE", state),
        cache=place("CACHE", cache),
        stores=place("STORES", data / "stores"),
        runs=place("RUNS", data / "runs"),
    )


def user_config_file() -> Path:
    """`infer-forge.yaml` of the user: under `INFER_FORGE_HOME`, else in the XDG config folder."""
    home = os.environ.get("INFER_FORGE_HOME")
    if home:
        return Path(home).expanduser().absolute() / "infer-forge.yaml"
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(config) / "infer-forge" / "infer-forge.yaml"
