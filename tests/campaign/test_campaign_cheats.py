"""Ways to `delivered` without a gain: hidden changes, borrowed evidence, chosen launches, rewritten ledgers, other doors."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from infer_forge.base.errors import ForgeError, GateRefused
from infer_forge.base.gitstore import Changes
from infer_forge.base.ledger import Ledger
from infer_forge.bench import prepare
from infer_forge.bench.ledger_rows import RowStore
from infer_forge.campaign import belonging, book, coverage, mechanism, open_campaign
from infer_forge.campaign.measure import measure
from infer_forge.tasks import open_store
from tests.campaign.campaign_agent import FAST, SLOW, Agent, Refused, git
from tests.campaign.conftest import Station
from tests.campaign.test_campaign_sabotage import refused, result_of

FASTER = {"itl_ms": 0.1}


def write(agent: Agent, speed: dict[str, float]) -> None:
    """Another source, not committed."""
    (agent.checkout / "speed.json").write_text(json.dumps(speed))


def accepted(agent: Agent, match: str, **more: Any) -> None:
    """Accepting the attempt is refused with these words."""
    refused(agent, match, "result", attempt=agent.notes["attempt"], outcome="accepted", reason="it is fast", **more)


# ------------------------------------------------------------------------------------------- a commit that is not measured


def assumed(agent: Agent) -> None:
    git(agent.checkout, "update-index", "--assume-unchanged", "speed.json")
    write(agent, FASTER)


def skipped(agent: Agent) -> None:
    git(agent.checkout, "update-index", "--skip-worktree", "speed.json")
    write(agent, FASTER)


def times_put_back(agent: Agent) -> None:
    place = agent.checkout / "speed.json"
    os.utime(place, (1.7e9, 1.7e9))
    git(agent.checkout, "config", "core.trustctime", "false")
    git(agent.checkout, "config", "core.checkStat", "minimal")
    git(agent.checkout, "update-index", "--refresh")
    write(agent, FASTER)  # as many bytes as before
    os.utime(place, (1.7e9, 1.7e9))


def filtered(agent: Agent) -> None:
    (agent.checkout / ".git" / "info" / "attributes").write_text("speed.json filter=quiet\n")
    git(agent.checkout, "config", "filter.quiet.clean", f"git -C {agent.checkout} show HEAD:speed.json")
    write(agent, FASTER)


def elsewhere(agent: Agent) -> None:
    other = agent.tmp / "clean"
    git(agent.checkout, "worktree", "add", "-q", "--detach", str(other), "HEAD")
    git(agent.checkout, "config", "core.worktree", str(other))
    write(agent, FASTER)


def replaced(agent: Agent) -> None:
    head = git(agent.checkout, "rev-parse", "HEAD")
    agent.commit(FASTER)
    other = git(agent.checkout, "rev-parse", "HEAD")
    git(agent.checkout, "reset", "-q", "--hard", head)
    git(agent.checkout, "replace", head, other)
    git(agent.checkout, "reset", "-q", "--hard")


@pytest.mark.parametrize("hide", [assumed, skipped, times_put_back, filtered, elsewhere, replaced])
def test_a_change_that_git_was_told_not_to_see_is_seen(hide: Callable[[Agent], None], station: Station) -> None:
    agent = station("patched")
    hide(agent)
    assert git(agent.checkout, "status", "--porcelain", "--untracked-files=no") == ""
    with pytest.raises(Refused, match="A91: the checkout has uncommitted changes"):
        agent.measure()


def test_variables_that_point_git_to_another_repository_are_left_out(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = station("patched")
    write(agent, FASTER)
    monkeypatch.setenv("GIT_INDEX_FILE", str(agent.tmp / "index"))
    with pytest.raises(GateRefused, match=r"A91: .*speed\.json"):
        measure(open_campaign(agent.run), helps=False)


@pytest.mark.parametrize("committed", [True, False])
def test_a_checkout_that_changes_while_it_is_measured_counts_for_nothing(committed: bool, station: Station) -> None:
    agent = station("patched")

    def told(done: int, _: int, __: str) -> None:
        if done == 1:
            write(agent, FASTER)
            if committed:
                git(agent.checkout, "commit", "-q", "-am", "more")

    with pytest.raises(GateRefused, match="A135: .*while it was measured" if committed else "A91"):
        measure(open_campaign(agent.run), helps=False, told=told)
    assert not open_campaign(agent.run).of("measurement")


# --------------------------------------------------------------------------------------------------- chosen measurements


def test_a_measurement_of_another_state_is_never_that_of_the_patch(station: Station) -> None:
    agent = station("validated")
    git(agent.checkout, "checkout", "-q", "--detach", f"{agent.notes['head']}~1")
    agent.commit(FASTER)
    other = agent.measure("--label", "off")
    agent.record("gap", measurement=other)
    agent.record("accuracy", attempt=agent.notes["attempt"], file=str(agent.lm_eval(0.84)))
    agent.soak(agent.notes["attempt"])
    accepted(agent, "A135: .* is no measurement of this patch", measurement=other)


def test_the_same_files_are_not_launched_until_they_look_better(station: Station) -> None:
    agent = station("validated")
    with pytest.raises(Refused, match="A103: .*until it looks better"):
        agent.measure()
    git(agent.checkout, "commit", "-q", "--allow-empty", "-m", "another name for it")
    with pytest.raises(Refused, match="A103: .*until it looks better"):
        agent.measure()


def test_what_was_launched_before_the_patch_or_of_other_files_shows_no_patch_switched_off(station: Station) -> None:
    agent = station("explained")
    early = agent.measure("--label", "off")
    attempt = agent.attempt(agent.notes["idea"])
    agent.commit(FAST)
    agent.measure()
    traces = agent.capture("sglang")
    refused(agent, "it is older than the measurement", "mechanism", attempt=attempt, files=traces, off=early)
    agent.commit({**SLOW, "ttft_ms": 1.0})
    other = agent.measure("--label", "off")
    refused(agent, "does not hold the files of the base", "mechanism", attempt=attempt, files=traces, off=other)


@pytest.mark.parametrize("what", ["variables", "command"])
def test_sides_are_launched_as_at_the_baseline(what: str, station: Station, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = station("patched")
    if what == "variables":
        monkeypatch.setenv("SGLANG_ENABLE_SOMETHING", "1")
    else:
        raw = yaml.safe_load(agent.config.read_text())
        raw["engines"][0]["shape"] = 1
        agent.config.write_text(yaml.safe_dump(raw))  # pyright: ignore[reportUnknownMemberType]
    with pytest.raises(Refused, match=f"A79: sglang would be launched with another {what} than at the baseline"):
        agent.measure()


def test_a_rival_in_another_environment_is_not_that_of_the_baseline(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = station("patched")
    real = prepare.environment

    def slowed(*args: Any, **more: Any) -> Any:
        seen = real(*args, **more)
        return dataclasses.replace(seen, digest="0" * 64) if seen.framework == "vllm" else seen

    monkeypatch.setattr(prepare, "environment", slowed)
    with pytest.raises(GateRefused, match="A55: the environment of vllm is 000000000000, at the baseline it was"):
        measure(open_campaign(agent.run), helps=False)


@pytest.mark.parametrize("told", ["a" * 40, "HEAD+dirty"])
def test_an_engine_that_tells_another_source_is_not_the_patch(
    told: str, station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = station("patched")
    commit = told.replace("HEAD", agent.notes["head"])
    real = prepare.environment

    def elsewhere(*args: Any, **more: Any) -> Any:
        seen = real(*args, **more)
        return dataclasses.replace(seen, facts={**seen.facts, "commits": {"sglang": commit}})

    monkeypatch.setattr(prepare, "environment", elsewhere)
    with pytest.raises(GateRefused, match="A135: the installed sglang is not the checkout"):
        measure(open_campaign(agent.run), helps=False)


def test_a_baseline_of_changed_files_is_not_that_of_its_commit(station: Station) -> None:
    agent = station("searched")
    place = agent.run / "benchmark" / "candidates.jsonl"
    entries = Ledger(place).entries()
    place.unlink()
    head = git(agent.checkout, "rev-parse", "HEAD")
    for entry in entries:
        mine = entry.kind == "row" and entry.body["framework"] == "sglang" and entry.body["purpose"] == "decision"
        Ledger(place).append(entry.kind, {**entry.body, "framework_commit": f"{head}+dirty"} if mine else entry.body)
    refused(agent, "B16: .*its source was changed from", "lock_baseline")


def test_a_record_of_another_campaign_is_none_of_this(station: Station) -> None:
    agent = station("validated")
    foreign = open_campaign(agent.run).of("measurement")[0]
    agent = station("patched")
    refused(agent, "there is no measurement", "gap", measurement=foreign.id)
    accepted(agent, "there is no measurement", measurement=foreign.id)


# ---------------------------------------------------------------------------------------------------- borrowed evidence


def test_an_accuracy_file_speaks_for_one_state_of_one_model(station: Station) -> None:
    agent = station("validated")
    attempt = agent.notes["attempt"]
    base = open_campaign(agent.run).of("accuracy")[0]["path"]
    os.utime(base)
    refused(agent, "A87: this file was recorded as accuracy", "accuracy", attempt=attempt, file=base)
    old = agent.lm_eval(0.84)
    os.utime(old, (1.7e9, 1.7e9))
    refused(agent, "A87: it was written before attempt", "accuracy", attempt=attempt, file=str(old))
    other = agent.lm_eval(0.84, model_name="org/Larger-70B")
    refused(agent, "C41: the result is of the model org/Larger-70B", "accuracy", attempt=attempt, file=str(other))
    told = agent.lm_eval(0.84, model_name=None, config={"model_args": "pretrained=org/Larger-70B,dtype=auto"})
    refused(agent, "C41: the result is of the model org/Larger-70B", "accuracy", attempt=attempt, file=str(told))
    (agent.checkout / "speed.json").write_text("{}")
    refused(agent, "A91", "accuracy", attempt=attempt, file=str(agent.lm_eval(0.84)))


def test_before_the_winners_are_locked_the_served_name_is_the_models_too(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = station("searched")
    held, file = open_campaign(agent.run), agent.lm_eval(0.84, model_name="eight")
    with pytest.raises(GateRefused, match="C41: the result is of the model eight"):
        belonging.require_model(held, file)
    rows = RowStore(held.layout.bench.rows).rows()[:1]
    rows[0].server_command = f"{rows[0].server_command} --served-model-name eight"
    monkeypatch.setattr(RowStore, "rows", lambda *_, **__: rows)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    belonging.require_model(held, file)


def test_a_change_whose_author_says_that_numerics_stay_needs_its_accuracy_too(station: Station) -> None:
    agent = station("explained")
    words: dict[str, Any] = {"title": "fused norm", "idea": agent.notes["idea"], "mechanism": "rmsnorm_kernel"}
    agent.notes = {**agent.notes, "attempt": agent.record("attempt", alters_numerics=False, **words)}
    agent.commit(FAST)
    agent.record("gap", measurement=agent.measure())
    accepted(agent, "accuracy: no gsm8k of commit")


def test_one_sides_accuracy_is_not_another_sides(station: Station) -> None:
    agent = station("searched")
    mine = open_campaign(agent.run).of("accuracy")[0]
    other = "vllm" if mine["framework"] == "sglang" else "sglang"
    refused(agent, "A87: this file was recorded as accuracy", "accuracy", framework=other, file=mine["path"])


def test_a_soak_is_of_the_attempt_and_no_longer_than_it(station: Station) -> None:
    agent = station("validated")
    attempt = agent.notes["attempt"]
    with pytest.raises(Refused, match="C65: a soak of 600 minutes, and attempt .* began .* minutes ago"):
        agent.soak(attempt, minutes=600)
    place = agent.tmp / "old.json"
    place.write_text(json.dumps({"minutes": 0.01, "repeats": 2, "errors": 0, "restarts": 0}))
    os.utime(place, (1.7e9, 1.7e9))
    refused(agent, "A87: it was written before attempt", "soak", attempt=attempt, file=str(place))


def test_a_trace_from_before_the_patch_shows_no_mechanism(station: Station) -> None:
    agent = station("validated")
    trace = str(open_campaign(agent.run).of("profile")[0]["traces"][0]["path"])
    attempt = agent.notes["attempt"]
    refused(agent, "A87: it was written before attempt", "mechanism", attempt=attempt, files=[trace])
    os.utime(trace)
    refused(agent, "A87: this file was recorded as profile", "mechanism", attempt=attempt, files=[trace])


@pytest.mark.parametrize("pattern", [".", ".*", "", "e", "kernel", "|rmsnorm", "[a-z]{3}", r"\d+", "INFO"])
def test_a_mechanism_that_any_trace_or_log_shows_is_none(pattern: str) -> None:
    with pytest.raises(ForgeError, match="is seen in any trace or log"):
        mechanism.require_telling(pattern)


def test_a_pattern_that_matches_everything_is_refused_before_and_after_the_change(station: Station) -> None:
    agent = station("explained")
    idea = agent.notes["idea"]
    refused(agent, "is seen in any trace or log", "attempt", title="fused norm", idea=idea, mechanism="a.*|INFO")
    agent = station("validated")
    log = agent.tmp / "server.log"
    log.write_text("nothing of it\n")
    given: dict[str, Any] = {"attempt": agent.notes["attempt"], "files": [str(log)]}
    refused(agent, "is seen in any trace or log", "mechanism", pattern="n.*|INFO", **given)
    mechanism.require_telling("rmsnorm_kernel")


# -------------------------------------------------------------------------------------------------------- edited files


def test_a_triage_whose_kernels_were_cut_off_is_no_coverage(station: Station) -> None:
    agent = station("explained")
    held = open_campaign(agent.run)
    profile = coverage.slow_profile(held)
    assert profile is not None
    place = coverage.triage_file(held, profile)
    report: dict[str, Any] = json.loads(place.read_text())
    report["tables"]["kernel"]["rows"] = report["tables"]["kernel"]["rows"][:1]
    place.write_text(json.dumps(report))
    assert result_of(agent, "coverage") == ("fail", f"was edited after it was recorded as profile {profile.id}")
    refused(agent, "was edited after it was recorded", "round_close")


@pytest.mark.parametrize(
    "name", ["benchmark/gap-*.json", "patches/*.patch", "profiles/*.json", "analysis/compare-*.json"]
)
def test_a_file_of_the_run_that_was_edited_or_taken_away_ends_no_campaign(name: str, station: Station) -> None:
    agent = station("reported")
    place = next(iter(sorted(agent.run.glob(name))))
    text = place.read_bytes()
    for change in (lambda: place.write_bytes(text + b"\n"), place.unlink):
        change()
        result, seen = result_of(agent, "numbers")
        assert result == "fail"
        assert f"{place.relative_to(agent.run)}: not the file that was recorded" in seen
        refused(agent, "numbers: .*not the file that was recorded", "stop", code="A151")


def test_a_ledger_that_was_written_anew_whole_has_another_head_than_its_anchor(station: Station) -> None:
    agent = station("round")
    place = agent.run / "humanize" / "ledger.jsonl"
    entries = Ledger(place).entries()
    place.unlink()
    for entry in entries:
        body = json.loads(json.dumps(entry.body).replace('"verdict": "behind"', '"verdict": "ahead"'))
        Ledger(place).append(entry.kind, body)
    assert Ledger(place).verify().ok
    assert result_of(agent, "chain")[0] == "fail"
    with pytest.raises(Refused, match="recorded entries are gone"):
        agent.record("blocker", what="a b c", tried=["x"], needs="a person")


def test_a_ledger_and_anchor_written_anew_do_not_know_the_rounds_of_the_task(station: Station) -> None:
    agent = station("reported")
    place = agent.run / "humanize" / "ledger.jsonl"
    entries = Ledger(place).entries()
    place.unlink()
    for entry in entries:
        Ledger(place).append(entry.kind, entry.body)
    held = open_campaign(agent.run)
    with open_store() as store:
        store.update(f"{book.ANCHORS}{held.task_id}", lambda _: Changes(put={"head.json": b"{}"}), "anew")
        head = json.dumps({"entries": len(held.records), "head": held.head}).encode()
        store.update(f"{book.ANCHORS}{held.task_id}", lambda _: Changes(put={"head.json": head}), "anew")
    assert result_of(agent, "chain")[0] == "pass"
    assert result_of(agent, "rounds") == ("fail", "the ledger of the task's block 1 is not this one")
    with pytest.raises(Refused):
        agent.record("stop", code="A151")


# --------------------------------------------------------------------------------------------------------- other doors


def test_the_task_is_not_delivered_by_a_file_that_says_so(station: Station) -> None:
    agent = station("round")
    agent.record("round_close")
    task = open_campaign(agent.run).task_id
    fake = agent.tmp / "stop-check.json"
    script = f"import json; open({str(fake)!r}, 'w').write(json.dumps({{'code': 'A151', 'verdict': 'may_stop'}}))"
    words = ["--label", "campaign stop", "--evidence", f"campaign={fake}", "--", sys.executable, "-c", script]
    agent.forge("task", "record", task, *words)
    told = subprocess.run(
        [sys.executable, "-m", "infer_forge.cli.main", "task", "deliver", task, "--summary", "the gap is closed now"],
        capture_output=True, text=True, cwd=agent.tmp,
    )  # fmt: skip
    assert told.returncode == 4, told
    assert "no evidence campaign" in told.stderr
    assert open_campaign(agent.run).task().status != "delivered"


def test_a_blocker_of_words_alone_is_no_external_limit(station: Station) -> None:
    agent = station("round")
    words: dict[str, Any] = {"what": "it is external", "tried": ["thinking"], "needs": "other hardware"}
    bare = agent.record("blocker", **words)
    with pytest.raises(Refused, match="A152 is not met: .*words prove nothing"):
        agent.record("stop", code="A152", evidence=[bare])
    note = open_campaign(agent.run).of("history")[0].id
    refused(agent, "A49", "blocker", evidence=[note], **words)
    log = agent.tmp / "start.log"
    log.write_text("no kernel image is available for execution on the device\n")
    shown = agent.record("blocker", evidence=[str(log)], **words)
    from infer_forge.campaign.stopping import judge

    assert judge(open_campaign(agent.run), "A152", [shown])[0] == "pass"


def test_a_wrong_epoch_opens_no_round(station: Station) -> None:
    agent = station("planned")
    claim = {"claim_id": agent.claim["claim_id"], "query": "decode attention"}
    refused(agent, "round-claim", "round_open", epoch=int(agent.claim["epoch"]) + 1, **claim)


def test_a_final_report_of_an_earlier_verdict_ends_nothing(station: Station) -> None:
    agent = station("reported")
    held = open_campaign(agent.run)
    best = held.last("result")
    assert best is not None
    agent.record("gap", measurement=str(best["measurement"]))
    refused(agent, "no final report of this code and verdict", "stop", code="A151")
