"""Where imported context comes from: what is called verified stands on a task that ended or on a record of the journal."""

from __future__ import annotations

from infer_forge.base.errors import InputUnusable
from infer_forge.base.gitstore import Store
from infer_forge.tasks.model import TaskDefinition
from infer_forge.tasks.state import load


def unproved(store: Store, definition: TaskDefinition) -> list[str]:
    """Faults of imported context that is called verified: lineage that is neither an ended task here nor a record (B33, B34).

    Unverified and stale context may name anything: it claims nothing.
    """
    return [
        f"context.{item.name}: is called verified, but {name} is neither a task that ended here nor a record of the "
        "journal; say unverified, or sync the store that has it"
        for item in definition.context
        if item.kind == "imported_context" and item.status == "verified"
        for name in item.lineage
        if not _ended_task(store, name) and not _record(name)
    ]


def _ended_task(store: Store, name: str) -> bool:
    try:
        return load(store, name).ended
    except InputUnusable:
        return False


def _record(name: str) -> bool:
    from infer_forge.journal import get, open_store

    try:
        with open_store() as journal:
            get(journal, name)
    except InputUnusable:
        return False
    return True
