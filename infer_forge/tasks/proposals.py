"""Proposed tasks: what wakes the capability loop, and results that belong to another contract. A proposal never starts anything.

A proposal is one ref with a draft definition and its reason; `define.accept` makes a task of it, which a person edits and
locks like any other. The same cause proposes once.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, cast

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.gitstore import Changes, Refuse, Snapshot, Store
from infer_forge.base.records import Finding
from infer_forge.tasks import events as history
from infer_forge.tasks.state import Task

PREFIX = "refs/proposals/"
SOURCES = ("journal", "schedule", "runtime")
_FILE = "proposal.json"
_ANSWER = "answer.json"
_MOST_RECORDS = 50


def proposals(store: Store, *, unanswered: bool = True, faults: list[Finding] | None = None) -> list[dict[str, Any]]:
    """Proposals, oldest first, each with `answer` when somebody accepted or dismissed it.

    Args:
        faults: takes a finding for each proposal that cannot be read; without it the first of them is raised.
    """
    found: list[dict[str, Any]] = []
    damaged: dict[str, InputUnusable] = {}
    for ref in sorted({*store.tips(PREFIX, damaged), *damaged}):
        try:
            body = _read(store, ref)
        except InputUnusable as exc:
            if faults is None:
                raise
            faults.append(history.unreadable("PROPOSAL_UNREADABLE", ref, exc))
            continue
        if not unanswered or body["answer"] is None:
            found.append(body)
    return sorted(found, key=lambda p: str(p["at"]))


def _read(store: Store, ref: str) -> dict[str, Any]:
    snapshot = store.read(ref)
    text, answer = snapshot.get(_FILE), snapshot.get(_ANSWER)
    if text is None:
        raise InputUnusable("no such proposal", where=ref, next_step="infer-forge task inbox shows them")
    return {**jsonio.loads(text), "answer": jsonio.loads(answer) if answer else None}


def proposal(store: Store, proposal_id: str) -> dict[str, Any]:
    """One proposal by its id.

    Raises:
        InputUnusable: there is none.
    """
    if not proposal_id.startswith("p-") or not proposal_id[2:].isalnum():
        raise InputUnusable(f"{proposal_id!r} is no proposal", next_step="infer-forge task inbox shows them")
    return _read(store, f"{PREFIX}{proposal_id}")


def propose(store: Store, why: str, source: dict[str, Any], definition: dict[str, Any]) -> str:
    """Keep a proposal; its id comes from the source, so that one cause proposes once."""
    made = f"p-{jsonio.sha256_of(source)[:12]}"
    body = {
        "id": made,
        "at": history.now(),
        "by": history.who(),
        "why": why,
        "source": source,
        "definition": definition,
    }

    def decide(snapshot: Snapshot) -> Changes | None:
        return None if snapshot.get(_FILE) else Changes(put={_FILE: jsonio.dumps(body)})

    store.update(f"{PREFIX}{made}", decide, f"propose: {why}"[:200])
    return made


def answer(store: Store, proposal_id: str, verdict: str, task_id: str | None = None) -> None:
    """Close a proposal: `accepted` (as which task) or `dismissed`; the first answer stays.

    Raises:
        GateRefused: it was answered otherwise already.
    """
    proposal(store, proposal_id)
    body = {"at": history.now(), "by": history.who(), "verdict": verdict, "task": task_id}

    def decide(snapshot: Snapshot) -> Changes | Refuse | None:
        there = snapshot.get(_ANSWER)
        if there is None:
            return Changes(put={_ANSWER: jsonio.dumps(body)})
        first: str = jsonio.loads(there)["verdict"]
        return None if first == verdict else Refuse(f"{proposal_id} was {first} already")

    store.update(f"{PREFIX}{proposal_id}", decide, f"{verdict}: {proposal_id}")


def propose_elsewhere(store: Store, task: Task, fact: dict[str, Any], why: list[str]) -> str:
    """The task that a result of another deployment point or benchmark contract would be evidence of."""
    from infer_forge.tasks.evidence import points_in

    definition = cast("dict[str, Any]", jsonio.loads(jsonio.dumps(task.definition)))
    point = next(points_in(fact["data"]), None)
    if point is not None:
        definition["contract"]["deployment_point"] = point
    definition["contract"].pop("benchmark_contract_sha256", None)
    definition["title"] = f"{definition['title']} (elsewhere)"[:200]
    lineage = {"name": fact["kind"], "kind": "imported_context", "origin": f"task {task.id}", "status": "unverified"}
    definition["context"] = [
        *definition.get("context", []),
        {**lineage, "value": {"path": fact.get("path"), "sha256": fact["sha256"]}, "lineage": [task.id]},
    ]
    source = {"kind": "elsewhere", "task": task.id, "evidence": fact["sha256"]}
    return propose(store, f"a result of another place: {'; '.join(why[:2])}", source, definition)


def wake(store: Store, on: str, what: str = "", *, every_days: int = 30) -> str | None:
    """Look whether a cause for a capability task is there, and propose it; None when there is none.

    While a proposal for new journal records, or for the schedule, waits for its answer nothing is added to it: what comes
    meanwhile is proposed after that. So a timer that looks every hour fills nobody's inbox.

    Args:
        on: `journal` (records since the last such proposal), `schedule` (none for `every_days`), `runtime` (somebody says
            that a model or runtime changed: `what` tells which; `runtime.notice` looks by itself).

    Raises:
        UsageFault: another cause, or a change without saying which.
    """
    if on not in SOURCES:
        raise UsageFault(f"nothing wakes on {on!r}", next_step=f"use one of {', '.join(SOURCES)}")
    before = [p for p in proposals(store, unanswered=False) if p["source"]["kind"] == on]
    if on == "journal":
        return None if waiting(before) else _on_journal(store, before[-1] if before else None)
    if on == "runtime":
        if len(what.split()) < 2:
            raise UsageFault("say what changed", next_step='--what "sglang 0.5.10 -> 0.5.11", or nothing, to look')
        return propose(store, f"changed: {what}", {"kind": on, "what": what}, after_change(what))
    if waiting(before):
        return None
    now = datetime.datetime.now(datetime.timezone.utc)
    if before and now - datetime.datetime.fromisoformat(before[-1]["at"]) < datetime.timedelta(days=every_days):
        return None
    day = now.date().isoformat()
    return propose(
        store,
        f"nobody looked for {every_days} days",
        {"kind": on, "day": day},
        _capability(f"Review of the skills and tools, {day}", []),
    )


def waiting(made: Sequence[Mapping[str, Any]]) -> str | None:
    """The oldest of these proposals that nobody has answered."""
    return next((str(p["id"]) for p in made if p["answer"] is None), None)


def _on_journal(store: Store, before: dict[str, Any] | None) -> str | None:
    from infer_forge.journal import open_store
    from infer_forge.journal.store import REF

    with open_store() as journal:
        snapshot = journal.read(REF)
        tip = snapshot.tip
        if tip is None or (before and before["source"]["tip"] == tip):
            return None
        names = {path for path, _ in snapshot.items("records/")}
        if before:
            names -= {path for path, _ in journal.at(before["source"]["tip"], REF).items("records/")}
    ids = sorted(n.rsplit("/", 1)[-1].removesuffix(".md") for n in names)
    if not ids:
        return None
    title = f"What {len(ids)} new journal records mean for skills and tools"
    return propose(store, f"{len(ids)} new journal records", {"kind": "journal", "tip": tip}, _capability(title, ids))


def after_change(what: str, node: str | None = None, changes: Sequence[Sequence[str]] = ()) -> dict[str, Any]:
    """Draft of the capability task that a changed runtime or model calls for; the changes are its verified context.

    Args:
        changes: rows of subject, fact, value before, value now, as they were seen on the node.
    """
    draft = _capability(f"Revalidate after: {what}", [])
    draft["context"] = [
        {
            "name": f"{subject}: {fact}",
            "origin": f"runtime of {node}",
            "value": {"before": before, "now": now},
            "status": "verified",
        }
        for subject, fact, before, now in changes[:_MOST_RECORDS]
    ]
    return draft


def _capability(title: str, records: list[str]) -> dict[str, Any]:
    """Draft of a capability task; a person completes it before it can be locked."""
    from infer_forge.tasks import check_suite

    context = [
        {
            "name": f"record {r}",
            "origin": f"journal {r}",
            "kind": "imported_context",
            "status": "unverified",
            "lineage": [r],
        }
        for r in records[-_MOST_RECORDS:]
    ]
    return {
        "type": "capability",
        "title": title[:200],
        "goal_tag": "capability",
        "context": context,
        "contract": {
            "goal": "Decide with evidence whether a skill, reference or tool is added, updated, merged, retired or left",
            "scope": "Only the skills, references and tools that the cited records speak of",
            "acceptance": [
                {"kind": "exit_is", "selector": {"label": check_suite.LABEL, "command": line}, "value": 0}
                for line in check_suite.suite()["commands"]
            ],
            "verification": ["the check suite of the capability baseline, run on the baseline that is delivered"],
        },
        "exit_criteria": [
            "deliverable: add, update, merge, retire or no_change, with the records that it stands on",
            "handoff: the evidence does not suffice; what would",
        ],
        "playbook": "capability",
    }
