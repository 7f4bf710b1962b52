"""An online diagnosis reads: its lock switches the guard's profile, and what was denied becomes a handoff item (B27)."""

from __future__ import annotations

import datetime
from typing import Any

from infer_forge.base import ownership
from infer_forge.tasks.state import Task

READ_ONLY, ORDINARY = "read_only", "ordinary"
_RULES = ("diagnosis.write", "production.write")
_MOST = 200


def enter_profile(task: Task, run_id: str | None = None) -> str | None:
    """Switch this run's guard to the profile that a task's lock says; the profile now in force for the run."""
    if not task.lock or task.lock.get("guard_profile") != READ_ONLY or task.ended:
        return None
    with ownership.editing(run_id) as run:
        run.profile, run.profile_task = READ_ONLY, task.id
        return run.profile


def leave_profile(task_id: str) -> None:
    """Switch back every run whose profile this task set."""
    for run_id, run in ownership.load().runs.items():
        if run.profile_task == task_id:
            with ownership.editing(run_id) as mine:
                mine.profile, mine.profile_task = ORDINARY, None


def denied_writes(task: Task) -> list[dict[str, Any]]:
    """What the guard denied during an online diagnosis: by `task record`, and by the hook since the lock (masked commands)."""
    if task.typed.type != "online_diagnosis" or task.lock is None:
        return []
    from infer_forge.guard import audit

    found = [{"command": n["command"], "rule_id": n["rule_id"], "why": n["why"]} for n in task.notes_of("denied_write")]
    locked = datetime.datetime.fromisoformat(task.lock["at"]).timestamp()
    for entry in audit.tail(5000):
        if entry.get("rule") in _RULES and entry.get("verdict") == "deny" and _time(entry) >= locked - 1:
            found.append(
                {
                    "command": entry["command"],
                    "rule_id": entry["rule"],
                    "why": f"denied by the hook in {entry.get('cwd')}",
                }
            )
    unique = {f["command"]: f for f in reversed(found)}
    return list(reversed(unique.values()))[:_MOST]


def _time(entry: dict[str, Any]) -> float:
    try:
        at = datetime.datetime.fromisoformat(str(entry["at"]).replace("Z", "+00:00"))
    except (KeyError, ValueError):
        return 0.0
    return at.timestamp()
