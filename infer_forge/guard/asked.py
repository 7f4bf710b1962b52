"""What became of a question: a command that a person was asked about is looked for again when the tool has run.

A client shows the question and keeps the answer to itself. But it runs the hook after a tool (PostToolUse) only when the
tool ran, so a later sight of the same call is the evidence that a person approved it; no sight within the session means
that it was refused, or that the hook after the tool is not registered. One small file a question keeps the second hook
cheap: where there is none, there is nothing to do. Standard library only.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from infer_forge.guard.hashing import sha256_hex

KEPT_S = 86400.0
"""After a day an unanswered question is no longer waited for; the audit log keeps it."""


def folder() -> str:
    """One file for each question that waits."""
    from infer_forge.guard import audit

    return os.path.join(os.path.dirname(audit.log_path()), "asked")


def key(data: dict[str, Any]) -> str:
    """Name of a tool call, the same before and after it ran: by its id, else by what it does."""
    ident = data.get("tool_use_id")
    tail = [ident] if isinstance(ident, str) and ident else [data.get("tool_name"), data.get("tool_input")]
    text = json.dumps([data.get("session_id"), *tail], sort_keys=True, default=str)
    return sha256_hex(text.encode())[:24]


def expect(data: dict[str, Any], locks: tuple[dict[str, Any], ...], verdict: str) -> str:
    """Wait for this call, and write down which clocks it locks when it runs; its name.

    Raises:
        OSError: it could not be written; the hook then denies.
    """
    name = key(data)
    if locks:
        from infer_forge.base import clocks

        for number, facts in enumerate(locks):
            ident = name if not number else f"{name}.{number}"
            clocks.append("asked" if verdict == "ask" else "allowed", id=ident, **facts)
    place = folder()
    os.makedirs(place, exist_ok=True)
    _forget_old(place)
    made = {"at": time.time(), "locks": len(locks)}
    with open(os.path.join(place, name), "w", encoding="ascii") as file:
        file.write(json.dumps(made))
    return name


def ran(data: dict[str, Any], client: str, *, failed: bool) -> bool:
    """Note that a call which was asked about has run; whether it was one of those."""
    name = key(data)
    path = os.path.join(folder(), name)
    try:
        with open(path, encoding="ascii") as file:
            waited = json.loads(file.read() or "{}")
    except FileNotFoundError:
        return False
    event = "failed" if failed else "ran"
    if waited.get("locks"):
        from infer_forge.base import clocks

        for number in range(int(waited["locks"])):
            clocks.append(event, id=name if not number else f"{name}.{number}")
    from infer_forge.guard import audit

    audit.append(
        {
            "session": str(data.get("session_id", ""))[:80],
            "client": client,
            "tool": str(data.get("tool_name", ""))[:80],
            "verdict": event,
            "ask": name,
        }
    )
    os.unlink(path)
    return True


def _forget_old(place: str) -> None:
    old = time.time() - KEPT_S
    for entry in os.scandir(place):
        if entry.stat().st_mtime < old:
            os.unlink(entry.path)


def outcomes(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The questions among the entries of the audit log, oldest first, each with `outcome`: `ran`, `failed`, `not seen`."""
    seen = {e["ask"]: e["verdict"] for e in entries if e.get("ask") and e.get("verdict") in ("ran", "failed")}
    asked = [e for e in entries if e.get("ask") and e.get("verdict") in ("ask", "allow")]
    return [{**e, "outcome": seen.get(e["ask"], "not seen")} for e in asked]
