"""A task's state: folded from its events and from nothing else, so that any process, clone or node sees the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from infer_forge.base.errors import GateRefused, InputUnusable
from infer_forge.base.gitstore import Store
from infer_forge.tasks import events as history
from infer_forge.tasks.events import Event
from infer_forge.tasks.model import TaskDefinition

DEFINED, ACTIVE, BLOCKED, BUDGET_EXHAUSTED = "defined", "active", "blocked", "budget_exhausted"
DELIVERED, HANDED_OFF = "delivered", "handed_off"
OPEN_STATES = (DEFINED, ACTIVE, BLOCKED, BUDGET_EXHAUSTED)
ENDED = (DELIVERED, HANDED_OFF)
OUTCOMES = ("confirmed", "rejected", "constraint", "blocked")
PROGRESS = ("advanced", "stalled", "regressed")


@dataclass
class Execution:
    """One execution record: written before and after, so that an open intent is probed on resume, never run again blindly.

    Attributes:
        phase: `intent`, `started` or `result`; `resolved` when it ran and nobody saw how it ended; `never_started` when
            a probe proved that it did not run and never will.
    """

    id: str
    label: str
    block: int | None
    argv: list[str]
    phase: str = "intent"
    exit_code: int | None = None
    intent: dict[str, Any] = field(default_factory=dict[str, Any])
    started: dict[str, Any] = field(default_factory=dict[str, Any])
    result: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass
class Evidence:
    """One evidence item that predicates look at; see `model.TRUST` for trust."""

    id: str
    kind: str
    label: str
    block: int | None
    trust: str
    at: str
    data: dict[str, Any]
    path: str | None = None
    sha256: str | None = None
    epoch: int | None = None
    fenced: bool = False
    claims: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    execution: str | None = None
    lock: str | None = None


@dataclass
class Block:
    """One loop block: sub-target, exit condition, routing, and how it ended."""

    number: int
    sub_target: str
    exit_condition: str
    routing: dict[str, Any]
    opened_at: str
    runner: str | None = None
    closed_at: str | None = None
    outcome: str | None = None
    progress: str | None = None
    note: str = ""
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    closed_seq: int = 0

    @property
    def active(self) -> bool:
        """Whether it is still open."""
        return self.closed_at is None


@dataclass
class Task:
    """A task as its events tell it."""

    id: str
    status: str = DEFINED
    definition: dict[str, Any] = field(default_factory=dict[str, Any])
    lock: dict[str, Any] | None = None
    created_at: str = ""
    clarifications: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    blocks: list[Block] = field(default_factory=list[Block])
    executions: dict[str, Execution] = field(default_factory=dict[str, Execution])
    evidence: list[Evidence] = field(default_factory=list[Evidence])
    decisions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    goal_checks: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    notes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    fenced_claims: dict[str, str] = field(default_factory=dict[str, str])
    archived: dict[str, Any] | None = None
    status_since: str = ""
    ending: dict[str, Any] | None = None
    reason: str = ""
    last_sha: str = ""
    last_seq: int = 0
    ending_seq: int = 0
    ending_sha: str = ""
    drift: int = 0
    more_blocks: int = 0
    more_minutes: int = 0
    _typed: tuple[dict[str, Any], TaskDefinition] | None = field(default=None, repr=False, compare=False)

    @property
    def typed(self) -> TaskDefinition:
        """The definition as its type.

        Raises:
            InputUnusable: it does not fit this version.
        """
        if self._typed is None or self._typed[0] is not self.definition:
            try:
                typed = TaskDefinition.model_validate(self.definition)
            except ValidationError as exc:
                first = exc.errors(include_url=False)[0]
                said = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
                raise _another_version(self.id, f"its definition does not fit this version ({said})") from None
            self._typed = (self.definition, typed)
        return self._typed[1]

    @property
    def most_blocks(self) -> int:
        """Loop blocks that its budget allows, with what a person added."""
        return self.typed.budgets.blocks + self.more_blocks

    @property
    def most_minutes(self) -> int:
        """Minutes from its creation that its budget allows, with what a person added."""
        return self.typed.budgets.minutes + self.more_minutes

    @property
    def active_block(self) -> Block | None:
        """The one open block."""
        return self.blocks[-1] if self.blocks and self.blocks[-1].active else None

    @property
    def open_executions(self) -> list[Execution]:
        """Executions without a result."""
        return [e for e in self.executions.values() if e.phase in ("intent", "started")]

    @property
    def lock_sha(self) -> str | None:
        """Hash of the locked contract."""
        return self.lock["sha256"] if self.lock else None

    def notes_of(self, topic: str) -> list[dict[str, Any]]:
        """Notes of one topic, oldest first."""
        return [n for n in self.notes if n.get("topic") == topic]

    @property
    def ended(self) -> bool:
        """Whether it was delivered or handed off."""
        return self.status in ENDED


def _another_version(task_id: str, said: str) -> history.OtherVersion:
    return history.OtherVersion(said, where=task_id, next_step="update infer-forge")


def fold(task_id: str, events: list[Event]) -> Task:
    """The state after these events.

    Raises:
        InputUnusable: there are none, so there is no such task; or an event that this version does not know.
    """
    if not events:
        raise InputUnusable(f"no task has the id {task_id!r}", next_step="infer-forge task list shows them")
    task = Task(task_id)
    for event in events:
        handler = _HANDLERS.get(event.kind)
        if handler is None:
            raise _another_version(task_id, f"event {event.seq} has the unknown kind {event.kind!r}")
        try:
            handler(task, event)
        except (KeyError, TypeError, IndexError, ValueError) as exc:
            said = f"event {event.seq} ({event.kind}) does not fit this version: {exc!r}"
            raise _another_version(task_id, said) from None
        task.last_sha, task.last_seq = event.sha, event.seq
    return task


def _defined(task: Task, event: Event) -> None:
    task.definition = event.data["definition"]
    task.created_at = task.created_at or event.at


def _locked(task: Task, event: Event) -> None:
    task.lock = {**event.data, "at": event.at}


def _status(task: Task, event: Event) -> None:
    task.status = event.data["status"]
    task.reason = event.data.get("reason", "")
    task.status_since = event.at
    task.more_blocks += int(event.data.get("more_blocks") or 0)
    task.more_minutes += int(event.data.get("more_minutes") or 0)
    if task.status == ACTIVE:
        task.drift = 0 if event.data.get("drift_answered") else task.drift


def _clarified(task: Task, event: Event) -> None:
    task.clarifications.append({"at": event.at, "by": event.by, **event.data})


def _block_opened(task: Task, event: Event) -> None:
    d = event.data
    extra = d.get("data", {})
    task.blocks.append(
        Block(
            len(task.blocks) + 1,
            d["sub_target"],
            d["exit_condition"],
            d["routing"],
            event.at,
            d.get("runner"),
            data=extra,
        )
    )


def _block_closed(task: Task, event: Event) -> None:
    block = task.blocks[-1]
    block.closed_at, block.outcome, block.progress = event.at, event.data["outcome"], event.data["progress"]
    block.note, block.closed_seq = event.data.get("note", ""), event.seq
    block.data = {**block.data, **event.data.get("data", {})}
    task.drift = 0 if block.progress == "advanced" else task.drift + 1


def _intent(task: Task, event: Event) -> None:
    d = event.data
    task.executions[d["id"]] = Execution(d["id"], d["label"], d.get("block"), d["argv"], intent={**d, "at": event.at})


def _started(task: Task, event: Event) -> None:
    execution = task.executions[event.data["id"]]
    execution.phase, execution.started = "started", {**event.data, "at": event.at}


def _result(task: Task, event: Event) -> None:
    execution = task.executions[event.data["id"]]
    execution.phase = event.data.get("phase", "result")
    execution.exit_code, execution.result = event.data.get("exit_code"), {**event.data, "at": event.at}
    for item in event.data.get("evidence", []):
        _keep_evidence(task, item, event.at)


_EVIDENCE_FIELDS = (
    "id",
    "kind",
    "label",
    "block",
    "trust",
    "data",
    "path",
    "sha256",
    "epoch",
    "claims",
    "execution",
    "lock",
)


def _evidence(task: Task, event: Event) -> None:
    _keep_evidence(task, event.data, event.at)


def _keep_evidence(task: Task, data: dict[str, Any], at: str) -> None:
    item = Evidence(at=at, **{k: data[k] for k in _EVIDENCE_FIELDS if k in data})
    item.fenced = any(c.get("claim_id") in task.fenced_claims for c in item.claims)
    task.evidence.append(item)


def _fenced(task: Task, event: Event) -> None:
    """Claims whose evidence no longer stands, and what made under them comes in later; one item by id where it came too late."""
    task.fenced_claims |= {str(c): event.data.get("why", "") for c in event.data.get("claims", [])}
    late = set(event.data.get("evidence", []))
    for item in task.evidence:
        if item.id in late or any(c.get("claim_id") in task.fenced_claims for c in item.claims):
            item.fenced = True


def _decided(task: Task, event: Event) -> None:
    task.decisions.append({"at": event.at, "by": event.by, "seq": event.seq, **event.data})


def _goal_checked(task: Task, event: Event) -> None:
    task.goal_checks.append({"at": event.at, "seq": event.seq, **event.data})


def _noted(task: Task, event: Event) -> None:
    task.notes.append({"at": event.at, "by": event.by, "seq": event.seq, **event.data})


def _ended(task: Task, event: Event) -> None:
    task.status = event.data["status"]
    task.status_since = event.at
    task.ending = {"at": event.at, "by": event.by, **event.data}
    task.ending_seq, task.ending_sha = event.seq, event.sha


def _archived(task: Task, event: Event) -> None:
    task.archived = {"at": event.at, **event.data}


_HANDLERS = {
    "defined": _defined,
    "locked": _locked,
    "status": _status,
    "clarified": _clarified,
    "block_opened": _block_opened,
    "block_closed": _block_closed,
    "intent": _intent,
    "started": _started,
    "result": _result,
    "evidence": _evidence,
    "fenced": _fenced,
    "decided": _decided,
    "goal_checked": _goal_checked,
    "noted": _noted,
    "ended": _ended,
    "archived": _archived,
}


def load(store: Store, task_id: str) -> Task:
    """A task's state now.

    Raises:
        InputUnusable: no such task, or its history was changed.
    """
    return fold(task_id, history.read(history.at_tip(store, task_id)))


def require_open(task: Task, *, locked: bool = True) -> None:
    """Refuse when a task has ended, or is not locked yet.

    Raises:
        GateRefused: naming which.
    """
    if task.ended:
        raise GateRefused(
            f"the task {task.id} ended as {task.status}; it never changes again",
            next_step="define a new task",
        )
    if locked and task.lock is None:
        raise GateRefused(
            "the task's contract is not locked", where=task.id, next_step=f"infer-forge task lock {task.id}"
        )
