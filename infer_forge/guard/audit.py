"""The audit log of decisions, and of what ran after a question: one JSON line each, secrets masked, bounded. Standard library only."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from infer_forge.base.paths import place_texts
from infer_forge.base.redact import redact

MAX_BYTES = 8 * 1024 * 1024
"""A full file becomes `guard.jsonl.1`; the one before goes. At most two files are kept."""
MAX_TEXT = 2000


def log_path() -> str:
    """The file that is written now."""
    return f"{place_texts()['state']}/audit/guard.jsonl"


def append(entry: dict[str, Any], *, sync: bool = True) -> None:
    """Add one decision.

    Raises:
        OSError: it could not be written; the hook then denies.
    """
    path = log_path()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    text = str(entry.get("command", ""))
    masked = redact(text[: 4 * MAX_TEXT])
    line = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **entry, "command": masked[:MAX_TEXT]}
    if len(masked) > MAX_TEXT:
        line["cut"] = len(text) - MAX_TEXT
    data = (json.dumps(line, separators=(",", ":"), default=str) + "\n").encode("utf-8", "replace")
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(fd).st_size + len(data) > MAX_BYTES:
            os.replace(path, f"{path}.1")
            os.close(fd)
            fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.write(fd, data)
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)


def tail(count: int) -> list[dict[str, Any]]:
    """The last decisions, newest last."""
    return _parsed(_lines()[-count:])


def questions() -> list[dict[str, Any]]:
    """Every entry about a question to a person: asked, allowed by a grant and looked for, ran."""
    return _parsed([line for line in _lines() if b'"ask":"' in line])


def _lines() -> list[bytes]:
    lines: list[bytes] = []
    for path in (f"{log_path()}.1", log_path()):
        try:
            with open(path, "rb") as file:
                lines += file.read().splitlines()
        except FileNotFoundError:
            continue
    return lines


def _parsed(lines: list[bytes]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for line in lines:
        try:
            out.append(json.loads(line))
        except ValueError:
            continue
    return out
