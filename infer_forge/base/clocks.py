"""GPU clock locks of this machine's runs: what was seen before, who was let lock what, and whether it was given back.

An append-only file (`state/guard/clocks.jsonl`) that the guard's hook and `base.machine.clocks` write. Neither NVML nor
nvidia-smi tells a locked range (there is nvmlDeviceSetGpuLockedClocks and nvmlDeviceResetGpuLockedClocks, and no getter),
so what a GPU has to go back to is known from these records alone: an older lock of ours that still stands, else the
standing lock that a person declared, else the driver's default. After a reboot the default is in force (NVML, Device
Commands), so records of another boot are closed. Standard library only, because the guard's hook imports this.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from infer_forge.base.ownership import boot_id, node_name
from infer_forge.base.paths import paths

SEEN_MAX_AGE_S = 3600.0
"""A lock is asked about only when its GPUs were looked at within this time."""
OPEN = ("asked", "allowed", "ran", "failed", "restoring", "restore_failed")
"""States of a lock that may still be in force."""
Range = tuple[int, int]
"""Lowest and highest clock in MHz."""


@dataclass
class Lock:
    """One GPU's part of one `nvidia-smi -lgc`.

    Attributes:
        ident: of the tool call that was asked about; one call may lock several GPUs.
        gpu: index as nvidia-smi counts; `uuid` when it was seen.
        want: the range asked for, MHz.
        root: it ran through sudo, so giving it back may need that as well.
        state: one of `OPEN`, or `restored`, `gone` (not in force any more, and not by us), `dropped` (a person said so).
        why: the last word on its state.
    """

    ident: str
    gpu: int
    uuid: str | None
    want: Range
    root: bool
    state: str
    at: float
    run_id: str | None
    claim_id: str | None
    epoch: int | None
    why: str = ""

    @property
    def confirmed(self) -> bool:
        """Whether it is known to have run, or a person let it run beforehand."""
        return self.state in ("allowed", "ran", "restoring", "restore_failed")

    @property
    def is_open(self) -> bool:
        """Whether it may still be in force."""
        return self.state in OPEN


@dataclass
class Book:
    """What the file says of this node and boot.

    Attributes:
        locks: oldest first.
        seen: GPU index -> the newest look at it (`sm_mhz`, `idle_mhz`, `uuid`, `at`, ..).
        standing: GPU index -> the lock that a person declared to be there always; None: declared to have none.
        lost: lines that could not be read.
    """

    locks: list[Lock] = field(default_factory=list[Lock])
    seen: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    standing: dict[int, Range | None] = field(default_factory=dict[int, "Range | None"])
    lost: int = 0

    def open(self, claim_id: str | None = None) -> list[Lock]:
        """Locks that may still be in force, of one claim or of all."""
        return [k for k in self.locks if k.is_open and claim_id in (None, k.claim_id)]

    def before(self, lock: Lock, leaving: Iterable[Lock] = ()) -> Range | None:
        """What was in force under a lock: an older open lock of ours (but those that go with it), else the standing one, else none."""
        gone = {(k.ident, k.gpu) for k in leaving}
        at = self.locks.index(lock)
        for older in reversed(self.locks[:at]):
            if older.gpu == lock.gpu and older.is_open and older.confirmed and (older.ident, older.gpu) not in gone:
                return older.want
        return self.standing.get(lock.gpu)


def file() -> str:
    """Where the records stand."""
    return str(paths().state / "guard" / "clocks.jsonl")


def append(event: str, **facts: Any) -> None:
    """Add one record and flush it to the disk.

    Raises:
        OSError: it could not be written; nothing is locked or restored then.
    """
    path = file()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    line = {"event": event, "at": time.time(), "node": node_name(), "boot": boot_id(), **facts}
    data = (json.dumps(line, separators=(",", ":")) + "\n").encode()
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            data = b"\n" + data  # whoever wrote last was killed in the middle of a line
        os.write(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)


def read() -> Book:
    """Everything of this node since it booted."""
    book = Book()
    try:
        with open(file(), "rb") as handle:
            lines = handle.read().splitlines()
    except FileNotFoundError:
        return book
    node, boot = node_name(), boot_id()
    for line in lines:
        if not line.strip():
            continue
        try:
            data: dict[str, Any] = json.loads(line)
            if data["node"] == node and data["boot"] == boot:
                _apply(book, data)
        except (ValueError, KeyError, TypeError):
            book.lost += 1
    return book


def _apply(book: Book, data: dict[str, Any]) -> None:
    event = data["event"]
    if event == "seen":
        book.seen[int(data["gpu"])] = data
    elif event == "standing":
        mhz = data["mhz"]
        book.standing[int(data["gpu"])] = (int(mhz[0]), int(mhz[1])) if mhz else None
    elif event in ("asked", "allowed"):
        low, high = data["mhz"]
        for gpu in data["gpus"]:
            uuid = (book.seen.get(int(gpu)) or {}).get("uuid")
            book.locks.append(
                Lock(
                    str(data["id"]), int(gpu), uuid, (int(low), int(high)), bool(data.get("root")), event,
                    float(data["at"]), data.get("run_id"), data.get("claim_id"), data.get("epoch"),
                )
            )  # fmt: skip
    else:
        for lock in book.locks:
            if lock.ident == data["id"] and data.get("gpu") in (None, lock.gpu) and lock.is_open:
                lock.state, lock.why = event, str(data.get("why", ""))


def unseen(gpus: Iterable[int]) -> list[int]:
    """Which of these GPUs nobody looked at within the last hour: a lock on them could not be given back."""
    seen, now = read().seen, time.time()
    return [g for g in sorted(gpus) if g not in seen or now - float(seen[g]["at"]) > SEEN_MAX_AGE_S]
