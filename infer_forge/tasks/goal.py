"""Whether a task's goal is met: computed from evidence, never from a claim (B41)."""

from __future__ import annotations

import shlex
from typing import Any

from infer_forge.base.errors import ForgeError, GateRefused
from infer_forge.base.gitstore import Store
from infer_forge.tasks import events as history
from infer_forge.tasks import fencing, printed
from infer_forge.tasks.events import Event
from infer_forge.tasks.execute import probe
from infer_forge.tasks.model import Predicate
from infer_forge.tasks.people import same_person
from infer_forge.tasks.predicates import FAIL, PASS, UNKNOWN, Lookups, Outcome, check_goal
from infer_forge.tasks.state import BLOCKED, BUDGET_EXHAUSTED, DEFINED, Block, Task, fold, load, require_open

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
            next_step=f"infer-forge task lock {task_id}",
        )
    task, _ = fencing.fence_ended(store, task_id)
    outcomes = check_goal(task, lookups or journal_lookup())
    verdict = verdict_of(outcomes)
    if note and not task.ended:
        facts = [{"result": o.result, "why": o.why, "evidence": o.evidence, "waits_for": o.waits_for} for o in outcomes]

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


def decide_as_person(
    store: Store, task_id: str, statement: str, answer: str, person: str, *, stand_in: str = ""
) -> Task:
    """Record a person's decision on a statement of the contract or on a review (the command line asks for a terminal).

    Names are compared, and nothing proves a name: the account that wrote the decision stands beside it (`by`).

    Args:
        stand_in: why somebody else than the block's reviewer answers the review: kept with the decision.

    Raises:
        GateRefused: nobody asks for that statement, or it is left to somebody else.
    """

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]]:
        task = fold(task_id, events)
        require_open(task)
        known = {p.statement for a in task.typed.contract.acceptance for p in a.leaves() if p.kind == "human_decision"}
        known |= {review_statement(r["block"]) for r in reviews(task) if r["answer"] != "yes"}
        if statement not in known:
            raise GateRefused(
                "nobody asks a person that", next_step="statements: " + "; ".join(sorted(s for s in known if s))
            )
        _require_right_person(task, statement, person, stand_in)
        kept = {"stand_in": stand_in} if stand_in else {}
        return "decided", {"statement": statement, "answer": answer, "person": person, **kept}

    history.append(store, task_id, decide)
    return load(store, task_id)


def _require_right_person(task: Task, statement: str, person: str, stand_in: str) -> None:
    """Whom the contract or the block names decides; nobody reviews the block that he or she executed.

    Raises:
        GateRefused: somebody else must.
    """
    leaves = [p for a in task.typed.contract.acceptance for p in a.leaves() if p.statement == statement]
    named = [p.by for p in leaves]
    if named and not any(by is None or same_person(person, by) for by in named):
        raise GateRefused(
            f"the contract leaves that to {', '.join(str(n) for n in named)}, not to {person}", where=task.id
        )
    block = next((b for b in task.blocks if review_statement(b.number) == statement), None)
    if block is None:
        return
    executor, reviewer = block.routing.get("executor"), str(block.routing.get("reviewer"))
    if executor and same_person(person, executor):
        raise GateRefused(
            f"{person} executed block {block.number}: somebody else reviews it",
            where=task.id,
            next_step=f"its reviewer: {reviewer}",
        )
    if not stand_in and not same_person(person, reviewer):
        raise GateRefused(
            f"the review of block {block.number} is {reviewer}'s, not {person}'s",
            where=task.id,
            next_step=f"{reviewer} answers with --person {shlex.quote(reviewer)}; another says why with --stand-in WHY",
        )


def review_statement(number: int) -> str:
    """What a person or another model decides on when a block names a reviewer."""
    return f"review of block {number}"


def reviews(task: Task) -> list[dict[str, Any]]:
    """Closed blocks that name a reviewer, with the newest answer: `{block, reviewer, answer, person, stand_in, account, waits}`.

    `answer` is None while nobody answered; `account` is the one that wrote the answer, `person` the name that was given. It
    waits for the reviewer while there is no answer, and again when a block was closed after a no.
    """
    newest = {d["statement"]: d for d in task.decisions}
    found: list[dict[str, Any]] = []
    for block in task.blocks:
        reviewer = block.routing.get("reviewer")
        if block.active or not reviewer:
            continue
        said = newest.get(review_statement(block.number), {})
        told = {name: said.get(name) for name in ("answer", "person", "stand_in")}
        more = any(b.closed_seq > int(said.get("seq") or 0) for b in task.blocks)
        waits = told["answer"] is None or (told["answer"] == "no" and more)
        found.append({"block": block.number, "reviewer": reviewer, **told, "account": said.get("by"), "waits": waits})
    return found


def reviews_wanted(task: Task) -> list[Block]:
    """Closed blocks whose reviewer is waited for."""
    return [task.blocks[r["block"] - 1] for r in reviews(task) if r["waits"]]


def review_that_holds(task: Task) -> dict[str, Any] | None:
    """The first review that said no: no deliverable before it is answered again."""
    return next((r for r in reviews(task) if r["answer"] == "no"), None)


def undecided(task: Task) -> list[Predicate]:
    """Statements of the contract that wait for a person; where the contract names one, for that one."""
    done = [(d["statement"], d.get("person")) for d in task.decisions]
    leaves = [p for a in task.typed.contract.acceptance for p in a.leaves() if p.kind == "human_decision"]
    return [
        p
        for p in leaves
        if not any(s == p.statement and (p.by is None or same_person(p.by, str(who))) for s, who in done)
    ]


def waits_for_person(outcomes: list[Outcome]) -> str | None:
    """The statement on which the goal waits when only people can bring it on; None when something else is missing too."""
    waits = [o.waits_for for o in outcomes if o.result != PASS]
    return waits[0] if waits and all(waits) else None


def stop_verdict(task: Task, outcomes: list[Outcome]) -> tuple[int, str]:
    """May an agent stop now? (0 it may, 4 it must go on, 3 cannot tell), with the reason; deterministic."""
    if task.ended:
        return 0, f"the task is {task.status}"
    met = bool(outcomes) and verdict_of(outcomes) == MET
    held = review_that_holds(task)
    if task.status == BLOCKED or (task.status == BUDGET_EXHAUSTED and not (met and held is None)):
        return 0, f"the task is {task.status} and waits for a person: {task.reason}"
    if task.status == DEFINED:
        return 0, "the task has not begun"
    if task.open_executions:
        away = [e.id for e in task.open_executions if probe(e) == "unknown"]
        if away:
            return 3, f"{', '.join(away)} is open on another node: infer-forge task resume {task.id}"
        return (
            4,
            f"executions are open: {', '.join(e.id for e in task.open_executions)}: infer-forge task resume {task.id}",
        )
    if task.active_block is not None:
        return 4, f"block {task.active_block.number} is active: {task.active_block.sub_target}"
    verdict = verdict_of(outcomes)
    if met and held is not None:
        asked = f"the review of block {held['block']} by {held['reviewer']} said no"
        return (0, f"only a person can go on: {asked}; ask again") if held["waits"] else (4, f"{asked}: open a block")
    if met:
        return 4, f"the goal is met, but the deliverable is not written: {printed.deliver(task.id)}"
    statement = waits_for_person(outcomes)
    if statement:
        return 0, f"only a person can go on: {printed.decide(task.id, statement)}"
    if verdict == UNSEEN:
        return 4, "no acceptance has evidence yet: open a block, or write a handoff"
    failing = next((o.why for o in outcomes if o.result == FAIL), None) or next(
        o.why for o in outcomes if o.result == UNKNOWN
    )
    return 4, f"the goal is not met: {failing}"
