"""Where each element stands on the page: columns by the longest handoff path, lanes by workstream."""

from __future__ import annotations

from dataclasses import dataclass

from infer_forge.tasks.graph.model import HANDOFF, TASK, Edge, Node

WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 210, 54, 90, 18, 40
LANE_GAP, LANE_TITLE = 26, 24


@dataclass(frozen=True)
class Lane:
    """One workstream's strip of the page."""

    title: str
    top: float
    height: float


@dataclass(frozen=True)
class Plan:
    """Top left corner of every element, the lanes, and the size of the whole."""

    at: dict[str, tuple[float, float]]
    lanes: list[Lane]
    width: float
    height: float


def place(nodes: list[Node], edges: list[Edge]) -> Plan:
    """Place all elements: handoffs lead from left to right, and siblings stand near what they take from."""
    column = _columns(nodes, edges)
    before: dict[str, list[str]] = {}
    for edge in edges:
        if edge.kind == HANDOFF:
            before.setdefault(edge.target, []).append(edge.source)
    lanes: dict[str, list[Node]] = {}
    for node in nodes:
        title = (node.workstream or "across workstreams") if node.kind == TASK else "repos and external systems"
        lanes.setdefault(title, []).append(node)
    at, strips, top = dict[str, tuple[float, float]](), list[Lane](), float(MARGIN)
    for title in sorted(lanes, key=lambda t: (t == "repos and external systems", t == "across workstreams", t)):
        rows = _lane(lanes[title], column, before, at, top + LANE_TITLE, wrap=title == "repos and external systems")
        height = LANE_TITLE + rows * (HEIGHT + GAP_Y)
        strips.append(Lane(title, top, height))
        top += height + LANE_GAP
    right = max((x for x, _ in at.values()), default=0.0) + WIDTH + MARGIN
    return Plan(at, strips, right, top + MARGIN)


def _columns(nodes: list[Node], edges: list[Edge]) -> dict[str, int]:
    """Longest handoff path that leads to each task, in edges."""
    import networkx as nx

    names = {n.id for n in nodes if n.kind == TASK}
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from((e.source, e.target) for e in edges if e.kind == HANDOFF and {e.source, e.target} <= names)
    return {name: number for number, found in enumerate(nx.topological_generations(graph)) for name in found}


def _lane(
    nodes: list[Node],
    column: dict[str, int],
    before: dict[str, list[str]],
    at: dict[str, tuple[float, float]],
    top: float,
    *,
    wrap: bool,
) -> int:
    """Place one lane; how many rows it took."""
    widest = max(column.values(), default=3) + 1
    taken: dict[int, int] = {}
    for number, node in enumerate(sorted(nodes, key=lambda n: (column.get(n.id, 0), _height(n, before, at), n.seq))):
        here = number % widest if wrap else column[node.id]
        row = taken.get(here, 0)
        taken[here] = row + 1
        at[node.id] = (MARGIN + here * (WIDTH + GAP_X), top + row * (HEIGHT + GAP_Y))
    return max(taken.values(), default=0)


def _height(node: Node, before: dict[str, list[str]], at: dict[str, tuple[float, float]]) -> float:
    """Mean height of what a node takes from, as far as that is placed."""
    heights = [at[name][1] for name in before.get(node.id, ()) if name in at]
    return sum(heights) / len(heights) if heights else 0.0
