"""One pass over a log: a prefilter over bytes finds the lines that matter, collectors read the records that they open.

Lines without an anchor are never decoded, so that a log of 1 GB costs one search over its bytes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache

from infer_forge.crash import calls as api
from infer_forge.crash import kernel_log, sanitizer, signatures
from infer_forge.crash.model import MAX_TEXT, Event, Line, Origin, Stack
from infer_forge.crash.prefixes import Clock, clean, origin_of_path, parse
from infer_forge.crash.records import Collector, Coredump, FirstFailure, Stacks, Traceback

MAX_LINE = 8 << 20
SHOWN_LINE = 4000
FLOOD = 20_000
MAX_EVENTS = 60_000
MAX_TRACEBACKS = 5_000
_TRACEBACK = ("Traceback (most recent call last)", 'File "')
_CHAIN = ("The above exception was the direct cause", "During handling of the above exception")
_STACKS = ("Pyspy dump for PID", "(active", "(idle)", "most recent call first")
_COREDUMP = (
    "coredump: Detected",
    "CUDA Exception: ",
    "Opening GPU coredump",
    "focus set to CUDA kernel",
    "Writing ELF file to",
)
_USER_TEXT = ("Receive: obj=", "Finish: obj=", "Received request ")
_ELASTIC = "Root Cause (first observed failure)"
_PROCESS = rb"Process [0-9]+: "


_SCREENS = (
    "error", "Error", "ERROR", "emory", "xception", "nvalid", "orted", "CUDA_", "graph", " time", "ailed", "ected", "available", "eceived",
    "esource", "process", " Call: ", "enforce", "initialized", "ed address", "K SUMMARY:", "exitcode", "_ADDRESS", " launch", "stream",
    "Output", "Engine", "o CUDA", "NCCL ",
)  # fmt: skip
"""Pieces that many anchors share: a block that lacks one lacks all of them. They only save time."""


@cache
def _screened() -> tuple[tuple[bytes, tuple[bytes, ...]], ...]:
    """Each screen with the anchors that hold it; an anchor without a screen is its own."""
    words = {*signatures.anchors(), *sanitizer.ANCHORS, *kernel_log.ANCHORS, *api.ANCHORS}
    words |= {*_TRACEBACK, *_CHAIN, *_STACKS, *_COREDUMP, _ELASTIC, "Process "}
    groups: dict[str, list[bytes]] = {}
    for word in sorted(words):
        screen = next((s for s in _SCREENS if s in word), word)
        groups.setdefault(screen, []).append(word.encode())
    return tuple((s.encode(), tuple(found)) for s, found in groups.items())


@lru_cache(512)
def _compiled(words: tuple[bytes, ...], values: bool) -> re.Pattern[bytes]:
    parts = [_PROCESS if w == b"Process " else re.escape(w) for w in sorted(words, key=len, reverse=True)]
    return re.compile(b"|".join([*parts, *([api.EXTRA] if values else [])]))


def _active(body: bytes) -> re.Pattern[bytes] | None:
    """The expression of the anchors that this block holds at all; None when it holds none.

    `in` runs at memory speed, an alternation of 200 words does not.
    """
    present = [a for screen, words in _screened() if screen in body for a in words if a in body]
    values = b"nan_count=" in body
    return _compiled(tuple(present), values) if present or values else None


_API = tuple(a.encode() for a in api.ANCHORS if "Call: " not in a)
_VALUE = re.compile(api.EXTRA)


@dataclass
class Evidence:
    """All that a triage found, before it is judged."""

    events: list[Event] = field(default_factory=list[Event])
    stacks: list[Stack] = field(default_factory=list[Stack])
    calls: api.Calls = field(default_factory=api.Calls)
    lines: int = 0
    bytes_read: int = 0
    flooded: Counter[str] = field(default_factory=Counter[str])
    lost: list[str] = field(default_factory=list[str])
    streams: dict[tuple[object, ...], Origin] = field(default_factory=dict[tuple[object, ...], Origin])
    gpucores: list[str] = field(default_factory=list[str])
    env: dict[str, str] = field(default_factory=dict[str, str])
    run: dict[str, object] | None = None


class Scanner:
    """Scans the blocks of one file after the other into an Evidence."""

    def __init__(self, evidence: Evidence, clock: Clock | None = None) -> None:
        """Begin; `clock` is shared by all files."""
        self.evidence = evidence
        self.clock = clock or Clock()
        self.open: list[Collector] = []
        self.chained: set[tuple[object, ...]] = set()
        self.last_bare: Origin | None = None
        self.tracebacks = 0
        self.base = Origin("")
        self.search = re.compile(b"Traceback").search
        self._hits: Counter[bytes] = Counter()

    def scan(self, blocks: Iterable[bytes], shown: str, path: str = "") -> None:
        """Read one file."""
        self.base = origin_of_path(path or shown, shown)
        self.open, self.last_bare = [], None
        self.chained.clear()
        self._hits.clear()
        carry, no = b"", 1
        for block in blocks:
            self.evidence.bytes_read += len(block)
            data = carry + block if carry else block
            cut = data.rfind(b"\n")
            if cut < 0:
                if len(data) < MAX_LINE:
                    carry = data
                    continue
                self._note_long(shown, no)
                cut = len(data) - 1
            carry = data[cut + 1 :]
            no = self._block(data[: cut + 1] if carry else data, no)
        if carry:
            no = self._block(carry, no) + 1
        for collector in self.open:
            collector.finish()
        self.open = []
        self.evidence.lines += no - 1

    def _note_long(self, shown: str, no: int) -> None:
        note = f"{shown}:{no}: a line of more than {MAX_LINE >> 20} MiB was read in pieces"
        if note not in self.evidence.lost:
            self.evidence.lost.append(note)

    def _block(self, body: bytes, first: int) -> int:
        program = _active(body)
        if program is None and not self.open:
            return first + body.count(b"\n")
        search = (program or _compiled((b"Traceback (most recent",), False)).search
        if b"nan_count=" in body:
            self.evidence.calls.statistics.add(self.base.path)
        self.search = search
        no, counted, pos, size = first, 0, 0, len(body)
        if self.open:
            pos, no = self._line_mode(body, 0, no)
            counted = pos
        while (hit := search(body, pos)) is not None:
            start = body.rfind(b"\n", 0, hit.start()) + 1
            if start < counted:
                start = counted
            no += body.count(b"\n", counted, start)
            counted = start
            end = body.find(b"\n", hit.end())
            if end < 0:
                end = size
            self._hit(body, start, end, hit, no)
            pos = end + 1
            if self.open and pos < size:
                no += 1
                counted = pos
                pos, no = self._line_mode(body, pos, no)
                counted = pos
        return no + body.count(b"\n", counted)

    def _line_mode(self, body: bytes, pos: int, no: int) -> tuple[int, int]:
        """Offer line after line to the open collectors until none is left."""
        search, size = self.search, len(body)
        while self.open and pos < size:
            end = body.find(b"\n", pos)
            end = size if end < 0 else end
            raw = body[pos : min(end, pos + SHOWN_LINE)]
            line = self._line(raw, no)
            if not self._offer(line):
                hit = search(body, pos, end)
                if hit is not None:
                    self._hit(body, pos, end, hit, no)
            pos, no = end + 1, no + 1
        return min(pos, size), no

    def _line(self, raw: bytes, no: int) -> Line:
        line = parse(clean(raw.decode("utf-8", "replace")).rstrip(), no, self.base, self.clock)
        if line.bare and self.last_bare is not None and self.open and line.origin.host in (None, self.last_bare.host):
            line.origin = self.last_bare
        return line

    def _offer(self, line: Line) -> bool:
        key = line.origin.key
        took = False
        for collector in list(self.open):
            if collector.origin.key != key:
                continue
            more = collector.feed(line)
            took = took or collector.took
            if not more and collector in self.open:
                self.open.remove(collector)
        if took:
            self.last_bare = line.origin
        return took

    def _hit(self, body: bytes, start: int, end: int, hit: re.Match[bytes], no: int) -> None:
        """A line that holds an anchor."""
        if end - start > SHOWN_LINE:
            left = start if hit.start() - start < SHOWN_LINE // 2 else hit.start() - 200
            raw = body[left : min(end, left + SHOWN_LINE)]
        else:
            raw = body[start:end]
        word = hit.group()
        if word.endswith(b" API Call: ") or word == b"Crash recorder Call: ":
            if self.evidence.calls.fast_call(raw, no, self.base.path, lambda: self._line(raw, no)):
                return
        elif word.startswith((b"Positional", b"umped to", b"Output:", b"Output value:")) or _VALUE.match(word):
            self._hits[word[:6]] += 1
            self.evidence.calls.detail(self._line(raw, no))
            return
        self._hits[word] += 1
        if self._hits[word] > FLOOD:
            self.evidence.flooded[word.decode("utf-8", "replace")] += 1
            return
        line = self._line(raw, no)
        if line.time is None:
            line.time, line.stamp = self._time_before(body, start)
        self.evidence.streams.setdefault(line.origin.key, line.origin)
        if any(a in raw for a in _API) and self.evidence.calls.detail(line):
            return
        self._read(line, body, start)

    def _time_before(self, body: bytes, start: int) -> tuple[float | None, str | None]:
        """The stamp of one of the eight lines before: a bare line belongs to about that time."""
        at = start
        for _ in range(8):
            if at <= 0:
                break
            before = max(body.rfind(b"\n", max(0, at - 1 - SHOWN_LINE), at - 1) + 1, 0)
            found = parse(clean(body[before : at - 1][:400].decode("utf-8", "replace")), 0, self.base, self.clock)
            if found.time is not None:
                return found.time, found.stamp
            at = before
        return None, None

    def _read(self, line: Line, body: bytes, start: int) -> None:
        text = line.text
        evidence = self.evidence
        if text.startswith(_USER_TEXT):
            return  # a user's words about an error are no error
        if any(w in text for w in _CHAIN):
            self.chained.add(line.origin.key)
            return
        frame = text.lstrip().startswith('File "') and (" in " not in text or ", in " in text)
        if frame or "Traceback (most recent call last)" in text:
            self._open_traceback(line)
            return
        if event := kernel_log.xid_event(line):
            self._add(event, body, start)
            return
        if sanitizer.head_of(text) is not None:
            self._open(sanitizer.Record(line, evidence.events), line)
            return
        if any(w in text for w in _COREDUMP):
            self._open(Coredump(line, evidence.events), line)
            return
        if _ELASTIC in text:
            self._open(FirstFailure(line, evidence.events), line)
            return
        if any(w in text for w in _STACKS) or re.match(r"\s*Process \d+: ", text):
            self._open(Stacks(line, evidence.stacks), line)
        matched = signatures.match(text)
        if matched is None:
            return
        signature, found = matched
        facts = {k: v for k, v in found.groupdict().items() if v is not None}
        self._add(
            Event(
                signature.id,
                signature.group,
                line.no,
                text[:MAX_TEXT],
                line.origin,
                line.time,
                line.stamp,
                "log",
                facts,
            ),
            body,
            start,
        )

    def _open_traceback(self, line: Line) -> None:
        self.tracebacks += 1
        if self.tracebacks > MAX_TRACEBACKS:
            self.evidence.flooded["Traceback"] += 1
            return
        key = line.origin.key
        self._open(Traceback(line, self.evidence.events, chained=key in self.chained), line)
        self.chained.discard(key)

    def _open(self, collector: Collector, line: Line) -> None:
        self.last_bare = line.origin
        if len(self.open) < 256:
            self.open.append(collector)

    def _add(self, event: Event, body: bytes, start: int) -> None:
        events = self.evidence.events
        if len(events) >= MAX_EVENTS:
            self.evidence.flooded[event.sig] += 1
            return
        if event.group in ("cuda", "hang", "oom", "build", "config") and len(events) < 64:
            event.before = self._before(body, start)
        events.append(event)

    def _before(self, body: bytes, start: int) -> list[str]:
        """The last three lines before an event: the program's own last words."""
        words = body[max(0, start - 1500) : start].splitlines()[-3:]
        return [clean(w.decode("utf-8", "replace"))[:200] for w in words]
