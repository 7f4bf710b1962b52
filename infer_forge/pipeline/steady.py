"""Cold, warm-up and steady passes told apart by evidence, and the pass that stands for a stage."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from statistics import median

import numpy as np

from infer_forge.pipeline.model import Lane, Pass

COLD_RATIO = 1.5
"""A pass this much longer than the median of the later ones of its stage and batch is cold."""
_SETUP = re.compile(
    r"ModuleLoad|LibraryLoad|ModuleGetFunction|GraphInstantiate|StreamBeginCapture|GraphExecUpdate|autotune|inductor_compile|compile_fx|_compile",
    re.IGNORECASE,
)
"""Host calls and annotations that load, compile, tune or capture: they belong to start-up."""


@dataclass(frozen=True)
class Choice:
    """The pass that stands for a stage, and why."""

    chosen: Pass
    reason: str


def temper(lane: Lane) -> None:
    """Give every pass its temperature with the evidence."""
    groups: dict[tuple[str, int | None, int | None, int], list[Pass]] = {}
    sizes = _sizes(lane)
    for p in lane.passes:
        if not p.partial and p.layers:
            groups.setdefault((p.stage, p.batch, _bucket(p.tokens), sizes[p.number]), []).append(p)
    for members in groups.values():
        for k, p in enumerate(members):
            later = [q.wall_ns for q in members[k + 1 :]]
            setup = _setup(lane, p)
            if later and p.wall_ns > COLD_RATIO * median(later):
                p.temperature = "cold"
                p.evidence = f"{p.wall_ns / median(later):.1f} x the median of {len(later)} later passes like it"
                if setup:
                    p.evidence += f"; {setup}"
            elif setup:
                p.temperature, p.evidence = "warm-up", setup
            elif len(members) > 1:
                p.temperature = "steady"


def _sizes(lane: Lane) -> dict[int, int]:
    """Pass -> class of its work: of passes whose batch and tokens nobody says, those of about the same busy time are alike.

    What is cold waits for the host; it does not keep the device busy for longer. A pass that does is of another size (a
    prefill beside decodes, in a trace without marks), and says nothing about the others.
    """
    found = {p.number: 0 for p in lane.passes}
    unknown = [p for p in lane.passes if p.batch is None and p.tokens is None and not p.partial and p.layers]
    size, least = 0, 0
    for p in sorted(unknown, key=lambda p: p.busy_ns):
        if p.busy_ns > COLD_RATIO * least:
            size, least = size + 1, p.busy_ns
        found[p.number] = size
    return found


def _bucket(tokens: int | None) -> int | None:
    """Passes of about the same number of tokens are compared with each other (powers of two)."""
    return tokens.bit_length() if tokens else None


def _setup(lane: Lane, p: Pass) -> str:
    """What the host did during a pass that belongs to start-up."""
    calls = lane.trace.calls
    if not len(calls):
        return ""
    first = lane.trace.work.call[p.rows]
    known = first[first >= 0]
    begin = int(calls.ts_ns[known].min()) if len(known) else p.start_ns
    found: dict[str, int] = {}
    for table in (calls, lane.trace.annotations):
        low, high = (int(x) for x in np.searchsorted(table.ts_ns, [begin, p.end_ns]))
        ids, counts = np.unique(table.name[low:high], return_counts=True)
        for k in range(len(ids)):
            text = lane.trace.names[int(ids[k])]
            if _SETUP.search(text):
                found[text[:40]] = found.get(text[:40], 0) + int(counts[k])
    return ", ".join(f"{n} {k}" for k, n in sorted(found.items()))


def representative(lane: Lane, stage: str) -> Choice | None:
    """The steady pass nearest to the median wall time, among the most frequent batch of a stage; None without a whole pass."""
    whole = [p for p in lane.passes if p.stage == stage and p.layers and not p.partial]
    if not whole:
        return None
    good = [p for p in whole if p.temperature == "steady"] or [p for p in whole if p.temperature != "cold"] or whole
    sizes = _sizes(lane)
    count = Counter((p.batch, len(p.layers), sizes[p.number]) for p in good)
    best = max(count, key=lambda k: (count[k], k[1]))
    same = [p for p in good if (p.batch, len(p.layers), sizes[p.number]) == best]
    middle = median(p.wall_ns for p in same)
    chosen = min(same, key=lambda p: (abs(p.wall_ns - middle), p.number))
    if len(same) == 1:
        return Choice(chosen, "the only whole pass of its stage and batch: whether it is steady cannot be told")
    cold = sum(p.temperature in ("cold", "warm-up") for p in whole)
    left = f", {cold} cold or warm-up left out" if cold else ""
    which = f"with batch {best[0]}" if best[0] is not None else "of unknown batch"
    if others := len(good) - len(same):
        left += f", {others} of another size left out"
    return Choice(chosen, f"nearest to the median wall time of {len(same)} steady passes {which}{left}")


def alike(lane: Lane, chosen: Pass) -> list[Pass]:
    """Whole passes that may be averaged with the chosen one: same stage, batch, size and layer count, not cold."""
    sizes = _sizes(lane)
    return [
        p
        for p in lane.passes
        if p is chosen
        or (
            not p.partial
            and p.stage == chosen.stage
            and p.batch == chosen.batch
            and sizes[p.number] == sizes[chosen.number]
            and len(p.layers) == len(chosen.layers)
            and p.temperature == chosen.temperature
        )
    ]
