"""`campaign next` leads on from every state: what it names exists, runs, and moves the campaign."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from chores.command_words import fault
from infer_forge.bench import fairness
from infer_forge.bench.fairness import Diagnostic
from infer_forge.campaign import book, open_campaign, status, verdicts
from infer_forge.campaign.advice import next_step
from infer_forge.campaign.rlcr.model import PLAN
from infer_forge.campaign.steps import Step
from infer_forge.nodes import verbs
from infer_forge.nodes.registry import Registry, set_policy
from tests.campaign.campaign_agent import Agent, Refused, git
from tests.campaign.conftest import Station
from tests.campaign.rlcr_scene import STAMP

STATIONS = ("begun", "searched", "planned", "round", "explained", "patched", "validated", "reported", "stopped")


def asked(agent: Agent, mode: str | None = None) -> str:
    """The command that `next` names, as if the campaign had this mode."""
    held = open_campaign(agent.run)
    if mode is not None:
        held.records[0].body["mode"] = mode
    return next_step(held).command


def decided(agent: Agent, **change: Any) -> None:
    """A gap verdict like the last one, with its first scenario changed."""
    held = open_campaign(agent.run)
    last = held.last("gap")
    assert last is not None
    scenarios = [{**last["scenarios"][0], **change}, *last["scenarios"][1:]]
    book.append(held, "gap", {**last.body, "scenarios": scenarios})


@pytest.mark.parametrize("mode", ["rlcr", "goal", "loop"])
def test_every_command_that_is_named_in_any_state_and_mode_exists(mode: str, station: Station) -> None:
    for name in STATIONS:
        command = asked(station(name), mode)
        assert fault(command) is None, (name, command)
        assert "\n" not in command


@pytest.mark.parametrize("mode", ["goal", "loop"])
def test_the_prompt_of_a_goal_or_loop_is_rendered_then_recorded_and_then_a_round_opens(
    mode: str, station: Station
) -> None:
    agent = unplanned(station)
    words = shlex.split(asked(agent, mode))
    assert words[1:3] == ["campaign", "prompt"]
    agent.forge(*words[1:])
    place = Path(words[words.index("--out") + 1])
    assert place.is_file()
    assert asked(agent, mode).endswith(f"record plan --run {agent.run} --set path={place}")
    agent.record("plan", path=str(place), mode=mode)
    assert "record round-open" in asked(agent, mode)


def unplanned(station: Station) -> Agent:
    """The station before the plan: its plan is gone, and so the record of it stands for nothing."""
    agent = station("planned")
    plan = open_campaign(agent.run).last("plan")
    assert plan is not None
    Path(str(plan["path"])).unlink()
    return agent


def test_the_review_loop_is_planned_judged_started_and_judged_again_before_a_round_opens(station: Station) -> None:
    agent = unplanned(station)
    assert asked(agent, "rlcr") == f"infer-forge campaign plan --run {agent.run}"
    agent.campaign("plan")
    place = agent.checkout / PLAN
    assert asked(agent, "rlcr") == f"infer-forge campaign record plan --run {agent.run} --set path={place}"
    agent.record("plan", path=str(place), mode="rlcr")
    assert asked(agent, "rlcr") == f"infer-forge campaign doctor --run {agent.run} --moment before"
    told = agent.campaign("doctor", "--moment", "before", ok=4)
    assert told["moment"] == "before" if told else True
    loop = agent.checkout / ".humanize" / "rlcr" / STAMP
    loop.mkdir(parents=True)
    (loop / "state.md").write_text("---\ncurrent_round: 0\n---\n")
    assert asked(agent, "rlcr") == f"infer-forge campaign doctor --run {agent.run} --moment after"
    agent.campaign("doctor", "--moment", "after", ok=4)
    assert "record round-open" in asked(agent, "rlcr")
    agent.open_round()
    agent.record("round_close")
    assert asked(agent, "rlcr") == f"infer-forge campaign doctor --run {agent.run} --moment round"
    (loop / "state.md").write_text("---\ncurrent_round: 1\n---\n")
    assert "record round-open" in asked(agent, "rlcr")


def test_the_end_of_the_review_loop_is_judged_once_after_the_stop(station: Station) -> None:
    agent = station("stopped")
    assert "campaign status" in asked(agent, "rlcr"), "no loop was started"
    loop = agent.checkout / ".humanize" / "rlcr" / STAMP
    loop.mkdir(parents=True)
    (loop / "state.md").write_text("---\ncurrent_round: 1\n---\n")
    assert asked(agent, "rlcr") == f"infer-forge campaign doctor --run {agent.run} --moment end"
    (loop / "state.md").rename(loop / "complete-state.md")
    agent.campaign("doctor", "--moment", "end", ok=4)  # nobody reviewed anything
    assert "campaign status" in asked(agent, "rlcr")


def test_an_open_verdict_asks_for_launches_that_count_with_the_earlier_ones(station: Station) -> None:
    agent = station("round")
    decided(agent, verdict="inconclusive", k_more=1)
    command = asked(agent)
    assert command == f"infer-forge campaign measure --run {agent.run} --label repeat --launches 1"
    agent.forge(*shlex.split(command)[1:], "--no-help-check")
    assert asked(agent) == f"infer-forge campaign record gap --run {agent.run}"
    before = open_campaign(agent.run).of("gap")[0]["scenarios"][0]["n_pairs"]
    agent.record("gap")
    gap = verdicts.current(open_campaign(agent.run))
    assert gap is not None
    assert gap["scenarios"][0]["n_pairs"] == before + 1 == 4


def test_launches_of_the_accepted_state_are_not_taken_at_another(station: Station) -> None:
    agent = station("patched")
    with pytest.raises(Refused, match="the checkout is not at the accepted state"):
        agent.measure("--label", "repeat")


def test_a_lost_claim_voids_the_round_and_the_next_claim_opens_another(station: Station) -> None:
    agent = station("round")
    with pytest.raises(Refused, match="the round is not void"):
        agent.record("round_close", void=True)
    verbs.release(agent.claim["claim_id"], reason="lost", epoch=int(agent.claim["epoch"]))
    with pytest.raises(Refused, match=r"measure is refused: round-claim: .*fenced"):
        agent.measure("--label", "repeat")
    assert asked(agent) == f"infer-forge campaign record round-close --run {agent.run} --set void=true"
    agent.record("round_close", void=True)
    assert "fenced" in str(open_campaign(agent.run).of("round_close")[0]["void"])
    claim = shlex.split(asked(agent))
    assert claim[1:4] == ["node", "claim", "gpu07"]
    set_policy(Registry.open(), {"verify_after_release": "false"})  # this machine has no GPU to look at again
    new = agent.forge(*claim[1:])["claim"]
    assert f"claim_id={new['claim_id']} --set epoch={new['epoch']}" in asked(agent)
    agent.record("round_open", claim_id=new["claim_id"], epoch=new["epoch"], query="decode attention overhead")
    assert open_campaign(agent.run).round_number == 2


def test_a_void_comparison_leads_to_a_blocked_handoff_and_nowhere_else(station: Station) -> None:
    agent = station("round")
    decided(agent, verdict="void_workload", k_more=None, mean_pct=None, reason="not the same work")
    assert "record blocker" in asked(agent)
    agent.record("blocker", what="the workloads differ", tried=["read both logs"], needs="a new contract")
    for words, do in (
        ("record cleanup", lambda: agent.record("cleanup")),
        ("report final", lambda: agent.report("final", code="blocked")),
        ("campaign stop", lambda: agent.record("stop", code="blocked")),
        ("campaign status", lambda: None),
    ):
        assert words in asked(agent)
        do()
    assert open_campaign(agent.run).task().status == "handed_off"


def test_a_settled_baseline_ends_at_once_with_its_report(station: Station) -> None:
    agent = station("planned")
    decided(agent, verdict="ahead", mean_pct=3.0)
    for words, do in (
        ("record cleanup", lambda: agent.record("cleanup")),
        ("report final", lambda: agent.report("final", code="A150")),
        ("campaign stop", lambda: agent.record("stop", code="A150")),
        ("campaign status", lambda: None),
    ):
        assert words in asked(agent)
        do()
    assert open_campaign(agent.run).task().status == "delivered"
    assert "Yes. A150" in (agent.run / "final_report.md").read_text()


def test_a_rejected_change_is_taken_back_without_losing_its_commit(station: Station) -> None:
    agent = station("patched")
    agent.record("result", attempt=agent.notes["attempt"], outcome="rejected", reason="it breaks a test")
    agent.record("round_close")
    command = asked(agent)
    base = git(agent.checkout, "rev-parse", f"{agent.notes['head']}~1")
    assert command == f"git -C {agent.checkout} revert --no-edit {base[:12]}..HEAD"
    git(agent.checkout, *shlex.split(command)[3:])
    assert "record round-open" in asked(agent)
    agent.open_round()
    agent.record("profile", framework="sglang", traces=agent.capture("sglang"))
    assert git(agent.checkout, "merge-base", "--is-ancestor", agent.notes["head"], "HEAD") == ""


def test_status_stays_short_and_shows_no_command_that_looks_whole_and_is_not(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = open_campaign(station("reported").run)
    for length in (400, 900, 4000):
        step = Step("x" * length, "why")

        def named(_: book.Campaign, step: Step = step) -> Step:
            return step

        monkeypatch.setattr(status, "next_step", named)
        text = status.status_report(held).text or ""
        assert len(text) < 1200
        assert text.endswith("x" * 400 if length == 400 else "… (whole: infer-forge campaign next)")


def test_sglang_is_profiled_at_the_accepted_state_only(station: Station) -> None:
    agent = station("patched")
    with pytest.raises(Refused, match="its profile would show another engine"):
        agent.record("profile", framework="sglang", traces=["x.json.gz"])


def test_a_baseline_of_fewer_launches_than_the_first_look_is_not_locked(station: Station) -> None:
    agent = station("searched")
    with pytest.raises(
        Refused, match="A103: with 2 launches nothing can be decided, the contract's first look is at 3"
    ):
        agent.record("lock_baseline", min_launches=2)


def test_an_unfair_side_is_normalised_and_measured_once_more_before_it_is_handed_off(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = station("round")

    def unfair(*_: object) -> list[Diagnostic]:
        return [Diagnostic("E4", "prefix cache", "fail", "sglang on, vllm off", "flush")]

    with monkeypatch.context() as patch:
        patch.setattr(fairness, "diagnose", unfair)
        agent.report("fairness")
        assert asked(agent) == f"infer-forge campaign measure --run {agent.run} --label repeat"
        agent.measure("--label", "repeat", "--launches", "1")
        assert asked(agent) == f"infer-forge campaign record gap --run {agent.run}"
        held = open_campaign(agent.run)
        last = held.last("gap")
        assert last is not None
        book.append(held, "gap", last.body)
        assert asked(agent) == f"infer-forge campaign report fairness --run {agent.run}"
        agent.report("fairness")
        assert "record blocker" in asked(agent)
