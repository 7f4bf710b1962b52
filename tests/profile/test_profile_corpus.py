"""Real traces: figures that are known from elsewhere come out."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest

from infer_forge.base.errors import InputUnusable
from infer_forge.base.records import Report
from infer_forge.profile import triage
from infer_forge.profile.model import Options

ALL = Options(rank="all", min_share=0.0, cache=False, keep=False)
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}


@pytest.fixture(scope="module")
def gb300(corpus: Path) -> Report:
    """Four ranks of SGLang on GB300."""
    return triage([corpus / "traces/sglang_gb300_qwen3-30b-a3b_tp4"], ALL)


def rows(report: Report, table: str, **wanted: Any) -> list[dict[str, Any]]:
    return [r for r in report.tables[table].dicts() if all(r[k] == v for k, v in wanted.items())]


def test_every_step_has_48_attention_kernels_and_96_expert_products(gb300: Report) -> None:
    for rank in range(4):
        for stage in ("prefill", "decode"):
            mine = rows(gb300, "kernel", rank=rank, stage=stage)
            assert sum(r["launches"] for r in mine if "fmha" in r["kernel"].lower()) == 8 * 48
            assert sum(r["launches"] for r in mine if "bmm_" in r["kernel"]) == 8 * 96


def test_busy_exposed_and_idle_by_cause_are_the_known_figures(gb300: Report) -> None:
    skew = rows(gb300, "skew", rank=0)[0]
    assert round(skew["busy_us"]) == 217_415
    assert round(skew["exposed_comm_us"]) == 90_285
    host = rows(gb300, "host", rank=0)
    sums = {k: round(sum(r[f"{k}_us"] for r in host) / 1000, 1) for k in ("host_late", "in_flight", "queued")}
    assert sums == {"host_late": 94.0, "in_flight": 0.5, "queued": 5.5}


def test_floor_and_waiting_of_1568_collectives_are_the_known_figures(gb300: Report) -> None:
    found = {rank: rows(gb300, "collectives", rank=rank) for rank in range(4)}
    assert {sum(r["count"] for r in mine) for mine in found.values()} == {1568}
    times = {rank: round(sum(r["time_us"] for r in mine) / 1000, 1) for rank, mine in found.items()}
    assert times == {0: 96.2, 1: 73.8, 2: 125.3, 3: 117.7}
    assert round(sum(r["floor_us"] for r in found[0]) / 1000, 1) == 42.0


def test_custom_communication_is_communication(gb300: Report, corpus: Path) -> None:
    kernels = rows(gb300, "kernel", rank=0, category="communication")
    assert round(sum(r["time_us"] for r in kernels) / 1000, 3) == 96.159
    b200 = triage([corpus / "traces/vllm_b200_tp8_gptoss_eager.json.gz"], ALL)
    named = [r for r in rows(b200, "kernel", category="communication") if "multimem" in r["kernel"]]
    assert round(sum(r["time_us"] for r in named) / 1000, 2) == 2.12
    assert round(sum(r["host_late_us"] for r in rows(b200, "host")) / 1000, 1) == 72.5


def test_fusions_of_real_traces_have_the_layers_of_their_models(corpus: Path) -> None:
    def found(name: str) -> dict[tuple[str, str], int]:
        report = triage([corpus / "traces" / name], ALL)
        return {(r["id"], r["stage"]): r["count"] for r in rows(report, "fuse", state="opportunity")}

    b200 = found("vllm_b200_tp8_gptoss_eager.json.gz")
    assert b200["flashinfer-rope-quantize-append", "prefill"] == 36
    assert b200["trtllm-moe-finalize-allreduce", "prefill"] == 36
    hugging = found("hf_h100_qwen1.5-0.5b.json.gz")
    assert hugging["liger-swiglu", "step"] == 24
    assert hugging["liger-rmsnorm", "step"] == 2 * 24 + 1
    assert hugging["liger-rope", "step"] == 2 * 24
    assert not {i for i, _ in hugging} & {"sglang-concat-mla-k", "vllm-rmsnorm-static-fp8"}


def test_a_gap_behind_one_stray_kernel_of_a_real_capture_is_an_edge(corpus: Path) -> None:
    report = triage([corpus / "traces/sglang_mi300x_qwen3-8b_decode_graphreplay.json.gz"], ALL)
    assert sum(r["idle_us"] for r in rows(report, "host")) < 1000
    assert "CAPTURE_EDGE" in {f.code for f in report.findings}


@pytest.mark.parametrize(
    "name", ["EDGE_cpu_model_forward.json", "EDGE_cpu_only.pt.trace.json.gz", "EDGE_rank_non_gpu.json.gz"]
)
def test_traces_without_gpu_work_are_refused_with_the_reason(corpus: Path, name: str) -> None:
    with pytest.raises(InputUnusable, match="no GPU events"):
        triage([corpus / "traces" / name], ALL)


def naive(document: bytes) -> tuple[int, int] | None:
    """Nanoseconds and launches of all device work, where the text is still JSON."""
    try:
        found: Any = json.loads(document, parse_float=Decimal)
        events = cast("list[Any]", found["traceEvents"] if isinstance(found, dict) else found)
        objects = [cast("dict[str, Any]", e) for e in events if isinstance(e, dict)]
        work = [e for e in objects if e.get("ph") == "X" and e.get("cat") in DEVICE]
        durations = [Decimal(e["dur"]) for e in work]
    except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError):
        return None
    if not all(d.is_finite() and 0 <= d < 10**15 for d in durations):
        return None
    return int(sum(durations, Decimal(0)) * 1000), len(work)


def mutate(raw: bytes, rnd: random.Random) -> bytes:
    """One damaged copy: bytes flipped, cut, a piece dropped, a field dropped, a type swapped, a bad byte in a name."""
    b = bytearray(raw)
    kind = rnd.randrange(6)
    if kind == 0:
        del b[rnd.randrange(2000, len(b)) :]
    elif kind == 1:
        for _ in range(rnd.randrange(1, 20)):
            b[rnd.randrange(len(b))] = rnd.randrange(256)
    elif kind == 2:
        at = rnd.randrange(len(b) - 500)
        del b[at : at + rnd.randrange(1, 400)]
    elif kind == 3:
        word = rnd.choice([b'"dur": ', b'"ts": ', b'"correlation": ', b'"stream": ', b'"cat": ', b'"ph": '])
        at = raw.find(word, rnd.randrange(len(raw) // 2))
        b[at : at + len(word)] = b'"x": '
    elif kind == 4:
        word = rnd.choice([b'"dur": ', b'"ts": ', b'"correlation": ', b'"device": '])
        at = raw.find(word, rnd.randrange(len(raw) // 2)) + len(word)
        b[at:at] = rnd.choice([b'"', b"-", b"[", b"null,", b"1e400", b"NaN", b"{}"])
    else:
        at = raw.find(b'"name": "', rnd.randrange(len(raw) // 2)) + 9
        b[at:at] = rnd.choice([b"\x01", b"\\", b"\xff\xfe", b'"'])
    return bytes(b)


@pytest.mark.stress
def test_damaged_copies_neither_crash_nor_report_a_wrong_sum_silently(
    corpus: Path, tmp_path: Path, stress_count: Callable[[int], int], seeded: random.Random
) -> None:
    raw = gzip.decompress((corpus / "traces/hf_h100_bert-small.json.gz").read_bytes())
    for number in range(stress_count(2000)):
        document = mutate(raw, seeded)
        path = tmp_path / "m.json"
        path.write_bytes(document)
        try:
            report = triage([path], ALL)
        except InputUnusable:
            continue
        truth = naive(document)
        table = report.tables["kernel"].dicts()
        got = sum(round(r["time_us"] * 1000) for r in table), sum(r["launches"] for r in table)
        seen = {f.code for f in report.findings} & {"DAMAGED_FILE", "UNUSABLE_EVENTS", "UNKNOWN_CATEGORIES"}
        coverage = report.header.coverage
        told = bool(seen) or coverage["events_repaired"] > 0
        assert told or truth is None or got == truth, f"copy {number}: {got} instead of {truth}, and nothing was said"
