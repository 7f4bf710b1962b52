"""Of several rivals that are ahead each is profiled, or its blocker stands in the round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infer_forge.campaign import verdicts
from infer_forge.campaign.book import Campaign, Record
from infer_forge.campaign.gates import look
from infer_forge.campaign.layout import RunLayout


def record(campaign: Campaign, kind: str, **body: Any) -> None:
    number = len(campaign.records) + 1
    sha = f"{number:064x}"[::-1]
    campaign.records.append(Record(sha[:12], number, "2026-01-01T00:00:00Z", kind, body, sha))


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    """A round in which two of three rivals are ahead."""
    made = Campaign(RunLayout(tmp_path))
    record(made, "init", values={"frameworks": {"selected": ["vllm", "tensorrt_llm", "tokenspeed"]}})
    record(made, "round_open", round=1)
    scenario = {"scenario": "chat", "verdict": "behind", "against": "vllm", "mean_pct": -9.0, "decides": True}
    further = [
        {"scenario": "chat", "against": "tensorrt_llm", "verdict": "behind", "mean_pct": -4.0},
        {"scenario": "chat", "against": "tokenspeed", "verdict": "tie", "mean_pct": 0.1},
    ]
    record(made, "gap", measurement=None, scenarios=[scenario], rivals=further, overall="behind")
    return made


def test_every_rival_that_is_ahead_is_profiled_and_no_other(campaign: Campaign) -> None:
    assert verdicts.unprofiled(campaign) == ["sglang", "vllm", "tensorrt_llm"]
    assert look(campaign, "A114").evidence == "not profiled in this round: sglang, vllm, tensorrt_llm"
    for name in ("sglang", "vllm"):
        record(campaign, "profile", framework=name)
    assert verdicts.unprofiled(campaign) == ["tensorrt_llm"]
    record(campaign, "blocker", what="profile tensorrt_llm: the image has no profiler", tried=["x"], needs="y")
    assert look(campaign, "A114").result == "pass"


def test_a_profile_of_an_earlier_round_is_none_of_this_one(campaign: Campaign) -> None:
    for name in ("sglang", "vllm", "tensorrt_llm"):
        record(campaign, "profile", framework=name)
    assert look(campaign, "A114").result == "pass"
    record(campaign, "round_close", round=1)
    record(campaign, "round_open", round=2)
    assert look(campaign, "A114").result == "fail"


def test_a_round_without_a_verdict_of_its_own_has_none(campaign: Campaign) -> None:
    assert look(campaign, "A102").result == "pass"
    record(campaign, "round_close", round=1)
    record(campaign, "round_open", round=2)
    assert look(campaign, "A102").evidence == "no gap verdict of this round"
    assert look(campaign, "A102").result == "fail"
