"""What people and agents see of the capability baseline: its digest, its check suite, and what changed since a task's lock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infer_forge.base.errors import GateRefused
from infer_forge.base.records import Finding, Header, Report
from infer_forge.base.tables import Column, Table
from infer_forge.tasks import baseline, check_suite
from infer_forge.tasks.state import load
from infer_forge.tasks.verbs import opened, told


def shown(task_id: str | None = None, tools: Mapping[str, Any] | None = None) -> Report:
    """The manifest in force now; with a task, what changed since its lock and what its check suite still lacks.

    Raises:
        GateRefused: the task is not locked, or was locked without a baseline.
    """
    now = baseline.manifest(tools)
    report = Report("task_baseline", Header(more={"task": task_id}), extra={"manifest": now})
    count = "unknown" if now["tools"] is None else len(now["tools"])
    report.summary = [
        f"capability baseline {now['digest'][:12]} of {now['pack_version']}: {len(now['files'])} files, {count} tools"
    ]
    named = now["check_suite"]
    rows = [
        (line, (named["programs"][line] or "")[:12] or None, check_suite.how_to_run(task_id or "TASK", line))
        for line in named["commands"]
    ]
    report.add(Table("check_suite", [Column(n, "text") for n in ("command", "program", "run")], rows))
    if task_id is not None:
        _since_lock(report, task_id, now)
    return told(report)


def _since_lock(report: Report, task_id: str, now: Mapping[str, Any]) -> None:
    with opened() as store:
        task = load(store, task_id)
        recorded: dict[str, Any] = (task.lock or {}).get("baseline") or {}
        locked: str | None = recorded.get("digest")
        if locked is None:
            raise GateRefused(
                "no capability baseline was recorded with it",
                where=task_id,
                next_step=f"infer-forge task lock {task_id}",
            )
        before = baseline.kept(store, locked)
        found = baseline.changes(before, now)
        lacking = check_suite.faults(store, task, before, now, look=False) if task.typed.type == "capability" else []
    rows = [(how, name) for how, names in found.items() for name in names]
    report.add(Table("changes", [Column("change", "text"), Column("what", "text")], rows))
    report.summary.append(f"{len(rows)} changes since the lock of {task_id} ({locked[:12]})")
    report.findings += [Finding("CHECK_SUITE", said, "warning") for said in lacking]
    report.extra["missing"] = lacking
