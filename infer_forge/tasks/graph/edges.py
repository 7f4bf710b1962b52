"""Edges: link and unlink, hand a verified result over, import it, answer a doubt about it."""

from __future__ import annotations

from infer_forge.base.errors import GateRefused, UsageFault
from infer_forge.base.gitstore import Store
from infer_forge.tasks import printed
from infer_forge.tasks.graph import log
from infer_forge.tasks.graph.build import node_in, view_in
from infer_forge.tasks.graph.model import EDGES, HANDOFF, RESULTS, TASK, UNSOUND, Edge, Node, edge_id
from infer_forge.tasks.graph.rules import closes_cycle, edge_faults
from infer_forge.tasks.graph.view import DONE, View
from infer_forge.tasks.people import same_person


def link(
    store: Store,
    project: str,
    source: str,
    target: str,
    kind: str = HANDOFF,
    *,
    action: str | None = None,
    mode: str | None = None,
    note: str = "",
) -> Edge:
    """Add an edge; one that stands already is found, not doubled.

    Args:
        kind: handoff (the only one that may carry a verified result), state (mode read or write), control (action
            triggers, returns or redirects).

    Raises:
        UsageFault: no such kind. GateRefused: naming every rule that it breaks.
    """
    if kind not in EDGES:
        raise UsageFault(f"an edge is one of {', '.join(EDGES)}")
    made: list[str] = []

    def decide(draft: log.Draft) -> None:
        a, b = node_in(draft.graph, source), node_in(draft.graph, target)
        name = edge_id(kind, a.id, b.id, action or mode)
        made[:] = [name]
        old = draft.graph.edges.get(name)
        if old is not None and old.closed is None:
            return
        view = view_in(store, draft)
        faults = edge_faults(view, Edge(name, kind, a.id, b.id, 0, "", note, action, mode))
        faults += _new_faults(view, kind, a, b)
        if faults:
            raise GateRefused("; ".join(faults), where=name)
        draft.emit(
            "linked",
            {"id": name, "kind": kind, "source": a.id, "target": b.id, "action": action, "mode": mode, "note": note},
        )

    return log.append(store, project, decide, f"link {source} {target}").edges[made[0]]


def _new_faults(view: View, kind: str, source: Node, target: Node) -> list[str]:
    """What forbids a new edge, beside the rules that hold for every edge."""
    found = [
        f"{n.id} is {n.judgement}: {n.reason}" for n in (source, target) if kind == HANDOFF and n.judgement in UNSOUND
    ]
    if kind == HANDOFF:
        cycle = closes_cycle(view, source.id, target.id)
        if cycle:
            path = " > ".join([source.id, *cycle])
            found.append(
                f"it would close a cycle of handoffs: {path}; rework is a control edge (returns) and a new node"
            )
        if target.kind == TASK and view.lifecycle(target) in DONE:
            found.append(f"{target.id} has ended: it imports nothing more")
    return found


def unlink(store: Store, project: str, edge: str, reason: str) -> Edge:
    """Take a planned edge out of the graph, with the reason; it stays in the history.

    Raises:
        GateRefused: it carries a verified result, or a control edge needs it to pass integration or evaluation.
    """
    if len(reason.split()) < 2:
        raise UsageFault("say why the edge goes", next_step="--reason WHY")

    def decide(draft: log.Draft) -> None:
        found = draft.graph.edges.get(edge)
        if found is None or found.closed is not None:
            raise GateRefused(f"no open edge is named {edge}", next_step="infer-forge graph show lists them")
        if found.verified:
            raise GateRefused(
                "what was handed over stays", where=edge, next_step=f"infer-forge graph mark {found.source} rejected"
            )
        before = _broken(view_in(store, draft))
        draft.emit("unlinked", {"edge": edge, "reason": reason})
        after = {k: v for k, v in _broken(view_in(store, draft)).items() if k not in before}
        if after:
            raise GateRefused("; ".join(f"{k}: {v[0]}" for k, v in after.items()), next_step="unlink these first")

    return log.append(store, project, decide, f"unlink {edge}").edges[edge]


def _broken(view: View) -> dict[str, list[str]]:
    return {e.id: faults for e in view.graph.open_edges("control") if (faults := edge_faults(view, e))}


def _handoff_in(draft: log.Draft, producer: str, consumer: str) -> tuple[Edge, Node, Node]:
    a, b = node_in(draft.graph, producer), node_in(draft.graph, consumer)
    edge = draft.graph.edges.get(edge_id(HANDOFF, a.id, b.id))
    if edge is None or edge.closed is not None:
        raise GateRefused(
            f"no handoff edge leads from {a.id} to {b.id}", next_step=f"infer-forge graph link {a.id} {b.id}"
        )
    return edge, a, b


def hand_over(
    store: Store,
    project: str,
    producer: str,
    consumer: str,
    *,
    reviewer: str,
    sha256: str | None = None,
    journal: str | None = None,
) -> Edge:
    """Let a planned handoff carry the producer's result, which `reviewer` (never an author of it) verified.

    Args:
        sha256, journal: the evidence of a producer without a task in the store; for one with a task they come from it.

    Raises:
        GateRefused: it has not ended, is not archived, was rejected, is suspect, or the reviewer is its author.
    """
    if not reviewer.strip():
        raise UsageFault("a handoff names its reviewer")

    def decide(draft: log.Draft) -> None:
        edge, source, target = _handoff_in(draft, producer, consumer)
        view = view_in(store, draft)
        if edge.verified:
            if (edge.reviewer, source.judgement) == (reviewer, None):
                return
            raise GateRefused(f"it was handed over, verified by {edge.reviewer}", where=edge.id)
        result, sha, record = _result(view, source, sha256, journal)
        draft.emit(
            "handed_over",
            {"edge": edge.id, "result": result, "sha256": sha, "journal": record, "reviewer": reviewer.strip()},
        )
        faults = edge_faults(view_in(store, draft), draft.graph.edges[edge.id])
        faults += [f"{target.id} has ended"] if target.kind == TASK and view.lifecycle(target) in DONE else []
        if faults:
            raise GateRefused("; ".join(faults), where=edge.id)

    graph = log.append(store, project, decide, f"hand over {producer} {consumer}")
    return graph.edges[edge_id(HANDOFF, node_in(graph, producer).id, node_in(graph, consumer).id)]


def _result(view: View, source: Node, sha256: str | None, journal: str | None) -> tuple[str, str | None, str | None]:
    """What the producer hands over: which of the two results, its hash, its journal record."""
    status = view.lifecycle(source)
    if source.judgement in UNSOUND:
        raise GateRefused(f"{source.id} is {source.judgement}: {source.reason}")
    if source.id in view.doubts:
        raise GateRefused(
            f"{source.id} is suspect: {view.doubts[source.id].why}",
            next_step=f"infer-forge graph rejudge {view.doubts[source.id].chain[-2]} {source.id} --reviewer NAME --reason WHY",
        )
    if status not in DONE:
        raise GateRefused(f"{source.id} is {status}: nothing is handed over before it has ended")
    facts = view.of(source)
    if facts is not None:
        if facts.journal is None or facts.sha256 is None:
            raise GateRefused(f"{source.id} is not archived", next_step=printed.deliver(str(source.task)))
        if sha256 not in (None, facts.sha256):
            raise GateRefused(f"the task {source.task} ended with {facts.sha256[:12]}, not with that hash")
        return str(facts.result), facts.sha256, facts.journal
    if not (sha256 or journal):
        raise GateRefused(f"{source.id} has no task in the store: name the evidence", next_step="--sha256 or --journal")
    if sha256 is not None and (len(sha256) != 64 or set(sha256) - set("0123456789abcdef")):
        raise GateRefused("a sha256 is 64 hexadecimal digits")
    return RESULTS[0] if status == "delivered" else RESULTS[1], sha256, journal


def take_import(store: Store, project: str, consumer: str, producer: str) -> Edge:
    """Record that the consumer took the producer's result into its starting context.

    Raises:
        GateRefused: it was not verified and handed over, or is suspect or unsound by now.
    """

    def decide(draft: log.Draft) -> None:
        edge, source, target = _handoff_in(draft, producer, consumer)
        view = view_in(store, draft)
        if not edge.verified:
            raise GateRefused(
                f"nothing is imported before it is verified and handed over: {source.id} is {view.status(source)}",
                next_step=f"infer-forge graph handover {source.id} {target.id} --reviewer NAME",
            )
        if source.judgement in UNSOUND or source.id in view.doubts:
            said = f"{source.judgement}: {source.reason}" if source.judgement in UNSOUND else "suspect"
            raise GateRefused(f"{source.id} is {said}", next_step=f"infer-forge graph explain {source.id}")
        if view.lifecycle(target) in DONE or target.judgement:
            raise GateRefused(f"{target.id} is {view.status(target)}: it imports nothing more")
        if edge.imported_at is None:
            draft.emit("imported", {"edge": edge.id, "sha256": edge.sha256})

    graph = log.append(store, project, decide, f"import {consumer} {producer}")
    return graph.edges[edge_id(HANDOFF, node_in(graph, producer).id, node_in(graph, consumer).id)]


def rejudge(store: Store, project: str, producer: str, consumer: str, *, reviewer: str, reason: str) -> Edge:
    """Answer a doubt: what the consumer took from the producer still holds, though the producer is unsound or suspect.

    Raises:
        GateRefused: there is no doubt, or the reviewer is an author of one of the two.
    """
    if not reviewer.strip() or len(reason.split()) < 2:
        raise UsageFault("a doubt is answered by a reviewer with a reason", next_step="--reviewer NAME --reason WHY")

    def decide(draft: log.Draft) -> None:
        edge, source, target = _handoff_in(draft, producer, consumer)
        view = view_in(store, draft)
        if not edge.verified or not (source.judgement in UNSOUND or source.id in view.doubts):
            raise GateRefused(f"nothing is doubtful about what {target.id} took from {source.id}")
        if any(same_person(reviewer, a) for a in (*view.authors(source), *view.authors(target))):
            raise GateRefused(f"{reviewer} is an author here: the reviewer is somebody else")
        draft.emit("rejudged", {"edge": edge.id, "reviewer": reviewer, "reason": reason})

    graph = log.append(store, project, decide, f"rejudge {producer} {consumer}")
    return graph.edges[edge_id(HANDOFF, node_in(graph, producer).id, node_in(graph, consumer).id)]
