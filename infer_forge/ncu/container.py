"""Reader of the container of `.ncu-rep` files: what NVIDIA's `ncu_report` does not tell, and whether the file is whole.

The layout is documented in NVIDIA's Nsight Compute Customization Guide ("Report File Format", version 7): the magic
`NVR\\0`, a sized FileHeader, then blocks of a sized BlockHeader and a payload. `ncu_report` opens garbage and cut files as
empty reports and reports its own version instead of the writer's; this reader counts results, finds the cut, and gives
versions, command line, kernel names, launch dimensions and durations without touching the metrics. Field numbers were
read off real files of ncu 2020.2 to 2025.1; what is not understood is left out, never guessed.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infer_forge.base.errors import InputUnusable
from infer_forge.base.inputs import finite
from infer_forge.ncu import session as session_of
from infer_forge.ncu.model import Session
from infer_forge.ncu.wire import encode_varint, fields, varint

MAGIC = b"NVR\0"
ZSTD = b"\x28\xb5\x2f\xfd"
_MAX_HEADER = 1 << 16
_NAMES_WINDOW = 1 << 16
_DURATION = b"gpu__time_duration.sum"
# BlockHeader fields.
_NUM_RESULTS, _SESSION, _STRINGS, _PAYLOAD = 2, 3, 4, 5
_NUM_RANGES, _NUM_CMDLISTS, _NUM_GRAPHS = 7, 8, 9


@dataclass(frozen=True, slots=True)
class Entry:
    """One result as the container shows it, before any metric is read."""

    index: int
    kernel: str
    demangled: str
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    duration_ns: float | None


@dataclass
class Container:
    """What the blocks of a file say.

    Attributes:
        results: kernel results, in file order. other_results: range, command-list and graph results, counted only.
        other_spans: where the blocks of `other_results` lie, from byte to byte.
        whole_bytes: length of the part that is whole; equal to the file's size when nothing is cut.
        cut: what is missing at the end, in words, or None.
    """

    path: str
    size: int
    version: int
    blocks: int = 0
    results: list[Entry] = field(default_factory=list[Entry])
    other_results: dict[str, int] = field(default_factory=dict[str, int])
    session: Session = field(default_factory=Session)
    other_spans: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    whole_bytes: int = 0
    cut: str | None = None


def looks_like(head: bytes) -> str:
    """What the first bytes of a file that is no report look like, in words."""
    known = (
        (b"", "empty") if not head else None,
        (b"SQLite format 3", "an SQLite file (an Nsight Systems export?)"),
        (b"\x1f\x8b", "a gzip file"),
        (b"PK\x03\x04", "a zip file"),
        (b"\x7fELF", "a program or core dump (ELF)"),
        (b"<", "an HTML or XML page"),
        (b"{", "JSON"),
        (b"version https://git-lfs", "a Git LFS pointer: fetch the file itself (`git lfs pull`)"),
    )
    for item in known:
        if item and head.startswith(item[0]):
            return item[1]
    return "not an Nsight Compute report (magic NVR missing)"


def read_container(path: str | Path) -> Container:
    """Walk the blocks of a report file.

    Raises:
        InputUnusable: the file is empty, no container, of an unknown version, or holds no whole result.
    """
    where = str(path)
    with open(finite(path), "rb") as file:
        head = file.read(64)
        if not head.startswith(MAGIC):
            kind = "is empty" if not head else f"is {looks_like(head)}"
            raise InputUnusable(kind, where=where, next_step="give a .ncu-rep, .ncu-repz, ncu --csv or ncu text file")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _walk(data, where)


def _walk(data: mmap.mmap, where: str) -> Container:
    (size,) = struct.unpack_from("<I", data, 4) if len(data) >= 8 else (0,)
    if not 0 < size <= _MAX_HEADER or 8 + size > len(data):
        raise InputUnusable("the file header is cut or damaged", where=where, next_step="collect the report again")
    version = next((v for n, v in fields(data[8 : 8 + size]) if n == 1 and isinstance(v, int)), 0)
    found = Container(where, len(data), version)
    strings: list[bytes] = []
    notes: dict[str, Any] = {}
    at = 8 + size
    while at < len(data):
        try:
            at = _block(data, at, found, strings, notes)
        except InputUnusable as exc:
            found.cut = f"block {found.blocks + 1} at byte {at} of {len(data)}: {exc.what}"
            break
        found.blocks += 1
        found.whole_bytes = at
    found.session = session_of.from_notes(notes)
    return found


def _block(data: mmap.mmap, at: int, found: Container, strings: list[bytes], notes: dict[str, Any]) -> int:
    """Read one block; returns where the next begins. Nothing of a cut block is kept."""
    begin = at
    if at + 4 > len(data):
        raise InputUnusable("the size of the block is cut")
    (size,) = struct.unpack_from("<I", data, at)
    at += 4
    if at + size > len(data):
        raise InputUnusable(f"its header wants {size} bytes, {len(data) - at} are left")
    header = list(fields(data[at : at + size]))
    at += size
    numbers = {n: v for n, v in header if isinstance(v, int)}
    payload = numbers.get(_PAYLOAD, 0)
    if at + payload > len(data):
        raise InputUnusable(f"its payload wants {payload} bytes, {len(data) - at} are left")
    entries: list[Entry] = []
    names = [v for n, raw in header if n == _STRINGS and isinstance(raw, bytes) for f, v in fields(raw) if f == 1]
    strings += [v for v in names if isinstance(v, bytes)]
    if numbers.get(_NUM_RESULTS):
        entries = _entries(data, at, at + payload, numbers[_NUM_RESULTS], len(found.results), strings)
    for number, raw in header:
        if number == _SESSION and isinstance(raw, bytes):
            session_of.collect(raw, notes)
    found.results += entries
    for number, kind in ((_NUM_RANGES, "range"), (_NUM_CMDLISTS, "cmdlist"), (_NUM_GRAPHS, "graph")):
        if numbers.get(number):
            found.other_results[kind] = found.other_results.get(kind, 0) + numbers[number]
            found.other_spans.append((begin, at + payload))
    return at + payload


def _entries(data: mmap.mmap, at: int, end: int, count: int, first: int, strings: list[bytes]) -> list[Entry]:
    out: list[Entry] = []
    duration_key = _metric_key(strings)
    for i in range(count):
        if at + 4 > end:
            raise InputUnusable(f"result {first + i} is cut")
        (size,) = struct.unpack_from("<I", data, at)
        at += 4
        if at + size > end:
            raise InputUnusable(f"result {first + i} wants {size} bytes, {end - at} are left")
        out.append(_entry(data, at, at + size, first + i, duration_key))
        at += size
    return out


def _metric_key(strings: list[bytes]) -> bytes | None:
    """The bytes with which the duration metric begins: its number in the string table, then a double."""
    try:
        number = strings.index(_DURATION)
    except ValueError:
        return None
    return b"\x08" + encode_varint(number) + b"\x12\x09\x19"


def _entry(data: mmap.mmap, at: int, end: int, index: int, duration_key: bytes | None) -> Entry:
    """Names, dimensions and duration of one result; only the fields before its metrics are decoded."""
    texts: dict[int, str] = {}
    sizes: dict[int, tuple[int, int, int]] = {}
    head = data[at : min(end, at + _NAMES_WINDOW)]
    pos = 0
    try:
        while pos < len(head):
            key, pos = varint(head, pos)
            number, kind = key >> 3, key & 7
            if kind == 0:
                _, pos = varint(head, pos)
                continue
            if kind != 2 or number >= 13:
                break
            size, pos = varint(head, pos)
            raw = head[pos : pos + size]
            pos += size
            if number in (5, 6, 7):
                texts[number] = raw.decode("utf-8", "replace")
            elif number in (10, 11):
                xyz = {n: v for n, v in fields(raw) if isinstance(v, int)}
                sizes[number] = (xyz.get(1, 1), xyz.get(2, 1), xyz.get(3, 1))
    except InputUnusable:
        pass  # names are a convenience here: the metrics' reader has the say
    duration = None
    if duration_key:
        found = data.find(duration_key, at, end)
        if found >= 0 and found + len(duration_key) + 8 <= end:
            (duration,) = struct.unpack_from("<d", data, found + len(duration_key))
    kernel = texts.get(6) or texts.get(7) or texts.get(5) or ""
    return Entry(index, kernel, texts.get(7) or kernel, sizes.get(10), sizes.get(11), duration)
