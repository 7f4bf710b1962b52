"""Gates of a round, a patch, a result and the end: each refuses for its own reason."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from infer_forge.bench import fairness
from infer_forge.bench.fairness import Diagnostic
from infer_forge.campaign import open_campaign
from infer_forge.campaign.book import Campaign
from infer_forge.campaign.gates import RULES, Answer, bad, look
from infer_forge.campaign.recording import PATCH_GATES
from tests.campaign.campaign_agent import SLOW, Refused, git, history_item
from tests.campaign.campaign_asks import answer_of, refused
from tests.campaign.conftest import Station

MUST_HOLD = {
    "chain", "A31", "A51", "A65", "A100", "A102", "A104", "A105", "A114", "A122", "A126", "A46", "A149", "one-attempt",
    "round-claim", "round-journal", "round-guard",
}  # fmt: skip
PATCH: dict[str, Any] = {"title": "fused norm", "idea": "0" * 12, "mechanism": "rmsnorm"}


def test_a_patch_asks_for_fairness_profiles_cause_layers_and_the_rivals_history_in_this_order(station: Station) -> None:
    agent = station("round")
    refused(agent, "a patch is refused: A105: no fairness report of the current gap", "attempt", **PATCH)
    agent.report("fairness")
    refused(agent, "a patch is refused: A114: not profiled in this round: sglang, vllm", "attempt", **PATCH)
    agent.record("profile", framework="sglang", traces=agent.capture("sglang"))
    refused(agent, "a patch is refused: A114: not profiled in this round: vllm", "attempt", **PATCH)
    agent.record("profile", framework="vllm", traces=agent.capture("vllm"))
    refused(agent, "a patch is refused: A122: no root-cause report of the current gap", "attempt", **PATCH)
    agent.report("root-cause")
    refused(agent, "a patch is refused: A126: no layer-pipeline report of this round", "attempt", **PATCH)
    agent.report("layer-pipeline")
    refused(agent, "a patch is refused: A46: no history of vllm was read", "attempt", **PATCH)
    agent.record("history", items=[history_item(framework="vllm", path="vllm/llama/README.md", pr=99)])
    refused(agent, "there is no idea with the id", "attempt", **PATCH)


def planted(_: Campaign) -> Answer:
    """A gate that does not hold."""
    return bad("planted here", "mend it")


def test_every_gate_of_a_patch_refuses_it(station: Station, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = station("explained")
    words = {**PATCH, "idea": agent.notes["idea"]}
    assert len(PATCH_GATES) == len(set(PATCH_GATES))
    assert set(PATCH_GATES) >= MUST_HOLD
    for gate in PATCH_GATES:
        with monkeypatch.context() as patch:
            patch.setitem(RULES, gate, dataclasses.replace(RULES[gate], look=planted))
            refused(agent, f"a patch is refused: {re.escape(gate)}: planted here", "attempt", **words)
    assert agent.record("attempt", **words)


def test_nothing_of_a_round_is_recorded_outside_of_one(station: Station) -> None:
    agent = station("planned")
    refused(agent, "A100: no round is open", "attempt", **PATCH)
    idea = {"title": "an idea", "repository": "sglang", "path": "a.py", "covers": ["x"], "expected_gain_pct": 1.0}
    refused(agent, "A100: no round is open", "idea", **idea)
    refused(agent, "A100: no round is open", "profile", framework="sglang", traces=["x"])
    with pytest.raises(Refused, match="A100: no round is open"):
        agent.measure()


def test_a_round_is_opened_with_a_search_of_the_journal_whose_query_and_hits_are_recorded(station: Station) -> None:
    agent = station("planned")
    claim = {"claim_id": agent.claim["claim_id"], "epoch": agent.claim["epoch"]}
    refused(agent, "query", "round_open", **claim)
    agent.record("round_open", **claim, query="nobody wrote of this before")
    opened = open_campaign(agent.run).last("round_open")
    assert opened is not None
    assert (opened["journal"]["query"], opened["journal"]["hits"]) == ("nobody wrote of this before", [])
    assert answer_of(agent, "round-journal")[0] == "pass"
    assert opened["claim"]["epoch"] == agent.claim["epoch"]
    assert opened["ownership"] is not None


def test_an_unfair_side_stops_the_patch_until_it_is_normalised(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = station("round")

    def unfair(*_: object) -> list[Diagnostic]:
        return [Diagnostic("E4", "prefix cache", "fail", "sglang on, vllm off", "normalise")]

    with monkeypatch.context() as patch:
        patch.setattr(fairness, "diagnose", unfair)
        agent.report("fairness")
    assert answer_of(agent, "A105") == ("fail", "fairness fails: E4 prefix cache: fail, sglang on, vllm off")
    refused(agent, "A105: fairness fails: E4 prefix cache", "attempt", **PATCH)
    assert "normalise" in look(open_campaign(agent.run), "A105").fix


def test_a_digest_names_an_idea_and_a_kernel_with_reference_shape_and_wiring(station: Station) -> None:
    agent = station("explained")
    whole = {
        "kernel": "act_and_mul_kernel", "digest": str(agent.tmp), "idea": agent.notes["idea"], "correctness": "unit test",
        "shape": "[8, 64] bf16", "wiring": "python/norm.py",
    }  # fmt: skip
    for name in ("kernel", "idea", "correctness", "shape", "wiring"):
        refused(agent, f"ncu: {name}: Field required", "ncu", **{k: v for k, v in whole.items() if k != name})
    refused(agent, "there is no idea", "ncu", **{**whole, "idea": "0" * 12})
    refused(station("planned"), "there is no idea|A100", "ncu", **whole)


def test_a_layer_report_that_came_before_its_triage_does_not_count(station: Station) -> None:
    campaign = open_campaign(station("explained").run)
    assert look(campaign, "A126").result == "pass"
    page = campaign.last("layer_pipeline")
    first = campaign.in_round("profile")[0]
    assert page is not None
    campaign.records.remove(page)
    campaign.records.append(dataclasses.replace(page, number=first.number - 1))
    opened = campaign.last("round_open")
    assert opened is not None
    campaign.records[campaign.records.index(opened)] = dataclasses.replace(opened, number=first.number - 2)
    assert look(campaign, "A126").evidence == "it came before the triage"


def test_a_report_of_an_older_gap_does_not_count(station: Station) -> None:
    agent = station("explained")
    assert (answer_of(agent, "A105")[0], answer_of(agent, "A122")[0]) == ("pass", "pass")
    agent.record("gap")
    assert (answer_of(agent, "A105")[0], answer_of(agent, "A122")[0]) == ("fail", "fail")


def test_where_nothing_is_behind_nothing_is_patched(station: Station) -> None:
    agent = station("validated")
    agent.record("result", attempt=agent.notes["attempt"], outcome="accepted", reason="it closes the gap")
    refused(agent, "A104: the verdict is .*: nothing is to be patched", "attempt", **PATCH)
    agent.record("round_close")
    told = agent.tool("read_next_step", run=str(agent.run))["data"]["command"]
    assert "campaign review" in told


def test_a_change_that_is_not_measured_better_is_not_accepted(station: Station) -> None:
    agent = station("explained")
    attempt = agent.attempt(agent.notes["idea"])
    (agent.checkout / "speed.json").write_text(str(SLOW).replace("'", '"') + "\n")
    (agent.checkout / "norm.py").write_text("x = 1\n")
    git(agent.checkout, "add", "-A")
    git(agent.checkout, "commit", "-q", "-m", "no faster")
    measured = agent.measure()
    agent.record("gap", measurement=measured)
    words = {"attempt": attempt, "outcome": "accepted", "reason": "it looks better"}
    refused(
        agent,
        r"A143: it is not measured better than the prior best \(.*: (tie|inconclusive|not_behind)",
        "result",
        **words,
    )
    refused(agent, "C47: changed outside of the attempt's paths: norm.py", "result", **words)
    refused(agent, "accuracy: no gsm8k of commit", "result", **words)
    refused(agent, "memory and stability: no soak of this commit", "result", **words)
    refused(agent, "mechanism: nothing shows that the patch is at work", "result", **words)


def test_an_accepted_result_cites_five_measured_kinds_of_evidence_and_never_a_history_note(station: Station) -> None:
    agent = station("stopped")
    campaign = open_campaign(agent.run)
    (kept,) = campaign.of("result")
    assert set(kept["evidence"]) == {"throughput", "latency", "memory", "accuracy", "stability"}
    kinds = {r.kind for i in kept["evidence"].values() if (r := campaign.find(i)) is not None}
    assert kinds == {"gap", "accuracy", "soak"}
    assert look(campaign, "A143").result == "pass"
    for name in kept["evidence"]:
        kept.body["evidence"][name] = None
        assert look(campaign, "A143").evidence.startswith(f"{kept.id} cites no ")
        assert name in look(campaign, "A143").evidence


def test_a_history_note_dismisses_nothing_and_proves_no_external_limit(station: Station) -> None:
    agent = station("explained")
    note = open_campaign(agent.run).of("history")[0].id
    words = {"covers": ["x"], "reason": "a pull request did it already", "evidence": note}
    refused(agent, "A49: a history note guides, it proves nothing", "dismissal", **words)
    with pytest.raises(Refused, match="A152 is not met: no cited record shows what is external"):
        agent.report("final", code="A152", evidence=[note])


def test_the_end_waits_for_cleanup_and_review(station: Station) -> None:
    agent = station("validated")
    result = agent.record("result", attempt=agent.notes["attempt"], outcome="accepted", reason="it closes the gap")
    agent.record("round_close")
    agent.report("final", code="A151")
    refused(agent, "A69: no cleanup after the last launch.*C64: result .* has no review", "stop", code="A151")
    agent.record("cleanup")
    refused(agent, "stopping is refused: C64: result .* has no review", "stop", code="A151")
    points = {
        p: {"result": "fail" if p == "dtype" else "pass", "evidence": "looked at it"}
        for p in ("shape", "dtype", "distributed", "cuda_graph", "fallback", "accuracy", "serving_api", "metrics", "benchmark_setup")
    }  # fmt: skip
    agent.record("review", result=result, reviewer="other model", points=points)
    refused(agent, "C64: the review of .* failed at dtype", "stop", code="A151")
    agent.review(result)
    agent.report("final", code="A151")
    agent.record("stop", code="A151")


def test_a_final_report_without_a_section_or_with_a_path_that_leads_nowhere_ends_nothing(station: Station) -> None:
    agent = station("reported")
    assert answer_of(agent, "A155")[0] == "pass"
    place = agent.run / "final_report.md"
    text = place.read_text()
    from infer_forge.campaign.rules_end import SECTIONS

    assert len(SECTIONS) == 12
    for section in SECTIONS:
        place.write_text(text.replace(f"## {section}", "## Other"))
        assert answer_of(agent, "A155") == ("fail", f"sections missing: {section}")
    place.write_text(text + "\nSee [the traces](profiles/none.json).\n")
    assert answer_of(agent, "A155") == ("fail", "paths that lead nowhere: profiles/none.json")
    refused(agent, "A155: paths that lead nowhere", "stop", code="A151")
    place.write_text(text.replace("Yes. A151", "Nearly. A151"))
    assert answer_of(agent, "A155")[0] == "unknown"


def test_a_record_of_another_loop_is_seen(station: Station) -> None:
    campaign = open_campaign(station("reported").run)
    assert look(campaign, "A3").result == "pass"
    assert {r["loop_id"] for r in campaign.records} == {campaign.loop_id}
    assert all(isinstance(r["round"], int) for r in campaign.records)
    last = campaign.records[-1]
    campaign.records[-1] = dataclasses.replace(last, body={**last.body, "loop_id": "l-other"})
    assert look(campaign, "A3").evidence == f"of another loop: {last.id}"


def test_a_checkpoint_that_is_gone_or_older_than_the_last_result_is_seen(station: Station) -> None:
    agent = station("validated")
    place = agent.run / "humanize" / "model-loop-checkpoint.md"
    before = place.read_text()
    agent.record("result", attempt=agent.notes["attempt"], outcome="accepted", reason="it closes the gap")
    assert answer_of(agent, "A140")[0] == "pass"
    place.write_text(before)
    assert answer_of(agent, "A140") == ("fail", "the checkpoint is not of the present state")
    place.unlink()
    assert answer_of(agent, "A140") == ("fail", "no checkpoint")


def test_after_an_accepted_change_the_gap_and_the_mechanism_are_of_its_state(station: Station) -> None:
    agent = station("reported")
    campaign = open_campaign(agent.run)
    assert look(campaign, "profile-accepted").result == "pass"
    seen = campaign.last("mechanism")
    assert seen is not None
    campaign.records.remove(seen)
    assert look(campaign, "profile-accepted").evidence == "the mechanism was not seen"
    gap = next(g for g in campaign.of("gap") if g["measurement"])
    campaign.records.remove(gap)
    assert look(campaign, "profile-accepted").evidence == "no gap verdict of the accepted state"
