"""A kernel of a report with what was found on it, and its JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from infer_forge.ncu import dictionary, policy
from infer_forge.ncu.diagnose import Diagnosis, diagnose
from infer_forge.ncu.flags import Flag, flags
from infer_forge.ncu.model import Launch, NcuReport
from infer_forge.ncu.occupancy import occupancy
from infer_forge.ncu.read import groups
from infer_forge.ncu.roofline import pipes, rooflines


@dataclass
class Judged:
    """A kernel of a report: all its launches that were read, the one that stands for it, and what was found on that one."""

    report: NcuReport
    launches: list[Launch]
    shown: Launch
    diagnosis: Diagnosis
    flags: list[Flag] = field(default_factory=list[Flag])

    @property
    def total_ns(self) -> float:
        """Time of its launches that were read."""
        return sum(dictionary.number(x, "duration") or 0.0 for x in self.launches)

    @property
    def aside(self) -> bool:
        """Whether it looks like warm-up, initialisation or a cache flush."""
        return bool(policy.not_target().match(self.shown.kernel))


def judge(report: NcuReport) -> list[Judged]:
    """Every kernel of a report, the target first: the most time among kernels that are no warm-up or initialisation."""
    out: list[Judged] = []
    for launches in groups(report).values():
        shown = _middle(launches)
        diagnosis = diagnose(shown)
        out.append(Judged(report, launches, shown, diagnosis, flags(shown, diagnosis)))
    return sorted(out, key=lambda j: (j.aside, -j.total_ns))


def no_target(judged: list[Judged], kernel: str | None) -> list[str]:
    """Names of the kernels when all are warm-up, initialisation or cache flush and nobody asked for one (`kernel`); else none."""
    if kernel or not all(j.aside for j in judged):
        return []
    return list(dict.fromkeys(j.shown.kernel for j in judged))


def _middle(launches: list[Launch]) -> Launch:
    """The launch with the median duration; the first when durations are missing."""
    timed = sorted((d, i) for i, x in enumerate(launches) if (d := dictionary.number(x, "duration")) is not None)
    return launches[timed[(len(timed) - 1) // 2][1]] if timed else launches[0]


def kernel_json(judged: Judged) -> dict[str, Any]:
    """One kernel of the JSON: what the issue of the report names, plus occupancy, roofline, pipes and hot lines."""
    launch, diagnosis = judged.shown, judged.diagnosis
    durations = [d for x in judged.launches if (d := dictionary.number(x, "duration")) is not None]
    facts = occupancy(launch)
    return {
        "name": launch.kernel,
        "demangled": launch.demangled,
        "report": judged.report.path,
        "launch": launch.index,
        "launches": [x.index for x in judged.launches],
        "duration_ns": dictionary.number(launch, "duration"),
        "durations_ns": durations,
        "workload": launch.workload,
        "grid": launch.grid,
        "block": launch.block,
        "device": launch.device,
        "cc": launch.cc,
        "class": diagnosis.name,
        "limiter": diagnosis.limiter,
        "co_limiters": diagnosis.co_limiters,
        "character": diagnosis.character,
        "why": diagnosis.why,
        "borderline": diagnosis.borderline,
        "evidence": [e.to_json() for e in diagnosis.evidence],
        "flags": [f.to_json() for f in judged.flags],
        "metrics": metrics_json(launch, diagnosis),
        "units_pct": {x.unit: x.pct for x in diagnosis.loads},
        "pipes_pct": pipes(launch),
        "stalls": _stalls(launch),
        "occupancy": facts.to_json() if facts else None,
        "roofline": [r.to_json() for r in rooflines(launch)],
        "hot": [_hot_json(h) for h in launch.hot],
        "not_target": judged.aside,
        "not_collected": dictionary.missing(launch, reading(diagnosis)),
    }


def _hot_json(spot: Any) -> dict[str, Any]:
    return {k: getattr(spot, k) for k in ("where", "sass", "samples", "share_pct", "stall", "stall_share_pct")}


def reading(diagnosis: Diagnosis) -> list[str]:
    """The metrics to read for a kernel of this character (C21), after the ones that are always read."""
    always = ["duration", "sm", "memory", "dram", "waves", "occupancy_theoretical", "occupancy_achieved"]
    return list(dict.fromkeys([*always, *policy.data()["readings"].get(diagnosis.character or "", [])]))


def metrics_json(launch: Launch, diagnosis: Diagnosis) -> dict[str, Any]:
    """`{our name: {value, unit, metric}}`, with the character's readings first; `not_collected` stays out of it."""
    keys = list(dict.fromkeys([*reading(diagnosis), *dictionary.metrics()]))
    skip = {
        "grid_x",
        "grid_y",
        "grid_z",
        "block_x",
        "block_y",
        "block_z",
        "cc_major",
        "cc_minor",
        "device_name",
        "shared_per_sm",
    }
    found = {k: v for k in keys if k not in skip and (v := dictionary.find(launch, k)) is not None}
    return {k: {"value": v.value, "unit": v.unit, "metric": v.name} for k, v in found.items()}


def _stalls(launch: Launch) -> list[dict[str, Any]]:
    """Stall reasons with their share of the cycles between two instructions, largest first."""
    cpi = dictionary.number(launch, "cpi")
    ignored = policy.data()["ignored_stalls"]
    found = [(r, float(v.value)) for r, v in dictionary.family(launch, "stall").items() if r not in ignored]
    found.sort(key=lambda x: -x[1])
    return [{"reason": r, "cycles": v, "share_pct": 100 * v / cpi if cpi else None} for r, v in found[:6] if v > 0]
