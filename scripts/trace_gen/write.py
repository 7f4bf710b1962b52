"""Kineto-shaped JSON, streamed: one text template per kind of launch, filled with numbers."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from trace_gen.model import Kernel, Spec, Step, StepTruth, Truth
from trace_gen.timeline import SIDE, GraphLaunch, Lane, Placed, Simulation, StepRun

_FLUSH = 1 << 21
_OUTER = (
    "torch/nn/modules/module.py(1773): _wrapped_call_impl",
    "torch/nn/modules/module.py(1784): _call_impl",
    "python/sglang/srt/model_executor/forward_batch_info.py(520): _compute",
    "torch/utils/_contextlib.py(120): decorate_context",
    "contextlib.py(80): inner",
    "python/sglang/srt/model_executor/model_runner.py(2100): _forward_raw",
)
_STEP_FRAMES = (
    "threading.py(1012): run",
    "{srt}managers/scheduler.py(1080): event_loop_overlap",
    "{srt}managers/scheduler.py(2010): run_batch",
    "{srt}managers/tp_worker.py(330): forward_batch_generation",
    "{srt}model_executor/model_runner.py(2060): forward",
)
_DEVICES = {
    "nvidia": ("NVIDIA H100 80GB HBM3", 85_000_000_000, 9, 0, 132),
    "amd": ("AMD Instinct MI300X", 206_000_000_000, 9, 4, 304),
}


def spell(spec: Spec, step: Step, number: int) -> str | None:
    """The mark of a step in the spec's spelling."""
    context, tokens, generation = step.context, step.context_tokens, step.generation
    if spec.annotation == "sglang":
        mode = {"prefill": "EXTEND", "decode": "DECODE", "mixed": "MIXED"}.get(step.stage, "IDLE")
        mode = "TARGET_VERIFY" if step.kind == "verify" else mode
        batch = context + generation
        return f"step[{mode} bs={batch} toks={tokens}]" if mode == "EXTEND" else f"step[{mode} bs={batch}]"
    if spec.annotation == "vllm":
        return f"execute_context_{context}({tokens})_generation_{generation}({generation})"
    if spec.annotation == "vllm_detailed":
        sk, gk = tokens + 256 * context, 1024 * generation
        c = f"sq{tokens}sk{sk}sqsq{tokens * tokens}sqsk{tokens * sk}"
        return f"execute_{step.tokens}_context_{context}({c})_generation_{generation}(sq{generation}sk{gk}sqsq{generation}sqsk{gk})"
    if spec.annotation == "trtllm":
        return f"[Executor] _forward_step {number}: {context} ctx reqs, {generation} gen reqs"
    if spec.annotation == "hf":
        return f"ProfilerStep#{number}"
    return f"denoising_step_{number}" if spec.annotation == "diffusion" else None


class RankWriter:
    """Writes the file of one rank, or of all when merged, and records the truth of what it wrote."""

    def __init__(self, spec: Spec, out: BinaryIO, truth: Truth | None) -> None:
        self.spec, self.out, self.truth = spec, out, truth
        self.events = 0
        self._parts: list[str] = []
        self._size = 0
        self._templates: dict[tuple[object, ...], tuple[str, int]] = {}
        self._python = 1
        self._flow = 0
        kineto = spec.layout == "kineto"
        self._join = ",\n" if kineto else ","
        self._stamp = self._stamps()
        self._base = spec.base_us * 1000
        self._open = '  {\n    "ph": ' if kineto else '{"ph": '
        self._line = ",\n    " if kineto else ", "
        self._args = ("{\n      ", "\n    }\n  }") if kineto else ("{", "}}")

    # --- text -------------------------------------------------------------------------------------------------------

    def _stamps(self) -> Callable[[int], str]:
        if self.spec.ts == "int":
            return lambda ns: str(ns // 1000)
        if self.spec.ts == "string":
            return lambda ns: f'"{ns // 1000}.{ns % 1000:03d}"'
        return lambda ns: f"{ns // 1000}.{ns % 1000:03d}"

    def put(self, text: str, count: int) -> None:
        """Queue the text of `count` events."""
        if self.events:
            self._parts.append(self._join)
        self.events += count
        self._parts.append(text)
        self._size += len(text)
        if self._size > _FLUSH:
            self.flush()

    def flush(self) -> None:
        """Write what is queued."""
        self.out.write("".join(self._parts).encode())
        self._parts.clear()
        self._size = 0

    def event(self, cat: str, name: str, pid: str, tid: str, args: str, ph: str = "X", dur: bool = True) -> str:
        """The template of one event: `%s` for ts, then dur, then whatever `args` holds."""
        safe = json.dumps(name).replace("%", "%%")
        times = '"ts": %s, "dur": %s' if dur else '"ts": %s'
        head = f'{self._open}"{ph}", "cat": "{cat}", "name": {safe}, "pid": {pid}, "tid": {tid}{self._line}{times}'
        return f'{head}{self._line}"args": {self._args[0]}{args}{self._args[1]}'

    def _flow_event(self, ph: str, pid: str, tid: str) -> str:
        tail = "\n  }" if self.spec.layout == "kineto" else "}"
        bind = ', "bp": "e"' if ph == "f" else ""
        head = f'{self._open}"{ph}", "id": %s, "pid": {pid}, "tid": {tid}, "ts": %s{self._line}'
        return f'{head}"cat": "ac2g", "name": "ac2g"{bind}{tail}'

    def _external(self) -> str:
        kinds = {"no": "%.0s", "lower": '"external id": %s, ', "string": '"External id": "%s", '}
        return kinds.get(self.spec.external_id, '"External id": %s, ')

    # --- places -----------------------------------------------------------------------------------------------------

    def host_ids(self, lane: Lane) -> tuple[str, str]:
        """pid and tid of the launching thread."""
        pid = 4200 + lane.rank if not self.spec.merged else 4200
        tid = pid + (lane.device if self.spec.devices > 1 else 0)
        return (f'"[TP{lane.rank:02d}] {pid}"' if self.spec.merged else str(pid)), str(tid)

    def device_ids(self, lane: Lane, stream: int) -> tuple[str, str]:
        """pid and tid of a device row."""
        pid = f'"[TP{lane.rank:02d}] {lane.device}"' if self.spec.merged else str(lane.device)
        return pid, f'"{stream}_hack"' if self.spec.string_tid else str(stream)

    # --- events -----------------------------------------------------------------------------------------------------

    def _frames(self, frame: str) -> list[str]:
        count = self.spec.frames
        outer = [_OUTER[i % len(_OUTER)] for i in range(max(0, count - 3))]
        inner = [frame, "torch/_ops.py(1255): __call__", "<built-in method of PyCapsule object at 0x7f20>"]
        return [*outer, *inner][-count:] if count >= 3 else [frame]

    def _kernel_template(self, lane: Lane, p: Placed) -> str:
        pid, tid = self.device_ids(lane, p.stream)
        name = p.item.name
        cat = "gpu_memcpy" if name.startswith("Memcpy") else "gpu_memset" if name.startswith("Memset") else "kernel"
        external, device, stream = self._external(), lane.device, p.stream
        nodes = '"graph id": 5, "graph node id": %s, ' if self.spec.graph_nodes and p.graph >= 0 else "%.0s"
        if self.spec.vendor == "amd":
            kind = "Dispatch Kernel" if cat == "kernel" else "CopyHostToDevice"
            args = f'{external}{nodes}"device": {device}, "stream": {stream}, "correlation": %s, "kind": "{kind}"'
            args += ', "grid": [152, 1, 1], "block": [256, 1, 1]' if cat == "kernel" else ', "bytes": 4096'
        elif cat == "kernel":
            args = (
                f'{external}{nodes}"queued": 0, "device": {device}, "context": 1, "stream": {stream}, "correlation": %s, '
                '"registers per thread": 64, "shared memory": 49152, "blocks per SM": 1.0, "warps per SM": 8.0, '
                '"grid": [132, 1, 1], "block": [256, 1, 1], "est. achieved occupancy %%": 12'
            )
        else:
            args = f'{external}{nodes}"device": {device}, "context": 1, "stream": {stream}, "correlation": %s, "bytes": 4096'
        if p.item.comm:
            args += ', "Collective name": "allreduce", "In msg nelems": 65536, "Out msg nelems": 65536, "Group size": '
            args += f'{self.spec.ranks}, "dtype": "BFloat16", "Process Group Name": "tp:0", "Process Group Description": "tp:0"'
        return self.event(cat, name, pid, tid, args)

    def _launch_name(self, p: Placed) -> str:
        amd = self.spec.vendor == "amd"
        if p.item.name.startswith("Mem"):
            call = "MemcpyAsync" if p.item.name.startswith("Memcpy") else "MemsetAsync"
            return ("hip" if amd else "cuda") + call
        if amd:
            return "hipModuleLaunchKernel" if p.item.name.startswith(("Cijk", "_", "triton")) else "hipLaunchKernel"
        return "cuLaunchKernelEx" if p.item.name.startswith(("nvjet", "_", "fused_moe")) else "cudaLaunchKernel"

    def _eager_template(self, lane: Lane, p: Placed, flow: bool) -> tuple[str, int]:
        """Frames, ops, launch, flow and kernel of one eager launch, and how many events that is."""
        key = (lane.rank, lane.device, p.item.name, p.item.op, p.item.frame, p.stream, flow)
        found = self._templates.get(key)
        if found:
            return found
        spec = self.spec
        pid, tid = self.host_ids(lane)
        external = self._external()
        pieces: list[str] = []
        if spec.stacks:
            python = '"Python parent id": %s, "Python id": %s, "Ev Idx": %s'
            pieces += [self.event("python_function", frame, pid, tid, python) for frame in self._frames(p.item.frame)]
        shapes = ', "Concrete Inputs": ["", ""], "Input Dims": [[4096, 4096], [4096]], "Input type": ["c10::BFloat16", "c10::BFloat16"]'
        op = f'{external}"Record function id": 0, "Sequence number": %s, "Fwd thread id": 0' + (
            shapes if spec.shapes else ""
        )
        pieces += [self.event("cpu_op", name, pid, tid, op) for name in self._op_names(p.item.op)]
        launch_name = self._launch_name(p)
        driver = spec.vendor == "nvidia" and launch_name.startswith("cu") and not launch_name.startswith("cuda")
        args = f'{external}"cbid": 211, "correlation": %s'
        if spec.vendor == "amd":
            kernel = json.dumps(p.item.name).replace("%", "%%")
            args = f'{external}"cid": 211, "correlation": %s, "kernel": {kernel}, "stream": "0x0", "grid": [152, 1, 1], "block": [256, 1, 1]'
        pieces.append(self.event("cuda_driver" if driver else "cuda_runtime", launch_name, pid, tid, args))
        if flow:
            pieces.append(self._flow_event("s", pid, tid))
        pieces.append(self._kernel_template(lane, p))
        if flow or spec.flows == "unbalanced":
            pieces.append(self._flow_event("f", *self.device_ids(lane, p.stream)))
        found = (self._join.join(pieces), len(pieces))
        self._templates[key] = found
        return found

    def _op_names(self, op: str) -> list[str]:
        wrappers = ["aten::linear", "aten::matmul", "sglang::unified_op"]
        return [*(wrappers[i % 3] for i in range(self.spec.noise_ops)), op]

    def eager(self, lane: Lane, p: Placed, written: bool) -> None:
        """All events of one eager launch; `written` is False when the kernel event is lost."""
        spec, stamp, base = self.spec, self._stamp, self._base
        flow = spec.flows == "balanced" or (spec.flows == "unbalanced" and p.correlation % 2 == 0)
        begin, length = p.op[0] + base, p.op[1]
        numbers: list[object] = []
        if spec.stacks:
            count = len(self._frames(p.item.frame))
            for i in range(count):
                away = (count - i) * 60
                numbers += [
                    stamp(begin - away),
                    stamp(length + 2 * away),
                    self._python - 1 if i else 0,
                    self._python,
                    self._python,
                ]
                self._python += 1
        external = p.correlation if spec.external_id == "correlation" else p.external
        nested = spec.noise_ops + 1
        step = max(1, length // (8 * nested)) if spec.ts != "int" else 0
        for i in range(nested):
            own = p.external * 8 + i if i < nested - 1 else p.external
            numbers += [stamp(begin + i * step), stamp(length - 2 * i * step), own, p.external]
        launch = p.launch[0] + base
        numbers += [stamp(launch), stamp(p.launch[1]), external, p.correlation]
        if not written:
            text, count = self._without_kernel(lane, p)
            self.put(text % tuple(numbers), count)
            return
        if flow:
            numbers += [p.correlation, stamp(launch)]
        start = p.start + base
        numbers += [stamp(start), stamp(p.dur), external, 0, p.correlation]
        if flow or spec.flows == "unbalanced":
            numbers += [p.correlation, stamp(start)]
        text, count = self._eager_template(lane, p, flow)
        self.put(text % tuple(numbers), count)

    def _without_kernel(self, lane: Lane, p: Placed) -> tuple[str, int]:
        """The template of a launch whose kernel event was lost."""
        text, count = self._eager_template(lane, p, False)
        own = self._kernel_template(lane, p)
        at = text.index(self._join + own)
        return text[:at], count - (2 if self.spec.flows == "unbalanced" else 1)

    def graph_launch(self, lane: Lane, g: GraphLaunch) -> None:
        """The host side of a graph launch."""
        pid, tid = self.host_ids(lane)
        name = "hipGraphLaunch" if self.spec.vendor == "amd" else "cudaGraphLaunch"
        text = self.event("cuda_runtime", name, pid, tid, f'{self._external()}"cbid": 311, "correlation": %s')
        flow = self.spec.flows != "missing"
        numbers: list[object] = [
            self._stamp(g.launch[0] + self._base),
            self._stamp(g.launch[1]),
            g.external,
            g.correlation,
        ]
        if flow:
            text += self._join + self._flow_event("s", pid, tid)
            numbers += [g.correlation, self._stamp(g.launch[0] + self._base)]
        self.put(text % tuple(numbers), 1 + flow)

    def replayed(self, lane: Lane, p: Placed, node: int) -> None:
        """A kernel of a graph replay: it shares the launch's correlation; flows end there without a start of their own."""
        flow = self.spec.flows != "missing"
        key = (lane.rank, lane.device, p.item.name, p.stream, flow, "graph")
        found = self._templates.get(key)
        if not found:
            text = self._kernel_template(lane, p)
            if flow:
                text += self._join + self._flow_event("f", *self.device_ids(lane, p.stream))
            found = (text, 1 + flow)
            self._templates[key] = found
        start = self._stamp(p.start + self._base)
        numbers: list[object] = [start, self._stamp(p.dur), p.external, node, p.correlation]
        if flow:
            numbers += [p.correlation, start]
        self.put(found[0] % tuple(numbers), found[1])

    def mark(self, lane: Lane, name: str, begin: int, length: int, stream: int | None) -> None:
        """A user annotation, on the host or (with a stream) on the device."""
        pid, tid = self.host_ids(lane) if stream is None else self.device_ids(lane, stream)
        cat = "user_annotation" if stream is None else "gpu_user_annotation"
        text = self.event(cat, name, pid, tid, '"External id": %s')
        self.put(text % (self._stamp(begin + self._base), self._stamp(length), lane.external), 1)

    def host_event(self, lane: Lane, cat: str, name: str, begin: int, length: int, args: str) -> None:
        """A runtime call or a step-wide Python frame."""
        pid, tid = self.host_ids(lane)
        text = self.event(cat, name, pid, tid, args.replace("%", "%%"))
        self.put(text % (self._stamp(begin + self._base), self._stamp(length)), 1)

    def metadata(self, lane: Lane) -> None:
        """`M` events that name processes and threads."""
        for (pid, tid), label in ((self.host_ids(lane), "python"), (self.device_ids(lane, 7), f"GPU {lane.device}")):
            for name, args in (
                ("process_name", f'"name": "{label}"'),
                ("process_labels", f'"labels": "{label}"'),
                ("thread_name", f'"name": "{label} {tid}"'.replace('""', '"')),
            ):
                clean = args if name != "thread_name" else '"name": "thread"'
                tail = "\n  }" if self.spec.layout == "kineto" else "}"
                head = f'{self._open}"M", "name": "{name}", "pid": {pid}, "tid": {tid}, "ts": {self._stamp(self._base)}{self._line}'
                self.put(f'{head}"args": {{{clean}}}{tail}', 1)


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
def opened(path: Path) -> Iterator[BinaryIO]:
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

    def __init__(self, spec: Spec, lanes: list[Lane], out: BinaryIO, truth: Truth | None, path: Path) -> None:
        self.spec, self.lanes, self.out, self.path = spec, lanes, out, path
        self.writer = RankWriter(spec, out, truth)
        if spec.list_form:
            out.write(b"[\n")
        else:
            head = json.dumps(header(spec, lanes[0]), indent=2 if spec.layout == "kineto" else None)
            out.write(head.rstrip("}").rstrip().encode() + b',\n  "traceEvents": [\n')
        for lane in lanes:
            self.writer.metadata(lane)

    def close(self) -> None:
        """End the array and the object."""
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
    low, high = _cut(spec, run, last, len(placed))
    whole = low == 0 and high == len(placed)
    name = spell(spec, run.step, run.number)
    begin, length = run.host[lane_number]
    if name and whole:
        writer.mark(lane, name, begin, length, None)
    if spec.stacks and whole:
        root = "vllm/v1/" if spec.framework == "vllm" else "python/sglang/srt/"
        for i, frame in enumerate(_STEP_FRAMES):
            parent = f'"Python parent id": {i}, "Python id": {i + 1}, "Python thread": 0'
            writer.host_event(
                lane, "python_function", frame.format(srt=root), begin - 500 + i * 60, length + 900 - i * 120, parent
            )
    _write_launches(writer, sim, run, lane_number, truth, (low, high))
    if high == len(placed):
        sync_begin, sync_length, correlation = run.sync[lane_number]
        call = "hipStreamSynchronize" if spec.vendor == "amd" else "cudaStreamSynchronize"
        writer.host_event(
            lane, "cuda_runtime", call, sync_begin, sync_length, f'"cbid": 131, "correlation": {correlation}'
        )
        if spec.sync_events:
            pid, tid = writer.device_ids(lane, 7)
            text = writer.event(
                "cuda_sync", "Stream Sync", pid, tid, f'"stream": 7, "device": {lane.device}, "correlation": %s'
            )
            stamps = (writer._stamp(sync_begin + writer._base), writer._stamp(sync_length))  # pyright: ignore[reportPrivateUsage]
            writer.put(text % (*stamps, correlation), 1)
    seen = placed[low:high]
    if not seen:
        return
    start, end = min(p.start for p in seen), max(p.start + p.dur for p in seen)
    if name and whole and spec.gpu_annotation:
        writer.mark(lane, name, start, end - start, 7)
    if truth is not None:
        truth.steps.append(StepTruth(lane.rank, run.number, name or "", run.step.stage, run.step.kind, start, end))


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
        i, base = p.item, writer._base  # pyright: ignore[reportPrivateUsage]
        launch = (p.launch[0] + base, p.launch[0] + base + p.launch[1])
        place = (i.part, i.layer, i.half, i.kind)
        truth.kernels.append(
            Kernel(lane.rank, lane.device, p.stream, p.start + base, p.dur, i.name, i.op, i.frame, run.step.stage, run.step.kind,
                   run.number, *place, i.comm, p.graph >= 0, p.correlation, launch, p.collective)
        )  # fmt: skip


__all__ = ["SIDE", "RankWriter", "TraceFile", "header", "opened", "spell", "write_step"]
