"""`task verify`: the chain of events, every copy of the contract's hash, evidence files, and the archived record."""

from __future__ import annotations

from pathlib import Path

from infer_forge.base import contracts, jsonio
from infer_forge.base.errors import ForgeError, InputUnusable
from infer_forge.base.gitstore import Store
from infer_forge.tasks import events as history
from infer_forge.tasks.model import TaskDefinition
from infer_forge.tasks.state import Task, load

LOCKED_PARTS = ("type", "contract", "context", "exit_criteria", "budgets")
"""What a contract's lock covers (B31): changing any of it is another task."""
Check = tuple[str, str, str]


def lock_hash(definition: TaskDefinition) -> str:
    """sha256 over what the lock covers."""
    body = definition.model_dump(mode="json", exclude_defaults=True)
    return contracts.contract_sha256({k: body.get(k) for k in LOCKED_PARTS})


def verify(store: Store, task_id: str) -> list[Check]:
    """(rule, pass|fail|unknown, what was seen): chain, lock, every copy of the lock's hash, evidence files, journal record."""
    history.ref_of(task_id)
    try:
        task = load(store, task_id)
    except InputUnusable as exc:
        if "no task has the id" in exc.what:
            raise
        return [("history-chain", "fail", exc.what)]
    checks: list[Check] = [("history-chain", "pass", f"{task.last_seq} events, each with the hash of the one before")]
    if task.lock is None:
        return [*checks, ("contract-lock", "unknown", "not locked")]
    now, locked = lock_hash(task.typed), task.lock["sha256"]
    checks.append(("contract-lock", "pass" if now == locked else "fail", f"lock {locked[:12]}, definition {now[:12]}"))
    wrong, count = _copies(task, history.read(store.read(history.ref_of(task_id)), verify=False))
    checks.append(("lock-copies", "fail" if wrong else "pass", ", ".join(wrong) or f"{count} copies agree"))
    changed = [i.id for i in task.evidence if _file_changed(i.path, i.sha256)]
    seen = f"changed since: {', '.join(changed)}" if changed else "every file that is there has its hash"
    checks.append(("evidence-files", "fail" if changed else "pass", seen))
    gone = [i.id for i in task.evidence if i.path and not Path(i.path).is_file()]
    checks.append(("evidence-there", "unknown" if gone else "pass", ", ".join(gone) or "every file is there"))
    return [*checks, *_archive(task)]


def _copies(task: Task, events: list[history.Event]) -> tuple[list[str], int]:
    """Copies of the lock's hash that say something else, and how many there are: each event after the lock repeats it."""
    begun = next(e.seq for e in events if e.kind == "locked")
    copies = [(f"event {e.seq} ({e.kind})", str(e.data.get("lock"))) for e in events if e.seq > begun]
    copies += [(i.id, i.lock) for i in task.evidence if i.lock]
    copies += [
        (f"content of {i.id}", i.data["task_contract_sha256"])
        for i in task.evidence
        if "task_contract_sha256" in i.data
    ]
    return [name for name, sha in copies if sha != task.lock_sha], len(copies)


def _archive(task: Task) -> list[Check]:
    """The journal's copy: it is there, repeats the lock, and is what this history gives."""
    if task.ending is None:
        return []
    if task.archived is None:
        return [("journal-record", "unknown", f"not archived yet: infer-forge task resume {task.id}")]
    from infer_forge.journal import get, open_store
    from infer_forge.journal.model import new_id
    from infer_forge.tasks.archive import record_of

    try:
        with open_store() as journal:
            kept = get(journal, task.archived["journal"])
    except ForgeError as exc:
        return [("journal-record", "unknown", exc.what)]
    if kept.extra.get("task_contract_sha256") != task.lock_sha:
        return [("journal-record", "fail", f"record {kept.id} repeats another lock than this history's")]
    if kept.extra.get("history_sha") != record_of(task).extra["history_sha"]:
        return [("journal-record", "fail", f"record {kept.id} was made from another history")]
    if new_id(kept) != kept.id:
        return [("journal-record", "fail", f"record {kept.id} was changed: its id is not that of its content")]
    return [("journal-record", "pass", f"record {kept.id} repeats the lock and this history")]


def _file_changed(path: str | None, sha: str | None) -> bool:
    return bool(path and sha and Path(path).is_file() and jsonio.sha256_file(path) != sha)
