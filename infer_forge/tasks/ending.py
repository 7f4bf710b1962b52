"""The two ways in which a task ends: a deliverable whose reproduction path was verified, or a follow-up handoff (B36).

The end is an event like any other, and the last: nothing is appended afterwards but the id of the journal record. The
record's content comes from the folded state alone, so that an archive that was cut off is made again with the same id.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from infer_forge.base.errors import GateRefused, UsageFault
from infer_forge.base.gitstore import HubUnreachable, Store
from infer_forge.tasks import events as history
from infer_forge.tasks import fencing, printed, reproduction
from infer_forge.tasks.archive import archive
from infer_forge.tasks.define import verify
from infer_forge.tasks.events import Event
from infer_forge.tasks.goal import MET, goal_met, review_that_holds, reviews
from infer_forge.tasks.predicates import Lookups
from infer_forge.tasks.readonly import denied_writes, leave_profile
from infer_forge.tasks.state import (
    ACTIVE,
    BUDGET_EXHAUSTED,
    DEFINED,
    DELIVERED,
    HANDED_OFF,
    Task,
    fold,
    load,
    require_open,
)

HANDOFF_OUTCOMES = ("follow_up", "abandoned")


def deliver(
    store: Store,
    task_id: str,
    summary: str,
    *,
    lookups: Lookups | None = None,
    capability: Mapping[str, Any] | None = None,
    baseline: Mapping[str, Any] | None = None,
    accepted_by: str | None = None,
) -> Task:
    """End a task with its deliverable: the goal is checked again and the reproduction path verified, then it is archived.

    Args:
        summary: what was achieved, in a sentence or more.
        capability: of a capability task: `outcome` (add, update, merge, retire, no_change), `records` (ids of the journal).
        baseline: the capability manifest in force now (`baseline.manifest`). None: the one that is seen here, its tools
            unknown, since only a door knows them.
        accepted_by: the person (at a terminal) who lets it count though somebody changed the baseline meanwhile.

    Raises:
        GateRefused: naming everything that is not shown.
    """
    if len(summary.split()) < 3:
        raise UsageFault("a deliverable says in a sentence what was achieved")
    task = load(store, task_id)
    if task.ended and task.status == DELIVERED:
        return archive(store, task)  # cut off after its end: archived now
    _require_quiet(task, active=True)
    _, unseen = fencing.fence_ended(store, task_id)
    task, verdict, outcomes = goal_met(store, task_id, lookups)
    path = reproduction.path_of(task, outcomes)
    baseline = _in_force(store) if baseline is None else baseline
    checks = [
        *reproduction.checks(task, path, outcomes),
        *((r, v, s) for r, v, s in verify(store, task_id) if v == "fail"),
    ]
    checks += [("claims", "unknown", s) for s in unseen]
    failed = [f"{rule}: {seen}" for rule, result, seen in checks if result != "pass"]
    held = review_that_holds(task)
    if held is not None:
        failed.append(f"review: {held['person']} said no to block {held['block']} (task decide answers it again)")
    failed += _capability_faults(store, task, capability, baseline, accepted_by)
    if verdict != MET or failed:
        raise GateRefused(
            f"it is no deliverable yet: {'; '.join(failed[:5]) or 'the goal is not met'}",
            where=task_id,
            next_step=f"infer-forge task goal-met {task_id}, or {printed.handoff(task_id)}",
        )
    content = {
        "summary": summary,
        "reproduction": path,
        "verified": [list(c) for c in checks],
        "reviews": reviews(task),
        "capability": dict(capability) if capability else None,
        "baseline": dict(baseline)["digest"] if baseline else None,
        "baseline_accepted_by": accepted_by,
    }
    return _end(store, task_id, DELIVERED, "delivered", content, require_met=True)


def handoff(
    store: Store,
    task_id: str,
    done: str,
    next_entry: str,
    *,
    still_holds: Sequence[str] = (),
    open_questions: Sequence[str] = (),
    outcome: str = "follow_up",
    person: str | None = None,
    reason: str = "",
) -> Task:
    """End a task with a follow-up handoff: done, evidence, judgements that still hold, open questions, next entry point.

    Args:
        outcome: `follow_up`, or `abandoned`, which needs a person and a reason (the command line asks for a terminal).

    Raises:
        UsageFault: a part is missing. GateRefused: work is open, or nobody is named for abandoning.
    """
    if outcome not in HANDOFF_OUTCOMES:
        raise UsageFault(f"a handoff is one of {', '.join(HANDOFF_OUTCOMES)}")
    if len(done.split()) < 2 or len(next_entry.split()) < 2:
        raise UsageFault("a handoff says what is done and where the next task starts")
    if outcome == "abandoned" and not (person and reason):
        raise GateRefused("only a person abandons a task, with a reason", where=task_id)
    task = load(store, task_id)
    if task.ended and task.status == HANDED_OFF:
        return archive(store, task)
    _require_quiet(task, active=False)
    content: dict[str, Any] = {
        "done": done,
        "evidence": [
            {"id": i.id, "kind": i.kind, "path": i.path, "sha256": i.sha256, "fenced": i.fenced} for i in task.evidence
        ],
        "still_holds": list(still_holds),
        "open_questions": list(open_questions),
        "next_entry": next_entry,
        "denied_writes": denied_writes(task),
        "reviews": reviews(task),
        "blocks": [
            {"number": b.number, "sub_target": b.sub_target, "outcome": b.outcome, "note": b.note} for b in task.blocks
        ],
        "reproduction": reproduction.path_of(task, []),
        "person": person,
        "reason": reason,
    }
    return _end(store, task_id, HANDED_OFF, outcome, content, require_met=False)


def _in_force(store: Store) -> dict[str, Any]:
    from infer_forge.tasks.baseline import keep, manifest

    now = manifest()
    keep(store, now)
    return now


def _require_quiet(task: Task, *, active: bool) -> None:
    """Nothing is under way; a deliverable comes from an active task, a handoff from any that has not ended.

    What met the goal with the last of its budget is delivered too: the budget limits work, and no work is left.
    """
    require_open(task, locked=active)
    if active and task.status not in (ACTIVE, BUDGET_EXHAUSTED):
        raise GateRefused(
            f"the task is {task.status}{f': {task.reason}' if task.reason else ''}",
            where=task.id,
            next_step=f"infer-forge task {'start' if task.status == DEFINED else 'resume'} {task.id}",
        )
    if task.open_executions:
        names = ", ".join(e.id for e in task.open_executions)
        raise GateRefused(f"executions are open: {names}", next_step=f"infer-forge task resume {task.id} probes them")
    if task.active_block is not None:
        raise GateRefused(
            f"block {task.active_block.number} is active: a block's end comes first",
            next_step=printed.block_close(task.id),
        )


def _end(store: Store, task_id: str, status: str, outcome: str, content: dict[str, Any], *, require_met: bool) -> Task:
    seen = load(store, task_id).last_seq

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]]:
        task = fold(task_id, events)
        _require_quiet(task, active=require_met)
        if (
            task.last_seq != seen
            and require_met
            and (not task.goal_checks or task.goal_checks[-1]["seq"] != task.last_seq)
        ):
            raise GateRefused("somebody recorded more meanwhile", where=task_id, next_step="deliver it again")
        _require_after(task)
        return "ended", {"status": status, "outcome": outcome, "lock": task.lock_sha, "content": content}

    history.append(store, task_id, decide)
    task = load(store, task_id)
    leave_profile(task_id)
    try:
        return archive(store, task)
    except HubUnreachable:
        return task  # ended; `take_up` archives it when the journal's hub is back


def _require_after(task: Task) -> None:
    """An archive time before the creation would make a lifetime that never was."""
    now = datetime.datetime.now(datetime.timezone.utc)
    if now < datetime.datetime.fromisoformat(task.created_at):
        raise GateRefused(
            f"the clock of this machine says {now.isoformat(timespec='seconds')}, and the task was created {task.created_at}",
            where=task.id,
            next_step="set the clock, then end it again",
        )


def _capability_faults(
    store: Store,
    task: Task,
    capability: Mapping[str, Any] | None,
    now: Mapping[str, Any] | None,
    accepted_by: str | None,
) -> list[str]:
    """What a capability task lacks; and that no other task changed the baseline."""
    from infer_forge.tasks import baseline, check_suite

    locked: dict[str, Any] = (task.lock or {}).get("baseline") or {}
    if task.typed.type != "capability":
        if capability:
            return ["only a capability task changes the baseline"]
        return [] if accepted_by else _unauthorised(store, locked, now)
    if not capability or capability.get("outcome") not in baseline.OUTCOMES:
        return [f"a capability task ends with an outcome: {', '.join(baseline.OUTCOMES)}"]
    faults = [] if capability.get("records") else ["it cites no journal record"]
    faults += _unknown_records(capability.get("records") or [])
    if not locked or now is None:
        return [*faults, "the capability baseline of its lock is not known"]
    before = baseline.kept(store, locked["digest"])
    found = baseline.changes(before, now)
    wrong = baseline.contradiction(str(capability["outcome"]), found)
    faults += [f"the outcome is {capability['outcome']}, but {wrong}"] if wrong else []
    return faults + check_suite.faults(store, task, before, now, accepted=accepted_by is not None)


def _unknown_records(ids: Sequence[str]) -> list[str]:
    from infer_forge.tasks.goal import journal_lookup

    find = journal_lookup().journal
    return [f"the journal has no record {i}" for i in ids if find(i) is None]


def _unauthorised(store: Store, locked: Mapping[str, Any], now: Mapping[str, Any] | None) -> list[str]:
    """Why the baseline of now may not be the one that an ordinary task ends under; nothing when it may."""
    if not locked or now is None or now["digest"] == locked["digest"] or now["pack_version"] != locked["pack_version"]:
        return []
    from infer_forge.tasks import baseline
    from infer_forge.tasks.views import load_all

    if not any(baseline.changes(baseline.kept(store, locked["digest"]), now).values()):
        return []  # one of the two does not know the tools
    released = {
        (t.ending or {}).get("content", {}).get("baseline")
        for t in load_all(store)[0]
        if t.status == DELIVERED and t.typed.type == "capability"
    }
    released_digests = [d for d in released if d]
    if any(not any(baseline.changes(baseline.kept(store, d), now).values()) for d in released_digests):
        return []  # by content: the door that delivered it may have known the tools, and this one not
    return [
        "the capability baseline changed since the lock, and no capability task delivered that change (a person may accept it)"
    ]
