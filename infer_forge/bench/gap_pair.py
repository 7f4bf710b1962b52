"""The decision for one scenario and one competitor: which launches count, what they show, which verdict that allows.

The order of the verdicts: a workload or a machine that was not the agreed one voids; an SLA that the target misses
overrides speed; too few launches are `insufficient`; only then the interval speaks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from infer_forge.bench import stats
from infer_forge.bench.checks import RowFinding, thresholds
from infer_forge.bench.checks_across import same_as, twins
from infer_forge.bench.metrics import FAIL, PASS, UNKNOWN, Metric, sla_of
from infer_forge.bench.scenarios import Launch, Scenario, launches, pair

if TYPE_CHECKING:
    from infer_forge.bench.model import Row

BEHIND, AHEAD, TIE, NOT_BEHIND = "behind", "ahead", "tie", "not_behind"
INCONCLUSIVE, INSUFFICIENT, SLA_FAIL = "inconclusive", "insufficient", "sla_fail"
VOID_FAIRNESS, VOID_WORKLOAD, VOID_INTERFERENCE = "void_fairness", "void_workload", "void_interference"

VERDICTS = (
    BEHIND, AHEAD, TIE, NOT_BEHIND, INCONCLUSIVE, SLA_FAIL, VOID_FAIRNESS, VOID_WORKLOAD, VOID_INTERFERENCE, INSUFFICIENT,
)  # fmt: skip

SETTLED = (AHEAD, TIE, NOT_BEHIND)
"""Verdicts that satisfy "match or exceed"."""

DECIDED = (*SETTLED, BEHIND, SLA_FAIL)
"""Verdicts that answer the question; the others say why it cannot be answered yet."""

TWICE = "SAME_RESULT_TWICE"
"""The rule of a record that was given before: one measurement, whatever it is called."""

_NOT_DECISION = ("search", "pilot", "flow_check", "profile")


@dataclass(frozen=True)
class Plan:
    """What was fixed before measuring: threshold, looks, error budget, SLA, and how launches are told apart."""

    threshold_pct: float = stats.THRESHOLD_PCT
    looks: tuple[int, ...] = stats.LOOKS
    alpha: float = stats.ALPHA
    sla: Mapping[str, float | None] = field(default_factory=dict[str, "float | None"])
    per: str = "file"
    locked: bool = False

    @property
    def delta(self) -> float:
        """The threshold on the log scale."""
        import math

        return math.log1p(self.threshold_pct / 100.0)

    @property
    def look_alpha(self) -> float:
        """Error budget of one look."""
        return self.alpha / len(self.looks)


@dataclass
class Side:
    """One side of a scenario after the rules: launches that count, and what was left out and why."""

    name: str
    launches: list[Launch]
    excluded: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    voids: list[RowFinding] = field(default_factory=list[RowFinding])
    broken: list[RowFinding] = field(default_factory=list[RowFinding])
    failed: list[str] = field(default_factory=list[str])
    sla: str = PASS
    sla_reasons: list[str] = field(default_factory=list[str])


@dataclass
class Decision:
    """The verdict of one scenario against one competitor, with every number that it rests on."""

    scenario: Scenario
    target: Side
    against: Side
    metric: Metric
    verdict: str
    reason: str
    next_step: str
    pairs: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    logs: list[float] = field(default_factory=list[float])
    ci: stats.Interval | None = None
    all_pairs: int = 0
    k_more: int | None = None
    how_paired: str = ""
    noise_pct: tuple[float | None, float | None] = (None, None)
    notes: list[str] = field(default_factory=list[str])


def side_of(
    name: str, rows: Sequence[Row], findings: Mapping[int, Sequence[RowFinding]], metric: Metric, plan: Plan
) -> Side:
    """Sort one side's rows: what counts becomes launches, the rest is told with its reason. `findings` is keyed by `id(row)`."""
    side = Side(name, [])
    good: list[Row] = []
    for row in rows:
        reason = _left_out(row, findings.get(id(row), ()), metric, plan, side)
        if reason is None:
            good.append(row)
        else:
            side.excluded.append((row.label(), reason))
    good = _each_once(good, side)
    side.launches = [x for x in launches(good, per=plan.per) if x.mean(metric) is not None]
    _sla(side, rows, plan)
    return side


def _each_once(rows: Sequence[Row], side: Side) -> list[Row]:
    """The rows without copies of one another: a copy is told as left out."""
    copies = dict(twins(rows))
    side.excluded += [
        (rows[i].label(), f"{TWICE}: {same_as(rows[n])}, one measurement counts once") for i, n in copies.items()
    ]
    return [row for i, row in enumerate(rows) if i not in copies]


def _left_out(row: Row, found: Sequence[RowFinding], metric: Metric, plan: Plan, side: Side) -> str | None:
    if row.purpose in _NOT_DECISION:
        return f"purpose {row.purpose}: never decides"
    if plan.locked and row.purpose != "decision":
        return "not marked as a decision run, which the contract asks for"
    if row.status != "ok":
        side.failed.append(row.label())
        return f"status {row.status}: {row.failure_reason or 'no reason recorded'}"
    for finding in found:
        if finding.severity == "refuse":
            (side.voids if finding.void else side.broken).append(finding)
            return f"{finding.rule}: {finding.evidence}"
        if any(metric.path.startswith(path) for path in finding.forbids):
            side.broken.append(finding)
            return f"{finding.rule}: {metric.name} cannot decide here ({finding.evidence})"
    value = metric.of(row)
    if value is None:
        return f"{metric.name} was not measured"
    return f"{metric.name} is {value:g}" if value <= 0 else None


def _sla(side: Side, rows: Sequence[Row], plan: Plan) -> None:
    """Every launch must keep the SLA; a launch that failed does not keep a success rate."""
    if not any(v is not None for v in plan.sla.values()):
        return
    if side.failed and plan.sla.get("min_success_rate") is not None:
        side.sla = FAIL
        side.sla_reasons.append(f"failed launches: {', '.join(side.failed[:3])}")
    for row in rows:
        if row.status != "ok" or row.purpose in _NOT_DECISION:
            continue
        result = sla_of(row, plan.sla)
        if result.result == FAIL or (result.result == UNKNOWN and side.sla == PASS):
            side.sla = result.result
        side.sla_reasons += [
            f"{row.label()}: {r}" for r in result.reasons if result.result == FAIL or side.sla == UNKNOWN
        ]


def decide(scenario: Scenario, target: Side, against: Side, metric: Metric, plan: Plan, unfair: str | None) -> Decision:
    """The verdict of one scenario against one competitor.

    Args:
        unfair: why fairness does not allow a decision; None when it does (or was not asked for).
    """
    paired = pair(target.launches, against.launches)
    values = [(a.mean(metric), b.mean(metric)) for a, b in paired.pairs]
    pairs = [(a, b) for a, b in values if a is not None and b is not None]
    out = Decision(scenario, target, against, metric, "", "", "", all_pairs=len(pairs), how_paired=paired.how)
    out.noise_pct = (_noise(target, metric), _noise(against, metric))
    look = stats.look_for(len(pairs), plan.looks)
    out.pairs = pairs[: look or len(pairs)]
    logs = stats.paired_logs(
        [a for a, _ in out.pairs], [b for _, b in out.pairs], higher_is_better=metric.higher_is_better
    )
    out.logs = logs
    if paired.left_over:
        out.notes.append(f"{paired.left_over} launches have no partner and do not count")
    if look is not None and len(pairs) > look:
        out.notes.append(f"{len(pairs) - look} pairs beyond the look at {look} wait for the next one")
    if len(logs) >= 2:
        out.ci = stats.interval(logs, plan.look_alpha)
    _verdict(out, plan, unfair)
    return out


def _verdict(out: Decision, plan: Plan, unfair: str | None) -> None:
    enough = out.all_pairs >= plan.looks[0]
    rules = (_void_rows, _tokens, _sla_verdict)
    for rule in rules:
        if rule(out, enough):
            return
    if not enough:
        _insufficient(out, plan, unfair)
    elif unfair is not None:
        _set(out, VOID_FAIRNESS, unfair, "infer-forge bench fairness --target NAME FILE... --against NAME FILE...")
    else:
        _by_interval(out, plan)


def _set(out: Decision, verdict: str, reason: str, next_step: str) -> None:
    out.verdict, out.reason, out.next_step = verdict, reason, next_step


def _void_rows(out: Decision, enough: bool) -> bool:
    """Runs voided by a rule are left out; where too few remain, their void is the verdict."""
    voids = [(side.name, f) for side in (out.target, out.against) for f in side.voids]
    if not voids or enough:
        return False
    order = (VOID_WORKLOAD, VOID_FAIRNESS, VOID_INTERFERENCE)
    kind = next(v for v in order if any(f.void == v for _, f in voids))
    hits = [(name, f) for name, f in voids if f.void == kind]
    name, finding = hits[0]
    _set(
        out,
        kind,
        f"{len(hits)} runs void, first {name} {finding.label}: {finding.rule}, {finding.evidence}",
        finding.fix,
    )
    return True


def _tokens(out: Decision, enough: bool) -> bool:  # noqa: ARG001
    """Token totals of the two sides."""
    limit = thresholds()["cross_framework_tokens_pct"]
    for name in ("measured_input_len_mean_tokens", "measured_output_len_mean_tokens"):
        means: list[float] = []
        for side in (out.target, out.against):
            seen = [getattr(row.workload, name) for x in side.launches for row in x.rows]
            known = [v for v in seen if v]
            if known and len(known) == len(seen):
                means.append(sum(known) / len(known))
        if len(means) == 2 and abs(means[0] / means[1] - 1.0) * 100.0 > limit:
            what = name.split("_")[1]
            reason = f"not the same work: {what} tokens a request {means[0]:.1f} and {means[1]:.1f}, more than {limit} % apart"
            _set(
                out,
                VOID_WORKLOAD,
                reason,
                "send the same prompt file to every engine: infer-forge bench workload --help",
            )
            return True
    return False


def _sla_verdict(out: Decision, enough: bool) -> bool:  # noqa: ARG001
    if out.target.sla == FAIL:
        passing = " while the competitor passes" if out.against.sla == PASS else ""
        reason = f"{out.target.name} misses the SLA{passing}: {out.target.sla_reasons[0]}"
        _set(out, SLA_FAIL, reason, "search for a command that keeps the SLA: infer-forge bench search --help")
        return True
    if out.against.sla == FAIL and out.target.sla == PASS and out.target.launches:
        reason = f"{out.against.name} misses the SLA, {out.target.name} keeps it: {out.against.sla_reasons[0]}"
        _set(out, NOT_BEHIND, reason, "nothing to patch in this scenario")
        return True
    return False


def _noise(side: Side, metric: Metric) -> float | None:
    """Run-to-run noise of one side: standard deviation of the log values, in percent."""
    import math

    values = [x.mean(metric) for x in side.launches]
    logs = [math.log(v) for v in values if v is not None and v > 0]
    return 100.0 * stats.mean_sd(logs)[1] if len(logs) > 1 else None


def _missing(out: Decision, k: int) -> str:
    return f"{k} more launches of {out.target.name} and of {out.against.name}, interleaved A B B A"


def _insufficient(out: Decision, plan: Plan, unfair: str | None) -> None:
    first = plan.looks[0]
    out.k_more = first - out.all_pairs
    have = f"{len(out.target.launches)} and {len(out.against.launches)} launches"
    reason = f"{have} of {out.target.name} and {out.against.name}, the first look is at {first} pairs: {out.k_more} more each"
    dropped = len(out.target.excluded) + len(out.against.excluded)
    if dropped:
        reason += f"; {dropped} runs do not count ({(out.target.excluded + out.against.excluded)[0][1]})"
    if unfair is not None:
        reason += f"; fairness is not shown either ({unfair})"
    _set(out, INSUFFICIENT, reason, f"measure {_missing(out, out.k_more)}, then infer-forge bench gap again")


def _by_interval(out: Decision, plan: Plan) -> None:
    ci = out.ci
    if ci is None:
        raise AssertionError("an interval exists from the first look on")
    verdict = stats.decide(ci, plan.delta)
    span = f"interval {ci.low_pct:+.2f} % to {ci.high_pct:+.2f} %, {ci.n} pairs, threshold {plan.threshold_pct:g} %"
    word = "better" if ci.mean >= 0 else "worse"
    base = f"{out.target.name} is {abs(ci.mean_pct):.2f} % {word} than {out.against.name} in {out.metric.name} ({span})"
    if verdict == BEHIND:
        _set(
            out,
            BEHIND,
            base,
            "profile both at this load: infer-forge capture --help, then infer-forge triage TRACE --against TRACE",
        )
    elif verdict == INCONCLUSIVE:
        _inconclusive(out, plan, base)
    else:
        _set(out, verdict, base, "nothing to patch in this scenario")


def _inconclusive(out: Decision, plan: Plan, base: str) -> None:
    ci = out.ci
    if ci is None:
        raise AssertionError("an interval exists from the first look on")
    out.k_more = stats.runs_missing(ci, plan.delta, out.all_pairs, plan.looks)
    half = (ci.high_pct - ci.low_pct) / 2.0
    if out.k_more is None:
        reason = f"{base}; final after {ci.n} pairs: noise of a pair {ci.sd_pct:.2f} %, resolved to +-{half:.2f} %"
        step = "lower the noise (lock clocks, longer runs) in a new contract: infer-forge bench pilot --help"
        _set(out, INCONCLUSIVE, reason, step)
        return
    needed = stats.launches_needed(ci, plan.delta)
    last = plan.looks[-1]
    if needed is None or needed > last:
        out.notes.append(
            f"at this noise about {needed or 'more than 100,000'} pairs would settle it; the plan ends at {last}"
        )
    _set(
        out,
        INCONCLUSIVE,
        f"{base}; {out.k_more} more pairs to the next useful look",
        f"measure {_missing(out, out.k_more)}, then infer-forge bench gap again",
    )
