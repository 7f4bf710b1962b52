"""Why the device was idle: the split of idle by cause, launch overhead by API, blocking calls, the longest gaps, a verdict."""

from __future__ import annotations

from typing import Any

import numpy as np

from infer_forge.base.tables import Column, Table
from infer_forge.profile.scene import Scene, device_number, pct, place, stage_rank, us
from infer_forge.profile.thresholds import thresholds
from infer_forge.profile.timeline import CAUSES, Timeline
from infer_forge.trace.columns import CallKind

VERDICTS = ("host_bound", "device_bound", "communication_bound", "mixed", "unclear")

HOST_COLUMNS = [
    Column("rank", "text"),
    Column("device", "text"),
    Column("stage", "text"),
    Column("idle_us", "us"),
    Column("host_late_us", "us", "the launch call of the next kernel began after the device had fallen idle"),
    Column("in_flight_us", "us", "the call had begun before and ended after"),
    Column("queued_us", "us", "the call had ended before: dependency, stream wait, gap inside a graph"),
    Column("unknown_us", "us", "no launch call in the trace"),
    Column("verdict", "text"),
]
LAUNCH_COLUMNS = [
    Column("rank", "text"),
    Column("api", "text"),
    Column("kind", "text"),
    Column("calls", "int"),
    Column("time_us", "us"),
    Column("mean_us", "us"),
    Column("device_items", "int", "device work items that these calls launched"),
]
GAP_COLUMNS = [
    Column("rank", "text"),
    Column("device", "text"),
    Column("stage", "text"),
    Column("at_us", "us", "from the first device work of the rank"),
    Column("gap_us", "us"),
    Column("cause", "text"),
    Column("next_kernel", "text"),
    Column("launch", "text"),
    Column("cpu_op", "text"),
    Column("source", "text"),
]


def inflated(scene: Scene) -> list[str]:
    """What the profiler recorded that makes the host slower: `stacks`, `shapes`. Empty when neither is known to be on."""
    header = scene.trace.header
    seen = scene.trace.coverage.categories.get("python_function", 0) > 0
    found = ["stacks"] if header.with_stack or seen else []
    return [*found, "shapes"] if header.record_shapes else found


def host_rows(scene: Scene, line: Timeline) -> list[list[Any]]:
    """Rows of the host table of one rank: idle of each device and stage by cause, with a verdict."""
    rows: list[list[Any]] = []
    void = inflated(scene)
    for device in scene.devices:
        gaps = line.gaps[device]
        stage_of_gap = np.maximum(scene.work.stage[gaps.next_row], 0)
        for stage in scene.stages_on(device):
            mine = stage_of_gap == stage
            split = np.zeros(len(CAUSES), np.int64)
            np.add.at(split, gaps.cause[mine], gaps.length_ns[mine])
            parts = [i for i, p in enumerate(line.parts) if p.device == device and p.stage == max(stage, 0)]
            busy, exposed = int(line.busy_ns[parts].sum()), int(line.exposed_ns[parts].sum())
            name = verdict(busy, exposed, [int(x) for x in split], bool(void))
            values = [us(int(split.sum())), *(us(int(x)) for x in split)]
            rows.append([scene.rank, device_number(device), scene.stage_name(stage), *values, name])
    return sorted(rows, key=lambda r: (place(r[1]), stage_rank(r[2])))


def verdict(busy_ns: int, exposed_ns: int, split_ns: list[int], profiler_slows_host: bool) -> str:
    """What limits a stage, by the thresholds of `triage_thresholds.yaml`. `split_ns` is idle in the order of CAUSES."""
    limits = thresholds("host")
    idle, late, unknown = sum(split_ns), split_ns[0], split_ns[3]
    wall = busy_ns + idle
    if not wall or profiler_slows_host:
        return "unclear"
    if idle >= limits["idle_share"] * wall and unknown > limits["unknown_share"] * idle:
        return "unclear"
    host = late >= limits["late_share"] * wall
    comm = exposed_ns >= limits["communication_share"] * wall
    if host or comm:
        return "mixed" if host and comm else "host_bound" if host else "communication_bound"
    return "device_bound" if busy_ns - exposed_ns >= limits["device_share"] * wall else "mixed"


def launch_rows(scene: Scene) -> list[list[Any]]:
    """Time that the host spends in launching (every launch form) and in blocking calls, by API."""
    calls = scene.trace.calls
    shown = (CallKind.LAUNCH, CallKind.GRAPH_LAUNCH, CallKind.MEMCPY, CallKind.MEMSET, CallKind.SYNC)
    mask = np.isin(calls.kind, shown)
    if not bool(mask.any()):
        return []
    packed = calls.name[mask].astype(np.int64) * 16 + calls.kind[mask]
    keys, where, count = np.unique(packed, return_inverse=True, return_counts=True)
    time, items = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    np.add.at(time, where, np.maximum(calls.dur_ns[mask], 0))
    np.add.at(items, where, np.maximum(calls.work[mask], 0))
    rows: list[list[Any]] = []
    for i in np.argsort(-time, kind="stable"):
        kind = CallKind(int(keys[i] & 15)).name.lower()
        numbers = [int(count[i]), us(int(time[i])), us(int(time[i]) / int(count[i])), int(items[i])]
        rows.append([scene.rank, scene.text(int(keys[i] >> 4)), kind, *numbers])
    return rows


def gap_rows(scene: Scene, line: Timeline) -> list[list[Any]]:
    """The longest idle gaps of a rank, with the kernel that ended each and where it was launched from."""
    work, calls, trace = scene.work, scene.trace.calls, scene.trace
    found: list[tuple[int, list[Any]]] = []
    most = int(thresholds("host")["top_gaps"])
    origin = int(work.ts_ns[0]) if len(work) else 0
    for device in scene.devices:
        gaps = line.gaps[device]
        for i in np.argsort(-gaps.length_ns, kind="stable")[:most]:
            row = int(gaps.next_row[i])
            call = int(work.call[row])
            op = int(work.op[row]) if work.op[row] >= 0 else int(calls.op[call]) if call >= 0 else -1
            source = int(work.source[row]) if work.source[row] >= 0 else int(calls.source[call]) if call >= 0 else -1
            texts: list[str | None] = [
                scene.kernels.texts[scene.kernels.ids[row]],
                trace.name(int(calls.name[call])) if call >= 0 else None,
            ]
            where = [scene.rank, device_number(device), scene.stage_name(max(int(work.stage[row]), 0))]
            size = [us(int(gaps.start_ns[i]) - origin), us(int(gaps.length_ns[i])), CAUSES[int(gaps.cause[i])]]
            found.append((int(gaps.length_ns[i]), [*where, *size, *texts, trace.name(op), trace.name(source)]))
    return [row for _, row in sorted(found, key=lambda pair: -pair[0])[:most]]


def coverage_by_graph(scene: Scene) -> dict[str, Any]:
    """How much of the device work was launched by graphs: items and time, in per cent; None without any work."""
    work = scene.work
    return {
        "items_pct": pct(int(work.graph.sum()), len(work)),
        "time_pct": pct(int(work.dur_ns[work.graph].sum()), int(work.dur_ns.sum())),
    }


def host_table(rows: list[list[Any]]) -> Table:
    """The host table."""
    return Table("host", HOST_COLUMNS, rows, "Host: why the device was idle")


def launch_table(rows: list[list[Any]]) -> Table:
    """Launch and blocking calls by API."""
    return Table("launches", LAUNCH_COLUMNS, rows, "Launch overhead and blocking calls by API")


def gap_table(rows: list[list[Any]]) -> Table:
    """The longest gaps."""
    return Table("gaps", GAP_COLUMNS, rows, "Longest idle gaps")
