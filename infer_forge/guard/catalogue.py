"""What people read of the guard: a rule explained, and the standing of a run."""

from __future__ import annotations

import os
import time
from typing import Any

from infer_forge.base import clocks, ownership
from infer_forge.base.errors import UsageFault
from infer_forge.base.records import Finding, Header, Report
from infer_forge.base.resources import load_yaml
from infer_forge.base.tables import Column, Table
from infer_forge.guard import clockbook, compiled, policy
from infer_forge.guard.context import claim_fault
from infer_forge.guard.rules.review import allowed as review_allowed

__all__ = ["explain", "review_allowed", "status"]


def explain(rule: str | None = None) -> Report:
    """One rule (its constraint, what it stops, what to run instead, whether a grant lifts it), or the table of all.

    Raises:
        UsageFault: there is no such rule.
    """
    data: dict[str, Any] = load_yaml(policy.DATA)
    rules: dict[str, dict[str, Any]] = data["rules"]
    custom = {r["id"]: r for r in policy.current()["custom"]}
    report = Report("guard_explain", Header())
    if rule is None:
        rows = [[name, r["constraint"], r["what"], r.get("grantable", True), r["safer"]] for name, r in rules.items()]
        rows += [[name, "human_gate", r["why"], True, r["safer"]] for name, r in custom.items()]
        report.add(
            Table(
                "rules",
                [Column(c, "text") for c in ("rule", "constraint", "stops", "grantable", "instead")],
                rows,
                "Rules of the guard",
            )
        )
        report.summary = [f"{name}: {text}" for name, text in data["constraints"].items()]
        report.next_step = "infer-forge guard explain RULE"
        return report
    if rule in custom:
        entry = custom[rule]
        report.extra["rule"] = {
            "id": rule,
            "constraint": "human_gate",
            "stops": entry["why"],
            "instead": entry["safer"],
            "grantable": True,
            "file": entry["file"],
        }
        report.summary = [f"{rule}: {entry['why']} (from {entry['file']})", f"instead: {entry['safer'] or '-'}"]
        return report
    if rule not in rules:
        near = [name for name in rules if rule.split(".")[0] in name][:6]
        raise UsageFault(
            f"there is no rule {rule!r}",
            next_step=f"one of {', '.join(near)}" if near else "infer-forge guard explain lists them",
        )
    entry = rules[rule]
    grantable = entry.get("grantable", True)
    report.extra["rule"] = {
        "id": rule,
        "constraint": entry["constraint"],
        "stops": entry["what"],
        "instead": entry["safer"],
        "grantable": grantable,
    }
    report.summary = [
        f"{rule} ({entry['constraint']}): {data['constraints'][entry['constraint']]}",
        f"stops: {entry['what']}",
        f"instead: {entry['safer']}",
        "a person's grant can lift it for a time" if grantable else "no grant lifts it",
    ]
    if grantable:
        report.next_step = f"infer-forge guard grant --action {rule} --target WORD --for 30m"
    return report


def status(run_id: str | None = None, *, log: int = 0) -> Report:
    """What a run owns and how that is proved, its claims and grants, and the state of the policy; `log` adds the last decisions."""
    book = ownership.load()
    key = run_id or ownership.run_id_of(book)
    run = book.runs.get(key)
    report = Report("guard_status", Header())
    now = time.time()
    rows: list[list[Any]] = []
    for item in run.owned if run else []:
        holds: bool | None = item.holds() if item.kind in ("pid", "pgid") else None
        rows.append([item.kind, item.target, item.how, item.node, round(now - item.checked_at), holds])
    columns = [
        Column("kind", "text"),
        Column("target", "text"),
        Column("proof", "text"),
        Column("node", "text"),
        Column("age_s", "int"),
        Column("holds", "text"),
    ]
    report.add(Table("owned", columns, rows, "Owned by the run"))
    grants = [
        [g.action, g.target, round(g.until - now), g.by, g.reason] for g in (run.grants if run else []) if g.live(now)
    ]
    report.add(
        Table(
            "grants",
            [
                Column("action", "text"),
                Column("target", "text"),
                Column("left_s", "int"),
                Column("by", "text"),
                Column("reason", "text"),
            ],
            grants,
            "Grants of people",
        )
    )
    claims = [
        [c.get("node"), c.get("gpus"), c.get("epoch"), c.get("claim_id"), *claim_fault(c)]
        for c in (run.claims if run else [])
    ]
    names = ("node", "gpus", "epoch", "claim_id", "standing", "why")
    report.add(Table("claims", [Column(c, "text") for c in names], claims, "Claims on nodes"))
    book = clocks.read()
    if book.locks:
        report.add(clockbook.table(book))
        report.findings += clockbook.findings(book)
    if log:
        report.add(_decisions(log))
    report.add(_asked())
    fault = _policy_fault()
    report.extra["run"] = {
        "run_id": key,
        "recorded": run is not None,
        "root": run.root if run else None,
        "push_allowed": run.push_allowed if run else [],
    }
    report.extra["policy"] = {"fresh": fault is None, "fault": fault, "sources": _sources()}
    report.summary = [
        f"run {key}: "
        + (
            f"{len(rows)} owned, {len(claims)} claims, {len(grants)} grants"
            + (f", and what lies in its folder {run.root}" if run.root else "")
            if run
            else "nothing is recorded, so kills, deletes and resets are denied"
        )
    ]
    if fault:
        report.findings.append(
            Finding(
                "POLICY_NOT_FRESH",
                fault,
                "error",
                next_step="a person runs at a terminal: infer-forge guard status --compile",
            )
        )
    return report


def _decisions(count: int) -> Table:
    """The last decisions of the hook."""
    from infer_forge.guard import audit

    entries = [
        [e.get("at"), e.get("client"), e.get("tool"), e.get("verdict"), e.get("rule"), e.get("command")]
        for e in audit.tail(count)
    ]
    return Table(
        "decisions",
        [Column(c, "text") for c in ("at", "client", "tool", "verdict", "rule", "command")],
        entries,
        "Last decisions of the hook",
    )


def _asked(count: int = 20) -> Table:
    """What people were asked about, and whether the client ran it afterwards: the evidence that they approved."""
    from infer_forge.guard import asked, audit
    from infer_forge.guard.hook_config import QUESTION

    found = [e for e in asked.outcomes(audit.questions()) if e.get("command") != QUESTION][-count:]
    rows = [[e.get("at"), e.get("rule"), e.get("verdict"), e["outcome"], e.get("command")] for e in found]
    columns = [Column(c, "text") for c in ("at", "rule", "verdict", "outcome", "command")]
    return Table("asked", columns, rows, "Asked of a person, and what became of it")


def _policy_fault() -> str | None:
    try:
        compiled.load(os.getcwd())
    except compiled.PolicyFault as exc:
        return str(exc)
    return None


def _sources() -> list[str]:
    files = [compiled.user_file(), compiled.project_file(os.getcwd())]
    return [f for f in files if f and os.path.isfile(f)]


def scan_report(paths: tuple[str, ...] | list[str], *, redact_files: bool = False) -> tuple[Report, int]:
    """A scan as a report, and the exit code: 0 clean, 4 secrets left, 3 a file could not be read."""
    from infer_forge.guard.artifacts import scan

    seen = scan(paths, redact_files=redact_files)
    report = Report(
        "guard_scan",
        Header(coverage={"files": seen.files, "bytes": seen.bytes_read, "unreadable": len(seen.unreadable)}),
    )
    columns = [
        Column("path", "text"),
        Column("kind", "text"),
        Column("line", "int"),
        Column("offset", "int"),
        Column("length", "int"),
    ]
    report.add(Table("secrets", columns, [[f.path, f.kind, f.line, f.offset, f.length] for f in seen.found], "Secrets"))
    for path, why in seen.unreadable:
        report.findings.append(
            Finding(
                "UNREADABLE", f"{path}: {why}", "warning", next_step="unpack it, or leave it out of what is handed on"
            )
        )
    report.extra["verdict"] = (
        "redacted" if seen.redacted else "secrets" if seen.found else "unreadable" if seen.unreadable else "clean"
    )
    report.extra["redacted"] = seen.redacted
    report.summary = [
        f"{len(seen.found)} secret(s) in {seen.files} file(s)"
        + (f", {len(seen.redacted)} file(s) redacted" if seen.redacted else "")
    ]
    if seen.found and not seen.redacted:
        report.next_step = "infer-forge guard scan PATH --redact, and replace the leaked secrets"
    code = 4 if seen.found and not seen.redacted else 3 if seen.unreadable else 0
    return report, code


def grantable(action: str) -> None:
    """Whether a grant can lift this.

    Raises:
        UsageFault: there is no such rule or constraint, or nothing lifts it.
    """
    data: dict[str, Any] = load_yaml(policy.DATA)
    if action.endswith(".*") and action[:-2] in data["constraints"]:
        return
    entry = data["rules"].get(action) or (
        {"grantable": True} if action in {r["id"] for r in policy.current()["custom"]} else None
    )
    if entry is None:
        raise UsageFault(f"there is no rule or constraint {action!r}", next_step="infer-forge guard explain lists them")
    if entry.get("grantable") is False:
        raise UsageFault(f"no grant lifts {action}", next_step=f"infer-forge guard explain {action}")


def give(action: str, target: str, seconds: float, by: str, reason: str, run_id: str | None) -> ownership.Grant:
    """Record a person's grant; the caller has made sure that a person decided."""
    grant = ownership.Grant(action, target, time.time() + seconds, by, reason)
    ownership.add_grant(grant, run_id=run_id)
    return grant
