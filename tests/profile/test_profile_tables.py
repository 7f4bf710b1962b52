"""Kernel and stage tables: sums to the nanosecond, shares, hiding, paging, choice of ranks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.records import Report
from infer_forge.profile import triage
from infer_forge.profile.model import Options

Make = Callable[..., Any]
ALL = Options(rank="all", min_share=0.0, cache=False)
GEMM, NORM = "nvjet_tst_64x64_64x16_2x1_2cta_v_bz_TNT", "void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(int)"

ITEM = st.tuples(
    st.sampled_from([GEMM, NORM, "Memcpy HtoD"]), st.integers(0, 40), st.integers(1, 9_999_999), st.integers(0, 2)
)


def dicts(report: Report, table: str) -> list[dict[str, Any]]:
    return report.tables[table].dicts()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ITEM, min_size=1, max_size=30))
def test_all_rows_add_up_to_all_device_work(trace_writer: Make, items: list[tuple[str, int, int, int]]) -> None:
    made = trace_writer()
    for name, start, dur_ns, device in items:
        made.kernel(
            name, 1000.0 + 10 * start, dur_ns / 1000, device=device, cat="gpu_memcpy" if "Memcpy" in name else "kernel"
        )
    rows = dicts(triage([made.write()], ALL), "kernel")
    assert sum(round(r["time_us"] * 1000) for r in rows) == sum(d for _, _, d, _ in items)
    assert sum(r["launches"] for r in rows) == len(items)
    assert {r["device"] for r in rows} == {d for *_, d in items}


def test_a_trace_without_device_work_is_refused_with_the_reason(trace_writer: Make) -> None:
    made = trace_writer().kernel(GEMM, 1000, 10)
    made.events = [e for e in made.events if e["cat"] != "kernel"]
    with pytest.raises(InputUnusable, match="no GPU events"):
        triage([made.write()], ALL)


def test_a_share_is_of_the_stage_and_hidden_rows_stand_in_the_header(trace_writer: Make) -> None:
    made = trace_writer()
    made.step("step[EXTEND bs=1 toks=64]", 990, 200).step("step[DECODE bs=1]", 1990, 200)
    made.kernel(GEMM, 1000, 99.5).kernel(NORM, 1110, 0.5).kernel(GEMM, 2000, 10)
    report = triage([made.write()], Options(cache=False))
    rows = dicts(report, "kernel")
    assert [(r["stage"], r["time_us"], r["share_pct"]) for r in rows] == [
        ("prefill", 99.5, 99.5),
        ("decode", 10.0, 100.0),
    ]
    hidden = report.header.hidden["kernel"]
    assert (hidden["rows"], hidden["time_us"], hidden["launches"]) == (1, 0.5, 1)
    assert "launches" not in report.header.hidden["overlap"]  # its rows hold none: unknown is not 0
    assert "launches" not in report.header.hidden["fuse"]  # its rows count sites
    shown = triage([made.write()], ALL)
    assert shown.header.hidden["kernel"]["rows"] == 0
    assert len(dicts(shown, "kernel")) == 3


def test_wall_is_busy_and_idle_and_steps_are_counted(trace_writer: Make) -> None:
    made = trace_writer()
    for i in range(3):
        made.step("step[DECODE bs=4]", 1000 + 100 * i, 60)
        made.kernel(GEMM, 1000 + 100 * i, 30).kernel(NORM, 1040 + 100 * i, 20)
    row = dicts(triage([made.write()], ALL), "stages")[0]
    assert (row["stage"], row["kind"], row["steps"]) == ("decode", "decode", 3)
    assert (row["busy_us"], row["idle_us"], row["wall_us"]) == (150.0, 110.0, 260.0)


def test_target_verify_is_decode_of_another_kind(trace_writer: Make) -> None:
    made = trace_writer()
    for i, mode in enumerate(("DECODE", "TARGET_VERIFY")):
        made.step(f"step[{mode} bs=4]", 1000 + 100 * i, 60).kernel(GEMM, 1000 + 100 * i, 30)
    rows = dicts(triage([made.write()], ALL), "stages")
    assert {(r["stage"], r["kind"]) for r in rows} == {("decode", "decode"), ("decode", "verify")}


def test_the_op_and_the_source_share_are_those_of_most_of_the_time(trace_writer: Make) -> None:
    made = trace_writer().kernel(GEMM, 1000, 30, op="aten::mm").kernel(GEMM, 1100, 10, op="aten::addmm")
    row = dicts(triage([made.write()], ALL), "kernel")[0]
    assert row["cpu_op"] == "aten::mm"
    assert row["source"] is None
    assert row["source_share_pct"] is None


def test_a_graph_replay_without_mapping_says_that_its_op_is_unresolved(trace_writer: Make) -> None:
    made = trace_writer()
    for i in range(4):
        made.kernel(GEMM, 1000 + i * 20, 10, launch=None)
        made.events[-1]["args"]["correlation"] = 7
    made.call("cudaGraphLaunch", 900, 5, 7)
    report = triage([made.write()], ALL)
    assert dicts(report, "kernel")[0]["cpu_op"] == "unresolved (graph replay)"
    assert "GRAPH_HIDES_OPS" in {f.code for f in report.findings}
    assert report.header.capture["cuda_graph"] == "on"


def test_pages_of_a_table_join_to_the_whole(trace_writer: Make) -> None:
    made = trace_writer()
    for i in range(7):
        made.kernel(f"kernel_number_{'abcdefg'[i]}", 1000 + 20 * i, 10)
    path = made.write()
    whole = dicts(triage([path], ALL), "kernel")
    first = triage([path], Options(min_share=0.0, cache=False, limit=3))
    after = first.header.more["next_cursor"]["kernel"]
    second = triage([path], Options(min_share=0.0, cache=False, limit=10, cursor=after))
    assert dicts(first, "kernel") + dicts(second, "kernel") == whole
    assert first.header.more["omitted_rows"]["kernel"] == 4
    assert "kernel" not in second.header.more["next_cursor"]
    with pytest.raises(UsageFault, match="no row number"):
        triage([path], Options(cache=False, cursor="x"))


def test_the_busiest_rank_is_shown_and_named_and_others_on_demand(trace_writer: Make, tmp_path: Path) -> None:
    for rank, dur in ((0, 10), (1, 50)):
        trace_writer(f"run-TP-{rank}.trace.json", world=2, rank=rank).kernel(GEMM, 1000, dur).kernel(
            NORM, 1100, 1
        ).write()
    report = triage([tmp_path], Options(cache=False))
    assert {r["rank"] for r in dicts(report, "kernel")} == {1}
    assert report.header.more["ranks"] == {"shown": [1], "read": [0, 1], "why": "the most busy time"}
    assert {r["rank"] for r in dicts(report, "skew")} == {0, 1}
    assert {r["rank"] for r in dicts(triage([tmp_path], Options(cache=False, rank="0")), "kernel")} == {0}
    assert {r["rank"] for r in dicts(triage([tmp_path], ALL), "kernel")} == {0, 1}
    with pytest.raises(UsageFault, match="no rank 7"):
        triage([tmp_path], Options(cache=False, rank="7"))


def test_a_stage_that_does_not_occur_is_a_usage_fault_that_lists_those_that_do(trace_writer: Make) -> None:
    path = trace_writer().kernel(GEMM, 1000, 10).write()
    with pytest.raises(UsageFault, match="no stage decode") as raised:
        triage([path], Options(cache=False, stage="decode"))
    assert "all" in str(raised.value)


def test_a_report_is_kept_by_the_hash_of_its_trace(trace_writer: Make) -> None:
    from infer_forge.base import report_store

    report = triage([trace_writer().kernel(GEMM, 1000, 10).write()], Options(cache=False))
    sha = report.header.inputs[0].sha256
    assert sha
    kept = report_store.find("triage", sha)
    assert kept is not None
    assert kept[1]["tables"]["kernel"]["rows"] == report.to_json()["tables"]["kernel"]["rows"]


def test_the_tables_that_consumers_count_on_have_their_columns(trace_writer: Make) -> None:
    tables = triage([trace_writer().kernel(GEMM, 1000, 10).write()], Options(cache=False)).to_json()["tables"]
    assert {
        name: " ".join(tables[name]["columns"])
        for name in ("kernel", "overlap", "fuse", "skew", "stages", "host", "collectives")
    } == {
        "kernel": "rank device stage kernel category time_us share_pct launches mean_us cpu_op source source_share_pct",
        "overlap": "rank device stage family total_us exclusive_us hidden_us risk reason recommendation",
        "fuse": "id state confidence stage count time_us share_pct kernels source",
        "skew": "rank busy_us idle_us exposed_comm_us slowest_family",
        "stages": "rank device stage kind steps wall_us busy_us idle_us exposed_comm_us",
        "host": "rank device stage idle_us host_late_us in_flight_us queued_us unknown_us verdict",
        "collectives": "rank group op count time_us floor_us wait_us came_last",
    }


@pytest.mark.parametrize(
    "change",
    [
        {"dur": 0},
        {"args": None},
        {"args": []},
        {"args": {"device": "GPU0", "stream": "default"}},
        {"args": {"device": 10**12, "stream": -1}},
        {"name": ""},
        {"name": "\u0000" * 3},
        {"ts": -5.5},
        {"ts": 1.79e15},
    ],
)
def test_odd_device_events_are_tabulated_and_never_crash(trace_writer: Make, change: dict[str, Any]) -> None:
    made = trace_writer()
    for i in range(3):
        made.kernel(GEMM, 1000 + 10 * i, 5, launch=None)
    for event in made.events:
        event.update(change)
    report = triage([made.write()], ALL)
    assert sum(r["launches"] for r in dicts(report, "kernel")) == 3
    assert report.render("text")
    assert report.render("md")


def test_devices_stand_in_the_order_of_their_numbers(trace_writer: Make) -> None:
    made = trace_writer()
    for device in (10, 2, 1):
        made.kernel(GEMM, 1000, 5, device=device)
    assert [r["device"] for r in dicts(triage([made.write()], ALL), "kernel")] == [1, 2, 10]
