"""`bench gap`: is the target behind? A verdict a scenario from paired launches, and nothing that the evidence does not allow.

See `stats.py` for the interval, `gap_pair.py` for the order of the verdicts, `frontier.py` for several concurrencies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault
from infer_forge.base.records import Finding, Header, InputFile, Report
from infer_forge.base.tables import Column, Table
from infer_forge.bench import checks, fairness, frontier, stats
from infer_forge.bench import gap_pair as gp
from infer_forge.bench.checks_across import outlier
from infer_forge.bench.metrics import DEFAULT_METRIC, DIFFUSION_METRIC, FAIL, PASS, Metric, metric_of, sla_limits
from infer_forge.bench.scenarios import AS_GIVEN, Scenario, split

if TYPE_CHECKING:
    from infer_forge.base.contract_model import BenchmarkContract
    from infer_forge.bench.model import Row

_COLUMNS = [
    "scenario", "verdict", "target", "against", "metric", "n_pairs", Column("mean_pct", "ratio"), Column("low_pct", "ratio"),
    Column("high_pct", "ratio"), "threshold_pct", "alpha", "k_more", "target_noise_pct", "against_noise_pct", "target_sla",
    "against_sla", "fairness", "decides", "reason", "next_step",
]  # fmt: skip


@dataclass
class Request:
    """What is asked: the sides in order (the target first), and what was fixed before measuring."""

    sides: dict[str, list[Row]]
    target: str
    metric: str | None = None
    plan: gp.Plan = field(default_factory=gp.Plan)
    scenario_key: str | None = None
    contract: BenchmarkContract | None = None
    contract_hash: str | None = None
    inputs: list[InputFile] = field(default_factory=list[InputFile])


@dataclass
class Gap:
    """The decisions (best SLA-passing competitor first in each scenario) and what they rest on."""

    request: Request
    metric: Metric
    decisions: list[gp.Decision]
    others: list[gp.Decision]
    missing: list[tuple[Scenario, str]]
    diagnostics: list[fairness.Diagnostic]
    findings: list[checks.RowFinding]


def request_of(
    sides: dict[str, list[Row]],
    target: str,
    contract: BenchmarkContract | None = None,
    contract_hash: str | None = None,
    *,
    metric: str | None = None,
    threshold_pct: float | None = None,
    sla: str | None = None,
    scenario_key: str | None = None,
    launch_per: str = "file",
) -> Request:
    """A request as the doors put it: with a contract everything comes from it, without one from the caller.

    Raises:
        UsageFault: metric, threshold or SLA are given beside a contract that fixes them.
    """
    if contract is not None and not (metric is None and threshold_pct is None and sla is None):
        raise UsageFault("the contract fixes metric, threshold and SLA", next_step="leave them away")
    if contract is not None:
        plan = plan_of(contract, launch_per)
    else:
        plan = gp.Plan(threshold_pct or stats.THRESHOLD_PCT, sla=dict(sla_limits(sla)), per=launch_per)
    return Request(sides, target, metric, plan, scenario_key, contract, contract_hash)


def run_gap(request: Request) -> Report:
    """Decide and report in one step."""
    return gap_report(decide_gap(request))


def plan_of(contract: BenchmarkContract, per: str = "file") -> gp.Plan:
    """The plan that a contract fixes: its threshold, its SLA, and as many looks as its launches allow."""
    most = contract.budgets.max_launches_per_engine
    looks = tuple(look for look in stats.LOOKS if look <= most) or (most,)
    return gp.Plan(
        threshold_pct=100.0 * contract.threshold, looks=looks, sla=contract.sla.model_dump(), per=per, locked=True
    )


def decide_gap(request: Request) -> Gap:
    """Decide every scenario.

    Raises:
        UsageFault: fewer than two sides, an unknown metric or scenario key.
        InputUnusable: the target has no row.
    """
    if len(request.sides) < 2:
        raise UsageFault(
            "a gap needs a target and at least one competitor", next_step="--target NAME FILE... --against NAME FILE..."
        )
    if not request.sides.get(request.target):
        raise InputUnusable("the target has no run", where=request.target)
    rows = [row for side in request.sides.values() for row in side]
    metric = metric_of(request.metric or _default_metric(request, rows))
    findings = checks.check_rows(rows, request.contract, request.contract_hash)
    by_row: dict[int, list[checks.RowFinding]] = {}
    for finding in findings:
        by_row.setdefault(id(rows[finding.row]), []).append(finding)
    diagnostics = fairness.diagnose(request.sides, request.contract)
    gap = Gap(request, metric, [], [], [], diagnostics, findings)
    unfair = unfair_reason(diagnostics, strict=request.contract is not None)
    for scenario in split(dict(request.sides), request.scenario_key):
        _decide_scenario(gap, scenario, by_row, unfair)
    return gap


def _default_metric(request: Request, rows: Sequence[Row]) -> str:
    if request.contract is not None:
        return request.contract.metric.name
    return DIFFUSION_METRIC if rows and all(r.kind == "diffusion" for r in rows) else DEFAULT_METRIC


def unfair_reason(diagnostics: Sequence[fairness.Diagnostic], *, strict: bool) -> str | None:
    """Why a decision may not be made: a failed diagnostic, or (under a contract) an unknown one that blocks.

    E2 is left to each scenario (`void_workload`), and interference to the rows.
    """
    for d in diagnostics:
        if d.result == FAIL and d.id in ("E1", "E3", "E4", "E5", "E8") and d.blocks:
            return f"{d.id} {d.question}: fail, {d.evidence}"
        if strict and d.id != "E9" and d.blocks:
            return f"{d.id} {d.question}: {d.result}, {d.evidence}"
    return None


def _decide_scenario(
    gap: Gap, scenario: Scenario, by_row: Mapping[int, Sequence[checks.RowFinding]], unfair: str | None
) -> None:
    request = gap.request
    if request.target not in scenario.sides or len(scenario.sides) < 2:
        gap.missing.append((scenario, _who_is_missing(request, scenario)))
        return
    sides = {name: gp.side_of(name, rows, by_row, gap.metric, request.plan) for name, rows in scenario.sides.items()}
    target = sides.pop(request.target)
    made = [gp.decide(scenario, target, side, gap.metric, request.plan, unfair) for side in sides.values()]
    for decision in made:
        _name_outliers(decision)
    made.sort(key=lambda d: _leader_key(d, gap.metric))
    gap.decisions.append(made[0])
    gap.others += made[1:]


def _name_outliers(decision: gp.Decision) -> None:
    """A first run that stands apart is named in the reason; it is not dropped."""
    for side in (decision.target, decision.against):
        evidence = outlier([x.rows[0] for x in side.launches], checks.thresholds())
        if evidence is not None:
            decision.reason += f"; {side.name}: first-run outlier, {evidence}"


def _leader_key(decision: gp.Decision, metric: Metric) -> tuple[bool, bool, float]:
    """The best competitor that keeps the SLA comes first."""
    values = [v for x in decision.against.launches if (v := x.mean(metric)) is not None]
    best = sum(values) / len(values) if values else 0.0
    return decision.against.sla == FAIL, not values, -best if metric.higher_is_better else best


def _who_is_missing(request: Request, scenario: Scenario) -> str:
    gone = [name for name in request.sides if name not in scenario.sides]
    return f"no run of {', '.join(gone)} in this scenario"


def _decides(gap: Gap, decision: gp.Decision) -> tuple[bool, str]:
    """Whether the verdict may be built on, and if not, why."""
    request = gap.request
    if request.contract is None:
        return False, "no contract: threshold, workload and fairness were not locked before measuring"
    rows = [row for side in (decision.target, decision.against) for x in side.launches for row in x.rows]
    if any(row.contract_hash != request.contract_hash for row in rows):
        return False, "not every run carries the contract's hash"
    if decision.target.sla != PASS or decision.against.sla not in (PASS, FAIL):
        return False, f"SLA: target {decision.target.sla}, competitor {decision.against.sla}"
    return True, ""


def not_to_build_on(gap: Gap) -> list[str]:
    """Why a verdict that answers the question is still no decision to build on; empty when it is one."""
    return sorted({why for d in gap.decisions if (why := _decides(gap, d)[1])})


def require_decision(gap: Gap, wanted: str | None) -> None:
    """What `--require` asks beside the verdict: a gate that is passed is built on, so the verdict must be a decision.

    Raises:
        GateRefused: the verdict says which side is ahead, and was not decided under a locked contract.
    """
    verdict = overall(gap)["verdict"]
    reasons = not_to_build_on(gap)
    if not wanted or not reasons or verdict not in (*gp.SETTLED, gp.BEHIND):
        return
    way = "give --contract with decision runs measured under it (infer-forge bench lock --help, infer-forge bench search --help)"
    raise GateRefused(
        f"the verdict is {verdict}, but not a decision to build on: {'; '.join(reasons)}",
        next_step=f"{way}; without --require the verdict is told and exits 0",
    )


def overall(gap: Gap) -> dict[str, Any]:
    """One claim over all scenarios, and Holm's correction for "behind somewhere".

    "Match or exceed everywhere" needs every scenario (no correction: all must hold). "Behind somewhere" is one claim
    over many chances, so its p-values are adjusted by Holm.
    """
    plan = gap.request.plan
    judged = [d for d in gap.decisions if d.ci is not None and d.all_pairs >= plan.looks[0]]
    p_values = stats.holm([stats.p_behind(d.logs, plan.delta) for d in judged])
    limit = plan.look_alpha / 2.0
    behind = [d.scenario.name for d, p in zip(judged, p_values, strict=True) if d.verdict == gp.BEHIND and p <= limit]
    only_raw = [d.scenario.name for d in judged if d.verdict == gp.BEHIND and d.scenario.name not in behind]
    verdicts = [d.verdict for d in gap.decisions] + [gp.INSUFFICIENT] * len(gap.missing)
    verdict = _overall_verdict(verdicts, behind, only_raw)
    return {
        "verdict": verdict,
        "scenarios": len(verdicts),
        "behind": behind,
        "behind_only_without_holm": only_raw,
        "holm_limit": limit,
        "p_behind_holm": {d.scenario.name: p for d, p in zip(judged, p_values, strict=True)},
    }


def _overall_verdict(verdicts: Sequence[str], behind: Sequence[str], only_raw: Sequence[str]) -> str:
    for bad in (gp.VOID_WORKLOAD, gp.VOID_FAIRNESS, gp.VOID_INTERFERENCE, gp.SLA_FAIL):
        if bad in verdicts:
            return bad
    if behind:
        return gp.BEHIND
    for open_ in (gp.INSUFFICIENT, gp.INCONCLUSIVE):
        if open_ in verdicts:
            return open_
    if only_raw:
        return gp.INCONCLUSIVE
    if not verdicts:
        return gp.INSUFFICIENT
    return verdicts[0] if len(set(verdicts)) == 1 else gp.NOT_BEHIND


def _gap_row(gap: Gap, d: gp.Decision, fair: str) -> tuple[Any, ...]:
    ci, plan = d.ci, gap.request.plan
    decides, _ = _decides(gap, d)
    interval = (ci.mean_pct, ci.low_pct, ci.high_pct) if ci is not None else (None, None, None)
    return (
        d.scenario.name, d.verdict, d.target.name, d.against.name, gap.metric.name, d.all_pairs, *interval,
        plan.threshold_pct, plan.look_alpha, d.k_more, *d.noise_pct, _sla_word(d.target, plan), _sla_word(d.against, plan),
        fair, decides and d.verdict in gp.DECIDED, d.reason, d.next_step,
    )  # fmt: skip


def _sla_word(side: gp.Side, plan: gp.Plan) -> str | None:
    return side.sla if any(v is not None for v in plan.sla.values()) else None


def gap_report(gap: Gap) -> Report:
    """Tables `gap` (one row a scenario), `pairs`, `runs`, `excluded`, `claims`, `frontier`, `fairness`; `overall` as JSON."""
    request = gap.request
    fair = fairness.verdict_of(gap.diagnostics)
    report = Report("bench_gap", header=_header(gap))
    table = report.add(Table("gap", _COLUMNS))
    table.rows.extend(_gap_row(gap, d, fair) for d in gap.decisions)
    table.rows.extend(_missing_row(gap, s, why, fair) for s, why in gap.missing)
    if gap.others:
        report.add(Table("pairs", _COLUMNS, [_gap_row(gap, d, fair) for d in gap.others], "further competitors"))
    report.add(_runs_table(gap))
    excluded = _excluded_table(gap)
    if excluded.rows:
        report.add(excluded)
    result = overall(gap)
    if len(gap.decisions) > 1:
        claims = report.add(Table("claims", ["scenario", "verdict", "p_behind_holm", "holm_limit"]))
        claims.rows = [
            (d.scenario.name, d.verdict, result["p_behind_holm"].get(d.scenario.name), result["holm_limit"])
            for d in gap.decisions
        ]
    for extra in frontier.frontier_tables(gap.decisions, request.plan):
        report.add(extra)
    energy = _energy_table(gap)
    if energy.rows:
        report.add(energy)
    diagnostics = report.add(Table("fairness", ["id", "question", "result", "blocks", "evidence"]))
    diagnostics.rows = [(d.id, d.question, d.result, d.blocks, d.evidence) for d in gap.diagnostics]
    report.extra["overall"] = result
    report.findings = _findings(gap)
    report.summary = _summary(gap, result)
    report.next_step = next((d.next_step for d in gap.decisions if d.verdict not in gp.SETTLED), "") or (
        gap.decisions[0].next_step if gap.decisions else "give runs of the same scenario for both sides"
    )
    return report


def _missing_row(gap: Gap, scenario: Scenario, why: str, fair: str) -> tuple[Any, ...]:
    plan = gap.request.plan
    k = plan.looks[0]
    step = f"measure {k} launches of the missing side in this scenario"
    return (
        scenario.name, gp.INSUFFICIENT, gap.request.target, None, gap.metric.name, 0, None, None, None, plan.threshold_pct,
        plan.look_alpha, k, None, None, None, None, fair, False, why, step,
    )  # fmt: skip


def _header(gap: Gap) -> Header:
    plan = gap.request.plan
    limits = {k: v for k, v in plan.sla.items() if v is not None}
    more: dict[str, Any] = {
        "method": {
            "interval": "Student-t on paired log ratios of launches",
            "looks": list(plan.looks),
            "alpha": plan.alpha,
        }
    }
    if gap.request.contract_hash:
        more["contract_hash"] = gap.request.contract_hash
    rows = sum(len(r) for r in gap.request.sides.values())
    return Header(
        inputs=gap.request.inputs,
        coverage={"rows": rows, "scenarios": len(gap.decisions) + len(gap.missing)},
        thresholds={"threshold_pct": plan.threshold_pct, **limits},
        more=more,
    )


def _runs_table(gap: Gap) -> Table:
    table = Table("runs", ["scenario", "side", "launch", "runs", gap.metric.name, "started_at", "block"])
    seen: set[tuple[str, str]] = set()
    for d in [*gap.decisions, *gap.others]:
        for side in (d.target, d.against):
            if (d.scenario.name, side.name) in seen:
                continue
            seen.add((d.scenario.name, side.name))
            for n, x in enumerate(side.launches, 1):
                table.rows.append(
                    (
                        d.scenario.name,
                        side.name,
                        f"{n} {x.rows[0].label()}",
                        len(x.rows),
                        x.mean(gap.metric),
                        x.started_at,
                        x.block,
                    )
                )
    return table


def _excluded_table(gap: Gap) -> Table:
    table = Table("excluded", ["scenario", "side", "run", "reason"])
    done: set[tuple[str, str]] = set()
    for d in [*gap.decisions, *gap.others]:
        for side in (d.target, d.against):
            if (d.scenario.name, side.name) not in done:
                done.add((d.scenario.name, side.name))
                table.rows += [(d.scenario.name, side.name, run, why) for run, why in side.excluded]
    return table


def _energy_table(gap: Gap) -> Table:
    table = Table("energy", ["scenario", "axis", "verdict", "mean_pct", "low_pct", "high_pct"])
    for d in gap.decisions:
        word, ci = frontier.axis(d, frontier.per_joule, gap.request.plan)
        if ci is not None:
            table.rows.append((d.scenario.name, "output_tokens_per_j", word, ci.mean_pct, ci.low_pct, ci.high_pct))
    return table


def _findings(gap: Gap) -> list[Finding]:
    out: list[Finding] = []
    rows = [row for side in gap.request.sides.values() for row in side]
    owner = {id(row): name for name, side in gap.request.sides.items() for row in side}
    for f in gap.findings:
        if f.rule in ("FIRST_RUN", gp.TWICE) or f.severity == "refuse":
            name = owner[id(rows[f.row])]
            out.append(
                Finding(
                    f.rule,
                    f"{name} {f.label}: {f.evidence}",
                    "error" if f.severity == "refuse" else "warning",
                    next_step=f.fix,
                )
            )
    for d in [*gap.decisions, *gap.others]:
        out += [Finding("NOTE", f"{d.scenario.name}, {d.against.name}: {note}", "info") for note in d.notes]
    out += _unordered(gap)
    out += [
        Finding(f"FAIRNESS_{x.id}", f"{x.question}: {x.result}, {x.evidence}", "warning", next_step=x.fix)
        for x in gap.diagnostics
        if x.blocks
    ]
    return out


def _unordered(gap: Gap) -> list[Finding]:
    names = sorted(
        {d.scenario.name for d in [*gap.decisions, *gap.others] if d.how_paired == AS_GIVEN and d.all_pairs > 1}
    )
    if not names:
        return []
    return [
        Finding(
            "ORDER_UNKNOWN",
            f"{', '.join(names)}: the launches do not say when they ran: paired, and called first, in the order given",
            "warning",
            next_step="name the files of every side in the order in which they ran, or record start times and blocks",
        )
    ]


def _summary(gap: Gap, result: Mapping[str, Any]) -> list[str]:
    lines = [f"{d.scenario.name}: {d.verdict}: {d.reason}" for d in gap.decisions]
    lines += [f"{s.name}: {gp.INSUFFICIENT}: {why}" for s, why in gap.missing]
    if len(lines) > 1:
        lines.append(f"all scenarios: {result['verdict']}")
    lines += [f"not a decision to build on: {why}" for why in not_to_build_on(gap)]
    return lines
