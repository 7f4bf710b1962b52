"""Device work finds its launch, CPU op and source; held against the generator's truth and against traps by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infer_forge.trace.many import load_many
from infer_forge.trace.model import Link
from infer_forge.trace.read import parse
from trace_gen import SPECS, generate

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    "name",
    ["stacks", "no_ids", "lower_ids", "string_ts", "int_ts", "list_form", "amd", "merged_tp4", "two_devices", "rough",
     "graph_piecewise", "amd_graph", "pdl", "vllm_detailed", "flux", "verify", "syncs"],
)  # fmt: skip
def test_every_kernel_has_the_op_source_stage_and_rank_of_the_truth(name: str, tmp_path: Path) -> None:
    spec = SPECS[name]
    files, truth = generate(spec, tmp_path / "t.trace.json.gz", seed=103)
    seen = 0
    for trace in load_many(files, cache=False).traces:
        work = trace.work
        mine = [k for k in truth.kernels if spec.devices > 1 or trace.rank in (None, k.rank)]
        mine.sort(key=lambda k: (k.ts_ns, k.device, k.stream))
        assert len(mine) == len(work)
        for i, kernel in enumerate(mine):
            seen += 1
            assert trace.names[work.name[i]] == kernel.name
            assert (work.ts_ns[i], work.dur_ns[i]) == (kernel.ts_ns, kernel.dur_ns)
            assert (work.device[i], work.stream[i]) == (kernel.device, kernel.stream)
            assert trace.stages[work.stage[i]] == kernel.stage
            assert bool(work.graph[i]) == kernel.graph
            if kernel.graph:
                assert (work.link[i], work.op[i], work.source[i]) == (Link.GRAPH_REPLAY, -1, -1)
            else:
                assert trace.name(int(work.op[i])) == kernel.op
                assert not spec.stacks or trace.name(int(work.source[i])) == kernel.frame
    assert seen == len(truth.kernels)


def launch(host: Make, ts: float, correlation: int, tid: int = 10, **more: Any) -> dict[str, Any]:
    return host("cuda_runtime", "cudaLaunchKernel", ts, 2, tid=tid, correlation=correlation, **more)


def test_an_external_id_that_names_an_op_of_another_time_is_a_collision_and_not_used(
    write_trace: Write, kernel: Make, host: Make
) -> None:
    events = [
        host("cpu_op", "aten::WRONG", 1, 2, External_id=5),
        host("cpu_op", "aten::right", 100, 10, External_id=9),
        launch(host, 103, 5),
        launch(host, 105, 50),
        kernel(110, 1, **{"External id": 5, "correlation": 5}),
        kernel(112, 1, **{"External id": 9, "correlation": 50}),
    ]
    trace = parse(write_trace(events))
    assert [trace.name(int(o)) for o in trace.work.op] == ["aten::right", "aten::right"]
    assert trace.work.link.tolist() == [Link.ENCLOSING, Link.EXTERNAL_ID]
    assert trace.coverage.external_collisions == 1


def test_external_ids_that_copy_the_correlation_name_no_op(write_trace: Write, kernel: Make, host: Make) -> None:
    events = [
        host("cpu_op", "aten::WRONG", 0, 1000, tid=77, External_id=5),
        host("cpu_op", "aten::right", 100, 10, External_id=1),
        launch(host, 103, 5, External_id=5),
        kernel(110, 1, **{"External id": 5, "correlation": 5}),
    ]
    trace = parse(write_trace(events))
    assert trace.coverage.synthetic_external
    assert trace.name(int(trace.work.op[0])) == "aten::right"


def test_a_kernel_without_a_launch_call_is_linked_through_its_flow(
    write_trace: Write, kernel: Make, host: Make
) -> None:
    events = [
        host("cpu_op", "aten::mm", 100, 10),
        {"ph": "s", "id": 5, "pid": 10, "tid": 10, "ts": 103, "cat": "ac2g", "name": "ac2g"},
        kernel(110.5, 1),
        {"ph": "f", "id": 5, "pid": 0, "tid": 7, "ts": 110.5, "cat": "ac2g", "name": "ac2g", "bp": "e"},
    ]
    trace = parse(write_trace(events))
    assert (trace.name(int(trace.work.op[0])), trace.work.link[0]) == ("aten::mm", Link.FLOW)


def test_a_graph_node_that_the_file_captured_names_its_op(write_trace: Write, kernel: Make, host: Make) -> None:
    node = {"graph id": 3, "graph node id": 8}
    captured = launch(host, 101, 4)
    captured["args"] |= node
    events = [
        host("cpu_op", "aten::mm", 100, 10),
        captured,
        host("cuda_runtime", "cudaGraphLaunch", 500, 5, correlation=60),
        kernel(510, 1, correlation=60, **node),
        kernel(512, 1, correlation=60),
    ]
    trace = parse(write_trace(events))
    assert trace.work.link.tolist() == [Link.GRAPH_NODE, Link.GRAPH_REPLAY]
    assert trace.name(int(trace.work.op[0])) == "aten::mm"
    assert trace.coverage.links == {"graph_node": 1, "graph_replay": 1}


def test_a_graph_replay_keeps_no_op_though_its_launch_lies_in_one(write_trace: Write, kernel: Make, host: Make) -> None:
    events = [
        host("cpu_op", "aten::whole_graph", 490, 30, External_id=2),
        host("cuda_runtime", "cudaGraphLaunch", 500, 5, External_id=2, correlation=60),
        *(kernel(510 + k, 1, f"k{k}", **{"External id": 2, "correlation": 60}) for k in range(3)),
    ]
    trace = parse(write_trace(events))
    assert trace.work.graph.all()
    assert (trace.work.op == -1).all()
    assert trace.work.graph_pos.tolist() == [0, 1, 2]
    assert trace.name(int(trace.calls.op[0])) == "aten::whole_graph"


def test_the_source_is_the_innermost_engine_frame_and_torch_frames_are_none(
    write_trace: Write, kernel: Make, host: Make
) -> None:
    def frame(name: str, ts: float, dur: float) -> dict[str, Any]:
        return host("python_function", name, ts, dur)

    events = [
        frame("python/sglang/srt/managers/scheduler.py(1): run", 0, 1000),
        frame("python/sglang/srt/models/qwen3.py(20): forward", 90, 100),
        frame("torch/nn/modules/linear.py(50): forward", 99, 20),
        launch(host, 103, 5),
        kernel(110, 1, correlation=5),
        frame("torch/nn/modules/linear.py(50): forward", 1099, 20),
        launch(host, 1103, 6),
        kernel(1110, 1, correlation=6),
    ]
    trace = parse(write_trace(events))
    found = [trace.name(int(s)) for s in trace.work.source]
    assert found == ["python/sglang/srt/models/qwen3.py(20): forward", None]


def test_unlabelled_processes_with_colliding_ids_do_not_cross(write_trace: Write, kernel: Make, host: Make) -> None:
    events: list[dict[str, Any]] = []
    for pid, device in ((100, 0), (200, 1)):
        for k in range(4):
            ts = 1000 * k + (300 if device else 0)
            op = host("cpu_op", f"op_of_{pid}", ts, 50, External_id=k + 1)
            call = launch(host, ts + 5, k + 1)
            op["pid"] = call["pid"] = pid
            args = {"External id": k + 1, "correlation": k + 1, "device": device}
            work = kernel(ts + 60, 5, f"k{device}", **args)
            work["pid"] = device
            events += [op, call, work]
    found = parse(write_trace(events)).split()
    assert [t.rank for t in found] == [0, 1]
    for trace, pid in zip(found, (100, 200), strict=True):
        assert {trace.name(int(o)) for o in trace.work.op} == {f"op_of_{pid}"}
        assert len(trace.work) == 4


def test_launches_without_work_and_work_without_launch_are_counted(
    write_trace: Write, kernel: Make, host: Make
) -> None:
    trace = parse(write_trace([launch(host, 1, 1), launch(host, 5, 2), kernel(9, 1, correlation=2), kernel(12, 1)]))
    assert (trace.coverage.launches_without_work, trace.coverage.without_call) == (1, 1)
