"""What the doors call of proposals: look for a cause, show what is proposed, answer with no. Nothing here starts a task."""

from __future__ import annotations

from collections.abc import Sequence

from infer_forge.base.errors import ForgeError
from infer_forge.base.records import Finding, Header, Report
from infer_forge.base.tables import Column, Table
from infer_forge.tasks import proposals, runtime
from infer_forge.tasks.verbs import opened, told


def woken(on: str, what: str = "", every_days: int = 30, places: Sequence[str] = ()) -> Report:
    """Look for a cause of a capability task, and propose it.

    Args:
        on: `journal`, `schedule`, or `runtime`: without `what` the runtimes are looked at and held against the last look.
        places: with `runtime`, further places to look at.
    """
    if on == "runtime" and not what:
        return _looked(places)
    with opened() as store:
        made = proposals.wake(store, on, what, every_days=every_days)
        there = [p for p in proposals.proposals(store) if p["source"]["kind"] == on]
    waits = f"; {there[0]['id']} waits for its answer" if there else ""
    report = Report("task_wake", Header(more={"on": on}), extra={"proposal": made})
    report.summary = [f"proposed {made}; nothing was started" if made else f"{on}: nothing is proposed{waits}"]
    report.next_step = f"infer-forge task new --from {made}" if made else "infer-forge task inbox"
    return told(report)


def looked_for_all(every_days: int = 30, places: Sequence[str] = ()) -> Report:
    """Look for every cause, and propose what each calls for: the one call that a timer makes.

    A cause that cannot be looked for hides no other; `unseen` counts those, and the table says why.
    """
    report = Report("task_wake", Header(more={"on": "all"}))
    rows: list[tuple[str, str, str | None, str]] = []
    for on in proposals.SOURCES:
        try:
            one = woken(on, every_days=every_days, places=places if on == "runtime" else ())
        except ForgeError as exc:
            rows.append((on, "unseen", None, exc.what))
            said = f"whether {on} calls for a task is unknown: {exc.what}"
            report.findings.append(Finding("CAUSE_UNSEEN", said, "error", next_step=exc.next_step or ""))
            continue
        made: str | None = one.extra["proposal"]
        rows.append((on, "proposed" if made else "nothing", made, one.summary[0]))
        report.findings += [f for f in one.findings if f not in report.findings]
    report.add(Table("causes", ["cause", "seen", Column("proposal", "text"), Column("said", "text")], rows))
    made_now = [made for _, _, made, _ in rows if made]
    unseen = [on for on, seen, _, _ in rows if seen == "unseen"]
    report.extra = {"proposals": made_now, "unseen": unseen}
    report.summary = [
        f"{len(made_now)} causes call for a task, {len(unseen)} could not be looked for; nothing was started"
    ]
    report.next_step = "infer-forge task inbox"
    return report


def _looked(places: Sequence[str]) -> Report:
    """Look at the runtimes; `verdict` is changed, unchanged, first_look or cannot_tell."""
    with opened() as store:
        seen = runtime.notice(store, places)
    report = Report("task_wake", Header(more={"on": "runtime", "node": seen.node}))
    report.extra = {
        "verdict": seen.verdict,
        "proposal": seen.proposal,
        "compared": seen.compared,
        "first_seen": seen.first,
        "never_seen": sorted(set(seen.never)),
    }
    rows = [(c.subject, c.fact, c.before, c.now) for c in seen.changes]
    report.add(Table("changes", [Column(n, "text") for n in ("subject", "fact", "before", "now")], rows))
    report.add(Table("unseen", [Column(n, "text") for n in ("subject", "fact", "last_or_why")], seen.unseen))
    report.findings += runtime.findings(seen)
    report.summary = [_told_of(seen)]
    if seen.never:
        report.summary.append(f"never seen here, so unknown: {', '.join(sorted(set(seen.never))[:8])}")
    report.next_step = f"infer-forge task new --from {seen.proposal}" if seen.proposal else "infer-forge task inbox"
    return told(report)


def _told_of(seen: runtime.Noticed) -> str:
    counted = f"{seen.compared} facts compared, {len(seen.changes)} changed, {seen.first} seen for the first time"
    counted += f", {len(seen.unseen)} not seen now"
    if seen.proposal is None:
        return f"{seen.verdict}: {counted}"
    made = "joined to what is proposed as" if seen.joined else "proposed as"
    return f"{seen.verdict}: {counted}; {made} {seen.proposal}; nothing was started"


def dismiss(proposal_id: str) -> Report:
    """Answer a proposal with no."""
    with opened() as store:
        proposals.answer(store, proposal_id, "dismissed")
    return told(Report("task_wake", summary=[f"{proposal_id} is dismissed"], next_step="infer-forge task inbox"))


def listed() -> Report:
    """Tasks that are proposed and unanswered, oldest first."""
    with opened() as store:
        found = proposals.proposals(store)
    report = Report("task_proposals", Header())
    rows = [(p["id"], p["at"], p["source"]["kind"], p["definition"]["type"], p["why"]) for p in found]
    report.add(Table("proposals", [Column("id", "text"), "since", "cause", "type", Column("why", "text")], rows))
    report.summary = [f"{len(rows)} tasks are proposed; none of them was started"]
    report.next_step = f"infer-forge task new --from {rows[0][0]}" if rows else "infer-forge task wake --on runtime"
    return told(report)
