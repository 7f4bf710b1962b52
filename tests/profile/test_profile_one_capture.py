"""Traces that are not the ranks of one capture are told as that, and never compared as ranks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infer_forge.profile import compare, triage
from infer_forge.profile.model import Options

Make = Callable[..., Any]
QUIET = Options(min_share=0.0, cache=False, keep=False)
EPOCH_US = 1.7e15
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def taken(made: Any, *, mode: str = "DECODE bs=4", start: float = 1000.0, fill: float = 60.0, count: int = 4) -> Path:
    for i in range(count):
        at = start + 100 * i
        made.step(f"step[{mode}]", at, 99).kernel("nvjet_tst_64x64_TNT", at, fill, op="aten::mm")
        made.kernel(NCCL, at + fill, 10, op="nccl:all_reduce")
    return made.write()


def renamed(path: Path, gpu: str) -> Path:
    document = json.loads(path.read_text())
    document["deviceProperties"][0]["name"] = gpu
    path.write_text(json.dumps(document))
    return path


def told(paths: list[Path]) -> str:
    """The evidence, or nothing."""
    return next((f.message for f in triage(paths, QUIET).findings if f.code == "NOT_ONE_CAPTURE"), "")


def ranks(trace_writer: Make, **facts: Any) -> list[Path]:
    return [taken(trace_writer(f"x-TP-{r}.trace.json", world=2, rank=r), fill=60 - 30 * r, **facts) for r in range(2)]


def test_the_ranks_of_one_capture_are_compared(trace_writer: Make) -> None:
    report = triage(ranks(trace_writer, start=EPOCH_US), QUIET)
    assert {"RANK_SKEW"} <= {f.code for f in report.findings}
    assert "NOT_ONE_CAPTURE" not in {f.code for f in report.findings}
    assert all(r["floor_us"] is not None for r in report.tables["collectives"].dicts())


def test_other_gpus_are_told_first_and_nothing_is_compared(trace_writer: Make) -> None:
    one, other = ranks(trace_writer)
    report = triage([one, renamed(other, "NVIDIA H100")], QUIET)
    finding = report.findings[0]
    assert finding.code == "NOT_ONE_CAPTURE"
    assert "GPU models NVIDIA B200, NVIDIA H100" in finding.message
    assert "not the ranks of one capture" in report.summary[0]
    assert "2 traces read" in report.summary[1]
    assert report.next_step == finding.next_step
    assert "RANK_SKEW" not in {f.code for f in report.findings}
    assert [r["floor_us"] for r in report.tables["collectives"].dicts()] == [None, None]


def test_jobs_of_another_size_are_told(trace_writer: Make) -> None:
    one = taken(trace_writer("a.trace.json", world=2, rank=0))
    assert "world sizes 2, 4" in told([one, taken(trace_writer("b.trace.json", world=4, rank=1))])


def test_a_rank_that_records_one_stage_twice_is_told(trace_writer: Make) -> None:
    paths = [taken(trace_writer(f"{n}.trace.json", world=2, rank=0), count=n) for n in (3, 4)]
    assert "rank 0 records decode in 2 files" in told(paths)


def test_a_rank_with_a_file_for_each_stage_is_one_capture(trace_writer: Make) -> None:
    late = EPOCH_US + 3600e6  # the stages may be taken one after another
    paths = [
        taken(trace_writer("x-TP-0-EXTEND.trace.json", world=1, rank=0), mode="EXTEND bs=1 toks=64", start=EPOCH_US),
        taken(trace_writer("x-TP-0-DECODE.trace.json", world=1, rank=0), start=late),
    ]
    assert not told(paths)


@pytest.mark.parametrize(("apart_s", "what"), [(30, ""), (120, "recorded up to 120 s apart"), (5e5, "6 days apart")])
def test_ranks_recorded_at_other_times_are_told(trace_writer: Make, apart_s: float, what: str) -> None:
    paths = [
        taken(trace_writer(f"x-TP-{r}.trace.json", world=2, rank=r), start=EPOCH_US + r * apart_s * 1e6) for r in (0, 1)
    ]
    found = told(paths)
    assert what in found
    assert bool(found) is bool(what)


def test_a_clock_without_a_beginning_says_nothing_of_the_time(trace_writer: Make) -> None:
    paths = [taken(trace_writer(f"x-TP-{r}.trace.json", world=2, rank=r), start=1000 + r * 1e9) for r in (0, 1)]
    assert not told(paths)


def test_a_side_of_a_comparison_that_is_no_one_capture_is_told(trace_writer: Make) -> None:
    one, other = ranks(trace_writer)
    report = compare([one, renamed(other, "NVIDIA H100")], [one], QUIET)
    assert [f.message[:3] for f in report.findings if f.code == "NOT_ONE_CAPTURE"] == ["a: "]


def test_the_files_that_were_not_read_are_named_for_people_too(trace_writer: Make, tmp_path: Path) -> None:
    path = taken(trace_writer("x-TP-0.trace.json", world=1, rank=0))
    (tmp_path / "perfetto-compatible-x-TP-0.trace.json").write_bytes(path.read_bytes())
    text = triage([tmp_path], QUIET).render("text")
    assert "perfetto-compatible-x-TP-0.trace.json: a copy of x-TP-0.trace.json" in text


def test_why_a_rank_is_shown_is_said_and_how_much_of_it_is_waiting(trace_writer: Make) -> None:
    paths = ranks(trace_writer)
    waits = [taken(trace_writer(f"y-TP-{r}.trace.json", world=2, rank=r), fill=60) for r in range(2)]
    slow = json.loads(waits[1].read_text())
    for event in slow["traceEvents"]:
        if event["name"] == NCCL:
            event["dur"] = 25
    waits[1].write_text(json.dumps(slow))
    shown = triage(waits, QUIET).summary[0]
    assert shown.startswith("rank 1: ")
    assert "shown: the most busy time; 0.060 ms of its device time waits for other ranks in collectives" in shown
    assert "waits" not in triage(paths, QUIET).summary[0]
