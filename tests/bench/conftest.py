"""Result files of every tool, made here with figures that follow from each other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Maker = Callable[..., Path]


def sglang_run(rate: float = 1000.0, **over: Any) -> dict[str, Any]:
    """A bench_serving run of 80 prompts, 1000 tokens in and out, at `rate` output tokens/s."""
    seconds = 80_000 / rate
    run: dict[str, Any] = {
        "tag": None, "backend": "sglang", "dataset_name": "random", "request_rate": 8.0, "max_concurrency": 16,
        "sharegpt_output_len": None, "random_input_len": 1000, "random_output_len": 1000, "random_range_ratio": 1.0,
        "server_info": None, "duration": seconds, "completed": 80, "total_input_tokens": 80_000, "total_output_tokens": 80_000,
        "total_output_tokens_retokenized": 79_990, "request_throughput": 80 / seconds, "input_throughput": 80_000 / seconds,
        "output_throughput": 80_000 / seconds, "total_throughput": 160_000 / seconds,
        "mean_e2e_latency_ms": 18_000.0, "median_e2e_latency_ms": 18_000.0, "std_e2e_latency_ms": 10.0, "p99_e2e_latency_ms": 18_500.0,
        "mean_ttft_ms": 300.0, "median_ttft_ms": 300.0, "std_ttft_ms": 5.0, "p99_ttft_ms": 400.0,
        "mean_tpot_ms": 17.7, "median_tpot_ms": 17.7, "std_tpot_ms": 0.1, "p99_tpot_ms": 18.5,
        "mean_itl_ms": 17.7, "median_itl_ms": 17.7, "std_itl_ms": 0.5, "p99_itl_ms": 20.0,
        "concurrency": 15.8, "accept_length": None, "max_output_tokens_per_s": rate * 1.2, "max_concurrent_requests": 16,
    }  # fmt: skip
    return {**run, **over}


@pytest.fixture
def sglang_file(tmp_path: Path) -> Maker:
    """`sglang_file(name, rate, **keys)`: one bench_serving file, tagged with its name; `runs=[...]` appends several."""

    def make(name: str, rate: float = 1000.0, runs: list[dict[str, Any]] | None = None, **over: Any) -> Path:
        lines = [json.dumps(run) for run in (runs if runs is not None else [sglang_run(rate, **{"tag": name, **over})])]
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n")
        return path

    return make


@pytest.fixture
def one_run() -> Callable[..., dict[str, Any]]:
    """The document of one run, to be changed and written by the test."""
    return sglang_run


@pytest.fixture
def side_files(sglang_file: Maker) -> Callable[[str, list[float]], list[Path]]:
    """`side_files("a", [100, 101])`: one file a launch, with these output rates."""

    def make(name: str, rates: list[float], **over: Any) -> list[Path]:
        return [sglang_file(f"{name}_{i}.jsonl", rate, **over) for i, rate in enumerate(rates)]

    return make


def vllm_run(**over: Any) -> dict[str, Any]:
    """A `vllm bench serve` result of 8 prompts, 32 tokens in and 16 out."""
    run: dict[str, Any] = {
        "date": "20260102-030405", "endpoint_type": "openai", "backend": "vllm", "label": None, "model_id": "org/model",
        "tokenizer_id": "org/model", "num_prompts": 8, "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 2,
        "duration": 16.0, "completed": 8, "failed": 0, "total_input_tokens": 256, "total_output_tokens": 128,
        "request_throughput": 0.5, "request_goodput": None, "output_throughput": 8.0, "total_token_throughput": 24.0,
        "mean_ttft_ms": 50.0, "median_ttft_ms": 48.0, "std_ttft_ms": 3.0, "p99_ttft_ms": 60.0, "mean_tpot_ms": 8.0,
        "median_tpot_ms": 8.0, "std_tpot_ms": 0.2, "p99_tpot_ms": 9.0, "mean_itl_ms": 8.0, "median_itl_ms": 8.0, "p99_itl_ms": 12.0,
    }  # fmt: skip
    return {**run, **over}


@pytest.fixture
def write_json(tmp_path: Path) -> Callable[[str, Any], Path]:
    """Write a JSON document and give its path."""

    def write(name: str, document: Any) -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(document))
        return path

    return write


@pytest.fixture
def vllm() -> Callable[..., dict[str, Any]]:
    """The document of one `vllm bench serve` run."""
    return vllm_run
