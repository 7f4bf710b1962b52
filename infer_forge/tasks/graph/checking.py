"""The whole graph held against its rules; imports of tasks that no verified handoff covers."""

from __future__ import annotations

import contextlib
import datetime

from infer_forge.base.errors import InputUnusable
from infer_forge.base.gitstore import HubUnreachable, Store
from infer_forge.base.records import Header, Report
from infer_forge.base.tables import Column, Table
from infer_forge.tasks import restoring
from infer_forge.tasks.graph import log
from infer_forge.tasks.graph.facts import UNREADABLE
from infer_forge.tasks.graph.model import HANDOFF, TASK, UNSOUND, Node, edge_id
from infer_forge.tasks.graph.rules import edge_faults
from infer_forge.tasks.graph.view import IN_FLIGHT, MISSING, View, look

PASS, FAIL, UNKNOWN = "pass", "fail", "unknown"


def import_faults(view: View, node: Node) -> list[str]:
    """Imported context of a node's task that names an element of the graph, and crossed no verified handoff edge."""
    facts, found = view.of(node), list[str]()
    for item in facts.imports if facts else []:
        for name in item:
            source = view.graph.nodes.get(name) or view.graph.node_of_task(name)
            if source is None or source.id == node.id or source.kind != TASK:
                continue
            edge = view.graph.edges.get(edge_id(HANDOFF, source.id, node.id))
            if edge is None or edge.closed is not None or not edge.verified:
                found.append(f"{node.id} imports from {source.id}, which was not verified and handed over to it")
    return sorted(set(found))


def start_faults(store: Store, task_id: str) -> list[str]:
    """Why a task that is in a graph of the store may not begin; empty when it may, or is in no graph.

    Raises:
        InputUnusable: a graph cannot be read, and its history does not show that it never spoke of the task.
    """
    if store.remote is not None:
        with contextlib.suppress(HubUnreachable):  # told when the store was opened
            store.refresh(log.PREFIX)
    found: list[str] = []
    for project in log.projects(store):
        try:
            named = log.load(store, project).node_of_task(task_id) is not None
        except InputUnusable as exc:
            if not restoring.never_named(store, log.ref_of(project), task_id):
                raise InputUnusable(
                    f"whether it lets {task_id} begin cannot be seen: {exc.what}",
                    where=exc.where,
                    next_step=exc.next_step,
                ) from None
            named = False
        found += _start_faults(look(store, project), task_id) if named else []
    return found


def _start_faults(view: View, task_id: str) -> list[str]:
    node = view.node(task_id)
    judged = [f"{node.id} is {node.judgement}: {node.reason}"] if node.judgement else []
    return [*judged, *import_faults(view, node), *view.waits(node)]


def ended_before_created(view: View, node: Node) -> bool:
    """Whether its times tell a lifetime that never was."""
    created, _, ended = view.times(node)
    return ended is not None and _time(ended) < _time(created)


def _time(text: str) -> datetime.datetime:
    found = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return found if found.tzinfo else found.replace(tzinfo=datetime.timezone.utc)


def check(store: Store, project: str = log.DEFAULT_PROJECT) -> tuple[Report, str]:
    """Read the whole history, check its chain, and hold every element against the rules.

    Returns:
        The report, and pass, fail or unknown (a task is not in this store, so that its node cannot be checked).
    """
    view = look(store, project, whole=True)
    rows = [*_edge_rows(view), *_node_rows(view), *cycle_rows(view)]
    verdict = FAIL if any(r[1] == FAIL for r in rows) else UNKNOWN if rows else PASS
    report = Report("graph_check", Header(coverage={"nodes": len(view.graph.nodes), "events": view.graph.last_seq}))
    report.extra["verdict"] = verdict
    report.summary = [
        f"{project}: {verdict}; {len(rows)} faults in {len(view.graph.nodes)} nodes, {len(view.graph.edges)} edges"
    ]
    report.add(Table("faults", [Column("where", "text"), Column("result", "text"), Column("fault", "text")], rows))
    return report, verdict


def _edge_rows(view: View) -> list[list[str]]:
    return [[e.id, FAIL, fault] for e in view.graph.open_edges() for fault in edge_faults(view, e)]


def _node_rows(view: View) -> list[list[str]]:
    rows: list[list[str]] = []
    for node in view.graph.nodes.values():
        facts, status = view.of(node), view.lifecycle(node)
        if status in (MISSING, UNREADABLE):
            rows.append([node.id, UNKNOWN, f"its task {node.task} is {status} in this store"])
            continue
        rows += [[node.id, FAIL, fault] for fault in import_faults(view, node)]
        if facts and node.lock and facts.lock != node.lock:
            rows.append([node.id, FAIL, "the contract of its task is not the one it was bound to"])
        if ended_before_created(view, node):
            rows.append([node.id, FAIL, "it ended before it was created"])
        if status in IN_FLIGHT and node.judgement is None:
            waits = [e.source for e in view.into.get(node.id, ()) if not e.verified]
            rows += [[node.id, FAIL, f"it was started before {name} was handed over to it"] for name in waits]
        if node.judgement in UNSOUND and status in IN_FLIGHT:
            rows.append([node.id, FAIL, f"its task goes on, and the node is {node.judgement}"])
    return rows


def cycle_rows(view: View) -> list[list[str]]:
    """A cycle of handoffs, found by taking away what nobody waits for; only a changed history can hold one."""
    left = {n: sum(1 for _ in view.into.get(n, ())) for n in view.graph.nodes}
    free = [n for n, count in left.items() if not count]
    while free:
        for edge in view.out.get(free.pop(), ()):
            left[edge.target] -= 1
            if not left[edge.target]:
                free.append(edge.target)
    bound = sorted(n for n, count in left.items() if count)
    return [[", ".join(bound[:8]), FAIL, "handoffs form a cycle among these"]] if bound else []
