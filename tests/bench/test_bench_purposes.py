"""Rows that were not made to decide never do; a lane of its own is chosen before anything is measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base import contracts
from infer_forge.bench import contract_lock, search_config
from infer_forge.bench.gap import decide_gap, gap_report, request_of
from infer_forge.bench.model import Row
from infer_forge.bench.read import import_file
from tests.bench.runs import raw_config, use_fakes


def rows_of(paths: list[Path], **context: Any) -> list[Row]:
    return [row for p in paths for row in import_file(p, context=context).rows]


@pytest.mark.parametrize("purpose", ["flow_check", "pilot", "search", "profile"])
def test_only_rows_of_a_decision_decide(side_files: Callable[..., list[Path]], purpose: str) -> None:
    fast = rows_of(side_files("a", [900.0] * 5), purpose=purpose)
    other = rows_of(side_files("b", [100.0] * 5))
    row = gap_report(decide_gap(request_of({"a": fast, "b": other}, "a"))).tables["gap"].dicts()[0]
    assert row["verdict"] == "insufficient"
    assert f"purpose {purpose}: never decides" in row["reason"]
    good = rows_of(side_files("c", [900.0, 901, 900, 901, 900]))
    assert (
        gap_report(decide_gap(request_of({"c": good, "b": other}, "c"))).tables["gap"].dicts()[0]["verdict"] == "ahead"
    )


def test_a_lane_of_a_frameworks_own_names_who_chose_it_before_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    use_fakes(monkeypatch)
    draft = search_config.draft_contract(search_config.config_of(raw_config()))
    draft["point"]["model"]["revision"] = "abc"
    common = contracts.contract_of(draft)
    assert common.lane == "common"
    own = contracts.contract_of({**draft, "lane": "native_agentic"})
    assert set(contract_lock.missing(own)) - set(contract_lock.missing(common)) >= {"lane_chosen_by"}
    chosen = contracts.contract_of({**draft, "lane": "native_agentic", "lane_chosen_by": "ann"})
    assert "lane_chosen_by" not in contract_lock.missing(chosen)
    assert contracts.contract_sha256(chosen) != contracts.contract_sha256(common)


def test_what_a_file_does_not_tell_of_phases_cache_and_memory_is_null_and_never_zero(
    side_files: Callable[..., list[Path]],
) -> None:
    (row,) = rows_of(side_files("a", [100.0]))
    assert row.spec_decode.mean_accept_length is None
    assert (row.phase_metrics.queue_ms, row.phase_metrics.scheduler_ms) == (None, None)
    assert row.cache.prefix_cache_hit_rate is None
    assert (row.memory.cpu_offload_gb, row.memory.gpu_resident_weight_gb) == (None, None)
