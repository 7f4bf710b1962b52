"""Inputs of a triage: which files, of which kind, and their bytes in blocks. Nothing is executed, nothing outside is read.

A folder is walked without following links; a link that leads out of the folder is told and not read. Tensor files and
GPU core files are listed, never opened: what they hold is for torch and cuda-gdb.
"""

from __future__ import annotations

import os
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from infer_forge.base.errors import InputUnusable

BLOCK = 1 << 22
MAX_FILES = 20_000
MAX_DEPTH = 12
MAX_INFLATED = 16 << 30
BOMB_RATIO = 400
HASH_UP_TO = 256 << 20
_BINARY = (
    ".pt",
    ".safetensors",
    ".pth",
    ".bin",
    ".npy",
    ".npz",
    ".so",
    ".nsys-rep",
    ".ncu-rep",
    ".png",
    ".whl",
    ".zip",
)


@dataclass
class Source:
    """One file of the input. `kind`: `log`, `pickle`, `metadata`, `session`, `record`, `flight_json`, `gpucore`, `skipped`."""

    path: Path
    shown: str
    kind: str
    size: int
    note: str = ""
    lost: list[str] = field(default_factory=list[str])


def sources(paths: list[str | Path]) -> list[Source]:
    """Every file of the inputs, in order. `-` is standard input.

    Raises:
        InputUnusable: a named path is not there, cannot be read, or there are too many files.
    """
    found: list[Source] = []
    for given in paths:
        if str(given) == "-":
            found.append(Source(Path("-"), "stdin", "log", 0))
            continue
        path = Path(given)
        try:
            info = path.stat()
        except OSError as exc:
            raise InputUnusable(exc.strerror or str(exc), where=str(path), next_step="check the path") from None
        except ValueError as exc:
            raise InputUnusable(str(exc), where=repr(str(given))) from None
        if stat.S_ISDIR(info.st_mode):
            found.extend(_walk(path))
        elif stat.S_ISREG(info.st_mode) or stat.S_ISFIFO(info.st_mode):
            if not os.access(path, os.R_OK):
                raise InputUnusable("may not be read", where=str(path))
            found.append(_kind(path, str(path), info.st_size, regular=stat.S_ISREG(info.st_mode)))
        else:
            raise InputUnusable("is a device or socket, no file", where=str(path))
        if len(found) > MAX_FILES:
            raise InputUnusable(
                f"holds more than {MAX_FILES:,} files", where=str(path), next_step="name the logs' folder"
            )
    return _once(found)


def _once(found: list[Source]) -> list[Source]:
    """A file that was named twice (alone and in its folder) is read once."""
    seen: dict[str, Source] = {}
    for source in found:
        seen.setdefault("-" if source.shown == "stdin" else os.path.realpath(source.path), source)
    return list(seen.values())


def total_bytes(paths: Iterable[str | Path]) -> int:
    """Bytes of the inputs as they lie on the disk; 0 for what is not there."""
    total = 0
    for path in paths:
        try:
            total += sum(s.size for s in sources([path]))
        except InputUnusable:
            continue
    return total


def _walk(root: Path) -> Iterator[Source]:
    count = 0
    for folder, folders, names in os.walk(root, followlinks=False):
        depth = len(Path(folder).relative_to(root).parts)
        folders[:] = sorted(f for f in folders if not f.startswith(".git") and depth < MAX_DEPTH)
        for name in sorted(names):
            path = Path(folder) / name
            shown = str(path)
            try:
                info = path.lstat()
            except OSError as exc:
                yield Source(path, shown, "skipped", 0, exc.strerror or str(exc))
                continue
            count += 1
            if count > MAX_FILES:
                raise InputUnusable(
                    f"holds more than {MAX_FILES:,} files", where=str(root), next_step="name the logs' folder"
                )
            if stat.S_ISLNK(info.st_mode):
                yield Source(path, shown, "skipped", 0, "a link: not followed inside a folder")
            elif not stat.S_ISREG(info.st_mode):
                yield Source(path, shown, "skipped", 0, "no regular file")
            elif not os.access(path, os.R_OK):
                yield Source(path, shown, "skipped", info.st_size, "may not be read")
            else:
                yield _kind(path, shown, info.st_size)


def _kind(path: Path, shown: str, size: int, *, regular: bool = True) -> Source:
    name = path.name.lower()
    if not regular:
        return Source(path, shown, "log", 0)
    if name.endswith(_BINARY):
        return Source(path, shown, "skipped", size, "binary: listed, not opened")
    if name == "metadata.json" or name == "metadata.jsonl":
        return Source(path, shown, "metadata", size)
    if name == "session.jsonl":
        return Source(path, shown, "session", size)
    if name == "record.json":
        return Source(path, shown, "record", size)
    if name == "gpus.json":
        return Source(path, shown, "gpus", size)
    if name == "requests.jsonl":
        return Source(path, shown, "skipped", size, "users' requests: no evidence")
    if name == "bundle.json":
        return Source(path, shown, "bundle", size)
    if name.endswith((".html", ".py", ".pyc")):
        return Source(path, shown, "skipped", size, "a page or program")
    try:
        with open(path, "rb") as file:
            head = file.read(64)
    except OSError as exc:
        return Source(path, shown, "skipped", size, exc.strerror or str(exc))
    if head[:4] == b"\x7fELF":
        return Source(path, shown, "gpucore", size, "core file: read it with cuda-gdb")
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return Source(path, shown, "pickle", size)
    if (
        head.lstrip()[:1] == b"{"
        and b'"' in head
        and (b"entries" in head or b"version" in head or b"pg_config" in head)
    ):
        return Source(path, shown, "flight_json", size)
    return Source(path, shown, "log", size)


def blocks(source: Source) -> Iterator[bytes]:
    """The bytes of a log in blocks of 4 MiB; gzip is told by its first bytes.

    A damaged or bomb-like gzip gives what could be read; `source.lost` says what was not.

    Raises:
        InputUnusable: the file cannot be opened.
    """
    if source.shown == "stdin":
        yield from iter(lambda: sys.stdin.buffer.read(BLOCK), b"")
        return
    try:
        file: BinaryIO = open(source.path, "rb")  # noqa: SIM115 (closed below)
    except OSError as exc:
        raise InputUnusable(exc.strerror or str(exc), where=source.shown) from None
    with file:
        head = file.peek(2)[:2] if hasattr(file, "peek") else b""  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue, reportUnknownVariableType]
        if head != b"\x1f\x8b":
            try:
                while block := file.read(BLOCK):
                    yield block
            except OSError as exc:
                source.lost.append(f"read error: {exc.strerror or exc}")
            return
        yield from _inflate(file, source)


def _inflate(file: BinaryIO, source: Source) -> Iterator[bytes]:
    """gzip members one after the other; what was inflated before a damage is given."""
    total = 0
    inflater = zlib.decompressobj(wbits=31)
    packed = b""
    try:
        while True:
            packed = packed or file.read(1 << 20)
            if not packed:
                if not inflater.eof and total:
                    source.lost.append(f"gzip is cut after {total:,} inflated bytes: the rest is lost")
                return
            block = inflater.decompress(packed, BLOCK)
            packed = inflater.unconsumed_tail
            if inflater.eof:
                packed = inflater.unused_data.lstrip(b"\0")
                inflater = zlib.decompressobj(wbits=31)
                if not packed and not (packed := file.read(1 << 20)):
                    yield block
                    return
            if block:
                total += len(block)
                yield block
            if total > MAX_INFLATED or (total > (1 << 30) and total > BOMB_RATIO * max(1, source.size)):
                source.lost.append(f"stopped after {total:,} inflated bytes: the rest was not read")
                return
    except (OSError, zlib.error) as exc:
        source.lost.append(f"gzip damaged after {total:,} inflated bytes ({exc}): the rest is lost")
