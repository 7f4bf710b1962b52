"""Rules that refuse or mark rows, each with evidence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.contracts import contract_of
from infer_forge.bench.checks import check_report, check_rows, concerns, fill, row_verdicts, rules, version_note
from infer_forge.bench.checks_across import ACROSS
from infer_forge.bench.checks_rows import SINGLE
from infer_forge.bench.model import Accuracy, Diffusion, GpuState, Quality, Row
from infer_forge.bench.read import import_file

Maker = Callable[..., Path]


def fired(row: Row, **more: Any) -> dict[str, str]:
    """Rule id -> evidence of the rules that fire on one row."""
    return {f.rule: f.evidence for f in check_rows([row], **more)}


@pytest.fixture
def good(sglang_file: Maker) -> Row:
    """A row with nothing to refuse."""
    return import_file(sglang_file("good.jsonl")).rows[0]


def test_every_rule_names_a_check_that_exists_and_only_known_keys() -> None:
    data = rules()
    pitfalls = {p["id"] for p in data["pitfalls"]}
    assert pitfalls == {f"P{n}" for n in range(1, 12)}
    ids = [r["id"] for r in data["rules"]]
    assert len(ids) == len(set(ids))
    for rule in data["rules"]:
        assert set(rule) <= {
            "id",
            "severity",
            "kind",
            "void",
            "pitfall",
            "code",
            "forbids",
            "fix",
            "all",
            "say",
            "rows",
        }
        assert rule["severity"] in ("refuse", "mark", "note", "unknown")
        if "code" in rule:
            assert rule["code"] in (ACROSS if rule.get("rows") == "all" else SINGLE)
        assert rule.get("pitfall") is None or rule["pitfall"] in pitfalls
    named = {r for p in data["pitfalls"] for r in p["rules"]}
    assert named <= set(ids)
    codes = {r.get("code") for r in data["rules"]}
    assert set(SINGLE) | set(ACROSS) <= codes


def test_a_good_row_is_not_refused(good: Row) -> None:
    findings = check_rows([good])
    assert row_verdicts([good], findings) in (["ok"], ["marked"])
    assert not [f for f in findings if f.severity == "refuse"]


@pytest.mark.parametrize(
    ("over", "rule", "words"),
    [
        ({"mean_ttft_ms": 0.0, "median_ttft_ms": 0.0}, "TTFT_ZERO", "80000 output tokens"),
        ({"mean_itl_ms": 0.0}, "ITL_ZERO", "1000 output tokens a request"),
        ({"total_output_tokens_retokenized": 0}, "RETOKENIZED_ZERO", "80000"),
        ({"total_output_tokens_retokenized": 60_000}, "RETOKENIZED_LOW", "0.75"),
        ({"total_input_tokens": 40_368, "total_output_tokens": 4_880}, "LABEL_INPUT", "505 / 61"),
        ({"total_output_tokens": 70_000}, "LABEL_OUTPUT", "-12.5 %"),
        ({"completed": 0}, "ALL_FAILED", "no request completed"),
        ({"mean_ttft_ms": -3.0}, "NEGATIVE", "metrics.ttft_ms.mean is -3"),
        ({"p99_ttft_ms": 200.0}, "PERCENTILES_DISORDERED", "p50 300 above p99 200"),
        ({"mean_ttft_ms": 19_000.0}, "TTFT_OVER_E2E", "above mean latency"),
        ({"output_throughput": 2_000.0}, "THROUGHPUT_IDENTITY", "1000.00/s follows"),
        ({"duration": 5.0}, "SHORT_RUN", "5.00 s"),
        ({}, "FAILURES_UNKNOWN", "does not tell"),
        ({}, "SHARED_PROMPTS", "not recorded"),
    ],
)  # fmt: skip
def test_a_rule_fires_with_its_evidence(sglang_file: Maker, over: dict[str, Any], rule: str, words: str) -> None:
    row = import_file(sglang_file("r.jsonl", **over)).rows[0]
    assert words in fired(row)[rule]


@pytest.mark.parametrize(
    ("change", "rule", "words"),
    [
        ({"profiler_on": True}, "PROFILER_ON", "profiler was on"),
        ({"benchmark_command": "python -m x --profile --num 3"}, "PROFILER_ON", "--profile"),
        ({"gpu_before": GpuState(foreign_processes=["4242 python"])}, "FOREIGN_PROCESS", "4242 python"),
        ({"gpu_during": GpuState(throttle_reasons=["SW Power Cap"])}, "THROTTLED", "SW Power Cap"),
        ({"server_env": {"SGLANG_SIMULATE_ACC_LEN": "2.3"}}, "SPEC_SIMULATED", "pretended"),
        ({"status": "oom", "failure_reason": "CUDA out of memory"}, "NOT_OK", "oom"),
        ({"accuracy": [Accuracy(benchmark="gsm8k", score=0.7, floor=0.9)]}, "ACCURACY_FLOOR", "gsm8k 0.7, floor 0.9"),
    ],
)  # fmt: skip
def test_a_recorded_circumstance_refuses_the_row(good: Row, change: dict[str, Any], rule: str, words: str) -> None:
    assert words in fired(good.model_copy(update=change))[rule]


def test_harmless_throttle_reasons_are_harmless(good: Row) -> None:
    good.gpu_during = GpuState(throttle_reasons=["GPU Idle", "none"])
    assert "THROTTLED" not in fired(good)


def test_speculation_forbids_itl_and_an_impossible_length_is_refused(good: Row) -> None:
    good.spec_decode.enabled, good.spec_decode.algorithm = True, "EAGLE3"
    found = {f.rule: f for f in check_rows([good])}
    assert found["SPEC_ITL"].forbids == ("metrics.itl_ms", "metrics.max_output_tokens_per_s")
    assert "SPEC_LENGTH_UNKNOWN" in found
    good.spec_decode.num_steps, good.spec_decode.mean_accept_length = 3, 4.5
    assert "above the possible 4" in fired(good)["SPEC_LENGTH_IMPOSSIBLE"]
    good.spec_decode.mean_accept_length = 0.5
    assert "below 1" in fired(good)["SPEC_LENGTH_IMPOSSIBLE"]


def test_an_acceptance_length_far_from_the_published_one_is_marked_with_its_source(good: Row) -> None:
    good.model, good.spec_decode.enabled, good.spec_decode.algorithm = "Qwen/Qwen3-8B", True, "EAGLE3"
    good.spec_decode.num_steps, good.spec_decode.mean_accept_length = 3, 1.4
    assert "published 2.26" in fired(good)["SPEC_GOLDEN"]
    good.spec_decode.mean_accept_length = 2.3
    assert "SPEC_GOLDEN" not in fired(good)


def test_a_label_without_totals_is_unknown_and_the_check_says_so(write_json: Callable[[str, Any], Path]) -> None:
    document = {"batch_size": 1, "input_len": 10, "output_len": 10, "latency": 20.0, "output_throughput": 5.0}
    report = check_report([import_file(write_json("b.json", document)).rows[0]])
    assert report.extra["verdict"] == "unknown"


def test_a_recorded_failure_is_an_honest_row_and_fails_no_check(good: Row) -> None:
    oom = good.model_copy(update={"status": "oom", "failure_reason": "CUDA out of memory"})
    report = check_report([good, oom])
    assert report.extra["verdict"] == "pass"
    assert [r["verdict"] for r in report.tables["rows"].dicts()] == ["marked", "failed"]
    assert row_verdicts([good, oom], check_rows([good, oom]))[1] == "refused"


def test_the_same_result_under_two_names_is_seen_even_where_it_was_written_again(
    sglang_file: Maker, write_json: Callable[[str, Any], Path]
) -> None:
    first, other = sglang_file("a.jsonl"), sglang_file("other.jsonl")
    copy = write_json("b.json", [json.loads(other.read_text()), json.loads(first.read_text())])
    rows = [row for path in (first, copy) for row in import_file(path).rows]
    found = [f for f in check_rows(rows) if f.rule == "SAME_RESULT_TWICE"]
    assert [(f.row, f.evidence) for f in found] == [(2, "the same content as a.jsonl")]


def test_an_outlier_in_the_first_run_is_named_with_the_figure(
    side_files: Callable[..., list[Path]], sglang_file: Maker
) -> None:
    rows = [
        import_file(sglang_file(f"r{i}.jsonl", 1000.0 + i, median_ttft_ms=t)).rows[0]
        for i, t in enumerate((64.7, 22.7, 24.1))
    ]
    found = [f for f in check_rows(rows) if f.rule == "FIRST_RUN"]
    assert [f.row for f in found] == [0]
    assert "p50 TTFT 64.7 ms in the first run, 22.7, 24.1 later" in found[0].evidence
    steady = [import_file(p).rows[0] for p in side_files("s", [1000, 1001, 999])]
    assert not [f for f in check_rows(steady) if f.rule == "FIRST_RUN"]


def test_versions_decide_whether_a_pitfall_concerns_a_row(good: Row) -> None:
    p3 = next(p for p in rules()["pitfalls"] if p["id"] == "P3")
    good.client.version = "0.5.23"
    assert concerns(p3["versions"][0], good) is False
    assert "this version is good" in str(version_note(p3, good))
    good.client.version = None
    assert concerns(p3["versions"][0], good) is None
    assert "not known" in str(version_note(p3, good))


def test_an_old_vllm_client_may_not_speak_of_itl(
    write_json: Callable[[str, Any], Path], vllm: Callable[..., dict[str, Any]]
) -> None:
    row = import_file(write_json("v.json", vllm())).rows[0]
    assert "VLLM_OLD_ITL" not in fired(row)
    row.client.version = "0.5.3"
    assert "below 0.6.0" in fired(row)["VLLM_OLD_ITL"]
    row.client.version = "0.25.1"
    assert "VLLM_OLD_ITL" not in fired(row)


def test_diffusion_quality_is_identity_or_fixed_bounds() -> None:
    base = Row(tool="t", kind="diffusion", diffusion=Diffusion(end_to_end_ms=10.0, warmed_up=True))
    assert "DIFFUSION_QUALITY_UNKNOWN" in fired(base)

    def with_quality(**quality: Any) -> dict[str, str]:
        return fired(base.model_copy(update={"diffusion": Diffusion(end_to_end_ms=10.0, quality=Quality(**quality))}))

    same = with_quality(output_sha256="a", reference_sha256="a")
    assert not {"DIFFUSION_QUALITY", "DIFFUSION_QUALITY_UNKNOWN"} & set(same)
    low = with_quality(output_sha256="a", reference_sha256="b", psnr_db=20.0, psnr_floor_db=30.0)
    assert "PSNR 20.00 dB, floor 30" in low["DIFFUSION_QUALITY"]
    unbound = with_quality(output_sha256="a", reference_sha256="b", psnr_db=20.0)
    assert "DIFFUSION_QUALITY_UNKNOWN" in unbound


def contract(**over: Any) -> Any:
    """A small benchmark contract."""
    document = {
        "name": "c", "point": {"model": {"fingerprint": "f" * 64}},
        "grid": {"scenarios": [{"name": "chat", "input_len": 1000, "output_len": 1000, "num_prompts": 80}]},
        "sla": {}, "client": {}, "engines": [{"framework": "sglang", "max_runs": 4, "max_minutes": 60}],
    }  # fmt: skip
    return contract_of({**document, **over})


def test_rows_are_held_against_the_contract(good: Row) -> None:
    good.workload.scenario, good.contract_hash = "chat", "a" * 64
    assert not {"CONTRACT_WORKLOAD", "CONTRACT_HASH", "CONTRACT_MODEL"} & set(
        fired(good, contract=contract(), contract_hash="a" * 64)
    )
    good.identity.model_fingerprint = "e" * 64
    good.workload.measured_input_len_mean_tokens = 505.0
    found = fired(good, contract=contract(), contract_hash="b" * 64)
    assert "505 tokens a request, the contract says 1000" in found["CONTRACT_WORKLOAD"]
    assert "not bbbbbbbbbbbb" in found["CONTRACT_HASH"]
    assert "eeeeeeeeeeee" in found["CONTRACT_MODEL"]


def test_a_contract_with_an_accuracy_floor_needs_a_score_of_every_engine(good: Row) -> None:
    locked = contract(accuracy=[{"dataset": "gsm8k", "metric": "exact_match", "floor": 0.9}])
    assert "no gsm8k score of sglang" in fired(good, contract=locked)["ACCURACY_UNKNOWN"]
    good.accuracy = [Accuracy(benchmark="gsm8k", score=0.95)]
    assert "ACCURACY_UNKNOWN" not in fired(good, contract=locked)


def test_templates_print_unknown_fields_as_unknown(good: Row) -> None:
    good.metrics.duration_s = 12.345
    assert fill("{metrics.duration_s:1} s, {metrics.energy_j} J", good) == "12.3 s, unknown J"


def test_the_mislabelled_real_files_are_refused_with_what_really_ran(corpus: Path) -> None:
    for path in sorted((corpus / "bench").glob("*in1024_out128*.jsonl")):
        row = import_file(path).rows[0]
        evidence = fired(row)["LABEL_INPUT"]
        assert "505 / 61" in evidence or "506 / 61" in evidence
        assert "label 1024 / 128" in evidence


def test_the_reasoning_pitfall_file_is_refused(corpus: Path) -> None:
    row = import_file(corpus / "bench_shapes" / "sglang_zero_ttft_reasoning_pitfall.jsonl").rows[0]
    assert {"TTFT_ZERO", "ITL_ZERO", "RETOKENIZED_ZERO"} <= set(fired(row))
