"""Mutated result files: no traceback, and no number that is not in the file or follows from it by a stated formula."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from infer_forge.base.errors import ForgeError
from infer_forge.bench.checks import check_report
from infer_forge.bench.fairness import fairness_report
from infer_forge.bench.gap import decide_gap, gap_report, request_of
from infer_forge.bench.model import Row
from infer_forge.bench.rank import rank_report
from infer_forge.bench.read import import_file

HOSTILE: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1e308,
    -0.0,
    2**70,
    -(2**70),
    "",
    "inf",
    "NaN",
    "0",
    "\ud800",
    "x" * 5000,
    [],
    {},
    [[]],
    [None],
    {"a": 1},
    float("nan"),
    float("inf"),
    float("-inf"),
    [1, "two", None],
    {"unit": "ms"},
    [[[[]]]],
    10**400,
]


def aiperf() -> dict[str, Any]:
    """An aiperf export."""
    spread = {"unit": "ms", "avg": 10.0, "p50": 9.0, "p99": 20.0, "min": 1.0, "max": 21.0, "std": 2.0}
    return {
        "schema_version": "1.4",
        "aiperf_version": "0.13.0",
        "request_throughput": {"unit": "requests/sec", "avg": 3.0},
        "request_latency": spread,
        "time_to_first_token": dict(spread),
        "inter_token_latency": dict(spread),
        "output_token_throughput": {"unit": "tokens/sec", "avg": 300.0},
        "request_count": {"unit": "requests", "avg": 80},
        "input_sequence_length": {"unit": "tokens", "avg": 100.0},
        "benchmark_duration": {"unit": "sec", "avg": 27.0},
        "was_cancelled": False,
        "is_complete": True,
        "error_summary": [],
        "input_config": {"loadgen": {"concurrency": 4}, "endpoint": {"model_names": ["m"], "streaming": True}},
    }


def diffusion() -> dict[str, Any]:
    """A diffusion dump."""
    return {
        "request_id": "r",
        "commit_hash": "abc",
        "timestamp": "2026-01-01T00:00:00",
        "total_duration_ms": 1500.0,
        "steps": [{"name": "DenoisingStage", "duration_ms": 1200.0}, {"name": "DecodingStage", "duration_ms": 100.0}],
        "denoise_steps_ms": [{"step": 0, "duration_ms": 600.0}, {"step": 1, "duration_ms": 601.0}],
        "memory_checkpoints": {"after": {"peak_reserved_mb": 512.0}},
        "meta": {"height": 480, "guidance_scale": 5.0},
    }


def batch() -> dict[str, Any]:
    """A one-batch line."""
    return {
        "run_name": "d",
        "batch_size": 16,
        "input_len": 64,
        "output_len": 64,
        "latency": 8.5,
        "input_throughput": 100.0,
        "output_throughput": 120.0,
        "overall_throughput": 220.0,
        "last_ttft": 0.25,
        "acc_length": -1.0,
        "cache_hit_rate": 0.5,
    }


@pytest.fixture
def seeds(one_run: Callable[..., dict[str, Any]], vllm: Callable[..., dict[str, Any]]) -> list[dict[str, Any]]:
    """One well-formed document of every tool."""
    detailed = vllm(
        ttfts=[0.1, 0.2],
        latencies=[1.0, 2.0],
        itls=[[0.01], [0.02]],
        output_lens=[16, 16],
        input_lens=[32, 32],
        errors=["", ""],
    )
    server = one_run(
        server_info={"version": "0.5.23", "tp_size": 2, "internal_states": [{"memory_usage": {"weight": 16.5}}]},
        backend="vllm",
    )
    trt = {
        **{k: v for k, v in vllm().items() if k != "endpoint_type"},
        "request_goodput:": 1.0,
        "energy": {"total_energy_j": 50.0},
    }
    return [one_run(), server, vllm(), detailed, trt, aiperf(), diffusion(), batch()]


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of every value."""
    items: list[tuple[Any, Any]] = []
    if isinstance(document, dict):
        items = list(cast("dict[Any, Any]", document).items())
    elif isinstance(document, list):
        items = list(enumerate(cast("list[Any]", document)))
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def put(document: Any, path: tuple[Any, ...], rng: random.Random) -> None:
    """Change, remove or add something at a path."""
    for key in path[:-1]:
        document = document[key]
    key, kind = path[-1], rng.random()
    if kind < 0.2:
        del document[key]
    elif kind < 0.4 and isinstance(document[key], (int, float)) and not isinstance(document[key], bool):
        document[key] *= rng.choice([0, -1, 0.001, 1000, 1.5])
    else:
        document[key] = copy.deepcopy(rng.choice(HOSTILE))
    if kind > 0.95 and isinstance(document, dict):
        document[rng.choice(["extra", "label", "backend", "rtfx"])] = copy.deepcopy(rng.choice(HOSTILE))


def mutate(seed: dict[str, Any], rng: random.Random) -> bytes:
    """The bytes of a mutated file: values changed, then perhaps cut, doubled or with bytes flipped."""
    document = json.loads(json.dumps(seed))
    for _ in range(rng.randint(1, 4)):
        found = list(places(document))
        if found:
            put(document, rng.choice(found), rng)
    text = json.dumps(document).encode("utf-8", "surrogatepass")
    kind = rng.random()
    if kind < 0.1:
        text = text[: rng.randrange(len(text))]
    elif kind < 0.2:
        text = text + b"\n" + text[: rng.randrange(len(text))]
    elif kind < 0.3:
        flipped = bytearray(text)
        for _ in range(3):
            flipped[rng.randrange(len(flipped))] = rng.randrange(256)
        text = bytes(flipped)
    return text


def numbers(value: Any) -> Iterator[float]:
    """Every finite number in a JSON value."""
    if isinstance(value, bool):
        return
    if isinstance(value, (int, float)):
        try:
            number = float(value)
        except OverflowError:
            return
        if math.isfinite(number):
            yield number
    elif isinstance(value, dict):
        for inner in cast("dict[str, Any]", value).values():
            yield from numbers(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from numbers(inner)


# Follow from others by a stated formula; `sent` and `failed` come from counts and lists.
DERIVED = {
    "workload.measured_input_len_mean_tokens",
    "workload.measured_output_len_mean_tokens",
    "metrics.success_rate",
    "metrics.output_tokens_per_j",
    "workload.failed_requests",
    "workload.num_prompts",
    "hardware.gpu_count",
    "workload.input_len_p50_tokens",
    "workload.input_len_p95_tokens",
    "workload.output_len_p50_tokens",
    "workload.output_len_p95_tokens",
    "diffusion.denoise_ms",
    "diffusion.vae_ms",
    "diffusion.text_encode_ms",
    "diffusion.denoise_step_p50_ms",
    "diffusion.steps",
    "diffusion.cfg_parallel",
    "diffusion.peak_memory_bytes",
    "workload.parameters.timed_steps",
    "recomputed.requests",
    "recomputed.largest_deviation",
}
SCALES = (1.0, 1000.0, 0.001, 1e-6, 0.01, 2.0**20)


def invented(row: Row, text: bytes) -> list[str]:
    """Numbers of the row that are neither in the file (nor one of its units' conversions) nor derived."""
    known: set[float] = set()
    for piece in [text, *text.splitlines()]:
        try:
            known |= set(numbers(json.JSONDecoder().raw_decode(piece.decode("utf-8", "replace").strip())[0]))
        except (ValueError, RecursionError):
            continue
    scaled = {f"{n * s + 0.0:.9g}" for n in known for s in SCALES}
    if row.recomputed is not None or row.errors:
        return []  # percentiles of arrays: held to numpy in test_bench_read
    skip = {"source", "errors", "schema_id"}
    out: list[str] = []
    for path, value in flat(row.model_dump(exclude=skip)):
        if path in DERIVED or isinstance(value, (bool, str)) or value is None:
            continue
        if f"{float(value) + 0.0:.9g}" not in scaled:
            out.append(f"{path}={value}")
    return out


def flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves with their dotted path."""
    if isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            yield from flat(inner, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from flat(inner, prefix)
    else:
        yield prefix, value


@pytest.mark.stress
def test_mutated_files_give_no_traceback_and_no_invented_number(
    seeds: list[dict[str, Any]], tmp_path: Path, stress_count: Callable[[int], int], seeded: random.Random
) -> None:
    path = tmp_path / "m.json"
    read = refused = 0
    for index in range(stress_count(2000)):
        text = mutate(seeds[index % len(seeds)], seeded)
        path.write_bytes(text)
        try:
            rows = import_file(path).rows
        except ForgeError:
            refused += 1
            continue
        read += 1
        for row in rows:
            assert invented(row, text) == [], text
            json.loads(json.dumps(row.model_dump(mode="json"), allow_nan=False))
        answers(rows)
    assert read > 0
    assert refused > 0


def answers(rows: list[Row]) -> None:
    """Every answer on the rows can be given and written."""
    for make in (check_report, rank_report):
        make(rows).render("json")
    sides = {"a": rows, "b": [row.model_copy(deep=True) for row in rows]}
    fairness_report(sides).render("text")
    gap_report(decide_gap(request_of(sides, "a"))).render("json")
