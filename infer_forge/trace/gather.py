"""Decoded events -> columns, block by block. What repeats (category, name, process, thread) is interned once a file."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from infer_forge.trace import times
from infer_forge.trace.arguments import (
    ArgsReader,
    CallArgs,
    OpArgs,
    SyncArgs,
    WorkArgs,
    column,
    ids,
    trailing_number,
    whole,
)
from infer_forge.trace.decode import NO_RAW
from infer_forge.trace.model import Collective, Coverage
from infer_forge.trace.vocabulary import WORK_KINDS, Code, call_kind, code_of

_WORK, _OPS, _CALLS, _SYNCS = ArgsReader(WorkArgs), ArgsReader(OpArgs), ArgsReader(CallArgs), ArgsReader(SyncArgs)
Block = dict[str, npt.NDArray[Any]]
I64 = npt.NDArray[np.int64]


class Interned(dict[Any, int]):
    """Value -> running number, given at the first look-up."""

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self)
        return number


class Heads(dict[tuple[Any, ...], int]):
    """(phase, category, name, pid, tid) -> head id; per head what its events are, their name id and thread id."""

    def __init__(self) -> None:
        super().__init__()
        self.names = Interned()
        self.threads = Interned()
        self.codes = np.zeros(1024, np.int8)
        self.name = np.zeros(1024, np.int32)
        self.thread = np.zeros(1024, np.int32)
        self.detail = np.zeros(1024, np.int8)
        """Work kind of device work, call kind of calls."""
        self.counts = np.zeros(1024, np.int64)

    def __missing__(self, key: tuple[Any, ...]) -> int:
        number = self[key] = len(self)
        if number >= len(self.codes):
            for attribute in ("codes", "name", "thread", "detail", "counts"):
                old = getattr(self, attribute)
                setattr(self, attribute, np.concatenate((old, np.zeros_like(old))))
        phase, category, name, pid, tid = key
        code = code_of(phase, category)
        text = text_of(name)
        self.codes[number] = code
        if code != Code.IGNORED:
            self.name[number] = self.names[text]
            self.thread[number] = self.threads[(text_of(pid), text_of(tid))]
        if code == Code.WORK:
            self.detail[number] = WORK_KINDS[category]
        elif code == Code.CALL:
            self.detail[number] = call_kind(text)
        return number


def text_of(value: Any) -> str:
    """A name, pid or tid of any JSON type as text; nothing is an empty text."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


class Gatherer:
    """Collects the columns of a file."""

    def __init__(self, coverage: Coverage) -> None:
        self.coverage = coverage
        self.heads = Heads()
        self.texts = Interned()
        """JSON texts of op shapes and types."""
        self.shapes = Interned()
        self.collectives: dict[Collective, int] = {}
        self.parts: dict[str, list[tuple[int, Block]]] = {}
        """Class of events -> (block number, columns), in the order of the file."""
        self.block = 0
        """Number of the block that is added next."""

    def add(self, events: list[Any], clean: bool, sure: bool = False) -> bool:
        """Take the events of a block.

        Args:
            events: decoded events.
            clean: they are all of the strict form, so that times are floats (or raw digits).
            sure: large times are known to be whole microseconds, which a float keeps.

        Returns:
            False where the block holds times beyond what a float keeps: decode it again with digits; nothing was taken.
        """
        if not events:
            return True
        heads = self._heads(events)
        codes = self.heads.codes[heads]
        ts, dur = self._times(events, clean, sure)
        if ts is None:
            return False
        self.coverage.events_read += len(events)
        self.heads.counts += np.bincount(heads, minlength=len(self.heads.counts))
        bad = (ts == times.UNUSABLE) | ((dur < 0) & (codes < Code.FLOW_START))
        if bad.any():
            self.coverage.device_events_unusable += int((bad & (codes == Code.WORK)).sum())
            self.coverage.host_events_unusable += int((bad & (codes >= Code.FRAME) & (codes != Code.WORK)).sum())
            codes = np.where(bad, Code.IGNORED, codes)
        order = np.argsort(codes, kind="stable")
        heads, ts, dur = heads[order], ts[order], dur[order]
        ends = np.cumsum(np.bincount(codes, minlength=len(Code))).tolist()
        for code, take in _TAKERS.items():
            start, end = ends[code - 1], ends[code]
            if start < end:
                picked = [events[i] for i in order[start:end].tolist()] if code != Code.FRAME else events
                block = take(self, picked)
                block |= {"head": heads[start:end], "ts": ts[start:end], "dur": dur[start:end]}
                self.parts.setdefault(code.name, []).append((self.block, block))
        return True

    def _heads(self, events: list[Any]) -> npt.NDArray[np.int32]:
        known = self.heads
        try:
            found = [known[(e.ph, e.cat, e.name, e.pid, e.tid)] for e in events]
        except TypeError:  # a list or an object where a text belongs
            found = [known[tuple(_hashable(v) for v in (e.ph, e.cat, e.name, e.pid, e.tid))] for e in events]
        return np.array(found, np.int32)

    @staticmethod
    def _times(events: list[Any], clean: bool, sure: bool) -> tuple[I64 | None, I64]:
        """ts and dur in ns; no ts where floats may have lost digits."""
        if not clean:
            ts, dur = (np.array([_time(getattr(e, k)) for e in events], np.int64) for k in ("ts", "dur"))
            return ts, dur
        dur = times.from_floats([e.dur for e in events], times.FLOAT_LIMIT_US)
        stamps = [e.ts for e in events]
        if stamps and isinstance(stamps[0], msgspec.Raw):
            return times.from_digits(stamps), dur
        us = np.array(stamps, np.float64)
        if not sure and len(us) and np.nanmax(us, initial=0.0) > times.FLOAT_LIMIT_US:
            return None, dur
        return times.from_floats(us), dur

    def _frames(self, events: list[Any]) -> Block:
        return {}

    def _ops(self, events: list[Any]) -> Block:
        args = _OPS.read([e.args for e in events])
        texts = self.texts
        return {
            "external": _external(args),
            "dims": _interned([a.dims for a in args], texts),
            "types": _interned([a.types for a in args], texts),
        }

    def _work(self, events: list[Any]) -> Block:
        args = _WORK.read([e.args for e in events])
        block = {
            k: column([getattr(a, k) for a in args])
            for k in ("correlation", "bytes", "graph_id", "graph_node", "stream")
        }
        block["external"] = _external(args)
        block["device"] = column(
            [a.device if a.device != -1 else trailing_number(e.pid) for a, e in zip(args, events, strict=True)],
            np.int32,
        )
        shapes = self.shapes
        block["shape"] = np.array([shapes[bytes(a.grid) + b" " + bytes(a.block)] for a in args], np.int32)
        block["collective"] = np.array(
            [-1 if a.op is None and a.group is None else self._collective(a) for a in args], np.int32
        )
        return block

    def _collective(self, a: WorkArgs) -> int:
        made = Collective(
            op=text_of(a.op),
            group_name=text_of(a.group),
            group_desc=text_of(a.group_desc),
            group_size=_or_none(a.group_size),
            ranks=text_of(a.ranks),
            dtype=text_of(a.dtype),
            in_elements=_or_none(a.inputs),
            out_elements=_or_none(a.outputs),
            sequence=_or_none(a.sequence),
        )
        return self.collectives.setdefault(made, len(self.collectives))

    def _calls(self, events: list[Any]) -> Block:
        args = _CALLS.read([e.args for e in events])
        names = self.heads.names
        return {
            "external": _external(args),
            "correlation": column([a.correlation for a in args]),
            "stream": ids([a.stream for a in args]),
            "kernel": np.array([names[a.kernel] if isinstance(a.kernel, str) else -1 for a in args], np.int32),
            "graph_id": ids([a.graph_id for a in args]),
            "graph_node": ids([a.graph_node for a in args]),
        }

    def _syncs(self, events: list[Any]) -> Block:
        args = _SYNCS.read([e.args for e in events])
        return {
            k: column([getattr(a, k) for a in args])
            for k in ("stream", "wait_stream", "event", "record", "correlation", "device")
        }

    def _annotations(self, events: list[Any]) -> Block:
        return {"external": _external(_OPS.read([e.args for e in events]))}

    def _flows(self, events: list[Any]) -> Block:
        return {"id": ids([e.id for e in events])}

    def columns(self, code: Code) -> Block:
        """All rows of one class of events; the parts are freed."""
        parts = self.parts.pop(code.name, [])
        if not parts:
            return {}
        return {k: np.concatenate([p.pop(k) for _, p in parts]) for k in list(parts[0][1])}

    def finish(self) -> None:
        """Fill the coverage's counts by category and phase."""
        categories: Counter[str] = Counter()
        odd: Counter[str] = Counter()
        phases: Counter[str] = Counter()
        for (phase, category, *_), number in self.heads.items():
            count, code = int(self.heads.counts[number]), self.heads.codes[number]
            if phase == "X":
                categories[text_of(category)] += count
            if code == Code.UNKNOWN_CATEGORY:
                odd[text_of(category)] += count
            elif code == Code.UNKNOWN_PHASE:
                phases[text_of(phase)] += count
            elif code in (Code.FLOW_START, Code.FLOW_END):
                self.coverage.flows += count
        self.coverage.categories, self.coverage.unknown_categories = dict(categories), dict(odd)
        self.coverage.unknown_phases = dict(phases)


_TAKERS: dict[Code, Any] = {
    Code.FRAME: Gatherer._frames,  # pyright: ignore[reportPrivateUsage]
    Code.OP: Gatherer._ops,  # pyright: ignore[reportPrivateUsage]
    Code.WORK: Gatherer._work,  # pyright: ignore[reportPrivateUsage]
    Code.CALL: Gatherer._calls,  # pyright: ignore[reportPrivateUsage]
    Code.SYNC: Gatherer._syncs,  # pyright: ignore[reportPrivateUsage]
    Code.ANNOTATION: Gatherer._annotations,  # pyright: ignore[reportPrivateUsage]
    Code.GPU_ANNOTATION: Gatherer._annotations,  # pyright: ignore[reportPrivateUsage]
    Code.FLOW_START: Gatherer._flows,  # pyright: ignore[reportPrivateUsage]
    Code.FLOW_END: Gatherer._flows,  # pyright: ignore[reportPrivateUsage]
}


def _hashable(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def _time(value: Any) -> int:
    if isinstance(value, msgspec.Raw):
        text = bytes(value)
        return int(times.from_digits([text])[0]) if text else times.UNUSABLE
    return times.from_any(value)


def _external(args: list[Any]) -> npt.NDArray[Any]:
    found = column([a.external for a in args])
    if (found < 0).any():
        for k in ("external_b", "external_c"):
            other = column([getattr(a, k) for a in args])
            found = np.where(found < 0, other, found)
    return found


def _interned(raws: list[msgspec.Raw], texts: Interned) -> npt.NDArray[np.int32]:
    """Ids of JSON texts; -1 where an event has none."""
    if raws.count(NO_RAW) == len(raws):
        return np.full(len(raws), -1, np.int32)
    return np.array([-1 if r is NO_RAW else texts[bytes(r)] for r in raws], np.int32)


def _or_none(value: Any) -> int | None:
    number = whole(value)
    return number if number >= 0 else None
