"""Classes in their fixed order, the saturated unit, flags, occupancy, roofline, NVIDIA's rules as second opinion."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_forge.ncu.diagnose import CLASSES, Diagnosis, diagnose
from infer_forge.ncu.flags import flags
from infer_forge.ncu.model import Launch, RuleResult, Value
from infer_forge.ncu.occupancy import occupancy
from infer_forge.ncu.opinion import second_opinion
from infer_forge.ncu.roofline import rooflines
from infer_forge.ncu.rulefacts import plain, settle_rules
from tests.ncu.ncu_maker import DRAM, DURATION, MEMORY, SM, busy, near

STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
CPI = "smsp__average_warp_latency_per_inst_issued.ratio"
ISSUE = "smsp__issue_active.avg.per_cycle_active"


def peak(metric: str) -> str:
    """The id of a metric as percent of its peak over elapsed cycles."""
    return f"{metric}.avg.pct_of_peak_sustained_elapsed"


def launch(values: dict[str, float | str], *, half: float = 0.0, **fields: object) -> Launch:
    made = {n: Value(float(v) if isinstance(v, (int, float)) else v, "", n, half) for n, v in values.items()}
    return Launch(0, "k", "k(int)", values=made, **fields)  # type: ignore[arg-type]


def broken_down(values: dict[str, float | str], sm: dict[str, float], memory: dict[str, float]) -> Launch:
    """With the breakdown of both throughput figures."""
    found = launch(values | sm | memory)
    found.breakdown = {SM: list(sm), MEMORY: list(memory)}
    return found


@pytest.mark.parametrize(
    ("values", "name", "limiter"),
    [
        (busy(20, 85), "bound(dram)", "dram"),
        (busy(20, 85, dram=30) | {peak("lts__throughput"): 85.0}, "bound(l2)", "l2"),
        (busy(20, 70), "leaning(dram)", "dram"),
        (busy(65, 70), "balanced", None),
        (busy(20, 59.9), "latency", None),
        (busy(82, 20, dram=10), "bound(sm)", "sm"),
        (busy(20, 30) | {"launch__waves_per_multiprocessor": 0.4}, "small_grid", "grid"),
        (busy(20, 30) | {"launch__grid_size": 64.0}, "small_grid", "grid"),
        (busy(20, 85) | {"launch__waves_per_multiprocessor": 0.4}, "bound(dram)", "dram"),
        ({DURATION: 1000.0}, "insufficient", None),
        ({SM: 90.0, DURATION: 1000.0}, "insufficient", None),
        (busy(20, 185), "invalid", None),
        (busy(20, 85, ns=0), "invalid", None),
        ({}, "insufficient", None),
    ],
)
def test_the_class_follows_from_the_figures(values: dict[str, float | str], name: str, limiter: str | None) -> None:
    found = diagnose(launch(values))
    assert (found.name, found.limiter) == (name, limiter)


def test_the_top_sub_metric_names_the_unit() -> None:
    memory = {
        peak("l1tex__data_pipe_lsu_wavefronts"): 88.0,
        peak("dram__cycles_active"): 60.0,
    }
    values = busy(30, 88, dram=60)
    plain_l1 = broken_down(values, {peak("sm__issue_active"): 30.0}, memory)
    assert diagnose(plain_l1).name == "bound(l1)"
    shared = values | {"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed": 70.0}
    assert diagnose(broken_down(shared, {peak("sm__issue_active"): 30.0}, memory)).name == "bound(shared)"


def test_an_exact_tie_of_both_figures_is_the_unit_that_drives_both() -> None:
    found = diagnose(
        broken_down(
            busy(83.139, 83.139, dram=9.4),
            {
                peak("sm__inst_executed_pipe_lsu"): 83.139,
                peak("sm__pipe_fma_cycles_active"): 21.0,
            },
            {
                peak("l1tex__lsuin_requests"): 83.139,
                peak("dram__cycles_active"): 9.4,
            },
        )
    )
    assert (found.name, found.co_limiters) == ("bound(lsu)", [])


def test_a_tie_under_80_of_one_unit_leans_on_it_and_is_not_balanced() -> None:
    found = diagnose(
        broken_down(
            busy(70, 70, dram=9),
            {peak("sm__inst_executed_pipe_lsu"): 70.0},
            {
                peak("l1tex__lsuin_requests"): 70.0,
                peak("lts__t_sectors"): 20.0,
            },
        )
    )
    assert found.name == "leaning(lsu)"


def test_units_that_are_as_busy_are_named_together() -> None:
    found = diagnose(
        broken_down(
            busy(91.9, 93.4, dram=20),
            {peak("sm__pipe_tensor_cycles_active"): 91.9},
            {
                peak("l1tex__data_bank_reads"): 93.4,
                peak("dram__cycles_active"): 20.0,
            },
        )
    )
    assert (found.unit, found.co_limiters) == ("l1", ["tensor"])


def test_a_printed_value_at_its_threshold_is_borderline() -> None:
    found = diagnose(launch(busy(20, 80.0), half=0.05))
    assert MEMORY in found.borderline
    assert not diagnose(launch(busy(20, 80.0))).borderline


def test_printed_waves_of_one_may_be_a_small_grid_and_say_so() -> None:
    values = busy(20, 30) | {"launch__waves_per_multiprocessor": 1.0}
    assert "launch__waves_per_multiprocessor" in diagnose(launch(values, half=0.005)).borderline


def test_latency_names_the_top_stall_when_it_weighs() -> None:
    values = busy(20, 40) | {
        CPI: 20.0,
        ISSUE: 0.3,
        STALL.format("long_scoreboard"): 12.0,
        STALL.format("selected"): 15.0,
    }
    found = diagnose(launch(values))
    assert (found.name, found.limiter) == ("latency", "long_scoreboard")


def test_latency_without_a_heavy_stall_names_the_occupancy_limiter() -> None:
    values = busy(20, 40) | {
        "sm__maximum_warps_per_active_cycle_pct": 25.0,
        "launch__occupancy_limit_registers": 2.0,
        "launch__occupancy_limit_warps": 8.0,
    }
    assert diagnose(launch(values)).limiter == "occupancy(registers)"


def test_a_short_latency_kernel_is_small() -> None:
    assert diagnose(launch(busy(20, 40, ns=8000))).character == "small"


@given(st.floats(0, 105), st.floats(0, 105), st.floats(0, 105), st.floats(0.01, 2000), st.integers(1, 10_000))
def test_every_launch_gets_exactly_one_known_class(
    sm: float, memory: float, dram: float, waves: float, blocks: int
) -> None:
    values = busy(sm, memory, dram=dram) | {
        "launch__waves_per_multiprocessor": waves,
        "launch__grid_size": float(blocks),
    }
    found = diagnose(launch(values))
    assert found.family in CLASSES
    top = max(sm, memory)
    if found.family == "bound":
        assert top >= 80
    if found.family in ("leaning", "balanced"):
        assert 60 <= top < 80
    if found.family in ("latency", "small_grid"):
        assert top < 60


def codes(values: dict[str, float | str]) -> dict[str, float]:
    one = launch(values)
    return {f.code: f.value for f in flags(one, diagnose(one))}


def test_a_vector_load_of_16_sectors_is_not_called_uncoalesced() -> None:
    values = busy() | {
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 1600.0,
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 100.0,
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": 32.0,
    }
    assert codes(values) == {}


def test_bytes_per_sector_of_zero_means_no_ordinary_loads() -> None:
    assert codes(busy() | {"smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": 0.0}) == {}


def test_half_used_sectors_are_flagged_with_their_waste() -> None:
    values = busy() | {
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": 16.0,
        "derived__memory_l2_theoretical_sectors_global_excessive": 43.0,
        "memory_l2_theoretical_sectors_global": 100.0,
    }
    assert codes(values) == {"bytes_per_sector": 16.0, "excess_sectors": near(43.0)}


def test_few_bytes_of_a_shared_address_waste_no_sector() -> None:
    values = busy() | {
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": 20.0,
        "derived__memory_l2_theoretical_sectors_global_excessive": 0.0,
        "memory_l2_theoretical_sectors_global": 100.0,
    }
    assert codes(values) == {}


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"smsp__sass_inst_executed_op_local_ld.sum": 1152.0}, "spills"),
        (
            {
                "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": 12.0,
                "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 100.0,
            },
            "bank_conflicts",
        ),
        ({"launch__waves_per_multiprocessor": 1.2, "sm__warps_active.avg.pct_of_peak_sustained_active": 70.0}, "tail"),
        ({"lts__cycles_active.avg": 80.0, "lts__cycles_active.max": 100.0}, "imbalance"),
        ({"smsp__thread_inst_executed_per_inst_executed.ratio": 20.0}, "divergence"),
        (
            {
                "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_cycle_elapsed": 100.0,
                "smsp__sass_thread_inst_executed_op_dmul_pred_on.sum.per_cycle_elapsed": 1.0,
            },
            "fp64_literals",
        ),
        ({"lts__t_sector_hit_rate.pct": 30.0}, "low_l2_hit"),
        ({"profiler__pmsampler_dropped_samples": 4.0}, "dropped_samples"),
    ],
)
def test_each_flag_fires_on_its_metric(more: dict[str, float | str], code: str) -> None:
    assert code in codes(busy() | more)


def test_each_flag_names_metric_threshold_and_source() -> None:
    one = launch(
        busy() | {"smsp__thread_inst_executed_per_inst_executed.ratio": 20.0, "lts__t_sector_hit_rate.pct": 30.0}
    )
    for flag in flags(one, diagnose(one)):
        assert flag.metric
        assert flag.source
        assert flag.threshold is not None


def test_occupancy_says_what_would_lift_the_limit() -> None:
    values: dict[str, float | str] = {
        "sm__maximum_warps_per_active_cycle_pct": 25.0, "launch__occupancy_limit_registers": 2.0, "launch__occupancy_limit_shared_mem": 2.0,
        "launch__occupancy_limit_warps": 8.0, "launch__block_size": 256.0, "launch__registers_per_thread": 128.0,
        "launch__shared_mem_per_block_dynamic": 40_000.0, "launch__shared_mem_config_size": 102_400.0,
    }  # fmt: skip
    facts = occupancy(launch(values))
    assert facts is not None
    assert facts.limited_by == ["registers", "shared_mem"]
    assert facts.lift is not None
    assert "80 registers a thread or fewer (now 128)" in facts.lift
    assert "34,133 bytes" in facts.lift
    assert "carve-out" in facts.lift
    larger = occupancy(launch(values | {"device__attribute_max_shared_memory_per_multiprocessor": 167_936.0}))
    assert larger is not None
    assert "55,978 bytes of shared memory a block or fewer (now 40,000) let 3 blocks fit" in str(larger.lift)
    assert occupancy(launch({SM: 1.0})) is None


def test_the_roofline_uses_the_report_s_own_peaks() -> None:
    values: dict[str, float | str] = {
        "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_cycle_elapsed": 10.0,
        "derived__smsp__sass_thread_inst_executed_op_ffma_pred_on_x2": 90.0,
        "derived__sm__sass_thread_inst_executed_op_ffma_pred_on_x2": 1000.0,
        "sm__cycles_elapsed.avg.per_second": 1e9, "dram__bytes.sum.peak_sustained": 100.0,
        "dram__cycles_elapsed.avg.per_second": 1e9, "dram__bytes.sum.per_second": 5e10,
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum.per_cycle_elapsed": 500.0,
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum.peak_sustained": 4000.0,
        "sm__ops_path_tensor_src_int8.sum.per_cycle_elapsed": 0.0, "sm__ops_path_tensor_src_int8.sum.peak_sustained": 8000.0,
    }  # fmt: skip
    tensor, fp32 = rooflines(launch(values))
    assert (tensor.precision, tensor.peak_flops_per_s) == ("src_bf16_dst_fp32", near(4e12))
    assert (fp32.flops_per_s, fp32.intensity, fp32.side) == (near(1e11), near(2.0), "memory")
    assert fp32.attained_pct == near(50.0)


def rule(name: str, kind: str | None, pct: float | None, message: str = "m") -> RuleResult:
    return RuleResult(name, "S", "optimization", "", message, kind, pct)


def test_only_global_estimates_rank_and_l2_compression_never_does() -> None:
    one = launch(busy(20, 89))
    one.rules = [
        rule("HighPipeUtilization", "local", 89.8), rule("MemoryL2Compression", "global", 45.8),
        rule("UncoalescedGlobalAccess", "global", 42.2), rule("SOLBottleneck", None, None, "This workload is utilizing greater than 80.0%"),
    ]  # fmt: skip
    opinion = second_opinion(one, diagnose(one))
    assert opinion["top"]["rule"] == "UncoalescedGlobalAccess"
    assert (opinion["agrees"], opinion["top_fits_class"]) == ("yes", True)
    assert {e["rule"] for e in opinion["excluded"]} == {"HighPipeUtilization", "MemoryL2Compression"}


def test_disagreement_is_stated() -> None:
    one = launch(busy(20, 89))
    one.rules = [
        rule(
            "SOLBottleneck", None, None, "This kernel exhibits low compute throughput and memory bandwidth utilization"
        )
    ]
    opinion = second_opinion(one, diagnose(one))
    assert opinion["agrees"] == "no"
    assert "disagrees" in opinion["note"]


def test_no_rules_is_no_opinion() -> None:
    one = launch(busy())
    assert second_opinion(one, Diagnosis("bound", "w", "dram"))["agrees"] is None


def test_link_markup_is_taken_out_of_messages() -> None:
    text = "See @section:WarpStateStats:Warp State Statistics@ and @url:the guide:https://docs.nvidia.com/x#y@ at @source:b0:0xb0@ now"
    assert plain(text) == "See Warp State Statistics and the guide at 0xb0 now"


def test_stalls_that_only_a_sentence_gives_are_taken_over() -> None:
    one = launch(busy(20, 40) | {CPI: 20.0, ISSUE: 0.3})
    said = "each warp spends 12.5 cycles being stalled waiting for sibling warps at a CTA barrier."
    one.rules = [rule("CPIStall", "global", 60.0, said)]
    settle_rules(one)
    assert diagnose(one).limiter == "barrier"


def test_a_metric_that_was_printed_wins_over_a_sentence() -> None:
    one = launch(busy() | {"launch__waves_per_multiprocessor": 0.72})
    one.rules = [rule("SOLBottleneck", None, None, "resulting in only 0.7 full waves across all SMs")]
    settle_rules(one)
    assert "Rule/waves" not in one.values


def test_dram_is_the_limiter_only_near_the_memory_figure() -> None:
    values = {SM: 20.0, MEMORY: 90.0, DRAM: 62.0}
    assert diagnose(launch(dict(values))).unit == "memory"
