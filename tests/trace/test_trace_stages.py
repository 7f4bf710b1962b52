"""Stage windows from annotations, and which work belongs to which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infer_forge.trace.read import parse
from trace_gen import SPECS, generate

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]


def test_windows_carry_the_numbers_of_the_annotation(tmp_path: Path) -> None:
    files, truth = generate(SPECS["vllm_mixed"], tmp_path / "t.json", seed=104)
    trace = parse(files[0])
    windows = trace.windows
    assert [trace.stages[s] for s in windows.stage] == [s.stage for s in truth.steps]
    assert windows.step.tolist() == list(range(len(truth.steps)))
    mixed = np.flatnonzero(windows.stage == trace.stages.index("mixed"))
    assert set(windows.context_tokens[mixed].tolist()) == {512}
    assert set(windows.generation_requests[mixed].tolist()) == {8}


def step(
    host: Make, name: str, ts: float, dur: float, category: str = "user_annotation", **more: Any
) -> dict[str, Any]:
    return host(category, name, ts, dur, **more)


def test_windows_are_made_from_launches_where_the_device_has_no_annotations(
    write_trace: Write, kernel: Make, host: Make
) -> None:
    events = [
        step(host, "step[EXTEND bs=2 toks=100]", 0, 100),
        step(host, "step[DECODE bs=4]", 200, 50),
        host("cuda_runtime", "hipLaunchKernel", 10, 1, correlation=1),
        host("cuda_runtime", "hipLaunchKernel", 210, 1, correlation=2),
        host("cuda_runtime", "hipLaunchKernel", 400, 1, correlation=3),
        kernel(230, 5, "late prefill", correlation=1),
        kernel(236, 4, "decode", correlation=2),
        kernel(410, 1, "neither", correlation=3),
    ]
    trace = parse(write_trace(events))
    assert [trace.stages[s] for s in trace.work.stage] == ["prefill", "decode", "outside"]
    assert trace.windows.from_launches.all()
    assert trace.windows.start_ns.tolist() == [230000, 236000]
    assert trace.windows.end_ns.tolist() == [235000, 240000]
    assert trace.windows.tokens.tolist() == [100, 4]


def test_work_without_a_launch_call_takes_the_device_annotation(write_trace: Write, kernel: Make, host: Make) -> None:
    mark = step(host, "step[DECODE bs=4]", 100, 50, "gpu_user_annotation", External_id=3)
    mark |= {"pid": 0, "tid": 7}
    trace = parse(write_trace([mark, kernel(110, 5), kernel(300, 5)]))
    assert [trace.stages[s] for s in trace.work.stage] == ["decode", "outside"]
    assert not trace.windows.from_launches.any()


@pytest.mark.parametrize("gpu_annotation", [True, False])
def test_steps_of_several_devices_that_overlap_on_the_host_keep_their_own_work(
    gpu_annotation: bool, tmp_path: Path
) -> None:
    spec = replace(SPECS["two_devices"], devices=3, cycles=3, gpu_annotation=gpu_annotation)
    files, truth = generate(spec, tmp_path / "t.json", seed=104)
    trace = parse(files[0])
    want = {(k.device, k.stream, k.ts_ns): (k.device, k.pass_number) for k in truth.kernels}
    work = trace.work
    found: dict[int, set[tuple[int, int]]] = {}
    for row in range(len(work)):
        key = (int(work.device[row]), int(work.stream[row]), int(work.ts_ns[row]))
        found.setdefault(int(work.window[row]), set()).add(want[key])
    assert len(found) == len(trace.windows) == len(truth.steps)
    assert all(len(steps) == 1 for steps in found.values())


def test_a_mark_of_another_device_takes_no_work_of_the_same_thread(
    write_trace: Write, kernel: Make, host: Make
) -> None:
    marks = [
        step(host, "step[DECODE bs=4]", 100, 900, External_id=3),
        {**step(host, "step[DECODE bs=4]", 200, 50, "gpu_user_annotation", External_id=3), "pid": 1, "tid": 7},
    ]
    launches = [host("cuda_runtime", "cudaLaunchKernel", 110 + k, 1, correlation=k) for k in (1, 2)]
    work = [kernel(210, 5, correlation=1, device=1), kernel(220, 5, correlation=2, device=0)]
    trace = parse(write_trace([*marks, *launches, *work]))
    assert [trace.stages[s] for s in trace.work.stage] == ["decode", "outside"]


def test_serving_steps_win_over_profiler_steps_and_captures_are_no_steps(
    write_trace: Write, kernel: Make, host: Make
) -> None:
    events = [
        step(host, "ProfilerStep#3", 0, 1000),
        step(host, "capture_32_DECODE", 0, 1000),
        step(host, "step[TARGET_VERIFY bs=4]", 100, 100),
        host("cuda_runtime", "cudaLaunchKernel", 110, 1, correlation=1),
        host("cuda_runtime", "cudaLaunchKernel", 500, 1, correlation=2),
        kernel(120, 5, correlation=1),
        kernel(510, 5, correlation=2),
    ]
    trace = parse(write_trace(events))
    assert [trace.stages[s] for s in trace.work.stage] == ["decode", "step"]
    assert [trace.name(int(k)) for k in trace.windows.kind] == ["verify", "profiler_step"]
    assert trace.windows.level.tolist() == [0, 2]


def test_a_path_only_hints_at_the_stage(write_trace: Write, kernel: Make) -> None:
    trace = parse(write_trace([kernel(1, 1)], name="llama-decode-bench.json"))
    assert trace.hints["stage"] == "decode"
    assert trace.stages[trace.work.stage[0]] == "all"
    assert "stage" not in parse(write_trace([kernel(1, 1)], name="mixed-prefill-decode.json")).hints
