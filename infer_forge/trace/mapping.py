"""Items of graph replays -> CPU op and Python source, through a second trace of the same server.

A capture trace holds the launches that were recorded into graphs (between stream begin and end of capture; they put no work on
a device). A replay is matched to a captured graph by order and node count; where the launches name their kernels (HIP), by
names. An eager trace (graphs off) is matched step by step through kernel names and their order.

Every graph states how sure its mapping is: `verified by names`, `verified by count and category`, `unverified`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

import numpy as np

from infer_forge.base.kernels import classify
from infer_forge.engines.annotations import parse
from infer_forge.trace.columns import CallKind, Link, WorkKind
from infer_forge.trace.model import GraphMapping, Trace

BY_NAMES, BY_CATEGORY, UNVERIFIED = "verified by names", "verified by count and category", "unverified"
_SURE = (BY_NAMES, BY_CATEGORY, UNVERIFIED)
AGREEMENT, COMPARABLE = 0.9, 3
"""Share of comparable nodes whose op and kernel are of one category, and how many of them there must be."""
CONTRADICTION = 0.5
"""Below this share a graph of the same size is taken for another one, and not used."""

_ATEN = {
    **dict.fromkeys(("mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "_scaled_mm", "einsum"), "gemm"),
    **dict.fromkeys(("native_layer_norm", "layer_norm", "rms_norm", "_fused_rms_norm", "native_group_norm"), "norm"),
    **dict.fromkeys(("embedding", "embedding_bag"), "embedding"),
    **dict.fromkeys(("silu", "gelu", "silu_and_mul"), "activation"),
    **dict.fromkeys(("convolution", "cudnn_convolution", "miopen_convolution"), "convolution"),
    **dict.fromkeys(("_softmax", "softmax"), "softmax"),
    **dict.fromkeys(("_flash_attention_forward", "_scaled_dot_product_flash_attention"), "attention"),
}
"""What the kernel of an aten op is, for ops whose name tells it."""


@dataclass
class _Node:
    """One captured launch."""

    kind: int
    kernel: str | None
    op: str | None
    source: str | None
    shapes: tuple[str | None, str | None] = (None, None)
    """Input dims and types of the op, as written; None where the capture did not record them."""


@dataclass
class _Graph:
    """One captured graph."""

    label: str
    batch: int | None
    nodes: list[_Node] = field(default_factory=list[_Node])

    @property
    def named(self) -> bool:
        """Whether the launches say their kernels."""
        return any(n.kernel for n in self.nodes)


@dataclass
class _Replay:
    """One graph launch of the formal trace: its items in order."""

    rows: list[int]
    kernels: list[str]
    kinds: list[int]
    window: int
    batch: int | None


def apply_mapping(trace: Trace, capture: Trace) -> Trace:
    """A trace whose graph-replayed items have op and source from a capture trace or an eager trace.

    Args:
        trace: the formal trace (one rank or merged; the same mapping is used for every rank).
        capture: a trace of the graph capture, or one with graphs off, of the same server and model.

    Returns:
        A new trace with `mappings`; the given one is not changed. What could not be matched stays `GRAPH_REPLAY`.
    """
    graphs = captured_graphs(capture)
    work = trace.work
    made = replace(
        trace,
        work=replace(
            work,
            op=np.array(work.op),
            source=np.array(work.source),
            link=np.array(work.link),
            op_row=np.array(work.op_row),
        ),
        names=list(trace.names),
        coverage=replace(trace.coverage),
        mappings=[],
        mapped_shapes={},
    )
    writer = _Writer(made)
    replays = _replays(trace)
    if graphs:
        _by_graphs(replays, graphs, writer)
    else:
        _by_steps(trace, capture, replays, writer)
    made.mappings = writer.report()
    _recount(made)
    return made


def captured_graphs(trace: Trace) -> list[_Graph]:
    """Graphs that were captured in a trace, in order: launches between begin and end of a stream capture on their thread."""
    calls = trace.calls
    begin = np.array(["StreamBeginCapture" in trace.names[n] for n in calls.name.tolist()], bool)
    end = np.array(["StreamEndCapture" in trace.names[n] for n in calls.name.tolist()], bool)
    launching = trace.launches & (calls.kind != CallKind.GRAPH_LAUNCH) & (calls.work == 0)
    marks = [(int(s), int(s + d), trace.names[n]) for s, d, n in zip(*_host_marks(trace), strict=True)]
    marks = [(s, e, n) for s, e, n in marks if (p := parse(n)) is not None and p.kind == "capture"]
    open_graph: dict[int, _Graph] = {}
    found: list[_Graph] = []
    count: Counter[str] = Counter()
    for row in np.flatnonzero(begin | end | launching).tolist():
        thread = int(calls.thread[row])
        if begin[row]:
            label, batch = _capture_label(marks, int(calls.ts_ns[row]))
            count[label] += 1
            open_graph[thread] = _Graph(f"{label} #{count[label]}", batch)
        elif end[row]:
            graph = open_graph.pop(thread, None)
            if graph is not None and graph.nodes:
                found.append(graph)
        elif thread in open_graph:
            open_graph[thread].nodes.append(_node(trace, row))
    return found


def _host_marks(trace: Trace) -> tuple[list[int], list[int], list[int]]:
    host = trace.annotations.take(~trace.annotations.gpu)
    return host.ts_ns.tolist(), host.dur_ns.tolist(), host.name.tolist()


def _capture_label(marks: list[tuple[int, int, str]], moment: int) -> tuple[str, int | None]:
    for start, end, name in marks:
        if start <= moment < end:
            parsed = parse(name)
            return name, parsed.batch if parsed else None
    return "graph", None


def _node(trace: Trace, row: int) -> _Node:
    calls = trace.calls
    kind = {CallKind.MEMCPY: WorkKind.MEMCPY, CallKind.MEMSET: WorkKind.MEMSET}.get(
        CallKind(int(calls.kind[row])), WorkKind.KERNEL
    )
    names = (trace.name(int(c[row])) for c in (calls.kernel, calls.op, calls.source))
    return _Node(int(kind), *names, shapes=_shapes(trace, int(calls.op_row[row])))


def _shapes(trace: Trace, op: int) -> tuple[str | None, str | None]:
    if op < 0 or op >= len(trace.ops):
        return None, None
    dims, types = int(trace.ops.dims[op]), int(trace.ops.types[op])
    texts = trace.op_texts
    return texts[dims] if dims >= 0 else None, texts[types] if types >= 0 else None


def _replays(trace: Trace) -> list[_Replay]:
    work, windows = trace.work, trace.windows
    rows = np.flatnonzero(work.graph & (work.link == Link.GRAPH_REPLAY))
    if not len(rows):
        return []
    rows = rows[np.lexsort((work.graph_pos[rows], work.correlation[rows], work.group[rows]))]
    key = np.stack((work.group[rows].astype(np.int64), work.correlation[rows]))
    edges = np.flatnonzero(np.r_[True, (key[:, 1:] != key[:, :-1]).any(axis=0)])
    found: list[_Replay] = []
    for some in np.split(rows, edges[1:]):
        window = int(work.window[some[0]])
        batch = int(windows.batch[window]) if window >= 0 else -1
        items = some.tolist()
        found.append(
            _Replay(
                items,
                [trace.names[n] for n in work.name[some].tolist()],
                work.kind[some].tolist(),
                window,
                batch if batch >= 0 else None,
            )
        )
    found.sort(key=lambda r: int(work.ts_ns[r.rows[0]]))
    return found


class _Writer:
    """Writes ops and sources into the made trace, and keeps the level of every graph."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._ids = {name: k for k, name in enumerate(trace.names)}
        self._level: dict[str, str] = {}
        self._replays: Counter[str] = Counter()
        self._matched: Counter[str] = Counter()
        self._nodes: dict[str, int] = {}
        self._notes: dict[str, str] = {}

    def _id(self, text: str | None) -> int:
        if text is None:
            return -1
        if text not in self._ids:
            self._ids[text] = len(self._trace.names)
            self._trace.names.append(text)
        return self._ids[text]

    def put(
        self, row: int, op: str | None, source: str | None, shapes: tuple[str | None, str | None] = (None, None)
    ) -> bool:
        """Give one item its op and source, and the op's dims and types where they are known."""
        if op is None and source is None:
            return False
        work = self._trace.work
        work.op[row], work.source[row], work.link[row] = self._id(op), self._id(source), Link.MAPPING
        if shapes[0] is not None:
            self._trace.mapped_shapes[row] = shapes
        return True

    def graph(self, label: str, level: str, nodes: int, matched: int, note: str = "") -> None:
        """Count one replay of a graph; a graph's level is that of its least sure replay."""
        old = self._level.get(label, BY_NAMES)
        self._level[label] = max(old, level, key=_SURE.index)
        self._replays[label] += 1
        self._matched[label] += matched
        self._nodes[label] = nodes
        if note:
            self._notes[label] = note

    def report(self) -> list[GraphMapping]:
        """One line a graph."""
        return [
            GraphMapping(g, self._level[g], n, self._nodes[g], self._matched[g], self._notes.get(g, ""))
            for g, n in self._replays.items()
        ]


def _by_graphs(replays: list[_Replay], graphs: list[_Graph], writer: _Writer) -> None:
    by_size: dict[int, list[int]] = defaultdict(list)
    for k, graph in enumerate(graphs):
        by_size[len(graph.nodes)].append(k)
    at, window = -1, None
    for replay in replays:
        if replay.window != window:
            at, window = -1, replay.window
        best: tuple[int, int, str, list[int]] | None = None
        for k in _in_turn(by_size.get(len(replay.rows), []), at, graphs, replay.batch):
            level, order = _compare(graphs[k], replay)
            if level is None:
                continue
            rank = _SURE.index(level)
            if best is None or rank < best[0]:
                best = (rank, k, level, order)
            if rank == 0 or (rank == 1 and not graphs[k].named):
                break
        if best is None:
            writer.graph(
                f"without a captured graph ({len(replay.rows)} nodes)", UNVERIFIED, len(replay.rows), 0,
                "no captured graph has these kernels",
            )  # fmt: skip
            continue
        _, at, level, order = best
        nodes = graphs[at].nodes
        matched = sum(
            writer.put(row, nodes[n].op, nodes[n].source, nodes[n].shapes)
            for row, n in zip(replay.rows, order, strict=True)
        )
        writer.graph(graphs[at].label, level, len(nodes), matched)


def _in_turn(candidates: list[int], at: int, graphs: list[_Graph], batch: int | None) -> list[int]:
    """Candidates in the order in which a step replays them, those of the batch's own capture first."""
    turned = [k for k in candidates if k > at] + [k for k in candidates if k <= at]
    sizes = sorted({b for k in candidates if (b := graphs[k].batch) is not None})
    fitting = next((b for b in sizes if batch is not None and b >= batch), None)
    return sorted(turned, key=lambda k: graphs[k].batch != fitting) if fitting is not None else turned


def _compare(graph: _Graph, replay: _Replay) -> tuple[str | None, list[int]]:
    """How sure it is that a replay is this graph (None: it is not), and the node of each item."""
    straight = list(range(len(graph.nodes)))
    if graph.named:
        names = [n.kernel or "" for n in graph.nodes]
        if all(_same(a, b, kind) for a, b, kind in zip(names, replay.kernels, replay.kinds, strict=True)):
            return BY_NAMES, straight
        order = _by_occurrence(names, replay.kernels)
        return (BY_NAMES, order) if order is not None else (None, straight)
    if [n.kind for n in graph.nodes] != replay.kinds:
        if Counter(n.kind for n in graph.nodes) != Counter(replay.kinds):
            return None, straight
        return UNVERIFIED, _by_occurrence(
            [str(n.kind) for n in graph.nodes], [str(k) for k in replay.kinds]
        ) or straight
    agree = compared = 0
    for node, kernel in zip(graph.nodes, replay.kernels, strict=True):
        expected, real = _category(node.op), classify(kernel)
        if expected is None or real == "other":
            continue
        compared += 1
        agree += expected == real
    if compared >= COMPARABLE and agree < CONTRADICTION * compared:
        return None, straight
    return (BY_CATEGORY if compared >= COMPARABLE and agree >= AGREEMENT * compared else UNVERIFIED), straight


def _same(captured: str, replayed: str, kind: int) -> bool:
    return captured == replayed or (kind != WorkKind.KERNEL and not captured)


def _by_occurrence(names: list[str], kernels: list[str]) -> list[int] | None:
    """Node of each item where both sides hold the same names equally often (parallel branches may run in another order)."""
    places: dict[str, list[int]] = defaultdict(list)
    for k, name in enumerate(names):
        places[name].append(k)
    taken: Counter[str] = Counter()
    order: list[int] = []
    for kernel in kernels:
        k = taken[kernel]
        if k >= len(places.get(kernel, ())):
            return None
        order.append(places[kernel][k])
        taken[kernel] += 1
    return order


def _category(op: str | None) -> str | None:
    if op is None:
        return None
    short = op.rpartition("::")[2]
    known = _ATEN.get(short)
    if known is not None:
        return known
    found = classify(op) if not op.startswith("aten::") else "other"
    return found if found != "other" else None


def _by_steps(trace: Trace, eager: Trace, replays: list[_Replay], writer: _Writer) -> None:
    """Through a trace with graphs off: per stage the fullest step gives the order of each kernel's call sites."""
    sites, alone = _call_sites(eager)
    steps: dict[int, list[_Replay]] = defaultdict(list)
    for replay in replays:
        steps[replay.window].append(replay)
    for window, members in steps.items():
        stage = trace.stages[int(trace.windows.stage[window])] if window >= 0 else "all"
        seen: Counter[str] = Counter()
        total = Counter(k for r in members for k in r.kernels)
        known = sites.get(stage, {})
        for replay in members:
            matched, by_order = 0, 0
            for row, kernel in zip(replay.rows, replay.kernels, strict=True):
                places, k = known.get(kernel, []), seen[kernel]
                seen[kernel] += 1
                if places and len(places) == total[kernel]:
                    matched += writer.put(row, *places[k])
                    by_order += 1
                elif kernel in alone:
                    matched += writer.put(row, *alone[kernel])
                    by_order += 1
            level = BY_NAMES if by_order == len(replay.rows) else UNVERIFIED
            note = (
                "" if level == BY_NAMES else f"{len(replay.rows) - matched} items have no call site in the eager trace"
            )
            writer.graph(f"{stage} step, {len(replay.rows)} nodes", level, len(replay.rows), matched, note)


Site = tuple[str | None, str | None]


def _call_sites(eager: Trace) -> tuple[dict[str, dict[str, list[Site]]], dict[str, Site]]:
    """Per stage and kernel the (op, source) of each occurrence in the fullest step; and kernels with one call site at all."""
    work = eager.work
    usable = ~work.graph & ((work.op >= 0) | (work.source >= 0))
    every: dict[str, set[Site]] = defaultdict(set)
    by_window: dict[int, list[int]] = defaultdict(list)
    for row in np.flatnonzero(usable).tolist():
        every[eager.names[work.name[row]]].add((eager.name(int(work.op[row])), eager.name(int(work.source[row]))))
        by_window[int(work.window[row])].append(row)
    fullest: dict[str, list[int]] = {}
    for window, rows in by_window.items():
        stage = eager.stages[int(eager.windows.stage[window])] if window >= 0 else "all"
        if len(rows) > len(fullest.get(stage, [])):
            fullest[stage] = rows
    sites: dict[str, dict[str, list[Site]]] = {}
    for stage, rows in fullest.items():
        here: dict[str, list[Site]] = defaultdict(list)
        for row in rows:
            here[eager.names[work.name[row]]].append((eager.name(int(work.op[row])), eager.name(int(work.source[row]))))
        sites[stage] = dict(here)
    return sites, {k: next(iter(v)) for k, v in every.items() if len(v) == 1}


def _recount(trace: Trace) -> None:
    work, coverage = trace.work, trace.coverage
    coverage.links, coverage.links_time_ns = {}, {}
    for link in Link:
        mine = work.link == link
        if mine.any():
            coverage.links[link.name.lower()] = int(mine.sum())
            coverage.links_time_ns[link.name.lower()] = int(work.dur_ns[mine].sum())
    coverage.with_source = int((work.source >= 0).sum())
