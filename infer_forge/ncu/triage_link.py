"""Launches, gaps and synchronisation of a small kernel, from a stored triage report: no NCU report holds them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable

MISSING = ["launches", "gaps", "synchronisation"]
COMMAND = (
    "infer-forge triage TRACE --min-share 0 --format json --out triage.json, then ncu digest with --triage triage.json"
)
_IDLE = ("host_late_us", "in_flight_us", "queued_us", "unknown_us", "idle_us", "gap_us")


@dataclass
class SmallKernel:
    """What the trace says of the kernel and of the idle time around it; None: the report does not tell.

    Attributes:
        launches, time_us: of the kernels whose name fits, over the traced window. all_launches: of every kernel in it.
        idle_us: idle time of the device in that window; idle: the same by cause.
        sync_calls, sync_us: synchronising calls of the host.
        missing: of `MISSING`, what the report does not tell.
    """

    source: str
    launches: int | None = None
    all_launches: int | None = None
    time_us: float | None = None
    idle_us: float | None = None
    idle: dict[str, float] = field(default_factory=dict[str, float])
    sync_calls: int | None = None
    sync_us: float | None = None
    missing: list[str] = field(default_factory=list[str])

    @property
    def idle_of_its_launches_us(self) -> float | None:
        """The idle time of the window shared out evenly over its launches, times the launches of this kernel."""
        if self.idle_us is None or not self.launches or not self.all_launches:
            return None
        return self.idle_us * self.launches / self.all_launches

    def to_json(self) -> dict[str, Any]:
        """All fields, and the mean time of a launch."""
        mean = self.time_us / self.launches if self.time_us is not None and self.launches else None
        return {
            "source": self.source,
            "launches": self.launches,
            "all_launches": self.all_launches,
            "time_us": self.time_us,
            "mean_us": mean,
            "idle_us": self.idle_us,
            "idle_of_its_launches_us": self.idle_of_its_launches_us,
            "idle": self.idle,
            "sync_calls": self.sync_calls,
            "sync_us": self.sync_us,
            "missing": self.missing,
        }


def load_triage(path: str | Path) -> dict[str, list[dict[str, Any]]]:
    """Tables of a stored triage report as rows of dictionaries.

    Raises:
        InputUnusable: the file is no report with tables.
    """
    data: Any = jsonio.read_json(path)
    found: Any = data.get("tables") if isinstance(data, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    tables = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    if "kernel" not in tables:
        raise InputUnusable(
            "is no triage report (no table `kernel`)",
            where=str(path),
            next_step="infer-forge triage TRACE --format json",
        )
    out: dict[str, list[dict[str, Any]]] = {}
    for name, table in tables.items():
        try:
            columns: list[str] = table["columns"]
            rows: list[list[Any]] = table["rows"]
            out[name] = [dict(zip(columns, row, strict=False)) for row in rows]
        except (KeyError, TypeError):
            raise InputUnusable(f"table {name} has no columns and rows", where=str(path)) from None
    return out


def small_kernel(tables: dict[str, list[dict[str, Any]]], kernel: str, source: str) -> SmallKernel:
    """What the tables say of one kernel, by its base name."""
    found = SmallKernel(source)
    rows = [r for r in tables.get("kernel", []) if _same(str(r.get("kernel", "")), kernel)]
    if rows:
        found.launches = int(_sum(rows, "launches") or 0)
        found.time_us = _sum(rows, "time_us")
    ranks = {r.get("rank") for r in rows}
    every = [r for r in tables.get("kernel", []) if r.get("rank") in ranks]
    found.all_launches = int(_sum(every, "launches") or 0) or None
    host = [r for r in tables.get("host", []) if not ranks or r.get("rank") in ranks]
    found.idle = {c: v for c in _IDLE if (v := _sum(host, c)) is not None}
    parts = {c: v for c, v in found.idle.items() if c not in ("idle_us", "gap_us")}
    found.idle_us = found.idle.get("idle_us", found.idle.get("gap_us", sum(parts.values()) if parts else None))
    waits = [r for t in tables.values() for r in t if r.get("kind") == "sync" and "calls" in r and "time_us" in r]
    launch_rows = any("kind" in r and "calls" in r for t in tables.values() for r in t)
    found.sync_calls = int(_sum(waits, "calls") or 0) if launch_rows else None
    found.sync_us = (_sum(waits, "time_us") or 0.0) if launch_rows else None
    told = (found.launches is not None, found.idle_us is not None, found.sync_us is not None)
    found.missing = [what for what, there in zip(MISSING, told, strict=True) if not there]
    return found


def _same(name: str, kernel: str) -> bool:
    return bool(kernel) and kernel.lower() in name.lower()


def _sum(rows: list[dict[str, Any]], column: str) -> float | None:
    values = [float(r[column]) for r in rows if isinstance(r.get(column), (int, float))]
    return sum(values) if values else None
