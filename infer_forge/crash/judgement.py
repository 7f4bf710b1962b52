"""What every branch of the judgement shares: taking an event as the first, its meaning, where it surfaced, its rank."""

from __future__ import annotations

from typing import Any

from infer_forge.crash import signatures
from infer_forge.crash.model import Context, Event, Verdict
from infer_forge.crash.scan import Evidence
from infer_forge.crash.timeline import signature_of

STEPS = {
    "ima_precise_sanitizer": "lineinfo",
    "ima_coredump": "cuda_gdb",
    "racecheck_hazard": "barrier",
    "synccheck_barrier": "barrier",
    "initcheck_kernel": "data_source",
    "initcheck_host_api": "data_source",
    "python_exception": "read_frame",
    "traceback_cut": "more_lines",
    "sanitizer_leak": "sanitize",
}  # fmt: skip
MEANINGS = {
    "ima_precise_sanitizer": "compute-sanitizer names the kernel, thread and address of a wrong access",
    "ima_coredump": "the driver's core dump names the kernel that faulted",
    "coredump_no_exception": "a core dump without an exception",
    "racecheck_hazard": "racecheck: two accesses to shared memory without a barrier between them",
    "synccheck_barrier": "synccheck: a barrier that not all threads reach, or a deadlock at one",
    "initcheck_kernel": "initcheck: a kernel reads memory that nothing wrote",
    "initcheck_host_api": "initcheck: a host API call reads memory that nothing wrote; no kernel is at fault",
    "python_exception": "a Python exception: synchronous, its stack is true",
    "traceback_cut": "a traceback without its last line: the error's name is missing",
    "sanitizer_leak": "device memory was not freed",
}


class Judgement:
    """One judgement over ordered events."""

    def __init__(
        self, evidence: Evidence, events: list[Event], context: Context, flight: dict[str, Any] | None
    ) -> None:
        """Take what was found; `flight` is the analysis of flight-recorder dumps."""
        self.evidence = evidence
        self.events = events
        self.context = context
        self.flight = flight
        self.verdict = Verdict()
        self.root: Event | None = None

    def has(self, sig: str) -> bool:
        """Whether an event of this signature was seen."""
        return any(e.sig == sig for e in self.events)

    def _take(self, event: Event) -> None:
        """Make an event the first one, with class, meaning, step, rank."""
        v = self.verdict
        self.root = event
        found = signature_of(event)
        v.cls = found.cls if found else event.sig
        v.meaning = self._meaning(event)
        v.first_event = event
        v.rank = event.rank
        v.step = found.step if found and found.step else STEPS.get(event.sig, v.step)
        v.step_words.setdefault("file", event.origin.path)
        v.facts |= {k: x for k, x in event.facts.items() if k not in ("code", "chained")}
        if event.count > 1:
            v.facts["repeats"] = event.count

    def _meaning(self, event: Event) -> str:
        if "xid" in event.facts:
            return (
                f"Xid {event.facts['xid']} ({event.facts.get('mnemonic') or 'unknown'}): "
                f"{signatures.xid(event.facts['xid'])['meaning']}"
            )
        found = signature_of(event)
        return found.meaning if found else MEANINGS.get(event.sig, "")

    def _surfaced(self, event: Event) -> None:
        """Where the error showed itself: never a culprit."""
        where: dict[str, Any] = {"path": event.origin.path, "line_no": event.line_no, "text": event.text[:300]}
        if event.frames:
            file, line, function = event.frames[-1]
            where |= {"file": file, "line": line, "function": function}
            own = next(
                (
                    f
                    for f in reversed(event.frames)
                    if "site-packages/torch" not in f[0] and "dist-packages/torch" not in f[0]
                ),
                None,
            )
            if own is not None and own != event.frames[-1]:
                where["own_frame"] = {"file": own[0], "line": own[1], "function": own[2]}
        self.verdict.surfaced_at = where

    def _rank_by_pid(self, event: Event) -> None:
        pid = event.facts.get("pid")
        if not isinstance(pid, int):
            return
        for origin in self.evidence.streams.values():
            if origin.pid == pid and (origin.rank is not None or origin.label):
                self.verdict.rank = origin.rank if origin.rank is not None else origin.label

    def _rank_by_origin_pid(self, event: Event) -> None:
        for origin in self.evidence.streams.values():
            if (
                event.origin.pid is not None
                and origin.pid == event.origin.pid
                and (origin.rank is not None or origin.label)
            ):
                self.verdict.rank = origin.rank if origin.rank is not None else origin.label
