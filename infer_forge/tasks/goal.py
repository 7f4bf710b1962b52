"""Whether a task's goal is met: computed from evidence, never from a claim (B41)."""

from __future__ import annotations

from typing import Any

from infer_forge.base.errors import ForgeError, GateRefused
from infer_forge.base.gitstore import Store
from infer_forge.tasks import events as history
from infer_forge.tasks.events import Event
from infer_forge.tasks.predicates import FAIL, PASS, UNKNOWN, Lookups, Outcome, check_goal
from infer_forge.tasks.state import Task, fold, load, require_open

MET, CONTINUE, UNSEEN = "met", "continue", "cannot_tell"


def journal_lookup() -> Lookups:
    """Predicates may look at this machine's journal."""

    def find(record_id: str) -> dict[str, Any] | None:
        from infer_forge.journal import get, open_store

        try:
            with open_store() as store:
                record = get(store, record_id)
        except ForgeError:
            return None
        return record.model_dump(mode="json")

    return Lookups(find)


def verdict_of(outcomes: list[Outcome]) -> str:
    """`met` when all pass, `continue` when one fails or is not shown yet while others are, `cannot_tell` when nothing was seen."""
    results = {o.result for o in outcomes}
    if results == {PASS}:
        return MET
    return UNSEEN if results == {UNKNOWN} else CONTINUE


def goal_met(
    store: Store, task_id: str, lookups: Lookups | None = None, *, note: bool = True
) -> tuple[Task, str, list[Outcome]]:
    """Evaluate the acceptance and record that it was done.

    Raises:
        GateRefused: the task is not locked.
    """
    task = load(store, task_id)
    if task.lock is None:
        raise GateRefused(
            "the contract is not locked: there is nothing to check",
            where=task_id,
            next_step="infer-forge task lock",
        )
    outcomes = check_goal(task, lookups or journal_lookup())
    verdict = verdict_of(outcomes)
    if note and not task.ended:
        facts = [{"result": o.result, "why": o.why, "evidence": o.evidence} for o in outcomes]

        def decide(events: list[Event]) -> tuple[str, dict[str, Any]]:
            require_open(fold(task_id, events))
            return "goal_checked", {
                "verdict": verdict,
                "outcomes": facts,
                "lock": task.lock["sha256"] if task.lock else None,
            }

        history.append(store, task_id, decide)
        task = load(store, task_id)
    return task, verdict, outcomes


def decide_as_person(store: Store, task_id: str, statement: str, answer: str, person: str) -> Task:
    """Record a person's decision on a statement of the contract (the command line asks for a terminal)."""

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]]:
        task = fold(task_id, events)
        require_open(task)
        known = {p.statement for a in task.typed.contract.acceptance for p in a.leaves() if p.kind == "human_decision"}
        if statement not in known:
            raise GateRefused(
                "the contract asks no person that", next_step="statements: " + "; ".join(sorted(s for s in known if s))
            )
        return "decided", {"statement": statement, "answer": answer, "person": person}

    history.append(store, task_id, decide)
    return load(store, task_id)


def stop_verdict(task: Task, outcomes: list[Outcome]) -> tuple[int, str]:
    """May an agent stop now? (0 it may, 4 it must go on, 3 cannot tell), with the reason; deterministic."""
    if task.ended:
        return 0, f"the task is {task.status}"
    if task.status in ("blocked", "budget_exhausted"):
        return 0, f"the task is {task.status} and waits for a person: {task.reason}"
    if task.status == "defined":
        return 0, "the task has not begun"
    if task.open_executions:
        return 4, f"executions are open: {', '.join(e.id for e in task.open_executions)}"
    verdict = verdict_of(outcomes)
    if verdict == MET:
        return 4, "the goal is met, but the deliverable is not written: infer-forge task deliver"
    if task.active_block is not None:
        return 4, f"block {task.active_block.number} is active: {task.active_block.sub_target}"
    if verdict == UNSEEN:
        return 4, "no acceptance has evidence yet: open a block, or write a handoff"
    failing = next((o.why for o in outcomes if o.result == FAIL), None) or next(
        o.why for o in outcomes if o.result == UNKNOWN
    )
    return 4, f"the goal is not met: {failing}"
