"""Reports on a graph: everything in it, what is ready, what depends on a node."""

from __future__ import annotations

from collections import deque
from typing import Any

from infer_forge.base.records import Finding, Header, Report
from infer_forge.base.tables import Column, Table
from infer_forge.tasks.graph.model import CONTROL, HANDOFF, STATE, TASK, Edge, Node
from infer_forge.tasks.graph.view import View


def begin(kind: str, view: View) -> Report:
    """A report on this graph, with what was read."""
    graph = view.graph
    coverage = {
        "nodes": len(graph.nodes),
        "edges": len(graph.edges),
        "events": graph.last_seq,
        "tasks": len(view.facts),
    }
    report = Report(kind, Header(coverage=coverage, more={"project": graph.project, "last_event": graph.last_sha[:16]}))
    if view.stale:
        report.findings.append(Finding("HUB_NOT_ASKED", f"what is known here is shown: {view.stale}"))
    return report


def _text(*names: str) -> list[Column]:
    return [Column(n, "text") for n in names]


NODE_COLUMNS = _text("node", "kind", "type", "goal", "workstream", "status", "suspect", "title", "reason")
EDGE_COLUMNS = _text("edge", "state", "result", "reviewer", "evidence", "note")


def node_row(view: View, node: Node) -> list[Any]:
    """A node in `NODE_COLUMNS`."""
    status = view.status(node) if node.kind == TASK else node.judgement
    outcome = node.outcome or (facts.outcome if (facts := view.of(node)) else None)
    said = view.reason(node) or (f"outcome {outcome}" if outcome else "")
    doubt = view.doubts.get(node.id)
    return [
        *(node.id, node.kind, node.type, node.goal, node.workstream),
        *(status, doubt.root if doubt else None, node.title, said or None),
    ]


def edge_state(edge: Edge) -> str:
    """planned, verified, imported or closed; of state and control edges recorded or closed."""
    if edge.closed is not None:
        return "closed"
    if edge.kind != HANDOFF:
        return "recorded"
    return "imported" if edge.imported_at else "verified" if edge.verified else "planned"


def edge_row(edge: Edge) -> list[Any]:
    """An edge in `EDGE_COLUMNS`."""
    evidence = edge.journal or (f"sha256 {edge.sha256[:12]}" if edge.sha256 else None)
    note = edge.closed or edge.cleared_why or edge.note or None
    return [edge.id, edge_state(edge), edge.result, edge.reviewer, evidence, note]


def chosen(view: View, goal: str | None = None, workstream: str | None = None) -> list[Node]:
    """The nodes of one goal and workstream, and the shared repos and external systems that an edge joins to them."""
    nodes = view.graph.nodes
    if goal is None and workstream is None:
        return list(nodes.values())
    inside = {
        n.id for n in nodes.values() if n.kind == TASK and goal in (None, n.goal) and workstream in (None, n.workstream)
    }
    near = set(inside)
    for edge in view.graph.open_edges():
        for one, other in ((edge.source, edge.target), (edge.target, edge.source)):
            if one in inside and nodes[other].kind != TASK:
                near.add(other)
    return [n for n in nodes.values() if n.id in near]


def show(view: View, goal: str | None = None, workstream: str | None = None) -> Report:
    """All elements and edges of the graph, or of its delivery or capability part."""
    report, nodes = begin("graph", view), chosen(view, goal, workstream)
    names = {n.id for n in nodes}
    edges = [e for e in view.graph.edges.values() if e.source in names and e.target in names]
    report.add(Table("nodes", NODE_COLUMNS, [node_row(view, n) for n in nodes]))
    report.add(Table("edges", EDGE_COLUMNS, [edge_row(e) for e in edges]))
    suspects = sum(1 for n in nodes if n.id in view.doubts)
    report.summary = [f"{view.graph.project}: {len(nodes)} elements, {len(edges)} edges, {suspects} suspect"]
    if not view.graph.nodes:
        report.next_step = "infer-forge graph add ID --type plan --title TITLE"
    return report


def ready(view: View) -> Report:
    """Task nodes that may begin, with what they import; and those that wait, with what for."""
    report = begin("graph_ready", view)
    free, waiting = list[list[Any]](), list[list[Any]]()
    for node in view.graph.nodes.values():
        if node.kind != TASK or node.judgement or view.lifecycle(node) not in ("planned", "defined"):
            continue
        waits = view.waits(node)
        if waits:
            waiting.append([node.id, node.type, node.workstream, len(waits), "; ".join(waits[:3])])
        else:
            imports = [e.source for e in view.into.get(node.id, ())]
            free.append([node.id, node.type, node.workstream, view.lifecycle(node), node.task, imports, node.title])
    columns = _text("node", "type", "workstream", "status", "task", "imports_from", "title")
    report.add(Table("ready", columns, free))
    columns = [*_text("node", "type", "workstream"), Column("waits", "int"), Column("for", "text")]
    report.add(Table("waiting", columns, waiting))
    report.summary = [f"{view.graph.project}: {len(free)} ready, {len(waiting)} waiting"]
    if free:
        first = free[0]
        named = first[4] or f"TASK, then infer-forge graph bind {first[0]} TASK"
        report.next_step = (
            f"infer-forge task start {named}" if first[4] else f"infer-forge task new --from FILE, as {named}"
        )
    return report


def impact(view: View, node_id: str) -> Report:
    """What would be doubtful, wait longer or be read differently if this node's result fell."""
    node = view.node(node_id)
    report = begin("graph_impact", view)
    found = _downstream(view, node)
    rows: list[list[Any]] = [
        [name, n.type, n.workstream, view.status(n), steps, _effect(n, edge), chain]
        for name, (steps, edge, chain) in found.items()
        if (n := view.graph.nodes[name]).id != node.id
    ]
    columns = [*_text("node", "type", "workstream", "status"), Column("distance", "int"), *_text("effect", "chain")]
    report.add(Table("affected", columns, rows))
    report.add(Table("shared", _text("repo", "written_by", "read_by"), _shared(view, set(found))))
    control = [
        [e.id, e.note or None] for e in view.graph.open_edges(CONTROL) if e.source == node.id or e.target == node.id
    ]
    report.add(Table("control", _text("edge", "note"), control))
    counts = {
        kind: sum(1 for r in rows if r[5].startswith(kind)) for kind in ("suspect", "waits", "judged", "receives")
    }
    report.extra["counts"] = counts
    report.summary = [
        f"{node.id} ({view.status(node)}): {len(rows)} nodes stand on it",
        f"if it fell, {counts['suspect']} would be suspect and {counts['waits']} would wait",
    ]
    return report


def _downstream(view: View, node: Node) -> dict[str, tuple[int, Edge | None, str]]:
    """Node -> (distance, the edge that reached it, the chain that leads there), nearest first."""
    found: dict[str, tuple[int, Edge | None, str]] = {node.id: (0, None, node.id)}
    queue = deque([node.id])
    while queue:
        name = queue.popleft()
        steps, _, chain = found[name]
        for edge in view.out.get(name, ()):
            if edge.target not in found:
                found[edge.target] = (steps + 1, edge, f"{chain} > {edge.target}")
                queue.append(edge.target)
    return found


def _effect(node: Node, edge: Edge | None) -> str:
    if node.kind != TASK:
        return "receives the result"
    if node.judgement:
        return f"judged {node.judgement} already"
    if edge is not None and edge.imported_at:
        return "suspect: it imported the result"
    return (
        "suspect: the result was handed over"
        if edge is not None and edge.verified
        else "waits: nothing was handed over"
    )


def _shared(view: View, names: set[str]) -> list[list[Any]]:
    """Shared repos that affected nodes write, with who reads them: no result crosses there, and state does."""
    writers: dict[str, list[str]] = {}
    readers: dict[str, list[str]] = {}
    for edge in view.graph.open_edges(STATE):
        (writers if edge.mode == "write" else readers).setdefault(edge.target, []).append(edge.source)
    return [
        [repo, touched, readers.get(repo, [])]
        for repo, found in writers.items()
        if (touched := [w for w in found if w in names])
    ]
