"""The simulated error rates of the decision, and that the simulation decides as the decision does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benches import bench_gap
from infer_forge.bench import stats

near: Any = pytest.approx  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def test_the_simulation_decides_as_the_library() -> None:
    logs = np.random.default_rng(7).normal(-0.01, 0.012, (300, 8))
    alpha = stats.ALPHA / len(stats.LOOKS)
    one_by_one = [stats.decide(stats.interval(list(row), alpha), bench_gap.DELTA) for row in logs]
    assert bench_gap.at_look(logs).tolist() == one_by_one


@pytest.mark.parametrize(("gap", "share"), [(0.0, 0.01), (-1.0, 0.025)])
def test_false_behind_stays_within_its_bound(gap: float, share: float) -> None:
    assert bench_gap.plan_rates(gap, 1.0, trials=60_000)["behind"] <= share


def test_a_true_gap_of_three_percent_is_found_within_twelve_launches() -> None:
    assert bench_gap.plan_rates(-3.0, 1.0, trials=60_000)["behind"] >= 0.95


def test_the_rules_of_others_fail_as_often_as_stated() -> None:
    assert bench_gap.single_run_rate(0.0, 1.0) == near(0.24, abs=0.01)
    assert bench_gap.keep_plus_rebench_rate(1.0) == near(0.15, abs=0.01)
    assert bench_gap.peeking_rate(-1.0, 1.0) > 0.08
