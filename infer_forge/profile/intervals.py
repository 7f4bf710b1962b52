"""Arithmetic on intervals of device time: unions, overlaps, how many groups are active. All of it is numpy, int64 ns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Spans(NamedTuple):
    """Intervals: starts, ends, and the group of each."""

    start: I64
    end: I64
    group: I64


def _empty() -> I64:
    return np.empty(0, np.int64)


def merge(start: I64, end: I64, group: npt.NDArray[np.integer] | None = None) -> Spans:
    """Union within each group: disjoint intervals, ordered by group, then start. O(n log n).

    Touching intervals are joined; an interval of length zero survives only where nothing touches it.
    """
    if not len(start):
        return Spans(_empty(), _empty(), _empty())
    groups = np.zeros(len(start), np.int64) if group is None else group.astype(np.int64)
    low = int(start.min())
    step = int(max(end.max(), start.max())) - low + 2
    shifted = start - low + groups * step
    order = np.argsort(shifted, kind="stable")  # traces are nearly sorted, which the stable sort turns into speed
    first, last = shifted[order], (end - low + groups * step)[order]
    reach = np.maximum.accumulate(last)
    opens = np.ones(len(first), np.bool_)
    opens[1:] = first[1:] > reach[:-1]
    heads = np.flatnonzero(opens)
    tails = np.append(heads[1:], len(first)) - 1
    owner = groups[order][heads]
    back = low - owner * step
    return Spans(first[heads] + back, reach[tails] + back, owner)


def total(spans: Spans) -> int:
    """Summed length."""
    return int((spans.end - spans.start).sum())


def by_group(spans: Spans, groups: int) -> I64:
    """Summed length of each group 0..groups-1."""
    out = np.zeros(groups, np.int64)
    np.add.at(out, spans.group, spans.end - spans.start)
    return out


def covered(spans: Spans, start: I64, end: I64) -> I64:
    """How much of each interval the spans cover. The spans must be one merged group."""
    if not len(spans.start):
        return np.zeros(len(start), np.int64)
    return _before(spans, end) - _before(spans, start)


def _before(spans: Spans, at: I64) -> I64:
    """Length of the spans that lies before each time."""
    sums = np.concatenate(([0], np.cumsum(spans.end - spans.start)))
    index = np.searchsorted(spans.start, at, "right") - 1
    safe = np.maximum(index, 0)
    inside = np.minimum(at, spans.end[safe]) - spans.start[safe]
    return np.where(index < 0, 0, sums[safe] + np.maximum(inside, 0))


def single(spans: Spans) -> Spans:
    """The times in which exactly one group is active, as disjoint intervals in order (their group is 0).

    The spans are unions by group (`merge`), so intervals of one group never overlap. One sweep: O(n log n).
    """
    count = len(spans.start)
    if not count:
        return Spans(_empty(), _empty(), _empty())
    order = np.argsort(spans.start, kind="stable")
    start, end = spans.start[order], spans.end[order]
    if bool((start[1:] >= end[:-1]).all()):  # nothing overlaps: the usual case of one stream
        return Spans(start, end, np.zeros(count, np.int64))
    times = np.concatenate((spans.start, spans.end))
    delta = np.concatenate((np.ones(count, np.int64), -np.ones(count, np.int64)))
    order = np.argsort(times, kind="stable")
    times, active = times[order], np.cumsum(delta[order])
    one = np.flatnonzero(active[:-1] == 1)
    return Spans(times[one], times[one + 1], np.zeros(len(one), np.int64))
