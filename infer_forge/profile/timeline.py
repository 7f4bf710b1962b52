"""The device timeline: stages with wall, busy, idle and exposed communication, and every idle gap with its cause.

Definitions (per device; all streams together):
- busy: union of the stage's device work.
- idle: gaps in which the device does nothing. A gap belongs to the stage of the device event that ends it. What lies
  before the first and behind the last device work is a capture edge and no idle.
- wall: busy + idle.
- exposed communication: time of communication kernels in which no other kernel runs (copies do not count as cover).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from infer_forge.base.tables import Column, Table
from infer_forge.profile import intervals
from infer_forge.profile.grouping import compact, distinct, group
from infer_forge.profile.scene import Scene, device_number, stage_rank, us
from infer_forge.profile.thresholds import thresholds
from infer_forge.trace.columns import I64, Flags

CAUSES = ("host_late", "in_flight", "queued", "unknown")

STAGE_COLUMNS = [
    Column("rank", "text"),
    Column("device", "text"),
    Column("stage", "text"),
    Column("kind", "text", "what the framework calls the step"),
    Column("steps", "int", "step windows; null where the trace marks none"),
    Column("wall_us", "us", "busy + idle"),
    Column("busy_us", "us", "union over streams"),
    Column("idle_us", "us"),
    Column("exposed_comm_us", "us", "communication under no other kernel"),
]


class Part(NamedTuple):
    """A stage with one kind of step on one device."""

    device: int
    stage: int
    kind: int


@dataclass
class Gaps:
    """Idle gaps of one device: when, how long, the device event that ends each (row of the work), and the cause."""

    start_ns: I64
    length_ns: I64
    next_row: I64
    cause: I64
    """Index into CAUSES."""
    edge_ns: int
    """Time that was left out because it is an edge of the capture."""


@dataclass
class Timeline:
    """A rank's stages and gaps."""

    parts: list[Part]
    part_of: I64
    """Per work item: index into `parts`."""
    busy_ns: I64
    idle_ns: I64
    exposed_ns: I64
    """Per part."""
    gaps: dict[int, Gaps]
    device_busy_ns: dict[int, int]
    device_exposed_ns: dict[int, int]

    @property
    def total_busy_ns(self) -> int:
        """Union busy time over the rank's devices, summed."""
        return sum(self.device_busy_ns.values())

    @property
    def total_idle_ns(self) -> int:
        """Idle of all devices."""
        return sum(int(g.length_ns.sum()) for g in self.gaps.values())

    @property
    def total_exposed_ns(self) -> int:
        """Exposed communication of all devices."""
        return sum(self.device_exposed_ns.values())


def build(scene: Scene) -> Timeline:
    """Compute the timeline of a rank."""
    work = scene.work
    parts, part_of = _parts(scene)
    count = len(parts)
    merged = intervals.merge(work.ts_ns, scene.end_ns, part_of)
    busy = intervals.by_group(merged, count)
    exposed, idle = np.zeros(count, np.int64), np.zeros(count, np.int64)
    gaps: dict[int, Gaps] = {}
    device_busy: dict[int, int] = {}
    device_exposed: dict[int, int] = {}
    for device in scene.devices:
        rows = np.flatnonzero(work.device == device)
        found = _gaps(scene, rows)
        gaps[device] = found
        np.add.at(idle, part_of[found.next_row], found.length_ns)
        device_busy[device] = intervals.total(intervals.merge(work.ts_ns[rows], scene.end_ns[rows]))
        by_part, whole = _exposed(scene, rows, part_of, count)
        exposed += by_part
        device_exposed[device] = whole
    return Timeline(parts, part_of, busy, idle, exposed, gaps, device_busy, device_exposed)


def _parts(scene: Scene) -> tuple[list[Part], I64]:
    """The (device, stage, kind) combinations that occur, and which one each work item belongs to."""
    work, windows = scene.work, scene.trace.windows
    kind, kinds = compact(np.append(windows.kind, -1)[work.window])  # window -1 takes the appended -1
    stages = np.maximum(work.stage, 0).astype(np.int64)
    devices = np.searchsorted(np.array(scene.devices), work.device).astype(np.int64)
    wide, high = len(kinds), int(stages.max(initial=0)) + 1
    found = group((devices * high + stages) * wide + kind, len(scene.devices) * high * wide)
    parts = [
        Part(scene.devices[k // wide // high], k // wide % high, int(kinds[k % wide])) for k in found.keys.tolist()
    ]
    return parts, found.place


def _gaps(scene: Scene, rows: I64) -> Gaps:
    """Idle gaps of one device's work (rows ascending by start), capture edges left out, with causes."""
    start, end = scene.work.ts_ns[rows], scene.end_ns[rows]
    reach = np.maximum.accumulate(end)
    at = np.flatnonzero(start[1:] > reach[:-1]) + 1
    length = start[at] - reach[at - 1]
    keep, edge = _inside(at, length, len(rows), int(reach[-1] - start[0]) if len(rows) else 0)
    at, begun = at[keep], reach[at[keep] - 1]
    return Gaps(begun, length[keep], rows[at], _cause(scene, rows[at], begun), edge)


def _inside(at: I64, length: I64, events: int, wall: int) -> tuple[Flags, int]:
    """Which gaps are idle: cut at the largest gap near each end beyond which next to no event stands."""
    limits = thresholds("edges")
    keep = np.ones(len(at), np.bool_)
    few, long = events * limits["events_pct"] / 100, wall * limits["gap_wall_pct"] / 100
    head = np.flatnonzero((at < few) & (length >= long))
    if len(head):
        keep[: int(head[np.argmax(length[head])]) + 1] = False
    tail = np.flatnonzero((events - at < few) & (length >= long))
    if len(tail):
        keep[int(tail[np.argmax(length[tail])]) :] = False
    return keep, int(length[~keep].sum())


def _cause(scene: Scene, next_rows: I64, gap_start: I64) -> I64:
    """Cause of each gap by the launch call of the event that ends it (index into CAUSES)."""
    calls = scene.trace.calls
    call = scene.work.call[next_rows]
    known = call >= 0
    cause = np.full(len(next_rows), CAUSES.index("unknown"), np.int64)
    begun = calls.ts_ns[call[known]]
    done = begun + calls.dur_ns[call[known]]
    since = gap_start[known]
    cause[known] = np.where(begun > since, 0, np.where(done > since, 1, 2))
    return cause


def _exposed(scene: Scene, rows: I64, part_of: I64, parts: int) -> tuple[I64, int]:
    """Exposed communication of one device, by part and in all."""
    comm, cover = rows[scene.communication[rows]], rows[scene.compute[rows]]
    if not len(comm):
        return np.zeros(parts, np.int64), 0
    work, end = scene.work, scene.end_ns
    under = intervals.merge(work.ts_ns[cover], end[cover])

    def bare(spans: intervals.Spans) -> I64:
        return (spans.end - spans.start) - intervals.covered(under, spans.start, spans.end)

    split = intervals.merge(work.ts_ns[comm], end[comm], part_of[comm])
    by_part = np.zeros(parts, np.int64)
    np.add.at(by_part, split.group, bare(split))
    return by_part, int(bare(intervals.merge(work.ts_ns[comm], end[comm])).sum())


def steps_of(scene: Scene, part: Part) -> int | None:
    """Step windows of a part; None outside of windows."""
    windows = scene.trace.windows
    if part.kind < 0 or not len(windows):
        return None
    mine = (windows.stage == part.stage) & (windows.kind == part.kind)
    mine &= (windows.device == part.device) | (windows.device < 0)
    return len(distinct(windows.step[mine]))


def stage_steps(scene: Scene, stage: int) -> int | None:
    """Step windows of a stage on the rank, whatever their kind."""
    windows = scene.trace.windows
    mine = windows.stage == stage
    return len(distinct(windows.step[mine])) if len(windows) and bool(mine.any()) else None


def stage_rows(scene: Scene, line: Timeline) -> list[list[Any]]:
    """Rows of the stages table of one rank."""
    order = sorted(
        range(len(line.parts)),
        key=lambda i: (line.parts[i].device, stage_rank(scene.stage_name(line.parts[i].stage)), -int(line.busy_ns[i])),
    )
    rows: list[list[Any]] = []
    for i in order:
        part = line.parts[i]
        busy, idle = int(line.busy_ns[i]), int(line.idle_ns[i])
        kind = scene.text(part.kind)
        where = [scene.rank, device_number(part.device), scene.stage_name(part.stage), kind, steps_of(scene, part)]
        rows.append([*where, us(busy + idle), us(busy), us(idle), us(int(line.exposed_ns[i]))])
    return rows


def stage_table(rows: list[list[Any]]) -> Table:
    """The stages table."""
    return Table("stages", STAGE_COLUMNS, rows, "Stages: wall, busy, idle, exposed communication")
