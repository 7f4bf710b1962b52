"""Nodes: add them, bind a planned one to its task, record what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault
from infer_forge.base.gitstore import Store
from infer_forge.tasks.graph import log
from infer_forge.tasks.graph.checking import import_faults
from infer_forge.tasks.graph.facts import UNREADABLE, TaskFacts, facts_of
from infer_forge.tasks.graph.model import (
    ACTIVE,
    DELIVERED,
    ELEMENTS,
    GOALS,
    HANDED_OFF,
    JUDGEMENTS,
    LIFECYCLE,
    OUTCOMES,
    SHARED_REPO,
    SUPERSEDED,
    TASK,
    Graph,
    Node,
)
from infer_forge.tasks.graph.view import View, view_of
from infer_forge.tasks.model import TASK_TYPES


def view_in(store: Store, draft: log.Draft) -> View:
    """The view of a decision's graph, with the facts of all its tasks."""
    return view_of(draft.graph, facts_of(store, [n.task for n in draft.graph.nodes.values() if n.task]))


def node_in(graph: Graph, node_id: str) -> Node:
    """A node by its id or its task's.

    Raises:
        GateRefused: there is none.
    """
    found = graph.nodes.get(node_id) or graph.node_of_task(node_id)
    if found is None:
        raise GateRefused(
            f"the graph {graph.project} has no node {node_id!r}",
            next_step="infer-forge graph add makes one, infer-forge graph show lists them",
        )
    return found


def node_faults(data: dict[str, Any]) -> list[str]:
    """What is wrong with a node's fields, whoever gives them."""
    kind, found = data.get("kind"), list[str]()
    if not log.valid_name(str(data.get("id") or "")):
        found.append(f"{data.get('id')!r} is no id: 1 to 80 letters, digits, - _ .")
    if kind not in ELEMENTS:
        return [*found, f"an element is one of {', '.join(ELEMENTS)}"]
    if not 1 <= len(str(data.get("title") or "").strip()) <= 200:
        found.append(f"{data['id']}: a title says what it is, in 200 characters at most")
    if (kind == TASK) != (data.get("type") in TASK_TYPES):
        said = f"a task node has a type: {', '.join(TASK_TYPES)}" if kind == TASK else "only a task node has a type"
        found.append(f"{data['id']}: {said}")
    if data.get("goal", "delivery") not in GOALS:
        found.append(f"{data['id']}: the goal is one of {', '.join(GOALS)}")
    if kind != TASK and (data.get("task") or data.get("supersedes")):
        found.append(f"{data['id']}: only a task node stands for a task or supersedes one")
    if data.get("url") and kind == TASK:
        found.append(f"{data['id']}: a task node has no url")
    return found


def add_node(
    store: Store,
    project: str,
    node_id: str | None,
    *,
    kind: str = TASK,
    title: str | None = None,
    type: str | None = None,  # noqa: A002 - the field's own word
    goal: str | None = None,
    workstream: str | None = None,
    author: str | None = None,
    task: str | None = None,
    supersedes: str | None = None,
    url: str | None = None,
) -> Node:
    """Add an element. With `task`, type, title and goal come from that task, and the id may be left out.

    Raises:
        UsageFault: fields are missing. GateRefused: the id or the task is taken, or it imports what was not handed over.
    """
    facts = task_facts(store, task) if task else None
    name = node_id or task
    if not name:
        raise UsageFault("a node needs an id", next_step="infer-forge graph add ID --type TYPE --title TITLE")
    if facts is not None and type not in (None, facts.type):
        raise UsageFault(f"the task {task} is of type {facts.type}", next_step="leave --type out")
    body: dict[str, Any] = {
        "id": name,
        "kind": kind,
        "title": " ".join((title or (facts.title if facts else "")).split()),
        "type": facts.type if facts else type,
        "goal": goal or (facts.goal if facts else "capability" if type == "capability" else "delivery"),
        "workstream": workstream,
        "author": author or (facts.authors[0] if facts and facts.authors else None),
        "task": task,
        "lock": facts.lock if facts else None,
        "url": url,
    }
    faults = node_faults({**body, "supersedes": supersedes})
    if faults:
        raise UsageFault("; ".join(faults), next_step="infer-forge graph add --help")

    def decide(draft: log.Draft) -> None:
        graph = draft.graph
        if name in graph.nodes:
            raise GateRefused(
                f"the node {name} exists", next_step="a contract change is a new node: another id, --supersedes"
            )
        replaced = _replaced(graph, supersedes, facts)
        _require_unbound(graph, task)
        made = {**body, "supersedes": replaced, "author": body["author"] or (draft.by if kind == TASK else None)}
        draft.emit("node_added", made)
        _require_imports(store, draft, graph.nodes[name])

    return log.append(store, project, decide, f"add {name}").nodes[name]


def bind(store: Store, project: str, node_id: str, task: str) -> Node:
    """Let a planned node stand for a task of the store, once; again with the same task records its lock.

    Raises:
        GateRefused: it stands for another task (a contract change is a new node), or imports what was not handed over.
    """
    facts = task_facts(store, task)

    def decide(draft: log.Draft) -> None:
        node = node_in(draft.graph, node_id)
        if node.task not in (None, task):
            raise GateRefused(
                f"{node.id} stands for the task {node.task}: a contract change is a new node",
                next_step=f"infer-forge graph add NEW --task {task} --supersedes {node.id}",
            )
        if node.kind != TASK or node.type != facts.type:
            raise GateRefused(f"{node.id} is {node.type or node.kind}, the task is {facts.type}")
        if node.task == task and node.lock == facts.lock:
            return
        if node.lock and node.lock != facts.lock:
            raise GateRefused(f"the contract of {task} is not the one that {node.id} was bound to")
        if node.task is None:
            _require_unbound(draft.graph, task)
        replaced = _replaced(draft.graph, None, facts)
        author = node.author or (facts.authors[0] if facts.authors else None)
        draft.emit("node_bound", {"id": node.id, "task": task, "lock": facts.lock, "author": author})
        if replaced and replaced != node.id and draft.graph.nodes[replaced].judgement is None:
            why = f"its contract changed: {task} supersedes it"
            draft.emit("marked", {"id": replaced, "status": SUPERSEDED, "reason": why, "replaced_by": node.id})
        _require_imports(store, draft, node)

    graph = log.append(store, project, decide, f"bind {node_id}")
    return node_in(graph, node_id)


def task_facts(store: Store, task: str) -> TaskFacts:
    """The facts of a task that must be there.

    Raises:
        InputUnusable: it is not, or cannot be read.
    """
    found = facts_of(store, [task]).get(task)
    if found is None:
        raise InputUnusable(f"no task has the id {task!r}", next_step="infer-forge task list shows them")
    if found.status == UNREADABLE:
        raise InputUnusable(found.reason, where=task, next_step=f"infer-forge task verify {task}")
    return found


def _replaced(graph: Graph, supersedes: str | None, facts: TaskFacts | None) -> str | None:
    """The node that the new one takes the place of: as named, or as the task's definition says."""
    if supersedes:
        old = node_in(graph, supersedes)
        if old.replaced_by:
            raise GateRefused(f"{old.id} is superseded by {old.replaced_by}", next_step=f"supersede {old.replaced_by}")
        return old.id
    old = graph.node_of_task(facts.supersedes) if facts and facts.supersedes else None
    return old.id if old else None


def _require_unbound(graph: Graph, task: str | None) -> None:
    other = graph.node_of_task(task) if task else None
    if other is not None:
        raise GateRefused(f"the task {task} is the node {other.id}")


def _require_imports(store: Store, draft: log.Draft, node: Node) -> None:
    faults = import_faults(view_in(store, draft), node) if node.task else []
    if faults:
        raise GateRefused(
            "; ".join(faults[:4]),
            next_step=f"add the node without --task, link and hand over, then infer-forge graph bind {node.id} {node.task}",
        )


def mark(
    store: Store,
    project: str,
    node_id: str,
    status: str,
    *,
    reason: str = "",
    replaced_by: str | None = None,
    outcome: str | None = None,
    records: Sequence[str] = (),
    evidence: Sequence[str] = (),
) -> Node:
    """Judge a path (rejected, superseded, unreleased, withdrawn: with the reason), or record the status of a node without a task.

    Raises:
        UsageFault: the words are wrong. GateRefused: the rules forbid it.
    """
    if status not in (*JUDGEMENTS, *LIFECYCLE[1:]):
        raise UsageFault(f"a mark is one of {', '.join((*JUDGEMENTS, *LIFECYCLE[1:]))}")
    if status in JUDGEMENTS and len(reason.split()) < 2:
        raise UsageFault(f"{status} needs a reason: the path stays in the graph with it", next_step="--reason WHY")
    body = {
        "id": node_id,
        "status": status,
        "reason": reason or None,
        "replaced_by": replaced_by,
        "outcome": outcome,
        "records": list(records) or None,
        "evidence": list(evidence) or None,
    }

    def decide(draft: log.Draft) -> None:
        node = node_in(draft.graph, node_id)
        body["id"] = node.id
        judge = _require_judgement if status in JUDGEMENTS else _require_step
        judge(view_in(store, draft), node, body)
        draft.emit("marked", body)

    return node_in(log.append(store, project, decide, f"mark {node_id} {status}"), node_id)


def _require_judgement(view: View, node: Node, body: dict[str, Any]) -> None:
    status = body["status"]
    if node.kind == SHARED_REPO:
        raise GateRefused(f"{node.id} is a shared repo: only a path is judged")
    if node.judgement == SUPERSEDED or node.judgement == status:
        raise GateRefused(f"{node.id} is {node.judgement} already: {node.reason}")
    if (status == SUPERSEDED) != bool(body["replaced_by"]):
        raise GateRefused("superseded, and only that, names the node that took its place", next_step="--by NODE")
    if body["replaced_by"]:
        other = node_in(view.graph, body["replaced_by"])
        body["replaced_by"] = other.id
        if other.id == node.id:
            raise GateRefused("a node does not take its own place")
    if status == "withdrawn" and any(e.verified for e in view.out.get(node.id, ())):
        raise GateRefused(f"{node.id} has handed over: reject or supersede it")


def _require_step(view: View, node: Node, body: dict[str, Any]) -> None:
    status = body["status"]
    if node.kind != TASK:
        raise GateRefused(f"{node.id} is a {node.kind}: only a task is executed")
    if node.task:
        raise GateRefused(
            f"the status of {node.id} comes from its task {node.task}", next_step=f"infer-forge task status {node.task}"
        )
    if node.judgement:
        raise GateRefused(
            f"{node.id} is {node.judgement}: {node.reason}", next_step="rework is a new node: --supersedes"
        )
    if LIFECYCLE.index(status) <= LIFECYCLE.index(node.status) or node.ended_at:
        raise GateRefused(f"{node.id} is {node.status}; it does not become {status}", next_step="rework is a new node")
    waits = view.waits(node) if status != HANDED_OFF else []
    if waits:
        raise GateRefused(
            f"{node.id} is not ready: {'; '.join(waits[:3])}", next_step=f"infer-forge graph explain {node.id}"
        )
    if status != ACTIVE and node.status != ACTIVE:
        raise GateRefused(f"{node.id} was never active", next_step=f"infer-forge graph mark {node.id} active")
    fault = outcome_fault(node.type, status, body)
    if fault:
        raise GateRefused(f"{node.id}: {fault}")


def outcome_fault(type_: str | None, status: str, body: dict[str, Any]) -> str | None:
    """A delivered capability node has one outcome, with its evidence; no other has one."""
    outcome = body.get("outcome")
    if type_ == "capability" and status == DELIVERED:
        if outcome not in OUTCOMES:
            return f"a capability task ends with an outcome: {', '.join(OUTCOMES)} (--outcome)"
        if not (body.get("records") or body.get("evidence")):
            return "an outcome cites its evidence (--record or --evidence)"
        return None
    return "only a delivered capability task has an outcome" if outcome else None
