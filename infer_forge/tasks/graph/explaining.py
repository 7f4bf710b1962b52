"""Why a node is as it is: its evidence, what it waits for, the doubt on it, and the paths that were not taken (B76)."""

from __future__ import annotations

from typing import Any

from infer_forge.base.gitstore import Store
from infer_forge.base.records import Report
from infer_forge.base.tables import Column, Table
from infer_forge.tasks.graph import log
from infer_forge.tasks.graph.answers import EDGE_COLUMNS, begin, edge_row, node_row
from infer_forge.tasks.graph.model import CONTROL, JUDGEMENTS, STATE, TASK, Node
from infer_forge.tasks.graph.view import View, look


def explain(store: Store, node_id: str, project: str = log.DEFAULT_PROJECT) -> Report:
    """Everything recorded on one node.

    Raises:
        InputUnusable: the graph has no such node.
    """
    view = look(store, project)
    node = view.node(node_id)
    report = begin("graph_explain", view)
    waits = view.waits(node) if node.kind == TASK else []
    doubt = view.doubts.get(node.id)
    created, started, ended = view.times(node)
    facts = view.of(node)
    report.extra["node"] = {
        "id": node.id,
        "kind": node.kind,
        "type": node.type,
        "goal": node.goal,
        "title": node.title,
        "workstream": node.workstream,
        "status": view.status(node),
        "status_from": ("task store" if node.task else "recorded in the graph") if node.kind == TASK else None,
        "reason": view.reason(node) or None,
        "authors": view.authors(node),
        "task": node.task,
        "lock": (facts.lock if facts else None) or node.lock,
        "created": created,
        "started": started,
        "ended": ended,
        "supersedes": node.supersedes,
        "replaced_by": node.replaced_by,
        "outcome": node.outcome or (facts.outcome if facts else None),
        "evidence": [*node.evidence, *node.records, *(facts.records if facts else [])],
        "ready": view.is_ready(node),
        "waits": waits,
        "suspect_chain": list(doubt.chain) if doubt else None,
    }
    report.summary = _summary(view, node, waits)
    _edge_tables(report, view, node)
    rows = alternatives(view, node)
    report.add(
        Table("not_taken", [Column(c, "text") for c in ("node", "status", "how_it_relates", "title", "reason")], rows)
    )
    report.add(_history(store, project, node))
    report.next_step = _next(view, node, waits)
    return report


def _summary(view: View, node: Node, waits: list[str]) -> list[str]:
    row = node_row(view, node)
    lines = [f"{node.id}: {node.type or node.kind}, {row[5] or 'no status'}: {node.title}"]
    if node.reason:
        lines.append(f"why: {node.reason}")
    if node.id in view.doubts:
        lines.append(f"suspect: {view.doubts[node.id].why}")
    elif waits and view.lifecycle(node) in ("planned", "defined"):
        lines.append(f"not ready: {'; '.join(waits)}")
    elif view.is_ready(node):
        lines.append("ready: all that it imports was verified and handed over")
    return lines


def _edge_tables(report: Report, view: View, node: Node) -> None:
    edges = [e for e in view.graph.edges.values() if node.id in (e.source, e.target)]
    for name, wanted in (
        ("imports", [e for e in edges if e.kind == "handoff" and e.target == node.id]),
        ("hands_over", [e for e in edges if e.kind == "handoff" and e.source == node.id]),
        ("state", [e for e in edges if e.kind == STATE]),
        ("control", [e for e in edges if e.kind == CONTROL]),
    ):
        report.add(Table(name, EDGE_COLUMNS, [edge_row(e) for e in wanted]))


def alternatives(view: View, node: Node) -> list[list[Any]]:
    """Judged paths beside a node: what it superseded, and rejected or unreleased nodes with the same producer or consumer."""
    related: dict[str, str] = {}
    before: Node | None = node
    while before is not None and before.supersedes and before.supersedes not in related:
        related[before.supersedes] = f"superseded by {before.id}"
        before = view.graph.nodes.get(before.supersedes)
    for edge in view.into.get(node.id, ()):
        related.setdefault(edge.source, "its producer")
        replaced = view.graph.nodes[edge.source].supersedes
        if replaced:
            related.setdefault(replaced, f"{edge.source} took its place")
        for other in view.out.get(edge.source, ()):
            related.setdefault(other.target, f"also takes from {edge.source}")
    for edge in view.out.get(node.id, ()):
        for other in view.into.get(edge.target, ()):
            related.setdefault(other.source, f"also hands over to {edge.target}")
    related.pop(node.id, None)
    nodes = view.graph.nodes
    return [
        [name, n.judgement, how, n.title, n.reason]
        for name, how in related.items()
        if (n := nodes[name]).judgement in JUDGEMENTS
    ]


def _history(store: Store, project: str, node: Node) -> Table:
    rows = [
        [e.seq, e.at, e.by, e.kind, _told(e.data)]
        for e in log.events(store, project)
        if node.id in (e.data.get("id"), e.data.get("source"), e.data.get("target")) or _names(e.data, node.id)
    ]
    return Table("history", [Column("event", "int"), *(Column(c, "text") for c in ("at", "by", "kind", "what"))], rows)


def _names(data: dict[str, Any], node_id: str) -> bool:
    edge = str(data.get("edge") or "")
    return node_id in edge.partition(":")[2].split(">") or node_id in (data.get("supersedes"), data.get("replaced_by"))


def _told(data: dict[str, Any]) -> str:
    if "edge" in data:
        told = (f"{k} {str(v)[:12] if k == 'sha256' else v}" for k, v in data.items() if k != "edge" and v)
        return ", ".join([str(data["edge"]), *told])
    keep = ("title", "status", "reason", "task", "outcome", "replaced_by", "supersedes")
    if "source" in data:
        return str(data["id"])
    return ", ".join(f"{k} {data[k]}" for k in keep if data.get(k))


def _next(view: View, node: Node, waits: list[str]) -> str:
    if node.id in view.doubts:
        before = view.doubts[node.id].chain[-2]
        return f"infer-forge graph rejudge {before} {node.id} --reviewer NAME --reason WHY, or a new node that supersedes it"
    if node.judgement:
        return f"infer-forge graph explain {node.replaced_by}" if node.replaced_by else ""
    open_edge = next((e for e in view.into.get(node.id, ()) if not e.verified), None)
    if open_edge is not None and view.lifecycle(view.graph.nodes[open_edge.source]) in ("delivered", "handed_off"):
        return f"infer-forge graph handover {open_edge.source} {node.id} --reviewer NAME"
    if waits and open_edge is not None:
        return f"infer-forge graph explain {open_edge.source}"
    return ""
