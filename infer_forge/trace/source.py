"""Bytes of a trace file: plain, gzip or zstd by content (never by name), as a bounded stream, hashed on the side."""

from __future__ import annotations

import hashlib
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infer_forge.base.errors import InputUnusable, MissingPart
from infer_forge.base.inputs import finite

BLOCK = 1 << 19
"""Uncompressed bytes of one block: a block and its decoded events stay in a core's L2 cache."""
_RAW = 1 << 18
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


class Hasher:
    """sha256 of a file in a thread of its own (hashlib lets the interpreter go while it works)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digest: str | None = None
        self._thread = threading.Thread(target=self._work, name="trace-sha256", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        total = hashlib.sha256()
        try:
            with open(self._path, "rb", buffering=0) as file:
                while block := file.read(1 << 20):
                    total.update(block)
        except OSError:
            return
        self._digest = total.hexdigest()

    def result(self) -> str | None:
        """The hex digest; None where the file could not be read to its end."""
        self._thread.join()
        return self._digest


class ByteSource:
    """The uncompressed bytes of a file as an iterator of blocks of at most `BLOCK` bytes.

    After iteration `ended` is None, or says why the stream stopped before its end; what came before is valid.

    Raises:
        InputUnusable: the file cannot be opened.
        MissingPart: it is zstd and no zstd library is installed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ended: str | None = None
        self.junk_bytes = 0
        """Bytes after the end of the compressed stream that belong to no stream."""
        try:
            with open(finite(path), "rb") as file:
                magic = file.read(4)
        except IsADirectoryError:
            raise InputUnusable("is a directory", where=str(path)) from None
        except OSError as exc:
            raise InputUnusable(exc.strerror or str(exc), where=str(path)) from None
        self.kind = "gzip" if magic[:2] == _GZIP else "zstd" if magic == _ZSTD else "plain"

    def __iter__(self) -> Iterator[bytes]:
        if self.kind == "gzip":
            return self._inflate()
        return self._zstd() if self.kind == "zstd" else self._raw(BLOCK)

    def _raw(self, size: int) -> Iterator[bytes]:
        try:
            with open(self.path, "rb", buffering=0) as file:
                while block := file.read(size):
                    yield block
        except OSError as exc:
            self.ended = f"read error ({exc.strerror or exc})"

    def _inflate(self) -> Iterator[bytes]:
        engine, fault = _inflater()
        good = 0
        state = engine()
        for raw in self._raw(_RAW):
            data = raw
            while data:
                try:
                    out = state.decompress(data, BLOCK)
                except fault as exc:
                    self.ended = f"damaged gzip stream ({exc})"
                    yield from self._rescue(good)
                    return
                good += len(out)
                if out:
                    yield out
                if state.eof:
                    data = state.unused_data
                    if data[:2] != _GZIP:
                        self.junk_bytes += len(data)
                        data = b""
                        if self.junk_bytes:
                            return
                        continue
                    state = engine()
                else:
                    data = state.unconsumed_tail
        if not state.eof:
            yield from self._drain(state, fault)
            self.ended = self.ended or "truncated gzip stream"

    def _drain(self, state: Any, fault: tuple[type[Exception], ...]) -> Iterator[bytes]:
        """What the inflater still holds when the input has ended."""
        try:
            while out := state.decompress(b"", BLOCK):
                yield out
        except fault as exc:
            self.ended = f"damaged gzip stream ({exc})"

    def _rescue(self, good: int) -> Iterator[bytes]:
        """The bytes between what was given out (`good`) and the damage: inflated again in single input bytes near it."""
        state = zlib.decompressobj(31)
        given = 0
        for raw in self._raw(_RAW):
            for at in range(0, len(raw), 64):
                data = raw[at : at + 64]
                while data:
                    try:
                        out = state.decompress(data, BLOCK)
                    except zlib.error:
                        return
                    fresh = out[max(0, good - given) :]
                    given += len(out)
                    if fresh:
                        yield fresh
                    if state.eof:
                        data, state = state.unused_data, zlib.decompressobj(31)
                    else:
                        data = state.unconsumed_tail

    def _zstd(self) -> Iterator[bytes]:
        try:
            import zstandard
        except ImportError:
            raise MissingPart(
                "reading zstd needs the zst extra", where=str(self.path), next_step='pip install "infer-forge[zst]"'
            ) from None
        reader: Any = zstandard.ZstdDecompressor(max_window_size=1 << 31)
        try:
            with open(self.path, "rb") as file, reader.stream_reader(file, read_across_frames=True) as stream:
                while block := stream.read(BLOCK):
                    yield block
        except zstandard.ZstdError as exc:
            self.ended = f"damaged zstd stream ({exc})"


def _inflater() -> tuple[Any, tuple[type[Exception], ...]]:
    """A factory of gzip inflaters (isal where installed: three times as fast) and what they raise on damage."""
    try:
        from isal import isal_zlib
    except ImportError:
        return (lambda: zlib.decompressobj(31)), (zlib.error,)
    fault: Any = isal_zlib.error  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
    module: Any = isal_zlib
    return (lambda: module.decompressobj(31)), (fault, zlib.error)
