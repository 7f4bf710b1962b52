"""Rows into scenarios, and the rows of one side of a scenario into launches: the units of the gap decision.

A scenario is named by a key (`--scenario-key`, a dotted row field or a workload parameter), by the row's own scenario,
or else by dataset, measured lengths and load. Lengths that differ by up to 5 % are the same scenario, so that unequal
token totals are seen as such and not as two scenarios.

The unit of independence is one server launch. Repeats inside one launch are averaged: they are not independent. Runs
without a `launch_id` count as one launch a file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from infer_forge.base.errors import UsageFault

if TYPE_CHECKING:
    from infer_forge.bench.metrics import Metric
    from infer_forge.bench.model import Row

_LENGTH_TOLERANCE = 0.05
_SIZES = ("measured_input_len_mean_tokens", "measured_output_len_mean_tokens")


@dataclass
class Launch:
    """Runs of one server launch in one scenario."""

    key: str
    rows: list[Row]
    order: int

    def mean(self, metric: Metric) -> float | None:
        """Mean of the metric over the launch's runs; None when any run lacks it."""
        values = [metric.of(row) for row in self.rows]
        known = [v for v in values if v is not None]
        return sum(known) / len(known) if known and len(known) == len(values) else None

    @property
    def block(self) -> str | None:
        """Id of the ABBA block, when recorded."""
        return self.rows[0].block_id

    @property
    def position(self) -> int:
        """Place in the block; the given order where none is recorded."""
        place = self.rows[0].block_position
        return place if place is not None else self.order

    @property
    def started_at(self) -> str | None:
        """Start of its first run."""
        return self.rows[0].started_at


@dataclass
class Scenario:
    """One scenario: its name, its load, and the rows of every side."""

    name: str
    concurrency: int | None
    group: str
    sides: dict[str, list[Row]] = field(default_factory=dict[str, "list[Row]"])


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f}"


def _load(row: Row) -> tuple[Any, ...]:
    w = row.workload
    return (row.kind, w.max_concurrency, w.request_rate_per_s)


def _same_size(a: Row, b: Row) -> bool:
    for name in _SIZES:
        x, y = getattr(a.workload, name), getattr(b.workload, name)
        if (x is None) != (y is None):
            return False
        if x is not None and y is not None and abs(x - y) > _LENGTH_TOLERANCE * max(abs(x), abs(y)):
            return False
    if a.kind == "diffusion":
        return generated(a) == generated(b)
    if a.kind != "serving":
        return (a.workload.input_len_label_tokens, a.workload.output_len_label_tokens, a.workload.num_prompts) == (
            b.workload.input_len_label_tokens, b.workload.output_len_label_tokens, b.workload.num_prompts)  # fmt: skip
    return True


def generated(row: Row) -> tuple[Any, ...]:
    """What was generated: the workload of a diffusion row. How (parallelism, offload, compile) is the candidate's affair."""
    d = row.diffusion
    if d is None:
        return ()
    model = (row.model or "").rstrip("/").split("/")[-1].lower()
    return (model, d.width, d.height, d.frames, d.steps, d.guidance_scale, d.seed)


def _dataset_fits(a: Row, b: Row) -> bool:
    x, y = a.workload.kind, b.workload.kind
    return x is None or y is None or x == y


def _diffusion_name(row: Row) -> str:
    d = row.diffusion
    if d is None:
        return "diffusion"
    frames = f"x{d.frames}f" if d.frames is not None else ""
    more = [
        f"{label} {value:g}" for label, value in (("guidance", d.guidance_scale), ("seed", d.seed)) if value is not None
    ]
    return " ".join(
        [f"{row.model or 'model'} {_number(d.width)}x{_number(d.height)}{frames} {_number(d.steps)} steps", *more]
    )


def _group_name(row: Row) -> str:
    w = row.workload
    if row.kind == "diffusion":
        return _diffusion_name(row)
    if row.kind == "offline_batch":
        return (
            f"batch {_number(w.num_prompts)} {_number(w.input_len_label_tokens)}/{_number(w.output_len_label_tokens)}"
        )
    name = f"{w.kind or 'workload'} {_number(w.measured_input_len_mean_tokens)}/{_number(w.measured_output_len_mean_tokens)}"
    return f"{name} at {w.request_rate_per_s:g} req/s" if w.request_rate_per_s is not None else name


def _keyed(row: Row, key: str) -> str:
    value = row.value(key)
    if value is None:
        value = row.workload.parameters.get(key, row.workload.model_dump().get(key))
    if value is None:
        raise UsageFault(
            f"the scenario key {key!r} is not in {row.label()}",
            next_step="name a dotted row field, or a key that the driver added to every result",
        )
    return str(value)


def split(sides: dict[str, Sequence[Row]], key: str | None = None) -> list[Scenario]:
    """Scenarios of all sides, in the order in which they are first seen.

    Raises:
        UsageFault: `key` is missing in a row.
    """
    found: list[tuple[Row, Scenario]] = []
    for side, rows in sides.items():
        for row in rows:
            scenario = _home(row, found, key)
            scenario.sides.setdefault(side, []).append(row)
    scenarios = [s for _, s in found]
    _distinct_names(scenarios)
    return scenarios


def _home(row: Row, found: list[tuple[Row, Scenario]], key: str | None) -> Scenario:
    w = row.workload
    group = _keyed(row, key) if key is not None else w.scenario or ""
    for first, scenario in found:
        if group:
            if scenario.group == group and (key is not None or scenario.concurrency == w.max_concurrency):
                return scenario
        elif (
            not first.workload.scenario
            and _load(first) == _load(row)
            and _same_size(first, row)
            and _dataset_fits(first, row)
        ):
            return scenario
    group = group or _group_name(row)
    name = group if key is not None or w.max_concurrency is None else f"{group} c{w.max_concurrency}"
    scenario = Scenario(name, w.max_concurrency, group)
    found.append((row, scenario))
    return scenario


def _distinct_names(scenarios: list[Scenario]) -> None:
    seen: dict[str, int] = {}
    for scenario in scenarios:
        seen[scenario.name] = seen.get(scenario.name, 0) + 1
        if seen[scenario.name] > 1:
            scenario.name = f"{scenario.name} ({seen[scenario.name]})"


def launches(rows: Sequence[Row], *, per: str = "file") -> list[Launch]:
    """Rows of one side of one scenario as launches, in order of their start where all are known, else as given.

    Args:
        per: `file` (runs of one file without a launch id are repeats of one launch) or `row` (each run is a launch: the
            caller vouches for it).
    """
    groups: dict[str, Launch] = {}
    for order, row in enumerate(rows):
        key = _launch_key(row, order, per)
        if key in groups:
            groups[key].rows.append(row)
        else:
            groups[key] = Launch(key, [row], order)
    out = list(groups.values())
    if all(launch.started_at for launch in out):
        out.sort(key=lambda launch: (str(launch.started_at), launch.order))
    return out


def _launch_key(row: Row, order: int, per: str) -> str:
    if row.launch_id:
        return f"{row.run_id or ''}/{row.launch_id}"
    if per == "row" or row.source is None:
        return f"row {order}"
    return os.path.realpath(row.source.path)


AS_GIVEN = "in the order given"
"""How launches are paired that do not say when they ran: another order of the files gives other pairs."""


@dataclass
class Paired:
    """Target and competitor launches, pair by pair, and what was left over."""

    pairs: list[tuple[Launch, Launch]]
    how: str
    left_over: int


def pair(target: Sequence[Launch], other: Sequence[Launch]) -> Paired:
    """Pair launches inside their ABBA blocks where blocks are recorded, else first with first."""
    if all(launch.block for launch in (*target, *other)) and target and other:
        pairs: list[tuple[Launch, Launch]] = []
        blocks = dict.fromkeys(launch.block for launch in target)
        for block in blocks:
            mine = sorted((x for x in target if x.block == block), key=lambda x: x.position)
            theirs = sorted((x for x in other if x.block == block), key=lambda x: x.position)
            pairs += list(zip(mine, theirs, strict=False))
        how = "inside ABBA blocks"
    else:
        pairs = list(zip(target, other, strict=False))
        timed = all(launch.started_at for launch in (*target, *other))
        how = "in order of start" if timed else AS_GIVEN
    return Paired(pairs, how, len(target) + len(other) - 2 * len(pairs))
