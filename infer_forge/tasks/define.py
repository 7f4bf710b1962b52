"""Define, lock, clarify and start tasks. Material changes after the lock make a new task; nothing else may change."""

from __future__ import annotations

from typing import Any

from infer_forge.base import contracts, jsonio
from infer_forge.base.errors import GateRefused, HumanNeeded, InputUnusable
from infer_forge.base.gitstore import Store
from infer_forge.tasks import events as history
from infer_forge.tasks.events import Event
from infer_forge.tasks.model import TaskDefinition, missing
from infer_forge.tasks.state import ACTIVE, BLOCKED, BUDGET_EXHAUSTED, DEFINED, Task, fold, load, require_open

# What a contract's lock covers (B31): changing any of it is another task.
_LOCKED_PARTS = ("type", "contract", "context", "exit_criteria", "budgets")


def definition_of(data: Any, where: str = "task definition") -> TaskDefinition:
    """The typed definition of plain data.

    Raises:
        InputUnusable: naming the first wrong fields.
    """
    from pydantic import ValidationError

    try:
        return TaskDefinition.model_validate(data)
    except ValidationError as exc:
        faults = exc.errors(include_url=False)[:4]
        told = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'definition'}: {e['msg'].removeprefix('Value error, ')}" for e in faults
        )
        raise InputUnusable(told, where=where, next_step="mend these fields") from None


def new(store: Store, definition: TaskDefinition, task_id: str | None = None) -> Task:
    """Keep a definition under a new id; it may still lack things, which `lock` refuses.

    Raises:
        GateRefused: the id is taken.
    """
    wanted = task_id or history.new_task_id()
    body = definition.model_dump(mode="json", exclude_defaults=True)

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]]:
        if events:
            raise GateRefused("a task with this id exists", where=wanted, next_step="leave the id out")
        return "defined", {"definition": body}

    history.append(store, wanted, decide)
    return load(store, wanted)


def edit(store: Store, task_id: str, definition: TaskDefinition) -> Task:
    """Replace a definition before its lock.

    Raises:
        GateRefused: the contract is locked.
    """
    body = definition.model_dump(mode="json", exclude_defaults=True)

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]]:
        task = fold(task_id, events)
        require_open(task, locked=False)
        if task.lock is not None:
            raise GateRefused(
                "the contract is locked: a material change is a new task",
                where=task_id,
                next_step=f"infer-forge task new --supersedes {task_id} ..., or infer-forge task clarify",
            )
        return "defined", {"definition": body}

    history.append(store, task_id, decide)
    return load(store, task_id)


def lock_hash(definition: TaskDefinition) -> str:
    """sha256 over what the lock covers."""
    body = definition.model_dump(mode="json", exclude_defaults=True)
    return contracts.contract_sha256({k: body.get(k) for k in _LOCKED_PARTS})


def lock(store: Store, task_id: str, *, baseline: dict[str, Any] | None = None) -> Task:
    """Lock the contract by hash; a second lock, or one of an incomplete definition, is refused.

    Args:
        baseline: the capability baseline in force (B67): pack version and hashes.

    Raises:
        GateRefused: with everything that is missing.
    """

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]]:
        task = fold(task_id, events)
        require_open(task, locked=False)
        if task.lock is not None:
            raise GateRefused(
                "it is locked already",
                where=task_id,
                next_step="a new contract is a new task",
            )
        lacking = missing(task.typed)
        if lacking:
            raise GateRefused(
                "the definition is not complete: " + "; ".join(lacking),
                where=task_id,
                next_step="infer-forge task edit",
            )
        profile = "read_only" if task.typed.type == "online_diagnosis" else "ordinary"
        return "locked", {"sha256": lock_hash(task.typed), "baseline": baseline or {}, "guard_profile": profile}

    history.append(store, task_id, decide)
    return load(store, task_id)


def clarify(store: Store, task_id: str, text: str) -> Task:
    """Record a clarification that does not change goal, scope or acceptance; it is appended, nothing is edited."""

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]]:
        require_open(fold(task_id, events))
        return "clarified", {"text": text}

    history.append(store, task_id, decide)
    return load(store, task_id)


def start(store: Store, task_id: str) -> Task:
    """Begin work on a locked task."""

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]] | None:
        task = fold(task_id, events)
        require_open(task)
        if task.status == ACTIVE:
            return None
        if task.status != DEFINED:
            raise GateRefused(
                f"the task is {task.status}: {task.reason}",
                where=task_id,
                next_step=f"infer-forge task resume {task_id}",
            )
        return "status", {"status": ACTIVE}

    history.append(store, task_id, decide)
    return load(store, task_id)


def set_blocked(store: Store, task_id: str, reason: str, *, budget: bool = False) -> Task:
    """Say that the task cannot go on now, and why; `budget`: because a limit is used up, which is no success."""
    status = BUDGET_EXHAUSTED if budget else BLOCKED

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]]:
        require_open(fold(task_id, events))
        return "status", {"status": status, "reason": reason}

    history.append(store, task_id, decide)
    return load(store, task_id)


def resume(store: Store, task_id: str, *, person: str | None = None, note: str = "") -> Task:
    """Bring a blocked or exhausted task back to active. What a person must answer needs a person.

    Raises:
        HumanNeeded: the drift limit or a budget stopped it, and no person is named.
    """

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]] | None:
        task = fold(task_id, events)
        require_open(task)
        if task.status == ACTIVE:
            return None
        drifted = task.drift >= task.typed.budgets.drift_limit
        if (drifted or task.status == BUDGET_EXHAUSTED) and person is None:
            raise _PersonNeeded(task)
        return "status", {"status": ACTIVE, "reason": note, "person": person, "drift_answered": drifted}

    try:
        history.append(store, task_id, decide)
    except GateRefused as exc:
        if isinstance(getattr(getattr(exc, "refusal", None), "data", None), _PersonNeeded):
            raise HumanNeeded(exc.what, where=task_id, next_step=exc.next_step) from None
        raise
    return load(store, task_id)


class _PersonNeeded(GateRefused):
    """Inside a decision: becomes `HumanNeeded` outside."""

    def __init__(self, task: Task) -> None:
        super().__init__(
            f"a person decides whether it goes on: {task.reason or 'it was stopped'}",
            next_step=f"a person runs at a terminal: infer-forge task resume {task.id} --person NAME --note WHY",
        )


def verify(store: Store, task_id: str) -> list[tuple[str, str, str]]:
    """(rule, pass|fail|unknown, what was seen): chain, lock hash, and every copy of the lock's hash in evidence and records."""
    checks: list[tuple[str, str, str]] = []
    try:
        task = load(store, task_id)
    except InputUnusable as exc:
        return [("history-chain", "fail", exc.what)]
    checks.append(("history-chain", "pass", f"{task.last_seq} events, each with the hash of the one before"))
    if task.lock is None:
        return [*checks, ("contract-lock", "unknown", "not locked")]
    now = lock_hash(task.typed)
    same = now == task.lock["sha256"]
    checks.append(
        ("contract-lock", "pass" if same else "fail", f"lock {task.lock['sha256'][:12]}, definition {now[:12]}")
    )
    copies = [(i.id, i.data.get("task_contract_sha256")) for i in task.evidence if "task_contract_sha256" in i.data]
    wrong = [name for name, sha in copies if sha != task.lock["sha256"]]
    checks.append(("lock-copies", "fail" if wrong else "pass", ", ".join(wrong) or f"{len(copies)} copies agree"))
    changed = [i.id for i in task.evidence if _file_changed(i.path, i.sha256)]
    checks.append(
        ("evidence-files", "fail" if changed else "pass", ", ".join(changed) or "every file that is there has its hash")
    )
    gone = [i.id for i in task.evidence if i.path and not _there(i.path)]
    checks.append(("evidence-there", "unknown" if gone else "pass", ", ".join(gone) or "every file is there"))
    return checks


def _there(path: str) -> bool:
    from pathlib import Path

    return Path(path).is_file()


def _file_changed(path: str | None, sha: str | None) -> bool:
    return bool(path and sha and _there(path) and jsonio.sha256_file(path) != sha)
