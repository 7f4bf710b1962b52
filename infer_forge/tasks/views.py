"""What people and agents see of tasks: one task, the list, what is in flight, and what waits for a person."""

from __future__ import annotations

import datetime
import shlex
import statistics
from collections import Counter
from typing import Any

from infer_forge.base.errors import ForgeError
from infer_forge.base.gitstore import Store
from infer_forge.base.records import Finding, Header, Report
from infer_forge.base.tables import Column, Table
from infer_forge.base.text_table import one_line
from infer_forge.tasks import events as history
from infer_forge.tasks import printed
from infer_forge.tasks.blocks import exhausted
from infer_forge.tasks.goal import MET, review_statement, review_that_holds, reviews_wanted, undecided
from infer_forge.tasks.model import missing
from infer_forge.tasks.predicates import PASS
from infer_forge.tasks.proposals import proposals
from infer_forge.tasks.state import ACTIVE, BLOCKED, BUDGET_EXHAUSTED, DEFINED, Task, load


def load_all(store: Store) -> tuple[list[Task], list[Finding]]:
    """Every readable task, oldest first, and a finding for each that cannot be read."""
    found: list[Task] = []
    faults: list[Finding] = []
    for name in history.task_ids(store):
        try:
            task = load(store, name)
            _ = task.typed  # what does not fit this version is told here, once
            found.append(task)
        except ForgeError as exc:
            faults.append(history.unreadable("TASK_UNREADABLE", f"{history.PREFIX}{name}", exc))
    return sorted(found, key=lambda t: (t.created_at, t.id)), faults


def _of_campaign(task: Task) -> bool:
    """Whether a campaign leads this task: it then locks, starts and closes the task itself."""
    return all(isinstance(task.typed.extra.get(name), str) for name in ("run", "mode"))


def next_step(task: Task) -> str:
    """The one command that brings a task on."""
    if task.ended:
        return (
            f"infer-forge journal show {task.archived['journal']}"
            if task.archived
            else f"infer-forge task resume {task.id}"
        )
    if _of_campaign(task):
        return f"infer-forge campaign next --run {shlex.quote(str(task.typed.extra['run']))}"
    if task.lock is None:
        lacking = missing(task.typed)
        return printed.edit(task.id, lacking) if lacking else f"infer-forge task lock {task.id}"
    if task.status == DEFINED:
        return f"infer-forge task start {task.id}"
    checked = bool(task.goal_checks) and (not task.blocks or task.goal_checks[-1]["seq"] > task.blocks[-1].closed_seq)
    met = checked and task.goal_checks[-1]["verdict"] == MET
    spent = task.status == BUDGET_EXHAUSTED
    if task.status == BLOCKED or (spent and checked and not met) or task.open_executions:
        return f"infer-forge task resume {task.id}"
    if task.active_block is not None:
        return f"{printed.record(task)}, or {printed.block_close(task.id)}"
    if (task.blocks or spent) and not checked:
        return f"infer-forge task goal-met {task.id}"
    held = review_that_holds(task)
    if met and held is not None and held["waits"]:
        return printed.decide(task.id, review_statement(held["block"]), held["reviewer"])
    if met and held is None:
        return printed.deliver(task.id)
    gates = _gates(task) if checked else []
    if gates:
        return str(gates[0][-1])
    if exhausted(task):
        return printed.handoff(task.id)
    return printed.block_open(task.id)


def status_report(task: Task) -> Report:
    """One task: its contract, blocks, executions, evidence and the last goal check."""
    definition = task.typed
    contract = definition.contract
    report = Report("task", Header(more={"task": task.id, "lock": task.lock_sha, "events": task.last_seq}))
    report.summary = [
        one_line(
            f"{task.id} {definition.type} [{task.status}{f': {task.reason}' if task.reason else ''}] {definition.title}"
        ),
        one_line(f"goal: {contract.goal}"),
        one_line(f"scope: {contract.scope}"),
        f"lock: {task.lock_sha[:12] if task.lock_sha else 'not locked'}",
        *_carried(task),
        f"blocks {len(task.blocks)} of {task.most_blocks}, without progress {task.drift} of {definition.budgets.drift_limit}",
    ]
    report.add(_acceptance(task))
    report.add(
        Table(
            "blocks",
            ["block", "sub_target", "exit_condition", "tier", "topology", "outcome", "progress", "note"],
            [
                (
                    b.number,
                    b.sub_target,
                    b.exit_condition,
                    b.routing.get("tier"),
                    b.routing.get("topology"),
                    b.outcome,
                    b.progress,
                    b.note,
                )
                for b in task.blocks
            ],
        )
    )
    report.add(
        Table(
            "executions",
            [Column("id", "text"), "label", "block", "phase", "exit_code", "seconds", Column("command", "text")],
            [
                (e.id, e.label, e.block, e.phase, e.exit_code, e.result.get("seconds"), " ".join(e.argv)[:200])
                for e in task.executions.values()
            ],
        )
    )
    report.add(
        Table(
            "evidence",
            [Column("id", "text"), "kind", "label", "block", "trust", "epoch", "standing", Column("path", "text")],
            [
                (i.id, i.kind, i.label, i.block, i.trust, i.epoch, "fenced" if i.fenced else "stands", i.path)
                for i in task.evidence
            ],
        )
    )
    if task.decisions:
        names = ("at", "person", "account", "answer", "statement", "stand_in")
        rows = [
            (d["at"][:19], d.get("person"), d["by"], d.get("answer"), d.get("statement"), d.get("stand_in"))
            for d in task.decisions
        ]
        report.add(Table("decisions", [Column(n, "text") for n in names], rows))
    if task.lock is None:
        report.findings += [Finding("INCOMPLETE", item, "warning") for item in missing(definition)]
    refused = [r for e in task.executions.values() for r in e.result.get("refused", [])]
    report.findings += [
        Finding("EVIDENCE_ELSEWHERE", f"{r['path']} is no evidence of this task: {'; '.join(r['why'][:2])}")
        for r in refused
    ]
    fenced = sum(1 for i in task.evidence if i.fenced)
    if fenced:
        report.findings.append(
            Finding(
                "EVIDENCE_FENCED", f"{fenced} items were made under a claim that no longer stands; they decide nothing"
            )
        )
    report.extra = {"task": _facts(task)}
    report.next_step = next_step(task)
    return report


def _carried(task: Task) -> list[str]:
    """The loop-block handoff: what the last closed block leaves to the next."""
    closed = [b for b in task.blocks if not b.active and b.data.get("handoff")]
    return [one_line(f"block {closed[-1].number} hands over: {closed[-1].data['handoff']}")] if closed else []


def _acceptance(task: Task) -> Table:
    outcomes: list[dict[str, Any]] = task.goal_checks[-1]["outcomes"] if task.goal_checks else []
    rows = [
        (
            said(p),
            outcomes[i]["result"] if i < len(outcomes) else None,
            outcomes[i]["why"] if i < len(outcomes) else "not checked yet",
        )
        for i, p in enumerate(task.typed.contract.acceptance)
    ]
    return Table("acceptance", [Column("predicate", "text"), "result", "why"], rows)


def said(predicate: Any) -> str:
    """A predicate in one line."""
    if predicate.of:
        return f"{predicate.kind}: {len(predicate.of)} parts"
    if predicate.kind == "human_decision":
        return f"{predicate.by or 'a person'} says yes: {predicate.statement}"
    chosen = predicate.selector
    place = chosen.evidence or chosen.label or chosen.journal or chosen.id or ""
    unit = f" {predicate.unit}" if predicate.unit else ""
    place += f" of `{chosen.command}`" if chosen.command else ""
    return f"{predicate.kind} {place} {predicate.field or ''} {predicate.operator} {predicate.value}{unit}".replace(
        "  ", " "
    )


def _facts(task: Task) -> dict[str, Any]:
    """The task for programs."""
    active = task.active_block
    return {
        "id": task.id,
        "type": task.typed.type,
        "status": task.status,
        "reason": task.reason,
        "lock": task.lock,
        "created_at": task.created_at,
        "active_block": active.number if active else None,
        "drift": task.drift,
        "open_executions": [e.id for e in task.open_executions],
        "fenced_claims": task.fenced_claims,
        "clarifications": task.clarifications,
        "decisions": task.decisions,
        "notes": task.notes,
        "ending": task.ending,
        "archived": task.archived,
        "definition": task.definition,
    }


def list_report(store: Store, *, ended: bool = False, kind: str | None = None) -> Report:
    """Tasks with status and next step; ended ones only when asked for."""
    tasks, faults = load_all(store)
    shown = [t for t in tasks if (ended or not t.ended or not t.archived) and kind in (None, t.typed.type)]
    report = Report("task_list", Header(hidden={"tasks": {"rows": len(tasks) - len(shown)}}), findings=faults)
    rows = [
        (t.id, t.typed.type, t.status, len(t.blocks), t.typed.title, t.created_at[:19], next_step(t)) for t in shown
    ]
    report.add(
        Table(
            "tasks",
            [Column("id", "text"), "type", "status", "blocks", "title", "created", Column("next", "text")],
            rows,
        )
    )
    report.summary = [f"{len(shown)} tasks, {len(tasks) - len(shown)} not shown"]
    report.next_step = rows[0][-1] if rows else "infer-forge task new --type TYPE --from playbook"
    return report


def _time(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def inflight_report(store: Store) -> Report:
    """How many tasks are under way at once: now, at the peak, and by day; lifetimes by type (B81).

    A task counts from its creation to its end. One whose end lies before its creation is left out, and told.
    """
    tasks, faults = load_all(store)
    now = datetime.datetime.now(datetime.timezone.utc)
    spans: list[tuple[datetime.datetime, datetime.datetime, Task]] = []
    for task in tasks:
        begun = _time(task.created_at)
        ended = _time(task.ending["at"]) if task.ending else now
        if ended < begun:
            faults.append(Finding("ENDED_BEFORE_CREATED", f"{task.id} is left out: its end lies before its creation"))
        else:
            spans.append((begun, ended, task))
    peak, at = _peak([(a, b) for a, b, _ in spans])
    report = Report("task_inflight", Header(coverage={"tasks": len(tasks), "counted": len(spans)}), findings=faults)
    report.add(_by_type(spans))
    report.add(_by_day(spans))
    open_now = sum(1 for _, _, t in spans if not t.ended)
    waiting = sum(1 for _, _, t in spans if t.status in (BLOCKED, BUDGET_EXHAUSTED))
    report.extra = {
        "in_flight": open_now,
        "active": sum(1 for _, _, t in spans if t.status == ACTIVE),
        "waiting": waiting,
        "peak": peak,
        "peak_at": at.isoformat() if at else None,
    }
    report.summary = [
        f"{open_now} tasks in flight ({waiting} wait), peak {peak}{f' at {at.isoformat()[:16]}' if at else ''}"
    ]
    report.next_step = "infer-forge task inbox"
    return report


def _peak(spans: list[tuple[datetime.datetime, datetime.datetime]]) -> tuple[int, datetime.datetime | None]:
    """Most spans at one moment, and when that was first so; a span that ends as another begins does not overlap it."""
    marks = sorted([(a, 1) for a, _ in spans] + [(b, -1) for _, b in spans], key=lambda m: (m[0], m[1]))
    running, best, at = 0, 0, None
    for when, step in marks:
        running += step
        if running > best:
            best, at = running, when
    return best, at


def _by_type(spans: list[tuple[datetime.datetime, datetime.datetime, Task]]) -> Table:
    rows: list[tuple[Any, ...]] = []
    for kind in sorted({t.typed.type for *_, t in spans}):
        mine = [(a, b, t) for a, b, t in spans if t.typed.type == kind]
        hours = [(b - a).total_seconds() / 3600 for a, b, t in mine if t.ended]
        rows.append((kind, len(mine), len(hours), len(mine) - len(hours), statistics.median(hours) if hours else None))
    return Table("types", ["type", "created", "ended", "in_flight", Column("median_lifetime_h", "number")], rows)


def _by_day(spans: list[tuple[datetime.datetime, datetime.datetime, Task]]) -> Table:
    """Days on which something was under way, with how many tasks were at once at the most."""
    days: Counter[datetime.date] = Counter()
    for a, b, _ in spans:
        for offset in range(min((b.date() - a.date()).days, 366) + 1):
            days[a.date() + datetime.timedelta(days=offset)] += 1
    rows: list[tuple[Any, ...]] = []
    for day in sorted(days)[-60:]:
        begin = datetime.datetime.combine(day, datetime.time(), datetime.timezone.utc)
        end = begin + datetime.timedelta(days=1)
        peak, _ = _peak([(max(a, begin), min(b, end)) for a, b, _ in spans if a < end and b >= begin])
        rows.append((day.isoformat(), days[day], peak))
    return Table("days", [Column("day", "text"), "tasks", "peak"], rows)


def inbox_report(store: Store) -> Report:
    """What waits for a person, oldest first, each with the one command that answers it."""
    tasks, faults = load_all(store)
    rows = [row for task in tasks for row in _waiting(task)]
    rows += [
        (p["at"], "proposal", p["id"], p["why"], f"infer-forge task new --from {p['id']}")
        for p in proposals(store, faults=faults)
    ]
    rows.sort(key=lambda r: str(r[0]))
    report = Report("task_inbox", Header(), findings=faults)
    names = [Column("since", "text"), "kind", Column("task", "text"), Column("what", "text"), Column("answer", "text")]
    report.add(Table("inbox", names, rows))
    report.summary = [f"{len(rows)} things wait for a person" if rows else "nothing waits for a person"]
    report.next_step = str(rows[0][-1]) if rows else "infer-forge task list"
    return report


def _waiting(task: Task) -> list[tuple[Any, ...]]:
    """What one task waits for."""
    if task.ended:
        return []
    rows: list[tuple[Any, ...]] = []
    if task.status in (BLOCKED, BUDGET_EXHAUSTED):
        drifted = task.drift >= task.typed.budgets.drift_limit
        kind = "drift stop" if drifted else "budget" if task.status == BUDGET_EXHAUSTED else "blocked"
        more = " --more-blocks N --more-minutes M" if kind == "budget" else ""
        rows.append(
            (
                task.status_since,
                kind,
                task.id,
                task.reason,
                f"infer-forge task resume {task.id} --person NAME --note WHY{more}",
            )
        )
    rows += _gates(task)
    for block in reviews_wanted(task):
        said = review_statement(block.number)
        who = block.routing.get("reviewer")
        rows.append(
            (
                block.closed_at,
                "review",
                task.id,
                f"{said} by {who}: {block.sub_target}",
                printed.decide(task.id, said, who),
            )
        )
    for wanted in task.notes_of("grant_needed"):
        later = [e for e in task.executions.values() if shlex.join(e.argv) == wanted["command"]]
        if not any(e.intent["at"] > wanted["at"] for e in later):
            command = f"infer-forge guard grant --action {wanted['rule_id']} --for 30m"
            rows.append((wanted["at"], "grant", task.id, f"{wanted['command'][:120]}: {wanted['why']}", command))
    return rows


def _gates(task: Task) -> list[tuple[Any, ...]]:
    """Decisions of people that the last goal check left as the only thing missing."""
    if not task.goal_checks or task.status != ACTIVE:
        return []
    check = task.goal_checks[-1]
    pairs = zip(check["outcomes"], task.typed.contract.acceptance, strict=False)
    if any(o["result"] != PASS and not (o.get("waits_for") or p.kind == "human_decision") for o, p in pairs):
        return []
    return [
        (check["at"], "gate", task.id, p.statement, printed.decide(task.id, str(p.statement), p.by))
        for p in undecided(task)
    ]
