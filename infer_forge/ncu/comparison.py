"""A candidate against a baseline: comparability gate first, then deltas with direction and significance, then a verdict."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

from infer_forge.base.records import Finding, Report
from infer_forge.base.tables import Column, Table
from infer_forge.ncu import dictionary, policy
from infer_forge.ncu.judged import Judged
from infer_forge.ncu.report import digest

VERDICTS = ("improved", "regressed", "same", "not_comparable")
# Our metric -> whether less of it is better; None: neither.
_ROWS: tuple[tuple[str, bool | None], ...] = (
    ("duration", True), ("sm", None), ("memory", None), ("dram", None), ("l1", None), ("l2", None), ("dram_rate", None),
    ("dram_read", True), ("dram_write", True), ("l1_hit", False), ("l2_hit", False), ("bytes_per_sector_load", False),
    ("bytes_per_sector_store", False), ("sectors_excess", True), ("local_loads", True), ("local_spills", True),
    ("shared_conflicts_load", True), ("shared_conflicts_store", True), ("issue", False), ("eligible", False),
    ("cpi", True), ("tensor", None), ("fma", None), ("occupancy_theoretical", None), ("occupancy_achieved", None),
    ("waves", None), ("registers", None), ("shared_dynamic", None), ("threads_per_inst", False),
)  # fmt: skip


def compare(
    baseline: str | Path,
    candidate: str | Path,
    *,
    kernel: str | None = None,
    baseline_kernel: str | None = None,
    launch: int | None = None,
    triage: str | Path | None = None,
) -> Report:
    """Digest the candidate and hold it against the baseline; see `digest`."""
    return digest(
        [candidate], baseline=baseline, kernel=kernel, baseline_kernel=baseline_kernel, launch=launch, triage=triage
    )


def add_comparison(out: Report, base: list[Judged], candidate: list[Judged], *, named: bool) -> None:
    """Add `comparison`, its tables and its line to the digest of the candidate."""
    pair = _pair(base, candidate, named=named)
    target = candidate[0]
    gate = _gate(pair or base[0], target) if pair or base else []
    if pair is None:
        names = f"{base[0].shown.kernel} against {target.shown.kernel}"
        gate.insert(0, ["kernel", base[0].shown.kernel, target.shown.kernel, "differs"])
        reasons = [
            f"different kernels ({names}): name both with --kernel and --baseline-kernel if they do the same work"
        ]
    else:
        reasons = [f"{what}: {a} against {b}" for what, a, b, state in gate if state == "differs"]
    mine = pair or base[0]
    verdict, detail = _verdict(mine, target, reasons)
    moved = None
    if not reasons and mine.diagnosis.name != target.diagnosis.name:
        moved = f"the bottleneck moved from {mine.diagnosis.name} to {target.diagnosis.name}"
    rows = [] if reasons else _deltas(mine, target)
    out.add(Table("comparability", [Column(c, "text") for c in ("what", "baseline", "candidate", "state")], gate))
    out.add(Table("deltas", _DELTA_COLUMNS, rows))
    out.extra["comparison"] = {
        "verdict": verdict,
        "kernel": {"baseline": mine.shown.kernel, "candidate": target.shown.kernel},
        "reasons": reasons,
        "unverified": [row[0] for row in gate if row[3] == "unknown"],
        "moved": moved,
        "scope": "the kernel alone, serialised and cache-controlled by ncu: no end-to-end claim follows from it",
        **detail,
    }
    line = f"against the baseline: {verdict}"
    line += f": {'; '.join(reasons)}" if reasons else f": {detail['said']}"
    out.summary.insert(1, line)
    if moved:
        out.summary.insert(2, moved)
    out.summary.append(
        "scope: a kernel's time under ncu is no end-to-end time; rerun the serving benchmark and profile"
    )
    unverified = out.extra["comparison"]["unverified"]
    if unverified and not reasons:
        message = f"the files do not say: {', '.join(unverified)}; the verdict rests on their being equal"
        out.findings.append(
            Finding("UNVERIFIED_COMPARABILITY", message, "warning", next_step="compare the .ncu-rep files")
        )


def _pair(base: list[Judged], candidate: list[Judged], *, named: bool) -> Judged | None:
    """The baseline's kernel that belongs to the candidate's target: same signature, same base name, or named by the caller."""
    target = candidate[0].shown
    for key in ("demangled", "kernel"):
        same = [j for j in base if getattr(j.shown, key) == getattr(target, key)]
        if same:
            return same[0]
    return base[0] if named and base else None


def _gate(base: Judged, candidate: Judged) -> list[list[Any]]:
    """Rows (what, baseline, candidate, state); state is `equal`, `differs`, `unknown` or `stated` (may differ by design)."""
    a, b = base.report.session, candidate.report.session
    x, y = base.shown, candidate.shown
    rows = [
        _row("kernel", x.kernel, y.kernel, by_design=True),
        _row("device", x.device, y.device),
        _row("compute capability", x.cc, y.cc),
        _row("clock control", a.clock_control, b.clock_control),
        _row("cache control", a.cache_control, b.cache_control),
        _row("replay mode", a.replay_mode, b.replay_mode),
        _row("metric set", a.metric_set, b.metric_set),
        _row("ncu version", _version(a.ncu_version), _version(b.ncu_version)),
        _row("driver", a.driver_version, b.driver_version),
        _row("workload", x.workload, y.workload),
        _row(
            "launches of the kernel",
            _places(base),
            _places(candidate),
            by_design=max(len(base.launches), len(candidate.launches)) > 1,
        ),
        _frequency(base, candidate),
        _row("grid", str(x.grid), str(y.grid), by_design=True),
        _row("block", str(x.block), str(y.block), by_design=True),
    ]
    if base.report.form != candidate.report.form:
        rows.append(["form", base.report.form, candidate.report.form, "stated"])
    return rows


def _row(what: str, a: str | None, b: str | None, *, by_design: bool = False) -> list[Any]:
    if a is None or b is None:
        return [what, a, b, "unknown"]
    return [what, a, b, "equal" if a == b else "stated" if by_design else "differs"]


def _version(text: str | None) -> str | None:
    return text.split(" ")[0] if text else None


def _places(judged: Judged) -> str:
    """Which launches of its kernel are held: `2nd`, `1st to 4th` ..."""
    places = sorted(x.ordinal + 1 for x in judged.launches)
    return f"no. {places[0]}" if len(places) == 1 else f"no. {places[0]} to {places[-1]}"


def _frequency(base: Judged, candidate: Judged) -> list[Any]:
    a, b = (dictionary.number(j.shown, "sm_frequency") for j in (base, candidate))
    said = [None if v is None else f"{v / 1e6:.0f} MHz" for v in (a, b)]
    if a is None or b is None:
        return ["SM frequency", *said, "unknown"]
    apart = 100 * abs(a - b) / max(a, b)
    return ["SM frequency", *said, "differs" if apart > policy.limit("frequency_pct") else "equal"]


def _times(judged: Judged) -> list[float]:
    found = (dictionary.number(x, "duration") for x in judged.launches)
    return [d for d in found if d is not None and 0 < d < math.inf]


def _verdict(base: Judged, candidate: Judged, reasons: list[str]) -> tuple[str, dict[str, Any]]:
    """The verdict and its figures. A ratio needs `min_launches` launches a side and a comparable pair."""
    a, b = _times(base), _times(candidate)  # without those that are no measurement
    detail: dict[str, Any] = {
        "ratio": None, "significant": False, "said": "", "launches": [len(a), len(b)],
        "median_ns": None, "spread_pct": None,
    }  # fmt: skip
    if reasons:
        return "not_comparable", detail
    if not a or not b:
        reasons.append("duration: not measured in " + ("the baseline" if not a else "the candidate"))
        return "not_comparable", detail
    enough = min(len(a), len(b)) >= policy.limit("min_launches")
    old, new = statistics.median(a), statistics.median(b)
    spread = [100 * (max(t) - min(t)) / statistics.median(t) if len(t) > 1 else None for t in (a, b)]
    change = 100 * (new - old) / old
    seen = [s for s in spread if s is not None]
    noise = max([policy.limit("same_pct" if enough else "few_launches_pct"), *seen])
    verdict = "same" if abs(change) <= noise else "improved" if change < 0 else "regressed"
    detail["median_ns"], detail["spread_pct"] = [old, new], spread
    detail["change_pct"], detail["noise_pct"] = change, noise
    detail["significant"] = enough and verdict != "same"
    if enough:
        detail["ratio"] = old / new
        detail["said"] = (
            f"{old / 1000:,.1f} -> {new / 1000:,.1f} us, {old / new:.3f}x, spread {spread[0]:.1f} and {spread[1]:.1f} %"
        )
    else:
        detail["said"] = (
            f"{old / 1000:,.1f} -> {new / 1000:,.1f} us from {len(a)} and {len(b)} launches; no ratio below "
            f"{policy.limit('min_launches'):g} launches a side"
        )
        if verdict == "same":
            detail["said"] += f" (under {noise:.0f} % nothing can be told apart)"
    return verdict, detail


_DELTA_COLUMNS = [
    Column("metric", "text"), Column("baseline"), Column("candidate"), Column("delta"), Column("delta_pct"),
    Column("unit", "text"), Column("direction", "text"), Column("significant", "text"),
]  # fmt: skip


def _deltas(base: Judged, candidate: Judged) -> list[list[Any]]:
    """Medians over the launches of each side; significant when the ranges do not touch and there are enough launches."""
    rows: list[list[Any]] = []
    for key, less in _ROWS:
        a = [v for x in base.launches if (v := dictionary.number(x, key)) is not None]
        b = [v for x in candidate.launches if (v := dictionary.number(x, key)) is not None]
        if not a or not b:
            continue
        old, new = statistics.median(a), statistics.median(b)
        found = dictionary.find(candidate.shown, key)
        unit = found.unit if found else ""
        pct = 100 * (new - old) / old if old else None
        small = pct is not None and abs(pct) <= policy.limit("same_pct")
        apart = max(a) < min(b) or max(b) < min(a)
        enough = min(len(a), len(b)) >= policy.limit("min_launches")
        direction = "same" if new == old or small else "up" if new > old else "down"
        if direction != "same" and less is not None:
            direction += " (better)" if (new < old) == less else " (worse)"
        significant = "no" if direction == "same" or not apart else "yes" if enough else "few launches"
        rows.append([key, old, new, new - old, pct, unit, direction, significant])
    return rows
