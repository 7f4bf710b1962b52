"""Collectives over ranks, held against the truth of generated traces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infer_forge.profile import triage
from infer_forge.profile.model import Options
from infer_forge.profile.report import analyse
from trace_gen import SPECS, generate
from trace_gen.model import Spec, Step

Make = Callable[..., Any]
ALL = Options(rank="all", min_share=0.0, cache=False)
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GEMM = "nvjet_tst_64x64_TNT"


def sums(report: Any, column: str) -> dict[Any, float]:
    out: dict[Any, float] = {}
    for row in report.tables["collectives"].dicts():
        out[row["rank"]] = out.get(row["rank"], 0.0) + row[column]
    return out


@pytest.mark.parametrize("custom", [False, True])
def test_floor_waiting_and_who_came_last_are_those_of_the_generator(tmp_path: Path, custom: bool) -> None:
    spec = Spec(
        family="llama",
        layers=4,
        ranks=4,
        steps=(Step("decode", generation=8),),
        cycles=4,
        skew_us=30.0,
        custom_allreduce=custom,
    )
    _, truth = generate(spec, tmp_path / "t.trace.json.gz", seed=5)
    report = triage([tmp_path], ALL)
    floor = sum(c.floor_ns for c in truth.collectives) / 1000
    assert all(abs(v - floor) < 0.01 for v in sums(report, "floor_us").values())
    waits = {rank: sum(c.wait_ns[rank] for c in truth.collectives) / 1000 for rank in range(4)}
    assert all(abs(v - waits[rank]) < 0.01 for rank, v in sums(report, "wait_us").items())
    last = {rank: sum(c.came_last == rank for c in truth.collectives) for rank in range(4)}
    found = sums(report, "came_last")
    assert sum(found.values()) == len(truth.collectives)
    assert max(found, key=lambda r: found[r]) == max(last, key=lambda r: last[r])


def test_merged_ranks_with_colliding_ids_give_the_same_as_files_of_their_own(tmp_path: Path) -> None:
    spec = replace(SPECS["qwen3_moe"], ranks=2, layers=3, cycles=2)
    (tmp_path / "apart").mkdir()
    generate(replace(spec, merged=False), tmp_path / "apart" / "t.trace.json.gz", seed=3)
    merged, _ = generate(replace(spec, merged=True), tmp_path / "merged.trace.json.gz", seed=3)
    apart, together = triage([tmp_path / "apart"], ALL), triage(merged, ALL)
    for table in ("kernel", "collectives", "skew"):
        a = [[v for k, v in r.items() if k not in ("device", "cpu_op")] for r in apart.tables[table].dicts()]
        b = [[v for k, v in r.items() if k not in ("device", "cpu_op")] for r in together.tables[table].dicts()]
        assert a == b, table


def test_orders_that_differ_are_refused_and_shown(trace_writer: Make, tmp_path: Path) -> None:
    other = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    for rank, names in ((0, [NCCL, other]), (1, [other, NCCL])):
        trace_writer(f"x-TP-{rank}.trace.json", world=2, rank=rank).run(
            [GEMM, *names], repeat=2, start=1000.0 + rank
        ).write()
    report = triage([tmp_path], ALL)
    finding = next(f for f in report.findings if f.code == "COLLECTIVE_ORDER")
    assert "rank 0" in finding.message
    assert "rank 1" in finding.message
    assert not report.tables["collectives"].rows


def test_groups_are_matched_apart_and_sizes_give_a_bus_bandwidth(trace_writer: Make, tmp_path: Path) -> None:
    for rank, late in ((0, 0.0), (1, 30.0)):
        made = trace_writer(f"y-TP-{rank}.trace.json", world=2, rank=rank)
        for i in range(4):
            facts = {
                "Collective name": "allreduce",
                "Group size": 2,
                "dtype": "BFloat16",
                "In msg nelems": 1_000_000,
                "Out msg nelems": 1_000_000,
            }
            facts |= {
                "Process Group Name": "0" if i % 2 else "7",
                "Process Group Description": "tp",
                "Process Group Ranks": "[0, 1]",
            }
            made.kernel(NCCL, 1000 + 200 * i + late, 100 - late, **facts)
        made.write()
    report = triage([tmp_path], ALL)
    rows = report.tables["collectives"].dicts()
    assert {r["group"] for r in rows} == {"0", "7"}
    assert {(r["rank"], r["count"], r["time_us"], r["floor_us"], r["wait_us"], r["came_last"]) for r in rows} == {
        (0, 2, 200.0, 140.0, 60.0, 0),
        (1, 2, 140.0, 140.0, 0.0, 2),
    }
    size = report.tables["bandwidth"].dicts()[0]
    assert (size["bytes"], size["count"]) == (2_000_000, 2)
    assert size["bus_gb_s"] == round(2_000_000 / 70e-6 / 1e9, 2)


def test_one_rank_has_no_floor_and_no_waiting(trace_writer: Make) -> None:
    row = triage([trace_writer().run([GEMM, NCCL], repeat=3).write()], ALL).tables["collectives"].dicts()[0]
    assert (row["floor_us"], row["wait_us"], row["came_last"]) == (None, None, None)


def test_the_tables_of_generated_traces_hold_the_generators_truth(tmp_path: Path) -> None:
    spec = Spec(family="llama", layers=6, cycles=3, stacks=True, pdl_us=1.5)
    files, truth = generate(spec, tmp_path / "t.trace.json.gz", seed=11)
    analysis = analyse(files, ALL)
    rows = analysis.report.tables["kernel"].dicts()
    for stage in ("prefill", "decode"):
        mine = [k for k in truth.kernels if k.stage == stage]
        assert sum(r["launches"] for r in rows if r["stage"] == stage) == len(mine)
        assert sum(round(r["time_us"] * 1000) for r in rows if r["stage"] == stage) == sum(k.dur_ns for k in mine)
    steps = {r["stage"]: r["steps"] for r in analysis.report.tables["stages"].dicts()}
    assert {s: n for s, n in steps.items() if n} == {"prefill": 3, "decode": 3}
