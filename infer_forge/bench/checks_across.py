"""Checks that look at all rows together: one result given twice, first-run outliers, other clients, other token totals.

`ACROSS` has them by name; each yields the index of a row and the evidence.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infer_forge.bench.checks import Context
    from infer_forge.bench.model import Row

AcrossCheck = Callable[["Context"], Iterator[tuple[int, str]]]

ACROSS: dict[str, AcrossCheck] = {}


def _across(function: AcrossCheck) -> AcrossCheck:
    ACROSS[function.__name__] = function
    return function


@_across
def duplicate(context: Context) -> Iterator[tuple[int, str]]:
    """One record given twice, under whatever names."""
    for index, first in twins(context.rows):
        yield index, same_as(context.rows[first])


def twins(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Indices of rows that are one measurement with another row: (the copy, the one that counts).

    What counts is the record in the file with the fewest records, then the first: a file that collects others (a sweep's
    summary, appended runs) makes no launch of its own.
    """
    alike: dict[str, list[int]] = defaultdict(list)
    sizes = Counter(row.source.path for row in rows if row.source is not None)
    for index, row in enumerate(rows):
        if row.source is not None and row.source.sha256:
            alike[row.source.content_sha256 or f"{row.source.sha256}#{row.source.record}"].append(index)
    found: list[tuple[int, int]] = []
    for members in alike.values():
        first = min(members, key=lambda i: sizes[_path(rows[i])])
        found += [(index, first) for index in members if index != first]
    return sorted(found)


def same_as(row: Row) -> str:
    """The sentence that names the row that a copy is of."""
    return f"the same content as {row.label()}"


def _path(row: Row) -> str:
    return row.source.path if row.source is not None else ""


def series_key(row: Row) -> tuple[Any, ...]:
    """Rows of one candidate in one scenario: what repeats are repeats of."""
    w = row.workload
    size = tuple(
        round(v) if v is not None else None
        for v in (w.measured_input_len_mean_tokens, w.measured_output_len_mean_tokens)
    )
    return (
        row.framework,
        row.candidate_id,
        row.model,
        row.tool,
        w.kind,
        w.scenario,
        w.max_concurrency,
        w.request_rate_per_s,
        w.num_prompts,
        size,
    )


@_across
def first_run(context: Context) -> Iterator[tuple[int, str]]:
    """The first launch of a series stands apart from all later ones."""
    series: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for index, row in enumerate(context.rows):
        if row.status == "ok":
            series[series_key(row)].append(index)
    for members in series.values():
        evidence = outlier([context.rows[i] for i in members], context.thresholds)
        if evidence is not None:
            yield members[0], evidence


_OUTLIER_METRICS = (
    ("metrics.ttft_ms.p50", "p50 TTFT", "ms"),
    ("metrics.output_token_throughput_per_s", "output tokens/s", ""),
    ("metrics.tpot_ms.p50", "p50 TPOT", "ms"),
    ("metrics.e2e_ms.p50", "p50 latency", "ms"),
    ("diffusion.end_to_end_ms", "end to end", "ms"),
)


def outlier(rows: list[Row], limits: dict[str, float]) -> str | None:
    """Whether the first of at least three runs is an outlier against the others, and in which figure most."""
    if len(rows) < 3:
        return None
    worst: tuple[float, str] | None = None
    for path, name, unit in _OUTLIER_METRICS:
        values = [row.value(path) for row in rows]
        if any(not isinstance(v, (int, float)) or v <= 0 for v in values):
            continue
        logs = [math.log(v) for v in values]
        rest = logs[1:]
        shift = logs[0] - statistics.median(rest)
        spread = max(rest) - min(rest)
        if abs(shift) * 100.0 > limits["first_run_shift_pct"] and abs(shift) > limits["first_run_spreads"] * spread:
            text = (
                f"{name} {values[0]:.1f} {unit}".rstrip()
                + f" in the first run, {', '.join(f'{v:.1f}' for v in values[1:])} later"
            )
            if worst is None or abs(shift) > worst[0]:
                worst = (abs(shift), text)
    return worst[1] if worst else None


@_across
def client_differs(context: Context) -> Iterator[tuple[int, str]]:
    """Two load generators, or two versions of one, in one comparison."""
    seen: tuple[str, str] | None = None
    for index, row in enumerate(context.rows):
        name = row.client.sha256 or " ".join(p for p in (row.client.name, row.client.version) if p)
        if not name or row.framework is None:
            continue
        if seen is not None and seen[1] != name and seen[0] != row.framework:
            yield index, f"client {name}, {seen[0]} was measured with {seen[1]}"
        seen = seen or (row.framework, name)


@_across
def tokens_differ(context: Context) -> Iterator[tuple[int, str]]:
    """Token totals a request between frameworks in one named scenario."""
    limit = context.thresholds["cross_framework_tokens_pct"]
    first: dict[tuple[str, Any], Row] = {}
    for index, row in enumerate(context.rows):
        w = row.workload
        if w.scenario is None or row.framework is None or row.status != "ok":
            continue
        base = first.setdefault((w.scenario, w.max_concurrency), row)
        for name in ("measured_input_len_mean_tokens", "measured_output_len_mean_tokens"):
            a, b = getattr(w, name), getattr(base.workload, name)
            if a is not None and b and base.framework != row.framework and abs(a / b - 1.0) * 100.0 > limit:
                yield index, f"{name.split('_')[1]} {a:.1f} tokens a request, {base.framework} had {b:.1f}"
                break
