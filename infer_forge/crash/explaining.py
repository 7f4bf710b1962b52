"""The verb `explain`: what a signature, an Xid or a pasted line means."""

from __future__ import annotations

import re
from typing import Any

from infer_forge.base.errors import UsageFault
from infer_forge.base.records import Header, Report
from infer_forge.base.tables import Table
from infer_forge.crash import kernel_log, sanitizer, signatures
from infer_forge.crash.model import Origin
from infer_forge.crash.prefixes import Clock, clean, parse


def explain(what: str) -> Report:
    """Meaning, certainty, consequence and next command of a signature id, `xid 79`, or one line of a log.

    Raises:
        UsageFault: nothing, or nothing known, was named.
    """
    text = what.strip()
    if not text:
        raise UsageFault("nothing was named", next_step="name a class of a triage, an Xid (xid 79), or paste one line")
    report = Report("crash-signature", Header())
    if found := re.fullmatch(r"[Xx]id[ _]?(\d{1,4})", text):
        return _xid(report, int(found.group(1)))
    entries = signatures.named(text)
    if not entries:
        line = parse(clean(text)[:4000], 1, Origin("line"), Clock())
        event = kernel_log.xid_event(line)
        if event is not None:
            return _xid(report, int(event.facts["xid"]))
        matched = signatures.match(line.text)
        entries = [matched[0]] if matched else []
        if not entries and (head := sanitizer.head_of(line.text)) is not None:
            from infer_forge.crash.judge import MEANINGS

            report.extra = {
                "signature": head[0],
                "meaning": MEANINGS.get(head[0], "a line of the sanitizer"),
                "group": "cuda",
                "source": "sanitizer",
            }
            report.summary = [f"{head[0]}: {report.extra['meaning']}"]
            report.next_step = "infer-forge crash triage LOG"
            return report
    if not entries:
        raise UsageFault(
            "no signature fits", where=text[:80], next_step="triage the whole log: infer-forge crash triage LOG"
        )
    report.add(
        Table(
            "signatures",
            ["id", "class", "group", "sticky", "surfaces_late", "meaning", "source", "example"],
            [
                (
                    s.id,
                    s.cls,
                    s.group,
                    s.sticky,
                    s.surfaced,
                    s.meaning,
                    signatures.data()["sources"].get(s.source, s.source),
                    s.example,
                )
                for s in entries
            ],
        )
    )
    first = entries[0]
    step: dict[str, Any] = signatures.data()["steps"].get(first.step, {})
    report.extra = {
        "signature": first.id,
        "class": first.cls,
        "group": first.group,
        "sticky": first.sticky,
        "surfaces_late": first.surfaced,
        "consequence_only": first.group == "cascade",
        "meaning": first.meaning,
        "why": step.get("why"),
        "expected_line": step.get("expect"),
    }
    report.summary = [
        f"{first.id}: {first.meaning}",
        "the context is dead afterwards: later errors of the process are consequences"
        if first.sticky
        else "the context survives it",
    ]
    if first.surfaced:
        report.summary.append("asynchronous: the frame shown is where it surfaced, no culprit")
    report.next_step = str(step.get("command", "infer-forge crash triage LOG")).replace("{command}", "COMMAND")
    return report


def _xid(report: Report, number: int) -> Report:
    known = signatures.xid(number)
    stop = number in signatures.data()["stop_xids"]
    report.extra = {
        "signature": f"xid_{number}",
        "class": f"xid_{number}",
        "group": known["kind"],
        "mnemonic": known["mnemonic"],
        "meaning": known["meaning"],
        "consequence_only": known["kind"] == "cascade",
        "stop_code_debugging": stop,
    }
    report.summary = [f"Xid {number} ({known['mnemonic'] or 'unknown'}, {known['kind']}): {known['meaning']}"]
    report.next_step = (
        f"infer-forge node mark NODE --unhealthy --reason 'Xid {number}'"
        if stop
        else "infer-forge crash triage LOG KERNEL_LOG"
    )
    return report
