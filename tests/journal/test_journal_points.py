"""Results are kept by deployment point: another point, or no contract at all, is never one measurement with them."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.contracts import point_of
from infer_forge.base.gitstore import Store
from infer_forge.journal import (
    Record,
    add,
    build_wiki,
    compare_records,
    group_records,
    lint_wiki,
    markdown,
    open_store,
    surface_records,
)

WHEN = datetime.datetime(2026, 11, 1, tzinfo=datetime.timezone.utc)
POINT: dict[str, Any] = {
    "model": {"id": "Qwen/Qwen3-8B", "precision": "bf16"},
    "serving_topology": {"architecture": "colocated_pd", "tp": 1},
    "runtime_profile": {"framework": "sglang", "version": "0.5.23"},
    "accelerator_platform": {"gpu_model": "H200", "gpu_count": 1},
}


def result(value: float, contract: str | None = "1" * 64, layer: str = "", **change: Any) -> Record:
    point = {name: {**POINT[name], **(change if name == layer else {})} for name in POINT}
    fields: dict[str, Any] = {
        "kind": "result",
        "title": f"a patch reaches {value}",
        "created": WHEN,
        "claim": "model_e2e",
        "metric": "output_throughput",
        "value": value,
        "unit": "tok/s",
        "higher_is_better": True,
        "contract_sha256": contract,
        "deployment_point": point,
    }
    return markdown.make(fields)


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store() as opened:
        yield opened


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
    good, bad = add(store, [result(140.0), result(90.0, layer=layer, **change)])
    report = compare_records(store, [good, bad])
    assert report.tables["records"].dicts()[1]["ratio_to_first"] is None
    assert f"{layer}.{next(iter(change))}" in [r[1] for r in report.tables["differences"].rows]
    groups = group_records(store, [good, bad], "framework").tables["groups"].dicts()
    assert {(r["group"], r["value"]) for r in groups} == {(1, 140.0), (2, 90.0)}
    surfaced = surface_records(store, point=point_of(POINT)).tables["surfaced"].rows
    assert [r[1] for r in surfaced] == [good]


def test_results_without_a_contract_are_never_known_to_be_one_measurement(store: Store) -> None:
    ids = add(store, [result(140.0, contract=None), result(90.0, contract=None)])
    report = compare_records(store, ids)
    assert not report.extra["comparable"]
    assert report.tables["records"].dicts()[1]["ratio_to_first"] is None
    assert [r[1] for r in report.tables["differences"].rows] == ["contract"]


def test_one_point_in_two_spellings_is_one_point_to_the_lint_too(store: Store, tmp_path: Path) -> None:
    other = result(90.0, layer="accelerator_platform", gpu_model="NVIDIA H200")
    add(store, [result(140.0), other])
    build_wiki(store, tmp_path)
    assert lint_wiki(store, tmp_path).extra["counts"]["CONTRADICTION"] == 1


@pytest.mark.parametrize("name", ["SGLang", "sgl-project/sglang", "sglang"])
def test_a_point_may_name_its_framework_by_any_known_spelling(name: str) -> None:
    point = result(1.0, layer="runtime_profile", framework=name).deployment_point
    assert point is not None
    assert point.runtime_profile.framework == "sglang"
