"""A whole campaign: from init to the final report, over MCP and fresh processes, with real engines and a real gap."""

from __future__ import annotations

import json

from tests.campaign.conftest import Station


def test_a_campaign_closes_a_real_gap_and_ends_with_a_final_report(station: Station) -> None:
    agent = station("stopped")
    told = agent.campaign("status")
    assert told["state"] == "final"
    report = (agent.run / "final_report.md").read_text()
    assert "Yes. A151" in report
    assert "| chat c4 | behind | vllm |" in report
    checked = agent.campaign("check")
    assert checked["verdict"] == "pass", checked["tables"]
    assert checked["counts"]["unknown"] == 0
    assert agent.campaign("stop-check")["verdict"] == "may_stop"
    task = agent.forge("task", "status", agent.campaign("status")["task"])
    assert "delivered" in json.dumps(task)


def test_status_answers_five_questions_in_few_words_at_every_station(station: Station) -> None:
    for name in ("begun", "searched", "planned", "round", "explained", "patched", "validated", "reported", "stopped"):
        agent = station(name)
        told = agent.tool("read_campaign_status", run=str(agent.run))
        assert len(told["data"]["answers"]) == 5
        from infer_forge.campaign import open_campaign, status_report

        assert len(status_report(open_campaign(agent.run)).text or "") < 1200


def test_next_names_exactly_one_step_at_every_station(station: Station) -> None:
    wanted = {
        "begun": "bench workload", "searched": "campaign lock", "planned": "record round-open", "round": "report fairness",
        "explained": "record attempt", "patched": "campaign measure", "validated": "record result", "reported": "campaign stop",
        "stopped": "campaign status",
    }  # fmt: skip
    for name, command in wanted.items():
        agent = station(name)
        told = agent.tool("read_next_step", run=str(agent.run))
        assert command in told["data"]["command"], (name, told["data"])
        assert "\n" not in told["data"]["command"]
