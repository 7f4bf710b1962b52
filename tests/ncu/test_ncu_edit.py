"""Exactly one next edit: consistent with the class, bounded, with a command that verifies it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable
from infer_forge.ncu.diagnose import diagnose
from infer_forge.ncu.edit import next_edit
from infer_forge.ncu.flags import flags
from infer_forge.ncu.model import Launch, Session, Value
from infer_forge.ncu.triage_link import SmallKernel, load_triage, small_kernel
from tests.ncu.ncu_maker import DURATION, MEMORY, SM, busy, near

STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
LOW_OCCUPANCY: dict[str, float | str] = {
    "sm__maximum_warps_per_active_cycle_pct": 25.0, "sm__warps_active.avg.pct_of_peak_sustained_active": 24.0,
    "launch__occupancy_limit_registers": 2.0, "launch__occupancy_limit_warps": 8.0, "launch__registers_per_thread": 128.0,
}  # fmt: skip
STALLED: dict[str, float | str] = {
    "smsp__average_warp_latency_per_inst_issued.ratio": 20.0, "smsp__issue_active.avg.per_cycle_active": 0.3,
    STALL.format("long_scoreboard"): 12.0,
}  # fmt: skip


def edit(
    values: dict[str, float | str], small: SmallKernel | None = None, session: Session | None = None
) -> dict[str, Any]:
    made = {n: Value(float(v) if isinstance(v, (int, float)) else v, "", n) for n, v in values.items()}
    one = Launch(0, "my_kernel", "my_kernel(int)", values=made)
    found = diagnose(one)
    return next_edit(one, found, flags(one, found), session or Session(), "base.ncu-rep", small)


def test_a_dram_bound_kernel_is_never_told_to_raise_occupancy() -> None:
    got = edit(busy(20, 85) | LOW_OCCUPANCY | STALLED)
    assert got["class"] == "bound(dram)"
    assert got["id"] != "occupancy"
    assert "warps fit" not in got["edit"]


def test_wasted_sectors_of_a_memory_bound_kernel_come_first() -> None:
    got = edit(
        busy(20, 85)
        | {
            "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": 16.0,
            "derived__memory_l2_theoretical_sectors_global_excessive": 43.0,
            "memory_l2_theoretical_sectors_global": 100.0,
        }
    )
    assert got["id"] == "coalesce"
    assert (got["metric"]["from"], got["metric"]["to"]) == (16.0, 32.0)
    assert got["upper_bound_pct"] == 43.0


def test_at_the_memory_roof_nothing_is_left_but_fewer_bytes() -> None:
    got = edit(busy(20, 91, dram=91))
    assert (got["kind"], got["edit"]) == ("none", "none: reduce bytes or fuse")
    assert "bytes" in got["stop_if"]
    assert got["upper_bound_pct"] == 9


@pytest.mark.parametrize(("tensor", "l1"), [(93.0, 40.0), (92.0, 93.5)])
def test_at_the_compute_roof_nothing_is_left_but_fewer_operations_or_a_narrower_type(tensor: float, l1: float) -> None:
    """The tensor pipe alone, and as a second limiter behind L1: fewer bytes leave its operations as they are."""
    pipe, path = "sm__inst_executed_pipe_tensor.avg.pct_of_peak", "l1tex__throughput.avg.pct_of_peak"
    values = {SM: tensor, MEMORY: l1, DURATION: 1e6, pipe: tensor, path: l1}
    made = {n: Value(v, "", n) for n, v in values.items()}
    one = Launch(0, "gemm", "gemm()", values=made, breakdown={SM: [pipe], MEMORY: [path]})
    found = diagnose(one)
    got = next_edit(one, found, flags(one, found), Session(), "base.ncu-rep")
    assert got["kind"] == "none"
    assert got["edit"] == "none: do fewer operations or use a narrower type"
    assert "bytes" not in got["stop_if"]
    assert got["metric"]["name"] == pipe
    assert f"tensor pipe at {tensor:.1f} %" in got["why"]
    assert got["upper_bound_pct"] == near(100 - max(tensor, l1))


def test_missing_data_gives_one_collect_command_instead_of_an_edit() -> None:
    got = edit(
        {DURATION: 1000.0}, session=Session(command="ncu --set basic -o x python3 'my run.py'", clock_control="none")
    )
    assert got["kind"] == "collect"
    words = shlex.split(got["verify_command"])
    assert words[0] == "ncu"
    assert words[words.index("--kernel-name") + 1] == "regex:^my_kernel$"
    assert words[words.index("--clock-control") + 1] == "none"
    assert words[-2:] == ["python3", "my run.py"]
    assert "SpeedOfLight" in words


def test_a_lever_that_no_metric_shows_is_collected_first() -> None:
    values: dict[str, float | str] = {
        SM: 20.0,
        MEMORY: 85.0,
        DURATION: 1e5,
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 85.0,
    }
    got = edit(values)
    assert got["kind"] == "collect"
    assert "MemoryWorkloadAnalysis_Tables" in got["verify_command"]


def test_latency_follows_the_top_stall() -> None:
    got = edit(busy(20, 40) | STALLED)
    assert got["id"] == "stall:long_scoreboard"
    assert got["upper_bound_pct"] == 60.0
    assert "long_scoreboard" in got["metric"]["name"]


def test_latency_with_low_occupancy_alone_lifts_it() -> None:
    got = edit(busy(20, 40) | LOW_OCCUPANCY | {"smsp__issue_active.avg.per_cycle_active": 0.3})
    assert got["id"] == "occupancy"
    assert "registers" in got["edit"]


def test_a_small_grid_gets_more_blocks_and_a_tiny_kernel_gets_fused() -> None:
    grid: dict[str, float | str] = {"launch__grid_size": 57.0, "launch__waves_per_multiprocessor": 0.5}
    got = edit(busy(20, 30, ns=50_000) | grid)
    assert (got["id"], got["upper_bound_pct"]) == ("more_blocks", 50.0)
    assert edit(busy(2, 3, ns=2500) | grid)["id"] == "fuse"


def test_a_triage_report_that_shows_more_idle_than_kernel_asks_for_fewer_launches() -> None:
    small = SmallKernel("t.json", launches=400, all_launches=1000, time_us=2000.0, idle_us=30_000.0)
    got = edit(busy(20, 30, ns=8000), small)
    assert got["id"] == "fewer_launches"
    assert "400 of 1000 launches" in got["why"]
    assert got["upper_bound_pct"] == near(100 * 12_000 / 14_000)
    little = SmallKernel("t.json", launches=4, all_launches=1000, time_us=2000.0, idle_us=30_000.0)
    assert edit(busy(20, 30, ns=8000), little)["id"] != "fewer_launches"


def test_the_tables_of_a_triage_report_give_launches_gaps_and_syncs(tmp_path: Path) -> None:
    tables = {
        "kernel": {
            "columns": ["rank", "kernel", "launches", "time_us"],
            "rows": [["0", "void ns::My_Kernel<4>", 30, 90.5], ["0", "other", 5, 1.0]],
        },
        "host": {"columns": ["rank", "idle_us", "host_late_us"], "rows": [["0", 500.0, 400.0], ["1", 7.0, 7.0]]},
        "launch": {
            "columns": ["rank", "api", "kind", "calls", "time_us"],
            "rows": [["0", "cudaStreamSynchronize", "sync", 3, 60.0]],
        },
    }
    path = tmp_path / "triage.json"
    path.write_bytes(jsonio.dumps({"header": {}, "tables": tables}))
    got = small_kernel(load_triage(path), "my_kernel", "triage.json")
    assert (got.launches, got.time_us, got.idle_us, got.sync_calls, got.sync_us, got.missing) == (
        30,
        90.5,
        500.0,
        3,
        60.0,
        [],
    )


def test_what_a_triage_report_does_not_tell_is_missing_not_zero(tmp_path: Path) -> None:
    path = tmp_path / "triage.json"
    path.write_bytes(jsonio.dumps({"tables": {"kernel": {"columns": ["kernel"], "rows": [["x"]]}}}))
    got = small_kernel(load_triage(path), "my_kernel", "t")
    assert (got.launches, got.idle_us, got.sync_us) == (None, None, None)
    assert got.missing == ["launches", "gaps", "synchronisation"]
    path.write_text('{"tables": {}}')
    with pytest.raises(InputUnusable, match="no triage report"):
        load_triage(path)


@settings(max_examples=150)
@given(
    st.floats(0, 105), st.floats(0, 105), st.floats(0, 105), st.floats(0.01, 20), st.floats(500, 1e7),
    st.dictionaries(st.sampled_from(sorted(LOW_OCCUPANCY | STALLED)), st.floats(0.01, 64), max_size=6),
)  # fmt: skip
def test_every_launch_gets_one_whole_edit_within_bounds(
    sm: float, memory: float, dram: float, waves: float, ns: float, more: dict[str, float]
) -> None:
    got = edit(busy(sm, memory, dram=dram, ns=ns) | {"launch__waves_per_multiprocessor": waves} | more)
    assert got["kind"] in ("edit", "collect", "none")
    for key in ("edit", "why", "verify_command", "stop_if", "bound_reason"):
        assert got[key]
    if got["upper_bound_pct"] is not None:
        assert 0 <= got["upper_bound_pct"] <= 100
    if got["kind"] == "edit":
        assert got["metric"]["name"]
    if got["class"].startswith(("bound", "leaning", "balanced")):
        assert got["id"] != "occupancy"
