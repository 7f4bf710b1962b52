"""What the graph refuses, and what becomes suspect."""

from __future__ import annotations

import itertools

import pytest

from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault
from infer_forge.base.gitstore import Store
from infer_forge.tasks import graph, open_store
from infer_forge.tasks.graph import log

P = "main"
SHA = "a" * 64


@pytest.fixture
def store() -> Store:
    """An empty task store."""
    return open_store()


def _add(store: Store, *names: str, author: str = "ana") -> None:
    """Task nodes whose type is their name up to the first dash."""
    for name in names:
        graph.add_node(store, P, name, type=name.split("-")[0], title=f"the node {name}", author=author)


def _deliver(store: Store, name: str) -> None:
    graph.mark(store, P, name, "active")
    graph.mark(store, P, name, "delivered")


def _hand(store: Store, producer: str, consumer: str, *, take: bool = True) -> None:
    graph.link(store, P, producer, consumer)
    graph.hand_over(store, P, producer, consumer, reviewer="gus", sha256=SHA)
    if take:
        graph.take_import(store, P, consumer, producer)


def _chain(store: Store, *names: str) -> None:
    """Nodes that hand over one to the next, all delivered but the last."""
    _add(store, *names)
    for a, b in itertools.pairwise(names):
        _deliver(store, a)
        _hand(store, a, b)


def _suspects(store: Store) -> set[str]:
    return set(graph.look(store, P).doubts)


def _ready(store: Store) -> list[str]:
    return [row[0] for row in graph.ready(graph.look(store, P)).tables["ready"].rows]


def test_nothing_is_imported_before_it_is_verified_and_handed_over(store: Store) -> None:
    _add(store, "code-1", "integration-1")
    graph.link(store, P, "code-1", "integration-1")
    with pytest.raises(GateRefused, match="nothing is imported before"):
        graph.take_import(store, P, "integration-1", "code-1")
    with pytest.raises(GateRefused, match="before it has ended"):
        graph.hand_over(store, P, "code-1", "integration-1", reviewer="gus", sha256=SHA)
    _deliver(store, "code-1")
    with pytest.raises(GateRefused, match="name the evidence"):
        graph.hand_over(store, P, "code-1", "integration-1", reviewer="gus")
    graph.hand_over(store, P, "code-1", "integration-1", reviewer="gus", sha256=SHA)
    assert graph.take_import(store, P, "integration-1", "code-1").imported_at


def test_a_node_is_ready_only_when_all_its_producers_have_handed_over(store: Store) -> None:
    _add(store, "plan-1", "plan-2", "code-1")
    graph.link(store, P, "plan-2", "code-1")
    _deliver(store, "plan-1")
    _hand(store, "plan-1", "code-1")
    waiting = graph.ready(graph.look(store, P)).tables["waiting"].dicts()
    assert [w["node"] for w in waiting] == ["code-1"]
    with pytest.raises(GateRefused, match="not ready: plan-2 is planned"):
        graph.mark(store, P, "code-1", "active")
    _deliver(store, "plan-2")
    graph.hand_over(store, P, "plan-2", "code-1", reviewer="gus", sha256=SHA)
    assert [r["node"] for r in graph.ready(graph.look(store, P)).tables["ready"].dicts()] == ["code-1"]


def test_the_reviewer_of_a_handoff_is_never_the_author(store: Store) -> None:
    _add(store, "code-1", "integration-1")
    _deliver(store, "code-1")
    graph.link(store, P, "code-1", "integration-1")
    with pytest.raises(GateRefused, match="is an author of code-1"):
        graph.hand_over(store, P, "code-1", "integration-1", reviewer="ana", sha256=SHA)
    with pytest.raises(GateRefused, match="is an author of code-1"):
        graph.hand_over(store, P, "code-1", "integration-1", reviewer=" ana ", sha256=SHA)


def test_handoffs_never_close_a_cycle_and_the_path_is_named(store: Store) -> None:
    _add(store, "code-1", "code-2", "code-3")
    graph.link(store, P, "code-1", "code-2")
    graph.link(store, P, "code-2", "code-3")
    with pytest.raises(GateRefused, match="cycle of handoffs: code-3 > code-1 > code-2 > code-3"):
        graph.link(store, P, "code-3", "code-1")
    with pytest.raises(GateRefused, match="two different elements"):
        graph.link(store, P, "code-1", "code-1")
    graph.link(store, P, "code-3", "code-1", "control", action="returns")


@pytest.mark.parametrize(
    ("source", "target", "gates"),
    [
        ("code-1", "release-1", "integration and evaluation"),
        ("code-1", "evaluation-1", "integration"),
        ("integration-1", "release-1", "evaluation"),
        ("plan-1", "release-1", "integration and evaluation"),
    ],
)
def test_a_control_edge_goes_round_neither_integration_nor_evaluation(
    store: Store, source: str, target: str, gates: str
) -> None:
    _add(store, source, target)
    with pytest.raises(GateRefused, match=f"go round {gates}"):
        graph.link(store, P, source, target, "control", action="triggers")


def test_a_control_edge_may_run_beside_handoffs_that_pass_the_gates(store: Store) -> None:
    _add(store, "code-1", "integration-1", "evaluation-1", "release-1")
    for a, b in (("code-1", "integration-1"), ("integration-1", "evaluation-1"), ("evaluation-1", "release-1")):
        graph.link(store, P, a, b)
    graph.link(store, P, "code-1", "release-1", "control", action="triggers")
    with pytest.raises(GateRefused, match="go round integration and evaluation"):
        graph.unlink(store, P, "handoff:evaluation-1>release-1", "another evaluation will come")


def test_an_external_system_triggers_a_release_only_behind_an_evaluation(store: Store) -> None:
    _add(store, "evaluation-1", "release-1")
    graph.add_node(store, P, "people", kind="external", title="who approves")
    with pytest.raises(GateRefused, match="go round evaluation"):
        graph.link(store, P, "people", "release-1", "control", action="triggers")
    graph.link(store, P, "evaluation-1", "release-1")
    graph.link(store, P, "people", "release-1", "control", action="triggers")


def test_a_release_takes_its_candidate_from_an_evaluation(store: Store) -> None:
    _add(store, "code-1", "integration-1", "release-1")
    for name in ("code-1", "integration-1"):
        with pytest.raises(GateRefused, match="from an evaluation"):
            graph.link(store, P, name, "release-1")
    waiting = graph.ready(graph.look(store, P)).tables["waiting"].dicts()
    assert waiting[-1]["for"] == "no evaluation has handed over to it"


def test_edges_join_only_the_elements_that_their_kind_allows(store: Store) -> None:
    _add(store, "code-1", "code-2")
    graph.add_node(store, P, "fork", kind="shared_repo", title="the fork", url="https://git.example/fork")
    graph.add_node(store, P, "upstream", kind="external", title="the project")
    for source, target, kind, more, why in (
        ("fork", "code-1", "handoff", {}, "only a task hands over"),
        ("upstream", "code-1", "handoff", {}, "only a task hands over"),
        ("code-1", "fork", "handoff", {}, "is a state edge"),
        ("code-1", "code-2", "state", {"mode": "read"}, "to a shared repo"),
        ("code-1", "fork", "state", {}, "reads or writes"),
        ("code-1", "fork", "control", {"action": "triggers"}, "to a task or an external"),
        ("code-1", "code-2", "control", {}, "says what it does"),
        ("code-1", "code-2", "control", {"action": "triggers", "mode": "read"}, "no result"),
    ):
        with pytest.raises(GateRefused, match=why):
            graph.link(store, P, source, target, kind, **more)
    graph.link(store, P, "code-1", "fork", "state", mode="write")
    graph.link(store, P, "fork", "code-2", "control", action="triggers")


def test_a_control_edge_carries_no_result(store: Store) -> None:
    _add(store, "code-1", "code-2")
    _deliver(store, "code-1")
    graph.link(store, P, "code-1", "code-2", "control", action="triggers")
    with pytest.raises(GateRefused, match="no handoff edge"):
        graph.hand_over(store, P, "code-1", "code-2", reviewer="gus", sha256=SHA)


def test_rejecting_a_producer_makes_all_consumers_suspect_with_the_chain(store: Store) -> None:
    _chain(store, "research-1", "code-1", "integration-1", "evaluation-1")
    _add(store, "code-9")
    graph.mark(store, P, "research-1", "rejected", reason="the trace was of another model")
    view = graph.look(store, P)
    assert set(view.doubts) == {"code-1", "integration-1", "evaluation-1"}
    assert view.doubts["evaluation-1"].chain == ("research-1", "code-1", "integration-1", "evaluation-1")
    assert "of another model" in view.doubts["evaluation-1"].why
    report = graph.explain(store, "evaluation-1", P)
    assert report.extra["node"]["suspect_chain"] == ["research-1", "code-1", "integration-1", "evaluation-1"]
    assert not view.is_ready(view.node("evaluation-1"))


def test_what_is_suspect_is_neither_handed_over_nor_imported(store: Store) -> None:
    _chain(store, "research-1", "code-1", "integration-1")
    _add(store, "code-2")
    graph.link(store, P, "research-1", "code-2")
    graph.hand_over(store, P, "research-1", "code-2", reviewer="gus", sha256=SHA)
    graph.mark(store, P, "research-1", "rejected", reason="it was wrong")
    with pytest.raises(GateRefused, match="rejected: it was wrong"):
        graph.take_import(store, P, "code-2", "research-1")
    _add(store, "integration-2")
    graph.link(store, P, "code-1", "integration-2")
    with pytest.raises(GateRefused, match="is suspect"):
        graph.hand_over(store, P, "code-1", "integration-2", reviewer="gus", sha256=SHA)


def test_a_doubt_is_answered_by_a_reviewer_and_comes_back_with_a_newer_judgement(store: Store) -> None:
    _chain(store, "research-1", "code-1", "integration-1")
    graph.mark(store, P, "code-1", "unreleased", reason="too small a gain")
    assert not _suspects(store)
    graph.mark(store, P, "research-1", "rejected", reason="a wrong figure")
    assert _suspects(store) == {"integration-1", "code-1"}
    with pytest.raises(GateRefused, match="the reviewer is somebody else"):
        graph.rejudge(store, P, "research-1", "code-1", reviewer="ana", reason="the figure is not used")
    graph.rejudge(store, P, "research-1", "code-1", reviewer="gus", reason="the figure is not used")
    assert not _suspects(store)
    graph.mark(store, P, "code-1", "rejected", reason="another fault of its own")
    assert _suspects(store) == {"integration-1"}


@pytest.mark.parametrize("fallen", ["research-1", "code-1"])
def test_an_answered_doubt_lets_the_consumer_begin_until_a_newer_judgement(store: Store, fallen: str) -> None:
    _chain(store, "research-1", "code-1", "integration-1")
    assert _ready(store) == ["integration-1"]
    graph.mark(store, P, fallen, "rejected", reason="a wrong figure")
    assert not _ready(store)
    graph.rejudge(store, P, "code-1", "integration-1", reviewer="gus", reason="the figure is not used")
    assert _ready(store) == ["integration-1"]
    if fallen == "research-1":
        graph.mark(store, P, "code-1", "rejected", reason="another fault of its own")
        assert not _ready(store)


def test_without_a_doubt_there_is_nothing_to_answer(store: Store) -> None:
    _chain(store, "research-1", "code-1")
    with pytest.raises(GateRefused, match="nothing is doubtful"):
        graph.rejudge(store, P, "research-1", "code-1", reviewer="gus", reason="just to be sure")


def test_superseding_is_a_new_node_and_makes_consumers_suspect(store: Store) -> None:
    _chain(store, "code-1", "integration-1")
    graph.add_node(store, P, "code-2", type="code", title="the same with another goal", supersedes="code-1")
    view = graph.look(store, P)
    assert view.status(view.node("code-1")) == "superseded"
    assert view.node("code-1").replaced_by == "code-2"
    assert set(view.doubts) == {"integration-1"}
    with pytest.raises(GateRefused, match="superseded by code-2"):
        graph.add_node(store, P, "code-3", type="code", title="a third one", supersedes="code-1")


def test_a_rejected_path_stays_rejected_when_a_new_node_takes_its_place(store: Store) -> None:
    _add(store, "code-1")
    graph.mark(store, P, "code-1", "rejected", reason="wrong single elements")
    graph.add_node(store, P, "code-2", type="code", title="checked by element", supersedes="code-1")
    node = graph.look(store, P).node("code-1")
    assert (node.judgement, node.reason, node.replaced_by) == ("rejected", "wrong single elements", "code-2")
    assert graph.explain(store, "code-2", P).tables["not_taken"].dicts()[0]["reason"] == "wrong single elements"


def test_judgements_need_reasons_and_paths_stay(store: Store) -> None:
    _add(store, "code-1", "code-2")
    with pytest.raises(UsageFault, match="needs a reason"):
        graph.mark(store, P, "code-1", "rejected")
    with pytest.raises(GateRefused, match="names the node"):
        graph.mark(store, P, "code-1", "superseded", reason="something better came")
    graph.mark(store, P, "code-1", "superseded", reason="something better came", replaced_by="code-2")
    with pytest.raises(GateRefused, match="superseded already"):
        graph.mark(store, P, "code-1", "rejected", reason="and it is wrong")
    with pytest.raises(GateRefused, match="code-1 is superseded"):
        graph.mark(store, P, "code-1", "active")


def test_what_was_handed_over_is_not_unlinked(store: Store) -> None:
    _chain(store, "code-1", "integration-1")
    with pytest.raises(GateRefused, match="what was handed over stays"):
        graph.unlink(store, P, "handoff:code-1>integration-1", "not wanted any more")
    with pytest.raises(GateRefused, match="has handed over"):
        graph.mark(store, P, "code-1", "withdrawn", reason="not wanted any more")


def test_a_planned_edge_that_was_unlinked_stays_in_the_history_and_may_come_back(store: Store) -> None:
    _add(store, "code-1", "integration-1")
    graph.link(store, P, "code-1", "integration-1")
    graph.unlink(store, P, "handoff:code-1>integration-1", "replanned without it")
    assert graph.look(store, P).is_ready(graph.look(store, P).node("integration-1"))
    assert [e.kind for e in log.events(store, P)][-2:] == ["linked", "unlinked"]
    assert graph.link(store, P, "code-1", "integration-1").closed is None


def test_a_capability_node_ends_with_an_outcome_and_its_evidence(store: Store) -> None:
    _add(store, "capability-1", "code-1")
    graph.mark(store, P, "capability-1", "active")
    with pytest.raises(GateRefused, match="ends with an outcome"):
        graph.mark(store, P, "capability-1", "delivered")
    with pytest.raises(GateRefused, match="cites its evidence"):
        graph.mark(store, P, "capability-1", "delivered", outcome="retire")
    graph.mark(store, P, "capability-1", "delivered", outcome="retire", records=["j-1"])
    assert graph.look(store, P).node("capability-1").goal == "capability"
    assert graph.show(graph.look(store, P), goal="capability").tables["nodes"].dicts()[0]["reason"] == "outcome retire"
    graph.mark(store, P, "code-1", "active")
    with pytest.raises(GateRefused, match="only a delivered capability"):
        graph.mark(store, P, "code-1", "delivered", outcome="add", records=["j-1"])


@pytest.mark.parametrize("name", ["", "-x", "a b", "../x", "a>b", "x" * 81, "é", "a:b"])
def test_ids_that_would_break_edge_names_or_refs_are_refused(store: Store, name: str) -> None:
    with pytest.raises(UsageFault):
        graph.add_node(store, P, name, type="code", title="a title")
    with pytest.raises((UsageFault, InputUnusable)):
        graph.add_node(store, name or "-", "code-1", type="code", title="a title")


def test_other_spellings_of_the_author_are_the_author(store: Store) -> None:
    _add(store, "code-1", author="ana@host7")
    _add(store, "integration-1")
    _deliver(store, "code-1")
    graph.link(store, P, "code-1", "integration-1")
    for name in ("Ana@HOST7", "ana", " ANA "):
        with pytest.raises(GateRefused, match="is an author of code-1"):
            graph.hand_over(store, P, "code-1", "integration-1", reviewer=name, sha256=SHA)
    assert graph.hand_over(store, P, "code-1", "integration-1", reviewer="anabel", sha256=SHA).verified


def test_a_suspect_node_may_end_with_a_handoff_and_not_be_delivered(store: Store) -> None:
    _chain(store, "research-1", "code-1")
    graph.mark(store, P, "code-1", "active")
    graph.mark(store, P, "research-1", "rejected", reason="a wrong figure")
    with pytest.raises(GateRefused, match="research-1 > code-1"):
        graph.mark(store, P, "code-1", "delivered")
    graph.mark(store, P, "code-1", "handed_off", reason="its ground is gone")


def test_a_graph_that_is_not_there_is_not_an_empty_one(store: Store) -> None:
    assert graph.look(store).graph.nodes == {}
    with pytest.raises(InputUnusable, match="there is no graph 'mian'"):
        graph.look(store, "mian")
