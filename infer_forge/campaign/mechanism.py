"""Whether a patch's mechanism is at work: its kernel or log line is seen in files of the accepted state; and off again without it."""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infer_forge.base.errors import UsageFault
from infer_forge.campaign import book, verdicts

SEEN, NOT_SEEN, CANNOT_TELL = "seen", "not_seen", "cannot_tell"
_MOST_BYTES = 512 * 1024 * 1024


def search_files(pattern: str, files: Sequence[Path]) -> tuple[str, list[dict[str, Any]]]:
    """Look for a kernel name or log text (a regular expression) in traces and logs.

    `cannot_tell` when a file is missing or unreadable and none shows it.
    """
    try:
        wanted = re.compile(pattern.encode())
    except re.error as fault:
        raise UsageFault(f"the mechanism is no regular expression: {fault}") from None
    looked: list[dict[str, Any]] = []
    for file in files:
        count: int | None = 0
        try:
            with (gzip.open if file.suffix == ".gz" else open)(file, "rb") as stream:
                data = stream.read(_MOST_BYTES + 1)
            count = None if len(data) > _MOST_BYTES else len(wanted.findall(data))
        except (OSError, EOFError) as fault:
            looked.append({"file": str(file), "count": None, "why": " ".join(str(fault).split())[:120]})
            continue
        looked.append({"file": str(file), "count": count})
    if any(x["count"] for x in looked):
        return SEEN, looked
    blind = not looked or any(x["count"] is None for x in looked)
    return (CANNOT_TELL if blind else NOT_SEEN), looked


def off_parity(campaign: book.Campaign, off: book.Record, prior: book.Record | None) -> tuple[str, str]:
    """Whether the engine is back at its base with the patch switched off: the gap against the prior best is none.

    `pass` for tie, not_behind within the threshold; `fail` for ahead or behind; `unknown` when the noise hides it.
    """
    report = verdicts.improvement(campaign, off, prior)
    words = [(str(r["scenario"]), str(r["verdict"]), r["mean_pct"]) for r in report.tables["gap"].dicts()]
    far = [w for w in words if w[1] in ("ahead", "behind", "sla_fail")]
    if far:
        return "fail", f"{far[0][0]}: {far[0][1]} {far[0][2]:+.2f} % with the patch off"
    settled = [w for w in words if w[1] in ("tie", "not_behind")]
    shown = "; ".join(f"{n} {v} {m:+.2f} %" if m is not None else f"{n} {v}" for n, v, m in words)
    return ("pass" if len(settled) == len(words) else "unknown"), shown


def sum_of_gains(campaign: book.Campaign) -> tuple[float, float | None]:
    """(sum of single accepted gains, verified total over the baseline), per cent; the total is None before any gain."""
    kept = [r for r in campaign.of("result") if r["outcome"] == "accepted" and r.get("gain_pct") is not None]
    single = sum(float(r["gain_pct"]) for r in kept)
    best = verdicts.best_measurement(campaign)
    if best is None:
        return single, None
    report = verdicts.improvement(campaign, best, None)
    means = [float(r["mean_pct"]) for r in report.tables["gap"].dicts() if r["mean_pct"] is not None]
    return single, sum(means) / len(means) if means else None
