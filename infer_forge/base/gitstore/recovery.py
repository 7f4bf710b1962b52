"""What a ref that cannot be read any more may be put back to, and putting it back.

The store keeps no reflog: the commits themselves are the record. Those that led to the damaged ref are still there when only
its file is lost (no ref names them, so git calls the newest of them dangling), when its newest commit was changed by hand
(the commits before it), or when the hub's copy was seen here.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from infer_forge.base.errors import ForgeError, InputUnusable, MissingPart
from infer_forge.base.gitstore.history import chain
from infer_forge.base.gitstore.model import Commit, Contention
from infer_forge.base.gitstore.remote import git_environment, tracking
from infer_forge.base.gitstore.snapshot import Snapshot

if TYPE_CHECKING:
    from infer_forge.base.gitstore.store import Store

_MOST_STEPS = 2000
_MOST_STRANGE = 20  # so many commits by another hand may lie on top of the ref's own
_FSCK_S = 600
ANCESTOR, HUB, UNNAMED = "before the damage", "the hub's, as last seen", "named by no ref"


@dataclass(frozen=True)
class Offer:
    """A commit that reads whole: `count` events (or files) stand in it; `source` says how it was found."""

    commit: str
    count: int
    source: str
    time: int


def offers(store: Store, ref: str, whole: Callable[[Snapshot], int], mine: Callable[[Commit], bool]) -> list[Offer]:
    """What a damaged ref may be put back to, the fullest first; an offer that another continues is left out.

    Args:
        whole: reads a snapshot and gives how many events stand in it; raises a `ForgeError` when it is not whole.
        mine: whether a commit that no ref names belongs to this ref, by its message.
    """
    found: dict[str, Offer] = {}
    held: set[str] = set()
    for source, head in _heads(store, ref, mine):
        for commit in _back(store, head):
            if commit.id in held or commit.id in found:
                break
            with contextlib.suppress(ForgeError, ValueError, KeyError, TypeError):
                count = whole(store.at(commit.id, ref))
                found[commit.id] = Offer(commit.id, count, source, commit.time)
                held |= {c.id for c in _back(store, commit.parent)}
                break
    return sorted((o for o in found.values() if o.commit not in held), key=lambda o: (-o.count, -o.time))


def _heads(store: Store, ref: str, mine: Callable[[Commit], bool]) -> Iterator[tuple[str, str]]:
    """Where commits of the ref may be found: its tip, the hub's, and those that nothing names."""
    for source, name in ((ANCESTOR, ref), (HUB, tracking(ref))):
        with contextlib.suppress(InputUnusable):
            if tip := store.refs.get(name):
                yield source, tip
    for sha in _dangling(store):
        if any(mine(commit) for commit in islice(_back(store, sha), _MOST_STRANGE)):
            yield UNNAMED, sha


def _back(store: Store, head: str | None) -> Iterator[Commit]:
    """Commits from a head back, as far as they can be read."""
    with contextlib.suppress(InputUnusable):
        for step, commit in enumerate(chain(store.objects, head)):
            if step == _MOST_STEPS:
                return
            yield commit


def _dangling(store: Store) -> list[str]:
    """Commits that no ref and no other commit names.

    Raises:
        MissingPart: no git program, or it does not come to an end.
    """
    words = ["git", f"--git-dir={store.gitdir}", "fsck", "--dangling", "--connectivity-only", "--no-progress"]
    try:
        done = subprocess.run(
            words, env=git_environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_FSCK_S
        )
    except (FileNotFoundError, subprocess.TimeoutExpired) as exc:
        raise MissingPart(f"git fsck could not be asked: {exc}", where=str(store.gitdir)) from None
    return re.findall(r"^dangling commit ([0-9a-f]{40})$", done.stdout.decode("utf-8", "replace"), re.MULTILINE)


def put_back(store: Store, ref: str, commit: str) -> str | None:
    """Let a damaged ref be `commit`. What it was is kept: its commit under `refs/tags/damaged/`, else its file's text beside the refs.

    Returns:
        Where what it was is kept; None when there was nothing.

    Raises:
        Contention: a git lock file stands in the way.
    """
    file, stamp = store.gitdir / ref, time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    with store.refs.lock():
        try:
            before = store.refs.get(ref)
            kept = None if before is None else f"refs/tags/damaged/{ref.removeprefix('refs/')}/{stamp}"
            if before is not None and kept is not None:
                store.refs.cas(kept, None, before)
        except InputUnusable:
            kept = f"{store.gitdir}/infer-forge-damaged/{ref.replace('/', '.')}.{stamp}"
            os.makedirs(os.path.dirname(kept), exist_ok=True)
            with open(kept, "wb") as aside:
                aside.write(file.read_bytes())
        lock = file.with_name(f"{file.name}.lock")
        lock.parent.mkdir(parents=True, exist_ok=True)
        try:
            fd = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            raise Contention(
                "a git lock file stands in the way", where=str(lock), next_step="remove it when no git works here"
            ) from None
        with os.fdopen(fd, "w") as made:
            made.write(f"{commit}\n")
            made.flush()
            os.fsync(made.fileno())
        os.replace(lock, file)
    return kept
