"""Nodes that stand for tasks of the store: their status, results and authors come from there, never from the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault
from infer_forge.base.gitstore import Store
from infer_forge.tasks import blocks, define, ending, events, graph, load, open_store, verbs
from infer_forge.tasks.execute import record
from infer_forge.tasks.graph.facts import facts_of
from tests.tasks.task_samples import EXIT, begun, block, definition

P = "main"


@pytest.fixture
def store() -> Store:
    """An empty task store."""
    return open_store()


def _delivered(store: Store, folder: Path, **more: Any) -> str:
    """A task that ran a command and was delivered."""
    task = block(store, begun(store, EXIT, **more))
    record(store, task.id, ["true"], label="make", cwd=str(folder))
    blocks.close_block(store, task.id, "confirmed", "advanced", "made")
    return ending.deliver(store, task.id, "the file was made whole").id


def _defined(store: Store, **more: Any) -> str:
    return define.new(store, define.definition_of(definition(**more))).id


def test_a_delivered_task_hands_over_the_hash_and_record_of_its_end(store: Store, tmp_path: Path) -> None:
    made, after = _delivered(store, tmp_path), _defined(store)
    graph.add_node(store, P, None, task=made)
    graph.add_node(store, P, "next", task=after)
    graph.link(store, P, made, "next")
    edge = graph.hand_over(store, P, made, after, reviewer="gus")
    facts = facts_of(store, [made])[made]
    assert (edge.result, edge.sha256, edge.journal) == ("deliverable", facts.sha256, facts.journal)
    assert edge.journal
    ready = graph.ready(graph.look(store, P)).tables["ready"].dicts()
    assert [(r["node"], r["status"], r["task"]) for r in ready] == [("next", "defined", after)]


def test_an_open_task_hands_nothing_over_and_its_status_is_not_marked_by_hand(store: Store) -> None:
    task = begun(store).id
    graph.add_node(store, P, "one", task=task)
    graph.add_node(store, P, "two", type="code", title="the next one")
    graph.link(store, P, "one", "two")
    with pytest.raises(GateRefused, match="one is active"):
        graph.hand_over(store, P, "one", "two", reviewer="gus")
    with pytest.raises(GateRefused, match="comes from its task"):
        graph.mark(store, P, "one", "delivered")


def test_whoever_made_the_task_reviews_nothing_of_it(store: Store, tmp_path: Path) -> None:
    graph.add_node(store, P, "one", task=_delivered(store, tmp_path), author="somebody else")
    graph.add_node(store, P, "two", type="code", title="the next one")
    graph.link(store, P, "one", "two")
    with pytest.raises(GateRefused, match="is an author of one"):
        graph.hand_over(store, P, "one", "two", reviewer=events.who())


def test_a_hash_that_is_not_the_tasks_own_is_refused(store: Store, tmp_path: Path) -> None:
    graph.add_node(store, P, "one", task=_delivered(store, tmp_path))
    graph.add_node(store, P, "two", type="code", title="the next one")
    graph.link(store, P, "one", "two")
    with pytest.raises(GateRefused, match="not with that hash"):
        graph.hand_over(store, P, "one", "two", reviewer="gus", sha256="b" * 64)


def test_a_task_that_imports_what_was_not_handed_over_is_not_bound(store: Store, tmp_path: Path) -> None:
    made = _delivered(store, tmp_path)
    item = {
        "name": "its file",
        "kind": "imported_context",
        "origin": f"task {made}",
        "lineage": [made],
        "status": "verified",
    }
    after = _defined(store, context=[item])
    graph.add_node(store, P, "one", task=made)
    with pytest.raises(GateRefused, match="was not verified and handed over") as told:
        graph.add_node(store, P, "two", task=after)
    assert str(told.value.next_step).endswith(f"infer-forge graph bind two {after}")
    graph.add_node(store, P, "two", type="code", title="the next one")
    graph.link(store, P, "one", "two")
    with pytest.raises(GateRefused, match="was not verified and handed over"):
        graph.bind(store, P, "two", after)
    graph.hand_over(store, P, "one", "two", reviewer="gus")
    assert graph.bind(store, P, "two", after).task == after
    assert graph.start_faults(store, after) == []


def test_a_contract_change_is_a_new_node(store: Store) -> None:
    first, second = _defined(store), _defined(store)
    graph.add_node(store, P, "one", type="code", title="the work")
    graph.bind(store, P, "one", first)
    with pytest.raises(GateRefused, match="a contract change is a new node"):
        graph.bind(store, P, "one", second)
    with pytest.raises(GateRefused, match=f"the task {first} is the node one"):
        graph.add_node(store, P, "two", task=first)


def test_a_task_that_supersedes_another_supersedes_its_node(store: Store) -> None:
    first = _defined(store)
    graph.add_node(store, P, "one", task=first)
    graph.add_node(store, P, "two", task=_defined(store, supersedes=first))
    view = graph.look(store, P)
    assert (view.node("one").judgement, view.node("one").replaced_by, view.node("two").supersedes) == (
        "superseded",
        "two",
        "one",
    )


def test_a_planned_node_bound_to_such_a_task_does_the_same(store: Store) -> None:
    first = _defined(store)
    graph.add_node(store, P, "one", task=first)
    graph.add_node(store, P, "two", type="code", title="the new work")
    graph.bind(store, P, "two", _defined(store, supersedes=first))
    assert graph.look(store, P).node("one").replaced_by == "two"


def test_the_types_of_node_and_task_agree_and_unknown_tasks_are_refused(store: Store) -> None:
    task = _defined(store)
    with pytest.raises(UsageFault, match="is of type code"):
        graph.add_node(store, P, "one", task=task, type="plan")
    with pytest.raises(InputUnusable, match="no task has the id"):
        graph.add_node(store, P, "one", task="t-none")
    graph.add_node(store, P, "one", type="plan", title="a plan of it")
    with pytest.raises(GateRefused, match="is plan, the task is code"):
        graph.bind(store, P, "one", task)


def test_the_lock_that_came_after_the_binding_is_recorded_by_binding_again(store: Store) -> None:
    task = _defined(store)
    graph.add_node(store, P, "one", task=task)
    assert graph.look(store, P).node("one").lock is None
    lock = define.lock(store, task).lock_sha
    assert graph.bind(store, P, "one", task).lock == lock


def test_a_suspect_or_waiting_task_has_faults_at_its_start(store: Store, tmp_path: Path) -> None:
    made, after = _delivered(store, tmp_path), _defined(store)
    graph.add_node(store, P, "one", task=made)
    graph.add_node(store, P, "two", task=after)
    graph.link(store, P, "one", "two")
    assert graph.start_faults(store, after) == ["one ended, and is not handed over"]
    graph.hand_over(store, P, "one", "two", reviewer="gus")
    graph.mark(store, P, "one", "rejected", reason="it was measured on a busy node")
    assert any("one is rejected" in f for f in graph.start_faults(store, after))
    assert graph.start_faults(store, "t-not-in-the-graph") == []


def test_a_task_does_not_begin_before_its_upstream_is_handed_over(store: Store) -> None:
    early = _defined(store)
    graph.add_node(store, "main", "one", type="code", title="upstream work")
    graph.add_node(store, "main", "two", task=early)
    graph.link(store, "main", "one", "two")
    define.lock(store, early)
    with pytest.raises(GateRefused, match="the graph does not let it begin"):
        verbs.start(early)
    assert load(store, early).status == "defined"


def test_check_finds_a_task_that_was_started_too_early_and_one_that_is_elsewhere(store: Store) -> None:
    early = _defined(store)
    graph.add_node(store, P, "one", type="code", title="upstream work")
    graph.add_node(store, P, "two", task=early)
    graph.link(store, P, "one", "two")
    assert graph.check(store, P)[1] == "pass"
    define.lock(store, early)
    define.start(store, early)
    report, verdict = graph.check(store, P)
    assert verdict == "fail"
    assert any("started before one" in r["fault"] for r in report.tables["faults"].dicts())
    store.delete(events.ref_of(early))
    report, verdict = graph.check(store, P)
    assert verdict == "unknown"
    assert "missing" in report.tables["faults"].dicts()[0]["fault"]


def test_facts_follow_the_task_as_it_goes_on(store: Store) -> None:
    task = _defined(store)
    graph.add_node(store, P, "one", task=task)
    seen = [graph.look(store, P).status(graph.look(store, P).node("one"))]
    define.lock(store, task)
    define.start(store, task)
    seen.append(graph.look(store, P).status(graph.look(store, P).node("one")))
    ending.handoff(store, task, "half of it", "start at the second file")
    view = graph.look(store, P)
    seen.append(view.status(view.node("one")))
    assert seen == ["defined", "active", "handed_off"]
    totals = graph.stats(view).extra["totals"]
    assert (totals["created"], totals["archived"], totals["in_flight"]) == (1, 1, 0)
