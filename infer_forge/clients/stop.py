"""The Stop protocol that Claude Code and Codex share: JSON in, `{"decision": "block", "reason": ..}` out, or nothing.

A hook that was the reason for this turn (`stop_hook_active`) lets the client stop: each stop is held back once, never for
ever. Whoever answers must end with exit code 2 and a reason on stderr when it fails itself, which blocks in both clients.
"""

from __future__ import annotations

import json
from typing import Any

BLOCK_EXIT = 2
_MOST = 1500


def read_stop(data: bytes) -> dict[str, Any]:
    """The hook's input.

    Raises:
        ValueError: it is no JSON object, or of another event.
    """
    found: Any = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError("the hook's input is no JSON object")  # noqa: TRY004 - one kind of fault for the caller
    payload: dict[str, Any] = found  # pyright: ignore[reportUnknownVariableType]
    event = payload.get("hook_event_name")
    if event not in ("Stop", "SubagentStop"):
        raise ValueError(f"the hook's input is of the event {event!r}, not Stop")
    return payload


def stop_answer(payload: dict[str, Any], may_stop: bool, reason: str) -> str:
    """What the hook prints: nothing lets the client stop."""
    if may_stop or payload.get("stop_hook_active"):
        return ""
    return json.dumps({"decision": "block", "reason": reason[:_MOST]})
