"""The overlap table: unions, who hides whom, and the dependency risk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from infer_forge.profile import overlap
from infer_forge.profile.read import Input

Make = Callable[..., Any]
Read = Callable[[Any], Input]
GEMM, NORM, CUSTOM = "nvjet_tst_64x64_TNT", "void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(int)", "my_kernel"
REDUCE = "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 8>(sglang::RankData*)"


def found(read: Read, made: Any) -> dict[str, overlap.Row]:
    return {r.family: r for r in overlap.overlap(read(made).scenes[0])}


def us(row: overlap.Row) -> tuple[float, float, float]:
    return row.total_ns / 1000, row.exclusive_ns / 1000, (row.total_ns - row.exclusive_ns) / 1000


def test_kernels_that_overlap_on_one_stream_never_pass_the_time_that_went_by(
    trace_writer: Make, read_one: Read
) -> None:
    made = trace_writer()
    for i in range(10):  # each starts before the one before it ends (programmatic dependent launch)
        made.kernel(CUSTOM, 1000 + 8 * i, 10)
    rows = found(read_one, made)
    assert us(rows[CUSTOM]) == (82.0, 82.0, 0.0)
    assert rows[CUSTOM].work_ns == 100_000


def test_a_gemm_under_an_all_reduce_is_not_hidden_but_the_all_reduce_is(trace_writer: Make, read_one: Read) -> None:
    made = trace_writer()
    for i in range(5):
        made.kernel(GEMM, 1000 + 100 * i, 50, stream=7).kernel(REDUCE, 1030 + 100 * i, 40, stream=9)
    rows = found(read_one, made)
    assert us(rows["nvjet"]) == (250.0, 250.0, 0.0)
    assert us(rows["sglang::cross_device_reduce_1stage"]) == (200.0, 100.0, 100.0)


def test_two_computes_that_run_together_are_exclusive_only_apart(trace_writer: Make, read_one: Read) -> None:
    made = trace_writer()
    for i in range(5):
        made.kernel(GEMM, 1000 + 100 * i, 50, stream=7).kernel(NORM, 1040 + 100 * i, 20, stream=9)
    rows = found(read_one, made)
    assert us(rows["nvjet"]) == (250.0, 200.0, 50.0)
    assert us(rows["flashinfer::norm::RMSNormKernel"]) == (100.0, 50.0, 50.0)


def test_a_copy_is_hidden_by_any_kernel_and_hides_none(trace_writer: Make, read_one: Read) -> None:
    made = trace_writer()
    for i in range(5):
        made.kernel(REDUCE, 1000 + 100 * i, 50, stream=7).kernel(
            "Memcpy HtoD (Pinned -> Device)", 1030 + 100 * i, 40, stream=9, cat="gpu_memcpy"
        )
    rows = found(read_one, made)
    assert us(rows["sglang::cross_device_reduce_1stage"]) == (250.0, 250.0, 0.0)
    assert us(rows["Memcpy HtoD"]) == (200.0, 100.0, 100.0)


def test_work_of_another_stage_hides_too(trace_writer: Make, read_one: Read) -> None:
    made = trace_writer()
    for i in range(5):
        at = 1000 + 200 * i
        made.step("step[DECODE bs=1]", at, 60).kernel(REDUCE, at, 50, stream=7)
        made.kernel(GEMM, at + 20, 60, stream=9, launch=(at - 150.0, 1.0))
    made.step("step[EXTEND bs=1 toks=4]", 100, 10)
    rows = [r for r in overlap.overlap(read_one(made).scenes[0]) if r.family.endswith("cross_device_reduce_1stage")]
    assert [us(r) for r in rows] == [(250.0, 100.0, 150.0)]


def test_back_to_back_neighbours_on_the_stream_are_a_dependency(trace_writer: Make, read_one: Read) -> None:
    made = trace_writer().run([GEMM, REDUCE, NORM], repeat=8, gap=1.0)
    row = found(read_one, made)["sglang::cross_device_reduce_1stage"]
    assert row.risk == "high"
    assert "back to back" in row.reason
    assert "fuse" in row.advice


def test_loose_neighbours_are_low_risk_and_exposed_communication_wants_overlap(
    trace_writer: Make, read_one: Read
) -> None:
    made = trace_writer().run([GEMM, REDUCE, NORM], repeat=8, gap=40.0)
    row = found(read_one, made)["sglang::cross_device_reduce_1stage"]
    assert row.risk == "low"
    assert "side stream" in row.advice


def test_a_stream_that_waits_for_an_event_is_a_dependency(trace_writer: Make, read_one: Read) -> None:
    made = trace_writer().run([GEMM, REDUCE], repeat=8, gap=40.0)
    made.events.append(
        {
            "ph": "X",
            "cat": "cuda_sync",
            "name": "Stream Wait Event",
            "pid": 0,
            "tid": 7,
            "ts": 1001,
            "dur": 1,
            "args": {"stream": 7, "wait_on_stream": 9},
        }
    )
    row = found(read_one, made)["sglang::cross_device_reduce_1stage"]
    assert row.risk == "high"
    assert "waits for events" in row.reason


def test_few_launches_are_unclear(trace_writer: Make, read_one: Read) -> None:
    row = found(read_one, trace_writer().run([GEMM, REDUCE], repeat=2))["sglang::cross_device_reduce_1stage"]
    assert (row.risk, row.reason) == ("unclear", "only 2 launches")


def test_hidden_work_is_left_alone(trace_writer: Make, read_one: Read) -> None:
    made = trace_writer()
    for i in range(6):
        made.kernel(GEMM, 1000 + 100 * i, 80, stream=7).kernel(REDUCE, 1010 + 100 * i, 30, stream=9)
    row = found(read_one, made)["sglang::cross_device_reduce_1stage"]
    assert us(row) == (180.0, 0.0, 180.0)
    assert row.advice.startswith("leave it")
