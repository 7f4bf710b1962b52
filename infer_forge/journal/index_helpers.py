"""Reading many records at once for the index: helper processes decompress, parse and split words; one process writes.

A few records are read where they are wanted: a helper takes longer to start than they take.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from infer_forge.base import workers
from infer_forge.base.gitstore.objects import Objects
from infer_forge.journal.index_rows import COLUMNS, IndexRow, row_of_file

Blob = tuple[str, str]
"""(path, sha of the content) of a file of the store."""

# From here on a helper's start (0.3 s of Python and imports) is paid back.
MANY = 4000
_PART = 200
_MOST_HELPERS = 3
_PROGRAM = "from infer_forge.journal.index_helpers import serve; serve()"


def read_rows(gitdir: Path, blobs: Sequence[Blob]) -> Iterator[IndexRow]:
    """The rows of files, in the order given.

    Raises:
        InputUnusable: an object of the store is missing or damaged.
    """
    if len(blobs) < MANY or not workers.may_start():
        with contextlib.closing(Objects(gitdir)) as objects:
            yield from _read(objects, blobs)
        return
    parts = [blobs[n : n + _PART] for n in range(0, len(blobs), _PART)]
    count = min(workers.cores() - 1, _MOST_HELPERS)
    with contextlib.ExitStack() as stack:
        objects = stack.enter_context(contextlib.closing(Objects(gitdir)))
        helpers = [stack.enter_context(_helper(gitdir, parts[n::count])) for n in range(count)]
        for number, part in enumerate(parts):
            answer = workers.receive(helpers[number % count])
            # A helper that died, or met an object that it could not read: read here, where a fault is told.
            yield from map(IndexRow._make, answer) if answer else _read(objects, part)


def _read(objects: Objects, blobs: Sequence[Blob]) -> Iterator[IndexRow]:
    return (row_of_file(path, objects.content(sha, "blob")) for path, sha in blobs)


@contextlib.contextmanager
def _helper(gitdir: Path, parts: list[Sequence[Blob]]) -> Generator[IO[bytes]]:
    """A helper that is fed these parts; gives what it answers. Ended when the caller is done, or gives up."""
    process = workers.start(_PROGRAM)
    assert process.stdin is not None
    assert process.stdout is not None
    feeder = threading.Thread(
        target=_feed, args=(process.stdin, [(str(gitdir.absolute()), COLUMNS), *parts]), daemon=True
    )
    feeder.start()
    try:
        yield process.stdout
    finally:
        process.kill()
        process.wait()
        feeder.join()
        process.stdout.close()


def _feed(pipe: IO[bytes], messages: list[Any]) -> None:
    with contextlib.suppress(OSError, ValueError):  # the helper is gone: its reader notices
        for message in messages:
            workers.send(pipe, message)
    with contextlib.suppress(OSError):
        pipe.close()


def serve() -> None:
    """A helper's loop: the store's folder first, then parts of files in, their rows out; an empty answer: cannot read it."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    gitdir, columns = workers.receive(source)
    if columns != COLUMNS:  # infer-forge was replaced by another version while the parent ran: it reads by itself
        return
    with contextlib.closing(Objects(Path(gitdir))) as objects:
        while (part := workers.receive(source)) is not None:
            try:
                answer = [tuple(row) for row in _read(objects, part)]
            except Exception:  # whatever it is, the parent meets it too and tells it
                answer = []
            workers.send(target, answer)
