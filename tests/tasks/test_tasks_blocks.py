"""Loop blocks: one at a time, in order, with a drift breaker; a goal that is computed from evidence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import GateRefused, HumanNeeded, InputUnusable, UsageFault
from infer_forge.base.gitstore import Store
from infer_forge.tasks import blocks, define, ending, events, views
from infer_forge.tasks.evidence import add_evidence, evidence_of
from infer_forge.tasks.execute import record
from infer_forge.tasks.goal import decide_as_person, goal_met, stop_verdict
from infer_forge.tasks.predicates import Lookups
from infer_forge.tasks.prompt import text_for
from infer_forge.tasks.resuming import take_up
from infer_forge.tasks.state import Task, load
from tests.tasks.task_samples import begun, block, maker

NOTHING = Lookups(lambda _: None)
DECISION: dict[str, Any] = {"kind": "human_decision", "statement": "the canary may grow", "by": "ann"}


@pytest.fixture
def store() -> Store:
    return events.open_store()


def test_the_next_block_waits_for_the_goal_check_of_the_last(store: Store) -> None:
    task = block(store, begun(store))
    with pytest.raises(GateRefused, match="is active"):
        block(store, task)
    blocks.close_block(store, task.id, "rejected", "advanced", "it was no good")
    with pytest.raises(GateRefused, match="no goal check"):
        block(store, task)
    goal_met(store, task.id, NOTHING)
    assert block(store, task).blocks[-1].number == 2


def test_a_finished_block_does_not_finish_the_task(store: Store) -> None:
    task = block(store, begun(store))
    task = blocks.close_block(store, task.id, "confirmed", "advanced")
    assert task.status == "active"
    assert goal_met(store, task.id, NOTHING)[1] == "cannot_tell"


def test_blocks_without_progress_stop_the_task_for_a_person(store: Store) -> None:
    task = begun(store, budgets={"drift_limit": 2})
    for progress in ("stalled", "regressed"):
        block(store, task)
        blocks.close_block(store, task.id, "rejected", progress)
        goal_met(store, task.id, NOTHING)
    task = load(store, task.id)
    assert (task.status, task.drift) == ("blocked", 2)
    with pytest.raises(HumanNeeded):
        take_up(store, task.id)
    task, _ = take_up(store, task.id, person="ann", note="try the other kernel")
    assert (task.status, task.drift) == ("active", 0)


def test_a_used_up_budget_is_a_state_and_no_success(store: Store) -> None:
    task = block(store, begun(store, budgets={"blocks": 1}))
    task = blocks.close_block(store, task.id, "confirmed", "advanced")
    assert task.status == "budget_exhausted"
    assert stop_verdict(task, [])[0] == 0
    with pytest.raises(HumanNeeded):
        define.resume(store, task.id)


def test_routing_keeps_proposal_choice_and_reason_and_never_lets_one_review_oneself() -> None:
    route = blocks.routing("high", 10, tier="mid", reason="the strongest is not to be had", fallback="mid")
    assert route["proposal"] == {"tier": "strongest", "topology": "single"}
    assert (route["tier"], route["fallback"]) == ("mid", "mid")
    assert blocks.propose_routing("low", 10_000_000) == {"tier": "lower", "topology": "multi"}
    with pytest.raises(GateRefused):
        blocks.routing("low", 1, executor="a", reviewer="a")
    with pytest.raises(UsageFault):
        blocks.routing("low", 1, tier="best")


def test_the_size_of_inputs_counts_folders_and_refuses_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_bytes(b"x" * 7)
    (tmp_path / "b").write_bytes(b"y" * 5)
    assert blocks.input_bytes([tmp_path / "d", tmp_path / "b"]) == 12
    with pytest.raises(InputUnusable):
        blocks.input_bytes([tmp_path / "none"])


_OPEN = """
import sys
from infer_forge.tasks import blocks, events
from infer_forge.base.errors import GateRefused
try:
    blocks.open_block(events.open_store(), sys.argv[1], "a target", "an exit", blocks.routing("low", 1)); print("won")
except GateRefused: print("refused")
"""


def test_of_several_blocks_opened_at_once_one_is_open(store: Store) -> None:
    task = begun(store)
    racers = [
        subprocess.Popen([sys.executable, "-c", _OPEN, task.id], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    assert sorted(r.communicate()[0].strip() for r in racers) == ["refused", "refused", "refused", "won"]
    assert len(load(store, task.id).blocks) == 1


def test_the_goal_comes_from_evidence_of_enough_trust(store: Store, tmp_path: Path) -> None:
    task = begun(store)
    claimed = tmp_path / "claimed.json"
    claimed.write_text('{"verdict": "ok"}')
    add_evidence(store, task.id, evidence_of("x", claimed))
    _, verdict, outcomes = goal_met(store, task.id, NOTHING)
    assert (verdict, [o.result for o in outcomes]) == ("cannot_tell", ["unknown", "unknown"])
    record(store, task.id, maker(tmp_path), label="make", evidence=[("x", tmp_path / "ev.json")])
    assert goal_met(store, task.id, NOTHING)[1] == "met"
    record(store, task.id, maker(tmp_path, "bad"), label="make", evidence=[("x", tmp_path / "ev.json")], again=True)
    assert goal_met(store, task.id, NOTHING)[1] == "continue"


def test_only_a_person_named_decides_what_is_a_persons(store: Store, tmp_path: Path) -> None:
    task = begun(store, DECISION)
    _, _, outcomes = goal_met(store, task.id, NOTHING)
    assert stop_verdict(load(store, task.id), outcomes)[0] == 0
    with pytest.raises(GateRefused, match="leaves that to ann"):
        decide_as_person(store, task.id, DECISION["statement"], "yes", "bob")
    told = {"statement": DECISION["statement"], "answer": "yes", "person": "bob"}
    events.append(store, task.id, lambda _: ("decided", told))
    assert goal_met(store, task.id, NOTHING)[1] == "cannot_tell"
    assert [r[1] for r in views.inbox_report(store).tables["inbox"].rows] == ["gate"]
    decide_as_person(store, task.id, DECISION["statement"], "yes", "Ann@desk")
    assert goal_met(store, task.id, NOTHING)[1] == "met"
    with pytest.raises(GateRefused, match="nobody asks"):
        decide_as_person(store, task.id, "something else", "yes", "ann")


def test_may_stop_must_go_on_and_cannot_tell(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = block(store, begun(store))
    _, _, outcomes = goal_met(store, task.id, NOTHING, note=False)
    assert stop_verdict(task, outcomes)[0] == 4
    events.append(
        store, task.id, lambda _: ("intent", {"id": "x-1", "label": "far", "argv": ["true"], "node": "another"})
    )
    assert stop_verdict(load(store, task.id), outcomes)[0] == 3


def test_a_person_adds_to_a_used_up_budget_and_the_lock_stays(store: Store) -> None:
    task = block(store, begun(store, budgets={"blocks": 1}))
    blocks.close_block(store, task.id, "confirmed", "advanced")
    goal_met(store, task.id, NOTHING)
    with pytest.raises(GateRefused, match="is used up"):
        take_up(store, task.id, person="ann")
    task, _ = take_up(store, task.id, person="ann", more_blocks=2, more_minutes=60)
    assert "3 loop blocks (1 used), 1500 minutes" in text_for(task, "claude")
    assert "blocks 1 of 3, without progress" in "\n".join(views.status_report(task).summary)
    assert block(store, task).blocks[-1].number == 2
    assert define.lock_hash(task.typed) == task.lock_sha


def test_what_met_the_goal_with_the_last_block_is_delivered_without_a_person(store: Store, tmp_path: Path) -> None:
    task = block(store, begun(store, budgets={"blocks": 1}))
    record(store, task.id, maker(tmp_path), label="make", evidence=[("x", tmp_path / "ev.json")])
    task = blocks.close_block(store, task.id, "confirmed", "advanced")
    assert (task.status, views.next_step(task)) == ("budget_exhausted", f"infer-forge task goal-met {task.id}")
    task, verdict, outcomes = goal_met(store, task.id, NOTHING)
    assert (verdict, stop_verdict(task, outcomes)[0]) == ("met", 4)
    assert views.next_step(task) == f"infer-forge task deliver {task.id} --summary TEXT"
    assert ending.deliver(store, task.id, "one file with a verdict").status == "delivered"


def test_what_did_not_meet_the_goal_with_the_last_block_waits_for_a_person(store: Store, tmp_path: Path) -> None:
    task = block(store, begun(store, budgets={"blocks": 1}))
    record(store, task.id, maker(tmp_path, "bad"), label="make", evidence=[("x", tmp_path / "ev.json")])
    blocks.close_block(store, task.id, "rejected", "advanced")
    task, _, outcomes = goal_met(store, task.id, NOTHING)
    assert stop_verdict(task, outcomes)[0] == 0
    assert views.next_step(task) == f"infer-forge task resume {task.id}"
    with pytest.raises(GateRefused, match="no deliverable yet"):
        ending.deliver(store, task.id, "one file with a verdict")


def test_a_block_over_the_budget_makes_the_task_wait_for_a_person(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = begun(store)

    def used_up(_: Task) -> str:
        return "the budget of 1440 minutes is used up"

    monkeypatch.setattr(blocks, "exhausted", used_up)
    with pytest.raises(GateRefused, match="1440 minutes"):
        block(store, task)
    assert load(store, task.id).status == "budget_exhausted"


def test_another_command_under_the_same_label_proves_nothing(store: Store, tmp_path: Path) -> None:
    pinned = {"kind": "exit_is", "selector": {"label": "tests", "command": "sh -c true"}, "value": 0}
    task = begun(store, pinned)
    record(store, task.id, ["true"], label="tests")
    assert goal_met(store, task.id, NOTHING)[1] == "cannot_tell"
    record(store, task.id, ["sh", "-c", "true"], label="tests")
    assert goal_met(store, task.id, NOTHING)[1] == "met"


def test_a_pinned_command_takes_further_words_only_where_it_says_so(store: Store) -> None:
    exact = {"kind": "exit_is", "selector": {"label": "tests", "command": "echo check"}, "value": 0}
    longer = {"kind": "exit_is", "selector": {"label": "tests", "command": "echo check *"}, "value": 0}
    task = begun(store, exact, longer)
    record(store, task.id, ["echo", "checked"], label="tests")
    record(store, task.id, ["echo", "check", "--dry-run"], label="tests")
    assert [o.result for o in goal_met(store, task.id, NOTHING)[2]] == ["unknown", "pass"]
    record(store, task.id, ["echo", "check"], label="tests")
    assert [o.result for o in goal_met(store, task.id, NOTHING)[2]] == ["pass", "pass"]


def test_a_figure_handed_in_without_its_place_is_no_evidence(store: Store, tmp_path: Path) -> None:
    from tests.tasks.task_samples import POINT

    figure: dict[str, Any] = {
        "kind": "metric_compare",
        "selector": {"evidence": "bench_row"},
        "field": "ttft_ms",
        "operator": "<=",
        "value": 200,
        "unit": "ms",
    }
    task = begun(store, figure, contract={"deployment_point": POINT})
    (tmp_path / "bare.json").write_text('{"ttft_ms": 100}')
    add_evidence(store, task.id, evidence_of("bench_row", tmp_path / "bare.json"))
    _, _, outcomes = goal_met(store, task.id, NOTHING)
    assert "neither deployment point" in outcomes[0].why
    from infer_forge.base import jsonio

    (tmp_path / "full.json").write_bytes(jsonio.dumps({"ttft_ms": 100, "deployment_point": POINT}))
    add_evidence(store, task.id, evidence_of("bench_row", tmp_path / "full.json"))
    assert goal_met(store, task.id, NOTHING)[1] == "met"
