"""The pilot: launches of one engine against itself, before the contract lock, to learn the run-to-run noise.

A threshold below what the noise lets the budget resolve makes equal engines end `inconclusive` more often than not. With
run-to-run noise s (standard deviation of the log of the metric over launches), a pair of launches differs with
sd = sqrt(2) s, and at look n the interval's half width is t(1 - alpha/2, n-1) sd / sqrt(n). Two equal engines are settled
in half of the cases or more when that half width is at most ln(1 + threshold) (facts of the gap decision: looks at 5, 8
and 12 launches with alpha 0.05/3 each).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from infer_forge.base.errors import InputUnusable
from infer_forge.base.records import Finding, Report
from infer_forge.base.tables import Column, Table
from infer_forge.bench import stats

if TYPE_CHECKING:
    from infer_forge.base.contract_model import PilotEvidence
    from infer_forge.bench.model import Row
    from infer_forge.bench.session import Session

LOOKS = (5, 8, 12)
"""Launches at which a gap decision looks."""

ALPHA = 0.05
"""Error of the whole decision; each look gets its share."""

MIN_LAUNCHES = 4
"""Below this many launches the noise is hardly known; the estimate says so."""


@dataclass(frozen=True)
class Noise:
    """Noise of one scenario: launches, mean, coefficient of variation (log scale), and what each look resolves."""

    scenario: str
    launches: int
    mean: float
    cv: float
    resolves: dict[int, float]


@dataclass(frozen=True)
class Estimate:
    """What a pilot says about a threshold.

    Attributes:
        worst: the noisiest scenario, which decides.
        resolvable: the smallest threshold that the last look inside the budget resolves (a ratio, 0.01 is 1 %).
        launches: the first look at which the wanted threshold is resolved; None: at none inside the budget.
        proposed_threshold: `resolvable` rounded up to a tenth of a percent, or the wanted one if that is enough.
    """

    metric: str
    threshold: float
    noises: list[Noise]
    worst: Noise
    resolvable: float
    launches: int | None
    proposed_threshold: float
    looks: tuple[int, ...]

    @property
    def resolved(self) -> bool:
        """Whether the budget resolves the threshold."""
        return self.launches is not None


def resolvable_at(cv: float, launches: int, *, looks: int = len(LOOKS)) -> float:
    """Smallest threshold (a ratio) that `launches` paired launches at this noise settle between equal engines."""
    if launches < 2:
        return math.inf
    t = stats.t_quantile(1.0 - ALPHA / looks / 2.0, launches - 1)
    return math.expm1(t * math.sqrt(2.0) * cv / math.sqrt(launches))


def estimate_noise(rows: Sequence[Row], *, metric: str, threshold: float, max_launches: int) -> Estimate:
    """Noise and resolvable threshold from rows of equal launches.

    Raises:
        InputUnusable: no scenario has two good launches.
    """
    from infer_forge.bench.metrics import metric_of

    figure = metric_of(metric)
    groups: dict[str, dict[str, list[float]]] = {}
    for index, row in enumerate(rows):
        value = figure.of(row) if row.status == "ok" else None
        if value is not None and value > 0:
            load = "" if row.workload.max_concurrency is None else f" c{row.workload.max_concurrency}"
            scenario = f"{row.workload.scenario or 'all'}{load}"
            groups.setdefault(scenario, {}).setdefault(row.launch_id or f"row {index}", []).append(value)
    looks = tuple(n for n in LOOKS if n <= max_launches) or (max_launches,)
    noises: list[Noise] = []
    for scenario, launches in groups.items():
        values = [sum(v) / len(v) for v in launches.values()]
        if len(values) >= 2:
            _, sd = stats.mean_sd([math.log(v) for v in values])
            resolves = {n: resolvable_at(sd, n) for n in looks}
            noises.append(Noise(scenario, len(values), sum(values) / len(values), sd, resolves))
    if not noises:
        raise InputUnusable(
            f"no scenario has two good launches with {metric}",
            next_step="infer-forge bench pilot --run DIR --launches 5",
        )
    worst = max(noises, key=lambda n: n.cv)
    resolvable = worst.resolves[looks[-1]]
    first = next((n for n in looks if worst.resolves[n] <= threshold), None)
    proposed = threshold if first is not None else math.ceil(resolvable * 1000 - 1e-9) / 1000
    return Estimate(metric, threshold, noises, worst, resolvable, first, proposed, looks)


def evidence(found: Estimate, head: str | None) -> PilotEvidence:
    """The pilot as the contract carries it. `head`: ledger head of the pilot's rows."""
    from infer_forge.base.contract_model import PilotEvidence

    return PilotEvidence(
        launches=found.worst.launches,
        noise_cv=round(found.worst.cv, 8),
        resolvable_threshold=round(found.resolvable, 8),
        rows_head=head,
    )


def run(session: Session, framework: str, launches: int) -> list[Row]:
    """Launch the framework's base candidate until the pilot has so many good launches; rows go to the pilot's ledger."""
    from infer_forge.bench import driver
    from infer_forge.bench.search_config import candidates

    base = candidates(session.config, framework)[0]
    done = _good(session, base.id)
    tried = 0
    while done < launches and tried < launches + 2:
        driver.measure(session, base, block_id=f"pilot-{done // 2}", block_position=done % 2)
        done, tried = _good(session, base.id), tried + 1
    return [r for r in session.store.rows(purposes=["pilot"]) if r.candidate_id == base.id]


def _good(session: Session, candidate_id: str) -> int:
    ends = session.store.events("launch_ends")
    return sum(1 for e in ends if e["candidate_id"] == candidate_id and e["status"] == "ok" and e["purpose"] == "pilot")


def report(found: Estimate) -> Report:
    """The answer of `bench pilot`: table `noise`, the proposal, and whether the lock will be refused."""
    columns = [
        Column("scenario", "text"),
        Column("launches", "int"),
        "mean",
        Column("cv_pct"),
        *(Column(f"resolves_at_{n}_pct") for n in found.looks),
    ]
    table = Table("noise", columns)
    for noise in found.noises:
        table.rows.append(
            [
                noise.scenario,
                noise.launches,
                noise.mean,
                100 * noise.cv,
                *(100 * noise.resolves[n] for n in found.looks),
            ]
        )
    made = Report("bench_pilot", tables={"noise": table})
    made.extra["pilot"] = _plain(found)
    verdict = "resolved" if found.resolved else "unresolved"
    made.extra["verdict"] = verdict
    wanted, able = f"{100 * found.threshold:.3g} %", f"{100 * found.resolvable:.3g} %"
    if found.resolved:
        made.summary = [
            f"{verdict}: noise {100 * found.worst.cv:.2f} % ({found.worst.scenario}) lets {found.launches} launches resolve {wanted}"
        ]
        made.next_step = "infer-forge bench lock --run DIR"
    else:
        last = f"resolves {able} at {found.looks[-1]} launches, not {wanted}"
        made.summary = [f"{verdict}: noise {100 * found.worst.cv:.2f} % ({found.worst.scenario}) {last}"]
        made.next_step = (
            f"lower the noise, or lock a threshold of {100 * found.proposed_threshold:.3g} %, or let a person accept"
        )
    if found.worst.launches < MIN_LAUNCHES:
        made.findings.append(
            Finding(
                "PILOT_SHORT",
                f"{found.worst.launches} launches say little about noise",
                "warning",
                found.worst.launches,
                MIN_LAUNCHES,
                "infer-forge bench pilot --run DIR --launches 6",
            )
        )
    return made


def _plain(found: Estimate) -> dict[str, Any]:
    data = asdict(found)
    for entry in (*data["noises"], data["worst"]):
        entry["resolves"] = {str(k): v for k, v in entry["resolves"].items()}
    return {**data, "resolved": found.resolved}
