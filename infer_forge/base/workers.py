"""Worker processes: this interpreter with a line of Python as its program and pipes at both ends.

Not multiprocessing: its spawn would import the caller's main module again.
"""

from __future__ import annotations

import marshal
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

_SIZE = struct.Struct("<Q")
NO_NESTING = "INFER_FORGE_TRACE_WORKER"
"""Set in workers: they start none themselves."""


def cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def may_start() -> bool:
    """Whether helpers can be started: more than one core, an interpreter, and not inside a worker."""
    return cores() > 1 and bool(sys.executable) and not os.environ.get(NO_NESTING)


def idle_core() -> bool:
    """Whether the last minute's load leaves a core free: on a busy machine a second process only costs."""
    try:
        return os.getloadavg()[0] < cores()
    except OSError:
        return True


def start(program: str, cache: Path | None = None) -> subprocess.Popen[bytes]:
    """Start a worker with pipes at its standard input and output.

    Args:
        program: Python text.
        cache: where it puts its cache; the usual place when None.
    """
    environment = {**os.environ, NO_NESTING: "1"}
    here = str(Path(__file__).resolve().parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(p for p in (here, os.environ.get("PYTHONPATH", "")) if p)
    if cache is not None:
        environment["INFER_FORGE_CACHE"] = str(cache)
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # what fails here is read, and told, by the parent
        env=environment,
    )


def send(pipe: IO[bytes], message: Any) -> None:
    """One message of plain values (numbers, texts, tuples, lists, dictionaries) to the other side."""
    data = marshal.dumps(message)
    pipe.write(_SIZE.pack(len(data)) + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """The next message; None when the other side is gone."""
    head = pipe.read(_SIZE.size)
    if len(head) < _SIZE.size:
        return None
    (size,) = _SIZE.unpack(head)
    data = pipe.read(size)
    return marshal.loads(data) if len(data) == size else None
