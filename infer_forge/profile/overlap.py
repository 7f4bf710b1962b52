"""The overlap table: how much of each kernel family runs alone, and whether something stands in the way of overlapping it.

Who hides whom is not symmetric. Compute is what a step is for: a GEMM under an all-reduce is not hidden, the all-reduce
is. So compute families are held against other compute, communication against compute, copies against every kernel. The
arithmetic is on unions by family, so a kernel that overlaps itself on one stream counts once and nothing passes 100 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from infer_forge.base.tables import Column, Table
from infer_forge.profile import intervals
from infer_forge.profile.grouping import dominant
from infer_forge.profile.scene import Scene, device_number, us
from infer_forge.profile.thresholds import thresholds
from infer_forge.trace.columns import I64, CallKind, Flags

COLUMNS = [
    Column("rank", "text"),
    Column("device", "text"),
    Column("stage", "text"),
    Column("family", "text"),
    Column("total_us", "us", "union of the family's intervals"),
    Column("exclusive_us", "us", "of it, under nothing that would hide it"),
    Column("hidden_us", "us"),
    Column("risk", "text"),
    Column("reason", "text"),
    Column("recommendation", "text"),
]

COMPUTE, COMMUNICATION, COPY = 0, 1, 2

_FLOW = (
    "gemm moe attention mla norm activation rope quantization linear_attention embedding communication convolution "
    "copy memory elementwise reduce softmax kv_cache mhc hadamard indexer"
)
PRODUCES = frozenset(_FLOW.split())
"""Categories whose result a kernel right behind them on the same stream usually reads."""


class Row(NamedTuple):
    """One family of one stage on one device, with its device time (sum of durations) for shares."""

    device: int
    stage: int
    family: str
    kind: int
    work_ns: int
    total_ns: int
    exclusive_ns: int
    risk: str
    reason: str
    advice: str


@dataclass
class Neighbours:
    """Per work item: rows of the items before and behind it on its stream (-1 none), and the gaps to them."""

    before: I64
    behind: I64
    gap_before_ns: I64
    gap_behind_ns: I64


def overlap(scene: Scene) -> list[Row]:
    """All families of a rank, largest exclusive time first within a stage."""
    ties = _ties(scene)
    rows: list[Row] = []
    for device in scene.devices:
        on_device = np.flatnonzero(scene.work.device == device)
        for stage in scene.stages_on(device):
            rows += _stage(scene, device, stage, on_device, ties)
    return rows


def neighbours(scene: Scene) -> Neighbours:
    """Same-stream order of the work. Items of unknown stream have no neighbours."""
    work, end = scene.work, scene.end_ns
    count = len(work)
    order = np.lexsort((work.ts_ns, work.stream, work.device))
    joined = np.zeros(max(count - 1, 0), np.bool_)
    if count > 1:
        a, b = order[:-1], order[1:]
        joined = (work.device[a] == work.device[b]) & (work.stream[a] == work.stream[b]) & (work.stream[a] >= 0)
    before, behind = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    gap_before, gap_behind = np.zeros(count, np.int64), np.zeros(count, np.int64)
    if count > 1:
        a, b = order[:-1][joined], order[1:][joined]
        gap = work.ts_ns[b] - end[a]
        before[b], behind[a], gap_before[b], gap_behind[a] = a, b, gap, gap
    return Neighbours(before, behind, gap_before, gap_behind)


def _stream_waits(scene: Scene) -> I64 | None:
    """Streams that were seen to wait for an event of another stream; None where the trace records no such thing."""
    syncs, calls = scene.trace.syncs, scene.trace.calls
    stream_waits = np.array([("Stream Wait" in (scene.text(int(n)) or "")) for n in syncs.name], np.bool_)
    waiting = calls.kind == CallKind.STREAM_WAIT
    if not len(syncs) and not bool(waiting.any()):
        return None
    streams = np.concatenate((syncs.stream[stream_waits], calls.stream[waiting]))
    return np.unique(streams[streams >= 0])


@dataclass
class Ties:
    """Per work item: what binds it to its stream."""

    kind: I64
    """COMPUTE, COMMUNICATION or COPY."""
    near: Neighbours
    fed: Flags
    """A producer ends right before it."""
    feeds: Flags
    """A consumer begins right behind it."""
    waits: Flags
    """Its stream was seen to wait for an event."""
    waits_recorded: bool


def _ties(scene: Scene) -> Ties:
    near, streams = neighbours(scene), _stream_waits(scene)
    tight = int(thresholds("overlap")["tight_gap_us"] * 1000)
    makes = np.array([c in PRODUCES for c in scene.categories.texts], np.bool_)[scene.categories.ids]
    kind = np.where(scene.communication, COMMUNICATION, np.where(scene.compute, COMPUTE, COPY)).astype(np.int64)
    fed = (near.before >= 0) & (near.gap_before_ns <= tight) & makes[near.before]
    feeds = (near.behind >= 0) & (near.gap_behind_ns <= tight) & makes[near.behind]
    waits = np.isin(scene.work.stream, streams) if streams is not None else np.zeros(len(kind), np.bool_)
    return Ties(kind, near, fed, feeds, waits, streams is not None)


@dataclass
class _Sums:
    """Counts of one stage by family."""

    items: I64
    fed: I64
    feeds: I64
    neighboured: I64
    waits: I64
    before: I64
    behind: I64
    """[family, category]: what stands right before and behind."""


def _sums(scene: Scene, mine: I64, ties: Ties) -> _Sums:
    family, size = scene.families.ids[mine], len(scene.families.texts)
    categories = len(scene.categories.texts)

    def count(mask: Flags) -> I64:
        return np.bincount(family[mask[mine]], minlength=size).astype(np.int64)

    def beside(mask: Flags, rows: I64) -> I64:
        here = mine[mask[mine]]
        packed = scene.families.ids[here].astype(np.int64) * categories + scene.categories.ids[rows[here]]
        counts = np.bincount(packed, minlength=size * categories).astype(np.int64)
        return np.reshape(counts, (size, categories))

    near = ties.near
    return _Sums(
        np.bincount(family, minlength=size).astype(np.int64),
        count(ties.fed),
        count(ties.feeds),
        count((near.before >= 0) | (near.behind >= 0)),
        count(ties.waits),
        beside(ties.fed, near.before),
        beside(ties.feeds, near.behind),
    )


def _stage(scene: Scene, device: int, stage: int, on_device: I64, ties: Ties) -> list[Row]:
    work, end, families = scene.work, scene.end_ns, scene.families
    mine = on_device[np.maximum(work.stage[on_device], 0) == max(stage, 0)]
    low, high = int(work.ts_ns[mine].min()), int(end[mine].max())
    # What runs in the stage's span hides its work, whatever stage it belongs to.
    span = on_device[(work.ts_ns[on_device] < high) & (end[on_device] > low)]
    family, size = families.ids[mine], len(families.texts)
    merged = intervals.merge(work.ts_ns[mine], end[mine], family)
    total = intervals.by_group(merged, size)
    family_kind = np.zeros(size, np.int64)
    family_kind[family] = ties.kind[mine]
    exclusive = _exclusive(scene, span, ties.kind, family_kind, merged)
    spent = np.zeros(size, np.int64)
    np.add.at(spent, family, work.dur_ns[mine])
    sums = _sums(scene, mine, ties)
    sources, _ = dominant(family, size, work.source[mine], work.dur_ns[mine])
    ops, _ = dominant(family, size, work.op[mine], work.dur_ns[mine])
    rows: list[Row] = []
    for one in np.flatnonzero(sums.items).tolist():
        risk, reason = _risk(scene, one, sums, ties.waits_recorded)
        kind = int(family_kind[one])
        scope = scene.text(int(sources[one])) or scene.text(int(ops[one]))
        share = float(exclusive[one]) / float(total[one]) if total[one] else 0.0
        numbers = int(spent[one]), int(total[one]), int(exclusive[one])
        advice = _advice(kind, share, risk, scope)
        rows.append(Row(device, stage, families.texts[one], kind, *numbers, risk, reason, advice))
    return sorted(rows, key=lambda r: (-r.exclusive_ns, r.family))


def _exclusive(scene: Scene, span: I64, kind: I64, family_kind: I64, merged: intervals.Spans) -> I64:
    """Time of each family under nothing that would hide it (see the module's docstring).

    `span` is all work of the device in the stage's time, `merged` the stage's own intervals by family.
    """
    work, end, families = scene.work, scene.end_ns, scene.families
    compute, kernels = span[kind[span] == COMPUTE], span[kind[span] != COPY]
    lonely = intervals.single(intervals.merge(work.ts_ns[compute], end[compute], families.ids[compute]))
    cover = intervals.merge(work.ts_ns[compute], end[compute])
    any_kernel = intervals.merge(work.ts_ns[kernels], end[kernels])
    out = np.zeros(len(families.texts), np.int64)
    for one, spans in ((COMPUTE, lonely), (COMMUNICATION, cover), (COPY, any_kernel)):
        pick = family_kind[merged.group] == one
        start, stop = merged.start[pick], merged.end[pick]
        inside = intervals.covered(spans, start, stop)
        np.add.at(out, merged.group[pick], inside if one == COMPUTE else (stop - start) - inside)
    return out


def _risk(scene: Scene, family: int, sums: _Sums, waits_recorded: bool) -> tuple[str, str]:
    """Whether a dependency was seen around a family's launches: `low`, `high` or `unclear`, with the reason."""
    limits = thresholds("overlap")
    items = int(sums.items[family])
    if items < limits["min_launches"]:
        return "unclear", f"only {items} launches"
    if not sums.neighboured[family]:
        return "unclear", "no neighbour on its stream"
    if sums.waits[family]:
        return "high", "its stream waits for events of another stream"
    fed, feeds = float(sums.fed[family]) / items, float(sums.feeds[family]) / items
    share = max(fed, feeds)
    if share >= limits["tight_share"]:
        side, beside = ("behind", sums.before) if fed >= feeds else ("in front of", sums.behind)
        other = scene.categories.texts[int(beside[family].argmax())]
        return "high", f"back to back {side} {other} on its stream in {share:.0%} of launches"
    if share >= limits["tight_share"] / 4:
        return "unclear", f"back to back with a producer or consumer in {share:.0%} of launches"
    seen = "no stream wait on its stream" if waits_recorded else "no event or stream wait recorded"
    return "low", f"loose neighbours on its stream, {seen}"


def _advice(kind: int, exclusive_share: float, risk: str, scope: str | None) -> str:
    """What to do with a family."""
    limits = thresholds("overlap")
    where = f" at {scope}" if scope else ""
    if exclusive_share <= 1 - limits["hidden_share"]:
        return "leave it: mostly hidden"
    if kind == COMPUTE:
        return f"not by overlap: it is the compute; make it faster or fuse it{where}"
    if exclusive_share < limits["exclusive_share"]:
        return f"partly hidden: start it earlier{where}"
    if kind == COPY:
        return f"move the copy to a side stream with pinned memory, or drop it{where}"
    if risk == "low":
        return f"overlap it with compute on a side stream{where}"
    if risk == "high":
        return f"fuse it with its neighbours, or split the batch so that other work can hide it{where}"
    return f"check the dependencies first{where}"


def overlap_table(scene_rows: list[tuple[Scene, Row]]) -> Table:
    """The table of some rows."""
    rows: list[list[Any]] = [
        [
            scene.rank,
            device_number(r.device),
            scene.stage_name(r.stage),
            r.family,
            us(r.total_ns),
            us(r.exclusive_ns),
            us(r.total_ns - r.exclusive_ns),
            r.risk,
            r.reason,
            r.advice,
        ]
        for scene, r in scene_rows
    ]
    return Table("overlap", COLUMNS, rows, "Overlap: what runs alone, and what stands in the way")
