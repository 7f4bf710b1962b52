"""The report of a triage: top-level keys of the verdict, ranks, timeline, and the one next command."""

from __future__ import annotations

import re
import shlex
from typing import Any

from infer_forge.base import redact
from infer_forge.base.records import Finding, Header, InputFile, Report
from infer_forge.base.tables import Column, Table
from infer_forge.crash import signatures
from infer_forge.crash.model import Context, Event, Step, Verdict
from infer_forge.crash.read import HASH_UP_TO, Source
from infer_forge.crash.scan import Evidence
from infer_forge.crash.timeline import is_cascade

_EAGER = {"vllm": "--enforce-eager", "sglang": "--disable-cuda-graph"}
MAX_TIMELINE = 2000


def next_step(verdict: Verdict, context: Context) -> Step:
    """The one next command out of the data file, with its placeholders filled."""
    entry = signatures.data()["steps"][verdict.step]
    words = {
        "command": context.command or "COMMAND",
        "eager": _EAGER.get(context.engine or "", "--disable-cuda-graph"),
        **verdict.step_words,
    }
    words.setdefault("kernel", verdict.kernel or "KERNEL")
    words.setdefault("tool", "memcheck")
    words.setdefault("file", "LOG")
    words["dump"] = f"target cudacore {words['file']}"
    # Logs are written by others: what comes from them stays one word of the shell.
    quoted = {k: v if k in ("command", "eager") else shlex.quote(v) for k, v in words.items()}
    env = signatures.environment(entry["env"], level="5", flashinfer_level="5") if entry.get("env") else {}
    command = _filled(entry["command"], quoted)
    return Step(redact.redact(command), env, _filled(entry["why"], words), _filled(entry["expect"], words))


def _filled(text: str, words: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda m: words.get(m.group(1), m.group(0)), text)


def _event(event: Event | None) -> dict[str, Any] | None:
    if event is None:
        return None
    return {**event.to_json(), "text": redact.redact(event.text), "before": [redact.redact(b) for b in event.before]}


def _safe(value: Any) -> Any:
    """Redacted, and without integers that JSON's readers cannot hold."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)[:40]
    if isinstance(value, str):
        return redact.redact(value)
    if isinstance(value, dict):
        return {str(k): _safe(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, (list, tuple)):
        return [_safe(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def build(
    verdict: Verdict,
    evidence: Evidence,
    events: list[Event],
    sources: list[Source],
    context: Context,
    *,
    dumped: int,
    flights: int,
) -> Report:
    """Put everything into one Report."""
    step = next_step(verdict, context)
    verdict.next = step
    header = Header(
        inputs=[_input(s) for s in sources[:200] if s.kind != "skipped"],
        capture={
            "launch_blocking": context.launch_blocking,
            "cuda_graphs": context.graphs,
            "caching_allocator": context.caching_allocator,
            "engine": context.engine,
            "ranks": _seen_ranks(evidence),
        },
        coverage={
            "files": len(sources),
            "files_skipped": sum(s.kind == "skipped" for s in sources),
            "lines": evidence.lines,
            "bytes": evidence.bytes_read,
            "events": len(events),
            "api_calls": sum(log.count for log in evidence.calls.logs.values()),
            "stacks": len(evidence.stacks),
            "dumped_calls": dumped,
            "flight_recorder_dumps": flights,
            "lost": _safe(evidence.lost[:20]),
            "only_counted": dict(evidence.flooded),
        },
        thresholds=signatures.data()["limits"],
    )
    report = Report("crash", header)
    report.add(_ranks(events, verdict))
    report.add(_timeline(events, verdict))
    report.extra = _keys(verdict, step)
    report.summary = _summary(verdict, step)
    report.next_step = step.command
    for note in evidence.lost[:20]:
        report.findings.append(Finding("NOT_READ", redact.redact(note), "warning"))
    if verdict.hardware:
        report.findings.append(
            Finding(
                "STOP_CODE_DEBUGGING",
                "hardware or driver: take the node out before anything else",
                "warning",
                next_step=step.command,
            )
        )
    return report


def _seen_ranks(evidence: Evidence) -> list[str]:
    """Ranks that wrote at least one line that was looked at."""
    named = [o for o in evidence.streams.values() if o.rank is not None or o.label]
    return sorted({str(o.rank if o.rank is not None else o.label) for o in named})


def _input(source: Source) -> InputFile:
    if source.shown == "stdin" or source.size > HASH_UP_TO:
        return InputFile(source.shown, None, source.size)
    try:
        return InputFile.of(source.path) if source.kind != "gpucore" else InputFile(source.shown, None, source.size)
    except Exception:  # it went away between reading and hashing
        return InputFile(source.shown, None, source.size)


def _keys(v: Verdict, step: Step) -> dict[str, Any]:
    return _safe(
        {
            "class": v.cls,
            "certainty": v.certainty,
            "meaning": v.meaning,
            "cuda_crash": v.cuda_crash,
            "secondary": v.secondary,
            "first_event": _event(v.first_event),
            "surfaced_at": v.surfaced_at,
            "kernel": v.kernel,
            "api": v.api,
            "rank": v.rank,
            "device": v.device,
            "location": v.location,
            "sync_boundary": v.sync_boundary,
            "suspects": [s.to_json() for s in v.suspects],
            "cascade_count": v.cascade_count,
            "contradictory": v.contradictory,
            "not_evidence": v.not_evidence[:12],
            "missing_inputs": v.missing_inputs,
            "facts": v.facts,
            "hang": v.hang,
            "hardware": v.hardware,
            "next": step.to_json(),
        }
    )


def _summary(v: Verdict, step: Step) -> list[str]:
    lines = [f"{v.cls} ({v.certainty}): {v.meaning}"]
    where = [f"{n} {x}" for n, x in (("kernel", v.kernel), ("api", v.api), ("rank", v.rank)) if x is not None]
    if v.device:
        where.append("device " + ", ".join(f"{k} {x}" for k, x in v.device.items() if x is not None))
    if v.location:
        where.append(f"at {v.location['file']}:{v.location['line']}")
    if where:
        lines.append("; ".join(where))
    if v.facts.get("reading"):
        lines.append(str(v.facts["reading"]))
    if v.first_event:
        lines.append(f"first event {v.first_event.ref}: {v.first_event.text[:160]}")
    if v.surfaced_at and v.certainty == "surfaced_only":
        lines.append(
            f"surfaced (no culprit) in {v.surfaced_at.get('function', '?')} "
            f"{v.surfaced_at.get('file', '')}:{v.surfaced_at.get('line', '')}"
        )
    lines += [f"suspect ({s.strength}): {s.what}: {s.why} [{', '.join(s.refs[:2])}]" for s in v.suspects]
    if v.cascade_count:
        lines.append(f"{v.cascade_count} consequence{'s' if v.cascade_count > 1 else ''} left out")
    lines += [f"contradiction: {c}" for c in v.contradictory]
    lines += [f"no evidence: {n}" for n in v.not_evidence[:4]]
    lines += [f"missing: {m}" for m in v.missing_inputs]
    if step.env:
        lines.append("environment: " + " ".join(f"{k}={shlex.quote(x)}" for k, x in step.env.items()))
    lines.append(f"why: {step.why}; expect: {step.expected_line}")
    return [redact.redact(x) for x in lines]


def role_of(event: Event, verdict: Verdict) -> str:
    """`first`, `cascade`, `info`, or `later`: how the timeline shows an event."""
    if event is verdict.first_event:
        return "first"
    if event.group == "info":
        return "info"
    root = verdict.first_event
    if is_cascade(event) or (root is not None and event.order > root.order):
        return "cascade"
    return "candidate"


def _timeline(events: list[Event], verdict: Verdict) -> Table:
    shown = events if len(events) <= MAX_TIMELINE else events[:MAX_TIMELINE]
    rows = [
        (
            e.stamp,
            e.origin.host,
            str(e.rank) if e.rank is not None else None,
            e.origin.pid,
            role_of(e, verdict),
            e.sig,
            e.count,
            e.ref,
            redact.redact(e.text[:160]),
        )
        for e in shown
    ]
    columns = [
        Column("time", "text"),
        Column("host", "text"),
        Column("rank", "text"),
        Column("pid", "text"),
        "role",
        "signature",
        Column("count", "int"),
        "line",
        "text",
    ]
    return Table("timeline", columns, rows, "Timeline")


def _ranks(events: list[Event], verdict: Verdict) -> Table:
    """What each process shows first."""
    first: dict[Any, Event] = {}
    counts: dict[Any, int] = {}
    for event in events:
        if event.group == "info":
            continue
        first.setdefault(event.origin.process, event)
        counts[event.origin.process] = counts.get(event.origin.process, 0) + event.count
    rows = [
        (
            str(e.rank) if e.rank is not None else None,
            e.origin.host,
            e.origin.pid,
            e.stamp,
            e.sig,
            role_of(e, verdict),
            counts[p],
            e.ref,
        )
        for p, e in list(first.items())[:512]
    ]
    columns = [
        Column("rank", "text"),
        Column("host", "text"),
        Column("pid", "text"),
        Column("first_time", "text"),
        "first_signature",
        "role",
        Column("events", "int"),
        "line",
    ]
    return Table("ranks", columns, rows, "First event of each process")
