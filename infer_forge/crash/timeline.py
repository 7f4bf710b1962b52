"""Events in the order of time, causes told from consequences."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from infer_forge.crash import signatures
from infer_forge.crash.model import Event

_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
CAUSES = ("cuda", "build", "oom", "config", "hang", "hardware", "host", "python", "other")


def ordered(events: list[Event]) -> list[Event]:
    """Sort by time; an event without a stamp takes the one before it in its file, else the one after it.

    Files without any stamp keep their own order and stand last: their place among the others is unknown.
    """
    files: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        files[event.origin.path].append(event)
    keyed: list[tuple[float, int, int, Event]] = []
    for number, found in enumerate(files.values()):
        found.sort(key=lambda e: e.line_no)
        times: list[float | None] = []
        last: float | None = None
        for event in found:
            last = event.time if event.time is not None else last
            times.append(last)
        following: float | None = None
        for i in range(len(found) - 1, -1, -1):
            following = times[i] if times[i] is not None else following
            times[i] = following
        keyed += [
            (t if t is not None else float("inf"), number, e.line_no, e) for t, e in zip(times, found, strict=True)
        ]
    keyed.sort(key=lambda k: k[:3])
    for order, (time, _, _, event) in enumerate(keyed):
        event.order = order
        if event.time is None and time != float("inf"):
            event.time = time
    return [k[3] for k in keyed]


def collapsed(events: list[Event]) -> list[Event]:
    """Repeats of one line shape in one process become one event with a count; the first stays."""
    seen: dict[tuple[Any, ...], Event] = {}
    result: list[Event] = []
    for event in events:
        key = (
            event.sig,
            event.origin.process,
            _NUMBERS.sub("0", event.text)[:160],
            event.facts.get("condition"),
            event.facts.get("kernel"),
            event.facts.get("seq"),
            event.facts.get("sm"),
            tuple(event.facts.get("esr", ())),
        )
        if (before := seen.get(key)) is not None:
            before.count += 1
            continue
        seen[key] = event
        result.append(event)
    return result


def is_cascade(event: Event) -> bool:
    """Whether an event's own signature says that it is a consequence."""
    return event.group == "cascade" or bool(event.facts.get("chained"))


def signature_of(event: Event) -> signatures.Signature | None:
    """The data entry of an event; None for those that parsers make."""
    return signatures.by_id().get(event.sig)


def is_sticky(event: Event) -> bool:
    """Whether the process's CUDA context is dead after it."""
    found = signature_of(event)
    return bool(found and found.sticky)
