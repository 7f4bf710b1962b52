"""Cheats, slips and shortcuts: each is refused by its own rule, and nothing of it is recorded."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from infer_forge.base.errors import GateRefused
from infer_forge.base.ledger import Ledger
from infer_forge.campaign import check_report, open_campaign
from infer_forge.guard import audit
from infer_forge.nodes import verbs
from tests.campaign.campaign_agent import FAST, SLOW, Agent, Refused, git, history_item
from tests.campaign.conftest import Station


def refused(agent: Agent, match: str, kind: str, /, **data: Any) -> None:
    """Recording it is refused, with these words, and the ledger stays as it was."""
    before = (agent.run / "humanize" / "ledger.jsonl").read_bytes()
    with pytest.raises(Refused, match=match):
        agent.record(kind, **data)
    assert (agent.run / "humanize" / "ledger.jsonl").read_bytes() == before


def result_of(agent: Agent, rule: str) -> tuple[str, str]:
    """A rule's result and evidence now."""
    rows = check_report(open_campaign(agent.run)).tables["checks"].dicts()
    return next((r["result"], r["evidence"]) for r in rows if r["rule"] == rule)


def test_a_changed_workload_is_not_measured(station: Station) -> None:
    agent = station("patched")
    prompts = next((agent.run / "benchmark" / "workload").glob("chat*.jsonl"))
    prompts.write_text(prompts.read_text().replace("a", "b", 1))
    with pytest.raises(Refused, match=r"workload/chat.*A79: was changed after it was written"):
        agent.measure()


def test_an_edited_contract_stops_everything(station: Station) -> None:
    agent = station("explained")
    place = agent.run / "benchmark" / "contract.json"
    place.chmod(0o644)
    place.write_text(place.read_text().replace('"threshold": 0.01', '"threshold": 0.5'))
    refused(
        agent, "edited after it was locked", "attempt", title="t t t", idea=agent.notes["idea"], mechanism="rmsnorm"
    )
    assert result_of(agent, "A31")[0] == "fail"


def test_a_dropped_scenario_is_another_contract(station: Station) -> None:
    agent = station("patched")
    raw = yaml.safe_load(agent.config.read_text())
    raw["grid"]["scenarios"][0]["concurrencies"] = [2]
    agent.config.write_text(yaml.safe_dump(raw))  # pyright: ignore[reportUnknownMemberType]
    with pytest.raises(Refused, match="A79: .*not the locked contract's: grid"):
        agent.measure()


def test_another_model_is_never_measured(station: Station) -> None:
    agent = station("patched")
    raw = yaml.safe_load(agent.config.read_text())
    raw["model"] = "fake/Smaller-1B"
    agent.config.write_text(yaml.safe_dump(raw))  # pyright: ignore[reportUnknownMemberType]
    with pytest.raises(Refused, match="A79: .*not the locked contract's: model"):
        agent.measure()


def test_a_patch_that_is_not_active_is_not_measured(station: Station) -> None:
    agent = station("patched")
    git(agent.checkout, "checkout", "-q", f"{agent.notes['head']}~1")
    with pytest.raises(Refused, match="A135: .*the patch is not active"):
        agent.measure()


def test_an_uncommitted_change_is_not_measured(station: Station) -> None:
    agent = station("patched")
    (agent.checkout / "speed.json").write_text(json.dumps(SLOW))
    with pytest.raises(Refused, match="A91: .*uncommitted changes: speed.json"):
        agent.measure()


def test_a_mechanism_that_is_not_seen_blocks(station: Station) -> None:
    agent = station("validated")
    trace = agent.tmp / "empty.log"
    trace.write_text("nothing of it\n")
    agent.record("mechanism", attempt=agent.notes["attempt"], files=[str(trace)])
    refused(
        agent,
        "mechanism: not_seen in 1 files",
        "result",
        attempt=agent.notes["attempt"],
        outcome="accepted",
        reason="fast",
    )


def test_a_file_that_cannot_be_read_is_cannot_tell_not_seen(station: Station) -> None:
    agent = station("validated")
    agent.record("mechanism", attempt=agent.notes["attempt"], files=[str(agent.tmp / "gone.json.gz")])
    last = open_campaign(agent.run).last("mechanism")
    assert last is not None
    assert last["verdict"] == "cannot_tell"


def test_a_candidate_whose_accuracy_fell_is_not_accepted(station: Station) -> None:
    agent = station("validated")
    agent.record("accuracy", attempt=agent.notes["attempt"], file=str(agent.lm_eval(0.81)))
    refused(
        agent,
        r"gsm8k 0\.8100 against 0\.8400, tolerance 0\.0100",
        "result",
        attempt=agent.notes["attempt"],
        outcome="accepted",
        reason="fast",
    )


def test_an_unstable_candidate_is_not_accepted(station: Station) -> None:
    agent = station("validated")
    agent.soak(agent.notes["attempt"], restarts=1)
    refused(agent, "stability: 1 restarts", "result", attempt=agent.notes["attempt"], outcome="accepted", reason="fast")


def test_a_claim_without_measurement_and_accuracy_is_refused(station: Station) -> None:
    agent = station("patched")
    refused(
        agent,
        "A87: nothing was measured",
        "result",
        attempt=agent.notes["attempt"],
        outcome="accepted",
        reason="it must be",
    )


def test_an_edited_ledger_is_noticed_and_nothing_is_added_to_it(station: Station) -> None:
    agent = station("explained")
    place = agent.run / "humanize" / "ledger.jsonl"
    text = place.read_bytes()
    place.write_bytes(text.replace(b'"verdict":"behind"', b'"verdict":"aheadd"', 1))
    with pytest.raises(Refused, match="cannot be trusted"):
        agent.record("blocker", what="a b c", tried=["x"], needs="a person")
    place.write_bytes(b"".join(text.splitlines(keepends=True)[:-2]))
    assert result_of(agent, "chain")[0] == "fail", "the end was cut off"
    with pytest.raises(Refused, match="recorded entries are gone"):
        agent.report("fairness")


def test_a_patch_before_profile_and_reports_is_refused(station: Station) -> None:
    agent = station("round")
    rows = "A105: .*A114: .*not profiled.*A122"
    with pytest.raises(Refused, match=r"there is no idea|A105"):
        agent.record("attempt", title="t t t", idea="0" * 12, mechanism="rmsnorm")
    refused(agent, rows, "attempt", title="t t t", idea="0" * 12, mechanism="rmsnorm")


def test_code_that_was_changed_before_its_attempt_is_refused(station: Station) -> None:
    agent = station("explained")
    agent.commit(FAST)
    refused(
        agent,
        "code was changed outside of an attempt",
        "attempt",
        title="t t t",
        idea=agent.notes["idea"],
        mechanism="rmsnorm",
    )


@pytest.mark.parametrize("page", ["final_report.md", "humanize/model-loop-checkpoint.md", "analysis/root-cause.md"])
def test_a_hand_edited_number_is_noticed(page: str, station: Station) -> None:
    agent = station("reported")
    place = agent.run / page
    place.write_text(re.sub(r"(\d)\.(\d\d) %", r"\g<1>7.\2 %", place.read_text(), count=1))
    assert result_of(agent, "numbers")[0] == "fail"
    if page == "final_report.md":
        refused(agent, "numbers: final_report.md: its generated part was edited", "stop", code="A151")


def test_a_figure_of_nobody_in_the_words_around_is_noticed(station: Station) -> None:
    agent = station("reported")
    with (agent.run / "final_report.md").open("a") as page:
        page.write("We gained 37.5 % in all.\n")
    refused(agent, r"37\.5 % stands in no record", "stop", code="A151")


def test_a_second_lock_is_refused(station: Station) -> None:
    agent = station("round")
    with pytest.raises(Refused, match="B31: .*second lock"):
        agent.record("lock_contract", config=str(agent.config), set={"point.model.revision": "abc", "threshold": 0.5})
    with pytest.raises(Refused, match="A51: .*second lock"):
        agent.record("lock_baseline")


def test_tuned_against_default_is_no_baseline(station: Station) -> None:
    agent = station("searched")
    place = agent.run / "benchmark" / "candidates.jsonl"
    entries = Ledger(place).entries()
    place.unlink()
    for entry in entries:
        tuned = (
            entry.body.get("framework") == "vllm"
            and entry.body.get("purpose") == "search"
            and entry.body.get("candidate") != "base"
        )
        if not (tuned and entry.kind in ("launch_begins", "launch_ends")) and entry.kind != "not_run":
            Ledger(place).append(entry.kind, entry.body)
    refused(agent, "A54: vllm has only its default candidate", "lock_baseline")


def test_a_stale_profile_is_refused(station: Station) -> None:
    agent = station("round")
    trace = agent.capture("sglang")
    os.utime(trace[0], (1.6e9, 1.6e9))
    refused(agent, "A87: .*shows an earlier state", "profile", framework="sglang", traces=trace)


def test_a_framework_that_was_not_selected_is_not_profiled(station: Station) -> None:
    refused(station("round"), "A42: tokenspeed is not selected", "profile", framework="tokenspeed", traces=["x"])


def test_stopping_without_evidence_is_refused(station: Station) -> None:
    agent = station("round")
    for code in ("A150", "A151", "A152", "A153", "blocked"):
        with pytest.raises(Refused, match=f"{code} is not met"):
            agent.record("stop", code=code)
    with pytest.raises(Refused, match="no stop code"):
        agent.record("stop", code="done")
    agent.campaign("stop-check", ok=4)


def test_the_stop_hook_blocks_once_and_then_lets_go(station: Station) -> None:
    from infer_forge.cli.campaign import _hook  # pyright: ignore[reportPrivateUsage]

    agent = station("round")
    told = {"hook_event_name": "Stop", "cwd": str(agent.run)}
    for more, blocks in (({}, True), ({"stop_hook_active": True}, False)):
        done = hook(agent, {**told, **more})
        assert ('"block"' in done) is blocks
    assert hook(agent, {"hook_event_name": "Stop", "cwd": "/"}) == ""
    assert callable(_hook)


def hook(agent: Agent, payload: dict[str, Any]) -> str:
    import subprocess
    import sys

    argv = [sys.executable, "-m", "infer_forge.cli.main", "campaign", "stop-check", "--hook"]
    done = subprocess.run(argv, input=json.dumps(payload), capture_output=True, text=True, cwd=agent.tmp)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_blocked_handoff_names_what_is_needed_and_ends_the_task_as_one(station: Station) -> None:
    agent = station("round")
    agent.record("blocker", what="the GPUs are taken", tried=["waited 30 minutes"], needs="one H200 for a day")
    agent.record("cleanup")
    agent.report("final", code="blocked")
    agent.record("stop", code="blocked")
    held = open_campaign(agent.run)
    assert held.task().status == "handed_off"
    assert held.of("stop")[0]["complete"] is False
    assert "No. blocked" in (agent.run / "final_report.md").read_text()


def test_a_fenced_claim_closes_no_round(station: Station) -> None:
    agent = station("round")
    verbs.release(agent.claim["claim_id"], reason="lost", epoch=int(agent.claim["epoch"]))
    refused(agent, "round-claim: .*fenced", "round_close")
    assert result_of(agent, "round-claim")[0] == "fail"


def test_a_round_needs_a_claim_that_covers_the_gpus(station: Station) -> None:
    refused(station("planned"), "round-claim", "round_open", claim_id="not-a-claim", epoch=1, query="x y z")


def test_a_command_that_the_guard_denied_and_that_ran_is_noticed(station: Station) -> None:
    agent = station("round")
    audit.append({"verdict": "deny", "rule": "r", "command": "rm -rf /models"})
    agent.record("command", command="rm -rf /models", exit_code=0)
    assert result_of(agent, "round-guard")[0] == "fail"
    refused(agent, "round-guard: the guard denied it, and it ran", "round_close")


def test_removed_rows_are_noticed(station: Station) -> None:
    agent = station("round")
    place = agent.run / "benchmark" / "candidates.jsonl"
    place.write_bytes(b"".join(place.read_bytes().splitlines(keepends=True)[:-9]))
    assert result_of(agent, "A65")[0] == "fail"


def test_the_same_idea_twice_is_refused_and_no_idea_gains_more_than_it_touches(station: Station) -> None:
    agent = station("explained")
    idea: dict[str, Any] = {
        "title": "again",
        "repository": "sglang",
        "path": "python/norm.py",
        "covers": ["rmsnorm_kernel"],
        "expected_gain_pct": 0.5,
    }
    refused(agent, "A144: the idea stands as", "idea", **idea, symbol="rmsnorm")
    refused(agent, "is more than what it touches holds", "idea", **{**idea, "expected_gain_pct": 40}, symbol="other")


def test_a_round_with_an_open_row_of_the_coverage_does_not_close(station: Station) -> None:
    agent = station("round")
    for name in ("sglang", "vllm"):
        agent.record("profile", framework=name, traces=agent.capture(name))
    refused(agent, r"coverage: 1?\d of 1?\d rows are open", "round_close")


def test_the_reviewer_is_never_the_executor_and_every_point_has_evidence(station: Station) -> None:
    agent = station("reported")
    points = {"shape": {"result": "pass", "evidence": "looked at it"}}
    with pytest.raises(Refused, match="reviewer is the executor"):
        agent.record("review", result=agent.notes["result"], reviewer="Agent", points=points)
    with pytest.raises(Refused, match="point dtype needs a result"):
        agent.record("review", result=agent.notes["result"], reviewer="other", points=points)


def test_a_pull_request_goes_to_the_configured_fork_only(station: Station) -> None:
    from infer_forge.campaign import pull_request

    agent = station("stopped")
    made = pull_request(open_campaign(agent.run))
    assert made.extra["fork"] == "me/sglang"
    assert "## Accuracy" in made.extra["text"]
    assert "gsm8k" in made.extra["text"]
    with pytest.raises(GateRefused, match="not the configured fork"):
        pull_request(open_campaign(agent.run), "sgl-project/sglang")


def test_the_contract_waits_for_the_history(station: Station, tmp_path: Path) -> None:
    agent = station("begun")
    made = agent.tool(
        "init_campaign", target_checkout=str(agent.checkout), root=str(tmp_path), config=str(agent.config), compare=["vllm"]
    )  # fmt: skip
    kept, agent.run = agent.run, Path(made["data"]["run"])
    try:
        with pytest.raises(Refused, match="A43: no history notes"):
            agent.record("lock_contract", config=str(agent.config))
    finally:
        agent.run = kept


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"state": "open"}, "needs its full head commit"),
        ({"state": "open", "head_sha": "b" * 40, "in_source": True}, "is not in the recorded source"),
        ({"source_commit": "abc"}, "source_commit"),
        ({"decision": ""}, "decision"),
    ],
)
def test_a_history_note_that_proves_too_much_is_refused(change: dict[str, Any], match: str, station: Station) -> None:
    refused(station("begun"), match, "history", items=[history_item(**change)])


def test_nothing_is_recorded_after_the_stop(station: Station) -> None:
    refused(station("stopped"), "the campaign has stopped", "gap")


def test_a_plan_without_its_clauses_starts_no_loop(station: Station) -> None:
    agent = station("planned")
    held = open_campaign(agent.run).contract
    assert held is not None
    place = agent.tmp / "plan.md"
    place.write_text(f"# Plan\n\ncontract {held[1]}\n\nmake it fast\n\nand be done\n")
    refused(agent, "the plan fails its linter", "plan", path=str(place), mode="rlcr")
    place.write_text("make it fast\n")
    refused(agent, "does not name the contract", "plan", path=str(place), mode="goal")


def test_the_leading_rivals_history_comes_before_a_patch(station: Station) -> None:
    agent = station("round")
    assert result_of(agent, "A46")[0] == "fail"
    assert result_of(station("explained"), "A46")[0] == "pass"
