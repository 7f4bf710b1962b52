"""The commits of a long history: git compares their files in several processes, each over a stretch of the first-parent line.

git looks for the enclosing function of every hunk, which takes it half as long again as the comparison; a helper a further
core makes up for that.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import sys
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from infer_forge.base import workers
from infer_forge.base.errors import ForgeError
from infer_forge.journal.gitlog import FileChange, LoggedCommit, commits, git

# From here on a helper's start (0.3 s) is paid back.
MANY = 3000
_MOST = 4
_PART = 200
_PROGRAM = "from infer_forge.journal.history_read import serve; serve()"
_DONE = "done"


def history(repo: Path, since: str | None, tip: str) -> Iterator[LoggedCommit]:
    """Commits of the first-parent line after `since` (None: all) up to `tip`, newest first (see `gitlog.commits`).

    Raises:
        InputUnusable: git broke off.
    """
    stretches = _stretches(repo, since, tip) if workers.may_start() else [(since, tip)]
    with contextlib.ExitStack() as stack:
        answers = [stack.enter_context(_helper(repo, *stretch)) for stretch in stretches[1:]]
        yield from commits(repo, *stretches[0])
        for stretch, answer in zip(stretches[1:], answers, strict=True):
            yield from _from_helper(repo, stretch, answer)


def _stretches(repo: Path, since: str | None, tip: str) -> list[tuple[str | None, str]]:
    """(excluded start, tip) of parts of about equal length, the newest first; one part when there is little to read."""
    line = git(repo, "rev-list", "--first-parent", f"{since}..{tip}" if since else tip, "--").split()
    count = min(workers.cores(), _MOST, max(len(line) // MANY, 1))
    heads = [line[len(line) * n // count] for n in range(count)] if line else [tip]
    return list(zip([*heads[1:], since], heads, strict=True))


def _from_helper(repo: Path, stretch: tuple[str | None, str], answer: queue.SimpleQueue[Any]) -> Iterator[LoggedCommit]:
    """A helper's commits; where it broke off, the rest is read here, and what is wrong is told."""
    given = 0
    while (part := answer.get()) not in (None, _DONE):
        for sha, time, subject, body, files, symbols in part:
            yield LoggedCommit(sha, time, subject, body, [FileChange(*f) for f in files], symbols)
        given += len(part)
    if part is None:
        yield from itertools.islice(commits(repo, *stretch), given, None)


@contextlib.contextmanager
def _helper(repo: Path, since: str | None, tip: str) -> Generator[queue.SimpleQueue[Any]]:
    """A helper that reads a stretch at once; its parts are kept until they are wanted (git would wait for a full pipe)."""
    process = workers.start(_PROGRAM)
    assert process.stdin is not None
    assert process.stdout is not None
    parts: queue.SimpleQueue[Any] = queue.SimpleQueue()
    source = process.stdout

    def collect() -> None:
        part: Any = ()
        while part not in (None, _DONE):
            part = workers.receive(source)
            parts.put(part)

    reader = threading.Thread(target=collect, daemon=True)
    reader.start()
    try:
        with contextlib.suppress(OSError):
            workers.send(process.stdin, (str(repo.absolute()), since, tip))
            process.stdin.close()
        yield parts
    finally:
        process.terminate()
        reader.join()
        process.wait()
        process.stdout.close()


def serve() -> None:
    """A helper's work: one stretch in, parts of its commits out, and that it is done. Silence: git broke off."""
    repo, since, tip = workers.receive(sys.stdin.buffer)
    source = commits(Path(repo), since, tip)
    try:
        while part := list(itertools.islice(source, _PART)):
            workers.send(sys.stdout.buffer, [_plain(c) for c in part])
    except ForgeError:
        return
    workers.send(sys.stdout.buffer, _DONE)


def _plain(commit: LoggedCommit) -> tuple[Any, ...]:
    files = [(f.path, f.added, f.removed, f.renamed_from) for f in commit.files]
    return (commit.sha, commit.time, commit.subject, commit.body, files, commit.symbols)
