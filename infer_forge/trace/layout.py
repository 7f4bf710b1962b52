"""Where the event array of a file begins, how its events are separated, and what stands around it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infer_forge.base.errors import InputUnusable
from infer_forge.trace.decode import Decoder, walk_array
from infer_forge.trace.foreign import refusal
from infer_forge.trace.model import Coverage
from infer_forge.trace.source import ByteSource
from infer_forge.trace.times import FLOAT_LIMIT_US

HEAD_LIMIT = 16 << 20
"""Bytes within which the event array must begin (Hugging Face files put a metadata block before it)."""
GAP_LIMIT = 64 << 20
"""Bytes without an event boundary after which reading stops."""
_SAMPLE = 1 << 16

_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_FIRST_EVENT = re.compile(rb'\[\s*\{\s*"(?:ph|name|cat|pid|tid|ts|args)"\s*:')
_BOUNDARY = re.compile(rb'\}\s*,(\s*\{\s*"(?:[^"\\]{1,40})")')
_OBJECT = re.compile(rb'(\s*\{\s*"(?:[^"\\]{1,40})")')
_EVENT_KEY = re.compile(rb'"(?:ph|traceEvents)"')
_END = re.compile(rb"\}\s*(\])\s*(?=[,}]|\Z)")
_TS = re.compile(rb'"ts"\s*:\s*(-?[\d.eE+]+)')
_BOM = b"\xef\xbb\xbf"


class EventArray:
    """The event array of a trace file as blocks; `keys` holds the top-level keys around it once it is read to the end.

    Raises:
        InputUnusable: the file is no torch-profiler trace; the message says what it seems to be.
    """

    def __init__(self, source: ByteSource, path: Path, coverage: Coverage) -> None:
        self._source = source
        self._stream = iter(source)
        self.path = path
        self.coverage = coverage
        self.keys: dict[str, Any] = {}
        head, self._start = self._find_start()
        self._first = head
        sample = head[self._start : self._start + 4 * _SAMPLE]
        self.decoder = Decoder(coverage, self._separator(sample))
        stamps = _TS.findall(sample)
        self.decoder.exact = any(b"." in t and _number(t) > FLOAT_LIMIT_US for t in stamps)

    def _find_start(self) -> tuple[bytes, int]:
        """The first bytes of the file and the offset in them right behind the array's bracket."""
        head, start = b"", -1
        for block in self._stream:
            head += block
            self.coverage.bytes_read += len(block)
            if start < 0:
                start = self._start_in(head)
            if start < 0 and (len(head) > HEAD_LIMIT or not _looks_like_json(head)):
                break
            if start >= 0 and len(head) - start >= _SAMPLE:
                break
        if start < 0:
            found = _FIRST_EVENT.search(head) if _looks_like_json(head) and b'"ph"' in head else None
            if found is None:
                raise refusal(self.path, head, self._source.ended)
            start = head.index(b"[", found.start()) + 1
            self.decoder = Decoder(self.coverage, b"{")
            self.decoder.lost(0, head[: start - 1], "no traceEvents key before the first event", events=0)
        elif not _EVENT_KEY.search(head):
            raise refusal(self.path, head, self._source.ended)
        return head, start

    def _start_in(self, head: bytes) -> int:
        at = 3 if head.startswith(_BOM) else 0
        text = head[at : at + 4096].lstrip()
        if text[:1] == b"[":
            return head.index(b"[") + 1
        found = _KEY.search(head) if text[:1] == b"{" else None
        if found is None:
            return -1
        lead, stop = walk_keys(head[at : found.start()])
        self.keys.update(lead)
        rest = head[at + stop : found.start()].strip(b" \t\r\n,")
        if rest:
            Decoder(self.coverage, b"{").lost(at + stop, rest, "damaged keys before the events", events=0)
        return found.end()

    @staticmethod
    def _separator(sample: bytes) -> bytes:
        """What stands at the beginning of an event, from the comma on: white space, brace, first key."""
        seen = Counter(m[1] for m in _BOUNDARY.finditer(sample))
        if seen:
            return max(seen, key=lambda s: (s.endswith(b'"ph"'), seen[s]))
        first = _OBJECT.match(sample)
        return first[1] if first else b'{"ph"'

    def blocks(self) -> Iterator[tuple[tuple[bytes | memoryview, ...], int]]:
        """Pieces of the array that end at an event boundary, each with its offset; the rest is kept for `finish`."""
        separator = self.decoder.separator
        rest: list[bytes | memoryview] = []
        held, offset = 0, self._start
        pending: bytes = self._first[self._start :]
        self._first = b""
        while True:
            cut = pending.rfind(separator)
            while cut > 0 and pending[cut - 1] != 0x2C and held + cut > 0:  # a boundary has its comma before it
                cut = pending.rfind(separator, 0, cut)
            if cut > 0:
                view = memoryview(pending)
                yield (*rest, view[: cut - 1]), offset
                offset += held + cut
                rest.clear()
                rest.append(pending[cut:])
                held = len(pending) - cut
            else:
                rest.append(pending)
                held += len(pending)
                if held > GAP_LIMIT:
                    self.coverage.truncated = f"no event boundary within {GAP_LIMIT >> 20} MiB at byte {offset}"
                    break
            block = next(self._stream, None)
            if block is None:
                break
            self.coverage.bytes_read += len(block)
            pending = block
        self._rest, self._offset = b"".join(rest), offset

    def finish(self) -> tuple[list[Any], bool]:
        """Events behind the last boundary, and whether all are of the strict form; reads the keys after the array."""
        data, offset, decoder = self._rest, self._offset, self.decoder
        self._rest = b""
        if self._source.ended:  # also where the text is whole: a wrong checksum says that its bytes may be wrong
            self._truncated(self._source.ended)
        found, stop = walk_array(data, 0)
        events, clean = [], True
        if found:
            events, clean = decoder.block((data[found[0][0] : found[-1][1]],), offset + found[0][0])
        if stop < len(data) and data[stop] != 0x5D:
            end = _END.search(data, stop)
            piece = data[stop : end.start(1)] if end else data[stop:]
            if end is None and self._ended_early():
                decoder.lost(offset + stop, piece, "cut off")
            else:
                more, _ = decoder.block((piece,), offset + stop)
                events, clean = events + more, False
            stop = end.start(1) if end else len(data)
        if stop >= len(data):
            self._truncated("the file ends inside the event array")
            return events, clean
        self._trailer(data[stop + 1 :], offset + stop + 1)
        return events, clean

    def _ended_early(self) -> bool:
        return self._source.ended is not None or self.coverage.truncated is not None

    def _truncated(self, why: str) -> None:
        self.coverage.truncated = self.coverage.truncated or self._source.ended or why

    def _trailer(self, data: bytes, offset: int) -> None:
        if junk := self._source.junk_bytes:
            self.decoder.lost(offset + len(data), b"", f"{junk} bytes behind the gzip stream", events=0)
            self.coverage.bytes_lost += junk
        text = data.strip()
        if not text and not self.keys and self._start <= 4:
            return
        keys, stop = walk_keys(b"{" + data) if data.lstrip()[:1] in (b",", b'"') else ({}, 1)
        self.keys.update(keys)
        rest = data[stop - 1 :].strip()
        if rest == b"}":
            return
        if rest[:1] == b"}" or rest:
            self.decoder.lost(offset + stop - 1, rest, "bytes behind the events", events=0)
        if self._source.ended or not rest:
            self._truncated("the file ends before its last brace")


def walk_keys(data: bytes) -> tuple[dict[str, Any], int]:
    """Keys and values of an object from its brace on, as far as they are whole, and the offset where that ends."""
    text = data.decode("latin-1")
    walker = json.JSONDecoder(strict=False)
    found: dict[str, Any] = {}
    at = text.find("{") + 1
    while True:
        start = at
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if at >= len(text) or text[at] != '"':
            return found, start if at >= len(text) else at
        try:
            key, at = walker.raw_decode(text, at)
            while text[at : at + 1] in (" ", "\t", "\r", "\n"):
                at += 1
            if text[at : at + 1] != ":":
                return found, start
            at += 1
            while text[at : at + 1] in (" ", "\t", "\r", "\n"):
                at += 1
            value, at = walker.raw_decode(text, at)
        except (ValueError, RecursionError):
            return found, start
        found[_utf8(key)] = _utf8(value)


def _utf8(value: Any) -> Any:
    """Texts back from the latin-1 walk."""
    if isinstance(value, str):
        return value.encode("latin-1", "replace").decode("utf-8", "replace") if not value.isascii() else value
    if isinstance(value, list):
        return [_utf8(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {_utf8(k): _utf8(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value


def _looks_like_json(head: bytes) -> bool:
    text = head[:4096].removeprefix(_BOM).lstrip()
    return not text or text[:1] in (b"{", b"[")


def _number(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def refuse_empty(path: Path, coverage: Coverage) -> InputUnusable:
    """The refusal of a file whose event array holds no event."""
    return InputUnusable(
        "holds an event array without a readable event"
        + (f" ({coverage.truncated})" if coverage.truncated else "")
        + (f"; {coverage.events_lost} events were damaged" if coverage.events_lost else ""),
        where=str(path),
        next_step="record the trace again with torch.profiler and export_chrome_trace",
    )
