"""The `nn.Module` of a kernel, where the profiler recorded module frames (`nn.Module: Name_N`) among its stacks."""

from __future__ import annotations

import numpy as np

from infer_forge.pipeline.flow import Row
from infer_forge.pipeline.model import Lane

_MARK = "nn.Module: "


def fill(rows: list[Row], lane: Lane) -> None:
    """Give each row the path of modules around its launch call; nothing where the launch is a whole graph or no stacks are there."""
    trace = lane.trace
    if not trace.coverage.categories.get("python_function"):
        return
    frames, calls = trace.frames, trace.calls
    ids = [k for k, text in enumerate(trace.names) if text.startswith(_MARK)]
    if not ids or not len(frames):
        return
    own = np.flatnonzero(np.isin(frames.name, ids))
    start, end, thread = frames.ts_ns[own], frames.ts_ns[own] + frames.dur_ns[own], frames.thread[own]
    for row in rows:
        call = int(trace.work.call[row.row])
        if call < 0 or trace.work.graph[row.row]:
            continue
        at = int(calls.ts_ns[call])
        inside = np.flatnonzero((start <= at) & (at < end) & (thread == calls.thread[call]))
        if len(inside):
            order = inside[np.argsort(start[inside], kind="stable")]
            row.module = " > ".join(trace.names[frames.name[own[k]]].removeprefix(_MARK) for k in order.tolist())
