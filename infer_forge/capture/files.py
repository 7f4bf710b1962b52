"""Trace files that a server writes: which are new, when they are complete, and bringing them into the output folder."""

from __future__ import annotations

import gzip
import shutil
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from infer_forge.base import jobs
from infer_forge.base.errors import InputUnusable

_POLL_S = 0.1
# A file that did not grow for so long and ends like a trace is complete; one that ends otherwise is still being written.
_QUIET_S = 0.5
_TAIL_BYTES = 4096
_BLOCK_BYTES = 1 << 20
_OVERLAP_BYTES = 64  # longer than what tells device work, so that a border between blocks hides none


def seen(folder: Path, patterns: Sequence[str]) -> dict[Path, tuple[int, int]]:
    """Files of the folder (and below it) that match: path -> (size, mtime in ns)."""
    found = {p for pattern in patterns for p in folder.rglob(pattern)} if folder.is_dir() else set[Path]()
    return {p: (p.stat().st_size, p.stat().st_mtime_ns) for p in sorted(found) if p.is_file()}


def ends_whole(path: Path) -> bool:
    """Whether a trace file is complete: a gzip stream that ends with its trailer, and JSON that ends with a bracket."""
    try:
        last = b""
        with _opened(path) as file:
            if not isinstance(file, gzip.GzipFile):
                file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            while block := file.read(_BLOCK_BYTES):
                last = (last + block)[-_TAIL_BYTES:]
    except (OSError, EOFError, zlib.error):
        return False
    return last.rstrip()[-1:] in (b"}", b"]")


def holds_device_work(path: Path) -> bool:
    """Whether a trace file holds a kernel, copy or set of a GPU; read up to the first one only."""
    from infer_forge.trace.decode import DEVICE_EVENT

    last = b""
    with _opened(path) as file:
        while block := file.read(_BLOCK_BYTES):
            if DEVICE_EVENT.search(last + block):
                return True
            last = block[-_OVERLAP_BYTES:]
    return False


def _opened(path: Path) -> IO[bytes] | gzip.GzipFile:
    """A trace file, unpacked where its first bytes say that it is packed."""
    with open(path, "rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if zipped else open(path, "rb")


def wait_complete(
    folder: Path, patterns: Sequence[str], before: dict[Path, tuple[int, int]], seconds: float
) -> list[Path]:
    """Wait until new files are there and whole, and no more are being written.

    Raises:
        InputUnusable: no new file came in time, or the newest is still not whole; the message says which.
    """
    end = time.monotonic() + seconds
    start, last, since = time.monotonic(), {}, time.monotonic()
    while True:
        now = {p: s for p, s in seen(folder, patterns).items() if before.get(p) != s}
        if now != last:
            last, since = now, time.monotonic()
        quiet = time.monotonic() - since >= _QUIET_S
        if now and quiet and all(ends_whole(p) for p in now):
            return sorted(now)
        if time.monotonic() >= end:
            raise _not_complete(folder, patterns, now, seconds)
        jobs.progress(time.monotonic() - start, seconds, f"waiting for trace files in {folder}")
        time.sleep(_POLL_S)


def _not_complete(
    folder: Path, patterns: Sequence[str], now: dict[Path, tuple[int, int]], seconds: float
) -> InputUnusable:
    if not now:
        text = f"no new trace file ({', '.join(patterns)}) came within {seconds:.0f} s"
        hint = "see whether the server runs on this machine and may write there; its log names the folder it wrote to"
        return InputUnusable(text, where=str(folder), next_step=hint)
    broken = next((p for p in now if not ends_whole(p)), folder)
    size = now[broken][0] if broken in now else 0
    text = f"the trace file is not whole after {seconds:.0f} s ({size:,} bytes)"
    return InputUnusable(
        text,
        where=str(broken),
        next_step="give --export-s more time, or fewer --steps; triage also salvages a truncated file",
    )


def bring(files: Sequence[Path], target: Path) -> list[Path]:
    """Copy files into a folder; those that lie there already stay."""
    target.mkdir(parents=True, exist_ok=True)
    brought: list[Path] = []
    for file in files:
        place = target / file.name
        if file.resolve().parent != target.resolve():
            shutil.copy2(file, place)
        brought.append(place)
    return brought
