"""Gathered columns -> a linked `Trace`: names, groups, links, stages, coverage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from infer_forge.engines.sources import USER, frame_rank
from infer_forge.trace import groups as grouping
from infer_forge.trace.arguments import trailing_number
from infer_forge.trace.columns import Annotations, CallKind, Calls, DeviceWork, Frames, Link, Ops, Syncs
from infer_forge.trace.gather import Block, Gatherer
from infer_forge.trace.header import read_header
from infer_forge.trace.link import Flows, Tables, link_group
from infer_forge.trace.model import Coverage, EventLayer, RankGroup, Thread, Trace
from infer_forge.trace.stages import Stages
from infer_forge.trace.vocabulary import Code

_LAUNCHING = (CallKind.LAUNCH, CallKind.GRAPH_LAUNCH, CallKind.MEMCPY, CallKind.MEMSET)


class Builder:
    """Turns what was gathered of a file into a trace. Used once."""

    def __init__(self, gathered: Gatherer, keys: dict[str, Any], coverage: Coverage) -> None:
        self._g = gathered
        self._keys = keys
        self._coverage = coverage
        heads = gathered.heads
        self._name, self._thread, self._detail = heads.name, heads.thread, heads.detail

    def build(self, path: Path, size_bytes: int, sha256: str | None) -> Trace:
        """The trace with its event layer."""
        g, coverage = self._g, self._coverage
        ops, frames = self._ops(), self._frames()
        calls, call_graph = self._calls()
        work, syncs, marks = self._work(), self._syncs(), self._annotations()
        flows = self._flows()
        header = read_header(self._keys, g.heads.names)
        groups, of_thread = self._groups(work, calls, ops, syncs, marks, header.distributed)
        ranks = self._frame_ranks(frames)
        flow_group = of_thread[flows.start_thread] if len(flows.start_id) else np.empty(0, np.int16)
        names = g.heads.names
        stages = Stages(list(names), names.__getitem__)
        for k in range(len(groups)):
            rows = [np.flatnonzero(t.group == k) for t in (work, calls, ops)]
            mine = flow_group == k
            ends = np.ones(len(flows.end_id), bool) if len(groups) == 1 else np.isin(flows.end_id, flows.start_id[mine])
            some = Flows(
                flows.start_id[mine],
                flows.start_ts[mine],
                flows.start_thread[mine],
                flows.end_id[ends],
                flows.end_ts[ends],
            )
            tables = Tables(work, calls, ops, frames, ranks, rows[0], rows[1], rows[2], some, call_graph)
            link_group(tables, coverage, USER)
            stages.add_group(k, marks, work, rows[0], calls)
        windows = stages.finish(work)
        self._count(work, calls)
        texts = [t.decode("utf-8", "replace") for t in g.texts]
        threads = [Thread(pid, tid, int(of_thread[i])) for i, (pid, tid) in enumerate(g.heads.threads)]
        trace = Trace(
            path, size_bytes, sha256, header, coverage, list(names), stages.stages, groups, threads, work, calls, syncs, marks,
            windows, list(g.collectives), [s.decode("utf-8", "replace").strip() for s in g.shapes],
        )  # fmt: skip
        trace.set_events(EventLayer(ops, frames, texts))
        return trace

    def _base(self, block: Block) -> dict[str, npt.NDArray[Any]]:
        head = block.pop("head")
        return {
            "ts_ns": block.pop("ts"),
            "dur_ns": block.pop("dur"),
            "name": self._name[head],
            "thread": self._thread[head],
            "detail": self._detail[head],
        }

    def _work(self) -> DeviceWork:
        block = self._g.columns(Code.WORK)
        if not block:
            return DeviceWork.empty()
        base = self._base(block)
        self._work_thread = base["thread"]
        order = np.lexsort((block["stream"], block["device"], base["ts_ns"]))
        self._work_thread = base["thread"][order]
        columns = {k: base[k] for k in ("ts_ns", "dur_ns", "name")} | {"kind": base["detail"]} | block
        return DeviceWork.filled(len(order), **{k: v[order] for k, v in columns.items()})

    def _calls(self) -> tuple[Calls, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        block = self._g.columns(Code.CALL)
        none = np.empty(0, np.int64)
        if not block:
            return Calls.empty(), (none, none)
        base = self._base(block)
        order = np.argsort(base["ts_ns"], kind="stable")
        columns = {k: base[k] for k in ("ts_ns", "dur_ns", "name", "thread")} | {"kind": base["detail"]} | block
        columns = {k: v[order] for k, v in columns.items()}
        graph = (columns.pop("graph_id"), columns.pop("graph_node"))
        return Calls.filled(len(order), **columns), graph

    def _syncs(self) -> Syncs:
        block = self._g.columns(Code.SYNC)
        if not block:
            return Syncs.empty()
        base = self._base(block)
        self._sync_thread = base["thread"]
        order = np.argsort(base["ts_ns"], kind="stable")
        self._sync_thread = base["thread"][order]
        columns = {k: base[k] for k in ("ts_ns", "dur_ns", "name")} | block
        columns["record_correlation"] = columns.pop("record")
        return Syncs.filled(len(order), **{k: v[order] for k, v in columns.items()})

    def _annotations(self) -> Annotations:
        threads = list(self._g.heads.threads)
        parts: list[Annotations] = []
        for code, gpu in ((Code.ANNOTATION, False), (Code.GPU_ANNOTATION, True)):
            block = self._g.columns(code)
            if not block:
                continue
            base = self._base(block)
            rows = len(base["ts_ns"])
            made = Annotations.filled(
                rows, **{k: base[k] for k in ("ts_ns", "dur_ns", "name", "thread")}, **block, gpu=np.full(rows, gpu)
            )
            if gpu:
                made.device[:] = [trailing_number(threads[t][0]) for t in base["thread"].tolist()]
                made.stream[:] = [trailing_number(threads[t][1]) for t in base["thread"].tolist()]
            parts.append(made)
        if not parts:
            return Annotations.empty()
        joined = Annotations.joined(parts)
        return joined.take(np.argsort(joined.ts_ns, kind="stable"))

    def _ops(self) -> Ops:
        block = self._g.columns(Code.OP)
        if not block:
            return Ops.empty()
        base = self._base(block)
        return Ops.filled(len(base["ts_ns"]), **{k: base[k] for k in ("ts_ns", "dur_ns", "name", "thread")}, **block)

    def _frames(self) -> Frames:
        block = self._g.columns(Code.FRAME)
        if not block:
            return Frames.empty()
        base = self._base(block)
        return Frames.filled(len(base["ts_ns"]), **{k: base[k] for k in ("ts_ns", "dur_ns", "name", "thread")})

    def _flows(self) -> Flows:
        starts, ends = self._g.columns(Code.FLOW_START), self._g.columns(Code.FLOW_END)
        none = np.empty(0, np.int64)
        thread = self._thread[starts["head"]] if starts else np.empty(0, np.int32)
        return Flows(starts.get("id", none), starts.get("ts", none), thread, ends.get("id", none), ends.get("ts", none))

    def _groups(
        self, work: DeviceWork, calls: Calls, ops: Ops, syncs: Syncs, marks: Annotations, distributed: dict[str, Any]
    ) -> tuple[list[RankGroup], npt.NDArray[np.int16]]:
        threads = list(self._g.heads.threads)
        launching = calls.thread[np.isin(calls.kind, _LAUNCHING)]
        launched = np.isin(calls.correlation[np.isin(calls.kind, _LAUNCHING)], work.correlation)
        pids = {threads[t][0] for t in np.unique(launching[launched]).tolist()}
        found = grouping.group_threads(threads, pids, distributed)
        groups, of_thread = found.groups, found.of_thread
        for table in (calls, ops):
            table.group[:] = of_thread[table.thread] if len(table) else 0
        marks.group[:] = of_thread[marks.thread] if len(marks) else 0
        if len(work):
            work.group[:] = of_thread[self._work_thread]
        if len(syncs):
            syncs.group[:] = of_thread[self._sync_thread]
        if found.device_votes:
            work.group[:] = grouping.vote_devices(
                {"device": work.device, "correlation": work.correlation, "ts": work.ts_ns},
                {"correlation": calls.correlation, "ts": calls.ts_ns},
                calls.group,
                len(groups),
            )
            owner = {int(d): int(np.bincount(work.group[work.device == d]).argmax()) for d in np.unique(work.device)}
            for table, on in ((syncs, np.ones(len(syncs), bool)), (marks, marks.gpu)):
                table.group[on] = [owner.get(d, 0) for d in table.device[on].tolist()]
            groups = grouping.with_ranks(
                groups, [set(work.device[work.group == k].tolist()) for k in range(len(groups))]
            )
        marks.thread[marks.gpu] = -1
        return groups, of_thread

    def _frame_ranks(self, frames: Frames) -> npt.NDArray[np.int8]:
        ranks = np.full(len(self._g.heads.names) + 1, -1, np.int8)
        names = list(self._g.heads.names)
        used = np.unique(frames.name).tolist()
        ranks[used] = [frame_rank(names[k]) for k in used]
        return ranks

    def _count(self, work: DeviceWork, calls: Calls) -> None:
        c = self._coverage
        for link in Link:
            mine = work.link == link
            if mine.any():
                c.links[link.name.lower()] = int(mine.sum())
                c.links_time_ns[link.name.lower()] = int(work.dur_ns[mine].sum())
        c.with_source = int((work.source >= 0).sum())
        c.without_call = int((work.call < 0).sum())
        launching = np.isin(calls.kind, _LAUNCHING)
        c.launches_without_work = int((launching & (calls.work == 0)).sum())
        c.graph_launches = int((calls.kind == CallKind.GRAPH_LAUNCH).sum())
        c.in_graphs = int(work.graph.sum())
