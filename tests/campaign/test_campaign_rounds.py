"""Rounds after one another: rejected attempts, plateaus, what the journal keeps."""

from __future__ import annotations

from pathlib import Path

from infer_forge.campaign import check_report, open_campaign
from infer_forge.journal import open_store
from infer_forge.journal import search_report as search
from tests.campaign.campaign_agent import Agent, git
from tests.campaign.conftest import Station


def result_of(agent: Agent, rule: str) -> tuple[str, str]:
    """A rule's result and evidence now."""
    rows = check_report(open_campaign(agent.run)).tables["checks"].dicts()
    return next((r["result"], r["evidence"]) for r in rows if r["rule"] == rule)


def test_a_rejected_attempt_is_kept_everywhere_and_the_checkout_goes_back(station: Station) -> None:
    agent = station("patched")
    agent.record("result", attempt=agent.notes["attempt"], outcome="rejected", reason="it breaks a test")
    assert result_of(agent, "one-attempt") == ("fail", result_of(agent, "one-attempt")[1])
    assert "code was changed outside of an attempt" in result_of(agent, "one-attempt")[1]
    git(agent.checkout, "revert", "--no-edit", "HEAD")
    git(agent.checkout, "checkout", "-q", "-B", "main", f"{agent.notes['head']}~1")
    assert result_of(agent, "one-attempt")[0] == "pass"
    agent.record("round_close")
    held = open_campaign(agent.run)
    assert "it breaks a test" in (agent.run / "humanize" / "attempt-ledger.md").read_text()
    assert held.task().blocks[-1].outcome == "rejected"
    with open_store() as store:
        assert search(store, "fused norm", {"kind": ["rejection"]}).tables["hits"].rows
    assert (
        "it breaks a test"
        in agent.tool("read_campaign_status", run=str(agent.run))["data"]["answers"]["failed directions"]
    )


def test_two_rounds_without_gain_ask_for_a_new_idea_with_provenance(station: Station) -> None:
    agent = station("planned")
    for _ in range(2):
        agent.open_round()
        agent.record("round_close")
    agent.open_round()
    assert result_of(agent, "A149")[0] == "fail"
    idea = {"title": "another way", "repository": "vllm", "covers": ["x"], "expected_gain_pct": 1.0}
    agent.record("idea", **idea, path="a.py")
    assert result_of(agent, "A149")[0] == "fail", "an idea of nowhere widens nothing"
    agent.record("idea", **idea, path="b.py", provenance="vllm at commit 1234567, csrc/a.cu")
    assert result_of(agent, "A149")[0] == "pass"
    opened = open_campaign(agent.run).of("round_open")
    gaps = open_campaign(agent.run).of("gap")
    assert len(opened) == 3
    assert len(gaps) == 4, "the baseline's and one of every round"
    assert len({g.at for g in gaps}) == 4


def test_a_later_round_finds_what_an_earlier_one_wrote(station: Station) -> None:
    agent = station("patched")
    agent.record("result", attempt=agent.notes["attempt"], outcome="partial", reason="too small")
    git(agent.checkout, "checkout", "-q", "-B", "main", f"{agent.notes['head']}~1")
    agent.record("round_close")
    agent.record("round_open", claim_id=agent.claim["claim_id"], epoch=agent.claim["epoch"], query="fused norm")
    search_record = open_campaign(agent.run).last("round_open")
    assert search_record is not None
    assert any("fused norm" in str(h["title"]) for h in search_record["journal"]["hits"])


def test_the_ceiling_is_computed_from_the_models_config_and_the_contract(station: Station, corpus: Path) -> None:
    agent = station("planned")
    agent.record("ceiling", config=str(corpus / "configs" / "Qwen--Qwen3-8B.config.json"))
    found = open_campaign(agent.run).last("ceiling")
    assert found is not None
    assert (agent.run / str(found["path"])).is_file()
    assert "decode" in str(found["summary"])
