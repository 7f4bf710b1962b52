"""Names of the figures that may decide, where they stand in a row, and which direction is better; the SLA of a row.

The SLA is always computed again from the row: a `passed` that somebody else wrote is not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infer_forge.base.errors import UsageFault

if TYPE_CHECKING:
    from infer_forge.bench.model import Row


@dataclass(frozen=True)
class Metric:
    """A figure of a row: its name, dotted path, unit and direction."""

    name: str
    path: str
    unit: str
    higher_is_better: bool

    def of(self, row: Row) -> float | None:
        """The figure; None when unknown."""
        value = row.value(self.path)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


_RATES = {
    "output_token_throughput": ("metrics.output_token_throughput_per_s", "tok/s"),
    "request_throughput": ("metrics.request_throughput_per_s", "req/s"),
    "total_token_throughput": ("metrics.total_token_throughput_per_s", "tok/s"),
    "input_token_throughput": ("metrics.input_token_throughput_per_s", "tok/s"),
    "goodput": ("metrics.goodput_requests_per_s", "req/s"),
    "tokens_per_s_per_user": ("metrics.tokens_per_s_per_user", "tok/s/user"),
    "tokens_per_s_per_gpu": ("metrics.tokens_per_s_per_gpu", "tok/s/GPU"),
    "output_tokens_per_j": ("metrics.output_tokens_per_j", "tok/J"),
}
_TIMES = {
    **{f"{k}_{m}_ms": f"metrics.{m}_ms.{k}" for m in ("ttft", "tpot", "itl", "e2e") for k in ("mean", "p50", "p90", "p95", "p99")},
    "end_to_end_ms": "diffusion.end_to_end_ms",
    "denoise_ms": "diffusion.denoise_ms",
    "vae_ms": "diffusion.vae_ms",
    "peak_memory_bytes": "diffusion.peak_memory_bytes",
}  # fmt: skip

METRICS: dict[str, Metric] = {
    **{name: Metric(name, path, unit, True) for name, (path, unit) in _RATES.items()},
    **{name: Metric(name, path, "bytes" if name.endswith("bytes") else "ms", False) for name, path in _TIMES.items()},
}

DEFAULT_METRIC = "output_token_throughput"
"""Decides when neither a contract nor the caller names another."""

DIFFUSION_METRIC = "end_to_end_ms"


def metric_of(name: str) -> Metric:
    """The metric of a name (with or without `_per_s`).

    Raises:
        UsageFault: no such metric.
    """
    found = METRICS.get(name) or METRICS.get(name.removesuffix("_per_s"))
    if found is None:
        raise UsageFault(f"unknown metric {name!r}", next_step=f"use one of {', '.join(METRICS)}")
    return found


PASS, FAIL, UNKNOWN = "pass", "fail", "unknown"

_SLA_FIELDS = {
    **{f"max_{k}_{m}_ms": f"{k}_{m}_ms" for k in ("p50", "p99") for m in ("ttft", "tpot", "e2e")},
    "min_success_rate": "success_rate",
}


@dataclass(frozen=True)
class SlaResult:
    """`pass`, `fail` or `unknown` of one row, with the reasons."""

    result: str
    reasons: tuple[str, ...] = ()


def sla_limits(text: str | None) -> dict[str, float]:
    """`max_p50_ttft_ms=200,min_success_rate=1` as limits.

    Raises:
        UsageFault: an unknown limit or no number.
    """
    limits: dict[str, float] = {}
    for part in (text or "").split(","):
        if not part.strip():
            continue
        name, _, value = part.partition("=")
        if name.strip() not in _SLA_FIELDS:
            raise UsageFault(f"unknown SLA limit {name.strip()!r}", next_step=f"use one of {', '.join(_SLA_FIELDS)}")
        try:
            limits[name.strip()] = float(value)
        except ValueError:
            raise UsageFault(f"{name.strip()} needs a number, not {value!r}") from None
    return limits


def sla_of(row: Row, limits: Mapping[str, float | None]) -> SlaResult:
    """Whether one row keeps every limit; a limit whose figure is unknown makes the result unknown."""
    failed: list[str] = []
    unknown: list[str] = []
    for name, limit in limits.items():
        if limit is None:
            continue
        figure = row.metrics.success_rate if name == "min_success_rate" else METRICS[_SLA_FIELDS[name]].of(row)
        if figure is None:
            unknown.append(f"{name}: not measured")
        elif (figure < limit) if name.startswith("min_") else (figure > limit):
            failed.append(f"{_SLA_FIELDS[name]} {figure:.4g} against {limit:g}")
    if failed:
        return SlaResult(FAIL, tuple(failed))
    return SlaResult(UNKNOWN, tuple(unknown)) if unknown else SlaResult(PASS)
