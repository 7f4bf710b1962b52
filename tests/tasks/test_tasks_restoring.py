"""Damaged refs of the task store: told one by one, and put back by a person to the last commit that reads whole."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from infer_forge.base.errors import GateRefused, HumanNeeded, InputUnusable
from infer_forge.base.gitstore import Changes, Store
from infer_forge.cli import task_fields
from infer_forge.cli.main import cli
from infer_forge.tasks import define, events, graph, load, restoring, verbs, views
from tests.tasks.task_samples import begun, definition

P = "main"
GRAPH = "refs/graphs/main"


@pytest.fixture
def store() -> Store:
    """An empty task store."""
    return events.open_store()


def _locked(store: Store) -> str:
    task = define.new(store, define.definition_of(definition()))
    return define.lock(store, task.id).id


def _held(store: Store) -> str:
    """A task that the graph lets wait for `plan-1`."""
    held = _locked(store)
    graph.add_node(store, P, "plan-1", type="plan", title="Cut time to first token")
    graph.add_node(store, P, None, task=held)
    graph.link(store, P, "plan-1", held)
    return held


def _junk(store: Store, ref: str) -> None:
    (store.gitdir / ref).write_text("junk")


def _empty(store: Store, ref: str) -> None:
    (store.gitdir / ref).write_text("")


def _lost(store: Store, ref: str) -> None:
    (store.gitdir / ref).write_text(f"{'12' * 20}\n")


def _rewritten(store: Store, ref: str) -> None:
    """Another hand changes the first event and commits that on top."""
    first = store.read(ref).list("events/")[0]
    content = store.read(ref).get(first)
    assert content is not None
    store.update(ref, lambda _: Changes(put={first: content.replace(b'"by":"', b'"by":"not ')}), "another hand")


def _ann(_what: str, _name: str | None) -> str:
    """A person at a terminal."""
    return "ann"


DAMAGES = [_junk, _empty, _lost, _rewritten]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_graph_is_put_back_to_its_last_good_commit(
    store: Store, damage: Callable[[Store, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = _held(store)
    good = str(store.read(GRAPH).tip)
    damage(store, GRAPH)
    with pytest.raises(InputUnusable) as told:
        verbs.start(held)
    assert f"last good commit {good[:12]} (3 events)" in told.value.what
    assert (told.value.where, told.value.next_step) == (GRAPH, f"infer-forge task restore {GRAPH}")
    words = str(told.value.next_step).split()[1:]
    listed = CliRunner().invoke(cli, words).output
    again = f"infer-forge task restore {GRAPH} --commit {good}"
    assert f"a person at a terminal: {again}" in listed
    assert isinstance(CliRunner().invoke(cli, again.split()[1:]).exception, HumanNeeded)
    monkeypatch.setattr(task_fields, "person_at_terminal", _ann)
    assert CliRunner().invoke(cli, again.split()[1:]).exit_code == 0
    assert store.read(GRAPH).tip == good
    with pytest.raises(GateRefused, match="plan-1 is planned"):
        verbs.start(held)
    assert isinstance(CliRunner().invoke(cli, again.split()[1:]).exception, GateRefused)


def test_a_damaged_graph_holds_only_the_tasks_that_it_may_have_named(store: Store) -> None:
    held, free = _held(store), _locked(store)
    _rewritten(store, GRAPH)
    assert verbs.start(free).extra["task"]["status"] == "active"
    with pytest.raises(InputUnusable, match="cannot be seen"):
        verbs.start(held)
    _junk(store, GRAPH)
    with pytest.raises(InputUnusable, match="cannot be seen"):
        verbs.start(_locked(store))


def test_a_task_waits_for_what_any_graph_of_the_store_says_of_it(store: Store) -> None:
    held = _locked(store)
    graph.add_node(store, "chat", "plan-1", type="plan", title="Cut time to first token")
    graph.add_node(store, "chat", None, task=held)
    graph.link(store, "chat", "plan-1", held)
    with pytest.raises(GateRefused, match="plan-1 is planned"):
        verbs.start(held)


@pytest.mark.parametrize("damage", DAMAGES)
def test_one_damaged_task_is_told_and_hides_no_other(store: Store, damage: Callable[[Store, str], None]) -> None:
    held, good = _held(store), begun(store).id
    damage(store, f"refs/tasks/{held}")
    for view in (views.list_report, views.inbox_report, views.inflight_report):
        found = view(store).findings
        assert [f.code for f in found] == ["TASK_UNREADABLE"]
        assert found[0].next_step == f"infer-forge task restore refs/tasks/{held}"
    assert views.list_report(store).tables["tasks"].dicts()[0]["id"] == good
    assert verbs.start(_locked(store)).extra["task"]["status"] == "active"
    seen = graph.look(store, P)
    assert seen.lifecycle(seen.node(held)) == "unreadable"


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_task_is_put_back_and_goes_on(store: Store, damage: Callable[[Store, str], None]) -> None:
    task = begun(store)
    ref = f"refs/tasks/{task.id}"
    damage(store, ref)
    with pytest.raises(InputUnusable) as told:
        load(store, task.id)
    assert (told.value.where, told.value.next_step) == (ref, f"infer-forge task restore {ref}")
    assert verbs.verify(task.id).next_step == told.value.next_step
    offer = restoring.last_good(store, ref)[0]
    report = restoring.restore(store, ref, offer.commit, "ann")
    assert load(store, task.id).last_seq == task.last_seq == offer.count
    assert report.extra["kept"]
    assert restoring.damaged(store) == {}
    assert define.clarify(store, task.id, "it goes on from there").last_seq == task.last_seq + 1


def test_commits_that_lost_a_race_are_offered_after_the_fuller_one_and_a_person_chooses(store: Store) -> None:
    task = begun(store)
    ref, file = f"refs/tasks/{task.id}", store.gitdir / f"refs/tasks/{task.id}"
    before = file.read_text()
    define.clarify(store, task.id, "one that lost")
    lost = str(store.read(ref).tip)
    file.write_text(before)
    define.clarify(store, task.id, "one that won")
    define.clarify(store, task.id, "and one after it")
    won = str(store.read(ref).tip)
    _junk(store, ref)
    assert [o.commit for o in restoring.last_good(store, ref)] == [won, lost]
    with pytest.raises(GateRefused, match="no whole commit"):
        restoring.restore(store, ref, "0123456789", "ann")


def test_what_can_be_read_is_never_moved_and_what_is_lost_is_taken_from_a_copy(store: Store, tmp_path: Path) -> None:
    task = begun(store)
    ref = f"refs/tasks/{task.id}"
    with pytest.raises(GateRefused, match="can be read"):
        restoring.restore(store, ref, str(store.read(ref).tip), "ann")
    with pytest.raises(InputUnusable, match="no ref of the task store"):
        restoring.listed(store, "refs/heads/main")
    copy = tmp_path / "copy"
    subprocess.run(["git", "clone", "-q", "--mirror", str(store.gitdir), str(copy)], check=True)
    first = store.read(ref).blob_id(events.path_of(1))
    assert first is not None
    blob = store.gitdir / "objects" / first[:2] / first[2:]
    blob.unlink()
    with events.open_store() as fresh:
        finding = next(f for f in restoring.listed(fresh).findings if f.code == "REF_LOST")
        words = str(finding.next_step).partition(", then ")[2].replace("OTHER_COPY", str(copy)).split()
    assert words[-1] == f"+{ref}:{ref}"
    blob.write_bytes(b"")
    assert restoring.damaged(events.open_store()).keys() == {ref}


@pytest.mark.parametrize(
    ("kind", "data", "why"),
    [
        ("defined", {"definition": {"type": "code", "title": "From a later version", "field": 1}}, "its definition"),
        ("block_closed", {"outcome": "confirmed", "progress": "advanced"}, "event 4"),
        ("dreamt", {}, "unknown kind"),
    ],
)
def test_a_task_of_another_version_is_told_and_hides_no_other(
    store: Store, kind: str, data: dict[str, Any], why: str
) -> None:
    later, other = begun(store), begun(store).id
    events.append(store, later.id, lambda _: (kind, data))
    for view in (views.list_report, views.inbox_report, views.inflight_report):
        report = view(store)
        assert [(f.code, why in f.message) for f in report.findings] == [("TASK_UNREADABLE", True)]
        assert report.findings[0].next_step == "update infer-forge"
    assert [row[0] for row in views.list_report(store).tables["tasks"].rows] == [other]
    with pytest.raises(InputUnusable, match="version|unknown kind"):
        verbs.status(later.id)
    assert restoring.damaged(store) == {}
    ref, tip = f"refs/tasks/{later.id}", store.read(f"refs/tasks/{later.id}").tip
    _junk(store, ref)
    assert restoring.last_good(store, ref)[0].commit == tip, "nothing that another version wrote is given up"


def test_a_proposal_that_cannot_be_read_is_told_in_the_inbox(store: Store) -> None:
    from infer_forge.tasks import proposals

    kept = [proposals.propose(store, f"why {n}", {"kind": "journal", "n": n}, {"type": "capability"}) for n in (1, 2)]
    _junk(store, f"refs/proposals/{kept[0]}")
    report = views.inbox_report(store)
    assert [f.code for f in report.findings] == ["PROPOSAL_UNREADABLE"]
    assert [row[2] for row in report.tables["inbox"].rows] == [kept[1]]
    assert restoring.damaged(store).keys() == {f"refs/proposals/{kept[0]}"}
