"""Reading several traces at once: worker processes that fill the column cache, each with its own interpreter.

A worker is this interpreter with `serve()` as its program, fed one path a line; the parent maps the cache files afterwards, so
that no column travels through a pipe.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from pathlib import Path
from typing import Any

from infer_forge.base import workers as processes

_PROGRAM = "from infer_forge.trace.workers import serve; serve()"


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
    threads = [
        threading.Thread(target=_feed, args=(todo, cache), daemon=True)
        for _ in range(min(processes.cores(), len(files)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _feed(todo: queue.SimpleQueue[Path], cache: Path | None) -> None:
    with processes.start(_PROGRAM, cache) as worker:
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
