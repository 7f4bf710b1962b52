"""A task's history: append-only events in a git ref of its own, each with the hash of the one before.

Every change is one event, decided on the state that its predecessors give, and written by compare-and-swap: of two
processes that race, one is refused by the rule or decides again on what the other wrote.
"""

from __future__ import annotations

import datetime
import getpass
import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio, redact
from infer_forge.base.config import settings
from infer_forge.base.errors import ForgeError, GateRefused, InputUnusable
from infer_forge.base.gitstore import Changes, Refuse, Snapshot, Store
from infer_forge.base.paths import paths
from infer_forge.base.records import Finding

PREFIX = "refs/tasks/"


class OtherVersion(InputUnusable):
    """Whole records that this version does not know how to read: another one wrote them, and nothing of them is damaged."""


@dataclass(frozen=True)
class Event:
    """One event: `sha` covers everything else, `prev` is the sha of the event before (empty for the first)."""

    seq: int
    kind: str
    at: str
    by: str
    prev: str
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    sha: str = ""

    def sealed(self) -> Event:
        """The event with its hash."""
        content = {k: v for k, v in asdict(self).items() if k != "sha"}
        return Event(self.seq, self.kind, self.at, self.by, self.prev, self.data, jsonio.sha256_of(content))


def now() -> str:
    """The time, UTC, to the millisecond; for people, never for order."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")


def who() -> str:
    """Who acts: the setting `identity.user`, else the account."""
    named = settings().get("identity.user")
    if named:
        return str(named)
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid{os.getuid()}"
    return f"{user}@{socket.gethostname()}"


def open_store(path: Path | None = None) -> Store:
    """The task store of this machine, following the team's hub when the settings name one."""
    return Store.open(path or paths().store("tasks"), settings().get("remotes.tasks"))


def new_task_id() -> str:
    """`t-20261129-154501-1a2b3c`: time for people, randomness against collisions."""
    stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d-%H%M%S")
    return f"t-{stamp}-{secrets.token_hex(3)}"


def ref_of(task_id: str) -> str:
    """The git ref of a task.

    Raises:
        InputUnusable: the id cannot be one.
    """
    letters = all(c.isalnum() or c in "-_." for c in task_id)
    taken = (
        task_id.startswith(("-", ".")) or task_id.endswith((".", ".lock")) or ".." in task_id
    )  # by options and by git
    if not task_id or not letters or taken or len(task_id) > 80:
        raise InputUnusable(f"{task_id!r} is no task id", next_step="infer-forge task list shows them")
    return f"{PREFIX}{task_id}"


def path_of(seq: int) -> str:
    """File of one event, fanned out by hundreds."""
    return f"events/{seq // 100:04d}/{seq:06d}.json"


def read(snapshot: Snapshot, *, verify: bool = True) -> list[Event]:
    """All events, oldest first.

    Raises:
        InputUnusable: an event is missing, or its hash or chain does not hold: somebody changed the history.
    """
    events: list[Event] = []
    try:
        for path, content in snapshot.items("events/"):
            try:
                events.append(Event(**jsonio.loads(content, where=path)))
            except (TypeError, InputUnusable):
                raise InputUnusable(f"{path} holds no event: the task's history is damaged") from None
    except InputUnusable as exc:
        raise broken(snapshot.ref, exc) from None
    events.sort(key=lambda e: e.seq)
    if verify:
        prev = ""
        for number, event in enumerate(events, 1):
            if event.seq != number or event.prev != prev or event.sealed().sha != event.sha:
                raise InputUnusable(
                    f"event {event.seq} does not continue the chain: the task's history was changed",
                    where=snapshot.ref,
                    next_step=restoring(snapshot.ref),
                )
            prev = event.sha
    return events


Decision = Callable[[list[Event]], "tuple[str, dict[str, Any]] | None"]


def append(store: Store, task_id: str, decide: Decision, *, op: str | None = None) -> Event | None:
    """Append one event.

    Args:
        decide: from the events so far: (kind, data) of the next one, None for nothing to do; raises `GateRefused` to refuse.
        op: an id that makes a repeated call after a lost answer find its own event.

    Returns:
        The new event (None when there was nothing to do); after the lock each carries the lock's hash.
        Secrets in its data are masked before it is written.
    """
    made: list[Event] = []

    def step(snapshot: Snapshot) -> Changes | Refuse:
        made.clear()
        events = read(snapshot)
        try:
            answer = decide(events)
        except GateRefused as exc:
            return Refuse(exc.what, exc.next_step, data=exc)
        if answer is None:
            return Changes()
        kind, data = answer
        locked = next((e.data["sha256"] for e in events if e.kind == "locked"), None)
        data = data if locked is None else {**data, "lock": locked}
        clean: dict[str, Any] = jsonio.loads(redact.redact(jsonio.dumps(data).decode()))
        last = events[-1].sha if events else ""
        event = Event(len(events) + 1, kind, now(), who(), last, clean).sealed()
        made.append(event)
        return Changes(put={path_of(event.seq): jsonio.dumps(asdict(event))})

    store.update(ref_of(task_id), step, f"{task_id}", op=op)
    return made[-1] if made else None


def task_ids(store: Store) -> list[str]:
    """All tasks of the store, by name; also those whose ref is damaged, which `state.load` then tells."""
    faults: dict[str, InputUnusable] = {}
    return sorted(name.removeprefix(PREFIX) for name in (*store.tips(PREFIX, faults), *faults))


def at_tip(store: Store, task_id: str) -> Snapshot:
    """A task's files as they are now.

    Raises:
        InputUnusable: the ref's file is damaged; the command that puts it back is named.
    """
    try:
        return store.read(ref_of(task_id))
    except InputUnusable as exc:
        if exc.where is None:
            raise  # the id is none
        raise broken(ref_of(task_id), exc) from None


def broken(ref: str, exc: ForgeError) -> InputUnusable:
    """The error of a ref that cannot be read, with the command that shows what it may be put back to."""
    return InputUnusable(exc.what, where=ref, next_step=restoring(ref))


def unreadable(code: str, ref: str, exc: ForgeError) -> Finding:
    """What a view says of one ref that cannot be read; the others are shown beside it."""
    step = str(exc.next_step) if isinstance(exc, OtherVersion) else restoring(ref)
    return Finding(code, f"{ref.rsplit('/', 1)[-1]}: {exc.what}", "error", next_step=step)


def restoring(ref: str) -> str:
    """The command that shows what a damaged ref may be put back to."""
    return f"infer-forge task restore {ref}"
