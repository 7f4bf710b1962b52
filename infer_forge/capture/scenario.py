"""Request lengths of a profile, from the scenario in which the benchmark was slow (A117, A118), never a profiler's defaults."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable
from infer_forge.capture.model import DECODE, PREFILL, Shape

_LOSING = ("behind", "sla_fail", "inconclusive")


def slow_scenario(folder: Path) -> tuple[str, dict[str, Shape]]:
    """Name and shapes of the slow scenario of a run directory.

    The scenario is the one that the newest gap report (`gap*.json`) calls furthest behind; without one, the longest of the
    contract's grid (`contract*.json`), which the caller should say.

    Raises:
        InputUnusable: the folder holds no contract with a workload grid.
    """
    scenarios = _grid(folder)
    name = _furthest_behind(folder, set(scenarios)) or max(scenarios, key=lambda n: sum(scenarios[n]))
    input_len, output_len = scenarios[name]
    return name, {PREFILL: Shape(input_len, 1), DECODE: Shape(1, output_len)}


def _newest(folder: Path, pattern: str) -> list[Path]:
    found = [p for place in (folder, folder / "benchmark") for p in place.glob(pattern)]
    return sorted(found, key=lambda p: p.stat().st_mtime_ns, reverse=True)


def _grid(folder: Path) -> dict[str, tuple[int, int]]:
    for file in _newest(folder, "contract*.json"):
        data: dict[str, Any] = jsonio.read_json(file)
        body: dict[str, Any] = data.get("contract") or data
        grid: dict[str, Any] = body.get("grid") or {}
        rows: list[dict[str, Any]] = grid.get("scenarios") or []
        if rows:
            return {r["name"]: (int(r["input_len"]), int(r["output_len"])) for r in rows}
    hint = "infer-forge bench lock --run DIR, or give --input-len and --output-len"
    raise InputUnusable("holds no contract with a workload grid", where=str(folder), next_step=hint)


def _furthest_behind(folder: Path, known: set[str]) -> str | None:
    for file in _newest(folder, "gap*.json"):
        table: dict[str, Any] = jsonio.read_json(file).get("tables", {}).get("gap", {})
        columns: list[str] = table.get("columns", [])
        rows = [dict(zip(columns, row, strict=True)) for row in table.get("rows", [])]
        losing = [r for r in rows if r.get("verdict") in _LOSING and _plain(r.get("scenario"), known)]
        if losing:
            slow = min(losing, key=lambda r: (_LOSING.index(r["verdict"]), float(r.get("mean_pct") or 0)))
            return _plain(slow["scenario"], known)
    return None


def _plain(named: str | None, known: set[str]) -> str | None:
    """A scenario of the grid as a gap report names it: `chat`, or `chat c16` with its concurrency; None: none of the grid."""
    name = str(named)
    short = re.sub(r" c\d+$", "", name)
    return name if name in known else short if short in known else None
