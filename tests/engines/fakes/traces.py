"""Torch-profiler traces of the steps that a fake engine really ran, with its own annotations and file names."""

from __future__ import annotations

import gzip
import json
import os
import time
from pathlib import Path
from typing import Any

from tests.engines.fakes.scheduler import Step
from tests.engines.fakes.settings import Settings

LAYERS = 4
_KERNELS = (
    ("void rmsnorm_kernel<__nv_bfloat16>(int)", "aten::rms_norm", 3.0),
    ("nvjet_tst_128x64_64x8_2x1_v_bz_TNT", "aten::mm", 21.0),
    ("void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>(Params)", "fa3::fwd", 17.0),
    ("nvjet_tst_64x128_64x6_1x2_h_bz_TNT", "aten::mm", 19.0),
    ("void act_and_mul_kernel<__nv_bfloat16, silu>(int)", "aten::silu_and_mul", 4.0),
)


def annotation(framework: str, settings: Settings, step: Step) -> str:
    """The name of a step's annotation as that framework spells it."""
    if framework == "vllm":
        inside = f"({step.tokens})"
        context = f"{step.batch}{inside}" if step.stage == "prefill" else "0(0)"
        generation = f"{step.batch}{inside}" if step.stage == "decode" else "0(0)"
        return f"execute_context_{context}_generation_{generation}"
    if framework == "tensorrt_llm":
        pair = (step.batch, 0) if step.stage == "prefill" else (0, step.batch)
        return f"[Executor] _forward_step {step.index}: {pair[0]} ctx reqs, {pair[1]} gen reqs"
    if step.stage == "prefill":
        return f"step[EXTEND bs={step.batch} toks={step.tokens}]"
    return f"step[{'TARGET_VERIFY' if settings.verify_steps else 'DECODE'} bs={step.batch}]"


class _Events:
    """Events of one rank, with the links between op, launch and kernel."""

    def __init__(self, graph: bool, stack: bool, framework: str) -> None:
        self.events: list[dict[str, Any]] = []
        self.graph, self.stack, self.framework = graph, stack, framework
        self.correlation = 1000
        self.external = 1

    def x(self, cat: str, name: str, ts: float, dur: float, pid: int, tid: int, **args: Any) -> None:
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "ts": round(ts, 3), "dur": round(dur, 3), "pid": pid, "tid": tid}
            | {"args": args}
        )

    def kernel(self, name: str, op: str, ts: float, dur: float, cpu: float, launch: bool) -> None:
        if launch:
            self.correlation += 1
            self.x("cpu_op", op, cpu, 2.0, 100, 100, **{"External id": self.external})
            self.x("cuda_runtime", "cudaLaunchKernel", cpu + 0.5, 1.0, 100, 100, correlation=self.correlation)
            if self.stack:
                package = {"sglang": "sglang/srt", "vllm": "vllm/model_executor", "tensorrt_llm": "tensorrt_llm/_torch"}
                path = f"{package.get(self.framework, 'tokenspeed/runtime')}/models/fake.py"
                self.x("python_function", f"{path}(42): forward", cpu - 0.5, 4.0, 100, 100)
        self.x(
            "kernel",
            name,
            ts,
            dur,
            0,
            7,
            **({"External id": self.external} if launch else {}),
            **{
                "device": 0,
                "context": 1,
                "stream": 7,
                "correlation": self.correlation,
                "grid": [132, 1, 1],
                "block": [128, 1, 1],
                "registers per thread": 64,
            },
        )
        self.external += 1


def content(
    framework: str, settings: Settings, steps: list[Step], *, rank: int, world: int, stack: bool
) -> dict[str, Any]:
    """The trace of these steps as a JSON object."""
    graph = not settings.no_cuda_graph
    made = _Events(graph, stack, framework)
    base = steps[0].at if steps else 0.0
    for step in steps:
        at = 1_000_000 + (step.at - base) * 1e6
        scale = max(1.0, step.seconds * 1e6) / (LAYERS * sum(k[2] for k in _KERNELS) * 1.1)
        replay = graph and step.stage == "decode"
        made.x("user_annotation", annotation(framework, settings, step), at, step.seconds * 1e6, 100, 100)
        if replay:
            made.correlation += 1
            made.x("cuda_runtime", "cudaGraphLaunch", at + 1, 5.0, 100, 100, correlation=made.correlation)
        clock = at + 6
        for _ in range(LAYERS):
            for name, op, dur in _KERNELS:
                made.kernel(name, op, clock, dur * scale, clock - 5, not replay)
                clock += dur * scale + 0.2
    return {
        "schemaVersion": 1,
        "deviceProperties": [
            {
                "id": 0,
                "name": "NVIDIA H200",
                "totalGlobalMem": 150_000_000_000,
                "computeMajor": 9,
                "computeMinor": 0,
                "numSms": 132,
            }
        ],
        "cuda_runtime_version": 12090,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world, "nccl_version": "2.27.5"},
        "with_stack": int(stack),
        "record_shapes": 0,
        "baseTimeNanoseconds": 1700000000000000000,
        "traceEvents": made.events,
        "traceName": "",
    }


def file_name(framework: str, *, profile_id: str, stage: str, rank: int, world: int, prefix: str = "") -> str:
    """How that framework names a trace file."""
    if framework == "vllm":
        return f"dp0_pp0_tp{rank}_dcp0_ep0_rank{rank}.{time.time_ns()}.pt.trace.json.gz"
    if framework == "tokenspeed":
        return f"{profile_id}-TP-{rank}{f'-{stage}' if stage else ''}.trace.json.gz"
    start = f"{prefix}-" if prefix else ""
    return f"{start}{profile_id}-TP-{rank}{f'-{stage}' if stage else ''}.trace.json.gz"


def write(path: Path, data: dict[str, Any], settings: Settings) -> None:
    """Write a trace file, late, slowly or torn as the settings say."""
    time.sleep(settings.late_trace)
    if settings.no_trace:
        return
    raw = json.dumps(data).encode()
    packed = gzip.compress(raw, 1) if path.name.endswith(".gz") else raw
    if settings.truncated_trace:
        packed = packed[: len(packed) * 2 // 3]
    path.parent.mkdir(parents=True, exist_ok=True)
    pieces = 10 if settings.slow_trace else 1
    size = -(-len(packed) // pieces)
    with path.open("wb") as file:
        for start in range(0, len(packed), size):
            file.write(packed[start : start + size])
            file.flush()
            os.fsync(file.fileno())
            time.sleep(settings.slow_trace / pieces)
