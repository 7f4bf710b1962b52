"""The twelve diagnostics: pass only on recorded evidence, fail on a difference, unknown otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.contracts import contract_of
from infer_forge.bench.fairness import diagnose, fairness_report, verdict_of
from infer_forge.bench.model import GpuState, Row
from infer_forge.bench.read import import_file


def filled(path: Path, framework: str, minute: int) -> Row:
    """A row in which everything that fairness asks for is recorded."""
    row = import_file(path).rows[0]
    row.framework, row.candidate_id = framework, f"{framework}-best"
    i, w = row.identity, row.workload
    i.model_fingerprint, i.tokenizer_sha256, i.dtype, i.quantization = "f" * 64, "t" * 64, "bfloat16", "none"
    row.hardware.gpu_model, row.hardware.gpu_count, row.hardware.driver_version = "H200", 2, "570.1"
    w.temperature, w.ignore_eos, w.prompts_unique = 0.0, True, True
    row.spec_decode.enabled, row.cache.prefix_cache_enabled = False, True
    row.memory.kv_cache_dtype, row.memory.cpu_offload_gb = "bfloat16", 0.0
    row.phase_metrics.queue_ms = 3.0
    row.client.version, row.server_env, row.started_at = "0.5.23", {}, f"2026-01-01T00:{minute:02d}:00"
    row.gpu_before, row.gpu_after = GpuState(foreign_processes=[]), GpuState(throttle_reasons=[])
    row.artifacts.server_help_sha256 = row.artifacts.server_binary_help_sha256 = "h" * 64
    return row


@pytest.fixture
def sides(sglang_file: Callable[..., Path]) -> dict[str, list[Row]]:
    """Two engines, four interleaved launches, all recorded."""
    order = (("sglang", 0), ("vllm", 1), ("vllm", 2), ("sglang", 3))
    out: dict[str, list[Row]] = {"sglang": [], "vllm": []}
    for name, minute in order:
        out[name].append(filled(sglang_file(f"{name}{minute}.jsonl", 1000.0 + minute), name, minute))
    return out


def result(sides: dict[str, list[Row]], code: str, **more: Any) -> str:
    """The result of one diagnostic."""
    return next(d.result for d in diagnose(sides, **more) if d.id == code)


def test_everything_recorded_and_equal_passes(sides: dict[str, list[Row]]) -> None:
    found = diagnose(sides)
    assert [d.id for d in found] == [f"E{n}" for n in range(1, 13)]
    assert {d.id: d.result for d in found} == {f"E{n}": "pass" for n in range(1, 13)}
    assert verdict_of(found) == "pass"


@pytest.mark.parametrize(
    ("code", "path", "value"),
    [
        ("E1", "identity.dtype", "float8"),
        ("E1", "hardware.gpu_count", 4),
        ("E1", "workload.temperature", 0.7),
        ("E2", "workload.measured_output_len_mean_tokens", 990.0),
        ("E3", "spec_decode.enabled", True),
        ("E4", "cache.prefix_cache_enabled", False),
        ("E5", "memory.kv_cache_dtype", "fp8"),
        ("E8", "client.version", "0.4"),
        ("E9", "gpu_before.foreign_processes", ["9 other"]),
        ("E10", "host.hostname", "other"),
        ("E12", "artifacts.server_help_sha256", "x" * 64),
    ],
)
def test_a_difference_fails_its_diagnostic(sides: dict[str, list[Row]], code: str, path: str, value: Any) -> None:
    for rows in sides.values():
        for row in rows:
            row.host.hostname = "here"
    for row in sides["vllm"]:
        target: Any = row.value(path.rpartition(".")[0])
        setattr(target, path.rpartition(".")[2], value)
    assert result(sides, code) == "fail"


@pytest.mark.parametrize(
    ("code", "path"),
    [
        ("E1", "identity.model_fingerprint"),
        ("E2", "workload.measured_output_len_mean_tokens"),
        ("E3", "spec_decode.enabled"),
        ("E4", "cache.prefix_cache_enabled"),
    ],
)
def test_what_nobody_recorded_is_unknown_and_blocks(sides: dict[str, list[Row]], code: str, path: str) -> None:
    for row in sides["vllm"]:
        setattr(row.value(path.rpartition(".")[0]), path.rpartition(".")[2], None)
    found = diagnose(sides)
    assert next(d for d in found if d.id == code).blocks
    assert verdict_of(found) == "unknown"


def test_auto_is_not_a_known_value(sides: dict[str, list[Row]]) -> None:
    for rows in sides.values():
        for row in rows:
            row.memory.kv_cache_dtype = "auto"
    assert result(sides, "E5") == "unknown"


def test_shared_prompts_on_a_warm_cache_are_unknown_until_hit_rates_agree(sides: dict[str, list[Row]]) -> None:
    for rows in sides.values():
        for row in rows:
            row.workload.prompts_unique = None
    assert result(sides, "E4") == "unknown"
    for rows, rate in zip(sides.values(), (0.0, 0.9), strict=True):
        for row in rows:
            row.cache.prefix_cache_hit_rate = rate
    assert result(sides, "E4") == "fail"


def test_speculation_on_both_sides_needs_its_acceptance_length(sides: dict[str, list[Row]]) -> None:
    for rows in sides.values():
        for row in rows:
            row.spec_decode.enabled, row.spec_decode.algorithm = True, "EAGLE3"
    assert result(sides, "E3") == "unknown"
    for rows in sides.values():
        for row in rows:
            row.spec_decode.mean_accept_length = 2.5
    assert result(sides, "E3") == "pass"
    sides["vllm"][0].server_env = {"SGLANG_SIMULATE_ACC_LEN": "3"}
    assert result(sides, "E3") == "fail"


def test_tuned_against_default_is_unfair(sides: dict[str, list[Row]]) -> None:
    sides["sglang"][1].candidate_id = "sglang-tuned"
    assert result(sides, "E7") == "fail"


def test_unequal_budgets_in_the_contract_fail(sides: dict[str, list[Row]]) -> None:
    contract = contract_of(
        {
            "name": "c",
            "point": {},
            "grid": {"scenarios": [{"name": "s", "input_len": 1, "output_len": 1}]},
            "sla": {},
            "client": {},
            "engines": [
                {"framework": "sglang", "max_runs": 40, "max_minutes": 60},
                {"framework": "vllm", "max_runs": 4, "max_minutes": 60},
            ],
        }
    )
    assert result(sides, "E7", contract=contract) == "fail"


def test_one_side_after_the_other_is_not_interleaved(sides: dict[str, list[Row]]) -> None:
    for minute, row in enumerate([*sides["sglang"], *sides["vllm"]]):
        row.started_at = f"2026-01-01T00:{minute:02d}:00"
    assert result(sides, "E10") == "fail"


def test_two_hub_names_that_differ_are_two_models(sides: dict[str, list[Row]]) -> None:
    for rows, name in zip(sides.values(), ("org/a", "org/b"), strict=True):
        for row in rows:
            row.model, row.identity.model_fingerprint = name, None
    assert result(sides, "E1") == "fail"


def test_the_report_names_what_blocks_and_the_parity_of_each_field(sides: dict[str, list[Row]]) -> None:
    for row in sides["vllm"]:
        row.identity.dtype = None
    report = fairness_report(sides)
    assert report.extra["verdict"] == "unknown"
    assert "E1" in report.summary[1]
    parity = {r["field"]: r["result"] for r in report.tables["parity"].dicts()}
    assert parity["identity.dtype"] == "unknown"
    assert parity["hardware.gpu_model"] == "pass"
