"""What the tasks of the store say about the nodes that stand for them; kept by each task's tip, since a tip never changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from infer_forge.base import jsonio
from infer_forge.base.errors import ForgeError, InputUnusable
from infer_forge.base.gitstore import Store
from infer_forge.base.paths import paths
from infer_forge.tasks import events as history
from infer_forge.tasks.graph.model import ACTIVE, DELIVERED


class TaskFacts(msgspec.Struct):
    """A task as the graph needs it.

    Attributes:
        status: of the task, or `unreadable` with the cause in `reason`.
        authors: who defined it, opened its blocks or ran its commands.
        imports: origins and lineage of its imported context.
        sha256: hash of its last event before the archive, when it ended: the identity of what it hands over.
    """

    tip: str
    status: str
    title: str = ""
    type: str | None = None
    goal: str = "delivery"
    created_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    reason: str = ""
    lock: str | None = None
    supersedes: str | None = None
    authors: list[str] = []
    imports: list[list[str]] = []
    sha256: str | None = None
    journal: str | None = None
    outcome: str | None = None
    records: list[str] = []

    @property
    def ended(self) -> bool:
        """Whether the task has ended."""
        return self.ended_at is not None

    @property
    def result(self) -> str | None:
        """Which of the two results it ended with."""
        return None if not self.ended else "deliverable" if self.status == DELIVERED else "follow_up_handoff"


UNREADABLE = "unreadable"
_AUTHORING = ("defined", "block_opened", "intent")


def facts_of(store: Store, task_ids: Iterable[str], *, whole: bool = False) -> dict[str, TaskFacts]:
    """The facts of these tasks; a task that the store does not have is not in the answer.

    Args:
        whole: look at every task again. Otherwise one that is archived is taken as it was: it never changes.
    """
    file = paths().cache / "graphs" / f"tasks-{jsonio.sha256_of(str(store.gitdir.absolute()))[:16]}.json"
    asked = list(task_ids)
    kept = _kept(file) if asked and not whole else {}
    found = {name: facts for name in asked if (facts := kept.get(name)) is not None and facts.journal is not None}
    wanted = [name for name in asked if name not in found]
    faults: dict[str, InputUnusable] = {}
    tips = store.tips(history.PREFIX, faults) if len(wanted) > 200 else _tips(store, wanted, faults)
    fresh = 0
    for task_id in wanted:
        tip = tips.get(history.PREFIX + task_id)
        fault = faults.get(history.PREFIX + task_id)
        if fault is not None:
            found[task_id] = TaskFacts("", UNREADABLE, reason=fault.what)
        if tip is None:
            continue
        known = kept.get(task_id)
        if known is None or known.tip != tip:
            known, fresh = _read(store, task_id, tip), fresh + 1
        found[task_id] = known
    if fresh:
        jsonio.write_atomic(file, msgspec.json.encode({**kept, **found}))
    return found


def _tips(store: Store, wanted: Iterable[str], faults: dict[str, InputUnusable]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in wanted:
        try:
            snapshot = store.read(history.ref_of(name))
        except InputUnusable as exc:
            faults[history.PREFIX + name] = exc
        else:
            found |= {snapshot.ref: snapshot.tip} if snapshot.tip else {}
    return found


def _kept(file: Any) -> dict[str, TaskFacts]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, TaskFacts])
    except (OSError, msgspec.MsgspecError):
        return {}


def _read(store: Store, task_id: str, tip: str) -> TaskFacts:
    from infer_forge.tasks.state import fold

    try:
        events = history.read(store.at(tip, history.ref_of(task_id)))
        task = fold(task_id, events)
        definition = task.typed
    except (ForgeError, ValueError, KeyError) as exc:
        return TaskFacts(tip, UNREADABLE, reason=" ".join(str(exc).split())[:200])
    content: dict[str, Any] = (task.ending or {}).get("content") or {}
    capability: dict[str, Any] = content.get("capability") or {}
    records: list[Any] = capability.get("records") or []
    started = next((e.at for e in events if e.kind == "status" and e.data.get("status") == ACTIVE), None)
    return TaskFacts(
        tip,
        task.status,
        title=definition.title,
        type=definition.type,
        goal=definition.goal_tag,
        created_at=task.created_at,
        started_at=started,
        ended_at=(task.ending or {}).get("at"),
        reason=content.get("reason") or task.reason,
        lock=task.lock_sha,
        supersedes=definition.supersedes,
        authors=sorted({e.by for e in events if e.kind in _AUTHORING}),
        imports=[[c.origin, *c.lineage] for c in definition.context if c.kind == "imported_context"],
        sha256=task.ending_sha or None,
        journal=(task.archived or {}).get("journal"),
        outcome=capability.get("outcome"),
        records=[str(r) for r in records],
    )
