"""Compute flow: a representative layer kernel by kernel, each with its spread over the layers of the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from infer_forge.base.kernels import classify, simplify
from infer_forge.pipeline.clusters import Cluster
from infer_forge.pipeline.model import HALVES, Lane, Layer, Pass


@dataclass
class Row:
    """One kernel of the flow."""

    order: int
    row: int
    half: str
    category: str
    kernel: str
    name: str
    dur_ns: float
    min_ns: int
    max_ns: int
    gap_ns: int | None
    share_pct: float
    stream: int | None
    rel_ns: int
    op: str | None
    dims: str | None
    dtypes: str | None
    source: str | None
    roofline_pct: float | None = None
    module: str | None = None


def representative_layer(cluster: Cluster, p: Pass) -> tuple[Layer, str]:
    """The layer of a pass nearest to the cluster's median wall, edge variants and outliers left out."""
    spared = {*cluster.variants, *cluster.outliers()}
    good = [x for x in cluster.layers if x.number not in spared] or cluster.layers
    by_number = {layer.number: layer for layer in p.layers}
    good = [x for x in good if x.number in by_number] or cluster.layers
    chosen = min(good, key=lambda x: (abs(x.wall_ns - cluster.wall_ns), x.number))
    reason = (
        f"nearest to the median wall of the {len(cluster.layers)} layers of cluster {cluster.number} ({cluster.label})"
    )
    return by_number[chosen.number], reason


def flow(lane: Lane, layer: Layer, fellows: list[Layer]) -> list[Row]:
    """The kernels of a layer in order; duration is the median over `fellows` (the layer among them) at the same place."""
    work, trace = lane.trace.work, lane.trace
    spread: dict[tuple[int, int], list[int]] = {}
    for fellow in fellows:
        for row, at in zip(fellow.rows.tolist(), _places(lane, fellow), strict=True):
            spread.setdefault(at, []).append(int(work.dur_ns[row]))
    places = _places(lane, layer)
    rows: list[Row] = []
    begin, reach = int(work.ts_ns[layer.rows[0]]), 0
    for k, row in enumerate(layer.rows.tolist()):
        name, dur, start = trace.names[work.name[row]], int(work.dur_ns[row]), int(work.ts_ns[row])
        seen = spread.get(places[k], [dur])
        dims, types = _shapes(lane, row)
        rows.append(
            Row(
                k,
                row,
                HALVES[int(lane.half_of[row])],
                classify(name),
                simplify(name),
                name,
                median(seen),
                min(seen),
                max(seen),
                start - reach if k else None,
                0.0,
                int(work.stream[row]) if work.stream[row] >= 0 else None,
                start - begin,
                trace.name(int(work.op[row])),
                dims,
                types,
                trace.name(int(work.source[row])),
            )
        )
        reach = max(reach, start + dur)
    whole = sum(r.dur_ns for r in rows) or 1
    for r in rows:
        r.share_pct = 100 * r.dur_ns / whole
    return rows


def _places(lane: Lane, layer: Layer) -> list[tuple[int, int]]:
    """What is the same kernel in another layer: its place in the half's template, else its name and how often it came before."""
    seen: dict[int, int] = {}
    found: list[tuple[int, int]] = []
    for row in layer.rows.tolist():
        place, name = int(lane.place_of[row]), int(lane.trace.work.name[row])
        if place >= 0:
            found.append((-1, place))
            continue
        found.append((name, seen.get(name, 0)))
        seen[name] = seen.get(name, 0) + 1
    return found


def _shapes(lane: Lane, row: int) -> tuple[str | None, str | None]:
    """Input dims and types of the op that launched a kernel, where shapes were recorded in this file."""
    at = int(lane.trace.work.op_row[row])
    if at < 0:
        return lane.trace.mapped_shapes.get(row, (None, None))
    ops, texts = lane.trace.ops, lane.trace.op_texts
    dims, types = int(ops.dims[at]), int(ops.types[at])
    return texts[dims] if dims >= 0 else None, texts[types] if types >= 0 else None


def compare(lane: Lane, one: Layer, other: Layer) -> list[tuple[str, str, str, int | None, int | None]]:
    """Two layers aligned by their kernels: half, category, kernel, duration in each (None where it has none)."""
    from difflib import SequenceMatcher

    work, names = lane.trace.work, lane.trace.names

    def words(layer: Layer) -> list[str]:
        return [simplify(names[work.name[r]]) for r in layer.rows.tolist()]

    a, b = words(one), words(other)
    rows: list[tuple[str, str, str, int | None, int | None]] = []

    def put(i: int | None, j: int | None) -> None:
        row = int(one.rows[i]) if i is not None else int(other.rows[j or 0])
        name: str = names[int(work.name[row])]
        mine = int(work.dur_ns[one.rows[i]]) if i is not None else None
        its = int(work.dur_ns[other.rows[j]]) if j is not None else None
        rows.append((HALVES[int(lane.half_of[row])], classify(name), simplify(name), mine, its))

    for tag, i1, i2, j1, j2 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            for i, j in zip(range(i1, i2), range(j1, j2), strict=True):
                put(i, j)
            continue
        for i in range(i1, i2):
            put(i, None)
        for j in range(j1, j2):
            put(None, j)
    return rows
