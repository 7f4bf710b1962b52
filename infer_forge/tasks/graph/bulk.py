"""Load a whole graph, or a further part of one, from a YAML or JSON file, in one commit or not at all.

    project: prefill
    nodes:
      - {id: plan-1, type: plan, title: Plan of the quarter, workstream: prefill, author: kim,
         created: 2026-04-02T08:00:00Z, started: .., delivered: .., judgement: rejected, reason: ..}
      - {id: engine, kind: shared_repo, title: The engine's fork, url: https://..}
    edges:
      - {from: plan-1, to: code-1, reviewer: lee, sha256: .., verified: 2026-04-03T08:00:00Z, imported: true}
      - {from: code-1, to: engine, kind: state, mode: write}
      - {from: evaluation-1, to: code-1, kind: control, action: returns, note: ..}

The times are when it happened, by the file's word; the history keeps who loaded it and when.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any, cast

from infer_forge.base import yamlio
from infer_forge.base.errors import GateRefused, InputUnusable
from infer_forge.base.gitstore import Store
from infer_forge.tasks.graph import log
from infer_forge.tasks.graph.build import node_faults, outcome_fault, view_in
from infer_forge.tasks.graph.checking import cycle_rows, ended_before_created, import_faults
from infer_forge.tasks.graph.model import (
    DELIVERED,
    EDGES,
    HANDED_OFF,
    HANDOFF,
    JUDGEMENTS,
    RESULTS,
    SUPERSEDED,
    Graph,
    edge_id,
)
from infer_forge.tasks.graph.rules import edge_faults
from infer_forge.tasks.graph.view import DONE

_NODE_KEYS = frozenset(
    (
        *("id", "kind", "title", "type", "goal", "workstream", "author", "url", "supersedes", "created", "started"),
        *("delivered", "handed_off", "judgement", "judged", "reason", "by", "outcome", "records", "evidence"),
    )
)
_EDGE_KEYS = frozenset(
    (
        *("from", "to", "kind", "action", "mode", "note", "linked"),
        *("reviewer", "sha256", "journal", "result", "verified", "imported"),
    )
)


def read_file(path: str | Path) -> dict[str, list[dict[str, Any]]]:
    """The file's nodes and edges, with their keys checked.

    Raises:
        InputUnusable: no YAML or JSON, or unknown keys; the first of them are named.
    """
    data: Any = yamlio.read_yaml(path)
    parts: dict[str, Any] = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    found: dict[str, list[dict[str, Any]]] = {"nodes": [], "edges": []}
    faults = [str(k) for k in parts if k not in (*found, "project")]
    for part, known in (("nodes", _NODE_KEYS), ("edges", _EDGE_KEYS)):
        items: Any = parts.get(part) or []
        if not isinstance(items, list):
            faults.append(f"{part} is no list")
            continue
        for number, item in enumerate(cast("list[Any]", items), 1):
            keys = {str(k) for k in cast("dict[Any, Any]", item)} if isinstance(item, dict) else {"not a mapping"}
            faults += [f"{part}[{number}]: {name}" for name in sorted(keys - known)]
            found[part].append(cast("dict[str, Any]", item))
    if faults or not parts:
        said = "; ".join(faults[:6]) if parts else "it holds no lists `nodes` and `edges`"
        raise InputUnusable(f"cannot be used: {said}", where=str(path), next_step="infer-forge graph load --help")
    return found


def load_file(store: Store, project: str, path: str | Path) -> Graph:
    """Load a file into a graph.

    Raises:
        InputUnusable: the file. GateRefused: with the first rules that its content breaks; nothing is written then.
    """
    data = read_file(path)

    def decide(draft: log.Draft) -> None:
        faults = list[str]()
        for item in data["nodes"]:
            faults += _add(draft, item)
        for item in data["edges"] if not faults else []:
            faults += _join(draft, item)
        for item in data["nodes"] if not faults else []:
            faults += _follow(draft, item)
        faults = faults or _whole(store, draft)
        if faults:
            more = f" (and {len(faults) - 5} more)" if len(faults) > 5 else ""
            raise GateRefused("; ".join(faults[:5]) + more, where=str(path))

    return log.append(store, project, decide, f"load {Path(path).name}")


def _when(value: Any) -> str | None:
    """A time of the file as ISO 8601 with its zone; UTC where it names none."""
    if value is None:
        return None
    try:
        found = (
            value
            if isinstance(value, datetime.datetime)
            else datetime.datetime.fromisoformat(str(value).replace("Z", "+00:00"))
        )
    except ValueError:
        raise GateRefused(f"{value!r} is no time", next_step="write 2026-04-02T08:00:00Z") from None
    found = found if found.tzinfo else found.replace(tzinfo=datetime.timezone.utc)
    return found.astimezone(datetime.timezone.utc).isoformat(timespec="seconds")


def _add(draft: log.Draft, item: dict[str, Any]) -> list[str]:
    kind = item.get("kind", "task")
    default = "capability" if item.get("type") == "capability" else "delivery"
    body = {k: item.get(k) for k in ("id", "title", "type", "workstream", "author", "url", "supersedes")}
    body["title"] = " ".join(str(body["title"] or "").split())
    body |= {"kind": kind, "goal": item.get("goal", default), "at": _when(item.get("created"))}
    faults = node_faults(body)
    if body["id"] in draft.graph.nodes:
        faults.append(f"{body['id']} exists")
    if body["supersedes"] and body["supersedes"] not in draft.graph.nodes:
        faults.append(f"{body['id']}: {body['supersedes']} stands not before it")
    if not faults:
        draft.emit("node_added", body)
    return faults


def _join(draft: log.Draft, item: dict[str, Any]) -> list[str]:
    kind, source, target = item.get("kind", HANDOFF), str(item.get("from")), str(item.get("to"))
    unknown = [f"no node {n!r}" for n in (source, target) if n not in draft.graph.nodes]
    if unknown or kind not in EDGES:
        return unknown or [f"{source} to {target}: no edge is of kind {kind!r}"]
    name = edge_id(kind, source, target, item.get("action") or item.get("mode"))
    if name in draft.graph.edges:
        return [f"{name} exists"]
    body = {"id": name, "kind": kind, "source": source, "target": target, "note": item.get("note") or ""}
    draft.emit(
        "linked", {**body, "action": item.get("action"), "mode": item.get("mode"), "at": _when(item.get("linked"))}
    )
    carried = [k for k in ("reviewer", "sha256", "journal", "result", "verified", "imported") if item.get(k)]
    if not carried:
        return []
    if kind != HANDOFF:
        return [f"{name}: only a handoff carries a result ({', '.join(carried)})"]
    if not item.get("reviewer") or not (item.get("sha256") or item.get("journal")):
        return [f"{name}: a verified handoff has a reviewer and its evidence (sha256 or journal)"]
    result = item.get("result", RESULTS[0])
    if result not in RESULTS:
        return [f"{name}: a result is one of {', '.join(RESULTS)}"]
    what = {"edge": name, "result": result, "reviewer": item["reviewer"], "at": _when(item.get("verified"))}
    draft.emit("handed_over", {**what, "sha256": item.get("sha256"), "journal": item.get("journal")})
    if item.get("imported"):
        at = _when(item.get("verified")) if item["imported"] is True else _when(item["imported"])
        draft.emit("imported", {"edge": name, "sha256": item.get("sha256"), "at": at})
    return []


def _follow(draft: log.Draft, item: dict[str, Any]) -> list[str]:
    """The marks of one node, in the order of its life."""
    name, faults = item["id"], list[str]()
    if item.get("started"):
        draft.emit("marked", {"id": name, "status": "active", "at": _when(item["started"])})
    for status in (DELIVERED, HANDED_OFF):
        if not item.get(status):
            continue
        more = {k: item.get(k) for k in ("outcome", "records", "evidence")}
        fault = outcome_fault(item.get("type"), status, more)
        faults += [f"{name}: {fault}"] if fault else []
        draft.emit("marked", {"id": name, "status": status, **more, "at": _when(item[status])})
    judgement = item.get("judgement")
    if judgement:
        if judgement not in JUDGEMENTS or len(str(item.get("reason") or "").split()) < 2:
            return [*faults, f"{name}: a judgement is one of {', '.join(JUDGEMENTS)}, with a reason"]
        replaced = draft.graph.nodes[name].replaced_by if judgement == SUPERSEDED else None
        by = item.get("by") or replaced
        if (judgement == SUPERSEDED) != bool(by) or (by and by not in draft.graph.nodes):
            return [*faults, f"{name}: superseded names the node that took its place (by)"]
        body = {"id": name, "status": judgement, "reason": item["reason"], "replaced_by": by}
        draft.emit("marked", {**body, "at": _when(item.get("judged"))})
    return faults


def _whole(store: Store, draft: log.Draft) -> list[str]:
    """The rules, on everything together; cycles once."""
    view = view_in(store, draft)
    faults = [f"{e.id}: {fault}" for e in draft.graph.open_edges() for fault in edge_faults(view, e)]
    for edge in draft.graph.open_edges(HANDOFF):
        if edge.verified and view.lifecycle(draft.graph.nodes[edge.source]) not in DONE:
            faults.append(f"{edge.id}: {edge.source} has not ended, and hands over")
    for node in draft.graph.nodes.values():
        faults += [f"{node.id}: it ended before it was created"] if ended_before_created(view, node) else []
        faults += import_faults(view, node)
        if node.started_at and node.judgement is None and not node.ended_at:
            waits = [e.source for e in view.into.get(node.id, ()) if not e.verified]
            faults += [f"{node.id} was started before {w} was handed over to it" for w in waits]
    return [*faults, *(f"{where}: {fault}" for where, _, fault in cycle_rows(view))]
