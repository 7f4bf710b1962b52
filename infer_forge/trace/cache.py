"""The column cache: two files a trace, read by mmap, safe to use and to delete at any time.

`KEY.kt` holds linked device work, calls, annotations, windows and all facts; `KEY.ev` the host events (ops, frames). KEY is
the hash of absolute path, size, mtime and reader version. Layout: magic, length and CRC32 of a JSON header, the header, then
64-byte aligned raw arrays. Written to a temporary file and renamed, so that a reader sees a whole file or none.
The bound is the setting `cache.limit_mb`; the event layers go first, least recently used first.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import secrets
import struct
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from infer_forge import __version__
from infer_forge.base.errors import InputUnusable
from infer_forge.base.paths import paths
from infer_forge.trace.columns import Annotations, Calls, Columns, DeviceWork, Frames, Ops, Syncs, Windows
from infer_forge.trace.model import Collective, Coverage, EventLayer, RankGroup, Thread, Trace, TraceHeader

FORMAT = 1
_MAGIC = b"IFTRACE\x01"
_HEAD = struct.Struct("<8sQII")
_ALIGN = 64
_TABLES: dict[str, type[Columns]] = {
    "work": DeviceWork,
    "calls": Calls,
    "syncs": Syncs,
    "annotations": Annotations,
    "windows": Windows,
}
_EVENTS: dict[str, type[Columns]] = {"ops": Ops, "frames": Frames}


class _Facts(msgspec.Struct):
    """What is no array."""

    header: TraceHeader
    coverage: Coverage
    groups: list[RankGroup]
    threads: list[Thread]
    collectives: list[Collective]
    names: list[str]
    stages: list[str]
    shapes: list[str]
    hints: dict[str, str]
    sha256: str | None
    size_bytes: int


class _Array(msgspec.Struct):
    """One column in the file."""

    table: str
    name: str
    dtype: str
    offset: int
    rows: int


class _Header(msgspec.Struct):
    """The JSON at the beginning of a cache file."""

    arrays: list[_Array]
    total_bytes: int
    facts: _Facts | None = None
    texts: list[str] | None = None


def folder() -> Path:
    """Where the cache lies."""
    return paths().cache / "traces"


def reader_version() -> str:
    """Changes with the package version, the format, and any change of the reader's own files."""
    room = Path(__file__).parent
    marks = [f"{__version__}.{FORMAT}"]
    for place in (room, room.parent / "engines"):
        with contextlib.suppress(OSError):
            for entry in sorted(os.scandir(place), key=lambda e: e.name):
                if entry.name.endswith(".py"):
                    stat = entry.stat()
                    marks.append(f"{entry.name}:{stat.st_size}:{stat.st_mtime_ns}")
    return "|".join(marks)


def key_of(path: Path) -> str:
    """The cache key of a file as it is now: path, size, times and reader version.

    The time of the last change of its state is among them, because tools that copy set the modification time: other
    content of the same size and time is another key.

    Raises:
        InputUnusable: the file cannot be looked at.
    """
    try:
        stat = path.stat()
    except OSError as exc:
        raise InputUnusable(exc.strerror or str(exc), where=str(path)) from None
    text = f"{path.absolute()}\0{stat.st_size}\0{stat.st_mtime_ns}\0{stat.st_ctime_ns}\0{reader_version()}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:40]


def find(path: Path, key: str, place: Path | None = None) -> Trace | None:
    """The cached trace of a key, or None. Its columns are read-only; a damaged file is removed and counts as none.

    Args:
        path: the trace file.
        key: of the file as it is now.
        place: another cache folder than the usual.
    """
    place = place or folder()
    loaded = _open(place / f"{key}.kt")
    if loaded is None or loaded[0].facts is None:
        return None
    header, tables = loaded
    facts = header.facts
    assert facts is not None
    made: dict[str, Any] = {k: form(**tables[k]) for k, form in _TABLES.items()}
    trace = Trace(
        path=path,
        size_bytes=facts.size_bytes,
        sha256=facts.sha256,
        header=facts.header,
        coverage=facts.coverage,
        names=facts.names,
        stages=facts.stages,
        groups=facts.groups,
        threads=facts.threads,
        collectives=facts.collectives,
        shapes=facts.shapes,
        hints=facts.hints,
        from_cache=True,
        **made,
    )
    trace.load_events = lambda: _events(path, key, place)
    return trace


def _write_linked(trace: Trace, path: Path) -> None:
    """The `.kt` layer: linked device work and everything that is no CPU event."""
    facts = _Facts(
        header=trace.header,
        coverage=trace.coverage,
        groups=trace.groups,
        threads=trace.threads,
        collectives=trace.collectives,
        names=trace.names,
        stages=trace.stages,
        shapes=trace.shapes,
        hints=trace.hints,
        sha256=trace.sha256,
        size_bytes=trace.size_bytes,
    )
    _write(path, {k: getattr(trace, k) for k in _TABLES}, facts=facts)


def as_bytes(trace: Trace, scratch: Path) -> bytes:
    """The linked columns as one piece, for another process or machine (`scratch`: a folder that may be written)."""
    path = scratch / "columns.kt"
    _write_linked(trace, path)
    return path.read_bytes()


def keep(trace: Trace, key: str) -> None:
    """Write both layers. A cache that cannot be written (full disk, read-only home) is no error: the trace was read."""
    with contextlib.suppress(OSError):
        folder().mkdir(parents=True, exist_ok=True)
        _write_linked(trace, folder() / f"{key}.kt")
        _write_events(trace.events, folder() / f"{key}.ev")
        trim(_limit_bytes(), keep_key=key)


def clear_cache() -> int:
    """Delete the whole cache; gives the bytes that were freed."""
    freed = 0
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder()):
            with contextlib.suppress(OSError):
                size = entry.stat().st_size
                os.unlink(entry.path)
                freed += size
    return freed


def trim(limit_bytes: int, keep_key: str = "") -> None:
    """Delete least recently used files until the cache is within its bound: event layers first, then whole traces."""
    files: list[tuple[int, float, int, str]] = []
    total = 0
    for entry in os.scandir(folder()):
        with contextlib.suppress(OSError):
            stat = entry.stat()
            total += stat.st_size
            order = 2 if entry.name.startswith(keep_key) and keep_key else 0 if entry.name.endswith(".ev") else 1
            files.append((order, stat.st_mtime, stat.st_size, entry.path))
    for _, _, size, path in sorted(files):
        if total <= limit_bytes:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
            total -= size


def _limit_bytes() -> int:
    from infer_forge.base.config import settings

    return int(settings().get("cache.limit_mb")) << 20


def _write_events(layer: EventLayer, path: Path) -> None:
    _write(path, {"ops": layer.ops, "frames": layer.frames}, texts=layer.texts)


def _events(path: Path, key: str, place: Path) -> EventLayer:
    """The event layer: from the cache, else by reading the file again."""
    loaded = _open(place / f"{key}.ev")
    if loaded is not None and loaded[0].texts is not None:
        made: dict[str, Any] = {k: form(**loaded[1][k]) for k, form in _EVENTS.items()}
        return EventLayer(made["ops"], made["frames"], loaded[0].texts)
    if key_of(path) != key:
        raise InputUnusable(
            "has changed since its columns were cached", where=str(path), next_step="run the command again"
        )
    from infer_forge.trace.read import parse

    layer = parse(path).events
    if place.is_dir():
        with contextlib.suppress(OSError):
            _write_events(layer, place / f"{key}.ev")
    return layer


def _write(path: Path, tables: dict[str, Columns], **more: Any) -> None:
    arrays: list[_Array] = []
    data: list[Any] = []
    at = 0
    for table, columns in tables.items():
        for name, column in columns.arrays().items():
            arrays.append(_Array(table, name, str(column.dtype), at, len(column)))
            data.append(np.ascontiguousarray(column))
            at += -(-column.nbytes // _ALIGN) * _ALIGN
    text = msgspec.json.encode(_Header(arrays, at, **more))
    head = _HEAD.pack(_MAGIC, len(text), _crc(text), 0)
    start = -(-(len(head) + len(text)) // _ALIGN) * _ALIGN
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "wb") as file:
            file.write((head + text).ljust(start, b"\0"))
            for column in data:
                if column.nbytes:
                    file.write(memoryview(column).cast("B"))
                file.write(b"\0" * (-column.nbytes % _ALIGN))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _open(path: Path) -> tuple[_Header, dict[str, dict[str, Any]]] | None:
    """Header and columns (views into the mapped file) of a cache file; None where it is missing or damaged."""
    try:
        with open(path, "rb") as file:
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None
    try:
        magic, size, crc, _ = _HEAD.unpack_from(view)
        text = view[_HEAD.size : _HEAD.size + size]
        if magic != _MAGIC or _crc(text) != crc:
            raise ValueError("damaged")
        header = msgspec.json.decode(text, type=_Header)
        start = -(-(_HEAD.size + size) // _ALIGN) * _ALIGN
        if len(view) != start + header.total_bytes:
            raise ValueError("cut off")
        tables: dict[str, dict[str, Any]] = {}
        for a in header.arrays:
            column = np.frombuffer(view, np.dtype(a.dtype), a.rows, start + a.offset)
            tables.setdefault(a.table, {})[a.name] = column
    except (ValueError, struct.error, msgspec.DecodeError, TypeError):
        with contextlib.suppress(OSError):
            os.unlink(path)
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return header, tables


def _crc(data: bytes) -> int:
    return zlib.crc32(data)
