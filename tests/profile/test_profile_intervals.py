"""Arithmetic on intervals, held against a naive count of single nanoseconds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from infer_forge.profile import intervals

ITEMS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(0, 15)), max_size=25)


def columns(items: list[tuple[int, int, int]]) -> tuple[intervals.I64, intervals.I64, intervals.I64]:
    group = np.array([g for g, _, _ in items], np.int64)
    start = np.array([s for _, s, _ in items], np.int64)
    return group, start, start + np.array([d for _, _, d in items], np.int64)


def ticks(items: list[tuple[int, int, int]]) -> dict[int, set[int]]:
    out: dict[int, set[int]] = {}
    for group, start, length in items:
        out.setdefault(group, set()).update(range(start, start + length))
    return out


@given(ITEMS)
def test_a_union_by_group_covers_what_its_members_cover(items: list[tuple[int, int, int]]) -> None:
    group, start, end = columns(items)
    sums = intervals.by_group(intervals.merge(start, end, group), 4)
    assert sums.tolist() == [len(ticks(items).get(g, set())) for g in range(4)]


@given(ITEMS)
def test_a_union_is_disjoint_and_in_order(items: list[tuple[int, int, int]]) -> None:
    group, start, end = columns(items)
    spans = intervals.merge(start, end, group)
    same = spans.group[1:] == spans.group[:-1]
    assert bool((spans.start[1:][same] > spans.end[:-1][same]).all())
    assert bool((np.diff(spans.group) >= 0).all())


@given(ITEMS, ITEMS)
def test_coverage_is_the_intersection(items: list[tuple[int, int, int]], asked: list[tuple[int, int, int]]) -> None:
    _, start, end = columns(items)
    _, low, high = columns(asked)
    found = intervals.covered(intervals.merge(start, end), low, high)
    everything = {tick for covered in ticks(items).values() for tick in covered}
    assert found.tolist() == [len(everything & set(range(s, s + d))) for _, s, d in asked]


@given(ITEMS)
def test_single_times_are_those_with_exactly_one_group(items: list[tuple[int, int, int]]) -> None:
    group, start, end = columns(items)
    found = intervals.single(intervals.merge(start, end, group))
    active: dict[int, int] = {}
    for covered in ticks(items).values():
        for tick in covered:
            active[tick] = active.get(tick, 0) + 1
    assert intervals.total(found) == sum(1 for n in active.values() if n == 1)
    assert bool((found.end >= found.start).all())


def test_times_of_a_real_clock_do_not_overflow() -> None:
    start = np.array([1_790_000_000_000_000_000, 1_790_000_000_000_000_500], np.int64)
    assert intervals.total(intervals.merge(start, start + 1000, np.array([3000, 3000]))) == 1500
