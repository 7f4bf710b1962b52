"""Device work -> launch call -> CPU op -> Python frame, within one rank group, without a Python loop over events.

Order: External id (guarded against collision), correlation -> launch, enclosing op by time on the launching thread, ac2g flow,
graph node id. Items of a graph replay stay unresolved: their External id and stack are those of the whole graph's launch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from infer_forge.trace.columns import I64, CallKind, Calls, DeviceWork, Frames, Link, Ops
from infer_forge.trace.model import Coverage
from infer_forge.trace.nesting import innermost_by_thread, picked

_LAUNCHING = (CallKind.LAUNCH, CallKind.GRAPH_LAUNCH, CallKind.MEMCPY, CallKind.MEMSET)
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]


@dataclass
class Flows:
    """ac2g flow ends of one rank group: starts (id, ts, thread) and ends (id, ts, device thread's pid and tid are not needed)."""

    start_id: I64
    start_ts: I64
    start_thread: npt.NDArray[np.int32]
    end_id: I64
    end_ts: I64


class Lookup:
    """Rows by id; of several rows with one id the last that begins not after a moment."""

    def __init__(self, ids: I64, ts: I64, rows: Rows) -> None:
        self._order = rows[np.lexsort((ts[rows], ids[rows]))]
        self._ids, self._ts = ids[self._order], ts[self._order]

    def find(self, ids: I64, moments: I64) -> Rows:
        """Row per id, -1 where none."""
        if not len(self._ids):
            return np.full(len(ids), -1, np.int64)
        at = np.searchsorted(self._ids, ids, "right") - 1
        hit = (at >= 0) & (ids >= 0)
        hit &= self._ids[np.maximum(at, 0)] == ids
        while True:  # as many rounds as an id has duplicates
            late = hit & (at > 0) & (self._ts[at] > moments)
            late &= self._ids[np.maximum(at - 1, 0)] == ids
            if not late.any():
                break
            at = np.where(late, at - 1, at)
        return np.where(hit, self._order[np.maximum(at, 0)], -1)


@dataclass
class Tables:
    """What is linked: whole tables, with the rows of one group."""

    work: DeviceWork
    calls: Calls
    ops: Ops
    frames: Frames
    frame_ranks: npt.NDArray[np.int8]
    """Per name id: `engines.sources.frame_rank`."""
    work_rows: Rows
    call_rows: Rows
    op_rows: Rows
    flows: Flows
    call_graph: tuple[I64, I64]
    """graph id and graph node id that calls carry (-1 none)."""


def link_group(t: Tables, coverage: Coverage, usable_frame: int) -> None:
    """Fill call, op, op_row, source, link, graph of the group's work, and op, op_row, source, work of its calls.

    Args:
        t: the tables; their columns are changed in place.
        coverage: counts of collisions are added to it.
        usable_frame: least `frame_rank` that may be printed as a source.
    """
    _calls_of_work(t)
    _graphs(t)
    synthetic = _synthetic(t)
    coverage.synthetic_external = coverage.synthetic_external or synthetic
    by_external = Lookup(t.ops.external, t.ops.ts_ns, t.op_rows[t.ops.external[t.op_rows] >= 0])
    _ops_of_calls(t, by_external, synthetic, coverage)
    _ops_of_work(t, by_external, synthetic, coverage)
    _sources(t, usable_frame)


def _calls_of_work(t: Tables) -> None:
    work, calls, rows = t.work, t.calls, t.work_rows
    kinds = calls.kind[t.call_rows]
    launching = np.isin(kinds, _LAUNCHING)
    found = np.full(len(rows), -1, np.int64)
    for some in (t.call_rows[launching], t.call_rows[~launching]):
        todo = found < 0
        by_correlation = Lookup(calls.correlation, calls.ts_ns, some)
        found[todo] = by_correlation.find(work.correlation[rows[todo]], work.ts_ns[rows[todo]])
    work.call[rows] = found
    calls.work[t.call_rows] = 0
    hit = found[found >= 0]
    calls.work += np.bincount(hit, minlength=len(calls)).astype(np.int32) if len(hit) else np.int32(0)


def _graphs(t: Tables) -> None:
    """Which items a graph launched, and their order within it."""
    work, rows = t.work, t.work_rows
    call = work.call[rows]
    graph = (call >= 0) & (t.calls.kind[np.maximum(call, 0)] == CallKind.GRAPH_LAUNCH) if len(t.calls) else call >= 0
    orphan = (call < 0) & (work.correlation[rows] >= 0)
    if orphan.any():  # several items of one launch that the trace does not show can only be a graph's
        _, inverse, counts = np.unique(work.correlation[rows[orphan]], return_inverse=True, return_counts=True)
        graph[orphan] = counts[inverse] > 1
    graph |= work.graph_node[rows] >= 0
    work.graph[rows] = graph
    inside = rows[graph]
    if len(inside):
        order = inside[np.lexsort((work.stream[inside], work.ts_ns[inside], work.correlation[inside]))]
        key = work.correlation[order]
        first = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
        work.graph_pos[order] = np.arange(len(order)) - np.repeat(first, np.diff(np.r_[first, len(order)]))


def _synthetic(t: Tables) -> bool:
    """External id is a copy of the correlation: written so where no external correlation was recorded, and it names no op."""
    external, correlation = t.work.external[t.work_rows], t.work.correlation[t.work_rows]
    both = (external >= 0) & (correlation >= 0)
    return bool(both.any()) and bool((external[both] == correlation[both]).all())


def _around(ops: Ops, found: Rows, moments: I64) -> Mask:
    """Whether the op that an id names is running at the moment."""
    at = np.maximum(found, 0)
    return (found >= 0) & (ops.ts_ns[at] <= moments) & (moments <= ops.ts_ns[at] + ops.dur_ns[at])


def _ops_of_calls(t: Tables, by_external: Lookup, synthetic: bool, coverage: Coverage) -> None:
    calls, ops, rows = t.calls, t.ops, t.call_rows
    if not len(ops):
        return
    moments = calls.ts_ns[rows]
    found = innermost_by_thread(
        ops.thread[t.op_rows],
        ops.ts_ns[t.op_rows],
        ops.ts_ns[t.op_rows] + ops.dur_ns[t.op_rows],
        calls.thread[rows],
        moments,
    )
    found = picked(t.op_rows, found)
    if not synthetic:
        missing = (found < 0) & (calls.external[rows] >= 0)
        named = by_external.find(calls.external[rows], moments)
        fits = _around(ops, named, moments)
        coverage.external_collisions += int((missing & (named >= 0) & ~fits).sum())
        found = np.where(missing & fits, named, found)
    calls.op_row[rows] = found
    calls.op[rows] = picked(ops.name, found)


def _ops_of_work(t: Tables, by_external: Lookup, synthetic: bool, coverage: Coverage) -> None:
    work, calls, ops, rows = t.work, t.calls, t.ops, t.work_rows
    call = work.call[rows]
    moments = calls.ts_ns[np.maximum(call, 0)] if len(calls) else work.ts_ns[rows]
    moments = np.where(call >= 0, moments, work.ts_ns[rows])
    found = np.full(len(rows), -1, np.int64)
    link = np.full(len(rows), Link.NONE, np.int8)
    plain = ~work.graph[rows]
    if len(ops) and not synthetic:
        _by_external(t, by_external, coverage, found, link, moments, plain)
    if len(ops) and len(calls):
        row = calls.op_row[np.maximum(call, 0)].astype(np.int64)
        use = plain & (found < 0) & (call >= 0) & (row >= 0)
        found[use], link[use] = row[use], Link.ENCLOSING
    if len(ops) and len(t.flows.start_id):
        _by_flow(t, found, link, plain & (found < 0) & (call < 0))
    _by_graph_node(t, found, link)
    link[work.graph[rows] & (found < 0)] = Link.GRAPH_REPLAY
    work.op_row[rows] = found
    work.op[rows] = picked(ops.name, found)
    work.link[rows] = link


def _by_external(
    t: Tables,
    by_external: Lookup,
    coverage: Coverage,
    found: Rows,
    link: npt.NDArray[np.int8],
    moments: I64,
    plain: Mask,
) -> None:
    """The item's own External id, then that of its launch call."""
    work, calls, ops, rows = t.work, t.calls, t.ops, t.work_rows
    call = work.call[rows]
    launched = call >= 0
    ids = [(work.external[rows], Link.EXTERNAL_ID)]
    if len(calls):
        ids.append((np.where(launched, calls.external[np.maximum(call, 0)], -1), Link.CORRELATION))
    for external, how in ids:
        named = by_external.find(external, moments)
        fits = np.where(
            launched, _around(ops, named, moments), (named >= 0) & (ops.ts_ns[np.maximum(named, 0)] <= moments)
        )
        wrong = plain & (found < 0) & (named >= 0) & ~fits
        coverage.external_collisions += int(wrong.sum())
        use = plain & (found < 0) & fits
        found[use], link[use] = named[use], how


def _by_flow(t: Tables, found: Rows, link: npt.NDArray[np.int8], todo: Mask) -> None:
    """Items without a launch call: a flow ends where the item begins, and starts inside an op."""
    work, ops, flows = t.work, t.ops, t.flows
    rows = t.work_rows[todo]
    if not len(rows) or not len(flows.end_id):
        return
    ends = Lookup(flows.end_ts, flows.end_ts, np.arange(len(flows.end_ts)))
    end = ends.find(work.ts_ns[rows], work.ts_ns[rows])
    ids = picked(flows.end_id, end)
    starts = Lookup(flows.start_id, flows.start_ts, np.arange(len(flows.start_id)))
    start = starts.find(ids, work.ts_ns[rows])
    good = np.flatnonzero(start >= 0)
    if not len(good):
        return
    hit = innermost_by_thread(
        ops.thread[t.op_rows],
        ops.ts_ns[t.op_rows],
        ops.ts_ns[t.op_rows] + ops.dur_ns[t.op_rows],
        flows.start_thread[start[good]],
        flows.start_ts[start[good]],
    )
    at = np.flatnonzero(todo)[good[hit >= 0]]
    found[at], link[at] = t.op_rows[hit[hit >= 0]], Link.FLOW


def _by_graph_node(t: Tables, found: Rows, link: npt.NDArray[np.int8]) -> None:
    """Items of a graph whose node a captured call of the same file names."""
    work, calls, rows = t.work, t.calls, t.work_rows
    graph_id, node = t.call_graph
    named = t.call_rows[node[t.call_rows] >= 0] if len(node) else np.empty(0, np.int64)
    todo = np.flatnonzero((work.graph_node[rows] >= 0) & (found < 0))
    if not len(named) or not len(todo):
        return
    known: dict[tuple[int, int], int] = {}
    for row in named.tolist():
        if calls.op_row[row] >= 0:
            known[(int(graph_id[row]), int(node[row]))] = int(calls.op_row[row])
    keys = zip(work.graph_id[rows[todo]].tolist(), work.graph_node[rows[todo]].tolist(), strict=True)
    hit = np.array([known.get(key, -1) for key in keys], np.int64)
    found[todo[hit >= 0]], link[todo[hit >= 0]] = hit[hit >= 0], Link.GRAPH_NODE


def _sources(t: Tables, usable: int) -> None:
    work, calls, ops, frames = t.work, t.calls, t.ops, t.frames
    if not len(frames):
        return
    thread = calls.thread[t.call_rows]
    if len(ops):  # the op's thread is the one with the frames; a driver may name its threads differently
        row = calls.op_row[t.call_rows]
        thread = np.where(row >= 0, ops.thread[np.maximum(row, 0)], thread)
    calls.source[t.call_rows] = source_at(t, thread, calls.ts_ns[t.call_rows], usable)
    rows = t.work_rows
    call, plain = work.call[rows], ~work.graph[rows]
    launched = plain & (call >= 0)
    work.source[rows[launched]] = calls.source[call[launched]]
    alone = rows[(plain & (call < 0) & (work.op_row[rows] >= 0)) | (work.link[rows] == Link.GRAPH_NODE)]
    if len(alone):
        op = work.op_row[alone]
        work.source[alone] = source_at(t, ops.thread[op], ops.ts_ns[op], usable)


def source_at(t: Tables, threads: npt.NDArray[Any], moments: I64, usable: int) -> npt.NDArray[np.int32]:
    """Name id of the innermost frame of the highest rank around each moment on its thread; -1 where none is usable."""
    frames = t.frames
    found = np.full(len(moments), -1, np.int32)
    ranks = t.frame_ranks[frames.name]
    for rank in sorted({int(r) for r in np.unique(t.frame_ranks) if r >= usable}, reverse=True):
        todo = np.flatnonzero(found < 0)
        some = np.flatnonzero(ranks == rank)
        if not len(todo) or not len(some):
            continue
        start = frames.ts_ns[some]
        hit = innermost_by_thread(
            frames.thread[some], start, start + frames.dur_ns[some], threads[todo].astype(np.int32), moments[todo]
        )
        found[todo] = picked(frames.name, picked(some, hit))
    return found
