"""Whether a runtime or model changed since somebody last looked: the recorded fingerprint, its comparison, the proposal (B67).

A fact is compared only where it was seen both times. One that was seen once and is not seen now is told as unseen, and its
last value stays what the next look is held against: "could not see" is never "unchanged". A change proposes a capability
task and starts nothing; while such a proposal waits, further changes of the node join it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from infer_forge.base import jsonio, ownership
from infer_forge.base.errors import ForgeError
from infer_forge.base.gitstore import Changes, Snapshot, Store
from infer_forge.base.records import Finding
from infer_forge.tasks import events as history
from infer_forge.tasks import proposals
from infer_forge.tasks.runtime_look import COMMIT, PACKAGE, SERVED, Sight, look

REF = "refs/runtime/fingerprints"
ABSENT = "absent"
FIRST, CHANGED, UNCHANGED, UNSEEN = "first_look", "changed", "unchanged", "cannot_tell"
_MOST_KEPT, _MOST_TOLD = 100, 4
_FIRST_TOLD = ("package sglang", "package vllm", "package tensorrt", "package tokenspeed", "driver", "cuda", "image")


@dataclass(frozen=True)
class Change:
    """One fact that is another now; `before` or `now` may be `ABSENT`."""

    subject: str
    fact: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"{self.fact} {self.before[:40]} -> {self.now[:40]}"


@dataclass
class Noticed:
    """What a look showed against the last.

    Attributes:
        unseen: (subject, fact, last value) of what was seen once and is not now; fact is `everything` for a subject that
            did not answer, with the reason in place of a value.
        never: facts that were not seen so far. compared: how many were seen both times.
        proposal: the proposal that stands for the changes; `joined` when it waited already.
    """

    node: str
    changes: list[Change] = field(default_factory=list[Change])
    unseen: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    never: list[str] = field(default_factory=list[str])
    first: int = 0
    compared: int = 0
    proposal: str | None = None
    joined: bool = False

    @property
    def verdict(self) -> str:
        """changed, unchanged, first_look, or cannot_tell when something that was seen once is not seen now."""
        if self.changes:
            return CHANGED
        if self.unseen:
            return UNSEEN
        return UNCHANGED if self.compared else FIRST


def _path(node: str, subject: str) -> str:
    return f"{jsonio.sha256_of([node, subject])[:16]}.json"


def _kept(snapshot: Snapshot, node: str, subject: str) -> dict[str, Any]:
    text = snapshot.get(_path(node, subject))
    empty: dict[str, Any] = {"node": node, "subject": subject, "whole": False, "facts": {}, "changes": []}
    return jsonio.loads(text) if text else empty


def _compare(kept: Mapping[str, Any], sight: Sight, into: Noticed) -> list[Change]:
    """Add what one sight shows against its last to `into`; gives its changes."""
    old: Mapping[str, str | None] = kept["facts"]
    changes: list[Change] = []
    if sight.why is not None:
        into.unseen.append((sight.subject, "everything", sight.why))
    for fact in sorted({*old, *sight.facts}):
        listed = fact.startswith((PACKAGE, COMMIT))
        if fact not in sight.facts and not (listed and sight.whole):
            continue  # it was not looked at
        before = old.get(fact) or (ABSENT if kept["whole"] and (listed or fact.startswith(SERVED)) else None)
        now = sight.facts.get(fact) or (ABSENT if sight.whole and listed else None)
        if now is None:
            if before is None:
                into.never.append(fact)
            else:
                into.unseen.append((sight.subject, fact, before))
        elif before is None:
            into.first += 1
        else:
            into.compared += 1
            if before != now:
                changes.append(Change(sight.subject, fact, before, now))
    into.changes += changes
    return changes


def notice(store: Store, places: Sequence[str] = (), *, quick: bool = False) -> Noticed:
    """Look at the runtimes, hold them against the last fingerprint, propose a task when something changed, keep the new one.

    Raises:
        HubUnreachable: the team's task store does not answer, and there is something to write.
    """
    sights = look(places, quick=quick)
    node, snapshot = ownership.node_name(), store.read(REF)
    noticed = Noticed(node)
    for sight in sights:
        _compare(_kept(snapshot, node, sight.subject), sight, noticed)
    if noticed.changes:
        waiting = [p for p in proposals.proposals(store) if p["source"].get("node") == node]
        noticed.joined = bool(waiting)
        noticed.proposal = str(waiting[0]["id"]) if waiting else _propose(store, snapshot, noticed)
    _keep(store, sights, noticed)
    return noticed


def _propose(store: Store, snapshot: Snapshot, noticed: Noticed) -> str:
    """One proposal for all changes of a look; the same changes after the same earlier ones are the same cause."""
    rows = [[c.subject, c.fact, c.before, c.now] for c in noticed.changes]
    subjects = sorted({c.subject for c in noticed.changes})
    since = {s: len(_kept(snapshot, noticed.node, s)["changes"]) for s in subjects}
    source = {"kind": "runtime", "node": noticed.node, "changes": rows[:_MOST_KEPT], "since": since}
    said = sentence(noticed.changes)
    return proposals.propose(
        store, f"changed on {noticed.node}: {said}", source, proposals.after_change(said, noticed.node, rows)
    )


def _keep(store: Store, sights: Sequence[Sight], noticed: Noticed) -> None:
    at = history.now()

    def decide(snapshot: Snapshot) -> Changes | None:
        put: dict[str, bytes] = {}
        for sight in sights:
            kept = _kept(snapshot, noticed.node, sight.subject)
            changes = _compare(kept, sight, Noticed(noticed.node))
            seen = {f: v for f, v in sight.facts.items() if v is not None}
            gone = {c.fact for c in changes if c.now == ABSENT}
            facts = {f: v for f, v in {**kept["facts"], **seen}.items() if f not in gone}
            if facts == kept["facts"] and not (sight.whole and not kept["whole"]):
                continue
            log = [{"at": at, "proposal": noticed.proposal, "changes": [[c.fact, c.before, c.now] for c in changes]}]
            body = {**kept, "facts": facts, "whole": kept["whole"] or sight.whole}
            body["changes"] = [*kept["changes"], *(log if changes else [])]
            put[_path(noticed.node, sight.subject)] = jsonio.dumps(body)
        return Changes(put=put) if put else None

    store.update(REF, decide, f"runtime of {noticed.node}")


def sentence(changes: Sequence[Change]) -> str:
    """Changes in one line, what matters most first."""

    def weight(change: Change) -> tuple[int, str]:
        names = [i for i, name in enumerate(_FIRST_TOLD) if change.fact.startswith(name)]
        return (names[0] if names else len(_FIRST_TOLD), change.fact)

    told = list(dict.fromkeys(str(c) for c in sorted(changes, key=weight)))
    more = f" and {len(told) - _MOST_TOLD} more" if len(told) > _MOST_TOLD else ""
    return "; ".join(told[:_MOST_TOLD]) + more


def last_change(store: Store, node: str) -> tuple[str, str] | None:
    """(time, what) of the newest change of a node's runtime that somebody noticed, or that a person told; None when none."""
    found: list[tuple[str, str]] = []
    for _, text in store.read(REF).items(""):
        kept = jsonio.loads(text)
        if kept["node"] == node:
            found += [(c["at"], "; ".join(" ".join(x) for x in c["changes"][:_MOST_TOLD])) for c in kept["changes"]]
    for made in proposals.proposals(store, unanswered=False):
        if made["source"]["kind"] == "runtime" and "what" in made["source"]:
            found.append((str(made["at"]), str(made["source"]["what"])))
    return max(found, default=None)


def findings(noticed: Noticed) -> list[Finding]:
    """What a view says of a look: changes, and what was seen once and is not seen now."""
    said: list[Finding] = []
    if noticed.changes:
        said.append(Finding("RUNTIME_CHANGED", f"{sentence(noticed.changes)}: {noticed.proposal}", "warning"))
    if noticed.unseen:
        names = ", ".join(f"{fact} of {subject}" for subject, fact, _ in noticed.unseen[:_MOST_TOLD])
        text = f"{len(noticed.unseen)} facts cannot be seen now ({names}): whether they changed is unknown"
        said.append(Finding("RUNTIME_UNSEEN", text, next_step="infer-forge task wake --on runtime"))
    return said


def glance(store: Store) -> list[Finding]:
    """A quick look from a view; what keeps it from looking is told, never raised."""
    try:
        return findings(notice(store, quick=True))
    except ForgeError as exc:
        return [
            Finding(
                "RUNTIME_UNSEEN",
                f"whether the runtime changed is unknown: {exc.what}",
                next_step="infer-forge task wake --on runtime",
            )
        ]
