"""Time and memory of a whole process, as the kernel counts them.

`ru_maxrss` of a process that was forked from a large one keeps the large one's figure over exec (getrusage(2), Linux), so the
measured command is started by a small helper and not by the benchmark itself. What the command starts is sampled beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass

import psutil

_SAMPLE_S = 0.02  # looking costs time itself: 1 ms a look
_STARTER = """
import json, os, subprocess, sys, time
began = time.perf_counter()
child = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(child.pid, 0)
wall = time.perf_counter() - began
with open(sys.argv[1], "w") as out:
    json.dump([wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, os.waitstatus_to_exitcode(status)], out)
"""


@dataclass(frozen=True, order=True)
class Spent:
    """What a command took: wall and CPU seconds (its children's too), MB of its largest process, MB of all at once (sampled)."""

    wall_s: float
    cpu_s: float
    largest_mb: float
    together_mb: float


def spent(argv: list[str], env: dict[str, str] | None = None) -> Spent:
    """Run a command to its end, its output thrown away.

    Raises:
        RuntimeError: it failed.
    """
    read, write = os.pipe()
    os.set_inheritable(write, True)
    starter = psutil.Popen(
        [sys.executable, "-I", "-S", "-c", _STARTER, f"/proc/self/fd/{write}", *argv],
        env={**os.environ, **(env or {})},
        pass_fds=(write,),
        stdin=subprocess.DEVNULL,
    )
    os.close(write)
    together = 0
    while starter.poll() is None:
        with contextlib.suppress(psutil.Error):
            together = max(together, sum(_rss(p) for p in starter.children(recursive=True)))
        time.sleep(_SAMPLE_S)
    with os.fdopen(read) as told:
        text = told.read()
    wall, cpu, largest, code = json.loads(text) if text else (0.0, 0.0, 0.0, starter.returncode or 1)
    if code:
        raise RuntimeError(f"{argv}: exit {code}")
    return Spent(wall, cpu, largest, together / 2**20)


def _rss(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0
