"""The kernel table: which kernel takes the device's time in which stage, and where it comes from."""

from __future__ import annotations

from typing import Any

import numpy as np

from infer_forge.base.tables import Column, Table
from infer_forge.profile.grouping import dominant, group, sums
from infer_forge.profile.scene import Scene, device_number, pct, us

COLUMNS = [
    Column("rank", "text"),
    Column("device", "text"),
    Column("stage", "text"),
    Column("kernel", "text", "short name; templates and parameters left out"),
    Column("category", "text"),
    Column("time_us", "us", "sum of durations"),
    Column("share_pct", "pct", "of the stage's device time on that rank"),
    Column("launches", "int"),
    Column("mean_us", "us"),
    Column("cpu_op", "text", "the op that launched most of its time"),
    Column("source", "text", "innermost frame of model or engine code, for most of its time"),
    Column("source_share_pct", "pct", "share of the kernel's time that comes from that source"),
]


def stage_sums(scene: Scene) -> dict[int, int]:
    """Device time (sum of durations, ns) of each stage id on the rank."""
    sums = np.zeros(int(scene.work.stage.max(initial=0)) + 1, np.int64)
    np.add.at(sums, np.maximum(scene.work.stage, 0), scene.work.dur_ns)
    return {int(i): int(sums[i]) for i in np.flatnonzero(sums)}


def kernel_rows(scene: Scene) -> list[list[Any]]:
    """Rows of one rank, every kernel of every device and stage; largest first within a stage.

    The times of all rows add up to all device work of the rank, to the nanosecond.
    """
    work = scene.work
    if not len(work):
        return []
    kernels, categories = scene.kernels, scene.categories
    stages = np.maximum(work.stage, 0).astype(np.int64)
    device = np.searchsorted(np.array(scene.devices), work.device)
    packed = device * (int(stages.max()) + 1) + stages
    packed = (packed * len(kernels.texts) + kernels.ids) * len(categories.texts) + categories.ids
    found = group(packed, int(packed.max()) + 1)
    size, count = len(found.keys), found.counts
    time = sums(found.place, size, work.dur_ns)
    ops, _ = dominant(found.place, size, work.op, work.dur_ns)
    sources, weights = dominant(found.place, size, work.source, work.dur_ns)
    whole = stage_sums(scene)
    rows: list[list[Any]] = []
    for row, at in enumerate(found.first.tolist()):
        stage, source = int(stages[at]), int(sources[row])
        rows.append(
            [
                scene.rank,
                device_number(int(work.device[at])),
                scene.stage_name(stage),
                kernels.texts[kernels.ids[at]],
                categories.texts[categories.ids[at]],
                us(int(time[row])),
                pct(time[row], whole.get(stage, 0)),
                int(count[row]),
                us(int(time[row]) / int(count[row])),
                _op(scene, int(ops[row]), at),
                scene.text(source),
                pct(weights[row], time[row]) if source >= 0 else None,
            ]
        )
    return rows


def _op(scene: Scene, op: int, at: int) -> str | None:
    """Text of the CPU op; a graph replay says so, because its op is only the launch of the whole graph."""
    if op >= 0:
        return scene.text(op)
    return "unresolved (graph replay)" if bool(scene.work.graph[at]) else None


def kernel_table(rows: list[list[Any]]) -> Table:
    """The table of some rows."""
    return Table("kernel", COLUMNS, rows, "Kernel: where device time goes")
