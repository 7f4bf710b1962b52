"""Evidence of an ended claim: which of it stands, and which is marked fenced.

A claim that its holder released vouches for what was made before. One that was forced out or cleaned up, or that the task
was taken away from (its node died), vouches for nothing: what was made under it is shown and decides nothing.
"""

from __future__ import annotations

import datetime
from typing import Any

from infer_forge.base.errors import ForgeError
from infer_forge.base.gitstore import Store
from infer_forge.tasks import events as history
from infer_forge.tasks.events import Event
from infer_forge.tasks.state import Task, fold, load


def claims_of(task: Task) -> dict[str, dict[str, Any]]:
    """Claims that evidence and executions of a task were made under, by id."""
    found = {str(c["claim_id"]): c for item in task.evidence for c in item.claims if c.get("claim_id")}
    for execution in task.executions.values():
        found |= {str(c["claim_id"]): c for c in execution.intent.get("claims", []) if c.get("claim_id")}
    return found


def fence_ended(store: Store, task_id: str) -> tuple[Task, list[str]]:
    """Mark evidence whose claim did not end in order; the task, and what could not be looked up."""
    task = load(store, task_id)
    claims = {c: facts for c, facts in claims_of(task).items() if c not in task.fenced_claims}
    if not claims or task.ended:
        return task, []
    try:
        from infer_forge.nodes.registry import CLAIMS, Registry

        registry = Registry.open()
        registry.store.refresh(CLAIMS)
    except ForgeError as exc:
        return task, [f"claims cannot be looked up: {exc.what}"]
    gone: dict[str, str] = {}
    late: list[str] = []
    unseen: list[str] = []
    for claim_id, facts in claims.items():
        how, at = _end_of(registry, claim_id, int(facts.get("epoch") or 0))
        if how == "unknown":
            unseen.append(f"claim {claim_id} is not in this registry")
        elif how == "released":
            late += [i.id for i in task.evidence if not i.fenced and _under(i.claims, claim_id) and _after(i.at, at)]
        elif how != "current":
            gone[claim_id] = f"claim {claim_id} ended as {how}"
    if gone or late:
        mark(store, task_id, list(gone), "; ".join(gone.values()) or "made after its claim was released", evidence=late)
        task = load(store, task_id)
    return task, unseen


def _under(claims: list[dict[str, Any]], claim_id: str) -> bool:
    return any(c.get("claim_id") == claim_id for c in claims)


def _after(at: str, wall: float) -> bool:
    """Whether something was recorded after a claim's end (a minute is given to the clocks)."""
    return datetime.datetime.fromisoformat(at).timestamp() > wall + 60


def _end_of(registry: Any, claim_id: str, epoch: int) -> tuple[str, float]:
    """(current | released | forced | cleanup | superseded | unknown, when)."""
    from infer_forge.nodes.claims import check_epoch

    for record in registry.nodes([]):
        ended = next((r for r in record.released if r.claim_id == claim_id), None)
        if ended is not None:
            return str(ended.how), float(ended.at_wall)
    return {"current": "current", "fenced": "superseded"}.get(check_epoch(registry, claim_id, epoch), "unknown"), 0.0


def mark(
    store: Store,
    task_id: str,
    claims: list[str],
    why: str,
    *,
    evidence: list[str] | None = None,
    facts: dict[str, Any] | None = None,
) -> None:
    """Append the mark: these claims (and single items) no longer carry evidence; `facts` say where the task went."""

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]] | None:
        task = fold(task_id, events)
        new = [c for c in claims if c not in task.fenced_claims]
        late = [e for e in evidence or [] if any(i.id == e and not i.fenced for i in task.evidence)]
        if task.ended or not (new or late):
            return None
        return "fenced", {"claims": new, "evidence": late, "why": why, **(facts or {})}

    history.append(store, task_id, decide)
