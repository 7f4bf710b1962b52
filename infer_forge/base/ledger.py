"""Append-only JSON-lines files whose lines are chained by hash: what was recorded is never lost and never edited unseen.

One line is one entry, plain JSON that any tool reads::

    {"hash":"<64 hex>","seq":1,"at":"2026-01-02T03:04:05.678901Z","kind":"row","prev":"<64 hex>","body":{...}}

`hash` is the SHA-256 of the line's own bytes without the hash member, so verifying needs no canonical form and no
float ever changes by being printed twice. `prev` is the hash of the line before (64 zeros for the first).

Writers take an exclusive `flock` on the file, write a whole line, and `fsync` it before they answer: an entry that
`append` returned survives `kill -9` and a power cut. A line torn by either is not an entry; the next writer moves its
bytes to `NAME.torn` and goes on. A line that is whole but wrong is no accident: nothing is appended behind it.

A chain cannot tell that its last lines were cut off. Whoever must know keeps a head (`Ledger.head()`) elsewhere and
passes it to `verify(must_contain=...)`. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO, cast

from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault

GENESIS = "0" * 64
"""The `prev` of the first entry."""

_PREFIX = b'{"hash":"'
_HASH_END = len(_PREFIX) + 64
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Entry:
    """One recorded line: its place in the chain, when and of what kind it is, and what it says."""

    seq: int
    at: str
    kind: str
    body: dict[str, Any]
    prev: str
    hash: str


@dataclass(frozen=True)
class Verification:
    """What a walk over the whole chain saw. `ok` speaks of the chain; a torn tail is no fault, only not an entry."""

    ok: bool
    entries: int
    head: str
    fault: str | None = None
    fault_line: int | None = None
    torn_bytes: int = 0


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _line(seq: int, at: str, kind: str, prev: str, body: Mapping[str, Any]) -> tuple[bytes, str]:
    try:
        rest = json.dumps(
            {"seq": seq, "at": at, "kind": kind, "prev": prev, "body": body},
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
        )[1:].encode("utf-8")
    except (TypeError, ValueError) as fault:
        raise UsageFault(
            f"this cannot be recorded as JSON: {fault}",
            next_step="unknown is null; write infinities and dates as text",
        ) from fault
    digest = hashlib.sha256(b"{" + rest).hexdigest()
    return _PREFIX + digest.encode() + b'",' + rest + b"\n", digest


def _parse(line: bytes) -> Entry | str:
    """The entry of a line without its newline, or why it is none."""
    if not line.startswith(_PREFIX) or line[_HASH_END : _HASH_END + 2] != b'",':
        return "not a ledger line"
    stated = line[len(_PREFIX) : _HASH_END].decode("ascii", "replace")
    rest = line[_HASH_END + 2 :]
    if hashlib.sha256(b"{" + rest).hexdigest() != stated:
        return "its bytes do not match its hash"
    try:
        raw = cast("dict[str, Any]", json.loads(b"{" + rest))
        return Entry(int(raw["seq"]), str(raw["at"]), str(raw["kind"]), dict(raw["body"]), str(raw["prev"]), stated)
    except (ValueError, KeyError, TypeError, RecursionError):
        return "its hash is right but it is not an entry"


def _last_line(file: BinaryIO, end: int) -> bytes:
    """The last whole line that ends at byte `end` (without its newline); empty when there is none."""
    if end == 0:
        return b""
    buffer = b""
    at = end - 1
    while at > 0:
        step = min(_BLOCK, at)
        at -= step
        file.seek(at)
        buffer = file.read(step) + buffer
        cut = buffer.rfind(b"\n")
        if cut >= 0:
            return buffer[cut + 1 :]
    return buffer


def _whole_end(file: BinaryIO) -> tuple[int, int]:
    """(offset just past the last newline, size of the file)."""
    size = file.seek(0, os.SEEK_END)
    at = size
    while at > 0:
        step = min(_BLOCK, at)
        at -= step
        file.seek(at)
        cut = file.read(step).rfind(b"\n")
        if cut >= 0:
            return at + cut + 1, size
    return 0, size


def _sync_directory(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Writing:
    """The ledger while its exclusive lock is held: read, decide and append as one step (see `Ledger.writing`)."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file
        self._repair()
        end, _ = _whole_end(file)
        last = _last_line(file, end)
        self._seq, self._head = 0, GENESIS
        if last:
            entry = _parse(last)
            if isinstance(entry, str):
                raise InputUnusable(
                    f"the last line of the ledger is damaged: {entry}",
                    where=str(path),
                    next_step="nothing was appended; compare with a copy, or start a new run",
                )
            self._seq, self._head = entry.seq, entry.hash

    @property
    def head(self) -> str:
        """Hash of the last entry (`GENESIS` when empty)."""
        return self._head

    def _repair(self) -> None:
        """Move bytes behind the last newline aside; complete them instead where only the newline is missing."""
        end, size = _whole_end(self._file)
        if end == size:
            return
        self._file.seek(end)
        tail = self._file.read(size - end)
        if isinstance(_parse(tail), Entry):
            self._write_at_end(b"\n")
            return
        aside = self._path.with_name(self._path.name + ".torn")
        with aside.open("ab") as keep:
            keep.write(tail + b"\n")
            keep.flush()
            os.fsync(keep.fileno())
        _sync_directory(self._path.parent)
        os.ftruncate(self._file.fileno(), end)
        os.fsync(self._file.fileno())

    def _write_at_end(self, data: bytes) -> None:
        self._file.seek(0, os.SEEK_END)
        self._file.write(data)
        self._file.flush()
        os.fsync(self._file.fileno())

    def entries(self) -> Iterator[Entry]:
        """Every entry so far, oldest first."""
        yield from _walk(self._path)

    def append(self, kind: str, body: Mapping[str, Any]) -> Entry:
        """Record one entry; when this returns it is on disk. Raises `UsageFault` for what JSON cannot say."""
        return self.append_all([(kind, body)])[0]

    def append_all(self, items: list[tuple[str, Mapping[str, Any]]]) -> list[Entry]:
        """Record several entries with one sync. A crash in between keeps a prefix of them, never a part of one."""
        lines: list[bytes] = []
        made: list[Entry] = []
        seq, head = self._seq, self._head
        for kind, body in items:
            seq += 1
            at = _now()
            line, digest = _line(seq, at, kind, head, body)
            lines.append(line)
            made.append(Entry(seq, at, kind, dict(body), head, digest))
            head = digest
        self._write_at_end(b"".join(lines))
        self._seq, self._head = seq, head
        return made


def _walk(path: Path) -> Iterator[Entry]:
    number, prev, seq = 0, GENESIS, 0
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            number += 1
            entry = _parse(line[:-1])
            if isinstance(entry, str):
                raise InputUnusable(
                    f"line {number} of the ledger cannot be trusted: {entry}",
                    where=str(path),
                    next_step="what stands behind it is not used; compare with a copy",
                )
            if entry.prev != prev or entry.seq != seq + 1:
                raise InputUnusable(
                    f"line {number} of the ledger does not follow from the line before: something was removed or moved",
                    where=str(path),
                    next_step="what stands behind it is not used; compare with a copy",
                )
            prev, seq = entry.hash, entry.seq
            yield entry


class Ledger:
    """An append-only, hash-chained file. Cheap to make; touches the disk only when asked to read or write."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @contextlib.contextmanager
    def writing(self) -> Generator[Writing]:
        """Hold the exclusive lock: what is read inside is what the next append follows.

        Use it for "only once" and "only if": read `entries()`, decide, `append()`. Raises `InputUnusable` when the last
        line is damaged (a torn tail is repaired first).
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = not self.path.exists()
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "r+b") as file:
            if fresh:
                _sync_directory(self.path.parent)
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
            yield Writing(self.path, file)

    def append(self, kind: str, body: Mapping[str, Any], *, expect: str | None = None) -> Entry:
        """Record one entry, on disk when this returns.

        `expect` is the head that the caller decided on: raises `GateRefused` when somebody else wrote since.
        """
        with self.writing() as ledger:
            if expect is not None and ledger.head != expect:
                raise GateRefused(
                    "the ledger has grown since it was read",
                    where=str(self.path),
                    next_step="read the new entries and decide again",
                )
            return ledger.append(kind, body)

    def append_all(self, items: list[tuple[str, Mapping[str, Any]]]) -> list[Entry]:
        """Record several entries with one sync."""
        with self.writing() as ledger:
            return ledger.append_all(items)

    @contextlib.contextmanager
    def _reading(self) -> Generator[None]:
        """Hold the shared lock, so that no half of somebody's line is taken for a torn one."""
        with self.path.open("rb") as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH)
            yield

    def entries(self, kind: str | None = None) -> list[Entry]:
        """Every entry (of one kind), oldest first; an absent file holds none.

        A torn tail is skipped. Raises `InputUnusable` at the first line that was changed, removed or moved.
        """
        if not self.path.exists():
            return []
        with self._reading():
            return [entry for entry in _walk(self.path) if kind is None or entry.kind == kind]

    def head(self) -> str:
        """Hash of the last whole entry, without walking the file (`GENESIS` when empty)."""
        if not self.path.exists():
            return GENESIS
        with self._reading(), self.path.open("rb") as file:
            end, _ = _whole_end(file)
            last = _last_line(file, end)
        if not last:
            return GENESIS
        entry = _parse(last)
        if isinstance(entry, str):
            raise InputUnusable(f"the last line of the ledger is damaged: {entry}", where=str(self.path))
        return entry.hash

    def tail(self, since: str) -> list[Entry]:
        """The entries behind the one whose hash is `since` (`GENESIS`: all). Raises `InputUnusable` if it is gone."""
        entries = self.entries()
        if since == GENESIS:
            return entries
        for index, entry in enumerate(entries):
            if entry.hash == since:
                return entries[index + 1 :]
        raise InputUnusable(
            f"the ledger holds no entry {since[:12]}: it was cut, or this is another ledger", where=str(self.path)
        )

    def verify(self, *, must_contain: str | None = None) -> Verification:
        """Walk the whole chain and say what is wrong, if anything; never raises for a bad file.

        `must_contain`: the hash of an entry known to have been recorded, so that a cut-off end is seen too.
        """
        if not self.path.exists():
            gone = must_contain not in (None, GENESIS)
            return Verification(not gone, 0, GENESIS, "the file is gone" if gone else None)
        with self._reading():
            return self._verify(must_contain)

    def _verify(self, must_contain: str | None) -> Verification:
        count, head, torn = 0, GENESIS, 0
        seen = must_contain in (None, GENESIS)
        with self.path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    torn = len(line)
                    break
                entry = _parse(line[:-1])
                if isinstance(entry, str):
                    return Verification(False, count, head, entry, count + 1)
                if entry.prev != head or entry.seq != count + 1:
                    return Verification(False, count, head, "does not follow from the line before", count + 1)
                count, head = entry.seq, entry.hash
                seen = seen or head == must_contain
        if not seen:
            return Verification(
                False, count, head, f"entry {str(must_contain)[:12]} is missing: the end was cut off", count, torn
            )
        return Verification(True, count, head, torn_bytes=torn)
