"""Result files of every tool become rows; what is no result is refused as what it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.bench.read import annotate, import_file

near: Any = pytest.approx  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

Write = Callable[[str, Any], Path]
Maker = Callable[..., Path]
Doc = Callable[..., dict[str, Any]]


def test_appended_runs_and_bare_infinity_are_read(tmp_path: Path, one_run: Doc) -> None:
    first = json.dumps(one_run(request_rate=float("inf")))
    assert "Infinity" in first
    path = tmp_path / "runs.jsonl"
    path.write_text(f"{first}\n{json.dumps(one_run(900.0))}\n")
    rows = import_file(path).rows
    assert len(rows) == 2
    assert rows[0].workload.request_rate_unlimited is True
    assert rows[0].workload.request_rate_per_s is None
    assert rows[1].workload.request_rate_per_s == 8.0
    assert rows[1].source is not None
    assert rows[1].source.record == 1


def test_a_torn_last_line_loses_only_itself_and_says_how_much(tmp_path: Path, one_run: Doc) -> None:
    path = tmp_path / "torn.jsonl"
    path.write_text(json.dumps(one_run()) + "\n" + json.dumps(one_run())[:100])
    got = import_file(path)
    assert len(got.rows) == 1
    assert got.lost_bytes == 100
    assert "100 bytes" in got.notes[0]


def test_vllm_family_members_are_told_apart(write_json: Write, vllm: Doc) -> None:
    plain = vllm()
    trt = {k: v for k, v in plain.items() if k not in ("endpoint_type", "request_goodput")} | {
        "request_goodput:": 0.4,
        "user_throughput": 55.0,
    }
    speed = {k: v for k, v in plain.items() if k != "endpoint_type"} | {"backend": "tokenspeed", "label": "tokenspeed"}
    tools = [import_file(write_json(f"{i}.json", d)).rows[0] for i, d in enumerate((plain, trt, speed))]
    assert [r.tool for r in tools] == ["vllm.bench_serve", "tensorrt-llm.benchmark_serving", "tokenspeed.bench_serve"]
    assert tools[1].metrics.goodput_requests_per_s == 0.4
    assert tools[1].metrics.tokens_per_s_per_user == 55.0
    assert tools[2].framework == "tokenspeed"
    assert tools[0].started_at == "2026-01-02T03:04:05"


def test_a_sweep_summary_gives_a_row_each_and_keeps_its_parameters(write_json: Write, vllm: Doc) -> None:
    got = import_file(
        write_json("summary.json", [vllm(run_number=0, max_num_seqs=4), vllm(run_number=1, max_num_seqs=4)])
    )
    assert [r.workload.parameters["run_number"] for r in got.rows] == [0, 1]
    assert got.rows[0].workload.parameters["max_num_seqs"] == 4


def test_a_run_in_which_everything_failed_has_no_latency_of_zero(write_json: Write, vllm: Doc) -> None:
    zero = {k: 0.0 for k in vllm() if k.endswith("_ms")}
    dead = vllm(
        completed=0,
        failed=8,
        total_output_tokens=0,
        total_input_tokens=0,
        output_throughput=0.0,
        request_throughput=0.0,
        errors=["Connection refused"] * 8,
        **zero,
    )
    row = import_file(write_json("dead.json", dead)).rows[0]
    assert row.status == "failed"
    assert row.metrics.ttft_ms.mean is None
    assert row.metrics.output_token_throughput_per_s is None
    assert row.metrics.success_rate == 0.0
    assert row.errors == {"Connection refused": 8}


@pytest.mark.parametrize(
    ("text", "status"), [("CUDA out of memory", "oom"), ("request timed out", "timeout"), ("boom", "failed")]
)
def test_the_kind_of_failure_comes_from_the_errors(write_json: Write, vllm: Doc, text: str, status: str) -> None:
    row = import_file(write_json("f.json", vllm(completed=0, failed=1, errors=[text]))).rows[0]
    assert row.status == status


def test_percentiles_are_recomputed_from_the_requests_that_succeeded(write_json: Write, vllm: Doc) -> None:
    document = vllm(
        num_prompts=4,
        completed=3,
        failed=1,
        ttfts=[0.1, 0.2, 0.3, 0.0],
        latencies=[1.0, 2.0, 3.0, 0.0],
        errors=["", "", "", "x"],
        input_lens=[32] * 4,
        output_lens=[16, 16, 16, 0],
        median_ttft_ms=150.0,
    )
    row = import_file(write_json("d.json", document)).rows[0]
    assert row.metrics.ttft_ms.p50 == near(200.0)
    assert row.metrics.e2e_ms.p50 == near(2000.0)
    assert row.recomputed is not None
    assert row.recomputed.requests == 3
    assert row.recomputed.largest_deviation is not None


def test_speculation_of_vllm_is_a_share_and_a_length(write_json: Write, vllm: Doc) -> None:
    row = import_file(
        write_json("s.json", vllm(spec_decode_acceptance_rate=65.0, spec_decode_acceptance_length=2.6))
    ).rows[0]
    assert (row.spec_decode.enabled, row.spec_decode.acceptance_rate, row.spec_decode.mean_accept_length) == (
        True,
        0.65,
        2.6,
    )


def test_one_batch_server_minus_one_means_no_speculation(write_json: Write) -> None:
    document = {
        "run_name": "default",
        "batch_size": 16,
        "input_len": 2048,
        "output_len": 2048,
        "latency": 8.5,
        "input_throughput": 1.0,
        "output_throughput": 3926.2,
        "overall_throughput": 7692.6,
        "last_ttft": 0.17,
        "acc_length": -1.0,
        "cache_hit_rate": None,
    }
    row = import_file(write_json("b.json", document)).rows[0]
    assert row.kind == "offline_batch"
    assert row.spec_decode.mean_accept_length is None
    assert row.metrics.ttft_ms.max == near(170.0)
    assert row.workload.measured_output_tokens is None


def test_aiperf_units_are_read_and_an_unknown_one_is_not_guessed(write_json: Write) -> None:
    document: dict[str, Any] = {
        "aiperf_version": "0.13.0",
        "request_throughput": {"unit": "requests/sec", "avg": 3.5},
        "time_to_first_token": {"unit": "sec", "avg": 0.3, "p50": 0.25},
        "request_latency": {"unit": "fortnights", "avg": 1.0},
        "request_count": {"unit": "requests", "avg": 80},
        "error_summary": [],
        "is_complete": True,
    }
    row = import_file(write_json("a.json", document)).rows[0]
    assert row.tool == "aiperf"
    assert row.metrics.ttft_ms.p50 == near(250.0)
    assert row.metrics.e2e_ms.mean is None
    assert any("fortnights" in note for note in row.notes)
    del document["aiperf_version"]
    assert import_file(write_json("g.json", document)).rows[0].tool == "genai-perf"


def test_an_incomplete_aiperf_run_is_a_failure(write_json: Write) -> None:
    document = {
        "aiperf_version": "0.13.0",
        "request_throughput": {"unit": "requests/sec", "avg": 3.5},
        "request_latency": {"unit": "ms", "avg": 1.0},
        "is_complete": False,
        "incomplete_reason": "cancelled by a person",
    }
    row = import_file(write_json("i.json", document)).rows[0]
    assert (row.status, row.failure_reason) == ("failed", "cancelled by a person")


def test_a_diffusion_dump_gives_stage_times_and_peak_memory(write_json: Write) -> None:
    document = {
        "timestamp": "2026-01-01T00:00:00+00:00",
        "request_id": "r1",
        "commit_hash": "abc",
        "tag": "benchmark_dump",
        "total_duration_ms": 1500.0,
        "steps": [
            {"name": "TextEncodingStage", "duration_ms": 100.0},
            {"name": "DenoisingStage", "duration_ms": 1200.0},
            {"name": "DecodingStage", "duration_ms": 150.0},
        ],
        "denoise_steps_ms": [{"step": 0, "duration_ms": 610.0}, {"step": 1, "duration_ms": 590.0}],
        "memory_checkpoints": {
            "after_DenoisingStage": {"peak_reserved_mb": 1024.0},
            "after_DecodingStage": {"peak_reserved_mb": 2048.0},
        },
        "meta": {
            "model": "org/video",
            "height": 480,
            "width": 832,
            "num_frames": 81,
            "guidance_scale": 5.0,
            "seed": 42,
            "enable_cfg_parallel": True,
            "sp_degree": 2,
            "enable_torch_compile": False,
            "dit_cpu_offload": True,
        },
    }
    row = import_file(write_json("p.json", document)).rows[0]
    d = row.diffusion
    assert d is not None
    assert (d.end_to_end_ms, d.denoise_ms, d.vae_ms, d.text_encode_ms, d.steps) == (1500.0, 1200.0, 150.0, 100.0, 2)
    assert (d.width, d.frames, d.cfg_parallel, d.sequence_parallel, d.offload, d.compiled) == (
        832,
        81,
        2,
        2,
        True,
        False,
    )
    assert d.peak_memory_bytes == 2048 * 2**20
    assert row.framework_commit == "abc"


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("m.json", '{"framework": "vllm", "case": "a", "rep": 1}', "metadata"),
        ("c.json", '{"total_requests_sent": 1, "system_output_throughput": 2.0}', "concurrency benchmark"),
        ("x.json", '{"a": 1}', "known tool"),
        ("t.json", '{"traceEvents": []}', "profiler trace"),
        ("n.json", "12", "text"),
        ("e.json", "", "empty"),
        ("r.md", "# Results\n| a |", "Markdown"),
        ("r.txt", "hello", "plain text"),
        ("l.json", "[1, 2]", "not a result"),
        ("d.json", '{"backend": "sgl', "damaged"),
    ],
)
def test_strangers_are_refused_as_what_they_are(tmp_path: Path, name: str, content: str, word: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputUnusable, match=word):
        import_file(tmp_path / name)


def test_values_of_the_wrong_type_are_unknown_and_told(sglang_file: Maker) -> None:
    row = import_file(
        sglang_file("w.jsonl", mean_ttft_ms="fast", completed=True, duration=float("nan"), max_concurrency=1e400)
    ).rows[0]
    assert row.metrics.ttft_ms.mean is None
    assert row.workload.completed_requests is None
    assert row.metrics.duration_s is None
    assert len(row.notes) >= 4


def test_context_sets_row_fields_and_refuses_what_a_row_has_not(sglang_file: Maker) -> None:
    path = sglang_file("a.jsonl")
    row = import_file(path, context={"launch_id": "L1", "workload.scenario": "chat", "purpose": "decision"}).rows[0]
    assert (row.launch_id, row.workload.scenario, row.purpose) == ("L1", "chat", "decision")
    with pytest.raises(UsageFault, match="no field"):
        annotate(row, {"workload.speed": 3})
    with pytest.raises(UsageFault, match="cannot be"):
        annotate(row, {"purpose": "fun"})


def test_a_tool_that_does_not_fit_the_keys_is_refused(sglang_file: Maker) -> None:
    with pytest.raises(InputUnusable, match="does not have the keys"):
        import_file(sglang_file("a.jsonl"), tool="aiperf")
    with pytest.raises(UsageFault, match="unknown tool"):
        import_file(sglang_file("b.jsonl"), tool="wrk")


def test_every_real_result_file_imports_with_the_right_tool(corpus: Path) -> None:
    wanted = {
        "sglang_bench_one": "sglang.bench_one_batch_server",
        "sglang_bench_serving": "sglang.bench_serving",
        "vllm_bench": "vllm.bench_serve",
        "matched": "sglang.bench_serving",
    }
    count = 0
    for path in sorted((corpus / "bench").rglob("*.json*")):
        if "_meta" in path.name or "gpu_conc" in str(path):
            with pytest.raises(InputUnusable):
                import_file(path)
            continue
        relative = path.relative_to(corpus / "bench").as_posix()
        tool = next(tool for start, tool in wanted.items() if relative.startswith(start))
        rows = import_file(path).rows
        assert {row.tool for row in rows} == {tool}, relative
        count += 1
    assert count >= 26


def test_synthetic_shapes_of_five_tools_import(corpus: Path) -> None:
    found = {p.name: import_file(p).rows[0].tool for p in sorted((corpus / "bench_shapes").glob("*.json*"))}
    assert set(found.values()) == {
        "aiperf",
        "sglang.bench_serving",
        "tokenspeed.bench_serve",
        "tensorrt-llm.benchmark_serving",
        "vllm.bench_serve",
    }
