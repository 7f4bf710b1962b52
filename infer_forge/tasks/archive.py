"""An ended task in the journal: one immutable record, made from the folded state alone."""

from __future__ import annotations

import datetime
from typing import Any

from infer_forge.base.errors import GateRefused
from infer_forge.base.gitstore import Store
from infer_forge.tasks import events as history
from infer_forge.tasks.state import DELIVERED, Task, fold, load


def archive(store: Store, task: Task) -> Task:
    """Put an ended task into the journal (again: finds its own record) and note the record's id.

    Raises:
        GateRefused: it has not ended, or its end lies before its creation.
    """
    from infer_forge.journal import add, open_store

    if task.ending is None:
        raise GateRefused("only an ended task is archived", where=task.id)
    if task.archived is not None:
        return task
    record = record_of(task)
    with open_store() as journal:
        made = add(journal, [record])[0]

    def decide(events: list[history.Event]) -> tuple[str, dict[str, Any]] | None:
        now = fold(task.id, events)
        return None if now.archived else ("archived", {"journal": made, "lock": now.lock_sha})

    history.append(store, task.id, decide)
    return load(store, task.id)


def record_of(task: Task) -> Any:
    """The journal record of an ended task: the same task gives the same record.

    Raises:
        GateRefused: its end lies before its creation.
    """
    from infer_forge.journal import Record
    from infer_forge.journal.model import Artifact, Link

    ending = task.ending or {}
    created = datetime.datetime.fromisoformat(task.created_at)
    ended = datetime.datetime.fromisoformat(ending["at"])
    if ended < created:
        raise GateRefused(
            "its archive time lies before its creation", where=task.id, next_step=f"infer-forge task verify {task.id}"
        )
    definition, content = task.typed, ending["content"]
    baseline: dict[str, Any] = (task.lock or {}).get("baseline") or {}
    files = {(i.path, i.sha256) for i in task.evidence if i.path and i.sha256}
    links = [Link(rel="supersedes", id=definition.supersedes)] if definition.supersedes else []
    record = Record(
        kind="task_record" if task.status == DELIVERED else "handoff",
        title=definition.title,
        created=ended,
        task_id=task.id,
        dims={"task_type": [definition.type], "author": [ending["by"]]},
        deployment_point=definition.contract.deployment_point,
        contract_sha256=definition.contract.benchmark_contract_sha256,
        verdict=ending["outcome"],
        artifacts=[Artifact(path=p, sha256=s) for p, s in sorted(files)],
        links=links,
        extra={
            "task_contract_sha256": task.lock_sha,
            "created": task.created_at,
            "archived": ending["at"],
            "events": task.ending_seq,
            "history_sha": task.ending_sha,
            "baseline": baseline.get("digest"),
            "content": content,
        },
    )
    record.body = _body(task, content)
    return record


def _body(task: Task, content: dict[str, Any]) -> str:
    """The record for people."""
    contract = task.typed.contract
    lines = [f"Goal: {contract.goal}", f"Scope: {contract.scope}", ""]
    if task.status == DELIVERED:
        lines += [content["summary"], "", "Acceptance:"]
        lines += [f"- {a['result']}: {a['why']}" for a in content["reproduction"]["acceptance"]]
    else:
        lines += [f"Done: {content['done']}", f"Next entry point: {content['next_entry']}"]
        for name, title in (("still_holds", "Still holds"), ("open_questions", "Open")):
            lines += [f"{title}:", *(f"- {x}" for x in content[name])] if content[name] else []
        if content["denied_writes"]:
            lines += [
                "Changes that were denied and are needed:",
                *(f"- {d['command']}" for d in content["denied_writes"]),
            ]
        if content["person"]:
            lines.append(f"{task.ending['outcome'] if task.ending else ''} by {content['person']}: {content['reason']}")
    path = content["reproduction"]
    lines += ["", "Commands:", *(f"- {' '.join(c['argv'])}" for c in path["commands"])] if path["commands"] else []
    failed = [
        " ".join(c["argv"]) if "argv" in c else f"{c['sub_target']}: {c['outcome']}" for c in path["failed_attempts"]
    ]
    told = [
        f"block {r['block']}, reviewer {r['reviewer']}: {r['answer'] or 'not answered'}"
        + (f" by {r['person']}" if r["answer"] else "")
        for r in content.get("reviews", [])
    ]
    lines += ["", "Reviews:", *(f"- {t}" for t in told)] if told else []
    lines += ["", "Failed attempts:", *(f"- {f}" for f in failed)] if failed else []
    lines += [f"- block {b.number} ({b.outcome}): {b.sub_target}. {b.note}".rstrip() for b in task.blocks]
    return "\n".join(lines)
