"""Time ranges as the Perfetto viewer shows them, and a trimmed trace of some passes or layers that opens in it.

The viewer counts from the earliest event that has a time of its own; metadata events (`ph` M) do not count, whatever ts they
carry.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from infer_forge.base import jsonio
from infer_forge.base.errors import UsageFault
from infer_forge.pipeline.exported import SLICE
from infer_forge.pipeline.model import HALVES, Lane
from infer_forge.trace.columns import I64, CallKind, WorkKind
from infer_forge.trace.model import Trace

_CATEGORY = {WorkKind.KERNEL: "kernel", WorkKind.MEMCPY: "gpu_memcpy", WorkKind.MEMSET: "gpu_memset"}


def origin_ns(trace: Trace) -> int:
    """The viewer's zero: the earliest start among device work, calls, annotations, ops and Python frames."""
    tables: list[Any] = [trace.work, trace.calls, trace.annotations, trace.syncs, trace.ops, trace.frames]
    return min(int(t.ts_ns.min()) for t in tables if len(t))


def seconds(ns: int, origin: int) -> float:
    """Seconds on the viewer's clock, to the nanosecond."""
    return round((ns - origin) / 1e9, 9)


def write(path: Path, lanes: list[tuple[Lane, I64]]) -> dict[str, Any]:
    """Write a trimmed trace: the given device work with its launch calls, their CPU ops, annotations, and two tracks of our
    own (passes, layers).

    Returns:
        Path, events and bytes of what was written.

    Raises:
        UsageFault: the file cannot be written.
    """
    events: list[dict[str, Any]] = []
    for lane, rows in lanes:
        events.extend(_events(lane, rows))
    document: dict[str, Any] = {
        "schemaVersion": 1,
        "deviceProperties": lanes[0][0].trace.header.devices,
        "traceEvents": events,
        "displayTimeUnit": "ms",
    }
    base = lanes[0][0].trace.header.base_time_ns
    if base is not None:
        document["baseTimeNanoseconds"] = base
    if len(lanes) == 1 and lanes[0][0].trace.header.distributed:
        document["distributedInfo"] = lanes[0][0].trace.header.distributed
    document |= lanes[0][0].trace.header.versions
    raw = jsonio.dumps(document)
    try:
        jsonio.write_atomic(path, gzip.compress(raw, 6, mtime=0) if path.suffix == ".gz" else raw)
    except OSError as fault:
        raise UsageFault(
            fault.strerror or str(fault), where=str(path), next_step="name a file that can be written"
        ) from None
    return {"path": str(path), "events": len(events), "size_bytes": path.stat().st_size}


def _us(ns: int) -> float:
    return ns / 1000


def _events(lane: Lane, rows: I64) -> Iterator[dict[str, Any]]:
    trace, work = lane.trace, lane.trace.work
    tag = f"rank {lane.rank} " if lane.rank is not None else ""
    device = f"{tag}device {lane.device}" if tag else lane.device
    yield {"ph": "M", "name": "process_name", "pid": device, "tid": 0, "args": {"name": f"{tag}GPU {lane.device}"}}
    for row in rows.tolist():
        args: dict[str, Any] = {"device": lane.device, "stream": int(work.stream[row])}
        if work.correlation[row] >= 0:
            args["correlation"] = int(work.correlation[row])
        if work.external[row] >= 0:
            args["External id"] = int(work.external[row])
        if lane.layer_of[row] >= 0:
            args |= {"layer": int(lane.layer_of[row]), "half": HALVES[int(lane.half_of[row])]}
        if lane.pass_of[row] >= 0:
            args["pass"] = int(lane.pass_of[row])
        if work.shape[row] >= 0:
            args["grid block"] = trace.shapes[int(work.shape[row])]
        yield {
            "ph": "X", "cat": _CATEGORY[WorkKind(int(work.kind[row]))], "name": trace.names[work.name[row]],
            "pid": device, "tid": int(work.stream[row]), "ts": _us(int(work.ts_ns[row])), "dur": _us(int(work.dur_ns[row])), "args": args,
        }  # fmt: skip
    yield from _tracks(lane, rows, tag)
    yield from _host(lane, rows, tag)


def _tracks(lane: Lane, rows: I64, tag: str) -> Iterator[dict[str, Any]]:
    """One track of passes and one of layers."""
    wanted = set(np.unique(lane.pass_of[rows]).tolist())
    inside = set(rows.tolist())
    pid = f"{tag}forward passes"
    for p in lane.passes:
        if p.number not in wanted:
            continue
        name = f"pass {p.number} {p.stage}" + (f" ({p.step})" if p.step else "")
        track = f" of micro-batch {p.micro + 1}" if p.micro >= 0 else ""
        yield _slice(pid, f"passes{track}", name, p.start_ns, p.end_ns)
        for layer in p.layers:
            mine = [r for r in layer.rows.tolist() if r in inside]
            if mine:
                w = lane.trace.work
                end = max(int(w.ts_ns[r] + w.dur_ns[r]) for r in mine)
                yield _slice(pid, f"layers{track}", SLICE.format(layer.number), int(w.ts_ns[mine[0]]), end)


def _slice(pid: str, tid: str, name: str, start: int, end: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": "user_annotation",
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": _us(start),
        "dur": _us(end - start),
    }


def _host(lane: Lane, rows: I64, tag: str) -> Iterator[dict[str, Any]]:
    """Launch calls of the work, the ops around them, the step annotations of its passes."""
    trace, calls = lane.trace, lane.trace.calls
    used = np.unique(trace.work.call[rows])
    used = used[used >= 0]
    for c in used.tolist():
        thread = trace.threads[int(calls.thread[c])]
        yield {
            "ph": "X", "cat": "cuda_runtime", "name": trace.names[calls.name[c]], "pid": f"{tag}{thread.pid}", "tid": thread.tid,
            "ts": _us(int(calls.ts_ns[c])), "dur": _us(int(calls.dur_ns[c])), "args": {"correlation": int(calls.correlation[c])},
        }  # fmt: skip
    ops = trace.ops
    launching = np.isin(calls.kind[used], (CallKind.LAUNCH, CallKind.GRAPH_LAUNCH, CallKind.MEMCPY, CallKind.MEMSET))
    near = np.unique(calls.op_row[used[launching]])
    rows_of_ops: list[int] = near[near >= 0].tolist() if len(ops) else []
    for o in rows_of_ops:
        thread = trace.threads[int(ops.thread[o])]
        args: dict[str, Any] = {}
        if ops.external[o] >= 0:
            args["External id"] = int(ops.external[o])
        if ops.dims[o] >= 0:
            args["Input Dims"] = jsonio.loads(trace.op_texts[int(ops.dims[o])])
        if ops.types[o] >= 0:
            args["Input type"] = jsonio.loads(trace.op_texts[int(ops.types[o])])
        yield {
            "ph": "X", "cat": "cpu_op", "name": trace.names[ops.name[o]], "pid": f"{tag}{thread.pid}", "tid": thread.tid,
            "ts": _us(int(ops.ts_ns[o])), "dur": _us(int(ops.dur_ns[o])), "args": args,
        }  # fmt: skip
    windows = trace.windows
    for w in np.unique(trace.work.window[rows]).tolist():
        if w < 0:
            continue
        name = trace.names[windows.name[w]]
        gpu: dict[str, Any] = {
            "ph": "X", "cat": "gpu_user_annotation", "name": name, "pid": lane.device, "tid": int(trace.work.stream[rows[0]]),
            "ts": _us(int(windows.start_ns[w])), "dur": _us(int(windows.end_ns[w] - windows.start_ns[w])), "args": {},
        }  # fmt: skip
        yield gpu if not tag else {**gpu, "pid": f"{tag}device {lane.device}"}
        if windows.host_start_ns[w] >= 0 and len(used):
            thread = trace.threads[int(calls.thread[used[0]])]
            start, end = int(windows.host_start_ns[w]), int(windows.host_end_ns[w])
            yield {
                **gpu,
                "cat": "user_annotation",
                "pid": f"{tag}{thread.pid}",
                "tid": thread.tid,
                "ts": _us(start),
                "dur": _us(end - start),
            }
