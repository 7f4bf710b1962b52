"""Reading several traces at once: worker processes that fill the column cache, each with its own interpreter.

A worker is this interpreter with `serve()` as its program, fed one path a line; the parent maps the cache files afterwards, so
that no column travels through a pipe. (Not multiprocessing: its spawn would import the caller's main module again.)
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

_PROGRAM = "from infer_forge.trace.workers import serve; serve()"
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


def serve() -> None:
    """The worker's loop: a path a line in, one JSON answer a line out."""
    from infer_forge.base.errors import ForgeError
    from infer_forge.trace.read import load

    for line in sys.stdin.buffer:
        answer: dict[str, Any] = {}
        try:
            load(Path(os.fsdecode(json.loads(line).encode("utf-8", "surrogateescape"))))
        except ForgeError as exc:
            answer = {"error": exc.what}
        except MemoryError:
            answer = {"error": "not enough memory"}
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


def fill_cache(files: list[Path], cache: Path | None = None) -> None:
    """Read files in parallel so that their columns stand in the cache. What a worker fails on, the caller reads itself.

    Args:
        files: largest first is best.
        cache: another place than the usual.
    """
    todo: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for file in files:
        todo.put(file)
    threads = [threading.Thread(target=_feed, args=(todo, cache), daemon=True) for _ in range(min(cores(), len(files)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _feed(todo: queue.SimpleQueue[Path], cache: Path | None) -> None:
    with start(_PROGRAM, cache) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            while True:
                try:
                    path = todo.get_nowait()
                except queue.Empty:
                    break
                text = os.fsencode(path).decode("utf-8", "surrogateescape")
                worker.stdin.write(json.dumps(text).encode() + b"\n")
                worker.stdin.flush()
                if not worker.stdout.readline():
                    break
        except OSError:
            pass  # the worker died; the caller reads what is missing
        finally:
            worker.stdin.close()
