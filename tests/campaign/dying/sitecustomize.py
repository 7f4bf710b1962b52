"""Ends its own process with SIGKILL right before an exact write, so that a kill in mid-record needs no luck.

`FORGE_DIES_AT="contract.json > humanize/ledger.jsonl"`: at the first write to the second path behind a write to the first.
Children do not inherit it.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def _written(event: str, args: tuple[Any, ...]) -> str | None:
    """The path that an audit event is about to write; None for anything else."""
    if event in ("os.rename", "os.link"):
        path = args[1]
    elif event == "open":
        path, mode, flags = args
        writes = any(c in mode for c in "wax+") if isinstance(mode, str) else flags & (os.O_WRONLY | os.O_RDWR)
        if not writes:
            return None
    else:
        return None
    return None if isinstance(path, int) else os.fsdecode(path)


def _arm(steps: list[str]) -> None:
    def watch(event: str, args: tuple[Any, ...]) -> None:
        path = _written(event, args)
        if path is not None and steps[0] in path:
            if len(steps) == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            steps.pop(0)

    sys.addaudithook(watch)


_wanted = os.environ.pop("FORGE_DIES_AT", "")
if _wanted:
    _arm([word.strip() for word in _wanted.split(">")])
