"""Whether a patch's mechanism is at work: its kernel or log line is seen in files of the accepted state; and off again without it."""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.errors import UsageFault
from infer_forge.campaign import book, repo, verdicts

SEEN, NOT_SEEN, CANNOT_TELL = "seen", "not_seen", "cannot_tell"
_MOST_BYTES = 512 * 1024 * 1024


_ANY = (
    b'{"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": [{"ph": "X", "cat": "kernel", "name": "", "pid": 0, '
    b'"tid": 7, "ts": 1.5, "dur": 2, "args": {"stream": 7, "device": 0}}], "displayTimeUnit": "ms"}\n'
    b"[2026-01-02 03:04:05] INFO: the server is fired up and ready to roll, port 30000\n"
)
"""What stands in any trace and in any log."""


def _compiled(pattern: str) -> re.Pattern[bytes]:
    try:
        return re.compile(pattern.encode())
    except re.error as fault:
        raise UsageFault(f"the mechanism is no regular expression: {fault}") from None


def require_telling(pattern: str) -> None:
    """Refuse a mechanism that any trace or log would show.

    Raises:
        UsageFault: it matches what stands in each of them, or is no regular expression.
    """
    found = _compiled(pattern).search(_ANY)
    if found is not None:
        raise UsageFault(
            f"the mechanism {pattern!r} is seen in any trace or log, patched or not",
            next_step="name the kernel, or the line of the log, that only the patch brings",
        )


def search_files(pattern: str, files: Sequence[Path]) -> tuple[str, list[dict[str, Any]]]:
    """Look for a kernel name or log text (a regular expression) in traces and logs.

    `cannot_tell` when a file is missing or unreadable and none shows it.
    """
    wanted = _compiled(pattern)
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
        looked.append({"file": str(file), "count": count, "sha256": jsonio.sha256_file(file)})
    if any(x["count"] for x in looked):
        return SEEN, looked
    blind = not looked or any(x["count"] is None for x in looked)
    return (CANNOT_TELL if blind else NOT_SEEN), looked


def not_off(campaign: book.Campaign, attempt: book.Record, off: book.Record) -> str | None:
    """Why a measurement does not show the attempt's patch switched off; None when it does.

    It must be of the files of the attempt's base, launched after the patched state was measured: what was launched long
    before says nothing of the machine as it was then.
    """
    if off["label"] != "off":
        return f"it is labelled {off['label']}"
    patched = [m for m in campaign.of("measurement") if m["label"] == "patched" and m.number > attempt.number]
    if not patched or off.number < patched[0].number:
        return f"it is older than the measurement of attempt {attempt.id}"
    base, commit = str(attempt["base_commit"]), str(off["commit"])
    if repo.same_files(campaign.checkout, base, commit):
        return None
    return f"{commit[:12]} does not hold the files of the base {base[:12]}"


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
