"""Change one part of a client's JSON settings and nothing else; what others wrote is kept beside it before the first change."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable
from infer_forge.base.paths import paths
from infer_forge.clients.model import OUR_PROGRAMS, SERVER_NAME, Change, Hook, program_in

BACKUP = ".before-infer-forge"


def read(path: Path) -> dict[str, Any]:
    """The settings; an absent or empty file is empty settings.

    Raises:
        InputUnusable: the file is no JSON object: it is left alone.
    """
    if not path.is_file() or not path.read_bytes().strip():
        return {}
    data = jsonio.read_json(path)
    if not isinstance(data, dict):
        raise InputUnusable(
            "is no JSON object", where=str(path), next_step="mend or remove the file, then install again"
        )
    return data  # pyright: ignore[reportUnknownVariableType]


@contextlib.contextmanager
def _locked(path: Path) -> Generator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    locks = paths().state / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    with open(locks / f"{jsonio.sha256_of(str(path.absolute()))[:24]}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def change(path: Path, edit: Callable[[dict[str, Any]], str]) -> str:
    """Read, let `edit` change the settings and say the outcome, write when they differ."""
    with _locked(path):
        before = read(path)
        after = jsonio.loads(jsonio.dumps(before))
        outcome = edit(after)
        if after != before:
            if others(before):
                back_up(path)
            target = path.resolve() if path.is_symlink() else path
            jsonio.write_atomic(target, jsonio.dumps(after, indent=True) + b"\n")
    return outcome


def back_up(path: Path) -> None:
    """Keep the file beside itself, once: as it was before our first change."""
    backup = path.with_name(path.name + BACKUP)
    if path.is_file() and not backup.exists():
        shutil.copy2(path, backup)


def others(settings: dict[str, Any]) -> bool:
    """Whether the settings hold anything but entries of ours: a file without it was not there before install made it."""
    events: dict[str, Any] = settings.get("hooks") or {}
    rest: dict[str, Any] = {**settings, "mcpServers": dict(settings.get("mcpServers") or {})}
    rest["mcpServers"].pop(SERVER_NAME, None)
    rest["hooks"] = [
        handler
        for event in events
        for entry in _entries(settings, event)
        for handler in entry.get("hooks", [])
        if _program(handler) not in OUR_PROGRAMS
    ]
    return any(rest.values())


def _entries(settings: dict[str, Any], event: str) -> list[dict[str, Any]]:
    found = settings.get("hooks", {}).get(event, [])
    return [e for e in found if isinstance(e, dict)]


def _program(handler: dict[str, Any]) -> str:
    return Path(program_in(str(handler.get("command", "")))).name


def hooks_in(path: Path) -> list[Hook]:
    """All command hooks of a settings file in the shape that Claude Code and Codex share."""
    settings = read(path)
    found: list[Hook] = []
    for event in settings.get("hooks", {}):
        for entry in _entries(settings, event):
            for handler in entry.get("hooks", []):
                if handler.get("type") == "command":
                    command, timeout = str(handler.get("command", "")), int(handler.get("timeout") or 0)
                    found.append(Hook(event, str(entry.get("matcher", "")), command, timeout))
    return found


def add_hook(path: Path, hook: Hook, handler: dict[str, Any]) -> Change:
    """Add our hook entry, or bring an older one of ours up to date."""

    def edit(settings: dict[str, Any]) -> str:
        wanted = {**({"matcher": hook.matcher} if hook.matcher else {}), "hooks": [handler]}
        entries = settings.setdefault("hooks", {}).setdefault(hook.event, [])
        for index, entry in enumerate(entries):
            if [_program(h) for h in entry.get("hooks", [])] == [hook.program]:
                if entry == wanted:
                    return "unchanged"
                entries[index] = wanted
                return "updated"
        entries.append(wanted)
        return "added"

    return Change(f"{hook.event} hook {hook.program}", str(path), change(path, edit))


def remove_hooks(path: Path, programs: set[str]) -> list[Change]:
    """Take our handlers out of every event; others' stay in their order."""
    if not path.is_file():
        return []
    gone: list[str] = []

    def edit(settings: dict[str, Any]) -> str:
        for event in list(settings.get("hooks", {})):
            kept: list[dict[str, Any]] = []
            for entry in _entries(settings, event):
                others = [h for h in entry.get("hooks", []) if _program(h) not in programs]
                gone.extend(event for _ in range(len(entry.get("hooks", [])) - len(others)))
                if others:
                    kept.append({**entry, "hooks": others})
            if kept:
                settings["hooks"][event] = kept
            else:
                del settings["hooks"][event]
        if settings.get("hooks") == {}:
            del settings["hooks"]
        return "removed"

    change(path, edit)
    return [Change(f"{event} hook", str(path), "removed") for event in gone]
