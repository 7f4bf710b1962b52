"""What every door (command line, MCP, skill) calls: the store opened and up to date, a verb, and its report."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.errors import ForgeError, GateRefused, UsageFault
from infer_forge.base.gitstore import HubUnreachable, Store
from infer_forge.base.records import Finding, Header, Report
from infer_forge.base.tables import Column, Table
from infer_forge.base.text_table import one_line
from infer_forge.tasks import (
    baseline,
    binding,
    blocks,
    define,
    ending,
    execute,
    goal,
    playbook,
    printed,
    proposals,
    repositories,
    resuming,
    runtime,
    views,
)
from infer_forge.tasks import events as history
from infer_forge.tasks.evidence import add_evidence, evidence_of
from infer_forge.tasks.predicates import PASS
from infer_forge.tasks.state import Task, load

_STALE: list[Finding] = []


@contextlib.contextmanager
def opened() -> Generator[Store]:
    """The task store, as new as its hub allows; a hub that does not answer is told in the next report."""
    _STALE.clear()
    with history.open_store() as store:
        try:
            store.refresh(history.PREFIX, proposals.PREFIX, baseline.REF, runtime.REF)
        except HubUnreachable as exc:
            _STALE.append(Finding("HUB_UNREACHABLE", f"this is what was known here last: {exc.what}"))
        yield store


def told(report: Report) -> Report:
    """A report with what was found when the store was opened; a line of its summary stays one line, whatever a text holds."""
    report.summary = [one_line(line) for line in report.summary]
    report.findings = [*_STALE, *report.findings]
    return report


def _of(task: Task, *lines: str) -> Report:
    """A task's status with what was just done before it."""
    report = views.status_report(task)
    report.summary = [*lines, *report.summary]
    return told(report)


# Definition


def new(
    source: str,
    *,
    kind: str | None = None,
    fields: Mapping[str, Any] | None = None,
    acceptance: Sequence[Any] = (),
    supersedes: str | None = None,
    task_id: str | None = None,
) -> Report:
    """Define a task from `playbook`, a file, or a proposal; `fields` (title, goal, scope, ...) go over what is there."""
    given = {k: v for k, v in (fields or {}).items() if v not in (None, (), [], "")}
    with opened() as store:
        if source.startswith("p-"):
            body: dict[str, Any] = proposals.proposal(store, source)["definition"]
        elif source == "playbook":
            if kind is None:
                raise UsageFault(
                    "a playbook belongs to a type", next_step=f"--type {', '.join(playbook.all_playbooks())}"
                )
            body = playbook.draft(kind, given.get("title", ""), given.get("goal", ""), given.get("scope", ""))
        else:
            body = define.read_definition(source)
        body = overlaid(body, given, acceptance, kind=kind, supersedes=supersedes)
        definition = define.definition_of(body, source)
        proposed = source.startswith("p-")
        task = define.accept(store, source, definition) if proposed else define.new(store, definition, task_id)
    return _lacking(task, f"defined {task.id}")


def define_task(
    definition: Mapping[str, Any] | None, *, kind: str | None, fields: Mapping[str, Any], task_id: str | None = None
) -> Report:
    """Define a task from data (or the playbook's draft of a type), or change one that is not locked."""
    given = {k: v for k, v in fields.items() if v}
    with opened() as store:
        if task_id is not None:
            body = dict(definition) if definition else load(store, task_id).definition
            made = define.edit(store, task_id, define.definition_of(overlaid(body, given, kind=kind)))
            return _lacking(made, f"changed {task_id}")
        if definition is None:
            if kind is None:
                raise UsageFault("give a definition, or a type for the playbook's draft")
            body = playbook.draft(kind, given.get("title", ""), given.get("goal", ""), given.get("scope", ""))
        else:
            body = dict(definition)
        made = define.new(store, define.definition_of(overlaid(body, given, kind=kind)))
    return _lacking(made, f"defined {made.id}")


def overlaid(
    body: dict[str, Any],
    given: Mapping[str, Any],
    acceptance: Sequence[Any] = (),
    *,
    kind: str | None = None,
    supersedes: str | None = None,
) -> dict[str, Any]:
    """A definition with single fields replaced; lists are added to."""
    body = jsonio.loads(jsonio.dumps(body))
    contract = body.setdefault("contract", {})
    for name in ("goal", "scope", "deployment_point", "benchmark_contract_sha256"):
        if name in given:
            contract[name] = given[name]
    for name in ("verification", "may_vary"):
        contract[name] = [*contract.get(name, []), *given.get(name, [])]
    contract["acceptance"] = [*contract.get("acceptance", []), *acceptance]
    for name in ("exit_criteria", "repositories", "context"):
        body[name] = [*body.get(name, []), *given.get(name, [])]
    if given.get("budgets"):
        body["budgets"] = {**body.get("budgets", {}), **given["budgets"]}
    body |= {k: v for k, v in (("title", given.get("title")), ("type", kind), ("supersedes", supersedes)) if v}
    return body


def _lacking(task: Task, line: str) -> Report:
    """A task not locked yet, with what its definition lacks."""
    from infer_forge.tasks.model import missing

    lacking = missing(task.typed)
    report = _of(task, line)
    report.extra["missing"] = lacking
    report.findings += [
        Finding(
            "UNPINNED",
            f"{views.said(leaf)}: any command could meet it; selector.command pins the one that counts",
            next_step=f"infer-forge task edit {task.id} --drop-acceptance {number} --acceptance JSON",
        )
        for number, condition in enumerate(task.typed.contract.acceptance, 1)
        for leaf in condition.leaves()
        if leaf.open_to_any_command()
    ]
    return report


def edit(
    task_id: str,
    source: str | None,
    fields: Mapping[str, Any],
    acceptance: Sequence[Any] = (),
    drop: Sequence[int] = (),
) -> Report:
    """Change a definition before its lock: from a file, or single fields; `drop` takes conditions out by number, from 1."""
    given = {k: v for k, v in fields.items() if v not in (None, (), [], "")}
    with opened() as store:
        body = define.read_definition(source) if source else load(store, task_id).definition
        body = _without(body, drop, task_id) if drop else body
        task = define.edit(store, task_id, define.definition_of(overlaid(body, given, acceptance), source or task_id))
    return _lacking(task, f"changed {task_id}")


def _without(body: dict[str, Any], drop: Sequence[int], task_id: str) -> dict[str, Any]:
    """A definition without the acceptance conditions of these numbers.

    Raises:
        UsageFault: there is no condition of a number.
    """
    contract: dict[str, Any] = body.get("contract") or {}
    held: list[Any] = contract.get("acceptance") or []
    wrong = [str(n) for n in drop if not 1 <= n <= len(held)]
    if wrong:
        raise UsageFault(
            f"the acceptance has {len(held)} conditions, none with the number {', '.join(wrong)}",
            where=task_id,
            next_step=f"infer-forge task status {task_id} lists them, the first is 1",
        )
    return {**body, "contract": {**contract, "acceptance": [p for n, p in enumerate(held, 1) if n not in drop]}}


def lock(task_id: str, tools: Mapping[str, Any] | None = None) -> Report:
    """Lock the contract with the capability baseline in force; an online diagnosis makes the guard read-only."""
    with opened() as store:
        kept = baseline.keep(store, baseline.manifest(tools))
        task = define.lock(store, task_id, baseline=kept)
    lines = [
        f"locked {task_id} as {task.lock_sha}",
        f"capability baseline {kept['digest'][:12]} of {kept['pack_version']}",
    ]
    if task.lock and task.lock["guard_profile"] == "read_only":
        lines.append("the guard of this run is read-only until the task ends")
    return _of(task, *lines)


def _refuse_early(store: Store, task_id: str) -> None:
    """Nothing is imported from upstream before it is verified and handed off: the graph says whether a task may begin.

    Raises:
        GateRefused: the task is in the graph and waits.
    """
    from infer_forge.tasks.graph import start_faults

    faults = start_faults(store, task_id)
    if faults:
        raise GateRefused(
            f"the graph does not let it begin: {'; '.join(faults[:3])}",
            where=task_id,
            next_step="infer-forge graph ready shows what may begin",
        )


def start(task_id: str) -> Report:
    """Begin work; what the journal holds on it is shown, and this folder is remembered as the task's."""
    with opened() as store:
        _refuse_early(store, task_id)
        task = define.start(store, task_id)
        folder = binding.bind(task_id)
        try:
            found = define.surface(store, task_id)
        except ForgeError as exc:
            report = _of(task, f"started {task_id}; folder {folder}")
            report.findings.append(Finding("JOURNAL_UNSEEN", f"the journal could not be searched: {exc.what}"))
            return report
        task = load(store, task_id)
    report = _of(task, f"started {task_id}; folder {folder}", *found.summary)
    report.add(found.tables["surfaced"])
    return report


def clarify(task_id: str, text: str) -> Report:
    """Append a clarification that changes nothing of the contract."""
    with opened() as store:
        return _of(define.clarify(store, task_id, text), "the clarification is recorded")


# Work


def open_block(task_id: str, sub_target: str, exit_condition: str, route: dict[str, Any], **more: Any) -> Report:
    """Open the next loop block."""
    with opened() as store:
        task = blocks.open_block(store, task_id, sub_target, exit_condition, route, **more)
    block, proposal = task.blocks[-1], route["proposal"]
    chosen = f"{route['tier']} tier, {route['topology']} agent"
    other = (
        ""
        if (route["tier"], route["topology"]) == (proposal["tier"], proposal["topology"])
        else (f" (proposed: {proposal['tier']}, {proposal['topology']}; reason: {route['reason'] or 'none given'})")
    )
    return _of(task, f"block {block.number} is open: {chosen}{other}")


def close_block(task_id: str, outcome: str, progress: str, note: str, handoff: str = "") -> Report:
    """Close the active block; `handoff` is the state that the next one begins with."""
    with opened() as store:
        data = {"handoff": handoff} if handoff else {}
        task = blocks.close_block(store, task_id, outcome, progress, note, data=data)
    return _of(task, f"block {task.blocks[-1].number} ended {outcome}, {progress}")


def record(task_id: str, argv: Sequence[str], **options: Any) -> Report:
    """Run a command and record it; its output is told at its end."""
    with opened() as store:
        task, execution = execute.record(store, task_id, argv, **options)
    report = Report("task_record", Header(more={"task": task_id, "execution": execution.id}))
    result = execution.result
    report.extra = {
        "execution": execution.id,
        "exit_code": execution.exit_code,
        "phase": execution.phase,
        "result": result,
    }
    report.summary = [f"{execution.label} ({execution.id}) ended with {execution.exit_code}{_after(result)}"]
    for name in ("stdout", "stderr"):
        if result.get(name) and result[name]["tail"].strip():
            report.summary.append(f"{name}: {result[name]['path']} ({result[name]['size_bytes']} bytes)")
    made = [i for i in task.evidence if i.execution == execution.id]
    names = [Column("id", "text"), "kind", "trust", Column("path", "text"), Column("sha256", "text")]
    report.add(Table("evidence", names, [(i.id, i.kind, i.trust, i.path, (i.sha256 or "")[:16]) for i in made]))
    for repository in execution.intent.get("repositories", []):
        report.findings += [
            Finding(
                f"REPOSITORY_{what.upper()}", sentence, "warning" if what in ("missing", "unseen", "dirty") else "info"
            )
            for what, sentence in repositories.told(repository)
        ]
    report.findings += [Finding("EVIDENCE_ABSENT", f"{p} was not written", "error") for p in result.get("absent", [])]
    for refused in result.get("refused", []):
        offered = _offer(task_id, refused)
        why = f"{refused['path']} is no evidence of this task: {'; '.join(refused['why'][:2])}"
        report.findings.append(
            Finding("EVIDENCE_ELSEWHERE", why, "error", next_step=f"infer-forge task new --from {offered}")
        )
    for_nothing = printed.uncounted(
        task, execution.label, {i.kind for i in task.evidence if i.execution == execution.id}, execution.argv
    )
    if for_nothing:
        report.findings.append(Finding("UNCOUNTED", for_nothing, "info"))
    report.next_step = views.next_step(task)
    return told(report)


def _after(result: Mapping[str, Any]) -> str:
    """How long it took, and why it was ended."""
    seconds = result.get("seconds")
    ended = result.get("ended_by")
    return f", ended by {ended}" if ended else "" if seconds is None else f" after {seconds} s"


def _offer(task_id: str, refused: Mapping[str, Any]) -> str:
    """Propose the task that a result of another place belongs to."""
    with opened() as store:
        fact = evidence_of(refused["kind"], Path(refused["path"]))
        return proposals.propose_elsewhere(store, load(store, task_id), fact, list(refused["why"]))


def evidence(task_id: str, kind: str, path: Path, label: str = "") -> Report:
    """Hand in a file as evidence of trust `recorded`."""
    with opened() as store:
        task = add_evidence(store, task_id, evidence_of(kind, path), label=label)
    return _of(task, f"{task.evidence[-1].id} is recorded")


def goal_met(task_id: str) -> Report:
    """The acceptance, evaluated on recorded evidence; `verdict` is met, continue or cannot_tell."""
    with opened() as store:
        task, verdict, outcomes = goal.goal_met(store, task_id)
    report = Report("task_goal", Header(more={"task": task_id, "lock": task.lock_sha}))
    rows = [
        (views.said(p), o.result, o.why, o.evidence)
        for p, o in zip(task.typed.contract.acceptance, outcomes, strict=True)
    ]
    report.add(Table("acceptance", [Column("predicate", "text"), "result", "why", Column("evidence", "text")], rows))
    report.extra = {"verdict": verdict, "passed": sum(1 for o in outcomes if o.result == PASS), "of": len(outcomes)}
    title = {"met": "GOAL MET", "continue": "GOAL NOT MET", "cannot_tell": "CANNOT TELL"}[verdict]
    report.summary = [f"{title}: {report.extra['passed']} of {len(outcomes)} conditions of {task_id} pass"]
    report.next_step = views.next_step(task)
    return told(report)


def decide(task_id: str, statement: str, answer: str, person: str, stand_in: str = "") -> Report:
    """Record a person's decision; `stand_in` says why somebody else than the reviewer answers a review."""
    if answer not in ("yes", "no"):
        raise UsageFault("the answer is yes or no")
    with opened() as store:
        return _of(
            goal.decide_as_person(store, task_id, statement, answer, person, stand_in=stand_in),
            f"{person} said {answer}: {statement}",
        )


# Ends, resume


def deliver(
    task_id: str,
    summary: str,
    *,
    capability: Mapping[str, Any] | None = None,
    tools: Mapping[str, Any] | None = None,
    accepted_by: str | None = None,
) -> Report:
    """End with the deliverable; its reproduction path is verified first."""
    with opened() as store:
        now = baseline.manifest(tools)
        baseline.keep(store, now)
        task = ending.deliver(store, task_id, summary, capability=capability, baseline=now, accepted_by=accepted_by)
    return _ended(task)


def handoff(task_id: str, done: str, next_entry: str, **options: Any) -> Report:
    """End with a follow-up handoff, or (a person) with abandoning."""
    with opened() as store:
        return _ended(ending.handoff(store, task_id, done, next_entry, **options))


def _ended(task: Task) -> Report:
    ended = task.ending or {}
    record_id = (task.archived or {}).get("journal")
    report = _of(task, f"{task.id} is {task.status} ({ended.get('outcome')}); journal record {record_id}")
    report.extra["journal"] = record_id
    report.findings += [
        Finding("REVIEW_OPEN", f"the review of block {r['block']} by {r['reviewer']} was not answered before the end")
        for r in goal.reviews(task)
        if r["answer"] is None
    ]
    if record_id is None:
        said = "the journal's hub does not answer: the end stands, its record is still to be written"
        report.findings.append(Finding("NOT_ARCHIVED", said, next_step=f"infer-forge task resume {task.id}"))
    return report


def resume(task_id: str, **answer: Any) -> Report:
    """Go on from the records alone: open executions are probed, lost claims fenced, this folder remembered."""
    with opened() as store:
        task, found = resuming.take_up(store, task_id, **answer)
        if not task.ended:
            binding.bind(task_id)
    report = _of(task, f"{task_id} is taken up; {len(found)} open executions were probed")
    names = [Column("id", "text"), "label", "state", "exit_code", "said"]
    report.add(Table("probed", names, [(p.id, p.label, p.state, p.exit_code, p.said) for p in found]))
    report.extra["probed"] = [p.__dict__ for p in found]
    return report


def verify(task_id: str) -> Report:
    """Chain, copies of the lock, evidence files, journal record; `verdict` pass, fail or unknown."""
    with opened() as store:
        checks = define.verify(store, task_id)
    results = {r for _, r, _ in checks}
    verdict = "fail" if "fail" in results else "unknown" if "unknown" in results else "pass"
    report = Report("task_verify", Header(more={"task": task_id}), extra={"verdict": verdict})
    report.add(Table("checks", ["rule", "result", Column("seen", "text")], checks))
    report.summary = [
        f"{verdict}: {sum(1 for _, r, _ in checks if r == 'pass')} of {len(checks)} checks of {task_id} pass"
    ]
    bad = next((rule for rule, result, _ in checks if result != "pass"), None)
    report.next_step = f"look at {bad}" if bad else f"infer-forge task status {task_id}"
    if bad == "history-chain":
        report.next_step = history.restoring(history.ref_of(task_id))
    return told(report)


# Views


def status(task_id: str) -> Report:
    """One task."""
    with opened() as store:
        return told(views.status_report(load(store, task_id)))


def listed(*, ended: bool = False, kind: str | None = None) -> Report:
    """All tasks that are under way."""
    with opened() as store:
        return told(views.list_report(store, ended=ended, kind=kind))


def inflight() -> Report:
    """How many are under way at once."""
    with opened() as store:
        return told(views.inflight_report(store))


def inbox(*, look: bool = False) -> Report:
    """What waits for a person; with `look` after a quick look whether the runtime changed, which may propose a task."""
    with opened() as store:
        seen = runtime.glance(store) if look else []
        report = views.inbox_report(store)
        report.findings += seen
        return told(report)


def stop_check(task_id: str) -> tuple[int, str]:
    """(0 may stop, 4 must go on, 3 cannot tell; why). It records nothing."""
    with opened() as store:
        task = load(store, task_id)
        if task.lock is None or task.ended:
            return goal.stop_verdict(task, [])
        task, _, outcomes = goal.goal_met(store, task_id, note=False)
        return goal.stop_verdict(task, outcomes)


def prompt(task_id: str, client: str, form: str | None) -> Report:
    """The client's prompt for a task."""
    from infer_forge.tasks.prompt import text_for

    with opened() as store:
        text = text_for(load(store, task_id), client, form)
    report = Report("task_prompt", extra={"prompt": text, "characters": len(text)})
    report.text = text
    return report
