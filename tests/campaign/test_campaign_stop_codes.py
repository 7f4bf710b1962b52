"""Each stop code is met by its own evidence and by nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import UsageFault
from infer_forge.campaign.book import Campaign, Record
from infer_forge.campaign.layout import RunLayout
from infer_forge.campaign.stopping import COMPLETE, judge


class Story:
    """A campaign of which only records stand."""

    def __init__(self, run: Path) -> None:
        self.campaign = Campaign(RunLayout(run))
        chosen = {
            "target": "sglang",
            "selected": ["vllm"],
            "excluded": {},
            "unsupported": {"tokenspeed": "it is not installed here"},
        }
        self.add("init", values={"frameworks": chosen})

    def add(self, kind: str, **body: Any) -> str:
        """One more record; gives its id."""
        number = len(self.campaign.records) + 1
        sha = f"{number:064x}"[::-1]
        self.campaign.records.append(Record(sha[:12], number, "2026-01-01T00:00:00Z", kind, body, sha))
        return sha[:12]

    def gap(self, *verdicts: str, decides: bool = True) -> None:
        """A verdict of the baseline, a scenario for each word."""
        scenarios = [{"scenario": f"s{n}", "verdict": v, "decides": decides} for n, v in enumerate(verdicts)]
        self.add("gap", measurement=None, scenarios=scenarios, overall=verdicts[0])

    def says(self, code: str, *evidence: str) -> str:
        """The answer to a stop code."""
        return judge(self.campaign, code, evidence)[0]


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """A campaign without a verdict."""
    return Story(tmp_path)


@pytest.mark.parametrize(
    ("verdicts", "better", "level"),
    [
        (("ahead", "ahead"), "pass", "pass"),
        (("ahead", "tie"), "pass", "pass"),
        (("tie", "tie"), "fail", "pass"),
        (("not_behind", "ahead"), "fail", "pass"),
        (("ahead", "behind"), "fail", "fail"),
        (("tie", "inconclusive"), "fail", "fail"),
        (("ahead", "sla_fail"), "fail", "fail"),
        (("ahead", "void_fairness"), "fail", "fail"),
        (("insufficient",), "fail", "fail"),
    ],
)
def test_better_and_level_are_told_by_the_verdict_of_every_scenario(
    story: Story, verdicts: tuple[str, ...], better: str, level: str
) -> None:
    story.gap(*verdicts)
    assert (story.says("A150"), story.says("A151")) == (better, level)


def test_a_verdict_that_does_not_decide_ends_nothing(story: Story) -> None:
    assert [story.says(c) for c in COMPLETE] == ["fail"] * 4
    story.gap("ahead", decides=False)
    assert (story.says("A150"), story.says("A151")) == ("unknown", "unknown")


def test_an_external_limit_is_shown_by_a_cited_blocker_with_what_was_tried_and_its_file(story: Story) -> None:
    story.gap("behind")
    note = story.add("history", items=[{"pr": 1}])
    words: dict[str, Any] = {
        "what": "vllm loads other weights",
        "tried": ["both loaders"],
        "needs": "one format for both",
    }
    bare = story.add("blocker", **words)
    blocker = story.add("blocker", **words, evidence=[{"path": "load.log"}])
    for cited in ([], [note], [bare], [blocker, bare]):
        assert story.says("A152", *cited) == "fail"
    result, seen, _ = judge(story.campaign, "A152", [blocker])
    assert result == "pass"
    assert f"{blocker} vllm loads other weights; it is not installed here" in seen


def profiled(story: Story) -> None:
    """A profile of SGLang with one family that holds nearly all."""
    row = ["decode", "gemm_kernel", 100.0]
    triage: dict[str, Any] = {
        "tables": {
            "kernel": {"columns": ["stage", "kernel", "time_us"], "rows": [row]},
            "stages": {"columns": [], "rows": []},
        },
        "findings": [],
    }
    (story.campaign.layout.run / "triage.json").write_text(json.dumps(triage))
    story.add("profile", framework="sglang", stages={"decode": 100.0}, triage="triage.json")


def test_the_limit_needs_a_profile_a_ceiling_every_row_answered_and_no_idea_untried(story: Story) -> None:
    story.gap("behind")
    assert "was not profiled" in judge(story.campaign, "A153")[1]
    profiled(story)
    assert "no ceiling" in judge(story.campaign, "A153")[1]
    story.add("ceiling", blocker="no config")
    assert "no ceiling" in judge(story.campaign, "A153")[1]
    story.add("ceiling", summary="decode 3.1 ms")
    assert "2 rows of the coverage have no answer" in judge(story.campaign, "A153")[1]
    story.add("dismissal", covers=["gemm_kernel"], questions=None, reason="at the roof", evidence={"path": "x"})
    idea = story.add("idea", title="a wider tile", covers=["gemm_kernel"], questions=None)
    assert "1 ideas were not tried: a wider tile" in judge(story.campaign, "A153")[1]
    attempt = story.add("attempt", idea=idea)
    story.add("result", attempt=attempt, outcome="rejected")
    assert story.says("A153") == "pass"


def test_no_other_word_is_a_stop_code_and_budget_or_gpus_are_a_handoff(story: Story) -> None:
    for word in ("done", "budget", "A154", ""):
        with pytest.raises(UsageFault, match="is no stop code"):
            judge(story.campaign, word)
    assert "blocked" not in COMPLETE
    story.gap("inconclusive")
    assert story.says("blocked") == "fail"
    story.add("blocker", what="the GPUs are taken", tried=["waited 30 minutes"], needs="one H200 for a day")
    assert "does not name the noise" in judge(story.campaign, "blocked")[1]
    story.add("blocker", what="noise of 3 % hides the gap", tried=["12 launches"], needs="a quieter host")
    assert story.says("blocked") == "pass"
