"""The verb `triage`: inputs in, one verdict out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.records import Report
from infer_forge.crash import calls, dumps, flight, kernel_log, read, signatures
from infer_forge.crash.judge import Judge
from infer_forge.crash.model import Context, Event, Origin
from infer_forge.crash.prefixes import Clock
from infer_forge.crash.report import build
from infer_forge.crash.scan import Evidence, Scanner
from infer_forge.crash.timeline import collapsed, ordered


def triage(paths: Sequence[str | Path], *, context: Context | None = None) -> Report:
    """Logs, dumps and transcripts of any number of ranks and hosts become one verdict.

    Args:
        paths: files, folders, gzip files; `-` is standard input.
        context: what the user states about the run.

    Returns:
        A report of kind `crash`; its top-level keys are those of `docs/crash.md`.

    Raises:
        UsageFault: no path. InputUnusable: a path cannot be used, or no input could be read.
    """
    if not paths:
        raise UsageFault("no input", next_step="name log files, folders, or - for standard input")
    found = read.sources(list(paths))
    evidence = Evidence()
    scanner = Scanner(evidence, Clock())
    flights: dict[int, tuple[str, dict[str, Any]]] = {}
    used = 0
    for source in found:
        try:
            used += _take(source, scanner, evidence, flights)
        except InputUnusable as fault:
            if len(found) == 1:
                raise
            source.kind, source.note = "skipped", fault.what
            evidence.lost.append(f"{source.shown}: {fault.what}")
        evidence.lost += [f"{source.shown}: {x}" for x in source.lost]
    dumped = dumps.read_dumps(found, [Path(p) for p in paths if str(p) != "-"], evidence.lost)
    calls.with_levels(evidence.calls)
    dumps.add_to(evidence.calls, dumped)
    if not used and not dumped and not evidence.gpucores:
        raise InputUnusable(
            "holds nothing that can be read",
            where=", ".join(map(str, paths[:3])),
            next_step="give logs as text or gzip, dump folders, or flight-recorder dumps",
        )
    events = collapsed(ordered(evidence.events))
    stated = context or Context()
    try:
        analysis = flight.analyse(flights)
    except (RecursionError, TypeError, ValueError, AttributeError, OverflowError) as fault:  # fields of foreign types
        analysis = None
        evidence.lost.append(
            f"flight-recorder dumps could not be compared ({type(fault).__name__}): a field has a foreign type"
        )
    verdict = Judge(evidence, events, stated, analysis).decide()
    return build(verdict, evidence, events, found, stated, dumped=len(dumped), flights=len(flights))


def _take(
    source: read.Source, scanner: Scanner, evidence: Evidence, flights: dict[int, tuple[str, dict[str, Any]]]
) -> int:
    """Read one file; 1 when it could be used."""
    if source.kind == "log":
        before = evidence.bytes_read
        scanner.scan(read.blocks(source), source.shown, str(source.path))
        return int(evidence.bytes_read > before)
    if source.kind in ("pickle", "flight_json"):
        data = flight.load(source.path, source.shown)
        rank = flight.rank_of(source.path, data)
        if rank is None:
            evidence.lost.append(f"{source.shown}: its rank is unknown (no digits at the end of the name)")
            return 1
        if rank in flights:
            evidence.lost.append(f"{source.shown}: a second dump of rank {rank}; the first counts")
            return 1
        flights[rank] = (source.shown, data)
        return 1
    if source.kind == "gpucore":
        evidence.gpucores.append(source.shown)
        return 1
    if source.kind == "gpus":
        _seen_xids(_object(source, evidence), source, evidence)
        return 1
    if source.kind in ("record", "bundle"):
        return _record(source, evidence)
    if source.note.startswith(("a link", "may not", "no regular")):
        evidence.lost.append(f"{source.shown}: {source.note}")
    return 0


def _object(source: read.Source, evidence: Evidence) -> dict[str, Any]:
    """A small JSON object; empty, and told, when it is none."""
    try:
        if source.size > 8 << 20:
            raise ValueError("too large")
        data: Any = json.loads(source.path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        evidence.lost.append(f"{source.shown}: is no such record")
        return {}
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def _record(source: read.Source, evidence: Evidence) -> int:
    """The record of `crash record`: environment and how the run ended."""
    run = _object(source, evidence)
    if not run:
        return 0
    evidence.run = run
    _ending(run, source, evidence)
    after = run.get("gpus_after")
    if isinstance(after, dict):
        _seen_xids(cast("dict[str, Any]", after), source, evidence)
    env = run.get("env")
    if isinstance(env, dict):
        evidence.env |= {str(k): str(v) for k, v in cast("dict[Any, Any]", env).items()}
    return 1


def _seen_xids(state: dict[str, Any], source: read.Source, evidence: Evidence) -> None:
    """Xids that a look at the machine saw in its kernel log."""
    gpus = state.get("gpus")
    for item in cast("list[Any]", gpus)[:64] if isinstance(gpus, list) else []:
        gpu = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        numbers = gpu.get("xid")
        for number in cast("list[Any]", numbers)[:64] if isinstance(numbers, list) else []:
            if not isinstance(number, int):
                continue
            known = signatures.xid(number)
            facts = {"xid": number, "pci": gpu.get("pci"), "kind": known["kind"], "mnemonic": known["mnemonic"]}
            host = str(state["node"]) if state.get("node") else None
            text = f"the kernel log held Xid {number} of GPU {gpu.get('index')} ({gpu.get('pci')})"
            group = kernel_log.GROUPS.get(known["kind"], "other")
            evidence.events.append(
                Event(f"xid_{number}", group, 1, text, Origin(source.shown, host), source="kernel_log", facts=facts)
            )


_ENDINGS = {
    "SIGSEGV": ("segfault", "host"),
    "SIGBUS": ("bus_error", "host"),
    "SIGKILL": ("killed", "cascade"),
    "SIGABRT": ("aborted", "info"),
}


def _ending(run: dict[str, Any], source: read.Source, evidence: Evidence) -> None:
    """How the recorded command ended, as an event."""
    known = _ENDINGS.get(str(run.get("signal")))
    if known is not None and not run.get("ended_by"):
        pid = run.get("pid")
        origin = Origin(
            source.shown, str(run["host"]) if run.get("host") else None, pid if isinstance(pid, int) else None
        )
        text = f"the recorded command ended by {run['signal']}"
        evidence.events.append(Event(known[0], known[1], 1, text, origin, source="record"))
