"""Real excerpts: the verdict says what they show, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infer_forge.crash import triage

EXPECTED: dict[str, dict[str, Any]] = {
    "01": {
        "class": "ima_precise_sanitizer",
        "certainty": "proven",
        "kernel": "fused_moe_kernel",
        "location.line": 175,
        "facts.thread": "(96,0,0)",
        "facts.block": "(44,0,0)",
        "facts.size_bytes": 16,
        "facts.distance_bytes": 1241911296,
        "facts.side": "before",
    },
    "02": {
        "class": "ima_precise_sanitizer",
        "certainty": "proven",
        "kernel": "matmul_kernel",
        "location.line": 43,
        "facts.offset": "0xec0",
        "facts.distance_bytes": 161,
        "facts.side": "after",
        "facts.allocation_bytes": 1024,
    },
    "03": {
        "class": "ima_precise_sanitizer",
        "certainty": "proven",
        "kernel": "soft_max_f32",
        "facts.thread": "(72,0,0)",
        "facts.block": "(48771,0,0)",
        "facts.size_bytes": 4,
    },
    "05": {"class": "racecheck_hazard", "certainty": "proven", "kernel": "ckMedian"},
    "08": {"class": "initcheck_kernel", "kernel": "count_set_bits_kernel", "facts.size_bytes": 1},
    "10": {"class": "initcheck_host_api", "kernel": None, "api": "cudaMemcpy", "facts.not_a_kernel": True},
    "11": {
        "class": "ima_async",
        "certainty": "surfaced_only",
        "kernel": None,
        "api": None,
        "location": None,
        "surfaced_at.function": "synchronize",
    },
    "14": {
        "class": "device_assert",
        "certainty": "proven",
        "kernel": "indexSelectSmallIndex",
        "location.line": 1515,
        "facts.condition": "srcIndex < srcSelectDimSize",
        "facts.block": "1,0,0",
        "facts.repeats": 5,
    },
    "16": {"class": "device_assert_wrapped", "certainty": "surfaced_only", "kernel": None},
    "17": {
        "class": "traceback_cut",
        "certainty": "unknown",
        "rank": 2,
        "surfaced_at.function": "forward_batch_speculative_generation",
    },
    "19": {"class": "ima_capture", "certainty": "surfaced_only"},
    "21": {"class": "watchdog_hang", "cuda_crash": False, "hang.observers": list(range(8)), "rank": None},
    "23": {
        "class": "nccl_timeout",
        "rank": None,
        "hang.observers": [5],
        "hang.seq": 9141,
        "hang.op": "_ALLGATHER_BASE",
        "hang.world": 8,
    },
    "25": {"class": "nccl_desync", "rank": 7, "certainty": "surfaced_only", "hang.seq": 64088},
    "26": {
        "class": "xid_13",
        "certainty": "surfaced_only",
        "device.pci": "0000:70:00",
        "facts.sms": ["GPC1/TPC1/SM1", "GPC2/TPC7/SM1", "GPC6/TPC8/SM0"],
        "hardware": None,
    },
    "28": {"class": "xid_31", "first_event.line_no": 2, "hardware.stop_code_debugging": True, "facts.engine": "CE2"},
    "30": {"class": "rocm_hsa", "cuda_crash": False},
    "32": {
        "class": "oom_absurd",
        "rank": 2,
        "certainty": "surfaced_only",
        "surfaced_at.function": "all_gather_object",
        "hang.seq": 57,
        "hang.op": "ALLGATHER",
        "hang.observers": [0, 1],
    },
}


def reach(data: Any, path: str) -> Any:
    for part in path.split("."):
        data = data[part]
    return data


@pytest.mark.parametrize("number", list(EXPECTED))
def test_a_real_excerpt_gives_what_it_shows(number: str, corpus: Path) -> None:
    file = next((corpus / "crash" / "issues").glob(f"{number}_*"))
    found = triage([file]).extra
    for path, value in EXPECTED[number].items():
        assert reach(found, path) == value, path
    assert found["next"]["command"]
    assert found["next"]["expected_line"]


def test_a_race_is_told_with_all_its_accesses_and_hazards(corpus: Path) -> None:
    found = triage([next((corpus / "crash" / "issues").glob("05_*"))]).extra
    accesses = found["facts"]["accesses"]
    assert [a["access"] for a in accesses] == ["read", "write", "write", "write", "write"]
    assert [a.get("hazards") for a in accesses] == [None, 288, 10515, 288, 10944]


def test_the_capture_message_is_called_generic_and_wrappers_say_where_the_cause_is(corpus: Path) -> None:
    issues = corpus / "crash" / "issues"
    assert any("generic" in n for n in triage([next(issues.glob("19_*"))]).extra["not_evidence"])
    assert any("worker" in m for m in triage([next(issues.glob("16_*"))]).extra["missing_inputs"])
    assert any("traceback" in m for m in triage([next(issues.glob("17_*"))]).extra["missing_inputs"])
    assert "one wrong address" in triage([next(issues.glob("26_*"))]).extra["facts"]["reading"]
    assert "node mark" in triage([next(issues.glob("28_*"))]).extra["next"]["command"]


def test_a_start_up_failure_is_no_cuda_crash(corpus: Path) -> None:
    found = triage([corpus / "crash" / "vllm0.25.1_no_kv_cache_memory.log"]).extra
    assert found["class"] == "kv_no_memory"
    assert found["cuda_crash"] is False


def test_a_post_with_core_dump_sessions_names_their_kernel(corpus: Path) -> None:
    found = triage([corpus / "crash" / "vllm_blog_2025-08-11_cuda_coredump.md"]).extra
    assert found["class"] == "ima_coredump"
    assert found["kernel"] == "illegalMemoryAccessKernel"
    assert found["device"] == {"index": 0, "sm": "124", "pci": None}
