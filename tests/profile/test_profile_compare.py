"""Two traces side by side, in ms per step, aligned by kernel family and source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from infer_forge.base.errors import UsageFault
from infer_forge.profile import compare
from infer_forge.profile.model import Options

Make = Callable[..., Any]
ALL = Options(min_share=0.0, cache=False)
GEMM, NORM = "nvjet_tst_{t}_TNT", "void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(int)"


def decode(writer: Any, steps: int, gemm_us: float, *names: str, tile: str = "64x64_64x16") -> Any:
    for i in range(steps):
        start = 1000 + 1000 * i
        writer.step("step[DECODE bs=1]", start, 900).kernel(GEMM.format(t=tile), start, gemm_us)
        for k, name in enumerate(names):
            writer.kernel(name, start + 300 + 50 * k, 20)
    return writer.write()


def test_differences_are_per_step_whatever_the_number_of_steps(trace_writer: Make) -> None:
    a = decode(trace_writer("a.json"), 4, 100.0, NORM)
    b = decode(trace_writer("b.json"), 8, 150.0, NORM, tile="128x128_64x6")
    report = compare([a], [b], ALL)
    rows = {r["family"]: r for r in report.tables["kernel"].dicts()}
    assert (rows["nvjet"]["a_ms_per_step"], rows["nvjet"]["b_ms_per_step"]) == (0.1, 0.15)
    assert rows["nvjet"]["diff_ms_per_step"] == 0.05
    assert rows["nvjet"]["seen"] == "family"
    assert rows["flashinfer::norm::RMSNormKernel"]["diff_ms_per_step"] == 0.0
    assert report.tables["stages"].dicts()[0]["a_steps"] == 4
    assert report.summary[0] == "a is a.json; b is b.json; a difference is b - a"
    assert "+0.0" in report.summary[1]


def test_the_largest_difference_stands_first_and_sides_swap_their_sign(trace_writer: Make) -> None:
    a = decode(trace_writer("a.json"), 3, 100.0, NORM)
    b = decode(trace_writer("b.json"), 3, 180.0, NORM, "new_kernel")
    forth, back = compare([a], [b], ALL), compare([b], [a], ALL)
    first = forth.tables["kernel"].dicts()[0]
    assert first["family"] == "nvjet"
    assert {r["family"]: r["diff_ms_per_step"] for r in forth.tables["kernel"].dicts()} == {
        r["family"]: -r["diff_ms_per_step"] for r in back.tables["kernel"].dicts()
    }
    lonely = next(r for r in forth.tables["kernel"].dicts() if r["family"] == "new_kernel")
    assert (lonely["a_ms_per_step"], lonely["b_ms_per_step"], lonely["seen"]) == (None, 0.02, "b only")


def test_kernels_that_come_from_one_source_line_are_aligned_though_their_names_differ(trace_writer: Make) -> None:
    paths: list[Any] = []
    for name, kernel in (("a.json", "old_attention_kernel"), ("b.json", "new_attention_kernel")):
        made = trace_writer(name)
        for i in range(4):
            start = 1000 + 1000 * i
            made.step("step[DECODE bs=1]", start, 900).kernel(kernel, start, 50, launch=(start - 10.0, 5.0))
            frame = {
                "ph": "X",
                "cat": "python_function",
                "name": "python/sglang/srt/layers/radix_attention.py(90): forward",
            }
            made.events.append(frame | {"pid": 1, "tid": 1, "ts": start - 20.0, "dur": 40.0, "args": {"Python id": i}})
        paths.append(made.write())
    row = compare([paths[0]], [paths[1]], ALL).tables["kernel"].dicts()[0]
    assert row["family"] == "old_attention_kernel | new_attention_kernel"
    assert row["seen"] == "source"


def test_names_that_one_stage_aligned_are_aligned_in_every_stage_and_table(trace_writer: Make) -> None:
    paths: list[Any] = []
    for name, kernel, dur in (("a.json", "old_attention_kernel", 50), ("b.json", "new_attention_kernel", 60)):
        made = trace_writer(name)
        for i in range(4):
            start = 1000 + 1000 * i
            made.step("step[DECODE bs=1]", start, 500).kernel(kernel, start, dur, launch=(start - 10.0, 5.0))
            frame = {
                "ph": "X",
                "cat": "python_function",
                "name": "python/sglang/srt/layers/radix_attention.py(90): forward",
            }
            made.events.append(frame | {"pid": 1, "tid": 1, "ts": start - 20.0, "dur": 40.0, "args": {"Python id": i}})
            made.kernel(kernel, start + 700, dur, launch=(start + 690.0, 5.0))  # outside of the step and of the source
        paths.append(made.write())
    report = compare([paths[0]], [paths[1]], ALL)
    both = "old_attention_kernel | new_attention_kernel"
    rows = {r["stage"]: r for r in report.tables["kernel"].dicts()}
    assert {s: (r["family"], r["seen"]) for s, r in rows.items()} == {
        "decode": (both, "source"),
        "outside": (both, "as in decode"),
    }
    assert rows["outside"]["diff_ms_per_step"] == 0.01
    told = {r["stage"]: (r["family"], r["diff_ms_per_step"]) for r in report.tables["overlap"].dicts()}
    assert told == {"decode": (both, 0.01), "outside": (both, 0.01)}


def test_small_families_are_hidden_and_summed(trace_writer: Make) -> None:
    a, b = (decode(trace_writer(f"{n}.json"), 3, 5000.0, "tiny_kernel") for n in "ab")
    report = compare([a], [b], Options(cache=False, min_share=1.0))
    assert [r["family"] for r in report.tables["kernel"].dicts()] == ["nvjet"]
    assert report.header.hidden["kernel"]["rows"] == 1
    assert report.header.hidden["kernel"]["a_ms_per_step"] == 0.02


def test_a_capture_without_steps_counts_as_one_and_says_so(trace_writer: Make) -> None:
    a = trace_writer("a.json").kernel("my_kernel", 1000, 10).kernel("my_kernel", 1100, 10).write()
    report = compare([a], [a], ALL)
    assert report.tables["kernel"].dicts()[0]["a_ms_per_step"] == 0.02
    assert "NO_STEPS" in {f.code for f in report.findings}


def test_captures_of_another_kind_are_told_apart(trace_writer: Make) -> None:
    a = decode(trace_writer("a.json", world=4, stacks=True), 3, 100.0)
    b = decode(trace_writer("b.json", world=8), 3, 100.0)
    told = [f for f in compare([a], [b], ALL).findings if f.code == "CAPTURES_DIFFER"]
    assert len(told) == 1
    assert "world_size: a 4, b 8" in told[0].message
    assert not [f for f in compare([a], [a], ALL).findings if f.code == "CAPTURES_DIFFER"]


def test_all_ranks_at_once_are_a_usage_fault(trace_writer: Make) -> None:
    a = trace_writer("a.json").kernel("my_kernel", 1000, 10).write()
    with pytest.raises(UsageFault, match="rank by rank"):
        compare([a], [a], Options(cache=False, rank="all"))


def test_a_fusion_that_one_side_has_shows_its_two_states(trace_writer: Make) -> None:
    add = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int)"
    apart = trace_writer("a.json").run([add, NORM, "my_kernel"], repeat=20).write()
    fused = "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)"
    joined = trace_writer("b.json").run([fused, "my_kernel"], repeat=20).write()
    rows = {r["id"]: r for r in compare([apart], [joined], ALL).tables["fuse"].dicts()}
    states = {(r["a_state"], r["b_state"]) for r in rows.values()}
    assert ("opportunity", None) in states
    assert (None, "already active") in states
