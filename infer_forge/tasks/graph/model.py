"""The graph's elements and edges, and its state as folded from events (B75 to B83)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

TASK, SHARED_REPO, EXTERNAL = "task", "shared_repo", "external"
ELEMENTS = (TASK, SHARED_REPO, EXTERNAL)
HANDOFF, STATE, CONTROL = "handoff", "state", "control"
EDGES = (HANDOFF, STATE, CONTROL)
MODES = ("read", "write")
ACTIONS = ("triggers", "returns", "redirects")
GOALS = ("delivery", "capability")
RESULTS = ("deliverable", "follow_up_handoff")
OUTCOMES = ("add", "update", "merge", "retire", "no_change")

PLANNED, ACTIVE, DELIVERED, HANDED_OFF = "planned", "active", "delivered", "handed_off"
LIFECYCLE = (PLANNED, ACTIVE, DELIVERED, HANDED_OFF)
REJECTED, SUPERSEDED, UNRELEASED, WITHDRAWN = "rejected", "superseded", "unreleased", "withdrawn"
JUDGEMENTS = (REJECTED, SUPERSEDED, UNRELEASED, WITHDRAWN)
UNSOUND = (REJECTED, SUPERSEDED, WITHDRAWN)
"""Judgements that make what a node handed over doubtful; an unreleased path is sound, it was only not taken."""


class Node(msgspec.Struct, gc=False):
    """One element. Times are ISO 8601, UTC.

    Attributes:
        type: task type of a task node. task, lock: the task of the store that it stands for, and its locked contract's hash.
        status: of a node without a task in the store: planned, active, delivered or handed_off, as somebody recorded it.
        judgement: what was decided on the path afterwards, with `reason`; `replaced_by` when another node took its place.
        outcome, records: of a capability node.
    """

    id: str
    kind: str
    title: str
    seq: int
    created_at: str
    type: str | None = None
    goal: str = "delivery"
    workstream: str | None = None
    author: str | None = None
    task: str | None = None
    lock: str | None = None
    url: str | None = None
    supersedes: str | None = None
    status: str = PLANNED
    started_at: str | None = None
    ended_at: str | None = None
    judgement: str | None = None
    judgement_seq: int = 0
    reason: str = ""
    replaced_by: str | None = None
    outcome: str | None = None
    records: list[str] = []
    evidence: list[str] = []


class Edge(msgspec.Struct, gc=False):
    """One edge from `source` to `target`.

    Attributes:
        action: of a control edge; mode: of a state edge.
        result, sha256, journal, reviewer: of a handoff edge that carries a verified result.
        imported_at: when the consumer took it. cleared_seq: until which event doubts about it were answered.
        closed: why a planned edge was taken out; it stays in the history.
    """

    id: str
    kind: str
    source: str
    target: str
    seq: int
    at: str
    note: str = ""
    action: str | None = None
    mode: str | None = None
    result: str | None = None
    sha256: str | None = None
    journal: str | None = None
    reviewer: str | None = None
    verified_at: str | None = None
    verified_seq: int = 0
    imported_at: str | None = None
    cleared_seq: int = 0
    cleared_why: str = ""
    closed: str | None = None

    @property
    def verified(self) -> bool:
        """Whether it carries a verified result."""
        return self.result is not None


def edge_id(kind: str, source: str, target: str, detail: str | None = None) -> str:
    """The name of an edge: `handoff:a>b`, `state.read:a>r`, `control.returns:b>a`."""
    return f"{kind}{f'.{detail}' if detail else ''}:{source}>{target}"


class Graph(msgspec.Struct):
    """All elements and edges after `last_seq` events; `last_file` is the first event of the last file read.

    Attributes:
        last_blob: git's name for that file's content, by which a kept state is held against the history.
    """

    project: str
    nodes: dict[str, Node] = {}
    edges: dict[str, Edge] = {}
    last_seq: int = 0
    last_sha: str = ""
    last_file: int = 0
    last_blob: str = ""

    def open_edges(self, kind: str | None = None) -> Iterator[Edge]:
        """Edges that were not taken out."""
        return (e for e in self.edges.values() if e.closed is None and (kind is None or e.kind == kind))

    def ways(self, kind: str) -> tuple[dict[str, list[Edge]], dict[str, list[Edge]]]:
        """Open edges of a kind, by target and by source."""
        into: dict[str, list[Edge]] = {}
        out: dict[str, list[Edge]] = {}
        for edge in self.edges.values():
            if edge.kind == kind and edge.closed is None:
                into.setdefault(edge.target, []).append(edge)
                out.setdefault(edge.source, []).append(edge)
        return into, out

    def node_of_task(self, task_id: str) -> Node | None:
        """The node that stands for a task of the store."""
        direct = self.nodes.get(task_id)
        if direct is not None and direct.task == task_id:
            return direct
        return next((n for n in self.nodes.values() if n.task == task_id), None)


def apply(graph: Graph, seq: int, kind: str, at: str, data: dict[str, Any]) -> None:
    """Fold one event into the graph. `data["at"]`, where a load of older history gives it, is when it happened."""
    at = data.get("at") or at
    _FOLD[kind](graph, seq, at, {k: v for k, v in data.items() if k != "at"})


def _node_added(graph: Graph, seq: int, at: str, data: dict[str, Any]) -> None:
    node = Node(seq=seq, created_at=at, **data)
    graph.nodes[node.id] = node
    old = graph.nodes.get(node.supersedes or "")
    if old is not None:
        old.replaced_by = node.id
        if old.judgement is None or old.judgement == UNRELEASED:
            old.judgement, old.judgement_seq, old.reason = SUPERSEDED, seq, f"superseded by {node.id}"


def _node_bound(graph: Graph, _seq: int, _at: str, data: dict[str, Any]) -> None:
    node = graph.nodes[data["id"]]
    node.task, node.lock = data["task"], data.get("lock")
    node.author = data.get("author") or node.author


def _linked(graph: Graph, seq: int, at: str, data: dict[str, Any]) -> None:
    edge = Edge(seq=seq, at=at, **data)
    graph.edges[edge.id] = edge


def _unlinked(graph: Graph, _seq: int, _at: str, data: dict[str, Any]) -> None:
    graph.edges[data["edge"]].closed = data["reason"]


def _handed_over(graph: Graph, seq: int, at: str, data: dict[str, Any]) -> None:
    edge = graph.edges[data["edge"]]
    edge.result, edge.sha256, edge.journal = data["result"], data.get("sha256"), data.get("journal")
    edge.reviewer, edge.verified_at, edge.verified_seq = data["reviewer"], at, seq


def _imported(graph: Graph, _seq: int, at: str, data: dict[str, Any]) -> None:
    graph.edges[data["edge"]].imported_at = at


def _rejudged(graph: Graph, seq: int, _at: str, data: dict[str, Any]) -> None:
    edge = graph.edges[data["edge"]]
    edge.cleared_seq, edge.cleared_why = seq, f"{data['reviewer']}: {data['reason']}"


def _marked(graph: Graph, seq: int, at: str, data: dict[str, Any]) -> None:
    node, status = graph.nodes[data["id"]], data["status"]
    node.evidence = [*node.evidence, *data.get("evidence", [])]
    node.reason = data.get("reason") or node.reason
    if status in JUDGEMENTS:
        node.judgement, node.judgement_seq = status, seq
        node.replaced_by = data.get("replaced_by") or node.replaced_by
        return
    node.status = status
    node.outcome, node.records = data.get("outcome") or node.outcome, data.get("records") or node.records
    if status == ACTIVE:
        node.started_at = at
    elif status in (DELIVERED, HANDED_OFF):
        node.ended_at = at


_FOLD = {
    "node_added": _node_added,
    "node_bound": _node_bound,
    "linked": _linked,
    "unlinked": _unlinked,
    "handed_over": _handed_over,
    "imported": _imported,
    "rejudged": _rejudged,
    "marked": _marked,
}
