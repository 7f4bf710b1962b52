"""A graph together with its tasks: status of every node, and which nodes became suspect through which chain."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from infer_forge.base.errors import InputUnusable
from infer_forge.base.gitstore import HubUnreachable, Store
from infer_forge.tasks import events as history
from infer_forge.tasks.graph import log
from infer_forge.tasks.graph.facts import TaskFacts, facts_of
from infer_forge.tasks.graph.model import (
    ACTIVE,
    DELIVERED,
    HANDED_OFF,
    HANDOFF,
    PLANNED,
    TASK,
    UNSOUND,
    Edge,
    Graph,
    Node,
)

IN_FLIGHT = (ACTIVE, "blocked", "budget_exhausted")
DONE = (DELIVERED, HANDED_OFF)
MISSING = "missing"


@dataclass(frozen=True)
class Doubt:
    """Why a node is suspect: the unsound node where it begins, and the chain from there to here, both ends included."""

    root: str
    chain: tuple[str, ...]
    why: str


@dataclass
class View:
    """A graph as it stands, with its tasks' facts.

    Attributes:
        doubts: suspect node -> why.
        stale: why the hub could not be asked, when it could not.
    """

    graph: Graph
    facts: dict[str, TaskFacts]
    doubts: dict[str, Doubt] = field(default_factory=dict[str, Doubt])
    into: dict[str, list[Edge]] = field(default_factory=dict[str, list[Edge]])
    out: dict[str, list[Edge]] = field(default_factory=dict[str, list[Edge]])
    stale: str | None = None

    def node(self, node_id: str) -> Node:
        """A node by id, or by the id of the task that it stands for.

        Raises:
            InputUnusable: there is none.
        """
        found = self.graph.nodes.get(node_id) or self.graph.node_of_task(node_id)
        if found is None:
            raise InputUnusable(
                f"the graph {self.graph.project} has no node {node_id!r}", next_step="infer-forge graph show lists them"
            )
        return found

    def of(self, node: Node) -> TaskFacts | None:
        """The facts of the task that a node stands for."""
        return self.facts.get(node.task) if node.task else None

    def status(self, node: Node) -> str:
        """planned, defined, active, blocked, budget_exhausted, delivered, handed_off; or the judgement on it."""
        return node.judgement or self.lifecycle(node)

    def lifecycle(self, node: Node) -> str:
        """The status without the judgement; `missing` when its task is not in the store."""
        if node.task is None:
            return node.status
        facts = self.facts.get(node.task)
        return facts.status if facts else MISSING

    def reason(self, node: Node) -> str:
        """Why it is judged, blocked or abandoned."""
        facts = self.of(node)
        return node.reason or (facts.reason if facts else "")

    def times(self, node: Node) -> tuple[str, str | None, str | None]:
        """When it was created, started and ended."""
        facts = self.of(node)
        if facts is None:
            return node.created_at, node.started_at, node.ended_at
        return facts.created_at or node.created_at, facts.started_at, facts.ended_at

    def authors(self, node: Node) -> list[str]:
        """Who made it: as the node says, and as its task's records say."""
        facts = self.of(node)
        return sorted({*([node.author] if node.author else []), *(facts.authors if facts else [])})

    def waits(self, node: Node) -> list[str]:
        """What a task node still waits for; empty: everything that comes from upstream is verified and sound."""
        found = list[str]()
        edges = self.into.get(node.id, [])
        for edge in edges:
            source = self.graph.nodes[edge.source]
            if self._answered(edge):
                continue
            if source.judgement in UNSOUND:
                found.append(f"{edge.source} is {source.judgement}: link its replacement, or unlink it")
            elif edge.source in self.doubts:
                found.append(f"{edge.source} is suspect")
            elif not edge.verified:
                state = self.status(source)
                said = "ended, and is not handed over" if state in DONE else f"is {state}"
                found.append(f"{edge.source} {said}")
        if node.type == "release" and not any(
            e.verified and self.graph.nodes[e.source].type in ("evaluation", "release") for e in edges
        ):
            found.append("no evaluation has handed over to it")
        if node.id in self.doubts:
            found.append(self.doubts[node.id].why)
        return found

    def _answered(self, edge: Edge) -> bool:
        """Whether a reviewer said of this result that it holds, after its producer was judged or became suspect."""
        doubt = self.doubts.get(edge.source)
        root = self.graph.nodes[doubt.root if doubt else edge.source]
        return edge.verified and root.judgement in UNSOUND and edge.cleared_seq > root.judgement_seq

    def is_ready(self, node: Node) -> bool:
        """Whether work on it may begin."""
        startable = node.kind == TASK and node.judgement is None and self.lifecycle(node) in (PLANNED, "defined")
        return startable and not self.waits(node)


def view_of(graph: Graph, facts: dict[str, TaskFacts]) -> View:
    """The view of a graph and facts that are at hand."""
    into, out = graph.ways(HANDOFF)
    view = View(graph, facts, into=into, out=out)
    view.doubts = _doubts(view)
    return view


def look(store: Store, project: str = log.DEFAULT_PROJECT, *, whole: bool = False) -> View:
    """Read a graph and the tasks of its nodes; from the hub where there is one and it answers.

    Raises:
        InputUnusable: the history was changed, or there is no such graph (`main` is there always, at first empty).
    """
    stale = None
    if store.remote is not None:
        try:
            store.refresh(log.ref_of(project), history.PREFIX)
        except HubUnreachable as exc:
            stale = str(exc.what)
    graph = log.load(store, project, whole=whole)
    if not graph.last_seq and project != log.DEFAULT_PROJECT:
        raise InputUnusable(
            f"there is no graph {project!r}",
            next_step=f"--project {', '.join(log.projects(store)) or log.DEFAULT_PROJECT}",
        )
    view = view_of(graph, facts_of(store, [n.task for n in graph.nodes.values() if n.task], whole=whole))
    view.stale = stale
    return view


def _doubts(view: View) -> dict[str, Doubt]:
    """Every consumer of an unsound result, through verified handoffs.

    An edge whose doubt was answered after the judgement lets it through no more. Roots go newest first: what a newer
    judgement has reached, an older one cannot carry further, so that every node is visited once.
    """
    nodes, found = view.graph.nodes, dict[str, Doubt]()
    roots = sorted((n for n in nodes.values() if n.judgement in UNSOUND), key=lambda n: -n.judgement_seq)
    for root in roots:
        first: tuple[str, ...] = (root.id,)
        queue: deque[tuple[str, tuple[str, ...]]] = deque([(root.id, first)])
        while queue:
            name, chain = queue.popleft()
            for edge in view.out.get(name, ()):
                target = nodes[edge.target]
                if not edge.verified or edge.cleared_seq > root.judgement_seq or target.kind != TASK:
                    continue
                if target.id in found or target.judgement in UNSOUND:
                    continue
                whole = (*chain, target.id)
                said = f": {root.reason}" if root.reason else ""
                found[target.id] = Doubt(root.id, whole, f"{' > '.join(whole)}: {root.id} is {root.judgement}{said}")
                queue.append((target.id, whole))
    return found
