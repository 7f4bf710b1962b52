"""Borders between passes where nothing of a head or tail stands between them: a middle rank of a pipeline, a bare stack of layers.

What is left is the launch structure: another graph launch, or a gap far longer than the gaps between layers. A border counts only
where it cuts the run into passes of the same number of layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from infer_forge.pipeline.number import Rough
from infer_forge.pipeline.roles import numbers
from infer_forge.trace.columns import I64
from infer_forge.trace.model import Trace


def between_layers(trace: Trace, layers: Sequence[Rough], rows: I64) -> list[int]:
    """Indices of layers that begin a pass; empty where the launch structure shows no passes.

    Args:
        layers: layers in order, of one run without a breaker. rows: the run's rows, ascending by start.
    """
    if len(layers) < numbers("borders")["layers"]:
        return []
    first = np.array([layer.halves[0].rows[0] for layer in layers], np.int64)
    for found in (_launches(trace, first), _gaps(trace, first, rows)):
        if _even(found, len(layers)):
            return found
    return []


def agreed(runs: Sequence[tuple[int, list[int]]]) -> list[list[int]]:
    """The borders of each run, none where most runs of as many layers have none: those of one are gaps that lost kernels left.

    Args:
        runs: layers of each run, and its borders.
    """
    alike, cut = Counter(n for n, _ in runs), Counter(n for n, borders in runs if borders)
    return [borders if 2 * cut[n] > alike[n] else [] for n, borders in runs]


def _launches(trace: Trace, first: I64) -> list[int]:
    """Layers that begin in another graph launch than the one before; none where a layer was launched alone."""
    work = trace.work
    if not bool(work.graph[first].all()):
        return []
    launch = work.correlation[first]
    return [k for k in range(1, len(first)) if launch[k] != launch[k - 1]]


def _gaps(trace: Trace, first: I64, rows: I64) -> list[int]:
    """Layers that begin behind a gap on the device far longer than the usual one before a layer."""
    work, limits = trace.work, numbers("borders")
    reach = np.maximum.accumulate(work.ts_ns[rows] + work.dur_ns[rows])
    at = np.searchsorted(rows, first)
    gap = np.where(at > 0, work.ts_ns[first] - reach[np.maximum(at - 1, 0)], 0)[1:]
    bar = max(1000 * limits["gap_us"], limits["gap_ratio"] * float(np.median(np.maximum(gap, 0))))
    return (np.flatnonzero(gap > bar) + 1).tolist()


def _even(borders: list[int], layers: int) -> bool:
    """Whether the passes between borders are equal, and at least two of them; the first and the last may be cut."""
    if not borders:
        return False
    sizes: list[int] = np.diff([0, *borders, layers]).tolist()
    whole = sizes[1:-1] or sizes
    size, often = Counter(whole).most_common(1)[0]
    if len(borders) == 1 and size < numbers("borders")["lone"]:
        return False
    most = often >= max(2, numbers("borders")["equal"] * len(whole))  # one alone is equal to nothing
    return size >= 2 and most and max(sizes[0], sizes[-1]) <= size
