"""Loop blocks: one active at a time, the next only after the last ended and the goal check said continue (B38 to B48)."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault
from infer_forge.base.gitstore import Store
from infer_forge.tasks import events as history
from infer_forge.tasks import printed
from infer_forge.tasks.events import Event
from infer_forge.tasks.people import same_person
from infer_forge.tasks.state import (
    ACTIVE,
    BLOCKED,
    BUDGET_EXHAUSTED,
    DEFINED,
    OUTCOMES,
    PROGRESS,
    Task,
    fold,
    load,
    require_open,
)

TIERS = ("lower", "mid", "strongest")
TOPOLOGIES = ("single", "multi")
UNCERTAINTY = ("low", "medium", "high")
# More input than this does not fit one agent's context beside its work: propose several (200 k tokens of four characters, half).
_MULTI_BYTES = 400_000


def input_bytes(paths: Iterable[Path]) -> int:
    """Size of what a block must read: files, and folders with all that is in them.

    Raises:
        InputUnusable: one is not there.
    """
    total = 0
    for path in paths:
        if not path.exists():
            raise InputUnusable(
                "no such input", where=str(path), next_step="name files or folders that the block reads"
            )
        total += sum(p.stat().st_size for p in path.rglob("*") if p.is_file()) if path.is_dir() else path.stat().st_size
    return total


def propose_routing(uncertainty: str, input_bytes: int) -> dict[str, str]:
    """Tier by reasoning difficulty, topology by the size of what must be read (B46); the two are independent."""
    if uncertainty not in UNCERTAINTY:
        raise UsageFault(f"uncertainty is one of {', '.join(UNCERTAINTY)}")
    tier = TIERS[UNCERTAINTY.index(uncertainty)]
    return {"tier": tier, "topology": "multi" if input_bytes > _MULTI_BYTES else "single"}


def routing(
    uncertainty: str,
    input_bytes: int,
    *,
    tier: str | None = None,
    topology: str | None = None,
    reason: str = "",
    fallback: str = "",
    executor: str | None = None,
    reviewer: str | None = None,
) -> dict[str, Any]:
    """The routing of a block: proposal, choice, reason, fallback; the reviewer is never the executor (B47, B48).

    Raises:
        UsageFault: an unknown tier or topology. GateRefused: reviewer and executor are the same.
    """
    proposal = propose_routing(uncertainty, input_bytes)
    chosen = {"tier": tier or proposal["tier"], "topology": topology or proposal["topology"]}
    if chosen["tier"] not in TIERS or chosen["topology"] not in TOPOLOGIES:
        raise UsageFault(f"tier is one of {', '.join(TIERS)}, topology one of {', '.join(TOPOLOGIES)}")
    if reviewer is not None and executor is not None and same_person(reviewer, executor):
        raise GateRefused("the reviewer of a block is not its executor", next_step="name another reviewer")
    people = {"executor": executor, "reviewer": reviewer}
    size = {"uncertainty": uncertainty, "input_bytes": input_bytes}
    return {**chosen, "proposal": proposal, "reason": reason, "fallback": fallback, **people, **size}


def open_block(
    store: Store,
    task_id: str,
    sub_target: str,
    exit_condition: str,
    route: dict[str, Any],
    *,
    runner: str | None = None,
    data: dict[str, Any] | None = None,
) -> Task:
    """Open the next block.

    Raises:
        GateRefused: one is active, an execution is open, no goal check followed the last block, or a budget is used up.
    """
    if len(sub_target.split()) < 2 or len(exit_condition.split()) < 2:
        raise UsageFault("a block needs a sub-target and an exit condition in words")

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]]:
        task = fold(task_id, events)
        require_open(task)
        _require_turn(task)
        content = {"sub_target": sub_target, "exit_condition": exit_condition, "routing": route, "runner": runner}
        return "block_opened", {**content, "data": data or {}}

    task = load(store, task_id)
    used = exhausted(task) if task.lock and task.status == ACTIVE and task.active_block is None else None
    if used:
        _stop(store, task_id, BUDGET_EXHAUSTED, used)
        raise GateRefused(
            used,
            where=task_id,
            next_step=f"{printed.handoff(task_id)}, or a person at a terminal: "
            f"infer-forge task resume {task_id} --person NAME --more-blocks N --more-minutes M",
        )
    history.append(store, task_id, decide)
    return load(store, task_id)


def _require_turn(task: Task) -> None:
    """Whether the next block may be opened now: also on a goal that is met, when a review said no."""
    from infer_forge.tasks.goal import review_that_holds

    if task.status != ACTIVE:
        raise GateRefused(
            f"the task is {task.status}{f': {task.reason}' if task.reason else ''}",
            where=task.id,
            next_step=f"infer-forge task {'start' if task.status == DEFINED else 'resume'} {task.id}",
        )
    active = task.active_block
    if active is not None:
        raise GateRefused(
            f"block {active.number} is active: {active.sub_target}", next_step=printed.block_close(task.id)
        )
    if task.open_executions:
        names = ", ".join(e.id for e in task.open_executions)
        raise GateRefused(f"executions are open: {names}", next_step=f"infer-forge task resume {task.id} probes them")
    if task.blocks:
        checks = [g for g in task.goal_checks if g["seq"] > task.blocks[-1].closed_seq]
        if not checks:
            raise GateRefused("no goal check followed the last block", next_step=f"infer-forge task goal-met {task.id}")
        if checks[-1]["verdict"] == "met" and review_that_holds(task) is None:
            raise GateRefused("the goal is met: write the deliverable", next_step=printed.deliver(task.id))


def exhausted(task: Task) -> str | None:
    """Which budget is used up, in words; None when none is."""
    blocks, most = task.most_blocks, task.most_minutes
    if len(task.blocks) >= blocks:
        return f"the budget of {blocks} loop blocks is used up"
    begun = datetime.datetime.fromisoformat(task.created_at)
    minutes = (datetime.datetime.now(datetime.timezone.utc) - begun).total_seconds() / 60
    if minutes > most:
        return f"the budget of {most} minutes is used up"
    return None


def close_block(
    store: Store,
    task_id: str,
    outcome: str,
    progress: str,
    note: str = "",
    *,
    data: dict[str, Any] | None = None,
) -> Task:
    """Close the active block with its outcome and progress; too many without progress stop the task for a person.

    Raises:
        UsageFault: an unknown outcome or progress. GateRefused: no block is active, or executions are open.
    """
    if outcome not in OUTCOMES or progress not in PROGRESS:
        raise UsageFault(f"outcome is one of {', '.join(OUTCOMES)}; progress one of {', '.join(PROGRESS)}")

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]]:
        task = fold(task_id, events)
        require_open(task)
        if task.active_block is None:
            raise GateRefused("no block is active", next_step=printed.block_open(task_id))
        if task.open_executions:
            names = ", ".join(e.id for e in task.open_executions)
            raise GateRefused(
                f"executions of the block are open: {names}", next_step=f"infer-forge task resume {task_id} probes them"
            )
        return "block_closed", {"outcome": outcome, "progress": progress, "note": note, "data": data or {}}

    history.append(store, task_id, decide)
    task = load(store, task_id)
    if task.drift >= task.typed.budgets.drift_limit:
        return _stop(
            store, task_id, BLOCKED, f"{task.drift} blocks in a row without progress: a person decides how to go on"
        )
    if outcome == "blocked":
        return _stop(store, task_id, BLOCKED, note or "the block ended blocked")
    used = exhausted(task)
    return _stop(store, task_id, BUDGET_EXHAUSTED, used) if used else task


def _stop(store: Store, task_id: str, status: str, reason: str) -> Task:
    history.append(store, task_id, lambda _: ("status", {"status": status, "reason": reason}))
    return load(store, task_id)
