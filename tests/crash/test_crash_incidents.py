"""Incidents of many ranks with a known cause: the class and rank are found, and no wrong culprit is ever named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from infer_forge.crash import triage
from tests.crash.crash_maker import KINDS, Truth, make, write


def judged(seed: int, folder: Path, kind: str | None = None, noise: int | None = None) -> tuple[bool, bool, str]:
    """(right class and rank, wrong culprit named, what was said)."""
    incident = make(seed, kind, noise=noise)
    found = triage([write(incident, folder, seed)]).extra
    truth: Truth = incident.truth
    right = found["class"] in truth.classes and (truth.any_rank or found["rank"] == truth.rank)
    named = [x for x in (found["kernel"], found["api"]) if x]
    sure = found["certainty"] in ("proven", "bounded")
    other_rank = found["rank"] is not None and truth.rank is not None and found["rank"] != truth.rank
    wrong = sure and (any(n not in truth.culprits for n in named) or other_rank)
    said = (
        f"seed {seed} {incident.kind}/{incident.style}: {found['class']} "
        f"rank {found['rank']} {found['certainty']} {named}, true {truth}"
    )
    return right, wrong, said


@pytest.mark.parametrize("kind", list(KINDS))
def test_each_kind_of_incident_is_told_with_its_rank(kind: str, tmp_path: Path) -> None:
    for seed in range(2):
        right, wrong, said = judged(seed, tmp_path / str(seed), kind, noise=60)
        assert right, said
        assert not wrong, said


@pytest.mark.stress
def test_generated_incidents_give_the_class_and_rank_and_never_a_wrong_culprit(
    tmp_path: Path, stress_count: Callable[[int], int]
) -> None:
    rounds = stress_count(400)
    results = [judged(1000 + i, tmp_path / str(i)) for i in range(rounds)]
    assert not [said for _, wrong, said in results if wrong]
    missed = [said for right, _, said in results if not right]
    assert len(missed) <= rounds * 0.02, missed[:5]


@pytest.mark.stress
def test_a_hundred_thousand_lines_of_noise_hide_nothing(tmp_path: Path, stress_count: Callable[[int], int]) -> None:
    for i in range(stress_count(20)):
        right, wrong, said = judged(7000 + i, tmp_path / str(i), noise=100_000)
        assert right, said
        assert not wrong, said
