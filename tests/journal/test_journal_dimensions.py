"""Every dimension of the index can be filtered by at every door, and is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from infer_forge.base.errors import UsageFault
from infer_forge.base.gitstore import Store
from infer_forge.cli.journal import command
from infer_forge.journal import add, facet_report, markdown
from infer_forge.journal.dimensions import DIMENSIONS, FACETS, FILTERS
from infer_forge.journal.search import facets, search

OWN = {
    "kind": "result",
    "claim": "kernel_task",
    "metric": "time_us",
    "verdict": "accepted",
    "epoch": 3,
    "task_id": "T-7",
    "contract_sha256": "c" * 64,
}
DIMS = {dim: [f"one {dim}", f"two {dim}"] for dim in DIMENSIONS if dim not in OWN}
WANTED = {
    **{dim: values[1] for dim, values in DIMS.items()},
    **{name: str(OWN[name]) for name in ("kind", "claim", "metric", "verdict", "epoch")},
    "task": "T-7",
    "contract": "c" * 64,
    "date": "2026-10",
    "gpu_count": "8",
}


def made(created: str, **more: Any) -> Any:
    return markdown.make({"kind": "note", "title": "a note", "created": created, **more})


@pytest.fixture
def whole(store: Store) -> str:
    """The id of a record that states every dimension, beside one that states none of them."""
    point = {"accelerator_platform": {"gpu_count": 8}}
    record = made("2026-10-31", title="all of it", dims=DIMS, deployment_point=point, **OWN)
    return add(store, [record, made("2025-01-01")])[0]


@pytest.mark.parametrize("dim", FILTERS)
def test_a_record_is_found_by_every_dimension_that_it_states(store: Store, whole: str, dim: str) -> None:
    assert [h.id for h in search(store, "", {dim: [WANTED[dim]]})] == [whole]
    assert [h.id for h in search(store, "all", {dim: [WANTED[dim]]})] == [whole]
    assert facets(store, {dim: [WANTED[dim]]})["ids"] == [whole]


def test_every_dimension_but_the_contract_is_counted(store: Store, whole: str) -> None:
    rows = facet_report(store, {"task": ["T-7"]}).tables["facets"].rows
    assert list(dict.fromkeys(r[0] for r in rows)) == list(FACETS)
    assert {(d, WANTED[d], 1) for d in FACETS} <= {tuple(r) for r in rows}
    assert {*FILTERS} - {*FACETS} == {"contract"}


def test_both_doors_name_every_dimension(project_root: Path) -> None:
    assert isinstance(command, click.Group)
    for name in ("search", "filter", "list"):
        options = {o for p in command.commands[name].params for o in p.opts}
        assert {f"--{d.replace('_', '-')}" for d in FILTERS} <= options
    shown = json.loads((project_root / "tests/mcp_server/schemas/search_journal.json").read_text())
    told = shown["inputSchema"]["properties"]["filters"]["description"]
    assert all(d in told.replace(",", "").split() for d in FILTERS)


@pytest.mark.parametrize(
    ("span", "count"), [("2026", 3), ("2026-11", 2), ("2026-11-03", 1), ("2026-12-31", 0), ("2025", 1)]
)
def test_a_date_is_a_year_a_month_or_a_day(store: Store, span: str, count: int) -> None:
    days = ("2025-11-03", "2026-01-11", "2026-11-03", "2026-11-30")
    add(store, [made(day) for day in days])
    assert facets(store, {"date": [span], "kind": ["note"]})["count"] == count


def test_dates_are_alternatives_as_other_values_are(store: Store) -> None:
    add(store, [made(day) for day in ("2025-11-03", "2026-01-11", "2026-11-03")])
    assert facets(store, {"date": ["2025", "2026-11"], "kind": ["note"]})["count"] == 2


@pytest.mark.parametrize("wrong", ["2026-1", "november", "2026*", "*", "", "2026-11-03T00"])
def test_what_is_no_date_is_refused_and_never_found_nowhere(store: Store, wrong: str) -> None:
    with pytest.raises(UsageFault, match="no year, month or day"):
        search(store, "x", {"date": [wrong]})


def test_a_month_and_a_day_are_counted_in_one_time_zone(store: Store) -> None:
    add(store, [made("2026-11-01T01:00:00+08:00")])
    counted = facets(store, {"date": ["2026-10-31"], "kind": ["note"]})
    assert counted["facets"]["date"] == [("2026-10", 1)]
    assert facets(store, {"kind": ["note"]}, since="2026-11-01T00:30:00+08:00")["count"] == 1
    assert facets(store, {"kind": ["note"]}, since="2026-11-01")["count"] == 0
