"""Memory and stability evidence of a revalidation: a soak's record against the contract's bounds.

A soak file is JSON: `minutes`, `requests`, `errors`, `restarts`, `repeats`, and series `memory_bytes` and `p99_ms`, each a list of
[seconds since its start, value]. `infer-forge campaign record soak` also takes a memory file with `peak_device_bytes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable

if TYPE_CHECKING:
    from infer_forge.base.contract_model import Soak


def read_soak(path: str | Path) -> dict[str, Any]:
    """A soak's record.

    Raises:
        InputUnusable: it is no object, or a figure has the wrong type.
    """
    data: Any = jsonio.read_json(path)
    if not isinstance(data, dict):
        raise InputUnusable("is no soak record", where=str(path), next_step="see docs/campaign.md")
    found = cast("dict[str, Any]", data)
    for name in ("minutes", "errors", "restarts", "repeats", "peak_device_bytes"):
        value = found.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0):
            raise InputUnusable(f"{name} is {value!r}, no figure", where=str(path))
    for name in ("memory_bytes", "p99_ms"):
        series = found.get(name)
        if series is not None and not (
            isinstance(series, list)
            and all(isinstance(p, list) and len(cast("list[Any]", p)) == 2 for p in cast("list[Any]", series))
        ):
            raise InputUnusable(f"{name} is no list of [seconds, value]", where=str(path))
    return found


def slope_per_hour(series: Sequence[Sequence[float]]) -> float | None:
    """Least-squares slope of (seconds, value), per hour; None for fewer than three points."""
    if len(series) < 3:
        return None
    n = len(series)
    mx, my = sum(p[0] for p in series) / n, sum(p[1] for p in series) / n
    spread = sum((p[0] - mx) ** 2 for p in series)
    return 3600 * sum((p[0] - mx) * (p[1] - my) for p in series) / spread if spread else None


def judge_soak(found: dict[str, Any], bounds: Soak | None) -> tuple[str, str]:
    """(`pass` | `fail` | `unknown`, why): minutes, repeats, errors, restarts, slopes of memory and p99."""
    from infer_forge.base.contract_model import Soak as Bounds

    limit = bounds or Bounds()
    wrong: list[str] = []
    blind: list[str] = []
    for name, most in (("errors", 0), ("restarts", 0)):
        value = found.get(name)
        if value is None:
            blind.append(f"{name} not recorded")
        elif value > most:
            wrong.append(f"{value:g} {name}")
    for name, least in (("minutes", limit.minutes), ("repeats", limit.repeats)):
        value = found.get(name)
        if value is None:
            blind.append(f"{name} not recorded")
        elif value < least:
            wrong.append(f"{value:g} {name} of {least:g}")
    for name, most in (
        ("memory_bytes", limit.max_memory_growth_bytes_per_hour),
        ("p99_ms", limit.max_p99_growth_per_hour),
    ):
        if most is None:
            continue
        slope = slope_per_hour(found.get(name) or [])
        if slope is None:
            blind.append(f"no {name} series")
        elif slope > most:
            wrong.append(f"{name} grows by {slope:.3g} an hour, {most:g} are allowed")
    if wrong:
        return "fail", "; ".join(wrong)
    return (
        ("unknown", "; ".join(blind))
        if blind
        else ("pass", f"{found['minutes']:g} minutes, {found['repeats']:g} repeats, no error")
    )
