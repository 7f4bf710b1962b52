"""Which event is the first cause: what was survived, wrapped, collateral or a mere consequence stands behind."""

from __future__ import annotations

from typing import Any

from infer_forge.crash import names, signatures
from infer_forge.crash.model import Event
from infer_forge.crash.timeline import CAUSES, is_cascade, is_sticky, signature_of

TOOL_RECORDS = ("racecheck_hazard", "synccheck_barrier", "initcheck_kernel", "initcheck_host_api")
NOT_ROOT = ("sanitizer_api_error",)
_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


def possible_roots(events: list[Event]) -> list[Event]:
    """Possible first causes, earliest first."""
    return [e for e in events if e.group in CAUSES and not is_cascade(e) and e.sig not in NOT_ROOT]


def first_cause(roots: list[Event]) -> Event | None:
    """The earliest cause, after what is known to be survived, wrapped or secondary is put behind."""
    solid = [e for e in roots if e.group != "python" and not wraps(e) and e.sig not in TOOL_RECORDS and not is_minor(e)]
    if any(e.group == "cuda" and e.source != "kernel_log" for e in solid):
        solid = [e for e in solid if e.source != "kernel_log"]  # the driver's note of the same fault says less
    fatal = [e for e in solid if e.group in ("cuda", "hardware")]
    first = solid[0] if solid else None
    if first is not None and first.group in ("oom", "build", "other"):
        later = [e for e in fatal if is_sticky(e) and e.order > first.order]
        survived = first.origin.process == later[0].origin.process and gap(first, later[0]) > 5 if later else False
        if later and (first.group in ("build", "other") or survived):
            first = later[0]
    if first is not None and first.sig == "cublas_wrapped":
        close = [
            e
            for e in solid
            if e.origin.process == first.origin.process
            and (is_sticky(e) or e.group == "oom")
            and abs(gap(first, e)) < 5
        ]
        first = close[0] if close else first
    if first is not None and first.group == "hang":
        first = cause_of_hang(first, roots)
    if first is None:
        wrapped = [e for e in roots if wraps(e)]
        tool = [e for e in roots if e.sig in TOOL_RECORDS]
        minor = [e for e in roots if e.group != "python" and is_minor(e)]
        python = [e for e in roots if e.group == "python"]
        python = [e for e in python if e.sig != "traceback_cut"] or python
        first = next(iter(wrapped or tool or minor or python), None)
    return first


def is_minor(event: Event) -> bool:
    """Kernel-log notes that end nothing by themselves (row remapped, single-bit rate, unknown numbers)."""
    return event.source == "kernel_log" and (
        event.facts.get("kind") == "unknown" or signatures.xid(int(event.facts["xid"])).get("severity") == "mark"
    )


def cause_of_hang(hang: Event, roots: list[Event]) -> Event:
    """A rank that died of something else before the others timed out; or an absurd allocation beside the timeout."""
    waiting = {e.origin.process for e in roots if e.group == "hang"}
    for event in roots:
        if event.sig == "oom" and is_absurd(event):
            return event
    for event in roots:
        if (
            event.group == "python"
            and event.order < hang.order
            and event.origin.process not in waiting
            and event.rank is not None
            and event.sig != "traceback_cut"
        ):
            return event
    return hang


def root_process(first: Event, roots: list[Event]) -> tuple[Event, list[Event]]:
    """The first CUDA error of the process that reported first; collectives' victims stand behind. Ties are told."""
    heads: dict[Any, Event] = {}
    for event in roots:
        if event.group == "cuda" and event.source == "log" and not wraps(event) and event.sig != "cuda_unknown":
            heads.setdefault(event.origin.process, event)
    if not heads or first.sig == "cuda_unknown" or first.origin.process not in heads or wraps(first):
        heads[first.origin.process] = first
    if first.order < heads[first.origin.process].order or not is_sticky(heads[first.origin.process]):
        heads[first.origin.process] = first
    named = [e for e in heads.values() if e.rank is not None or e.origin.pid is not None] or list(heads.values())
    sane = [e for e in named if not is_victim(e)] or named
    root = min(sane, key=lambda e: e.order)
    if root.time is None:
        tied = [
            e
            for e in sane
            if e is not root and e.time is None and e.origin.path != root.origin.path and e.rank is not None
        ]
    else:
        tied = [
            e
            for e in sane
            if e is not root
            and e.origin.path != root.origin.path
            and e.time is not None
            and e.rank is not None
            and (
                e.time == root.time
                or (
                    e.origin.host != root.origin.host
                    and e.origin.host is not None
                    and root.origin.host is not None
                    and abs(e.time - root.time) < 1
                )
            )
        ]
    return root, [root, *tied] if tied else []


def refined(cls: str, root: Event) -> str:
    """Graph replay and capture are classes of their own."""
    if cls != "ima_async":
        return cls
    tail = root.frames[-6:]
    code = " ".join(str(c) for c in root.facts.get("code", ()))
    if any("capture" in f[2].lower() for f in tail) and "replay" not in code:
        return "ima_capture"
    if (
        "replay()" in code
        or any("replay" in f[2].lower() for f in tail)
        or "currentStreamCaptureStatusMayInitCtx" in root.text
    ):
        return "ima_graph_replay"
    return cls


def is_victim(event: Event) -> bool:
    """Whether a CUDA error surfaced inside a collective: it waits for other ranks."""
    found = signature_of(event)
    return bool(found and found.collective) or any(
        names.is_collective(f[2]) or names.is_collective(f[0].rsplit("/", 1)[-1]) for f in event.frames[-3:]
    )


def wraps(event: Event) -> bool:
    """Whether it only wraps an error of another process."""
    found = signature_of(event)
    return bool(found and found.wraps)


def gap(a: Event, b: Event) -> float:
    """Seconds from one to the other; 0 where a clock is missing."""
    return b.time - a.time if a.time is not None and b.time is not None else 0.0


def _bytes(event: Event, name: str, unit: str) -> float | None:
    value = event.facts.get(name)
    try:
        return float(value) * _UNITS.get(str(event.facts.get(unit)), 0) if value else None
    except ValueError:
        return None  # "1.2.3"


def is_absurd(event: Event) -> bool:
    """Whether more memory was asked for than the GPU has at all."""
    size, total = _bytes(event, "size", "unit"), _bytes(event, "total", "total_unit")
    limit = signatures.data()["limits"]["absurd_oom_ratio"]
    return size is not None and total is not None and size > total * limit


def own_frame(event: Event) -> tuple[str, int, str]:
    """The innermost frame outside of torch, else the innermost."""
    return next((f for f in reversed(event.frames) if "-packages/torch/" not in f[0]), event.frames[-1])
