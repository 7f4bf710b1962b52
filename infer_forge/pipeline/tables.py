"""The tables of a pipeline report, with fixed columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from infer_forge.base.tables import Column, Table
from infer_forge.pipeline.clusters import Cluster, LayerTime
from infer_forge.pipeline.flow import Row
from infer_forge.pipeline.model import Lane, Layer, Pass
from infer_forge.pipeline.perfetto import seconds


@dataclass
class View:
    """What is shown of one stage: its pass, layers, clusters and flow."""

    lane: Lane
    stage: str
    chosen: Pass
    reason: str
    layers: list[LayerTime]
    clusters: list[Cluster]
    layer: Layer | None = None
    layer_reason: str = ""
    rows: list[Row] | None = None


def us(ns: float) -> float:
    """Microseconds with three decimals."""
    return round(ns / 1000.0, 3)


def ms(ns: float) -> float:
    """Milliseconds with six decimals: whole nanoseconds stay exact."""
    return round(ns / 1e6, 6)


def passes(lanes: Sequence[Lane], origins: Sequence[int]) -> Table:
    """Every pass of every rank and device. `start_ms` is on the viewer's clock."""
    columns = [
        Column("pass", "int"), Column("rank", "text"), Column("stage", "text"), Column("batch", "int"), Column("tokens", "int"),
        "start_ms", "wall_ms", "device_ms", "idle_ms", Column("layers", "int"), "avg_layer_us", Column("note", "text"),
        Column("device", "text"), Column("kind", "text"), Column("temperature", "text"),
        Column("stage_from", "text"), Column("stage_confidence", "text"),
    ]  # fmt: skip
    rows: list[list[Any]] = []
    for lane, origin in zip(lanes, origins, strict=True):
        for p in lane.passes:
            walls = [_wall(lane, layer) for layer in p.layers if not layer.cut]
            rows.append(
                [
                    p.number, p.rank, p.stage, p.batch, p.tokens, ms(p.start_ns - origin), ms(p.wall_ns), ms(p.device_ns),
                    ms(p.idle_ns), len(p.layers), us(sum(walls) / len(walls)) if walls else None, note(p),
                    p.device if p.device >= 0 else None, p.kind, p.temperature or None, p.stage_from, p.stage_confidence or None,
                ]
            )  # fmt: skip
    return Table("passes", columns, rows, "Forward passes")


def note(p: Pass) -> str:
    """What is to be known of a pass: partial, cold, relative numbers."""
    parts = [p.partial, f"micro-batch {p.micro + 1} of two side by side" if p.micro >= 0 else ""]
    if p.partial and p.layers:
        parts.append(
            f"layers {p.layers[0].number} to {p.layers[-1].number}"
            + (" counted from the first one seen" if p.relative else "")
        )
    if p.given and p.layers:
        parts.append(f"layers {p.layers[0].number} to {p.layers[-1].number} of an exported pass")
    if p.temperature in ("cold", "warm-up"):
        parts.append(f"{p.temperature}: {p.evidence}")
    if not p.layers:
        parts.append("no layer found")
    return "; ".join(x for x in parts if x)


def _wall(lane: Lane, layer: Layer) -> int:
    work = lane.trace.work
    if not len(layer.rows):
        return 0
    start = work.ts_ns[layer.rows]
    return int((start + work.dur_ns[layer.rows]).max() - start.min())


def _categories(views: Sequence[View]) -> list[str]:
    spent: dict[str, float] = {}
    for v in views:
        for layer in v.layers:
            for category, ns in layer.by_category.items():
                spent[category] = spent.get(category, 0.0) + ns
    return sorted(spent, key=lambda c: -spent[c])


def layers(views: Sequence[View]) -> Table:
    """Layers of the chosen pass of each stage; times are medians over the passes that may be averaged with it."""
    names = _categories(views)
    columns = [
        Column("layer", "int"),
        Column("type", "text"),
        "wall_us",
        "device_us",
        *(f"{c}_us" for c in names),
        Column("kernels", "int"),
        Column("stage", "text"),
        Column("pass", "int"),
        Column("cluster", "int"),
    ]
    rows: list[list[Any]] = []
    for v in views:
        home = {x.number: c.number for c in v.clusters for x in c.layers}
        rows += [
            [
                x.number,
                x.label,
                us(x.wall_ns),
                us(x.device_ns),
                *(us(x.by_category.get(c, 0.0)) for c in names),
                x.kernels,
                v.stage,
                v.chosen.number,
                home.get(x.number),
            ]
            for x in v.layers
        ]
    return Table("layers", columns, rows, "Layers")


def clusters(views: Sequence[View]) -> Table:
    """Layer clusters of each stage."""
    names = _categories(views)
    columns = [
        Column("cluster", "int"), Column("type", "text"), Column("layers", "int"), "wall_us", "device_us",
        *(Column(f"{c}_pct", "pct") for c in names), Column("spread_pct", "pct"), Column("outliers", "text"), Column("stage", "text"),
        Column("total_us", "us"), Column("share_pct", "pct"), Column("members", "text"), Column("variants", "text"),
    ]  # fmt: skip
    rows: list[list[Any]] = []
    for v in views:
        whole = sum(c.total_ns for c in v.clusters) or 1.0
        for c in v.clusters:
            sums = {n: sum(x.by_category.get(n, 0.0) for x in c.layers) for n in names}
            total = c.total_ns or 1.0
            rows.append(
                [
                    c.number, c.label, len(c.layers), us(c.wall_ns), us(c.device_ns), *(round(100 * sums[n] / total, 2) for n in names),
                    c.spread_pct, spans(c.outliers()) or None, v.stage, us(c.total_ns), round(100 * c.total_ns / whole, 2),
                    spans([x.number for x in c.layers]), spans(c.variants) or None,
                ]
            )  # fmt: skip
    return Table("clusters", columns, rows, "Layer clusters")


def spans(numbers: Sequence[int]) -> str:
    """`0-2, 5` for 0, 1, 2, 5; steps of two and more as `0-46/2`."""
    left, parts = sorted(numbers), list[str]()
    while left:
        if len(left) > 2 and left[1] - left[0] == left[2] - left[1]:
            step = left[1] - left[0]
            end = 1
            while end + 1 < len(left) and left[end + 1] - left[end] == step:
                end += 1
            parts.append(f"{left[0]}-{left[end]}" + (f"/{step}" if step > 1 else ""))
            left = left[end + 1 :]
        else:
            parts.append(str(left.pop(0)))
    return ", ".join(parts)


def flow(views: Sequence[View], by_duration: bool) -> Table:
    """The representative layer of each stage, kernel by kernel; the hot list when sorted by duration."""
    columns = [
        Column("order", "int"), Column("half", "text"), Column("category", "text"), Column("kernel", "text"), "dur_us", "dur_min_us",
        "dur_max_us", "gap_us", Column("share_pct", "pct"), Column("stream", "text"), Column("ts_rel_us", "us"), Column("dims", "text"),
        Column("dtypes", "text"), Column("source", "text"), Column("roofline_pct", "pct"), Column("module", "text"), Column("op", "text"),
        Column("stage", "text"), Column("layer", "int"),
    ]  # fmt: skip
    rows: list[list[Any]] = []
    for v in views:
        mine = v.rows or []
        if by_duration:
            mine = sorted(mine, key=lambda r: -r.dur_ns)
        for r in mine:
            rows.append(
                [
                    r.order, r.half, r.category, r.kernel, us(r.dur_ns), us(r.min_ns), us(r.max_ns),
                    us(r.gap_ns) if r.gap_ns is not None else None,
                    round(r.share_pct, 2), r.stream, us(r.rel_ns), r.dims, r.dtypes, r.source, r.roofline_pct, r.module, r.op, v.stage,
                    v.layer.number if v.layer else None,
                ]
            )  # fmt: skip
    return Table("flow", columns, rows, "Compute flow of the representative layers")


def ranges(lanes: Sequence[Lane], origins: Sequence[int], views: Sequence[View]) -> Table:
    """Where to look in the viewer: passes of the ranks, layers of the chosen passes, kernels of the flow."""
    columns = [
        Column("what", "text"),
        Column("index", "text"),
        Column("start_s", "seconds"),
        Column("end_s", "seconds"),
        Column("stage", "text"),
        Column("rank", "text"),
    ]
    rows: list[list[Any]] = []
    clock = {id(lane): origin for lane, origin in zip(lanes, origins, strict=True)}
    for lane, origin in zip(lanes, origins, strict=True):
        rows += [
            ["pass", p.number, seconds(p.start_ns, origin), seconds(p.end_ns, origin), p.stage, p.rank]
            for p in lane.passes
        ]
    for v in views:
        origin, work = clock[id(v.lane)], v.lane.trace.work
        for layer in v.chosen.layers:
            if len(layer.rows):
                begin = int(work.ts_ns[layer.rows[0]])
                rows.append(
                    [
                        "layer",
                        layer.number,
                        seconds(begin, origin),
                        seconds(begin + _wall(v.lane, layer), origin),
                        v.stage,
                        v.lane.rank,
                    ]
                )
        for r in v.rows or []:
            begin = int(work.ts_ns[r.row])
            rows.append(
                [
                    "kernel",
                    r.order,
                    seconds(begin, origin),
                    seconds(begin + int(work.dur_ns[r.row]), origin),
                    v.stage,
                    v.lane.rank,
                ]
            )
    return Table("ranges", columns, rows, "Perfetto ranges (seconds from the viewer's origin)")


def comparison(rows: Sequence[tuple[str, str, str, int | None, int | None]], one: int, other: int) -> Table:
    """Two layers side by side."""
    columns = [
        Column("half", "text"),
        Column("category", "text"),
        Column("kernel", "text"),
        Column(f"layer_{one}_us", "us"),
        Column(f"layer_{other}_us", "us"),
        Column("delta_us", "us"),
    ]
    made: list[list[Any]] = []
    for half, category, kernel, a, b in rows:
        made.append(
            [
                half,
                category,
                kernel,
                us(a) if a is not None else None,
                us(b) if b is not None else None,
                us(b - a) if a is not None and b is not None else None,
            ]
        )
    return Table("compare", columns, made, f"Layer {one} beside layer {other}")
