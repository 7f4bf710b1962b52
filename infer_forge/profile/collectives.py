"""Collectives over ranks: transfer floor, waiting, who came last; and the skew of the ranks.

Collectives are matched by process group and order, with the names as a check; no clock alignment is needed. The shortest
duration of a collective over its ranks is its transfer floor, the rest of a rank's duration is waiting, and the rank
with the shortest duration is the one that came last (an inference: it found all others waiting).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from infer_forge.base.records import Finding
from infer_forge.base.tables import Column, Table
from infer_forge.profile.grouping import distinct
from infer_forge.profile.scene import RankLabel, Scene, us
from infer_forge.profile.timeline import Timeline
from infer_forge.trace.columns import I64
from infer_forge.trace.model import Collective

COLUMNS = [
    Column("rank", "text"),
    Column("group", "text", "process group; null where the kernels do not name one"),
    Column("op", "text", "kernel family"),
    Column("count", "int"),
    Column("time_us", "us", "sum of durations on this rank"),
    Column("floor_us", "us", "sum over collectives of the shortest duration among the ranks"),
    Column("wait_us", "us", "time_us - floor_us"),
    Column("came_last", "int", "collectives in which this rank was the shortest: it came last (inferred)"),
]
BANDWIDTH_COLUMNS = [
    Column("group", "text"),
    Column("op", "text"),
    Column("bytes", "bytes", "message size"),
    Column("count", "int"),
    Column("floor_us", "us", "mean transfer floor of one collective"),
    Column("bus_gb_s", "number", "bus bandwidth by the NCCL-tests factors"),
]
SKEW_COLUMNS = [
    Column("rank", "text"),
    Column("busy_us", "us"),
    Column("idle_us", "us"),
    Column("exposed_comm_us", "us"),
    Column("slowest_family", "text", "family with the most device time on the rank"),
]

_WIDTHS = {
    8: "double long int64 float64",
    4: "float float32 int int32",
    2: "half float16 bfloat16 short int16",
    1: "char int8 byte uint8 bool float8_e4m3fn float8_e5m2",
}
_BYTES = {name: width for width, names in _WIDTHS.items() for name in names.split()}


@dataclass
class Matched:
    """What came out of matching."""

    rows: list[list[Any]] = field(default_factory=list[list[Any]])
    bandwidth: list[list[Any]] = field(default_factory=list[list[Any]])
    findings: list[Finding] = field(default_factory=list[Finding])


@dataclass
class _Sequence:
    """One rank's collectives of one group, in order."""

    rank: RankLabel
    scene: Scene
    items: I64


def _group_name(found: Collective | None) -> str | None:
    if found is None:
        return None
    return found.group_name or found.group_desc or None


def _sequences(scenes: list[Scene]) -> dict[str | None, list[_Sequence]]:
    """Per process group the ranks' collectives. Kernels without a group (custom all-reduce) share the group None."""
    groups: dict[str | None, list[_Sequence]] = {}
    for scene in scenes:
        items = np.flatnonzero(scene.communication).astype(np.int64)
        known = scene.trace.collectives
        ids = scene.work.collective[items]
        labels = np.array([*(_group_name(c) for c in known), None], object)[ids] if len(items) else np.empty(0, object)
        for label in dict.fromkeys(labels.tolist()):
            mine = items[[value == label for value in labels]]
            groups.setdefault(label, []).append(_Sequence(scene.rank, scene, mine))
    return groups


def listed(scenes: list[Scene]) -> Matched:
    """The collectives of traces that do not belong together: each for itself, without floor and waiting."""
    out = Matched()
    for scene in scenes:
        out.rows += match([scene]).rows
    return out


def match(scenes: list[Scene]) -> Matched:
    """Match the collectives of several ranks (or list those of one rank, without floor and waiting)."""
    out = Matched()
    groups = _sequences(scenes)
    mixed = None in groups and len(groups) > 1 and len(scenes) > 1
    for label, ranks in groups.items():
        if len(ranks) < 2:
            _single(out, label, ranks[0], len(scenes))
            continue
        reason = _differs(ranks)
        if reason is None:
            _matched(out, label, ranks)
        else:
            out.findings.append(_refusal(label, reason))
    if mixed:
        text = "collectives that name no process group are matched by order alone, all in one group"
        out.findings.append(Finding("COLLECTIVES_WITHOUT_GROUP", text, "info"))
    return out


def _names(sequence: _Sequence) -> list[str]:
    return [sequence.scene.families.texts[i] for i in sequence.scene.families.ids[sequence.items]]


def _differs(ranks: list[_Sequence]) -> str | None:
    """Why the ranks' orders cannot be matched, or None."""
    first = ranks[0]
    base = _names(first)
    for other in ranks[1:]:
        names = _names(other)
        for at, (a, b) in enumerate(zip(base, names, strict=False)):
            if a != b:
                return f"collective {at} is {a} on rank {first.rank} and {b} on rank {other.rank}"
        if len(names) != len(base):
            return f"rank {first.rank} has {len(base)} collectives, rank {other.rank} {len(names)}"
    return None


def _refusal(label: str | None, reason: str) -> Finding:
    return Finding(
        "COLLECTIVE_ORDER",
        f"the collectives of group {label or '(unnamed)'} are not matched: {reason}",
        "warning",
        next_step="take all ranks in one capture over the same steps",
    )


def _single(out: Matched, label: str | None, one: _Sequence, ranks: int) -> None:
    if ranks > 1:
        out.findings.append(
            Finding("COLLECTIVE_ONE_RANK", f"group {label or '(unnamed)'} was seen on rank {one.rank} only", "info")
        )
    family = one.scene.families
    ids = family.ids[one.items]
    for i in distinct(ids):
        mine = one.items[ids == i]
        time = int(one.scene.work.dur_ns[mine].sum())
        out.rows.append([one.rank, label, family.texts[i], len(mine), us(time), None, None, None])


def _matched(out: Matched, label: str | None, ranks: list[_Sequence]) -> None:
    durations = np.stack([r.scene.work.dur_ns[r.items] for r in ranks])
    floor, last = durations.min(axis=0), durations.argmin(axis=0)
    names = np.array(_names(ranks[0]), object)
    for op in dict.fromkeys(names.tolist()):
        mine = np.flatnonzero(names == op)
        low = int(floor[mine].sum())
        for i, one in enumerate(ranks):
            time = int(durations[i][mine].sum())
            came = int((last[mine] == i).sum())
            out.rows.append([one.rank, label, op, len(mine), us(time), us(low), us(time - low), came])
        _bandwidth(out, label, str(op), ranks[0], mine, floor)


def _bandwidth(out: Matched, label: str | None, op: str, one: _Sequence, mine: I64, floor: I64) -> None:
    """Bus bandwidth of one op by message size, where the trace records sizes (NCCL-tests, doc/PERFORMANCE.md)."""
    ids = one.scene.work.collective[one.items[mine]]
    for i in distinct(ids[ids >= 0]):
        found = one.scene.trace.collectives[int(i)]
        width = _BYTES.get(found.dtype.lower().removeprefix("torch."))
        elements = max(found.in_elements or 0, found.out_elements or 0)
        size = found.group_size
        if not width or not elements or not size or size < 2:
            continue
        here = mine[ids == i]
        mean = float(floor[here].mean())
        kind = f"{found.op} {op}".lower().replace("_", "")
        factor = 2 * (size - 1) / size if "allreduce" in kind else (size - 1) / size if _gathers(kind) else 1.0
        speed = elements * width * factor / mean if mean else math.nan
        numbers = [elements * width, len(here), us(mean), round(speed, 2) if mean else None]
        out.bandwidth.append([label, op, *numbers])


def _gathers(kind: str) -> bool:
    return any(word in kind for word in ("allgather", "reducescatter", "alltoall"))


def skew_rows(scenes: list[tuple[Scene, Timeline]]) -> list[list[Any]]:
    """Per rank: busy, idle, exposed communication, and the family with the most device time."""
    rows: list[list[Any]] = []
    for scene, line in scenes:
        sums = np.zeros(max(len(scene.families.texts), 1), np.int64)
        np.add.at(sums, scene.families.ids, scene.work.dur_ns)
        slowest = scene.families.texts[int(sums.argmax())] if len(scene.work) else None
        times = (line.total_busy_ns, line.total_idle_ns, line.total_exposed_ns)
        rows.append([scene.rank, *map(us, times), slowest])
    return rows


def collective_table(rows: list[list[Any]]) -> Table:
    """The collectives table."""
    return Table("collectives", COLUMNS, rows, "Collectives: floor, waiting, who came last")


def bandwidth_table(rows: list[list[Any]]) -> Table:
    """Bus bandwidth where sizes are recorded."""
    return Table("bandwidth", BANDWIDTH_COLUMNS, rows, "Collectives: bus bandwidth")


def skew_table(rows: list[list[Any]]) -> Table:
    """The skew table."""
    return Table("skew", SKEW_COLUMNS, rows, "Skew: the ranks side by side")
