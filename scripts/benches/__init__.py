"""Benchmarks, one module a room. Each exposes `BENCHES: dict[str, Callable[[], list[Row]]]` (name -> function).

A row states a figure beside its goal, and the baseline that was run in the same call:

    Row(work="triage of 1M events", goal="at most 0.3 x json.load", figure=0.19, unit="x", baseline="json.load 6.4 s", ok=True)

`goals.yaml` lists the work and goal of every row, so that the page names also what was not measured; a run is held against it.
`scripts/bench` lists the benchmarks, `scripts/bench NAME ... --out docs/benchmarks.md` runs some and brings their rows up to date.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One measured line: what was done, the goal in words, the figure with unit, what it was held against, whether it holds.

    `work` and `goal` are those of `goals.yaml`. `ok` is None where the machine cannot tell (something that the measurement
    needs is absent) or where there is no goal; `note` says why.
    """

    work: str
    goal: str
    figure: float | None
    unit: str
    baseline: str
    ok: bool | None
    note: str = ""
