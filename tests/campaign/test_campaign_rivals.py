"""Several rivals that are ahead: each is profiled and compared, or a blocker says why it could not be."""

from __future__ import annotations

import pytest

from infer_forge.campaign import open_campaign, verdicts
from infer_forge.campaign.advice import next_step
from infer_forge.campaign.book import Campaign, Record
from tests.campaign.campaign_asks import answer_of
from tests.campaign.conftest import Station


def test_every_rival_that_is_ahead_is_profiled_and_compared_or_has_a_blocker(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = station("round")
    whole = verdicts.sides_of

    def three(campaign: Campaign, measurement: Record | None) -> verdicts.Sides:
        sides = whole(campaign, measurement)
        more = {"framework": "tokenspeed", "candidate_id": "tokenspeed-base"}
        return {
            **sides,
            "tokenspeed": [r.model_copy(update={**more, "launch_id": f"t{r.launch_id}"}) for r in sides["vllm"]],
        }

    with monkeypatch.context() as patch:
        patch.setattr(verdicts, "sides_of", three)
        agent.record("gap")
        gap = verdicts.current(open_campaign(agent.run))
        assert gap is not None
        assert verdicts.leading(gap) == ["vllm", "tokenspeed"]
        agent.report("fairness")
    for name in ("sglang", "vllm"):
        agent.record("profile", framework=name, traces=agent.capture(name))
    assert answer_of(agent, "A114") == ("fail", "not profiled in this round: tokenspeed")
    assert "framework=tokenspeed" in next_step(open_campaign(agent.run)).command
    agent.record(
        "blocker", what="profile tokenspeed: this build has no route", tried=["its flags"], needs="another build"
    )
    assert answer_of(agent, "A114")[0] == "pass"
    agent.report("root-cause")
    cause = open_campaign(agent.run).last("root_cause")
    assert cause is not None
    assert [c["against"] for c in cause["comparisons"]] == ["vllm"]
    text = (agent.run / "analysis" / "root-cause.md").read_text()
    assert "tokenspeed could not be profiled; its blocker is in the ledger" in text
    assert "## kernel against vllm" in text
