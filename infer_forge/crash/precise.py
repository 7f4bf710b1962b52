"""What names a kernel or bounds the fault: sanitizer record, coredump, assertion text, and kernel-API logs (C1-C6)."""

from __future__ import annotations

from typing import Any

from infer_forge.crash import names, sanitizer, signatures
from infer_forge.crash.calls import CUDA_TYPES
from infer_forge.crash.model import Call, CallLog, Event, Origin, Suspect, Verdict

_RANKED = ("sanitizer", "coredump", "assert")


def best(events: list[Event]) -> Event | None:
    """The strongest record that names a kernel: sanitizer, then coredump with an exception, then assertion text."""
    for wanted in _RANKED:
        found = [e for e in events if _form(e) == wanted]
        if found:
            return min(found, key=lambda e: (e.time if e.time is not None else float("inf"), e.order))
    return None


def _form(event: Event) -> str | None:
    if (
        event.source == "sanitizer"
        and event.sig in sanitizer.GPU_FAULTS
        and "potential" not in str(event.facts.get("potential", "")).lower()
    ):
        return "sanitizer"
    if event.sig == "ima_coredump":
        return "coredump"
    return "assert" if event.sig == "device_assert" else None


def name_kernel(verdict: Verdict, event: Event) -> None:
    """Fill a verdict from a record that names its kernel."""
    facts = event.facts
    verdict.certainty = "proven"
    kernel = facts.get("kernel")
    verdict.kernel = str(facts.get("kernel_short") or names.short(str(kernel))) if kernel else None
    file, line = facts.get("source_file") or facts.get("file"), facts.get("source_line") or facts.get("line")
    if file and line and event.sig != "ima_coredump":
        verdict.location = {"file": file, "line": int(line)}
    elif facts.get("source_file"):
        verdict.location = {"file": facts["source_file"], "line": int(facts["source_line"])}
    if facts.get("device") is not None:
        verdict.device = {
            "index": int(facts["device"]) if str(facts["device"]).isdigit() else None,
            "sm": facts.get("sm"),
            "pci": None,
        }
    if kernel is None:
        verdict.certainty = "bounded"
        verdict.missing_inputs.append("the kernel's name: the record has no frame")
    if event.sig == "ima_precise_sanitizer":
        _distance(verdict, facts)


def _distance(verdict: Verdict, facts: dict[str, Any]) -> None:
    """What the distance from the nearest allocation tells (thresholds of the data file's limits)."""
    limits = signatures.data()["limits"]
    distance, side = facts.get("distance_bytes"), facts.get("side")
    if str(facts.get("state", "")).startswith("misaligned"):
        verdict.facts["reading"] = "misaligned: the access is wider than the alignment of its address"
    elif distance is None:
        return
    elif distance >= limits["far_bytes"]:
        verdict.facts["reading"] = (
            f"{distance:,} bytes {side} the nearest allocation: an index overflow (32-bit) or a negative index"
        )
    elif side == "after" and distance < limits["off_by_tile_bytes"]:
        verdict.facts["reading"] = f"{distance:,} bytes after an allocation: a tile without a mask, or off by one"
    else:
        verdict.facts["reading"] = f"{distance:,} bytes {side} the nearest allocation"


def log_of(logs: list[CallLog], origin: Origin | None) -> CallLog | None:
    """The call log of a process: by pid, by rank, by file; the only one there is when nothing else tells."""
    if not logs:
        return None
    if origin is not None:
        for log in logs:
            same_host = origin.host is None or log.origin.host is None or origin.host == log.origin.host
            if same_host and origin.pid is not None and origin.pid == log.origin.pid:
                return log
        for log in logs:
            known = origin.label or origin.rank
            if known is not None and known == (log.origin.label or log.origin.rank):
                return log
        same = [log for log in logs if log.origin.path == origin.path]
        if len(same) == 1 and (origin.rank is None or same[0].origin.rank is None):
            return same[0]
    poisoned = [log for log in logs if log.poisoned is not None]
    if len(poisoned) == 1 and origin is None:
        return poisoned[0]
    return logs[0] if len(logs) == 1 else None


def bound_by_calls(verdict: Verdict, log: CallLog, *, died: bool) -> bool:
    """Apply the rules of the kernel-API logs. True when they bound the fault.

    Args:
        died: there is evidence that the process ended with a CUDA error or was ended.
    """
    call = log.poisoned
    if call is not None and call.poisoned_in and not call.poisoned_out:
        before = log.before_poison[-1] if log.before_poison else None
        verdict.certainty = "bounded"
        clean = before is not None and before.returned
        verdict.sync_boundary = {
            "last_good": _point(before, "outputs" if clean else "inputs") if before else None,
            "first_bad": _point(call, "inputs"),
        }
        for candidate in reversed(log.before_poison):
            strength = "high" if candidate is before and not clean else "medium"
            verdict.suspects.append(
                Suspect(candidate.api, "ran before the context was first seen dead", strength, [candidate.ref])
            )
        verdict.suspects.append(
            Suspect(
                "work that no log line tells",
                "raw operators, a graph replay or a compiled region between the two",
                "medium",
                [f"{call.origin.path}:{call.poison_line}"],
            )
        )
        verdict.facts["boundary"] = f"the context was dead before {call.api}: its inputs could not be read"
        return True
    if call is not None and call.poisoned_out:
        return _inside(verdict, call, "its inputs could be read, its outputs could not")
    last = log.last[-1]
    if log.level >= 5 and last.raised and _cuda_type(last.raised):
        return _inside(verdict, last, "its inputs had been read from the device, then it raised")
    if last.status == "no_inputs":
        verdict.certainty = "bounded"
        before = log.last[-2] if len(log.last) > 1 else None
        verdict.sync_boundary = {
            "last_good": _point(before, "outputs") if before else None,
            "first_bad": _point(last, "inputs"),
        }
        if before is not None:
            verdict.suspects.append(
                Suspect(
                    before.api, "ran before the inputs of the next call could not be copied", "medium", [before.ref]
                )
            )
        verdict.facts["boundary"] = f"the context was dead before {last.api}: its inputs could not be copied"
        return True
    if (
        died
        and (last.dumped or last.status == "inputs_saved")
        and last.status != "completed"
        and not (last.returned and last.status != "inputs_saved")
    ):
        return _inside(verdict, last, "its inputs were saved, its outputs never were")
    if died and log.library in ("flashinfer", "recorder") and log.level >= 5 and not last.returned:
        return _inside(verdict, last, "its inputs had been read from the device, and it never came back")
    if last.status == "completed" or (last.dumped and last.returned):
        verdict.sync_boundary = {"last_good": _point(last, "outputs"), "first_bad": None}
        verdict.suspects.insert(
            0,
            Suspect(
                "work outside the logged functions",
                f"{last.api} completed, so the fault is in a graph replay, "
                f"a compiled region, a raw operator, NCCL or another process",
                "high",
                [last.ref],
            ),
        )
        return False
    _candidates(verdict, log)
    return False


def _candidates(verdict: Verdict, log: CallLog) -> None:
    """Level 1 and 3: the last calls are candidates only."""
    for call in reversed(log.last[-3:]):
        if call.raised:
            why = "raised: the error surfaced here"
        elif call.returned:
            why = "came back, but its GPU work may still be at fault"
        else:
            why = "the last logged call; the fault may be in any earlier asynchronous kernel"
        verdict.suspects.append(Suspect(call.api, why, "low", [call.ref]))


def _cuda_type(raised: str) -> bool:
    kind = raised.split(":", 1)[0]
    return kind.rsplit(".", 1)[-1] in {t.rsplit(".", 1)[-1] for t in CUDA_TYPES} and (
        "CUDA" in raised or "Triton" in raised
    )


def _inside(verdict: Verdict, call: Call, why: str) -> bool:
    verdict.certainty = "bounded"
    verdict.api = call.api
    verdict.sync_boundary = {"last_good": _point(call, "inputs"), "first_bad": _point(call, "outputs")}
    line = call.poison_line or call.line_no
    verdict.suspects.insert(
        0,
        Suspect(
            call.api, f"{why}; unlogged work inside it counts too", "high", [call.ref, f"{call.origin.path}:{line}"]
        ),
    )
    verdict.facts["boundary"] = f"the fault is in {call.api}: {why}"
    return True


def _point(call: Call, side: str) -> dict[str, Any]:
    line = (
        call.poison_line
        if call.poison_line and side in ("inputs", "outputs") and (call.poisoned_in or call.poisoned_out)
        else call.line_no
    )
    return {"api": call.api, "side": side, "path": call.origin.path, "line_no": line}
