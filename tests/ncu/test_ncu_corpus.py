"""Reports of other people, read and judged: figures, classes, pairs, pages."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import InputUnusable
from infer_forge.base.records import Report
from infer_forge.ncu.comparison import compare
from infer_forge.ncu.container import read_container
from infer_forge.ncu.diagnose import diagnose
from infer_forge.ncu.dictionary import number
from infer_forge.ncu.model import NcuReport
from infer_forge.ncu.names import base_name
from infer_forge.ncu.read import load
from infer_forge.ncu.report import digest
from tests.ncu.ncu_maker import Kernel, block_ends, near, wide_csv

pytest.importorskip("ncu_report")

# First launch of each report: duration in ns, SM, memory and DRAM throughput in percent, class. None: not collected.
FIRST: dict[str, tuple[float | None, float | None, float | None, float | None, str]] = {
    "AlpriElse_cs599k__rms_norm_matrix_ncu-reports_2025-04-21_v2-float4": (408352, 21.9, 89.2, 89.2, "bound(dram)"),
    "AlpriElse_cs599k__rms_norm_triton_rms_norm_triton": (549184, 68.2, 47.3, 47.3, "leaning(issue)"),
    "AlpriElse_cs599k__rms_norm_vector_ncu-reports_2025-04-21-v1": (10816, 31.4, 35.8, 19.2, "latency"),
    "AlpriElse_cs599k__silu_triton_silu-2025-04-18-v6": (141760, 67.5, 42.2, 42.2, "leaning(issue)"),
    "AlpriElse_cs599k__silu_triton_silu-2025-04-19-v1": (None, None, None, None, "insufficient"),
    "AlpriElse_cs599k__silu_triton_silu-pytorch": (775680, 77.2, 33.5, 33.5, "leaning(issue)"),
    "DarrenLu666888_CUDATutorial__profile": (131136, 49.9, 81.1, 81.1, "bound(dram)"),
    "LakshyaSingh354_CudaCode__gemm_reps_naive": (4789792, 83.1, 83.1, 9.4, "bound(lsu)"),
    "Lashi0812_CudaProgramming__profiling_profiles_simpleDivergence": (3104, 0.0, 0.5, 0.0, "small_grid"),
    "Lashi0812_CudaProgramming__profiling_profiles_smemReduceInteger": (149152, None, None, None, "insufficient"),
    "aplainjane_CUDA_Learning__report": (17424096, 76.8, 12.5, 9.4, "leaning(alu)"),
    "armleth_cuda-mlp-inference__report_v5_4_per_thread": (81440, 12.0, 73.6, 73.6, "leaning(dram)"),
    "iamcoleman_monte-carlo-pi__profile": (77686368, 25.5, 8.3, 5.5, "latency"),
    "josiahls_cuda_learning_mojo__profile": (1600, 0.0, 1.3, 0.0, "small_grid"),
    "panjd123_cutlass__384": (26112, 14.8, 22.0, 3.0, "small_grid"),
    "panjd123_cutlass__report": (11168, 17.8, 15.2, 6.2, "small_grid"),
}


def reports(corpus: Path) -> list[Path]:
    return sorted((corpus / "ncu").glob("*.ncu-rep"))


def the(report: Report) -> dict[str, Any]:
    found: dict[str, Any] = report.extra["kernels"][0]
    return found


@pytest.mark.parametrize("name", FIRST)
def test_figures_and_class_of_the_first_launch(corpus: Path, name: str) -> None:
    duration, sm, memory, dram, expected = FIRST[name]
    report = digest([corpus / "ncu" / f"{name}.ncu-rep"], launch=0)
    kernel = the(report)
    assert kernel["duration_ns"] == duration
    for key, value in (("sm", sm), ("memory", memory), ("dram", dram)):
        got = kernel["metrics"].get(key, {}).get("value")
        assert got is None if value is None else abs(got - value) <= 0.06
    assert kernel["class"] == expected
    assert report.extra["next_edit"]["kind"] == (
        "collect" if expected == "insufficient" else report.extra["next_edit"]["kind"]
    )


def test_every_report_is_read_whole_and_ends_in_one_edit(corpus: Path) -> None:
    for path in reports(corpus):
        report = digest([path])
        coverage = report.header.coverage
        assert coverage["launches_read"] == coverage["launches_in_file"] > 0
        assert coverage["lost"] == []
        assert isinstance(report.extra["next_edit"], dict)
        assert report.render("text").count("Next edit:") == 1


def test_the_container_and_the_library_agree_on_names_shapes_and_durations(corpus: Path) -> None:
    for path in reports(corpus):
        box, read = read_container(path), load(path)
        assert [(e.kernel, e.grid, e.block, e.duration_ns) for e in box.results] == [
            (x.kernel, x.grid, x.block, number(x, "duration")) for x in read.launches
        ]
        assert all(base_name(e.demangled) == e.kernel for e in box.results)
        assert str(box.session.ncu_version).startswith("20")


def test_the_warm_up_is_not_taken_for_the_target(corpus: Path) -> None:
    folder = corpus / "ncu"
    assert (
        the(digest([folder / "AlpriElse_cs599k__silu_triton_silu-2025-04-18-v6.ncu-rep"]))["name"]
        == "silu_kernel_non_strided"
    )
    assert the(digest([folder / "iamcoleman_monte-carlo-pi__profile.ncu-rep"]))["name"] == "computeValue"
    only = digest([folder / "AlpriElse_cs599k__silu_triton_silu-pytorch.ncu-rep"])
    assert "NO_TARGET_KERNEL" in {f.code for f in only.findings}
    assert "(?!distribution_elementwise_grid_stride_kernel$)" in only.extra["next_edit"]["verify_command"]


def test_a_product_at_the_tensor_roof_is_not_told_to_move_fewer_bytes(corpus: Path) -> None:
    for name in ("cublas_8192", "cublastc_8192"):
        edit = digest([corpus / "ncu_text" / f"waynehacking8__ncu_{name}.txt"]).extra["next_edit"]
        assert edit["edit"] == "none: do fewer operations or use a narrower type", name
        assert "operations" in edit["stop_if"]


def test_the_useful_global_estimate_is_found_under_the_larger_useless_ones(corpus: Path) -> None:
    report = digest(
        [corpus / "ncu" / "AlpriElse_cs599k__rms_norm_matrix_ncu-reports_2025-04-21_v2-float4.ncu-rep"], launch=0
    )
    opinion = report.extra["second_opinion"]
    assert opinion["top"]["rule"] == "UncoalescedGlobalAccess"
    assert round(opinion["top"]["speedup_pct"]) == 42
    assert opinion["agrees"] == "yes"
    assert report.extra["next_edit"]["id"] == "coalesce"


def test_spilled_loads_and_hot_lines_are_seen(corpus: Path) -> None:
    report = digest([corpus / "ncu" / "panjd123_cutlass__384.ncu-rep"], launch=0, source=True)
    assert {f["code"]: f["value"] for f in the(report)["flags"]}["spills"] == 1152
    assert all(h["sass"] and h["stall"] for h in the(report)["hot"])
    assert any(".h:" in h["where"] for h in the(report)["hot"])


def test_two_reports_of_one_kernel_are_the_same(corpus: Path) -> None:
    folder = corpus / "ncu"
    found = compare(folder / "panjd123_cutlass__384.ncu-rep", folder / "panjd123_cutlass__report.ncu-rep").extra[
        "comparison"
    ]
    assert (found["verdict"], found["ratio"]) == ("same", None)
    path = folder / "AlpriElse_cs599k__rms_norm_matrix_ncu-reports_2025-04-21_v2-float4.ncu-rep"
    found = compare(path, path).extra["comparison"]
    assert (found["verdict"], found["ratio"]) == ("same", 1.0)


def test_an_optimised_kernel_of_the_same_report_is_improved(corpus: Path) -> None:
    path = corpus / "ncu" / "aplainjane_CUDA_Learning__report.ncu-rep"
    report = compare(path, path, kernel="reduceUnrolled$", baseline_kernel="reduceNeighbored$")
    found = report.extra["comparison"]
    assert (found["verdict"], found["moved"]) == ("improved", "the bottleneck moved from leaning(alu) to latency")
    back = compare(path, path, kernel="reduceNeighbored$", baseline_kernel="reduceUnrolled$").extra["comparison"]
    assert back["verdict"] == "regressed"


def test_the_text_page_and_its_report_agree(corpus: Path) -> None:
    folder = corpus / "ncu"
    left = load(folder / "AlpriElse_cs599k__silu_triton_silu-pytorch.ncu-rep").launches[0]
    right = load(folder / "AlpriElse_cs599k__silu_triton_silu-pytorch-ncu-report.txt").launches[0]
    assert (left.kernel, left.grid, left.cc) == (right.kernel, right.grid, right.cc)
    for key in ("sm", "memory", "dram", "duration"):  # two runs of one program: within 1 %
        assert number(left, key) == near(number(right, key) or 0, rel=0.01)
    for key in ("waves", "registers", "occupancy_theoretical", "sm_count", "limit_registers"):
        assert number(left, key) == number(right, key)


def test_text_pages_name_the_saturated_unit(corpus: Path) -> None:
    expected = {
        "waynehacking8__ncu_cublas_8192": "bound(tensor)",
        "waynehacking8__ncu_cublastc_8192": "bound(l1)",
        "waynehacking8__ncu_ltfp8_tune": "bound(fma)",
        "waynehacking8__ncu_sm120_cublastc_8192": "bound(l2)",
        "waynehacking8__ncu_sm120_mma_warptile_8192": "bound(tensor)",
    }
    for name, found in expected.items():
        assert the(digest([corpus / "ncu_text" / f"{name}.txt"]))["class"] == found


def test_csv_pages_are_read_and_a_small_grid_is_seen_in_nvidia_s_sentence(corpus: Path) -> None:
    pages = sorted((corpus / "ncu_csv").rglob("*.csv"))
    assert pages
    for path in pages:
        assert load(path).launches[0].cc == "12.0"
    small = the(digest([corpus / "ncu_csv" / "dsocr_rtx5090" / "kernel_0001" / "ncu.details.csv"]))
    assert (small["class"], small["metrics"]["waves"]["metric"]) == ("small_grid", "Rule/waves")


_PRINTED = {"ns": ("us", 1e3), "byte": ("Mbyte", 1e6), "byte/s": ("Gbyte/s", 1e9), "hz": ("cycle/nsecond", 1e9)}


def _as_csv(report: NcuReport) -> str:
    """The raw page that ncu would print of these launches: scaled units, six decimals, breakdowns as lists of names."""
    units: dict[str, str] = {}
    kernels: list[Kernel] = []
    for launch in report.launches:
        metrics: dict[str, float | str] = {}
        for name, value in launch.values.items():
            if name.startswith("Rule/"):
                continue
            unit, factor = _PRINTED.get(value.unit, (value.unit, 1.0))
            units[name] = unit
            metrics[name] = f"{value.value / factor:,.6f}" if isinstance(value.value, float) else value.value
        for name, subs in launch.breakdown.items():
            metrics[f"breakdown:{name}"] = ", ".join(subs)
        grid, block = launch.grid or (1, 1, 1), launch.block or (1, 1, 1)
        kernels.append(Kernel(launch.kernel, metrics, launch.demangled, grid, block))
    return wide_csv(kernels, units)


def test_a_report_and_the_raw_page_made_of_it_give_the_same_classes(corpus: Path, tmp_path: Path) -> None:
    for path in reports(corpus):
        left = load(path)
        page = tmp_path / f"{path.stem}.csv"
        page.write_text(_as_csv(left))
        right = load(page)
        assert [(x.kernel, diagnose(x).name, diagnose(x).unit) for x in left.launches] == [
            (x.kernel, diagnose(x).name, diagnose(x).unit) for x in right.launches
        ]
        for a, b in zip(left.launches, right.launches, strict=True):
            for name, value in a.values.items():
                if isinstance(value.value, float) and name in b.values:
                    assert (
                        float(b.values[name].value) == near(value.value, rel=1e-4)
                        or b.values[name].half_step >= abs(value.value) * 1e-4
                    )


@pytest.mark.skipif(shutil.which("ncu") is None, reason="ncu is not installed: no real raw page to compare with")
def test_a_report_and_the_raw_page_of_ncu_itself_agree(corpus: Path, tmp_path: Path) -> None:
    for path in reports(corpus):
        words = ["ncu", "--import", str(path), "--csv", "--page", "raw"]
        page = tmp_path / f"{path.stem}.csv"
        page.write_bytes(subprocess.run(words, capture_output=True, check=True).stdout)
        left, right = load(path), load(page)
        assert [diagnose(x).name for x in left.launches] == [diagnose(x).name for x in right.launches]


def test_a_real_report_cut_at_every_block_is_refused_or_salvaged(corpus: Path, tmp_path: Path) -> None:
    data = (corpus / "ncu" / "LakshyaSingh354_CudaCode__gemm_reps_naive.ncu-rep").read_bytes()
    for stop in block_ends(data)[:-1]:
        path = tmp_path / "cut.ncu-rep"
        path.write_bytes(data[: stop + 3])
        try:
            report = digest([path])
        except InputUnusable:
            assert read_container(path).results == []
        else:
            assert report.header.coverage["launches_read"] == 1
            assert report.header.coverage["lost"]
