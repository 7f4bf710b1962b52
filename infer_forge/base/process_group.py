"""The process group of a command that we started as the leader of its session: whether any of it lives, and its end.

A leader that was waited for says nothing of its children: they may ignore the signal, or still be on their way out. So
the end of a group is the end of its last member.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time

from infer_forge.base import ownership

_POLL_S = 0.02
_PROC = "/proc"


def alive(leader: int, ticks: int | None) -> bool:
    """Whether the leader (pid and start time in clock ticks), or a process of its group, lives; a zombie does not."""
    if ticks is not None and ownership.live_start(leader) == ticks:
        return True
    if not os.path.isdir(_PROC):
        return _answers(leader)
    for name in os.listdir(_PROC):
        if name.isdigit() and ownership.group_of(int(name)) == leader:
            born = ownership.live_start(int(name))
            if born is not None and ticks is not None and born >= ticks:
                return True
    return False


def _answers(group: int) -> bool:
    """Where there is no /proc: whether a signal could reach the group. A group of zombies answers with EPERM (macOS)."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def end(process: subprocess.Popen[bytes], *, grace_s: float, kill_s: float = 5.0) -> int | None:
    """Ask the whole group of our child to end, kill what is left after `grace_s`, and wait until none of it lives.

    Gives the child's exit code as `Popen` tells it; None when even the kill was not seen to work within `kill_s`
    (a process inside a driver call cannot be ended).
    """
    # A child that was waited for has no start any more; while members live, the kernel gives its number to no other group.
    ticks = ownership.process_start(process.pid) or 0
    for number, seconds in ((signal.SIGTERM, grace_s), (signal.SIGKILL, kill_s)):
        if process.returncode is not None and not alive(process.pid, ticks):
            break
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: EPERM for a group of zombies
            os.killpg(process.pid, number)
        _wait(process, ticks, seconds)
    return process.returncode


def _wait(process: subprocess.Popen[bytes], ticks: int | None, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    while alive(process.pid, ticks) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
