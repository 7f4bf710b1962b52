"""Which interval of a nested set is the innermost around a moment, for many moments at once, without a Python loop over events."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]


def picked(values: npt.NDArray[Any], at: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`values[at]`, and -1 where `at` is -1."""
    if not len(values):
        return np.full(len(at), -1, values.dtype)
    return np.where(at >= 0, values[np.maximum(at, 0)], -1)


def innermost(starts: I64, ends: I64, moments: I64) -> I64:
    """For each moment the index of the innermost interval with start <= moment < end (or both equal), -1 where none.

    Args:
        starts, ends: intervals that nest, as calls on one thread do (a child that outlives its parent by rounding is fine).
        moments: in any order.

    Logarithmic in the number of intervals; the number of rounds is the nesting depth that the moments meet.
    """
    found = np.full(len(moments), -1, np.int64)
    if not len(starts) or not len(moments):
        return found
    order = np.lexsort((-ends, starts))
    begin, end = starts[order], ends[order]
    parent = _parents(begin, end)
    open_at = np.searchsorted(begin, moments, "right") - 1
    todo = np.flatnonzero(open_at >= 0)
    at = open_at[todo]
    while len(todo):
        inside = (end[at] > moments[todo]) | (begin[at] == moments[todo])
        found[todo[inside]] = at[inside]
        todo, at = todo[~inside], parent[at[~inside]]
        keep = at >= 0
        todo, at = todo[keep], at[keep]
    return np.where(found >= 0, order[found], -1)


def _parents(begin: I64, end: I64) -> I64:
    """Index of the interval around each interval (sorted by start, longer first), -1 at the top."""
    count = len(begin)
    level = np.arange(count) - np.searchsorted(np.sort(np.maximum(end, begin + 1)), begin, "right")
    np.maximum(level, 0, out=level)
    parent = np.full(count, -1, np.int64)
    by_level = np.argsort(level, kind="stable")
    bounds = np.searchsorted(level[by_level], np.arange(int(level.max()) + 2))
    above = by_level[bounds[0] : bounds[1]]
    for depth in range(1, len(bounds) - 1):
        here = by_level[bounds[depth] : bounds[depth + 1]]
        if len(above) and len(here):
            before = np.searchsorted(above, here) - 1
            parent[here] = np.where(before >= 0, above[before], -1)
        above = here if len(here) else above
    return parent


def innermost_by_thread(
    threads: npt.NDArray[np.int32], starts: I64, ends: I64, at_thread: npt.NDArray[np.int32], moments: I64
) -> I64:
    """`innermost`, each moment among the intervals of its own thread; returns row numbers of the intervals, -1 where none."""
    found = np.full(len(moments), -1, np.int64)
    wanted = np.unique(at_thread)
    rows = np.flatnonzero(np.isin(threads, wanted))
    by_thread = rows[np.argsort(threads[rows], kind="stable")]
    left = np.searchsorted(threads[by_thread], wanted, "left")
    right = np.searchsorted(threads[by_thread], wanted, "right")
    asked = np.argsort(at_thread, kind="stable")
    first = np.searchsorted(at_thread[asked], wanted, "left")
    last = np.searchsorted(at_thread[asked], wanted, "right")
    for k in range(len(wanted)):
        mine, ask = by_thread[left[k] : right[k]], asked[first[k] : last[k]]
        if len(mine):
            hit = innermost(starts[mine], ends[mine], moments[ask])
            found[ask] = np.where(hit >= 0, mine[hit], -1)
    return found
