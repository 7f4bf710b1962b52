"""What the store's verbs take, give and raise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from infer_forge.base.errors import ForgeError, GateRefused, HumanNeeded, MissingPart


@dataclass
class Changes:
    """What a decision writes.

    Attributes:
        put: path -> content (bytes, or text written as UTF-8); makes or replaces the file.
        delete: paths that go away; a path that is not there is ignored.
        trailers: `Key: value` lines at the end of the commit message, for what must be found in the history.
        message: replaces the message given to `update`, when the decision knows better.
    """

    put: Mapping[str, bytes | str] = field(default_factory=dict[str, "bytes | str"])
    delete: frozenset[str] | set[str] | tuple[str, ...] = ()
    trailers: Mapping[str, str] = field(default_factory=dict[str, str])
    message: str | None = None

    def __bool__(self) -> bool:
        return bool(self.put or self.delete)


@dataclass(frozen=True)
class Refuse:
    """A decision not to write: `reason` in one line, `data` for whoever catches `Refused`."""

    reason: str
    next_step: str | None = None
    data: Any = None


@dataclass(frozen=True)
class Commit:
    """One commit of a ref's history.

    Attributes:
        id: the commit's sha.
        parent: its first parent, None for the first commit.
        tree: sha of its root tree.
        message: the message without its trailers.
        trailers: `Key: value` lines at its end; `Op` is the id of the operation that made it.
        author: `name <mail>`.
        time: seconds since 1970, by the writer's clock: for people, never for order.
    """

    id: str
    parent: str | None
    tree: str
    message: str
    trailers: Mapping[str, str]
    author: str
    time: int

    @property
    def op(self) -> str | None:
        """The operation id (see `Store.update`)."""
        return self.trailers.get("Op")


@dataclass
class SyncReport:
    """What `Store.sync` did, by ref name.

    Attributes:
        pulled: refs that moved here to what the hub has.
        pushed: refs whose local commits the hub now has.
        replayed: refs whose local commits were written again on the hub's tip -> how many.
        dropped: ids of local commits that the caller's replay refused, with the reason.
    """

    pulled: list[str] = field(default_factory=list[str])
    pushed: list[str] = field(default_factory=list[str])
    replayed: dict[str, int] = field(default_factory=dict[str, int])
    dropped: dict[str, str] = field(default_factory=dict[str, str])


class Refused(GateRefused):
    """The decision was `Refuse`; `refusal` is it, `tip` the commit it was decided on."""

    def __init__(self, refusal: Refuse, ref: str, tip: str | None) -> None:
        super().__init__(refusal.reason, where=None, next_step=refusal.next_step)
        self.refusal = refusal
        self.ref = ref
        self.tip = tip


class Contention(ForgeError):
    """Others kept winning (or a lock kept standing) for the whole patience; nothing was written."""


class HubUnreachable(MissingPart):
    """The remote could not be reached or did not answer in time.

    `outcome_unknown` says that a push was under way and may have landed: the same `op` again finds out.
    """

    def __init__(self, what: str, *, where: str | None = None, next_step: str | None = None, unknown: bool = False):
        super().__init__(what, where=where, next_step=next_step)
        self.outcome_unknown = unknown


class PushRefused(GateRefused):
    """The hub's own rules (a hook, a protected ref) refused the push; retrying cannot help."""


class HistoryRewritten(HumanNeeded):
    """The hub's ref no longer continues what was seen here: it was reset, restored or replaced."""


class Diverged(HumanNeeded):
    """Local commits touch what the hub changed meanwhile; a person or the room's own replay must decide."""


def fan_out(key: str, *, width: int = 2, depth: int = 1) -> str:
    """Spread many files over folders, so that one commit rewrites small trees only: `abcdef` -> `ab/abcdef`.

    Take a key whose first characters vary (a hash; for a uuid7, whose start is time, use its last characters).
    """
    parts = [key[i * width : (i + 1) * width] for i in range(depth)]
    return "/".join([*parts, key])
