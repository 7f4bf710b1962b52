"""The words of a note's decision: no candidate is told as present, no figure as one's own without the record behind it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from infer_forge.cli.journal import command
from infer_forge.journal import check_notes

RECORD = "20261101-120000-0123456789"

HONEST_OPEN = """
Reproduce it at its head sha in a worktree of its own; take it as a candidate only.
Candidate baseline: compare its attention path with ours before any patch is planned.
Do not rely on it: it is open and its head may still change.
If it is merged before the campaign ends, the baseline is measured again.
Once this has landed, our own fusion of the gate is not needed any more; until then keep the plan.
Read its test for the shapes that fail today; the source that was read does not have the change.
Not present in the recorded commit, so the profile cannot show its kernel.
The same fusion is already in main by #4711, so this one gives nothing new.
vLLM already has this path (vllm-project/vllm#17402); port from there rather than from this head.
Skip it. The author reports 1.3x on H100 only, and our target is H200.
The pull request claims 12% higher throughput at TP8; try it at TP2 first.
Wait for its review. It would replace our plan for the decode kernel.
It was closed without a merge because accuracy fell; do not try the same rounding.
Closed: the maintainers chose another design. Find out which before the same place is touched.
It has not been merged; the current source uses the old path, which is what we profile.
Its description says the scheduler already overlaps; the profile of the source will show whether that holds.
The kernel it touches is the third row of our profile, so read its diff first.
Use the unit test that it adds, after a review of the licence.
The branch was merged into another branch of its author, not into main.
Ask upstream whether it will be merged this month; plan as if not.
It already has tests for our shapes; use them.
This already supports FP8, so it is the better candidate of the two.
Its branch was rebased last week, and it now has a benchmark script.
Take it as a candidate: it has been merged into the fork of the team.
Its two kernels were merged into one, so profile both shapes.
开放状态,只作候选;在其 head 提交上复现后再决定。
尚未合并,不能当作现有行为;等合并后再测一次基线。
作者称提升 12%,需要在 H200 上复测。
""".strip().splitlines()

HONEST_MERGED = """
Take the fused gate as the baseline; a second fusion of the same pair is not worth a try.
It is in the recorded source, so our profile already shows the fused kernel.
Use --enable-fused-moe in the search of candidates.
Read moe_align_block_size before the tile sizes are changed.
The author's figure of 1.12x is for TP1; measure it again at our deployment point.
Its message reports a 9% lower TTFT; no figure is taken from it.
We need at least 5% more throughput to beat the rival; this path is worth a round.
Rejected earlier for the same reason: see 20261101-120000-0123456789, 3% slower on H200.
Our run 20261101-120000-0123456789 gave 1.08x output throughput with it, so it stays on.
Expect up to 10% from this fusion, by the share of the two kernels in the profile; to be measured.
Search chunked prefill sizes of 2048, 4096 and 8192.
It is limited to head dimension 128; our model has 192, so it does not apply.
The revert (#8123) names a hang at 16 ranks. Keep it off.
Only 2.4% of the step is in this kernel, so nothing is planned for it.
GSM8K was 0.3 points lower by its own table; run the accuracy gate before anything else.
Gate: accuracy may not fall by more than 1%.
Faster path exists for FP8 only; we serve bf16.
Choose FlashMLA for the search beside FA3, because this pull request added it for our head size.
The scheduler change is orthogonal; nothing to do.
Higher batch sizes were not covered by its tests: add 64 and 128 to the grid.
Whether it is faster than the current path is what round 3 will measure.
The speed-up is unverified on Blackwell.
Profile shows 31% of decode in all-reduce, therefore read this first.
采用融合后的 gate 作为基线,不再重复同样的融合。
仅支持 TP1,与我们的部署点不符,不采用。
目标是吞吐提升 5%,先看这条路径。
""".strip().splitlines()

TOLD_AS_PRESENT = """
SGLang already uses this fused path, so nothing has to be done.
This is now in main and part of our baseline.
Since this was merged the decode step overlaps with the scheduler.
The recorded source has this change, so our profile includes it.
The behaviour is already in the source.
It has landed upstream, take it as given.
Upstream now supports the fused gate because of this pull request.
This change is part of the baseline.
它已经合入主干,可以直接使用。
源码中已有该优化,不用再做。
""".strip().splitlines()

TOLD_AS_MEASURED = """
Adopt it: it is 1.3x faster on H200.
It gives 12% more throughput, so enable it everywhere.
This makes decode 9 % faster.
The fused gate cuts TTFT by 20%.
Throughput improves by 1.15x with this patch.
A proven speed-up; no further measurement is needed.
It reduces latency by 3.5 ms per step.
This is the state of the art path and beats every rival.
吞吐提升 12%,直接采用。
延迟降低 20%,已验证。
""".strip().splitlines()


def note(decision: str | list[str], state: str = "merged", **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "path_read": "/src/sglang#7",
        "pr": "sglang#7",
        "source_commit": "a" * 40,
        "merge_commit": "b" * 40 if state == "merged" else None,
        "state": state,
        "head_sha": "c" * 40,
        "in_source": state == "merged",
        "source_files": ["moe.py"],
        "symbols": [],
        "validation_evidence": ["Throughput 1.12x on H200, proven by the author"],
        "known_limits": ["Only for TP 1."],
        "validation_risk": "open: not in the source that was read; its head may still change",
        "decision": decision,
    }
    return made | more


def codes(*notes: dict[str, Any]) -> list[str]:
    return [f.code for f in check_notes(notes)]


@pytest.mark.parametrize("state", ["open", "closed-unmerged"])
@pytest.mark.parametrize("decision", HONEST_OPEN)
def test_an_honest_decision_on_what_is_not_in_the_source_passes(decision: str, state: str) -> None:
    assert codes(note(decision, state)) == []


@pytest.mark.parametrize("decision", [*HONEST_MERGED, *HONEST_OPEN])
def test_an_honest_decision_on_a_merged_pull_request_passes(decision: str) -> None:
    assert codes(note(decision)) == []


@pytest.mark.parametrize("decision", TOLD_AS_PRESENT)
def test_what_is_not_merged_and_told_as_present_behaviour_is_refused(decision: str) -> None:
    assert codes(note(decision, "open")) == ["NOTE_TOLD_PRESENT"]
    assert codes(note(decision, "closed-unmerged")) == ["NOTE_TOLD_PRESENT"]
    assert codes(note(decision)) == []


def test_a_change_that_was_taken_back_is_not_told_as_present_either() -> None:
    for honest in ("It was merged and then taken back.", "Merged, reverted by #13; find out why.", *HONEST_OPEN):
        assert codes(note(honest, in_source=False)) == [], honest
    for wrong in ("The recorded source has this change.", "SGLang already uses this fused path.", "源码中已有该优化。"):
        assert codes(note(wrong, in_source=False)) == ["NOTE_TOLD_PRESENT"], wrong


@pytest.mark.parametrize("decision", TOLD_AS_MEASURED)
def test_a_figure_told_as_fact_without_a_record_is_refused(decision: str) -> None:
    assert codes(note(decision)) == ["NOTE_UNSOURCED"]
    assert codes(note(f"{decision.rstrip('.。')} ({RECORD}).")) == []


def test_a_record_behind_one_sentence_stands_for_no_other() -> None:
    text = f"Our run {RECORD} gave 1.08x. It makes decode 30% faster on B200 too."
    (finding,) = check_notes([note(text)])
    assert "It makes decode 30% faster on B200 too" in finding.message


def test_a_decision_may_be_a_list_of_sentences_or_say_both_wrong_things() -> None:
    told = ["Read it first", "It is already in the source", "It gives 12% more throughput"]
    assert codes(note(told, "open")) == ["NOTE_TOLD_PRESENT", "NOTE_UNSOURCED"]


def test_the_command_refuses_a_note_by_its_words(tmp_path: Path) -> None:
    file = tmp_path / "notes.json"
    file.write_text(json.dumps({"notes": [note(TOLD_AS_PRESENT[0], "open")]}))
    done = CliRunner().invoke(command, ["history", "check-notes", str(file)])
    assert done.exception is not None
    assert "NOTE_TOLD_PRESENT" in done.output
