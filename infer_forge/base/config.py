"""Settings: `infer-forge.yaml` of the project, then of the user, then the defaults; each key knows which file won.

The project file is the nearest `infer-forge.yaml` in the working folder or above it. A team's hosts, remotes, skills and
playbooks belong here, nowhere in code; its forks and production endpoints in `guard.yaml`, where the guard reads them.
"""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.paths import user_config_file

FILE_NAME = "infer-forge.yaml"
_SETTLED_NS = 2_000_000_000  # the coarsest clock of a file system that is in use, FAT's
_parsed: dict[Path, tuple[tuple[int, ...], dict[str, Any]]] = {}


@dataclass(frozen=True)
class Key:
    """One setting: its type, default and meaning; the least and the most that a number may be."""

    kind: str
    default: Any
    help: str
    between: tuple[int, int] | None = None


# The schema. `kind` is str, int, float, bool, list (of strings) or map (string -> anything).
KEYS: dict[str, Key] = {
    "remotes.registry": Key("str", None, "git URL of the team's node registry hub"),
    "remotes.journal": Key("str", None, "git URL of the team's journal"),
    "remotes.tasks": Key("str", None, "git URL of the team's task store"),
    "hosts": Key("map", {}, "name -> place, such as ssh:me@gpu07/docker:dev; the name then stands for the place"),
    "playbooks": Key("list", [], "folders with a team's own playbooks"),
    "skills": Key("list", [], "folders with a team's own skills"),
    "check_suite": Key(
        "list", [], "command lines of a team's own check suite of skills and tools, in place of the pack's"
    ),
    "identity.user": Key("str", None, "who is named as holder of claims and author of records"),
    "cache.limit_mb": Key("int", 4096, "upper bound of the column cache in MB; the least recently used goes first"),
    "triage.min_share_pct": Key("float", 1.0, "rows under this share are summed up in the header"),
    "jobs.keep_days": Key("int", 14, "finished jobs older than this are removed"),
    # Claude Code refuses to show an answer of more than 25,000 tokens, however it begins: that is some 60,000 characters.
    "mcp.max_chars": Key(
        "int", 8000, "upper bound of a tool's structured answer in characters, 2,000 to 60,000", (2_000, 60_000)
    ),
    "models": Key("map", {}, "model alias -> canonical model id, beside the built-in ones"),
}
_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "list": (list,),
    "map": (dict,),
}


@dataclass
class Settings:
    """The merged settings.

    Attributes:
        values: dotted key -> value.
        origin: dotted key -> the file that won, or `default`.
        files: the files that were read, strongest first.
    """

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    origin: dict[str, str] = field(default_factory=dict[str, str])
    files: list[Path] = field(default_factory=list[Path])

    def get(self, key: str) -> Any:
        """Value of a known key.

        Raises:
            UsageFault: there is no such setting.
        """
        if key not in KEYS:
            raise UsageFault(f"there is no setting {key!r}", next_step="infer-forge config show lists them")
        return self.values[key]


def project_config_file(start: Path | None = None) -> Path | None:
    """The nearest `infer-forge.yaml` in `start` (default: the working folder) or above it."""
    folder = (start or Path.cwd()).absolute()
    for place in (folder, *folder.parents):
        if (place / FILE_NAME).is_file():
            return place / FILE_NAME
    return None


def settings(start: Path | None = None) -> Settings:
    """Read and merge the settings. A file that has not changed is not parsed again in this process.

    Raises:
        InputUnusable: a file is no YAML, has an unknown key or a value of the wrong type.
    """
    found = Settings({k: v.default for k, v in KEYS.items()}, dict.fromkeys(KEYS, "default"))
    project = project_config_file(start)
    user = user_config_file()
    found.files = [f for f in (project, user) if f is not None and f.is_file()]
    for file in reversed(found.files):
        for key, value in _read(file).items():
            found.values[key] = value
            found.origin[key] = str(file)
    return found


def _read(file: Path) -> dict[str, Any]:
    """Dotted keys of one file, checked against the schema; the caller's own copy."""
    try:
        now = file.stat()
    except OSError:
        return _parse(file)  # which says why
    stamp = (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)
    kept = _parsed.get(file)
    if kept is None or kept[0] != stamp:
        kept = stamp, _parse(file)
        # a file that was changed just now may change again within one tick of its clock, and look the same
        if abs(time.time_ns() - now.st_mtime_ns) > _SETTLED_NS:
            _parsed[file] = kept
    return copy.deepcopy(kept[1])


def _parse(file: Path) -> dict[str, Any]:
    from infer_forge.base import yamlio

    flat = _flatten(yamlio.read_yaml(file) or {}, file)
    for key, value in flat.items():
        spec = KEYS.get(key)
        if spec is None:
            raise InputUnusable(
                f"unknown setting {key!r}", where=str(file), next_step="infer-forge config show lists the known ones"
            )
        wrong_bool = isinstance(value, bool) and spec.kind != "bool"
        if value is not None and (wrong_bool or not isinstance(value, _TYPES[spec.kind])):
            raise InputUnusable(
                f"setting {key!r} must be of type {spec.kind}", where=str(file), next_step="mend the value"
            )
        if value is not None and spec.between and not spec.between[0] <= value <= spec.between[1]:
            least, most = spec.between
            raise InputUnusable(
                f"setting {key!r} must be from {least:,} to {most:,}", where=str(file), next_step="mend the value"
            )
    return flat


def _flatten(data: Any, file: Path, prefix: str = "") -> dict[str, Any]:
    """Nested mappings to dotted keys, stopping at keys whose value is itself a mapping setting."""
    if not isinstance(data, dict):
        raise InputUnusable("must be a mapping of settings", where=str(file), next_step="write `key: value` lines")
    flat: dict[str, Any] = {}
    for name, value in data.items():  # pyright: ignore[reportUnknownVariableType]
        key = f"{prefix}{name}"
        if key not in KEYS and isinstance(value, dict) and any(k.startswith(f"{key}.") for k in KEYS):
            flat.update(_flatten(value, file, f"{key}."))
        else:
            flat[key] = value
    return flat
