"""A whole campaign: from init to the final report, over MCP and fresh processes, with real engines and a real gap."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaign.campaign_agent import FAST, Agent


def test_a_campaign_closes_a_real_gap_and_ends_with_a_final_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(tmp_path, monkeypatch)
    agent.begin()
    agent.lock()
    agent.baseline()
    agent.plan()
    agent.claim_gpu()
    agent.open_round()
    agent.explain()
    idea = agent.think()
    attempt = agent.attempt(idea)
    head = agent.commit(FAST)
    agent.validate(attempt, head)
    result = agent.record("result", attempt=attempt, outcome="accepted", reason="it closes the gap")
    agent.record("round_close")
    agent.review(result)
    agent.finish()
    assert agent.campaign("status")["state"] == "final"
    report = (agent.run / "final_report.md").read_text()
    assert "Yes. A151" in report
    checked = agent.campaign("check")
    assert checked["verdict"] == "pass", checked["tables"]
