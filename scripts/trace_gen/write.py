"""Kineto-shaped JSON, streamed: one text template per kind of launch, filled with numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import BinaryIO

from trace_gen.model import Item, Spec, Step
from trace_gen.timeline import MAIN, GraphLaunch, Lane, Placed

_FLUSH = 1 << 21
_VOCABULARY = 151_936
_OUTER = (
    "torch/nn/modules/module.py(1773): _wrapped_call_impl",
    "torch/nn/modules/module.py(1784): _call_impl",
    "torch/_dynamo/eval_frame.py(1010): _fn",
    "torch/utils/_contextlib.py(120): decorate_context",
    "contextlib.py(80): inner",
    "torch/nn/functional.py(2900): _run",
)


def spell(spec: Spec, step: Step, number: int) -> str | None:
    """The mark of a step in the spec's spelling."""
    context, tokens, generation = step.context, step.context_tokens, step.generation
    if spec.annotation == "sglang":
        mode = {"prefill": "EXTEND", "decode": "DECODE", "mixed": "MIXED"}.get(step.stage, "IDLE")
        mode = "TARGET_VERIFY" if step.kind == "verify" else mode
        batch = context + generation
        return f"step[{mode} bs={batch} toks={tokens}]" if mode == "EXTEND" else f"step[{mode} bs={batch}]"
    if spec.annotation == "sglang_detailed":
        return _spell_detailed(step)
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


def _spell_detailed(step: Step) -> str:
    """SGLang's mark with the sums over requests: every context request 256 cached tokens, every generation request 1024."""
    context, tokens, generation = step.context, step.context_tokens, step.generation
    each = tokens // context if context else 0
    c = {
        "c_sq": tokens,
        "c_sqsq": each * each * context,
        "c_sqsk": each * (each + 256) * context,
        "c_sk": tokens + 256 * context,
    }
    g = {"g_sq": generation, "g_sqsq": generation, "g_sqsk": 1024 * generation, "g_sk": 1024 * generation}
    if step.stage == "prefill":
        head, sums = f"EXTEND bs={context} toks={tokens}", c
    elif step.stage == "decode":
        head, sums = f"DECODE bs={generation}", g
    else:
        head, sums = f"MIXED bs={context + generation}", {"c": context, "g": generation, **c, **g}
    return f"step[{head} {' '.join(f'{key}={value}' for key, value in sums.items())}]"


class RankWriter:
    """Writes the file of one rank, or of all when merged, and records the truth of what it wrote."""

    def __init__(self, spec: Spec, out: BinaryIO) -> None:
        self.spec, self.out = spec, out
        self.events = 0
        self._parts: list[str] = []
        self._size = 0
        self._templates: dict[tuple[object, ...], tuple[str, int]] = {}
        self.load: tuple[int, int] = (1, 1)
        """New tokens and requests of the step that is written, for the dims of its ops."""
        self._python = 1
        kineto = spec.layout == "kineto"
        self._join = ",\n" if kineto else ","
        self.stamp = self._stamps()
        self.base = spec.base_us * 1000
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

    def _frames(self, item: Item) -> list[str]:
        """The frames around a launch, outermost first: modules and wrappers, the model's own frame, torch's, a built-in."""
        count = self.spec.frames
        if count < 3:
            return [item.frame]
        outer = [_OUTER[i % len(_OUTER)] for i in range(count - 3)]
        if outer and item.layer is not None:
            outer[0] = f"nn.Module: DecoderLayer_{item.layer}"
        return [*outer, item.frame, "torch/_ops.py(1255): __call__", "<built-in method of PyCapsule object at 0x7f20>"]

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
        spec = self.spec
        layer = p.item.layer if spec.stacks else None
        load = self.load if spec.shapes else None
        key = (lane.rank, lane.device, p.item.name, p.item.op, p.item.frame, layer, p.stream, flow, load)
        found = self._templates.get(key)
        if found:
            return found
        pid, tid = self.host_ids(lane)
        external = self._external()
        pieces: list[str] = []
        if spec.stacks:
            python = '"Python parent id": %s, "Python id": %s, "Python thread": 0, "Ev Idx": %s'
            pieces += [self.event("python_function", frame, pid, tid, python) for frame in self._frames(p.item)]
        shapes = f', "Concrete Inputs": ["", ""], "Input Dims": {self._dims(p.item)}, "Input type": ["c10::BFloat16", "c10::BFloat16"]'
        op = f'{external}"Record function id": 0, "Sequence number": %s, "Fwd thread id": 0' + (
            shapes if spec.shapes else ""
        )
        pieces += [self.event("cpu_op", name, pid, tid, op) for name in self._op_names(p.item.op)]
        launch_name = self._launch_name(p)
        driver = spec.vendor == "nvidia" and launch_name.startswith("cu") and not launch_name.startswith("cuda")
        args = f'{external}"cbid": 211, "correlation": %s'
        if spec.vendor == "amd":
            kernel = json.dumps(p.item.name).replace("%", "%%")
            args = f'{external}"cid": 211, "correlation": %s, "kernel": {kernel}, "stream": "0x0", "grid": [152, 1, 1]'
        pieces.append(self.event("cuda_driver" if driver else "cuda_runtime", launch_name, pid, tid, args))
        if flow:
            pieces.append(self._flow_event("s", pid, tid))
        pieces.append(self._kernel_template(lane, p))
        if flow or spec.flows == "unbalanced":
            pieces.append(self._flow_event("f", *self.device_ids(lane, p.stream)))
        found = (self._join.join(pieces), len(pieces))
        self._templates[key] = found
        return found

    def _dims(self, item: Item) -> str:
        """Operands of an op: layers see every new token, the head and the sampler one row a request."""
        tokens, requests = self.load
        if item.part == "tail":
            return (
                f"[[{requests}, 4096], [4096, {_VOCABULARY}]]"
                if item.op == "aten::mm"
                else f"[[{requests}, {_VOCABULARY}]]"
            )
        return f"[[{tokens}, 4096], [4096, 4096]]" if item.op == "aten::mm" else f"[[{tokens}, 4096], [4096]]"

    def _op_names(self, op: str) -> list[str]:
        wrappers = ["aten::linear", "aten::matmul", "sglang::unified_op"]
        return [*(wrappers[i % 3] for i in range(self.spec.noise_ops)), op]

    def eager(self, lane: Lane, p: Placed, written: bool) -> None:
        """All events of one eager launch; `written` is False when the kernel event is lost."""
        spec, stamp, base = self.spec, self.stamp, self.base
        flow = spec.flows == "balanced" or (spec.flows == "unbalanced" and p.correlation % 2 == 0)
        begin, length = p.op[0] + base, p.op[1]
        numbers: list[object] = []
        if spec.stacks:
            count = len(self._frames(p.item))
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
            self.stamp(g.launch[0] + self.base),
            self.stamp(g.launch[1]),
            g.external,
            g.correlation,
        ]
        if flow:
            text += self._join + self._flow_event("s", pid, tid)
            numbers += [g.correlation, self.stamp(g.launch[0] + self.base)]
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
        start = self.stamp(p.start + self.base)
        numbers: list[object] = [start, self.stamp(p.dur), p.external, node, p.correlation]
        if flow:
            numbers += [p.correlation, start]
        self.put(found[0] % tuple(numbers), found[1])

    def mark(self, lane: Lane, name: str, begin: int, length: int, stream: int | None) -> None:
        """A user annotation, on the host or (with a stream) on the device."""
        pid, tid = self.host_ids(lane) if stream is None else self.device_ids(lane, stream)
        cat = "user_annotation" if stream is None else "gpu_user_annotation"
        text = self.event(cat, name, pid, tid, '"External id": %s')
        self.put(text % (self.stamp(begin + self.base), self.stamp(length), lane.external), 1)

    def host_event(self, lane: Lane, cat: str, name: str, begin: int, length: int, args: str) -> None:
        """A runtime call or a step-wide Python frame."""
        pid, tid = self.host_ids(lane)
        text = self.event(cat, name, pid, tid, args.replace("%", "%%"))
        self.put(text % (self.stamp(begin + self.base), self.stamp(length)), 1)

    def metadata(self, lane: Lane) -> None:
        """`M` events that name processes and threads."""
        tail = "\n  }" if self.spec.layout == "kineto" else "}"
        for (pid, tid), label in ((self.host_ids(lane), "python"), (self.device_ids(lane, MAIN), f"GPU {lane.device}")):
            for name, key in (("process_name", "name"), ("process_labels", "labels"), ("thread_name", "name")):
                head = f'{self._open}"M", "name": "{name}", "pid": {pid}, "tid": {tid}, "ts": {self.stamp(self.base)}'
                self.put(f'{head}{self._line}"args": {{"{key}": "{label}"}}{tail}', 1)
