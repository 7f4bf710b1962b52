"""Whole files: header, lanes, steps, trailing keys; and the truth of what was written."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from trace_gen.model import Kernel, Spec, StepTruth, Truth
from trace_gen.timeline import MAIN, Lane, Simulation, StepRun
from trace_gen.write import RankWriter, spell

_STEP_FRAMES = (
    "threading.py(1012): run",
    "{srt}managers/scheduler.py(1080): event_loop_overlap",
    "{srt}managers/scheduler.py(2010): run_batch",
    "{srt}managers/tp_worker.py(330): forward_batch_generation",
    "{srt}model_executor/model_runner.py(2060): forward",
)
_FORWARD_FROM = 3
"""Number of the first step frame that covers the forward pass alone."""
_DEVICES = {
    "nvidia": ("NVIDIA H100 80GB HBM3", 85_000_000_000, 9, 0, 132),
    "amd": ("AMD Instinct MI300X", 206_000_000_000, 9, 4, 304),
}


def header(spec: Spec, lane: Lane) -> dict[str, object]:
    """The keys before `traceEvents`."""
    name, memory, major, minor, count = _DEVICES[spec.vendor]
    devices = max(spec.devices, spec.ranks if spec.ranks > 1 else 1)
    properties = [
        {
            "id": i,
            "name": name,
            "totalGlobalMem": memory,
            "computeMajor": major,
            "computeMinor": minor,
            "numSms": count,
            "maxThreadsPerBlock": 1024,
        }
        for i in range(devices)
    ]
    found: dict[str, object] = {"schemaVersion": 1, "deviceProperties": properties}
    if spec.vendor == "amd":
        found |= {"hip_runtime_version": 60443484, "hip_driver_version": 60443484, "roctracer_version": 4}
    else:
        found |= {"cupti_version": 26, "cuda_runtime_version": 12090, "cuda_driver_version": 12090}
    if spec.ranks > 1:
        groups = [
            {
                "pg_name": "tp:0",
                "pg_desc": "tp:0",
                "backend_config": "cuda:nccl",
                "pg_size": spec.ranks,
                "ranks": list(range(spec.ranks)),
            }
        ]
        found["distributedInfo"] = {
            "backend": "nccl",
            "rank": lane.rank,
            "world_size": spec.ranks,
            "pg_count": 1,
            "pg_config": groups,
            "nccl_version": "2.27.3",
        }
    if spec.stacks:
        found["with_stack"] = 1
    if spec.shapes:
        found["record_shapes"] = 1
    return found | {"displayTimeUnit": "ms", "baseTimeNanoseconds": 1_759_276_800_000_000_000}


@contextmanager
def opened(path: Path) -> Generator[BinaryIO]:
    """A file to write, gzipped (the same bytes every time) when its name ends with .gz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as raw:
        if path.suffix == ".gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=1, mtime=0) as packed:
                buffered = io.BufferedWriter(cast("io.RawIOBase", packed), 1 << 20)
                yield cast(BinaryIO, buffered)
                buffered.flush()
                buffered.detach()
        else:
            yield raw


class TraceFile:
    """One output file with its lanes: begins with the header, ends with the trailing keys."""

    def __init__(self, spec: Spec, lanes: list[Lane], out: BinaryIO, path: Path) -> None:
        self.spec, self.lanes, self.out, self.path = spec, lanes, out, path
        self.writer = RankWriter(spec, out)
        if spec.list_form:
            out.write(b"[\n")
        else:
            head = json.dumps(header(spec, lanes[0]), indent=2 if spec.layout == "kineto" else None)
            out.write(head.rstrip("}").rstrip().encode() + b',\n  "traceEvents": [\n')
        self._window: dict[int, tuple[str, int, int, int]] = {}
        for lane in lanes:
            self.writer.metadata(lane)

    def widen(self, lane: Lane, name: str, host: tuple[int, int], end: int) -> None:
        """Remember a step for the one window around everything."""
        first, begin, host_end, device_end = self._window.get(lane.device, (name, host[0], 0, 0))
        self._window[lane.device] = (first, begin, max(host_end, sum(host)), max(device_end, end))

    def close(self) -> None:
        """End the array and the object."""
        for lane in self.lanes:
            if lane.device in self._window:
                name, begin, host_end, device_end = self._window[lane.device]
                self.writer.mark(lane, name, begin, host_end - begin, None)
                self.writer.mark(lane, name, begin, device_end - begin, MAIN)
        self.writer.flush()
        tail = "\n]" if self.spec.list_form else f'\n  ],\n  "traceName": {json.dumps(self.path.name)}\n}}'
        self.out.write(tail.encode() + b"\n")


def _cut(spec: Spec, run: StepRun, last: bool, count: int) -> tuple[int, int]:
    """Which kernels of a pass the capture saw: [from, to)."""
    low = int(count * spec.cut_head) if run.number == 0 else 0
    high = count - int(count * spec.cut_tail) if last else count
    return low, high


def write_step(
    file: TraceFile, sim: Simulation, run: StepRun, lane_number: int, truth: Truth | None, last: bool
) -> None:
    """All events of one step on one lane."""
    spec, writer = sim.spec, file.writer
    lane, placed = sim.lanes[lane_number], run.kernels[lane_number]
    writer.load = (run.step.tokens or 4096, run.step.context + run.step.generation or 1)
    low, high = _cut(spec, run, last, len(placed))
    whole = low == 0 and high == len(placed)
    name = spell(spec, run.step, run.number)
    begin, length = run.host[lane_number]
    marked = name is not None and whole and not spec.one_window
    if name and marked:
        writer.mark(lane, name, begin, length, None)
    if spec.stacks and whole:
        _step_frames(writer, sim, run, lane_number)
    _write_launches(writer, sim, run, lane_number, truth, (low, high))
    if high == len(placed):
        sync_begin, sync_length, correlation = run.sync[lane_number]
        call = "hipStreamSynchronize" if spec.vendor == "amd" else "cudaStreamSynchronize"
        writer.host_event(
            lane, "cuda_runtime", call, sync_begin, sync_length, f'"cbid": 131, "correlation": {correlation}'
        )
        if spec.sync_events:
            pid, tid = writer.device_ids(lane, MAIN)
            text = writer.event(
                "cuda_sync", "Stream Sync", pid, tid, f'"stream": 7, "device": {lane.device}, "correlation": %s'
            )
            stamps = (writer.stamp(sync_begin + writer.base), writer.stamp(sync_length))
            writer.put(text % (*stamps, correlation), 1)
    seen = placed[low:high]
    if not seen:
        return
    start, end = min(p.start for p in seen), max(p.start + p.dur for p in seen)
    if name and spec.one_window:
        file.widen(lane, name, (begin, length), end)
    if name and marked and spec.gpu_annotation:
        writer.mark(lane, name, start, end - start, MAIN)
    if truth is not None:
        truth.steps.append(StepTruth(lane.rank, run.number, name or "", run.step.stage, run.step.kind, start, end))


def _step_frames(writer: RankWriter, sim: Simulation, run: StepRun, lane_number: int) -> None:
    """Frames around a whole step; those of the forward pass leave the copies before and after it outside."""
    spec, lane, placed = sim.spec, sim.lanes[lane_number], run.kernels[lane_number]
    root = "vllm/v1/" if spec.framework == "vllm" else "python/sglang/srt/"
    begin, length = run.host[lane_number]
    margin = 60 * (spec.frames + 3)
    inner = (sum(placed[0].op) + margin, placed[-1].op[0] - margin)
    for i, frame in enumerate(_STEP_FRAMES):
        parent = f'"Python parent id": {i}, "Python id": {i + 1}, "Python thread": 0'
        start, end = (
            (begin - 500 + i * 60, begin + length + 400 - i * 60) if i < _FORWARD_FROM else (inner[0] + i, inner[1] - i)
        )
        writer.host_event(lane, "python_function", frame.format(srt=root), start, end - start, parent)


def _write_launches(
    writer: RankWriter, sim: Simulation, run: StepRun, lane_number: int, truth: Truth | None, window: tuple[int, int]
) -> None:
    spec, lane = sim.spec, sim.lanes[lane_number]
    graphs = {g.number: g for g in run.graphs[lane_number]}
    done: set[int] = set()
    for index in range(*window):
        p = run.kernels[lane_number][index]
        lost = spec.drop > 0 and sim.rng.random() < spec.drop
        if p.graph >= 0:
            if p.graph not in done:
                done.add(p.graph)
                writer.graph_launch(lane, graphs[p.graph])
            if not lost:
                writer.replayed(lane, p, index)
        else:
            writer.eager(lane, p, not lost)
        if truth is None:
            continue
        if lost:
            truth.dropped += 1
            continue
        i, base = p.item, writer.base
        launch = (p.launch[0] + base, p.launch[0] + base + p.launch[1])
        place = (i.part, i.layer, i.half, i.kind)
        truth.kernels.append(
            Kernel(lane.rank, lane.device, p.stream, p.start + base, p.dur, i.name, i.op, i.frame, run.step.stage, run.step.kind,
                   run.number, *place, i.comm, p.graph >= 0, p.correlation, launch, p.collective, i.micro)
        )  # fmt: skip
