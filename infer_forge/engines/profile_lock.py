"""One mark an engine address while a profile is taken there, so that nobody benchmarks it meanwhile, or profiles it twice.

The mark is a small file with the pid and start time of whoever profiles; a mark whose process is gone counts for nothing.
Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from infer_forge.base.errors import GateRefused
from infer_forge.base.ownership import live_start
from infer_forge.base.paths import paths


def _file(url: str) -> Path:
    return paths().state / "profiling" / f"{hashlib.sha256(url.rstrip('/').encode()).hexdigest()[:24]}.json"


def active(url: str) -> dict[str, Any] | None:
    """Who takes a profile at this address now: url, pid, since; None when nobody of this machine does."""
    try:
        mark: dict[str, Any] = json.loads(_file(url).read_text())
    except (OSError, ValueError):
        return None
    return mark if live_start(int(mark.get("pid", -1))) == mark.get("start_ticks") else None


def refuse_while_active(url: str, what: str) -> None:
    """Refuse `what` (a benchmark, a second profile) while a profile is being taken there.

    Raises:
        GateRefused: a profile is being taken.
    """
    mark = active(url)
    if mark:
        since = time.strftime("%H:%M:%S", time.localtime(mark["since"]))
        raise GateRefused(
            f"a profile is being taken there since {since} (pid {mark['pid']}), so {what} would measure the profiler",
            where=url,
            next_step="wait until it is done",
        )


@contextlib.contextmanager
def held(url: str) -> Generator[None]:
    """Hold the mark for the time of a profile.

    Raises:
        GateRefused: another process holds it.
    """
    file = _file(url)
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refuse_while_active(url, "a second profile")
        mark = {"url": url, "pid": os.getpid(), "start_ticks": live_start(os.getpid()), "since": time.time()}
        file.write_text(json.dumps(mark))
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
