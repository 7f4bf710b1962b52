"""Step annotations -> stage windows, and each device work item -> its window.

An item belongs to the step whose host annotation was open on the launching thread when its launch call began. That is also how
kineto makes the annotations of the device's timeline; those decide for items without a launch call. Search is by bisection.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from infer_forge.engines.annotations import StepAnnotation, parse
from infer_forge.trace.columns import Annotations, Calls, DeviceWork, Windows
from infer_forge.trace.nesting import innermost

ALL, OUTSIDE = 0, 1
STAGES = ["all", "outside"]
SERVING, DENOISE, PROFILER = 0, 1, 2
Rows = npt.NDArray[np.int64]
_DEVICES = 1 << 31
"""Packs a step and a device (+1) into one key."""
_COUNTS = (
    "batch", "tokens", "context_requests", "context_tokens", "generation_requests", "generation_tokens",
)  # fmt: skip


def level_of(step: StepAnnotation) -> int | None:
    """0 serving step, 1 denoise step, 2 profiler step; None for the capture of a graph, which is no step."""
    if step.kind == "capture":
        return None
    if step.framework == "torch":
        return PROFILER
    return DENOISE if step.stage == "denoise" else SERVING


@dataclass
class _Step:
    """One step of one rank group: its host annotation's row and its device annotations' rows."""

    name: int
    parsed: StepAnnotation
    level: int
    host: int = -1
    device_rows: list[int] = field(default_factory=list[int])


class Stages:
    """Makes the windows of a trace, group by group, and assigns its work.

    Args:
        names: texts by name id; `names_of` interns a new text.
    """

    def __init__(self, names: list[str], intern: Any) -> None:
        self._names = names
        self._intern = intern
        self.stages = list(STAGES)
        self._made: list[Windows] = []

    def stage_id(self, stage: str) -> int:
        """Id of a stage label, made at first use."""
        if stage not in self.stages:
            self.stages.append(stage)
        return self.stages.index(stage)

    def add_group(self, group: int, marks: Annotations, work: DeviceWork, rows: Rows, calls: Calls) -> None:
        """Windows and assignment of one group; `work.window` counts on over groups, `finish` re-sorts."""
        steps = self._steps(marks, np.flatnonzero(marks.group == group))
        step_of = np.full(len(rows), -1, np.int64)
        call = work.call[rows]
        launch = calls.ts_ns[np.maximum(call, 0)] if len(calls) else work.ts_ns[rows]
        for level in (SERVING, DENOISE, PROFILER):
            here = [k for k, s in enumerate(steps) if s.level == level]
            todo = np.flatnonzero((step_of < 0) & (call >= 0))
            hosts = [k for k in here if steps[k].host >= 0]
            if hosts and len(todo):
                thread = calls.thread[call[todo]].astype(np.int64)
                step_of[todo] = self._by_host(
                    steps, hosts, marks, thread, launch[todo], work.device[rows[todo]].astype(np.int64)
                )
            self._by_device(steps, here, marks, work, rows, step_of)
        self._windows(group, steps, marks, work, rows, step_of)

    def _steps(self, marks: Annotations, rows: Rows) -> list[_Step]:
        """Steps in order of their beginning; a device annotation joins its host's by External id and name, else by order."""
        steps: list[_Step] = []
        by_id: dict[tuple[int, int], int] = {}
        by_order: dict[int, list[int]] = defaultdict(list)
        device: list[tuple[int, StepAnnotation, int]] = []
        known: dict[int, tuple[StepAnnotation | None, int | None]] = {}
        marks_of = marks.take(rows)
        names: list[int] = marks_of.name.tolist()
        gpus: list[bool] = marks_of.gpu.tolist()
        externals: list[int] = marks_of.external.tolist()
        for row, name, gpu, external in zip(rows.tolist(), names, gpus, externals, strict=True):
            if name not in known:
                found = parse(self._names[name])
                known[name] = (found, level_of(found) if found else None)
            parsed, level = known[name]
            if parsed is None or level is None:
                continue
            if gpu:
                device.append((row, parsed, level))
                continue
            if external >= 0:
                by_id[(name, external)] = len(steps)
            by_order[name].append(len(steps))
            steps.append(_Step(name, parsed, level, host=row))
        seen: dict[tuple[int, int, int], int] = defaultdict(int)
        for row, parsed, level in device:
            name = int(marks.name[row])
            key = (name, int(marks.external[row]))
            step = by_id.get(key)
            if step is None and key[1] < 0 and by_order[name]:
                lane = (name, int(marks.device[row]), int(marks.stream[row]))
                step = by_order[name][min(seen[lane], len(by_order[name]) - 1)]
                seen[lane] += 1
            if step is None:
                step = by_id[key] = len(steps)
                steps.append(_Step(name, parsed, level))
            steps[step].device_rows.append(row)
        return steps

    @staticmethod
    def _by_host(
        steps: list[_Step], hosts: list[int], marks: Annotations, thread: Rows, launch: Rows, device: Rows
    ) -> Rows:
        """Step by launch call: the innermost host annotation of its thread (of any thread, where its own marks no steps).

        Steps of several devices of one process overlap on the host. One whose device annotations all stand on other devices
        launched nothing here.
        """
        found = np.full(len(launch), -1, np.int64)
        at = np.array([steps[k].host for k in hosts], np.int64)
        begin, end, owner = marks.ts_ns[at], marks.ts_ns[at] + marks.dur_ns[at], marks.thread[at]
        on = [set(marks.device[steps[k].device_rows].tolist()) - {-1} for k in hosts]
        marking = np.unique(owner)
        alone = len(marking) == 1
        lanes = np.where(alone | ~np.isin(thread, marking), -1, thread)
        for lane in np.unique(lanes).tolist():
            for gpu in np.unique(device[lanes == lane]).tolist():
                use = np.flatnonzero(((owner == lane) | (lane == -1)) & np.array([not d or gpu in d for d in on]))
                ask = np.flatnonzero((lanes == lane) & (device == gpu))
                hit = innermost(begin[use], end[use], launch[ask])
                found[ask] = np.where(hit >= 0, np.array(hosts)[use[np.maximum(hit, 0)]], -1) if len(use) else -1
        return found

    @staticmethod
    def _by_device(
        steps: list[_Step], here: list[int], marks: Annotations, work: DeviceWork, rows: Rows, step_of: Rows
    ) -> None:
        """Items still without a step, by the device annotation that is open when they begin (on their stream, else the device)."""
        pairs = [(k, r) for k in here for r in steps[k].device_rows]
        todo = np.flatnonzero(step_of < 0)
        if not pairs or not len(todo):
            return
        owner, row = (np.array(c, np.int64) for c in zip(*pairs, strict=True))
        begin, end = marks.ts_ns[row], marks.ts_ns[row] + marks.dur_ns[row]
        for exact in (True, False):
            for device in np.unique(marks.device[row]).tolist():
                on = marks.device[row] == device
                mine = todo[(work.device[rows[todo]] == device) & (step_of[todo] < 0)]
                lanes = np.unique(marks.stream[row][on]).tolist() if exact else [None]
                for lane in lanes:
                    use = np.flatnonzero(on & (marks.stream[row] == lane)) if exact else np.flatnonzero(on)
                    ask = mine[work.stream[rows[mine]] == lane] if exact else mine
                    hit = innermost(begin[use], end[use], work.ts_ns[rows[ask]])
                    step_of[ask] = np.where(hit >= 0, owner[use[np.maximum(hit, 0)]], -1)

    def _windows(
        self, group: int, steps: list[_Step], marks: Annotations, work: DeviceWork, rows: Rows, step_of: Rows
    ) -> None:
        """One window a step and device: the span of the device annotation, else of what the step launched there."""
        work.stage[rows] = OUTSIDE if steps else ALL
        if not steps:
            return
        stage_ids = np.array([self.stage_id(s.parsed.stage) for s in steps], np.int8)
        inside = np.flatnonzero(step_of >= 0)
        work.stage[rows[inside]] = stage_ids[step_of[inside]]
        key = step_of[inside] * _DEVICES + work.device[rows[inside]] + 1
        keys, first_of, start, end = _spans(key, work.ts_ns[rows[inside]], work.dur_ns[rows[inside]])
        mark_rows = np.array([r for s in steps for r in s.device_rows], np.int64)
        owner = np.array([k for k, s in enumerate(steps) for _ in s.device_rows], np.int64)
        mark_key = owner * _DEVICES + marks.device[mark_rows] + 1
        mark_keys, _, mark_start, mark_end = _spans(mark_key, marks.ts_ns[mark_rows], marks.dur_ns[mark_rows])
        every = np.union1d(keys, mark_keys)
        from_launches = ~np.isin(every, mark_keys)
        starts, ends = np.zeros(len(every), np.int64), np.zeros(len(every), np.int64)
        for some, a, b in ((keys, start, end), (mark_keys, mark_start, mark_end)):
            at = np.searchsorted(every, some)
            starts[at], ends[at] = a, b
        base = sum(len(w) for w in self._made)
        window = np.full(len(rows), -1, np.int32)
        window[inside] = base + np.searchsorted(every, keys)[first_of]
        work.window[rows] = window
        self._made.append(self._table(group, steps, marks, every, starts, ends, from_launches, stage_ids))

    def _table(
        self, group: int, steps: list[_Step], marks: Annotations, keys: Rows, starts: Rows, ends: Rows,
        from_launches: npt.NDArray[np.bool_], stage_ids: npt.NDArray[np.int8],
    ) -> Windows:  # fmt: skip
        step = keys // _DEVICES
        host = np.array([s.host for s in steps], np.int64)[step]
        has = host >= 0
        at = np.maximum(host, 0)
        host_start = np.where(has, marks.ts_ns[at], -1)
        counts = {
            k: np.array([-1 if (v := getattr(s.parsed, k)) is None else v for s in steps], np.int64)[step]
            for k in _COUNTS
        }
        return Windows.filled(
            len(keys),
            start_ns=starts,
            end_ns=ends,
            host_start_ns=host_start,
            host_end_ns=np.where(has, marks.ts_ns[at] + marks.dur_ns[at], -1),
            name=np.array([s.name for s in steps])[step],
            stage=stage_ids[step],
            kind=np.array([self._intern(s.parsed.kind) for s in steps])[step],
            level=np.array([s.level for s in steps])[step],
            device=keys % _DEVICES - 1,
            from_launches=from_launches,
            step=step,
            group=np.full(len(keys), group),
            **counts,
        )

    def finish(self, work: DeviceWork) -> Windows:
        """All windows in order of their start; `work.window` is renumbered, steps are numbered by time within a group."""
        if not self._made:
            return Windows.empty()
        made = Windows.joined(self._made)
        order = np.argsort(made.start_ns, kind="stable")
        place = np.full(len(order) + 1, -1, np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        work.window[:] = place[work.window]
        made = made.take(order)
        for group in np.unique(made.group).tolist():
            mine = np.flatnonzero(made.group == group)
            _, first, inverse = np.unique(made.step[mine], return_index=True, return_inverse=True)
            made.step[mine] = np.argsort(np.argsort(first, kind="stable"), kind="stable")[inverse]
        return made


def _spans(key: Rows, ts: Rows, dur: Rows) -> tuple[Rows, Rows, Rows, Rows]:
    """Distinct keys, for each row the index of its key, and per key the least start and the greatest end."""
    keys, index = np.unique(key, return_inverse=True)
    if not len(keys):
        return keys, index, keys, keys
    order = np.argsort(index, kind="stable")
    firsts = np.searchsorted(index[order], np.arange(len(keys)))
    start = np.minimum.reduceat(ts[order], firsts)
    return keys, index, start, np.maximum.reduceat((ts + dur)[order], firsts)
