"""Refs of the local repository: compare-and-swap under an flock that dies with its holder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import re
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.gitstore.model import Contention

if TYPE_CHECKING:
    from dulwich.refs import DiskRefsContainer

ABSENT = b"0" * 40
_COMMIT_ID = re.compile(rb"[0-9a-f]{40}")
LOCK_STANDS_S = 3.0  # a ref lock is held for milliseconds; one that stands this long under our flock was left behind


class Refs:
    """Names of tips. All writers of this library take `lock`, so that a `.lock` file found under it is a leftover."""

    def __init__(self, gitdir: Path) -> None:
        self.gitdir = gitdir
        self._container: DiskRefsContainer | None = None
        self._held = threading.local()

    @property
    def container(self) -> DiskRefsContainer:
        """dulwich's refs of this folder."""
        if self._container is None:
            from dulwich.refs import DiskRefsContainer

            self._container = DiskRefsContainer(str(self.gitdir))
        return self._container

    def get(self, ref: str) -> str | None:
        """The tip of a ref, None when there is no such ref.

        Raises:
            InputUnusable: its file holds no commit id: what it named cannot be seen, which is not "nothing there".
        """
        for _ in range(2):  # `git pack-refs` may move it between the two reads
            try:
                return self._tip(ref, (self.gitdir / ref).read_bytes().strip())
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                pass
            packed = self.container.get_packed_refs().get(_name(ref))
            if packed:
                return packed.decode()
        return None

    def _tip(self, ref: str, text: bytes) -> str:
        if _COMMIT_ID.fullmatch(text):
            return text.decode()
        raise InputUnusable(
            "the ref's file is damaged: it holds no commit id",
            where=str(self.gitdir / ref),
            next_step=f"git -C {self.gitdir} fsck names dangling commits; write the newest of this ref's into the file",
        )

    def under(self, prefix: str, faults: dict[str, InputUnusable] | None = None) -> dict[str, str]:
        """All refs whose name starts with `prefix`: name -> tip, in order.

        Args:
            faults: takes the refs whose files are damaged, name -> why, so that the others are had all the same.

        Raises:
            InputUnusable: a ref's file is damaged, and no `faults` was given.
        """
        folder = prefix[: prefix.rindex("/")]
        found = {
            name.decode(): tip.decode()
            for name, tip in self.container.get_packed_refs().items()
            if name.decode().startswith(prefix)
        }
        for root, _, files in os.walk(self.gitdir / folder):
            for file in files:
                name = os.path.relpath(os.path.join(root, file), self.gitdir)
                if not name.startswith(prefix) or name.endswith(".lock"):
                    continue
                try:
                    tip = self.get(name)
                except InputUnusable as exc:
                    if faults is None:
                        raise
                    faults[name] = exc
                    found.pop(name, None)
                    continue
                if tip:
                    found[name] = tip
        return dict(sorted(found.items()))

    @contextlib.contextmanager
    def lock(self, patience_s: float = 30.0) -> Generator[None]:
        """The writers' lock of this repository; may be taken again by the thread that holds it.

        Raises:
            Contention: another process held it all the time.
        """
        depth = getattr(self._held, "depth", 0)
        if depth:
            self._held.depth = depth + 1
            try:
                yield
            finally:
                self._held.depth -= 1
            return
        fd = os.open(self.gitdir / "infer-forge.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            self._take(fd, patience_s)
            self._held.depth = 1
            try:
                yield
            finally:
                self._held.depth = 0
        finally:
            os.close(fd)

    def _take(self, fd: int, patience_s: float) -> None:
        deadline = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Contention(
                        f"another process held the store's lock for {patience_s:.0f} s",
                        where=str(self.gitdir / "infer-forge.lock"),
                        next_step="find it with `fuser`, then try again",
                    ) from None
                time.sleep(random.uniform(0.0005, 0.005))
            else:
                return

    def cas(self, ref: str, old: str | None, new: str | None, *, patience_s: float = 30.0) -> bool:
        """Move `ref` from `old` (None: absent) to `new` (None: delete it); False when it is not at `old`."""
        from dulwich.file import FileLocked

        check_ref(ref)
        with self.lock(patience_s):
            standing = _StandingLock(self.gitdir / f"{ref}.lock", patience_s)
            while True:
                if self.get(ref) != old:
                    return False
                try:
                    before = old.encode() if old else ABSENT
                    if new is None:
                        done = self.container.remove_if_equals(_name(ref), before)  # pyright: ignore[reportArgumentType]
                    else:
                        done = self.container.set_if_equals(_name(ref), before, new.encode())  # pyright: ignore[reportArgumentType]
                    if done:
                        return True
                except FileLocked:
                    standing.wait()


class _StandingLock:
    """Waits for a ref's lock file to go, and removes one that never changes: its writer was killed."""

    def __init__(self, path: Path, patience_s: float) -> None:
        self.path = path
        self.first = time.monotonic()
        self.patience_s = max(patience_s, LOCK_STANDS_S + 1)
        self.seen: tuple[int, int] | None = _identity(path)

    def wait(self) -> None:
        time.sleep(random.uniform(0.002, 0.02))
        now = _identity(self.path)
        waited = time.monotonic() - self.first
        if now != self.seen:
            self.seen, self.first = now, time.monotonic()
        elif now is not None and waited > LOCK_STANDS_S:
            self.path.unlink(missing_ok=True)
        if waited > self.patience_s:
            raise Contention("a git lock file stands in the way", where=str(self.path))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _name(ref: str):
    from dulwich.refs import Ref

    return Ref(ref.encode())


def check_ref(ref: str) -> str:
    """A full ref name that git accepts.

    Raises:
        UsageFault: it does not start with `refs/` or has a part that git refuses.
    """
    from dulwich.refs import check_ref_format

    if not ref.startswith("refs/") or ref.endswith(".lock") or not check_ref_format(_name(ref)):
        raise UsageFault("is no ref name that git accepts", where=repr(ref))
    return ref
