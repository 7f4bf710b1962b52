"""Several concurrencies of one scenario: does the target dominate the competitor on the frontier, or trade?

Axes: output tokens/s a user (responsiveness) and output tokens/s a GPU (efficiency). A point is better or worse on an
axis only when its paired interval leaves zero. A point that is worse on the primary metric beyond its interval is a
regression, whatever the others gain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from infer_forge.base.tables import Table
from infer_forge.bench import stats
from infer_forge.bench.scenarios import pair

if TYPE_CHECKING:
    from infer_forge.bench.gap_pair import Decision, Plan
    from infer_forge.bench.model import Row
    from infer_forge.bench.scenarios import Launch

DOMINATES, TRADES, DOMINATED, INDISTINCT = "dominates", "trades", "dominated", "indistinct"


def per_user(row: Row) -> float | None:
    """Output tokens/s that one user sees: the tool's own figure, else 1000 / median (or mean) TPOT in ms."""
    m = row.metrics
    if m.tokens_per_s_per_user is not None:
        return m.tokens_per_s_per_user
    tpot = m.tpot_ms.p50 if m.tpot_ms.p50 is not None else m.tpot_ms.mean
    return 1000.0 / tpot if tpot is not None and tpot > 0 else None


def per_gpu(row: Row) -> float | None:
    """Output tokens/s a GPU; None when the number of GPUs is unknown."""
    m = row.metrics
    if m.tokens_per_s_per_gpu is not None:
        return m.tokens_per_s_per_gpu
    rate, gpus = m.output_token_throughput_per_s, row.hardware.gpu_count
    return rate / gpus if rate is not None and gpus else None


def per_joule(row: Row) -> float | None:
    """Output tokens a joule, when energy was recorded."""
    return row.metrics.output_tokens_per_j


def _mean(launch: Launch, figure: Any) -> float | None:
    values = [figure(row) for row in launch.rows]
    return sum(values) / len(values) if values and all(v is not None and v > 0 for v in values) else None


def axis(decision: Decision, figure: Any, plan: Plan) -> tuple[str | None, stats.Interval | None]:
    """`better`, `worse` or `same` on one axis, with the interval; None where it was not measured in two pairs."""
    logs: list[float] = []
    for a, b in pair(decision.target.launches, decision.against.launches).pairs[: plan.looks[-1]]:
        x, y = _mean(a, figure), _mean(b, figure)
        if x is not None and y is not None:
            logs += stats.paired_logs([x], [y])
    if len(logs) < plan.looks[0]:
        return None, None
    ci = stats.interval(logs, plan.look_alpha)
    return ("better" if ci.low > 0 else "worse" if ci.high < 0 else "same"), ci


def frontier_tables(decisions: Sequence[Decision], plan: Plan) -> list[Table]:
    """Tables `frontier` (one row a scenario with at least two concurrencies) and `frontier_points`; empty when there is none."""
    groups: dict[tuple[str, str], list[Decision]] = defaultdict(list)
    for decision in decisions:
        if decision.scenario.concurrency is not None:
            groups[decision.scenario.group, decision.against.name].append(decision)
    whole = Table("frontier", ["scenario", "target", "against", "points", "verdict", "regressed_points", "reason"])
    points = Table(
        "frontier_points",
        [
            "scenario",
            "concurrency",
            "per_user",
            "per_user_low_pct",
            "per_user_high_pct",
            "per_gpu",
            "per_gpu_low_pct",
            "per_gpu_high_pct",
            "regressed",
        ],
    )
    for (group, against), members in groups.items():
        if len({d.scenario.concurrency for d in members}) > 1:
            _one(whole, points, group, against, members, plan)
    return [whole, points] if whole.rows else []


def _one(whole: Table, points: Table, group: str, against: str, members: list[Decision], plan: Plan) -> None:
    seen: list[str | None] = []
    regressed: list[str] = []
    for d in sorted(members, key=lambda d: d.scenario.concurrency or 0):
        user, user_ci = axis(d, per_user, plan)
        gpu, gpu_ci = axis(d, per_gpu, plan)
        worse = d.ci is not None and d.all_pairs >= plan.looks[0] and d.ci.high < 0
        if worse:
            regressed.append(f"c{d.scenario.concurrency}")
        seen += [user, gpu]
        points.rows.append((group, d.scenario.concurrency, user, *_span(user_ci), gpu, *_span(gpu_ci), worse))
    verdict, reason = _judge(seen)
    whole.rows.append(
        (group, members[0].target.name, against, len(members), verdict, ", ".join(regressed) or None, reason)
    )


def _span(ci: stats.Interval | None) -> tuple[float | None, float | None]:
    return (ci.low_pct, ci.high_pct) if ci is not None else (None, None)


def _judge(seen: Sequence[str | None]) -> tuple[str | None, str]:
    if any(s is None for s in seen):
        return None, "not every point has both axes in enough pairs"
    better, worse = seen.count("better"), seen.count("worse")
    text = f"{better} better, {worse} worse, {seen.count('same')} within the interval, of {len(seen)} axis values"
    if better and worse:
        return TRADES, text
    return (DOMINATES if better else DOMINATED if worse else INDISTINCT), text
