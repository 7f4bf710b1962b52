"""What an edge may be: pure functions from a view to faults, used when an edge is written and again by `graph check`."""

from __future__ import annotations

from collections.abc import Iterator

from infer_forge.tasks.graph.model import (
    ACTIONS,
    CONTROL,
    HANDOFF,
    MODES,
    SHARED_REPO,
    STATE,
    TASK,
    Edge,
    Node,
)
from infer_forge.tasks.graph.view import View
from infer_forge.tasks.people import same_person

# Where a type stands in the delivery order; a type that is not named stands beside research and code.
_STAGE = {"plan": 0, "research": 1, "code": 1, "integration": 2, "evaluation": 3, "release": 4}
_GATES = ("integration", "evaluation")


def _stage(node: Node) -> int:
    return _STAGE.get(node.type or "", 1) if node.kind == TASK else 0


def edge_faults(view: View, edge: Edge) -> list[str]:
    """Everything that is wrong with an edge as it stands in the graph."""
    source, target = view.graph.nodes[edge.source], view.graph.nodes[edge.target]
    if source.id == target.id:
        return ["an edge joins two different elements"]
    checks = {HANDOFF: _handoff, STATE: _state, CONTROL: _control}
    return list(checks[edge.kind](view, edge, source, target))


def _handoff(view: View, edge: Edge, source: Node, target: Node) -> Iterator[str]:
    if source.kind != TASK:
        yield f"only a task hands over a verified result, and {source.id} is a {source.kind}: use a control or state edge"
    if target.kind == SHARED_REPO:
        yield f"{target.id} is a shared repo: what is written to it is a state edge"
    if edge.action or edge.mode:
        yield "a handoff has neither action nor mode"
    if target.type == "release" and source.type not in ("evaluation", "release", "plan"):
        yield f"a release takes its candidate from an evaluation, and {source.id} is {source.type}"
    if edge.reviewer and any(same_person(edge.reviewer, a) for a in view.authors(source)):
        yield f"the reviewer {edge.reviewer} is an author of {source.id}: the reviewer is somebody else"
    if edge.imported_at and not edge.verified:
        yield f"{target.id} imported from {source.id} before it was verified and handed over"


def _state(_: View, edge: Edge, source: Node, target: Node) -> Iterator[str]:
    if target.kind != SHARED_REPO or source.kind == SHARED_REPO:
        yield "a state edge goes from a task or external system to a shared repo"
    if edge.mode not in MODES:
        yield f"a state edge says whether it reads or writes (mode {' or '.join(MODES)})"
    if edge.result or edge.action:
        yield "a state edge carries neither a result nor an action: it implies no completion and no verification"


def _control(view: View, edge: Edge, source: Node, target: Node) -> Iterator[str]:
    if target.kind == SHARED_REPO:
        yield "a control edge goes to a task or an external system"
    if edge.action not in ACTIONS:
        yield f"a control edge says what it does: {', '.join(ACTIONS)}"
    if edge.result or edge.sha256 or edge.mode:
        yield "a control edge carries no result: that is a handoff's"
    gates = bypassed(view, source, target)
    if gates:
        yield f"it would go round {' and '.join(gates)}: {target.id} has no handoff path through {'them' if len(gates) > 1 else 'it'}"


def bypassed(view: View, source: Node, target: Node) -> list[str]:
    """Gates that a control edge from `source` would skip: they lie between the two, and no handoff path passes them.

    For a task the path must begin at that task; for an external system or shared repo any path into the target counts,
    and only an evaluation is asked for.
    """
    if target.kind != TASK:
        return []
    asked = _GATES if source.kind == TASK else ("evaluation",)
    skipped = [g for g in asked if _stage(source) < _STAGE[g] < _stage(target)]
    if not skipped:
        return []
    above = _reached(view, target.id, up=True)
    if source.kind == TASK:
        above &= _reached(view, source.id, up=False)
    passed = {view.graph.nodes[name].type for name in above}
    return [g for g in skipped if g not in passed]


def _reached(view: View, start: str, *, up: bool) -> set[str]:
    """Nodes that handoffs reach from `start`, itself left out."""
    edges = view.into if up else view.out
    found, queue = set[str](), [start]
    while queue:
        for edge in edges.get(queue.pop(), ()):
            other = edge.source if up else edge.target
            if other not in found:
                found.add(other)
                queue.append(other)
    return found


def closes_cycle(view: View, source: str, target: str) -> list[str]:
    """The handoff path from `target` back to `source` that a handoff from `source` to `target` would close; empty: none."""
    parent: dict[str, str] = {}
    queue = [target]
    while queue:
        name = queue.pop()
        if name == source:
            path = [name]
            while path[-1] != target:
                path.append(parent[path[-1]])
            return path[::-1]
        for edge in view.out.get(name, ()):
            if edge.target not in parent and edge.target != target:
                parent[edge.target] = name
                queue.append(edge.target)
    return []
