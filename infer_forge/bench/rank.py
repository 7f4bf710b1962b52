"""Ranking of candidates, scenario by scenario: only rows that are possible, ran well and keep the SLA have a rank.

Order: status ok, SLA kept (computed again from the row), request throughput, output tokens/s, lower p50 TTFT, lower p50
TPOT, fewer GPUs. Where p50 is missing the mean stands in, and it is said; where both are missing the row comes last.
A ranking picks the best of many noisy runs, so its first is flattered: winners are measured again before any verdict.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infer_forge.base.records import Finding, Header, Report
from infer_forge.base.tables import Table
from infer_forge.bench import checks
from infer_forge.bench.metrics import FAIL, METRICS, PASS, sla_of
from infer_forge.bench.scenarios import split

if TYPE_CHECKING:
    from infer_forge.base.contract_model import BenchmarkContract
    from infer_forge.bench.model import Row, Spread


@dataclass
class Candidate:
    """Runs of one candidate in one scenario, averaged."""

    framework: str
    name: str
    rows: list[Row]
    sla: str
    reasons: list[str]
    figures: dict[str, float | None]
    fallback: list[str]


def candidate_name(row: Row) -> str:
    """The candidate's id, else the model and its parallelism, else the file."""
    if row.candidate_id:
        return row.candidate_id
    i, d = row.identity, row.diffusion
    if d is not None:
        switches = (
            ("cfg", d.cfg_parallel),
            ("sp", d.sequence_parallel),
            ("tp", d.tensor_parallel),
            ("gpus", row.hardware.gpu_count),
        )
        words = [f"{k}{v}" for k, v in switches if v is not None]
        words += [k for k, on in (("offload", d.offload), ("compiled", d.compiled)) if on]
        return " ".join([*words, d.step_cache if d.step_cache not in (None, "none") else ""]).strip() or row.label()
    if i.tensor_parallel is not None:
        model = (row.model or "model").rstrip("/").split("/")[-1]
        return f"{model} tp{i.tensor_parallel} dp{i.data_parallel or 1}"
    return row.label()


def expected_luck(k: int) -> float:
    """Expected maximum of k standard normal draws: how many sigmas the best of k equal candidates gains by luck."""
    normal = statistics.NormalDist()
    step = 0.005
    points = (i * step - 8.0 for i in range(int(16 / step)))
    return sum(x * k * normal.pdf(x) * normal.cdf(x) ** (k - 1) for x in points) * step


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _centre(spread: Spread) -> tuple[float | None, bool]:
    """Median, or the mean where there is none (and that it was the mean)."""
    return (spread.p50, False) if spread.p50 is not None else (spread.mean, spread.mean is not None)


def _candidate(framework: str, name: str, rows: list[Row], limits: Mapping[str, float | None]) -> Candidate:
    results = [sla_of(row, limits) for row in rows]
    words = [r.result for r in results]
    sla = FAIL if FAIL in words else PASS if set(words) == {PASS} else "unknown"
    fallback: list[str] = []
    figures: dict[str, float | None] = {
        "request_throughput_per_s": _mean([r.metrics.request_throughput_per_s for r in rows]),
        "output_token_throughput_per_s": _mean([r.metrics.output_token_throughput_per_s for r in rows]),
    }
    for short in ("ttft", "tpot"):
        centres = [_centre(getattr(r.metrics, f"{short}_ms")) for r in rows]
        figures[f"p50_{short}_ms"] = _mean([c for c, _ in centres])
        if any(is_mean for _, is_mean in centres):
            fallback.append(f"mean for p50 {short.upper()}")
    figures["gpu_count"] = _mean([r.hardware.gpu_count for r in rows])
    if all(r.kind == "diffusion" for r in rows):
        figures["end_to_end_ms"] = _mean([METRICS["end_to_end_ms"].of(r) for r in rows])
    return Candidate(framework, name, rows, sla, [x for r in results for x in r.reasons], figures, fallback)


def _order(c: Candidate) -> tuple[float, ...]:
    f = c.figures

    def high(name: str) -> float:
        value = f.get(name)
        return -value if value is not None else math.inf

    def low(name: str) -> float:
        value = f.get(name)
        return value if value is not None else math.inf

    if "end_to_end_ms" in f:
        return (c.sla == FAIL, low("end_to_end_ms"), low("gpu_count"))
    rates = (high("request_throughput_per_s"), high("output_token_throughput_per_s"))
    return (c.sla == FAIL, *rates, low("p50_ttft_ms"), low("p50_tpot_ms"), low("gpu_count"))


_RANK_COLUMNS = [
    "scenario", "rank", "framework", "candidate", "winner", "sla", "runs", "request_throughput_per_s",
    "output_token_throughput_per_s", "p50_ttft_ms", "p50_tpot_ms", "gpu_count", "verdict", "note",
]  # fmt: skip


def rank_report(
    rows: Sequence[Row],
    limits: Mapping[str, float | None] | None = None,
    contract: BenchmarkContract | None = None,
    contract_hash: str | None = None,
    scenario_key: str | None = None,
) -> Report:
    """The answer of `bench rank`: table `ranking` (candidates that may win), table `unranked` (everything else, with why)."""
    bounds = dict(limits or {}) or (contract.sla.model_dump() if contract is not None else {})
    findings = checks.check_rows(rows, contract, contract_hash)
    verdicts = checks.row_verdicts(rows, findings)
    why = {f.row: f"{f.rule}: {f.evidence}" for f in reversed(findings) if f.severity == "refuse"}
    good = [row for i, row in enumerate(rows) if verdicts[i] != checks.REFUSED]
    word = {id(row): verdicts[i] for i, row in enumerate(rows)}
    report = Report("bench_rank", header=Header(thresholds={k: v for k, v in bounds.items() if v is not None}))
    table = report.add(Table("ranking", _RANK_COLUMNS))
    unranked = report.add(Table("unranked", ["row", "framework", "status", "reason"]))
    unranked.rows = [
        (row.label(), row.framework, row.status, why[i]) for i, row in enumerate(rows) if verdicts[i] == checks.REFUSED
    ]
    sides: dict[str, list[Row]] = defaultdict(list)
    for row in good:
        sides[row.framework or "unknown engine"].append(row)
    for scenario in split(dict(sides), scenario_key):
        table.rows += _scenario_rows(report, scenario.name, scenario.sides, bounds, word)
    winners = sum(1 for r in table.rows if r[4])
    report.summary = [
        f"{len(table.rows)} candidates ranked, {len(unranked.rows)} rows cannot rank, {winners} winners to measure again"
    ]
    report.next_step = (
        "measure every winner again with fresh launches before any verdict: infer-forge bench search --help"
    )
    return report


def _scenario_rows(
    report: Report,
    name: str,
    sides: Mapping[str, Sequence[Row]],
    limits: Mapping[str, float | None],
    word: Mapping[int, str],
) -> list[tuple[Any, ...]]:
    candidates: list[Candidate] = []
    for framework, rows in sides.items():
        groups: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            groups[candidate_name(row)].append(row)
        candidates += [_candidate(framework, n, members, limits) for n, members in groups.items()]
        if len(groups) > 1:
            luck = expected_luck(len(groups))
            text = f"{name}: the best of {len(groups)} {framework} candidates is flattered by about {luck:.2f} times the run-to-run noise"
            report.findings.append(
                Finding("WINNERS_CURSE", text, "info", figure=luck, next_step="measure the winner again")
            )
    candidates.sort(key=_order)
    won: set[str] = set()
    out: list[tuple[Any, ...]] = []
    for rank, c in enumerate(candidates, 1):
        winner = c.sla != FAIL and c.framework not in won
        if winner:
            won.add(c.framework)
        f = c.figures
        figures = (
            f["request_throughput_per_s"],
            f["output_token_throughput_per_s"],
            f["p50_ttft_ms"],
            f["p50_tpot_ms"],
            f["gpu_count"],
        )
        marks = checks.MARKED if any(word[id(r)] != checks.OK for r in c.rows) else checks.OK
        sla = c.sla if any(v is not None for v in limits.values()) else None
        note = "; ".join([*c.fallback, *c.reasons[:2]]) or None
        place = rank if c.sla != FAIL else None
        out.append((name, place, c.framework, c.name, winner, sla, len(c.rows), *figures, marks, note))
    return out
