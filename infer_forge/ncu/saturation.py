"""How busy each unit was: from the breakdown of the two throughput figures, or from what a page prints of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from infer_forge.ncu import dictionary, policy
from infer_forge.ncu.model import Launch, Value

_SIDES = {
    "compute": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "memory": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
}
_PIPE_RULE = re.compile(r"\b([A-Za-z0-9]+)(?: \([^)]*\))? is the highest-utilized pipeline \(([\d.]+)%\)")
_SUB_PIPE = re.compile(r"dominated by its (\w+)")
_RULE_PIPES = {
    "tensor": "tensor", "fma": "fma", "fmaheavy": "fma", "alu": "alu", "fp64": "fp64", "fp16": "fp16", "xu": "xu",
    "lsu": "lsu", "tex": "tex", "uniform": "uniform", "cbu": "branch", "adu": "branch", "tma": "tma", "shared": "tensor",
}  # fmt: skip


@dataclass(frozen=True)
class Load:
    """One unit's utilisation in percent of its peak, the metric that says so, and the side that it stands on."""

    unit: str
    pct: float
    metric: str
    side: str
    half_step: float = 0.0


def unit_loads(launch: Launch) -> list[Load]:
    """Units by utilisation, busiest first; one entry a unit. Empty when no throughput was collected."""
    loads: dict[str, Load] = {}
    for side in _SIDES:
        for load in _of_breakdown(launch, side) or _of_figures(launch, side):
            if load.unit not in loads or load.pct > loads[load.unit].pct:
                loads[load.unit] = load
    return sorted(loads.values(), key=lambda x: -x.pct)


def _of_breakdown(launch: Launch, side: str) -> list[Load]:
    out: list[Load] = []
    for name in launch.breakdown.get(_SIDES[side], []):
        value = launch.values.get(name)
        if value is None or not isinstance(value.value, float):
            continue
        unit = policy.unit_of(name)
        if unit is None:
            continue
        out.append(Load(_refined(launch, unit, name, value.value), value.value, name, side, value.half_step))
    return out


def _refined(launch: Launch, unit: str, metric: str, pct: float) -> str:
    """Shared memory inside the L1 data pipe, and FP64 inside the pipe that it shares with the tensor unit."""
    if unit == "l1" and "data_pipe_lsu_wavefronts" in metric:
        shared = dictionary.number(launch, "shared_pipe")
        if shared is not None and shared >= pct / 2:
            return "shared"
    if unit == "tensor" and "pipe_shared" in metric:
        fp64, tensor = dictionary.number(launch, "fp64") or 0.0, dictionary.number(launch, "tensor") or 0.0
        return "fp64" if fp64 > tensor else "tensor"
    return unit


def _of_figures(launch: Launch, side: str) -> list[Load]:
    """Without a breakdown: the printed figures of a page."""
    if side == "compute":
        total = dictionary.find(launch, "sm")
        return [_compute(launch, total)] if total is not None and isinstance(total.value, float) else []
    total = dictionary.find(launch, "memory")
    found = {u: v for u in ("dram", "l2", "l1") if (v := dictionary.find(launch, u)) and isinstance(v.value, float)}
    if total is None or not isinstance(total.value, float):
        return []
    others = [_load(u, v, side) for u, v in found.items()]
    near = [load for load in others if load.pct >= total.value * (1 - policy.limit("dram_within_pct") / 100)]
    dram = [load for load in near if load.unit == "dram"]
    goal = float(total.value)
    best = dram[0] if dram else min(near, key=lambda x: abs(x.pct - goal), default=None)
    top = Load(best.unit if best else "memory", total.value, total.name, side, total.half_step)
    # A figure over active cycles can exceed the one over elapsed cycles: nothing on this side is busier than its total.
    rest = [Load(x.unit, min(x.pct, total.value), x.metric, x.side, x.half_step) for x in others if x.unit != top.unit]
    return [top, *rest]


def _load(unit: str, value: Value, side: str) -> Load:
    return Load(unit, float(value.value), value.name, side, value.half_step)


def _compute(launch: Launch, total: Value) -> Load:
    """The SM figure under the name of its busiest pipe, where the pipes or NVIDIA's own rule name it."""
    pct = float(total.value)
    pipes = {n: v for n, v in dictionary.family(launch, "pipe").items() if isinstance(v.value, float)}
    best = max(pipes.items(), key=lambda kv: float(kv[1].value), default=None)
    if best and float(best[1].value) >= pct * 0.9:
        unit = policy.unit_of(best[1].name)
        if unit:
            return Load(_refined(launch, unit, best[1].name, pct), pct, total.name, "compute", total.half_step)
    for rule in launch.rules:
        found = _PIPE_RULE.search(rule.message)
        if found and float(found[2]) >= pct * 0.9:
            sub = _SUB_PIPE.search(rule.message)
            unit = _RULE_PIPES.get((sub[1] if sub else found[1]).lower()) or _RULE_PIPES.get(found[1].lower())
            if unit:
                return Load(unit, pct, total.name, "compute", total.half_step)
    return Load("sm", pct, total.name, "compute", total.half_step)
