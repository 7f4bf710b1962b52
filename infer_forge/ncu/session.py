"""How a report was collected: from the container's session details and from ncu's command line."""

from __future__ import annotations

import shlex
from typing import Any

from infer_forge.base.errors import InputUnusable
from infer_forge.ncu.model import Session
from infer_forge.ncu.redaction import redact_command
from infer_forge.ncu.wire import fields

# Fields of the container's session details, read off real files.
_CREATED, _VERSION, _SETTINGS, _COMMAND = 2, 8, 10, 11
_UI_CLOCK = 8
# ncu's options without a value; every other one takes the next word (ncu --help, 2020.2 to 2025.1).
_BARE = {
    "-f", "--force-overwrite", "--nvtx", "--call-stack", "--csv", "--quiet", "--verbose", "-h", "--help", "-v", "--version",
    "--list-sets", "--list-sections", "--list-rules", "--list-chips", "--list-metrics", "--query-metrics", "--print-fp",
    "--summary", "--disable-extra-suffixes", "--support-32bit", "--injection-path-32",
}  # fmt: skip
_SET_OPTIONS = ("--set", "--section", "--section-folder", "--metrics", "--sets", "--sections")


def _text(value: int | bytes) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else None


def collect(raw: bytes, notes: dict[str, Any]) -> None:
    """Add what one SessionDetails message says to `notes`. A message that is not understood adds nothing."""
    try:
        for number, value in fields(raw):
            if number == _CREATED and isinstance(value, int):
                notes["created"] = value
            elif number == _COMMAND:
                notes["command"] = _text(value)
            elif number == _VERSION and isinstance(value, bytes):
                pair = {n: _text(v) for n, v in fields(value)}
                notes.setdefault("versions", {})[pair.get(1)] = pair.get(2)
            elif number == _SETTINGS and isinstance(value, bytes):
                notes["ui_clock"] = next((_text(v) for n, v in fields(value) if n == _UI_CLOCK), None)
    except InputUnusable:
        notes["unread"] = True


def from_notes(notes: dict[str, Any]) -> Session:
    """The session that the notes add up to."""
    versions: dict[str | None, str | None] = notes.get("versions", {})
    session = Session(
        ncu_version=versions.get("Nsight Compute Target"),
        cuda_version=versions.get("CUDA Version"),
        driver_version=versions.get("Display Driver Version"),
        created_unix_s=notes.get("created"),
    )
    command = notes.get("command")
    if command:
        apply_command(session, command)
    if notes.get("ui_clock"):
        session.clock_control = str(notes["ui_clock"]).lower()
    return session


def apply_command(session: Session, command: str) -> None:
    """Set what ncu's command line states or, by absence of a flag, leaves at ncu's default.

    Defaults: clock control `base`, cache control `all`, replay `kernel` (Nsight Compute CLI guide).
    """
    session.command = redact_command(command.strip())
    options = _own_options(command)
    session.clock_control = options.get("--clock-control", ["base"])[-1].lower()
    session.cache_control = options.get("--cache-control", ["all"])[-1].lower()
    session.replay_mode = options.get("--replay-mode", ["kernel"])[-1].lower()
    chosen = [f"{name[2:]}={value}" for name in _SET_OPTIONS for value in sorted(options.get(name, []))]
    session.metric_set = ", ".join(chosen) or "default"


def _own_options(command: str) -> dict[str, list[str]]:
    """ncu's own options, up to the program that it ran."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    options: dict[str, list[str]] = {}
    i = 1
    while i < len(words) and words[i].startswith("-") and words[i] != "--":
        name, equals, value = words[i].partition("=")
        if not equals and name not in _BARE and i + 1 < len(words):
            i += 1
            value = words[i]
        options.setdefault(name, []).append(value)
        i += 1
    return options


def program_of(command: str | None) -> str | None:
    """The program and its arguments behind ncu's options, from a (redacted) command line; None when there is none."""
    if not command:
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    i = 1
    while i < len(words) and words[i].startswith("-") and words[i] != "--":
        if "=" not in words[i] and words[i] not in _BARE:
            i += 1
        i += 1
    rest = words[i + 1 :] if i < len(words) and words[i] == "--" else words[i:]
    return shlex.join(rest) if rest else None
