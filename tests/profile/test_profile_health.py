"""Coded findings: each shows where a table could mislead, and stays away where it could not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from infer_forge.profile import compare, triage
from infer_forge.profile.model import Options

Make = Callable[..., Any]
ALL = Options(rank="all", min_share=0.0, cache=False)
GEMM = "nvjet_tst_64x64_TNT"


def codes(path: Path) -> set[str]:
    return {f.code for f in triage([path], ALL).findings}


def steps(made: Any, count: int, *, mode: str = "DECODE bs=4", fill: float = 80.0) -> Any:
    for i in range(count):
        made.step(f"step[{mode}]", 1000 + 100 * i, 99).kernel(GEMM, 1000 + 100 * i, fill, op="aten::mm")
    return made


def test_a_sound_capture_has_no_warning(trace_writer: Make) -> None:
    assert not codes(steps(trace_writer(), 8).write())


def test_kernels_of_unknown_class_are_told(trace_writer: Make) -> None:
    made = steps(trace_writer(), 8)
    made.kernel("zzqx_", 1090, 200, op="aten::mm")
    report = triage([made.write()], ALL)
    finding = next(f for f in report.findings if f.code == "UNCLASSIFIED")
    assert finding.figure is not None
    assert finding.threshold == 3.0


def test_eager_work_without_ops_is_low_linkage(trace_writer: Make) -> None:
    made = trace_writer()
    for i in range(8):
        made.step("step[DECODE bs=1]", 1000 + 100 * i, 99).kernel(GEMM, 1000 + 100 * i, 80)
    assert "LOW_LINKAGE" in codes(made.write())


def test_launches_whose_kernels_are_not_there_are_told(trace_writer: Make) -> None:
    made = steps(trace_writer(), 8)
    for i in range(4):
        made.call("cudaLaunchKernel", 1500 + i, 0.5, 90_000 + i)
    assert "MISSING_KERNELS" in codes(made.write())


def test_mixed_steps_and_few_steps_are_told(trace_writer: Make) -> None:
    assert "MIXED_WINDOWS" in codes(steps(trace_writer("a.json"), 8, mode="MIXED bs=4").write())
    assert "FEW_STEPS" in codes(steps(trace_writer("b.json"), 2).write())


def test_a_step_that_holds_next_to_nothing_is_told_with_the_figure_without_it(trace_writer: Make) -> None:
    made = trace_writer().step("step[DECODE bs=4]", 900, 50).kernel(GEMM, 910, 1, op="aten::mm")
    for i in range(2):
        made.step("step[DECODE bs=4]", 1000 + 100 * i, 99).kernel(GEMM, 1000 + 100 * i, 80, op="aten::mm")
    report = triage([made.write()], ALL)
    told = next(f for f in report.findings if f.code == "EMPTY_STEPS")
    assert "1 of 3 steps of decode" in told.message
    assert "step 0: 0.001 ms at most" in told.message
    # wall: 1 + 80 + 80 busy, 89 + 20 idle; without step 0 and nothing idle before it: 80 + 80 and 89 + 20
    assert "0.090 ms a step with them, 0.135 ms without" in told.message
    assert told.figure == 0.135
    assert report.summary[1].startswith(
        "  decode: wall 0.270 ms in 3 steps (0.090 ms each; 0.135 ms each without nearly"
    )
    assert report.tables["stages"].dicts()[0]["steps"] == 3
    aside = compare([made.path], [made.path], Options(min_share=0.0, cache=False))
    assert {f.message[:3] for f in aside.findings if f.code == "EMPTY_STEPS"} == {"a: ", "b: "}
    assert aside.summary[1].count("0.135 ms a step without nearly empty step 0") == 2


def test_steps_of_uneven_length_or_one_empty_of_many_are_no_warning(trace_writer: Make) -> None:
    uneven = trace_writer("a.json")
    for i, spent in enumerate((12.0, 30.0, 80.0)):
        uneven.step("step[EXTEND bs=1 toks=64]", 1000 + 100 * i, 99).kernel(GEMM, 1000 + 100 * i, spent, op="aten::mm")
    assert "EMPTY_STEPS" not in codes(uneven.write())
    many = trace_writer("b.json").step("step[DECODE bs=4]", 900, 50).kernel(GEMM, 910, 1, op="aten::mm")
    assert "EMPTY_STEPS" not in codes(steps(many, 40).write())


def test_a_path_that_says_another_stage_is_only_a_hint(trace_writer: Make, tmp_path: Path) -> None:
    (tmp_path / "prefill").mkdir()
    path = steps(trace_writer("prefill/t.trace.json"), 8).write()
    report = triage([path], ALL)
    assert {r["stage"] for r in report.tables["kernel"].dicts()} == {"decode"}
    assert "PATH_DISAGREES" in {f.code for f in report.findings}


def test_a_cut_file_keeps_what_can_be_read_and_says_what_was_lost(trace_writer: Make, tmp_path: Path) -> None:
    whole = steps(trace_writer(), 50).write().read_bytes()
    cut = tmp_path / "cut.json"
    cut.write_bytes(whole[: len(whole) // 2])
    report = triage([cut], ALL)
    assert "DAMAGED_FILE" in {f.code for f in report.findings}
    assert 0 < sum(r["launches"] for r in report.tables["kernel"].dicts()) < 50
    assert report.header.coverage["truncated"]


def test_ranks_that_lie_far_apart_are_told(trace_writer: Make, tmp_path: Path) -> None:
    for rank in range(2):
        steps(trace_writer(f"r-TP-{rank}.trace.json", world=2, rank=rank), 8, fill=80.0 - 30 * rank).write()
    report = triage([tmp_path], ALL)
    assert "RANK_SKEW" in {f.code for f in report.findings}


def test_every_code_is_explained_in_the_skill(project_root: Path) -> None:
    import re

    folder = project_root / "infer_forge" / "profile"
    used = {c for p in folder.glob("*.py") for c in re.findall(r'Finding\(\s*"([A-Z_]+)"', p.read_text())}
    told = (project_root / "skills/llm-torch-profiler-analysis/references/findings.md").read_text()
    assert used
    assert not {c for c in used if f"| {c} |" not in told}
