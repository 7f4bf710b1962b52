"""The tools: compact, bounded, and without growth of the server's memory."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from infer_forge_mcp.results import ForgeResult
from infer_forge_mcp.tools.ncu import compare_ncu_reports, digest_ncu_report, plan_ncu_collection
from tests.ncu.ncu_maker import DURATION, Kernel, busy, container, wide_csv, write

needs_library = pytest.mark.skipif(
    find_spec("ncu_report") is None, reason="the extra `ncu` (ncu-report) is not installed"
)


def result(answer: object) -> ForgeResult:
    assert isinstance(answer, ForgeResult)
    return answer


def test_a_digest_is_small_and_points_to_the_whole_report(tmp_path: Path) -> None:
    kernels = [Kernel(f"kernel_{i}", busy(ns=1e5 - i)) for i in range(40)]
    found = result(digest_ncu_report(str(write(tmp_path / "a.csv", wide_csv(kernels, {DURATION: "ns"})))))
    assert len(found.model_dump_json(exclude_none=True)) <= 8000
    assert found.data["kernels"][0]["launch"] == 0
    assert found.data["next_edit"]["kernel"] == "kernel_0"
    assert found.artifact is not None
    assert Path(found.artifact.path).is_file()


@needs_library
def test_a_comparison_carries_verdict_and_deltas(tmp_path: Path) -> None:
    old = write(tmp_path / "o.ncu-rep", container([Kernel("k", busy(ns=100))] * 3))
    new = write(tmp_path / "n.ncu-rep", container([Kernel("k", busy(ns=70))] * 3))
    found = result(compare_ncu_reports(str(old), str(new)))
    assert found.data["comparison"]["verdict"] == "improved"
    assert found.tables["deltas"].rows[0][0] == "duration"
    assert len(found.model_dump_json(exclude_none=True)) <= 8000


def test_planning_gives_a_command_or_the_cause_of_a_failure(tmp_path: Path) -> None:
    planned = plan_ncu_collection(kernel="rms_norm", purpose="quick")
    assert "regex:rms_norm" in str(getattr(planned, "extra", {})["command"])
    log = write(tmp_path / "ncu.log", "==ERROR== ERR_NVGPUCTRPERM\n")
    failed = plan_ncu_collection(failed_log=str(log))
    assert getattr(failed, "extra", {})["cause"] == "counter_permission"


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.stress
@needs_library
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_a_hundred_digests_do_not_grow_the_server(tmp_path: Path, stress_count: Callable[[int], int]) -> None:
    path = str(write(tmp_path / "a.ncu-rep", container([Kernel("k", busy())] * 8)))
    for _ in range(8):
        digest_ncu_report(path)
    gc.collect()
    before = resident_bytes()
    for _ in range(stress_count(100)):
        digest_ncu_report(path)
    gc.collect()
    assert resident_bytes() - before < 8 << 20
