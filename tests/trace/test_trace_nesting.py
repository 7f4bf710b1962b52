"""The innermost interval around a moment."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from infer_forge.trace.nesting import innermost, innermost_by_thread


def _tree(rnd: random.Random, start: int, end: int, depth: int, out: list[tuple[int, int]]) -> None:
    out.append((start, end))
    at = start
    while depth and at < end:
        a = at + rnd.randrange(5)
        b = a + rnd.randrange(max(1, (end - start) // 3 + 1))
        if b > end or a >= end:
            break
        _tree(rnd, a, b, depth - 1, out)
        at = b


@given(st.integers(0, 1 << 30))
def test_it_is_the_shortest_interval_that_is_open(seed: int) -> None:
    rnd = random.Random(seed)
    spans: list[tuple[int, int]] = []
    _tree(rnd, 0, rnd.randrange(1, 200), 4, spans)
    rnd.shuffle(spans)
    moments = [rnd.randrange(-3, 210) for _ in range(40)]
    starts, ends = (np.array(c, np.int64) for c in zip(*spans, strict=True))
    found = innermost(starts, ends, np.array(moments, np.int64)).tolist()
    for moment, at in zip(moments, found, strict=True):
        opened = [b - a for a, b in spans if a <= moment < b or a == moment]
        assert (at == -1) if not opened else (spans[at][1] - spans[at][0] == min(opened))


def test_threads_do_not_see_each_other() -> None:
    threads = np.array([1, 2], np.int32)
    starts, ends = np.array([0, 0], np.int64), np.array([10, 4], np.int64)
    asked = np.array([2, 1, 3, 2], np.int32)
    found = innermost_by_thread(threads, starts, ends, asked, np.array([2, 2, 2, 5], np.int64))
    assert found.tolist() == [1, 0, -1, -1]


def test_nothing_is_found_in_nothing() -> None:
    none = np.empty(0, np.int64)
    assert innermost(none, none, np.array([1], np.int64)).tolist() == [-1]
    assert len(innermost(np.array([1], np.int64), np.array([2], np.int64), none)) == 0
