"""The class of a launch, in a fixed order: invalid, insufficient, small grid, saturated unit, latency, balanced."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from infer_forge.ncu import dictionary, policy
from infer_forge.ncu.dictionary import find, number
from infer_forge.ncu.model import Launch, Value
from infer_forge.ncu.saturation import Load, unit_loads

CLASSES = ("invalid", "insufficient", "small_grid", "bound", "leaning", "latency", "balanced")


@dataclass(frozen=True)
class Evidence:
    """One metric against one threshold."""

    metric: str
    value: float | None
    unit: str
    threshold: float | None
    source: str
    borderline: bool = False

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {
            "metric": self.metric,
            "value": self.value,
            "unit": self.unit,
            "threshold": self.threshold,
            "source": self.source,
            "borderline": self.borderline,
        }


@dataclass
class Diagnosis:
    """What a launch is limited by.

    Attributes:
        family: one of `CLASSES`. unit: the saturated unit of `bound` and `leaning`.
        limiter: the unit, `grid`, a stall reason, or `occupancy(what)`; None when nothing stands out.
        co_limiters: units that are as busy as the limiter (within `tie_points`).
        character: `memory`, `compute`, `latency` or `small`; None when it cannot be told.
        missing: our metrics that were needed and not collected -> the section that brings each.
    """

    family: str
    why: str
    unit: str | None = None
    limiter: str | None = None
    co_limiters: list[str] = field(default_factory=list[str])
    character: str | None = None
    evidence: list[Evidence] = field(default_factory=list[Evidence])
    missing: dict[str, str] = field(default_factory=dict[str, str])
    loads: list[Load] = field(default_factory=list[Load])

    @property
    def name(self) -> str:
        """The class as it is printed: `bound(dram)`, `latency` ..."""
        return f"{self.family}({self.unit})" if self.family in ("bound", "leaning") else self.family

    @property
    def borderline(self) -> list[str]:
        """Metrics that stand so close to their threshold that the printed digits cannot tell the side."""
        return [e.metric for e in self.evidence if e.borderline]


def against(value: Value, name: str) -> Evidence:
    """A value held against a named threshold, with the print precision taken into account."""
    limit = policy.threshold(name)
    amount = float(value.value) if isinstance(value.value, float) else None
    near = amount is not None and value.half_step > 0 and abs(amount - limit.value) <= value.half_step
    return Evidence(value.name, amount, value.unit or limit.unit, limit.value, limit.source, near)


def diagnose(launch: Launch) -> Diagnosis:
    """Judge one launch."""
    if (broken := _invalid(launch)) is not None:
        return broken
    sm, memory = find(launch, "sm"), find(launch, "memory")
    absent = dictionary.missing(launch, ["sm", "memory"])
    if sm is None or memory is None:
        have = (
            "neither SM nor memory throughput"
            if len(absent) == 2
            else f"no {'SM' if sm is None else 'memory'} throughput"
        )
        return Diagnosis("insufficient", f"the report holds {have}; no class can be told", missing=absent)
    loads = unit_loads(launch)
    evidence = [against(sm, "bound_pct"), against(memory, "bound_pct")]
    top = max(float(sm.value), float(memory.value))
    if top < policy.limit("leaning_pct"):
        evidence = [against(sm, "leaning_pct"), against(memory, "leaning_pct")]
    found = _small_grid(launch, top, evidence) or _busy(launch, loads, float(sm.value), float(memory.value), evidence)
    if found is None:
        found = _latency(launch, top, evidence)
    found.loads = loads
    return found


def _invalid(launch: Launch) -> Diagnosis | None:
    """A launch whose numbers cannot be true."""
    reasons: list[str] = []
    if not launch.values:
        return Diagnosis("insufficient", "no metric was read", missing={"sm": "SpeedOfLight", "memory": "SpeedOfLight"})
    evidence: list[Evidence] = []
    for key in ("sm", "memory", "dram"):
        value = find(launch, key)
        if value is None:
            continue
        if not isinstance(value.value, float):
            reasons.append(f"{value.name} is not a number ({value.value})")
        elif not 0 <= value.value <= policy.limit("plausible_pct"):
            evidence.append(against(value, "plausible_pct"))
            reasons.append(f"{value.name} is {value.value:g} %")
    duration = number(launch, "duration")
    if duration is not None and duration <= 0:
        reasons.append(f"the duration is {duration:g} ns")
    if not reasons:
        return None
    return Diagnosis("invalid", f"the numbers cannot be true: {'; '.join(reasons)}", evidence=evidence)


def grid_blocks(launch: Launch) -> int | None:
    """Blocks in the grid, from the metrics or the launch dimensions."""
    blocks = number(launch, "grid")
    if blocks is not None:
        return int(blocks)
    return launch.grid[0] * launch.grid[1] * launch.grid[2] if launch.grid else None


def waves_said(launch: Launch) -> str:
    """The waves in words, as exactly as they were printed."""
    waves = find(launch, "waves")
    if waves is None or not isinstance(waves.value, float):
        return "a small grid"
    under = not waves.value and waves.half_step > 0
    return f"under {waves.half_step:g} waves" if under else f"{waves.value:.2g} waves"


def _small_grid(launch: Launch, top: float, evidence: list[Evidence]) -> Diagnosis | None:
    if top >= policy.limit("leaning_pct"):
        return None
    blocks, sms, waves = grid_blocks(launch), number(launch, "sm_count"), find(launch, "waves")
    few = blocks is not None and sms is not None and blocks < sms
    wave = float(waves.value) if waves is not None and isinstance(waves.value, float) else None
    part = wave is not None and wave < policy.limit("small_waves")
    near = [against(waves, "small_waves")] if waves is not None and wave is not None else []
    if not few and not part:
        if near and near[0].borderline:
            evidence += near
        return None
    said = (
        f"{blocks} blocks for {sms:g} SMs" if few else f"{waves_said(launch)}: the grid does not fill the device once"
    )
    if few:
        near = [Evidence("grid blocks", blocks, "block", sms, "rule LaunchConfiguration: fewer blocks than SMs"), *near]
    return Diagnosis("small_grid", said, limiter="grid", character="small", evidence=[*evidence, *near])


def _busy(launch: Launch, loads: list[Load], sm: float, memory: float, evidence: list[Evidence]) -> Diagnosis | None:
    """`bound` and `leaning`: the busiest unit, or `balanced` when two sides are equally busy under 80 %."""
    top = max(sm, memory)
    if top < policy.limit("leaning_pct") or not loads:
        return None
    first = loads[0]
    tie = policy.limit("tie_points")
    also = [x.unit for x in loads[1:] if first.pct - x.pct <= tie and x.pct >= policy.limit("leaning_pct")]
    second = max((x.pct for x in loads if x.unit != first.unit), default=0.0)
    both = abs(sm - memory) <= 1e-6 or _drives_both(launch, first)
    lead = first.pct - second if both else abs(sm - memory)
    title = policy.units()[first.unit].title
    character = policy.units()[first.unit].character
    if top >= policy.limit("bound_pct"):
        as_busy = f"; {', '.join(policy.units()[u].title for u in also)} as busy" if also else ""
        why = f"{title} at {first.pct:.1f} % of peak ({first.metric}){as_busy}"
        return Diagnosis("bound", why, first.unit, first.unit, also, character, evidence)
    if lead >= policy.limit("lead_points"):
        why = f"{title} at {first.pct:.1f} %, {lead:.1f} points ahead ({first.metric})"
        return Diagnosis("leaning", why, first.unit, first.unit, also, character, evidence)
    why = f"compute {sm:.1f} % and memory {memory:.1f} % are within {policy.limit('lead_points'):g} points, both under 80 %"
    return Diagnosis("balanced", why, None, None, [first.unit, *also], character, evidence)


def _drives_both(launch: Launch, first: Load) -> bool:
    """Whether one unit is the top of both throughput figures (the LSU is, in kernels that only issue loads)."""
    tops: list[str | None] = []
    for key in ("sm", "memory"):
        value = find(launch, key)
        subs = launch.breakdown.get(value.name, []) if value else []
        named = [(float(v.value), n) for n in subs if (v := launch.values.get(n)) and isinstance(v.value, float)]
        tops.append(policy.unit_of(max(named)[1]) if named else None)
    return tops[0] is not None and tops[0] == tops[1] == first.unit


def top_stall(launch: Launch) -> tuple[str, Value, float] | None:
    """The largest stall reason: its name, its value and its share of the cycles between two instructions in percent."""
    reasons = {r: v for r, v in dictionary.family(launch, "stall").items() if r not in policy.data()["ignored_stalls"]}
    cpi = number(launch, "cpi")
    if not reasons or not cpi:
        return None
    name, value = max(reasons.items(), key=lambda kv: float(kv[1].value))
    return name, value, 100 * float(value.value) / cpi


def _latency(launch: Launch, top: float, evidence: list[Evidence]) -> Diagnosis:
    from infer_forge.ncu.occupancy import limiters

    evidence = list(evidence)
    short = number(launch, "duration")
    small = short is not None and short < policy.limit("small_kernel_ns")
    missing = dictionary.missing(launch, policy.data()["needs"]["latency"])
    limiter: str | None = None
    why = f"no unit above {policy.limit('leaning_pct'):g} % (busiest {top:.1f} %)"
    stall, issue = top_stall(launch), find(launch, "issue")
    if stall and issue is not None and isinstance(issue.value, float) and issue.value < policy.limit("issue_low"):
        name, value, share = stall
        line = policy.threshold("stall_share_pct")
        evidence += [
            against(issue, "issue_low"),
            Evidence(value.name, share, "% of CPI", line.value, line.source),
        ]
        if share >= line.value:
            limiter = name
            waits = policy.data()["stalls"].get(name, {}).get("waits", name)
            why += f"; warps wait {share:.0f} % of the time for {waits}"
    theoretical = find(launch, "occupancy_theoretical")
    if theoretical is not None and isinstance(theoretical.value, float):
        evidence.append(against(theoretical, "occupancy_theoretical_pct"))
        low = theoretical.value < policy.limit("occupancy_theoretical_pct")
        if limiter is None and low:
            what = "/".join(limiters(launch)) or "unknown"
            limiter = f"occupancy({what})"
            why += f"; theoretical occupancy {theoretical.value:.0f} % limited by {what}"
    return Diagnosis(
        "latency", why, limiter=limiter, character="small" if small else "latency", evidence=evidence, missing=missing
    )
