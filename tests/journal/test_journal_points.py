"""Results are kept by deployment point: another point, or no contract at all, is never one measurement with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.contracts import point_of
from infer_forge.base.gitstore import Store
from infer_forge.journal import add, build_wiki, compare_records, group_records, lint_wiki, surface_records
from tests.journal.journal_records import POINT, at_another_point, result


@pytest.mark.parametrize(
    ("layer", "change"),
    [
        ("accelerator_platform", {"gpu_model": "B200"}),
        ("accelerator_platform", {"gpu_count": 2}),
        ("serving_topology", {"tp": 2}),
        ("model", {"precision": "fp8"}),
    ],
)
def test_the_same_patch_at_two_points_is_two_results(store: Store, layer: str, change: dict[str, Any]) -> None:
    good, bad = add(store, [result(140.0), at_another_point(90.0, layer, **change)])
    report = compare_records(store, [good, bad])
    assert report.tables["records"].dicts()[1]["ratio_to_first"] is None
    assert f"{layer}.{next(iter(change))}" in [r[1] for r in report.tables["differences"].rows]
    groups = group_records(store, [good, bad], "framework").tables["groups"].dicts()
    assert {(r["group"], r["value"]) for r in groups} == {(1, 140.0), (2, 90.0)}
    surfaced = surface_records(store, point=point_of(POINT)).tables["surfaced"].rows
    assert [r[1] for r in surfaced] == [good]


def test_results_without_a_contract_are_never_known_to_be_one_measurement(store: Store) -> None:
    ids = add(store, [result(140.0, contract_sha256=None), result(90.0, contract_sha256=None)])
    report = compare_records(store, ids)
    assert not report.extra["comparable"]
    assert report.tables["records"].dicts()[1]["ratio_to_first"] is None
    assert [r[1] for r in report.tables["differences"].rows] == ["contract"]


def test_one_point_in_two_spellings_is_one_point_to_the_lint_too(store: Store, tmp_path: Path) -> None:
    other = at_another_point(90.0, "accelerator_platform", gpu_model="NVIDIA H200")
    add(store, [result(140.0), other])
    build_wiki(store, tmp_path)
    assert lint_wiki(store, tmp_path).extra["counts"]["CONTRADICTION"] == 1


@pytest.mark.parametrize("name", ["SGLang", "sgl-project/sglang", "sglang"])
def test_a_point_may_name_its_framework_by_any_known_spelling(name: str) -> None:
    point = at_another_point(1.0, "runtime_profile", framework=name).deployment_point
    assert point is not None
    assert point.runtime_profile.framework == "sglang"
