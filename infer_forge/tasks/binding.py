"""Which task a folder of this machine works on (a client's Stop hook names no task), and which workspace holds a task's worktrees."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio, ownership
from infer_forge.base.paths import paths

VARIABLE = "INFER_FORGE_TASK"


def _file() -> Path:
    return paths().state / "task-folders.json"


def _workspaces() -> Path:
    return paths().state / "task-workspaces.json"


def _remember(file: Path, key: str, value: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{file}.lock", "a", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known: dict[str, Any] = jsonio.read_json(file) if file.is_file() else {}
        known[key] = value
        jsonio.write_atomic(file, jsonio.dumps(known))


def bind(task_id: str, folder: str | None = None) -> str:
    """Remember that work in a folder (default: the working folder) is this task's; gives the folder."""
    place = os.path.realpath(folder or os.getcwd())
    _remember(_file(), place, task_id)
    return place


def bind_workspace(task_id: str, root: Path) -> None:
    """Remember which workspace of this machine holds a task's worktrees."""
    _remember(_workspaces(), task_id, os.path.realpath(root))


def workspace_of(task_id: str) -> Path | None:
    """The workspace that holds a task's worktrees, None when none of this machine does.

    Raises:
        InputUnusable: the file of remembered workspaces is damaged.
    """
    file = _workspaces()
    found: Any = jsonio.read_json(file).get(task_id) if file.is_file() else None
    return None if found is None else Path(found)


def bound(folder: str | None = None) -> str | None:
    """The task of a folder: `INFER_FORGE_TASK`, else the deepest remembered folder above it; None when there is none.

    Raises:
        InputUnusable: the file of remembered folders is damaged.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return named
    file = _file()
    if not file.is_file():
        return None
    here = os.path.realpath(folder or os.getcwd())
    known: dict[str, str] = jsonio.read_json(file)
    fitting = [place for place in known if ownership.within(here, place)]
    return known[max(fitting, key=len)] if fitting else None
