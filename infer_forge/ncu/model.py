"""Types of the room: one value with its print precision, one launch, one report of Nsight Compute."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Value:
    """One metric value in its base unit.

    Attributes:
        value: a number in `unit`, or a word such as `CachePreferNone`.
        unit: normalised (`ns`, `byte`, `hz`, `byte/s`, `%`, `inst/cycle` ...); empty when the metric has none.
        name: the metric id, or `Section/Label`, that it was read from.
        half_step: half of the last printed digit in `unit`; 0 for binary reports and exact integers.
    """

    value: float | str
    unit: str
    name: str
    half_step: float = 0.0


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What one of NVIDIA's own rules said: its keys as they stand in the report.

    Attributes:
        rule: rule identifier; None on text pages, which print none.
        kind: `ok`, `optimization`, `warning`, `error`.
        speedup_kind: `global`, `local` or None. speedup_pct: its estimate, None when it gives none.
    """

    rule: str | None
    section: str
    kind: str
    title: str
    message: str
    speedup_kind: str | None = None
    speedup_pct: float | None = None


@dataclass(frozen=True, slots=True)
class HotSpot:
    """A source line or SASS instruction with its share of the stall samples of the launch."""

    where: str
    sass: str
    samples: int
    share_pct: float
    stall: str | None
    stall_share_pct: float | None


@dataclass
class Launch:
    """One profiled result: a kernel launch, or a range or graph.

    Attributes:
        index: position in the report, from 0.
        kernel: base name; demangled: the full signature (equal to `kernel` where the page prints no other).
        grid, block: launch dimensions, None where not stated.
        workload: `kernel`, `range`, `graph`, `cmdlist` or `subgrid`.
        ordinal: how many launches of the same kernel stand before it in the report.
        values: metric id or `Section/Label` -> value. Absent means not collected.
        breakdown: throughput metric id -> ids of its sub-metrics.
        sections: identifiers or display names of the sections that the launch has.
        lost: what could not be read of it, in words.
    """

    index: int
    kernel: str
    demangled: str = ""
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    device: str | None = None
    cc: str | None = None
    workload: str = "kernel"
    ordinal: int = 0
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    breakdown: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    rules: list[RuleResult] = field(default_factory=list[RuleResult])
    hot: list[HotSpot] = field(default_factory=list[HotSpot])
    sections: list[str] = field(default_factory=list[str])
    lost: list[str] = field(default_factory=list[str])


@dataclass
class Session:
    """How a report was collected. Every field is None where the file does not say.

    Attributes:
        command: the profiler's command line, with secrets removed.
        stated: which of the fields stand in the file or follow from the command line (others are unknown).
    """

    ncu_version: str | None = None
    cuda_version: str | None = None
    driver_version: str | None = None
    created_unix_s: int | None = None
    command: str | None = None
    clock_control: str | None = None
    cache_control: str | None = None
    replay_mode: str | None = None
    metric_set: str | None = None

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {
            "ncu_version": self.ncu_version,
            "cuda_version": self.cuda_version,
            "driver_version": self.driver_version,
            "created_unix_s": self.created_unix_s,
            "command": self.command,
            "clock_control": self.clock_control,
            "cache_control": self.cache_control,
            "replay_mode": self.replay_mode,
            "metric_set": self.metric_set,
        }


@dataclass
class NcuReport:
    """A report as read.

    Attributes:
        form: `ncu-rep`, `csv-wide`, `csv-long`, `csv-summary` or `text`.
        launches: those that were read.
        in_file: how many results the file holds.
        names: base name -> launches of it in the file (all of them, also those not read).
        capped: why not every launch was read, or None.
        lost: what of the file could not be used, in words.
    """

    path: str
    form: str
    launches: list[Launch] = field(default_factory=list[Launch])
    session: Session = field(default_factory=Session)
    in_file: int = 0
    names: dict[str, int] = field(default_factory=dict[str, int])
    capped: str | None = None
    lost: list[str] = field(default_factory=list[str])
