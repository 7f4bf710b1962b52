"""The statistics against known values, and the check vectors of the decision."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_forge.bench import stats

near: Any = pytest.approx  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

DELTA = math.log1p(0.01)
LOOK_ALPHA = 0.05 / 3


@pytest.mark.parametrize(
    ("p", "df", "wanted"),
    [
        (0.975, 1, 12.706205), (0.975, 4, 2.776445), (0.975, 11, 2.200985), (0.995, 9, 3.249836), (0.95, 30, 1.697261),
        (0.975, 1e7, 1.959964), (0.9999, 2, 70.700071), (0.5, 3, 0.0), (0.025, 4, -2.776445),
    ],
)  # fmt: skip
def test_t_quantiles_are_those_of_the_tables(p: float, df: float, wanted: float) -> None:
    assert stats.t_quantile(p, df) == near(wanted, abs=2e-6)


def test_the_three_looks_have_their_quantiles() -> None:
    found = [round(stats.t_quantile(1 - LOOK_ALPHA / 2, n - 1), 3) for n in stats.LOOKS]
    assert found == [3.961, 3.128, 2.820]


@given(st.floats(0.501, 0.9999), st.integers(1, 200))
def test_the_quantile_inverts_the_tail(p: float, df: int) -> None:
    assert stats.t_sf(stats.t_quantile(p, df), df) == near(1 - p, abs=1e-9)


VECTORS = [
    ([100, 101, 99, 100, 100], [103, 104, 102, 103, 103.5], "behind", -3.007, -3.380, -2.632, None),
    ([100, 100.2, 99.9, 100.1, 100], [100, 100.1, 100, 100.05, 99.95], "tie", 0.020, -0.114, 0.154, None),
    ([98.5, 101, 100, 99, 101.5], [100] * 5, "inconclusive", -0.007, -2.239, 2.277, 7),
    ([105, 104, 106, 105, 105.5], [100] * 5, "ahead", 5.098, 3.791, 6.421, None),
    ([98.2, 98.9, 98.5, 98.8, 98.4], [100] * 5, "inconclusive", -1.440, -1.949, -0.929, 3),
]


@pytest.mark.parametrize(("target", "other", "verdict", "mean", "low", "high", "missing"), VECTORS)
def test_check_vectors_of_the_decision(
    target: list[float], other: list[float], verdict: str, mean: float, low: float, high: float, missing: int | None
) -> None:
    ci = stats.interval(stats.paired_logs(target, other), LOOK_ALPHA)
    assert stats.decide(ci, DELTA) == verdict
    assert (round(ci.mean_pct, 3), round(ci.low_pct, 3), round(ci.high_pct, 3)) == (mean, low, high)
    if missing is not None:
        assert stats.runs_missing(ci, DELTA, 5, stats.LOOKS) == missing


def test_launches_needed_before_rounding_are_thirteen_and_six() -> None:
    found = [
        stats.launches_needed(stats.interval(stats.paired_logs(v[0], v[1]), LOOK_ALPHA), DELTA)
        for v in (VECTORS[2], VECTORS[4])
    ]
    assert found == [13, 6]


def test_past_the_last_look_nothing_is_missing() -> None:
    ci = stats.interval([0.02, -0.02] * 6, LOOK_ALPHA)
    assert stats.decide(ci, DELTA) == "inconclusive"
    assert stats.runs_missing(ci, DELTA, 12, stats.LOOKS) is None


def test_a_mean_on_the_threshold_needs_more_launches_than_anyone_has() -> None:
    ci = stats.interval([-DELTA - 0.01, -DELTA + 0.01, -DELTA - 0.01, -DELTA + 0.01], LOOK_ALPHA)
    assert stats.launches_needed(ci, DELTA) is None
    assert stats.runs_missing(ci, DELTA, 5, stats.LOOKS) == 7


def test_latencies_are_turned_round() -> None:
    assert stats.paired_logs([10.0], [20.0], higher_is_better=False)[0] == near(math.log(2))


def test_holm_adjusts_the_smallest_most_and_never_falls() -> None:
    assert stats.holm([0.01, 0.04, 0.03]) == near([0.03, 0.06, 0.06])
    assert stats.holm([]) == []


def test_one_sided_p_values_agree_with_the_interval() -> None:
    values = stats.paired_logs(VECTORS[0][0], VECTORS[0][1])
    assert stats.p_behind(values, DELTA) < LOOK_ALPHA / 2


@given(st.lists(st.floats(-0.05, 0.05), min_size=5, max_size=12))
def test_a_verdict_of_the_mirrored_data_is_mirrored(values: list[float]) -> None:
    pairs = {"behind": "ahead", "ahead": "behind", "tie": "tie"}
    here = stats.decide(stats.interval(values, LOOK_ALPHA), DELTA)
    there = stats.decide(stats.interval([-v for v in values], LOOK_ALPHA), DELTA)
    if here in pairs and there in pairs:
        assert there == pairs[here]
    if here == "behind":
        assert there in ("ahead", "not_behind")
