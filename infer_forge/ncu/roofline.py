"""Roofline from the report's own peaks: achieved and attainable operations per second, and arithmetic intensity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infer_forge.ncu.dictionary import family, number
from infer_forge.ncu.model import Launch


@dataclass(frozen=True)
class Roof:
    """One precision of one launch.

    Attributes:
        precision: `fp32`, `fp64`, or the tensor path as ncu names it (`src_bf16_dst_fp32` ...).
        flops_per_s, peak_flops_per_s: achieved, and the peak at the clock of the profile.
        intensity: operations per DRAM byte. ridge: intensity at which the compute roof begins.
        attained_pct: achieved of what the lower of the two roofs allows at this intensity.
        side: `memory` or `compute`: the roof that is lower here.
    """

    precision: str
    flops_per_s: float
    peak_flops_per_s: float
    intensity: float | None
    ridge: float | None
    attained_pct: float | None
    side: str | None

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {
            "precision": self.precision,
            "flops_per_s": self.flops_per_s,
            "peak_flops_per_s": self.peak_flops_per_s,
            "intensity_flop_per_byte": self.intensity,
            "ridge_flop_per_byte": self.ridge,
            "attained_pct": self.attained_pct,
            "side": self.side,
        }


def rooflines(launch: Launch) -> list[Roof]:
    """Every precision that did work, most operations first; empty when the roofline sections were not collected."""
    clock = number(launch, "roof_sm_frequency") or number(launch, "sm_frequency")
    if not clock:
        return []
    pairs: list[tuple[str, float, float]] = []
    for precision, letter in (("fp32", "f"), ("fp64", "d")):
        parts = [number(launch, k) for k in (f"{letter}add_rate", f"{letter}mul_rate", f"{letter}fma_rate_x2")]
        peak = number(launch, f"{letter}fma_peak_x2")
        if peak and any(p is not None for p in parts):
            pairs.append((precision, sum(p or 0.0 for p in parts), peak))
    pairs += _tensor(launch)
    out = [_roof(launch, name, rate * clock, peak * clock) for name, rate, peak in pairs if rate > 0]
    return sorted(out, key=lambda r: -r.flops_per_s)


def _tensor(launch: Launch) -> list[tuple[str, float, float]]:
    """Tensor paths with work: operations per cycle and their peak."""
    rates: dict[str, float] = {}
    peaks: dict[str, float] = {}
    for name, value in launch.values.items():
        if not name.startswith("sm__ops_path_tensor_src_") or not isinstance(value.value, float):
            continue
        path = name.removeprefix("sm__ops_path_tensor_").partition(".")[0]
        (peaks if name.endswith("peak_sustained") else rates)[path] = value.value
    return [(p, r, peaks[p]) for p, r in rates.items() if r > 0 and peaks.get(p)]


def _roof(launch: Launch, precision: str, flops: float, peak: float) -> Roof:
    rate = number(launch, "dram_rate")
    width, clock = number(launch, "dram_bytes_peak"), number(launch, "dram_frequency")
    bandwidth = width * clock if width and clock else None
    intensity = flops / rate if rate else None
    ridge = peak / bandwidth if bandwidth else None
    attained = side = None
    if intensity is not None and bandwidth:
        memory_roof = intensity * bandwidth
        side = "memory" if memory_roof < peak else "compute"
        attained = 100 * flops / min(memory_roof, peak)
    return Roof(precision, flops, peak, intensity, ridge, attained, side)


def pipes(launch: Launch) -> dict[str, float]:
    """Utilisation of every instruction pipe over active cycles, in percent, busiest first."""
    found = {k: float(v.value) for k, v in family(launch, "pipe").items() if isinstance(v.value, float)}
    return dict(sorted(found.items(), key=lambda kv: -kv[1]))
