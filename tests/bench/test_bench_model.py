"""The row type: schema on disk equals the types, unknown keys and non-finite numbers are refused, rank and luck."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from infer_forge.bench.model import SCHEMA, Row, row_schema
from infer_forge.bench.rank import expected_luck
from infer_forge.kernel_task.model import task_schema

near: Any = pytest.approx  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


@pytest.mark.parametrize(("name", "make"), [("bench_row.json", row_schema), ("kernel_task.json", task_schema)])
def test_the_schema_on_disk_is_that_of_the_types(project_root: Path, name: str, make: object) -> None:
    assert callable(make)
    assert json.loads((project_root / "references" / "schemas" / name).read_text()) == json.loads(json.dumps(make()))


def test_a_row_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValidationError):
        Row.model_validate({"tool": "t", "speed": 3})
    with pytest.raises(ValidationError):
        Row.model_validate({"tool": "t", "metrics": {"duration_s": float("inf")}})
    row = Row(tool="t")
    assert row.schema_id == SCHEMA
    assert row.value("metrics.ttft_ms.p50") is None
    assert row.value("metrics.nothing.here") is None
    assert Row.model_validate(row.model_dump(mode="json")) == row


@pytest.mark.parametrize(("k", "sigma"), [(1, 0.0), (4, 1.03), (10, 1.54), (20, 1.87), (30, 2.04)])
def test_the_luck_of_the_best_of_k(k: int, sigma: float) -> None:
    assert expected_luck(k) == near(sigma, abs=0.01)
