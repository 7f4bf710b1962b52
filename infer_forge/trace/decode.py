"""Bytes of events -> decoded events: whole blocks at once, single events where a block is damaged, repair where an event is.

Chrome trace event format (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU) as kineto writes it.
Known damage: control characters (pytorch#136180), stray backslashes (pytorch#98432), `"Process Group Description": ,`
(pytorch#172353), bare inf and NaN, invalid UTF-8.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from infer_forge.trace.model import Coverage, Loss

NO_RAW = msgspec.Raw()
MAX_LOSSES = 50
"""Losses that are listed one by one; further ones are only counted."""


Phase = Literal["X", "s", "f", "M", "i"]
Category = Literal[
    "python_function", "cpu_op", "cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy", "gpu_memset", "ac2g", "fwdbwd",
    "cuda_sync", "user_annotation", "gpu_user_annotation", "cpu_instant_event", "overhead", "Trace",
]  # fmt: skip
"""The usual words: decoded into one text object each, which makes them cheap to hash. Others take `OddEvent`."""


class Event(msgspec.Struct, gc=False):
    """One trace event, times as floats in microseconds; args stay bytes until somebody needs them."""

    ph: Phase | None = None
    cat: Category | None = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: float = math.nan
    dur: float = math.nan
    id: Any = None
    args: msgspec.Raw = NO_RAW


class OddEvent(msgspec.Struct, gc=False):
    """The same with any phase and category."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: float = math.nan
    dur: float = math.nan
    id: Any = None
    args: msgspec.Raw = NO_RAW


class ExactEvent(msgspec.Struct, gc=False):
    """The same with the digits of `ts` kept: epoch microseconds with decimals do not fit a float64."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: msgspec.Raw = NO_RAW
    dur: float = math.nan
    id: Any = None
    args: msgspec.Raw = NO_RAW


class _LooseEvent(msgspec.Struct, gc=False):
    """Any type anywhere: for events that the strict form refuses (text or null times)."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    id: Any = None
    args: msgspec.Raw = NO_RAW


_MANY: msgspec.json.Decoder[list[Event]] = msgspec.json.Decoder(list[Event])
_MANY_ODD: msgspec.json.Decoder[list[OddEvent]] = msgspec.json.Decoder(list[OddEvent])
_MANY_EXACT: msgspec.json.Decoder[list[ExactEvent]] = msgspec.json.Decoder(list[ExactEvent])
_ONE: msgspec.json.Decoder[OddEvent] = msgspec.json.Decoder(OddEvent)
_ONE_EXACT: msgspec.json.Decoder[ExactEvent] = msgspec.json.Decoder(ExactEvent)
_ONE_LOOSE: msgspec.json.Decoder[_LooseEvent] = msgspec.json.Decoder(_LooseEvent)
_WALK = json.JSONDecoder(strict=False)

_CONTROL = re.compile(rb"[\x00-\x1f]")
_STRAY = re.compile(rb'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_PAIRS = re.compile(rb"\\\\")
_BARE = re.compile(rb"(?<=[:\[,\s])(-?(?:inf(?:inity)?|nan)|-?\d+(?:\.\d+)?[eE]\+?\d{3,})(?=\s*[,\]}])", re.IGNORECASE)
_MISSING = re.compile(rb"(:\s*)(?=[,}])")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_LEFT_OUT = (b'"Process Group Description"',)
"""Keys whose value writers are known to leave out (kineto#1213)."""
DEVICE_EVENT = re.compile(rb'"cat"\s*:\s*"(?:kernel|gpu_memcpy|gpu_memset)"')
"""What the text of an event of device work holds."""


def repaired(piece: bytes) -> tuple[bytes, bool]:
    """An event's text with the known faults of writers mended: strings cleaned, bare and missing values made null.

    Returns:
        The text, and whether it is doubtful: a value was missing where no writer is known to leave it out, so that a cut may
        have joined two events.
    """
    out: list[bytes] = []
    at, key, doubtful = 0, b"", False
    for found in _STRING.finditer(piece):
        gap = piece[at : found.start()]
        doubtful = doubtful or (key not in _LEFT_OUT and _MISSING.search(gap) is not None)
        out += [_plain(gap), _clean(found[0])]
        at, key = found.end(), found[0]
    gap = piece[at:]
    doubtful = doubtful or (key not in _LEFT_OUT and _MISSING.search(gap) is not None)
    out.append(_plain(gap))
    return b"".join(out), doubtful


def _clean(text: bytes) -> bytes:
    """A string without control characters, stray backslashes and invalid UTF-8."""
    text = _CONTROL.sub(b"?", text)
    if b"\\" in text:
        text = b"\\\\".join(_STRAY.sub(rb"\\\\", part) for part in _PAIRS.split(text))
    try:
        text.decode()
    except UnicodeDecodeError:
        text = text.decode("utf-8", "replace").encode()
    return text


def _plain(text: bytes) -> bytes:
    """What stands between strings: a value may be bare (inf) or missing there. Values that end a gap are seen as a colon at its end."""
    return _MISSING.sub(rb"\1null", _BARE.sub(b"null", text))


class Decoder:
    """Decodes blocks and keeps count of what could not be decoded."""

    def __init__(self, coverage: Coverage, separator: bytes) -> None:
        self.coverage = coverage
        self.separator = separator
        self.exact = False
        """Keep the digits of ts (`ExactEvent`)."""

    def block(self, parts: tuple[bytes | memoryview, ...], offset: int) -> tuple[list[Any], bool]:
        """Events of a piece of the array (without its brackets), and whether all are of the strict form.

        Args:
            parts: bytes that joined are whole events, comma separated, without a comma at the ends.
            offset: of the first byte in the uncompressed stream, for the losses.
        """
        whole = b"".join((b"[", *parts, b"]"))
        decoders: tuple[Any, ...] = (_MANY_EXACT,) if self.exact else (_MANY, _MANY_ODD)
        for decoder in decoders:
            try:
                return decoder.decode(whole), True
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                continue
        return list(self._salvage(whole[1:-1], offset)), False

    def lost(self, offset: int, piece: bytes, reason: str, events: int = 1) -> None:
        """Count a loss; a device event among it is named in the reason."""
        self.coverage.events_lost += events
        self.coverage.bytes_lost += len(piece)
        if DEVICE_EVENT.search(piece):
            self.coverage.device_events_lost += events
            reason += " (device work)"
        if len(self.coverage.losses) < MAX_LOSSES:
            self.coverage.losses.append(Loss(offset, len(piece), reason))

    def one(self, piece: bytes) -> Any:
        """One event from its exact text, or None."""
        decoders: tuple[Any, Any] = (_ONE_EXACT if self.exact else _ONE, _ONE_LOOSE)
        for decoder in decoders:
            try:
                return decoder.decode(piece)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                continue
        return None

    def _mended(self, piece: bytes) -> Any:
        text, doubtful = repaired(piece)
        event = self.one(text)
        if event is not None:
            self.coverage.events_repaired += 1
            self.coverage.events_doubtful += doubtful
        return event

    def _salvage(self, data: bytes, offset: int) -> Iterator[Any]:
        for start, end in pieces(data, self.separator):
            yield from self._piece(data[start:end], offset + start)

    def _piece(self, piece: bytes, offset: int) -> Iterator[Any]:
        core = piece.strip(b" \t\r\n,")
        if not core:
            return
        event = self.one(core)
        if event is not None:
            yield event
            return
        event = self._mended(core)
        if event is not None:
            yield event
            return
        yield from self._walk(piece, offset)

    def _walk(self, piece: bytes, offset: int) -> Iterator[Any]:
        """Objects one after another: some writers put `name` first, so that a piece holds several events."""
        text = piece.decode("latin-1")  # one character a byte, so that positions agree
        at = 0
        while at < len(piece):
            start = piece.find(b"{", at)
            if start < 0:
                break
            try:
                _, end = _WALK.raw_decode(text, start)
            except (ValueError, RecursionError):
                self.lost(offset + start, piece[start:], "no valid event")
                return
            event = self.one(piece[start:end])
            if event is None:
                event = self._mended(piece[start:end])
            if event is None:
                self.lost(offset + start, piece[start:end], "no valid event")
            else:
                yield event
            at = end
        junk = piece[at:].strip(b" \t\r\n,")
        if junk:
            self.lost(offset + at, junk, "bytes between events", events=0)


def pieces(data: bytes, separator: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of each stretch of `data` that begins at a separator (the first may begin before one)."""
    start = 0
    while True:
        found = data.find(separator, start + 1)
        if found < 0:
            yield start, len(data)
            return
        yield start, found
        start = found


def walk_array(data: bytes, at: int) -> tuple[list[tuple[int, int]], int]:
    """Objects of an array from `at` on: their (start, end), and where the walk stopped (at `]`, at damage, or at the end)."""
    text = data.decode("latin-1")
    found: list[tuple[int, int]] = []
    while True:
        while at < len(data) and data[at] in b" \t\r\n,":
            at += 1
        if at >= len(data) or data[at] != 0x7B:
            return found, at
        try:
            _, end = _WALK.raw_decode(text, at)
        except (ValueError, RecursionError):
            return found, at
        found.append((at, end))
        at = end
