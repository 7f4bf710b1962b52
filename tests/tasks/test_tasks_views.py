"""Views: what is in flight and at the peak, what waits for a person, what the journal surfaces, what wakes."""

from __future__ import annotations

import datetime
import shlex
from typing import Any

import pytest
from click.testing import CliRunner

from infer_forge.base import jsonio
from infer_forge.base.errors import GateRefused, HumanNeeded, InputUnusable
from infer_forge.base.gitstore import Store
from infer_forge.cli.main import cli
from infer_forge.journal import Record, add
from infer_forge.journal import open_store as open_journal
from infer_forge.tasks import blocks, define, ending, events, proposals, verbs, views, waking
from infer_forge.tasks.execute import record
from infer_forge.tasks.goal import decide_as_person, goal_met, review_statement, stop_verdict
from infer_forge.tasks.predicates import Lookups
from tests.tasks.task_samples import begun, block, definition

NOTHING = Lookups(lambda _: None)
START = datetime.datetime(2026, 4, 1, tzinfo=datetime.timezone.utc)
TODAY = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=6)


@pytest.fixture
def store() -> Store:
    return events.open_store()


class Hours:
    """The clock of events, moved by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, start: datetime.datetime = START) -> None:
        self.hour = 0.0
        monkeypatch.setattr(events, "now", lambda: (start + datetime.timedelta(hours=self.hour)).isoformat())


def test_in_flight_peak_and_lifetimes_come_from_the_records(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = TODAY.replace(hour=0, minute=0, second=0, microsecond=0) - datetime.timedelta(days=2)
    clock = Hours(monkeypatch, begin)
    spans = {"a": (0, 10), "b": (4, 8), "c": (6, 30), "d": (12, None)}
    marks = sorted([(at, 0, n) for n, (at, _) in spans.items()] + [(to, 1, n) for n, (_, to) in spans.items() if to])
    for hour, end, name in marks:
        clock.hour = hour
        if end:
            ending.handoff(store, f"t-{name}", "half of it", "take the other half")
        else:
            define.new(store, define.definition_of(definition()), f"t-{name}")
    report = views.inflight_report(store)
    assert (report.extra["in_flight"], report.extra["peak"]) == (1, 3)
    assert report.extra["peak_at"] == (begin + datetime.timedelta(hours=6)).isoformat()
    assert report.tables["types"].rows[0][:4] == ("code", 4, 3, 1)
    assert report.tables["types"].rows[0][4] == pytest.approx(10.0)
    assert report.tables["days"].rows[0] == (begin.date().isoformat(), 4, 3)


def test_the_inbox_is_oldest_first_with_one_command_each(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Hours(monkeypatch, TODAY)
    decision: dict[str, Any] = {"kind": "human_decision", "statement": "it may grow"}
    gate = begun(store, decision)
    reviewed = begun(store)
    clock.hour = 1
    route = blocks.routing("low", 1, executor="one", reviewer="two")
    blocks.open_block(store, reviewed.id, "make it so", "it is so", route)
    blocks.close_block(store, reviewed.id, "confirmed", "advanced")
    clock.hour = 2
    goal_met(store, gate.id, NOTHING)
    clock.hour = 3
    proposals.wake(store, "runtime", "sglang 0.5.10 -> 0.5.11")
    clock.hour = 4
    drifting = begun(store, budgets={"drift_limit": 1})
    block(store, drifting)
    blocks.close_block(store, drifting.id, "rejected", "stalled")
    rows = views.inbox_report(store).tables["inbox"].rows
    assert [r[1] for r in rows] == ["review", "gate", "proposal", "drift stop"]
    assert all(str(r[-1]).startswith("infer-forge ") for r in rows)
    decide_as_person(store, reviewed.id, review_statement(1), "yes", "two")
    decide_as_person(store, gate.id, "it may grow", "no", "ann")
    assert [r[1] for r in views.inbox_report(store).tables["inbox"].rows] == ["proposal", "drift stop"]


def test_a_command_that_the_guard_asks_about_waits_in_the_inbox_until_it_ran(store: Store) -> None:
    task = begun(store)
    words = ["sh", "-c", "$UNKNOWN_PROGRAM x"]
    with pytest.raises(HumanNeeded):
        record(store, task.id, words, label="odd")
    row = views.inbox_report(store).tables["inbox"].rows[0]
    assert row[1] == "grant"
    assert str(row[-1]).startswith("infer-forge guard grant --action ")
    ran = {"id": "x-1", "label": "odd", "argv": words, "node": "n", "folder": "f"}
    events.append(store, task.id, lambda _: ("intent", ran))
    assert not views.inbox_report(store).tables["inbox"].rows


def test_a_decision_inside_all_of_waits_in_the_inbox_and_lets_an_agent_stop(store: Store) -> None:
    exits: dict[str, Any] = {"kind": "exit_is", "selector": {"label": "true"}, "value": 0}
    asked: dict[str, Any] = {"kind": "human_decision", "statement": "it may grow", "by": "ann"}
    either: dict[str, Any] = {"kind": "any_of", "of": [{**exits, "selector": {"label": "other"}}, asked]}
    task = begun(store, {"kind": "all_of", "of": [exits, asked]})
    open_to_both = begun(store, either)
    _, _, outcomes = goal_met(store, task.id, NOTHING)
    assert stop_verdict(views.load(store, task.id), outcomes)[0] == 4
    record(store, task.id, ["true"])
    task, _, outcomes = goal_met(store, task.id, NOTHING)
    assert stop_verdict(task, outcomes)[0] == 0
    goal_met(store, open_to_both.id, NOTHING)
    rows = views.inbox_report(store).tables["inbox"].rows
    assert [(r[1], r[2], r[3]) for r in rows] == [("gate", task.id, "it may grow")]
    with pytest.raises(GateRefused, match="leaves that to ann"):
        decide_as_person(store, task.id, "it may grow", "yes", "bob")
    decide_as_person(store, task.id, "it may grow", "yes", "ann")
    assert goal_met(store, task.id, NOTHING)[1] == "met"
    assert not views.inbox_report(store).tables["inbox"].rows


def test_a_definition_whose_name_is_too_long_for_a_file_is_told_as_none() -> None:
    with pytest.raises(InputUnusable, match="is no file"):
        define.read_definition("make it fast " * 40)


def test_nobody_reviews_the_block_that_he_executed(store: Store) -> None:
    task = begun(store)
    route = blocks.routing("low", 1, executor="one", reviewer="two")
    blocks.open_block(store, task.id, "make it so", "it is so", route)
    blocks.close_block(store, task.id, "confirmed", "advanced")
    with pytest.raises(GateRefused, match="somebody else reviews it"):
        decide_as_person(store, task.id, review_statement(1), "yes", "one")
    with pytest.raises(GateRefused, match="somebody else reviews it"):
        decide_as_person(store, task.id, review_statement(1), "yes", "one", stand_in="two is away")


def _reviewed(store: Store, **more: Any) -> str:
    """A task whose goal is met and whose one block `two` is to review."""
    task = begun(store, {"kind": "exit_is", "selector": {"label": "true"}, "value": 0}, **more)
    route = blocks.routing("low", 1, executor="one", reviewer="two")
    blocks.open_block(store, task.id, "make it so", "it is so", route)
    record(store, task.id, ["true"])
    blocks.close_block(store, task.id, "confirmed", "advanced")
    return task.id


def test_a_review_is_answered_under_its_reviewers_name_or_by_a_stand_in_who_says_why(store: Store) -> None:
    task = _reviewed(store)
    row = views.inbox_report(store).tables["inbox"].rows[0]
    assert str(row[-1]).endswith("--answer YES_OR_NO --person two")
    with pytest.raises(GateRefused, match="the review of block 1 is two's, not three's") as refused:
        decide_as_person(store, task, review_statement(1), "yes", "three")
    assert "--stand-in WHY" in str(refused.value.next_step)
    decide_as_person(store, task, review_statement(1), "yes", "three", stand_in="two is away")
    table = views.status_report(views.load(store, task)).tables["decisions"].dicts()
    assert [(r["person"], r["account"], r["stand_in"]) for r in table] == [("three", events.who(), "two is away")]
    assert not views.inbox_report(store).tables["inbox"].rows
    other = _reviewed(store)
    assert decide_as_person(store, other, review_statement(1), "yes", " Two@desk").decisions


def test_after_a_no_an_agent_without_budget_may_stop(store: Store) -> None:
    task = _reviewed(store, budgets={"blocks": 1})
    decide_as_person(store, task, review_statement(1), "no", "two")
    now, _, outcomes = goal_met(store, task, NOTHING)
    with pytest.raises(GateRefused, match="budget_exhausted"):
        block(store, now)
    code, said = stop_verdict(now, outcomes)
    assert code == 0
    assert "waits for a person: the budget of 1 loop blocks is used up" in said


def test_a_review_that_says_no_holds_the_deliverable_until_it_is_answered_again(store: Store) -> None:
    task = _reviewed(store)
    decide_as_person(store, task, review_statement(1), "no", "two")
    with pytest.raises(GateRefused, match="two said no to block 1"):
        ending.deliver(store, task, "it was made so")
    now, _, outcomes = goal_met(store, task, NOTHING)
    assert stop_verdict(now, outcomes) == (4, "the review of block 1 by two said no: open a block")
    assert views.next_step(now) == f"infer-forge task block open {task} --sub-target TEXT --exit TEXT"
    assert not views.inbox_report(store).tables["inbox"].rows
    block(store, now)
    blocks.close_block(store, task, "confirmed", "advanced")
    now, _, outcomes = goal_met(store, task, NOTHING)
    assert stop_verdict(now, outcomes)[0] == 0
    row = views.inbox_report(store).tables["inbox"].rows[0]
    assert (row[1], row[-1]) == ("review", views.next_step(now))
    decide_as_person(store, task, review_statement(1), "yes", "two")
    with pytest.raises(GateRefused, match="nobody asks"):
        decide_as_person(store, task, review_statement(1), "no", "two")
    ended = ending.deliver(store, task, "it was made so").ending
    assert ended is not None
    assert [(r["reviewer"], r["answer"]) for r in ended["content"]["reviews"]] == [("two", "yes")]


def test_an_end_before_its_review_says_so(store: Store) -> None:
    report = verbs.deliver(_reviewed(store), "it was made so")
    assert [f.code for f in report.findings] == ["REVIEW_OPEN"]


def test_the_command_that_answers_a_gate_is_safe_to_paste(store: Store) -> None:
    statement = "it's worth $HOME; go on | stop"
    task = begun(store, {"kind": "human_decision", "statement": statement})
    goal_met(store, task.id, NOTHING)
    command = str(views.inbox_report(store).tables["inbox"].rows[0][-1])
    assert shlex.split(command)[-4:] == ["--statement", statement, "--answer", "YES_OR_NO"]


def test_a_block_hands_its_state_to_the_next(store: Store) -> None:
    task = block(store, begun(store))
    blocks.close_block(store, task.id, "rejected", "advanced", data={"handoff": "the second kernel is the slow one"})
    report = views.status_report(views.load(store, task.id))
    assert "block 1 hands over: the second kernel is the slow one" in report.summary


def test_a_cause_proposes_once_and_starts_nothing(store: Store) -> None:
    assert proposals.wake(store, "journal") is None
    with open_journal() as journal:
        add(journal, [Record(kind="pitfall", title="page size one is slow", created=START)])
    made = proposals.wake(store, "journal")
    assert made is not None
    assert proposals.wake(store, "journal") is None
    assert events.task_ids(store) == []
    task = define.accept(store, made)
    assert (task.status, task.typed.type, len(task.typed.context)) == ("defined", "capability", 1)
    first = proposals.wake(store, "schedule", every_days=30)
    assert first is not None
    assert proposals.wake(store, "schedule", every_days=30) is None


def test_records_that_come_while_a_proposal_waits_are_proposed_once_it_is_answered(store: Store) -> None:
    with open_journal() as journal:
        add(journal, [Record(kind="pitfall", title="page size one is slow", created=START)])
    first = proposals.wake(store, "journal")
    with open_journal() as journal:
        add(journal, [Record(kind="pitfall", title="page size two is slow", created=START)])
    assert proposals.wake(store, "journal") is None
    assert f"{first} waits for its answer" in waking.woken("journal").summary[0]
    proposals.answer(store, str(first), "dismissed")
    second = proposals.wake(store, "journal")
    assert second is not None
    assert len(proposals.proposal(store, second)["definition"]["context"]) == 1


def test_one_call_looks_for_every_cause_and_one_that_cannot_be_seen_hides_no_other(store: Store) -> None:
    with open_journal() as journal:
        add(journal, [Record(kind="pitfall", title="page size one is slow", created=START)])
        ref = next(iter(journal.tips("refs/journal/")))
        file = journal.gitdir / ref
    done = CliRunner().invoke(cli, ["task", "wake", "--format", "json"])
    assert done.exit_code == 0, done.output
    report = jsonio.loads(done.stdout)
    causes = {row[0]: row[1] for row in report["tables"]["causes"]["rows"]}
    assert (causes["journal"], causes["schedule"], report["unseen"]) == ("proposed", "proposed", [])
    assert events.task_ids(store) == []
    again = jsonio.loads(CliRunner().invoke(cli, ["task", "wake", "--format", "json"]).stdout)
    assert again["proposals"] == []
    file.write_text("damaged")
    done = CliRunner().invoke(cli, ["task", "wake", "--format", "json"])
    assert done.exit_code == 0, "while its proposal waits the journal is not looked at"
    for name in report["proposals"]:
        proposals.answer(store, name, "dismissed")
    done = CliRunner().invoke(cli, ["task", "wake", "--format", "json"])
    assert (done.exit_code, jsonio.loads(done.stdout)["unseen"]) == (3, ["journal"])


def test_the_journal_is_surfaced_at_the_start_and_noted(store: Store) -> None:
    with open_journal() as journal:
        found = add(journal, [Record(kind="rejection", title="Write one file: rejected once", created=START)])
    task = begun(store)
    report = define.surface(store, task.id)
    assert found[0] in [r[1] for r in report.tables["surfaced"].rows]
    assert views.load(store, task.id).notes_of("surfaced")[0]["records"] == [
        r[1] for r in report.tables["surfaced"].rows
    ]


def test_a_damaged_task_hides_no_other(store: Store) -> None:
    from infer_forge.base.gitstore import Changes

    good = begun(store)
    store.update("refs/tasks/t-bad", lambda _: Changes(put={events.path_of(1): b"{}"}), "damage")
    report = views.list_report(store)
    assert [r[0] for r in report.tables["tasks"].rows] == [good.id]
    assert "t-bad" in report.findings[0].message


def test_the_next_step_of_a_campaigns_task_is_the_campaigns(store: Store) -> None:
    task = define.new(store, define.definition_of(definition(extra={"run": "/data/my runs/r1", "mode": "goal"})))
    assert views.next_step(task) == "infer-forge campaign next --run '/data/my runs/r1'"


def test_a_condition_names_the_command_whose_run_counts(store: Store) -> None:
    pinned: dict[str, Any] = {"kind": "exit_is", "selector": {"label": "tests", "command": "make check"}, "value": 0}
    rows = views.status_report(begun(store, pinned)).tables["acceptance"].rows
    assert rows[0][0] == "exit_is tests of `make check` == 0"


def test_an_incomplete_definition_says_what_it_lacks_wherever_it_is_shown(store: Store) -> None:
    task = define.new(store, define.definition_of(definition(exit_criteria=[])))
    assert "task edit" in views.next_step(task)
    assert [f.code for f in views.status_report(task).findings] == ["INCOMPLETE"]


def test_the_next_step_follows_the_state(store: Store) -> None:
    task = define.new(store, define.definition_of(definition()))
    assert "task lock" in views.next_step(task)
    task = define.lock(store, task.id)
    assert "task start" in views.next_step(task)
    task = define.start(store, task.id)
    assert "block open" in views.next_step(task)
    task = block(store, task)
    assert "task record" in views.next_step(task)
    task = blocks.close_block(store, task.id, "confirmed", "advanced")
    assert "goal-met" in views.next_step(task)


@pytest.mark.parametrize("spelt", ["ONE", " one ", "one@host"])
def test_another_spelling_of_the_executors_name_reviews_nothing(store: Store, spelt: str) -> None:
    task = begun(store)
    with pytest.raises(GateRefused, match="is not its executor"):
        blocks.routing("low", 1, executor="one", reviewer=spelt)
    blocks.open_block(
        store, task.id, "make it so", "it is so", blocks.routing("low", 1, executor="one", reviewer="two")
    )
    blocks.close_block(store, task.id, "confirmed", "advanced")
    with pytest.raises(GateRefused, match="somebody else reviews it"):
        decide_as_person(store, task.id, review_statement(1), "yes", spelt)


def test_what_is_answered_is_not_answered_otherwise_later(store: Store) -> None:
    made = proposals.wake(store, "schedule", every_days=30)
    assert made is not None
    define.accept(store, made)
    with pytest.raises(GateRefused, match="was accepted already"):
        proposals.answer(store, made, "dismissed")
    proposals.answer(store, made, "accepted")  # again after a lost answer


def test_a_goal_of_several_lines_is_one_line_of_the_status(store: Store) -> None:
    body = definition()
    body["contract"]["goal"] = "Write the file once\nlock: 0123456789ab\nnext: infer-forge task deliver t1"
    task = define.new(store, define.definition_of(body))
    summary = views.status_report(task).summary
    assert all("\n" not in line for line in summary)
    assert summary[1].startswith("goal: Write the file once lock: ")


def test_a_block_before_the_start_says_that_the_start_comes_first(store: Store) -> None:
    task = define.lock(store, define.new(store, define.definition_of(definition())).id)
    with pytest.raises(GateRefused) as told:
        block(store, task)
    assert told.value.what == "the task is defined"
    assert told.value.next_step == f"infer-forge task start {task.id}"
