"""Refs of the task store that cannot be read any more: which, why, the last good commit of each, and putting one back.

Nothing is put back by itself. A ref is the record of what happened, and going back to an earlier commit forgets what came
after it: so a person at a terminal does it, what stood there is kept, and a ref that can be read is never moved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from infer_forge.base import jsonio
from infer_forge.base.errors import ForgeError, GateRefused, InputUnusable
from infer_forge.base.gitstore import Snapshot, Store
from infer_forge.base.records import Finding, Header, Report
from infer_forge.base.tables import Column, Table
from infer_forge.tasks import baseline, proposals, runtime
from infer_forge.tasks import events as history
from infer_forge.tasks.graph import log
from infer_forge.tasks.graph.model import Graph

if TYPE_CHECKING:
    from infer_forge.base.gitstore.model import Commit
    from infer_forge.base.gitstore.recovery import Offer

PREFIXES = (history.PREFIX, log.PREFIX, proposals.PREFIX, baseline.REF, runtime.REF)


def whole(ref: str) -> Callable[[Snapshot], int]:
    """What reads a snapshot of this ref to its end and counts its events (of other refs its files); raises what is wrong.

    Events are held against their chain and not interpreted: what another version wrote is whole.
    """
    if ref.startswith(history.PREFIX):
        return lambda snapshot: _counted(ref, len(history.read(snapshot)))
    if ref.startswith(log.PREFIX):
        project = ref.removeprefix(log.PREFIX)
        return lambda snapshot: _counted(ref, sum(1 for _ in log.chain(snapshot, Graph(project))))
    return _files


def _counted(ref: str, events: int) -> int:
    if not events:
        raise InputUnusable("it holds no event", where=ref)
    return events


def _files(snapshot: Snapshot) -> int:
    return sum(1 for path, text in snapshot.items("") if not path.endswith(".json") or jsonio.loads(text, where=path))


def _mine(ref: str) -> Callable[[Commit], bool]:
    """Whether a commit's message is one that this ref's writer gives; of the other refs nothing is guessed."""
    name = ref.rsplit("/", 1)[-1]
    if ref.startswith(history.PREFIX):
        return lambda commit: commit.message.strip() == name
    return lambda commit: ref.startswith(log.PREFIX) and commit.message.startswith(f"{name}: ")


def damaged(store: Store) -> dict[str, ForgeError]:
    """Refs of tasks, graphs, proposals, baselines and runtimes that cannot be read, with why."""
    found: dict[str, ForgeError] = {}
    for prefix in PREFIXES:
        faults: dict[str, InputUnusable] = {}
        names = sorted({*store.tips(prefix, faults), *faults})
        found |= {name: fault for name in names if (fault := _fault(store, name)) is not None}
    return found


def _fault(store: Store, ref: str) -> ForgeError | None:
    try:
        whole(ref)(store.read(ref))
    except ForgeError as exc:
        return exc
    except (ValueError, KeyError, TypeError) as exc:
        return InputUnusable(f"it holds what no version wrote ({type(exc).__name__}: {exc})", where=ref)
    return None


def last_good(store: Store, ref: str) -> list[Offer]:
    """Commits that a damaged ref may be put back to, the fullest first."""
    from infer_forge.base.gitstore import recovery

    return recovery.offers(store, ref, whole(ref), _mine(ref))


def never_named(store: Store, ref: str, name: str) -> bool:
    """Whether no commit that led to a ref ever spoke of a name. False where that cannot be seen."""
    from infer_forge.base.gitstore.history import chain
    from infer_forge.base.gitstore.sync import changed_files

    try:
        tip = store.refs.get(ref)
        for commit in chain(store.objects, tip):
            parent = store.objects.commit(commit.parent).tree if commit.parent else None
            added, _ = changed_files(store.objects, parent, commit.tree)
            if any(name.encode() in store.objects.content(blob, "blob") for blob in added.values()):
                return False
    except InputUnusable:
        return False
    return tip is not None


def advice(store: Store, ref: str, exc: ForgeError) -> InputUnusable:
    """The error of a damaged ref with its repair: the last good commit and the command."""
    try:
        found = last_good(store, ref)
    except ForgeError as why:
        said = f"its last good commit is not known ({why.what})"
    else:
        said = (
            f"last good commit {found[0].commit[:12]} ({found[0].count} events)" if found else "no commit here is whole"
        )
    return InputUnusable(f"{exc.what}; {said}", where=ref, next_step=history.restoring(ref))


def listed(store: Store, ref: str | None = None) -> Report:
    """Damaged refs (or this one) with what each may be put back to; `damaged` counts them."""
    faults = damaged(store) if ref is None else _one(store, ref)
    report = Report("task_restore", Header(more={"store": str(store.gitdir)}), extra={"damaged": len(faults)})
    rows: list[tuple[str, str | None, int | None, str | None]] = []
    for name, exc in faults.items():
        report.findings.append(Finding("REF_DAMAGED", f"{name}: {exc.what}", "error"))
        found = last_good(store, name)
        rows += [(name, o.commit, o.count, o.source) for o in found] or [(name, None, None, None)]
    names = [Column("ref", "text"), Column("commit", "text"), Column("events", "int"), Column("found", "text")]
    report.add(Table("offers", names, rows))
    report.summary = [f"{len(faults)} refs of the task store cannot be read" if faults else "every ref can be read"]
    report.findings += [
        Finding("REF_LOST", f"{name}: no commit here is whole", "error", next_step=_from_a_copy(store, name))
        for name, commit, _, _ in rows
        if commit is None
    ]
    first = next((r for r in rows if r[1]), None)
    if first:
        report.next_step = f"a person at a terminal: {history.restoring(first[0])} --commit {first[1]}"
    return report


def _from_a_copy(store: Store, ref: str) -> str:
    """How a person takes a ref from another copy of the store; git refuses to write over a file that it cannot read."""
    return f"mv {store.gitdir}/{ref} away, then git -C {store.gitdir} fetch OTHER_COPY +{ref}:{ref}"


def _one(store: Store, ref: str) -> dict[str, ForgeError]:
    if not ref.startswith(PREFIXES):
        raise InputUnusable(
            f"{ref!r} is no ref of the task store", next_step="infer-forge task restore lists damaged ones"
        )
    fault = _fault(store, ref)
    return {} if fault is None else {ref: fault}


def restore(store: Store, ref: str, commit: str, person: str) -> Report:
    """Put a damaged ref back to one of its offers.

    Raises:
        GateRefused: the ref can be read, or the commit is none of its offers.
    """
    from infer_forge.base.gitstore import recovery

    fault = _one(store, ref).get(ref)
    if fault is None:
        raise GateRefused(f"{ref} can be read: nothing is put back", next_step="infer-forge task restore")
    found = next((o for o in last_good(store, ref) if len(commit) >= 7 and o.commit.startswith(commit)), None)
    if found is None:
        raise GateRefused(f"{commit} is no whole commit of {ref}", next_step=history.restoring(ref))
    kept = recovery.put_back(store, ref, found.commit)
    report = Report(
        "task_restore",
        Header(more={"store": str(store.gitdir), "person": person}),
        extra={"ref": ref, "commit": found.commit, "kept": kept},
    )
    report.summary = [f"{ref} is {found.commit[:12]} again, with {found.count} events ({found.source})"]
    report.summary += [f"what stood there is kept: {kept}"] if kept else []
    again = _fault(store, ref)
    if again is not None:
        report.findings.append(Finding("REF_DAMAGED", f"{ref}: {again.what}", "error"))
    if store.remote is not None:
        said = f"{store.remote.url} may hold the damaged commit too, and is followed: look there with git ls-remote"
        report.findings.append(Finding("HUB_UNSEEN", said, "warning"))
    report.next_step = "infer-forge task restore"
    return report
