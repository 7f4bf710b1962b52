"""A digest's JSON made small for a model: what decides stays, full metric lists go to the whole report."""

from __future__ import annotations

from typing import Any

from infer_forge.ncu import policy

_KERNEL = ("name", "launch", "launches", "duration_ns", "class", "limiter", "co_limiters", "character", "not_target")
_TARGET = ("why", "grid", "block", "device", "cc", "units_pct", "stalls", "occupancy", "borderline", "not_collected")
_MOST_KERNELS = 12


def compact(report: dict[str, Any]) -> dict[str, Any]:
    """The digest with short kernels: all keys for the target, the class line for the others (at most 12)."""
    kernels: list[dict[str, Any]] = report["kernels"]
    out = {k: v for k, v in report.items() if k not in ("kernels", "tables", "second_opinion", "summary")}
    out["summary"] = [line for line in report["summary"] if not line.startswith((" ", "Next edit:"))]
    out["kernels"] = [_kernel(k, target=i == 0) for i, k in enumerate(kernels[:_MOST_KERNELS])]
    if len(kernels) > _MOST_KERNELS:
        out["kernels_left_out"] = len(kernels) - _MOST_KERNELS
    opinion: dict[str, Any] = report["second_opinion"]
    out["second_opinion"] = {k: opinion[k] for k in ("agrees", "says", "note", "excluded")}
    tables: dict[str, dict[str, Any]] = report["tables"]
    out["tables"] = {n: _rounded(t) for n, t in tables.items() if n in ("hot", "deltas", "causes", "checks")}
    if "comparability" in tables:
        rows = tables["comparability"]["rows"]
        out["tables"]["comparability"] = tables["comparability"] | {"rows": [r for r in rows if r[3] != "equal"]}
    return out


def _kernel(kernel: dict[str, Any], *, target: bool) -> dict[str, Any]:
    short = {k: kernel[k] for k in _KERNEL if kernel.get(k) is not None and kernel[k] is not False and kernel[k] != []}
    short["flags"] = [{k: _round(f[k]) for k in ("code", "value", "unit", "threshold")} for f in kernel["flags"]]
    if not target:
        return short
    short |= {k: _round(kernel[k]) for k in _TARGET if kernel.get(k) not in (None, [], {})}
    wanted: list[str] = policy.data()["readings"].get(kernel.get("character") or "", [])
    always = ["sm", "memory", "dram", "waves", "occupancy_achieved", *wanted]
    metrics: dict[str, dict[str, Any]] = kernel["metrics"]
    short["metrics"] = {k: _round(metrics[k]["value"]) for k in dict.fromkeys(always) if k in metrics}
    if kernel["roofline"]:
        short["roofline"] = _round(kernel["roofline"][0])
    return short


def _rounded(table: dict[str, Any]) -> dict[str, Any]:
    return table | {"rows": [_round(row) for row in table["rows"]]}


def _round(value: Any) -> Any:
    """Numbers to five significant digits."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {k: _round(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, (list, tuple)):
        return [_round(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    return value
