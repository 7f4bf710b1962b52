"""Result files as each tool writes them: keys, units and quirks as in the tools' public source."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.engines.fakes.bench import Plan, Sample


def _percentile(values: list[float], percent: float) -> float:
    if not values:
        return 0.0
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _series(samples: list[Sample]) -> dict[str, list[float]]:
    good = [s for s in samples if not s.error]
    return {
        "ttft": [s.ttft * 1e3 for s in good],
        "tpot": [(s.latency - s.ttft) / (s.output_len - 1) * 1e3 for s in good if s.output_len > 1],
        "itl": [i * 1e3 for s in good for i in s.itls],
        "e2el": [s.latency * 1e3 for s in good],
    }


def _stats(name: str, values: list[float], percents: tuple[int, ...]) -> dict[str, float]:
    return {
        f"mean_{name}_ms": statistics.fmean(values) if values else 0.0,
        f"median_{name}_ms": _percentile(values, 50),
        f"std_{name}_ms": statistics.pstdev(values) if values else 0.0,
        **{f"p{p}_{name}_ms": _percentile(values, p) for p in percents},
    }


def _totals(samples: list[Sample], duration: float) -> dict[str, Any]:
    good = [s for s in samples if not s.error]
    made, read = sum(s.output_len for s in good), sum(s.input_len for s in good)
    span = duration or 1e-9
    return {
        "completed": len(good),
        "read": read,
        "made": made,
        "rps": len(good) / span,
        "in": read / span,
        "out": made / span,
    }


def sglang(options: dict[str, Any], work: Plan, samples: list[Sample], duration: float) -> tuple[Path | None, str]:
    """sglang.bench_serving: one line of JSON, appended; a rate of infinity is bare."""
    t, series = _totals(samples, duration), _series(samples)
    rate = float(options.get("request_rate") or "inf")
    row: dict[str, Any] = {
        "tag": options.get("tag"),
        "backend": options.get("backend") or "sglang",
        "dataset_name": options.get("dataset_name") or "sharegpt",
        "request_rate": rate,
        "max_concurrency": int(options["max_concurrency"]) if options.get("max_concurrency") else None,
        "sharegpt_output_len": None,
        "random_input_len": int(options.get("random_input_len") or 1024),
        "random_output_len": int(options.get("random_output_len") or 1024),
        "random_range_ratio": float(options.get("random_range_ratio") or 0.0),
        "server_info": None,
        "duration": duration,
        "completed": t["completed"],
        "total_input_tokens": t["read"],
        "total_input_text_tokens": t["read"],
        "total_input_vision_tokens": 0,
        "total_output_tokens": t["made"],
        "total_output_tokens_retokenized": t["made"],
        "request_throughput": t["rps"],
        "input_throughput": t["in"],
        "output_throughput": t["out"],
        "total_throughput": t["in"] + t["out"],
    }
    for name, key in (("e2e_latency", "e2el"), ("ttft", "ttft"), ("tpot", "tpot"), ("itl", "itl")):
        row |= _stats(name, series[key], (90, 95, 99))
    row |= {"concurrency": float(work.concurrency), "accept_length": None, "max_output_tokens_per_s": t["out"]}
    row["max_concurrent_requests"] = work.concurrency
    if options.get("output_details"):
        row |= {
            "input_lens": [s.input_len for s in samples],
            "output_lens": [s.output_len for s in samples],
            "ttfts": [s.ttft for s in samples],
            "itls": [s.itls for s in samples],
            "generated_texts": ["tok" for _ in samples],
            "errors": [s.error for s in samples],
        }
    name = options.get("output_file") or f"{row['backend']}_{time.strftime('%m%d')}_{len(samples)}.jsonl"
    return Path(str(name)), json.dumps(row) + "\n"


def _family(options: dict[str, Any], work: Plan, samples: list[Sample], duration: float) -> dict[str, Any]:
    t = _totals(samples, duration)
    rate = str(options.get("request_rate") or "inf")
    row: dict[str, Any] = {
        "date": time.strftime("%Y%m%d-%H%M%S"),
        "backend": options.get("backend") or "openai",
        "model_id": options.get("model"),
        "tokenizer_id": options.get("tokenizer") or options.get("model"),
        "num_prompts": len(samples),
    }
    for pair in options.get("metadata", []):
        key, _, value = pair.partition("=")
        row[key] = value
    row |= {
        "request_rate": rate if rate == "inf" else float(rate),
        "burstiness": float(options.get("burstiness") or 1.0),
        "max_concurrency": int(options["max_concurrency"]) if options.get("max_concurrency") else None,
        "duration": duration,
        "completed": t["completed"],
        "total_input_tokens": t["read"],
        "total_output_tokens": t["made"],
        "request_throughput": t["rps"],
        "output_throughput": t["out"],
        "total_token_throughput": t["in"] + t["out"],
    }
    chosen = str(options.get("percentile_metrics") or "ttft,tpot,itl").split(",")
    percents = tuple(int(p) for p in str(options.get("metric_percentiles") or "99").split(","))
    for name in chosen:
        row |= _stats(name, _series(samples)[name], percents)
    return row


def _arrays(samples: list[Sample]) -> dict[str, Any]:
    return {
        "input_lens": [s.input_len for s in samples],
        "output_lens": [s.output_len for s in samples],
        "ttfts": [s.ttft for s in samples],
        "itls": [s.itls for s in samples],
        "generated_texts": ["tok" for _ in samples],
        "errors": [s.error for s in samples],
    }


def _place(options: dict[str, Any], row: dict[str, Any]) -> Path | None:
    if not (options.get("save_result") or options.get("append_result") or options.get("output_file")):
        return None
    if options.get("output_file"):
        return Path(str(options["output_file"]))
    name = options.get("result_filename") or f"{row['backend']}-{row['request_rate']}qps-{row['date']}.json"
    return Path(str(options.get("result_dir") or ".")) / str(name)


def vllm(options: dict[str, Any], work: Plan, samples: list[Sample], duration: float) -> tuple[Path | None, str]:
    """`vllm bench serve`: one JSON; a rate of infinity is the word inf."""
    row = _family(options, work, samples, duration)
    failed = sum(1 for s in samples if s.error)
    row |= {"endpoint_type": row["backend"], "label": options.get("label"), "failed": failed, "request_goodput": None}
    row |= {
        "max_output_tokens_per_s": row["output_throughput"],
        "max_concurrent_requests": work.concurrency,
        "rtfx": 0.0,
    }
    row |= {"latencies": [s.latency for s in samples], "queue_times": [0.0 for _ in samples]}
    if options.get("save_detailed"):
        row |= _arrays(samples) | {"start_times": [s.start for s in samples]}
    return _place(options, row), json.dumps(row) + ("\n" if options.get("append_result") else "")


def trtllm(options: dict[str, Any], work: Plan, samples: list[Sample], duration: float) -> tuple[Path | None, str]:
    """TensorRT-LLM's benchmark_serving: like the family, a colon inside one key, and no failed count."""
    row = _family(options, work, samples, duration)
    per = _series(samples)["tpot"]
    row |= {"request_goodput:": None, "user_throughput": 1e3 / statistics.fmean(per) if per else 0.0}
    one = {"mean": 1.0, "min": 1.0, "max": 1.0, "median": 1.0, "std": 0.0, "percentiles": {"p99.0": 1.0}}
    row |= {"avg_decoded_tokens_per_iter": one}
    if options.get("save_detailed"):
        row |= _arrays(samples) | {"e2els": [s.latency for s in samples]}
    return _place(options, row), json.dumps(row)


def tokenspeed(options: dict[str, Any], work: Plan, samples: list[Sample], duration: float) -> tuple[Path | None, str]:
    """`tokenspeed bench serve`: like vLLM's, with fewer keys."""
    row = _family(options, work, samples, duration)
    failed = sum(1 for s in samples if s.error)
    row |= {"label": options.get("label") or row["backend"], "failed": failed, "request_goodput": None}
    row |= {"max_output_tokens_per_s": row["output_throughput"], "max_concurrent_requests": work.concurrency}
    if options.get("save_detailed"):
        row |= _arrays(samples)
    return _place(options, row), json.dumps(row)


def _metric(unit: str, values: list[float]) -> dict[str, Any]:
    if not values:
        return {"unit": unit, "avg": 0.0}
    return {
        "unit": unit,
        "avg": statistics.fmean(values),
        **{f"p{p}": _percentile(values, p) for p in (1, 5, 10, 25, 50, 75, 90, 95, 99)},
        "min": min(values),
        "max": max(values),
        "std": statistics.pstdev(values),
    }


def aiperf(options: dict[str, Any], work: Plan, samples: list[Sample], duration: float) -> tuple[Path | None, str]:
    """aiperf's profile_export_aiperf.json."""
    t, series = _totals(samples, duration), _series(samples)
    good = [s for s in samples if not s.error]
    row: dict[str, Any] = {
        "schema_version": "1.4",
        "aiperf_version": "0.13.0",
        "benchmark_id": f"fake-{work.seed}",
        "request_throughput": {"unit": "requests/sec", "avg": t["rps"]},
        "request_latency": _metric("ms", series["e2el"]),
        "request_count": {"unit": "requests", "avg": float(t["completed"])},
        "time_to_first_token": _metric("ms", series["ttft"]),
        "inter_token_latency": _metric("ms", series["tpot"]),
        "output_token_throughput": {"unit": "tokens/sec", "avg": t["out"]},
        "output_sequence_length": _metric("tokens", [float(s.output_len) for s in good]),
        "input_sequence_length": _metric("tokens", [float(s.input_len) for s in good]),
        "benchmark_duration": {"unit": "sec", "avg": duration},
        "error_request_count": {"unit": "requests", "avg": float(len(samples) - len(good))},
        "input_config": {"endpoint": {"model_names": [work.model], "type": "completions"}},
        "was_cancelled": False,
        "is_complete": True,
        "error_summary": [],
    }
    return Path(str(options.get("artifact_dir") or "artifacts")) / "profile_export_aiperf.json", json.dumps(
        row, indent=2
    )


WRITERS: dict[str, Callable[..., tuple[Path | None, str]]] = {
    "sglang": sglang,
    "vllm": vllm,
    "tensorrt_llm": trtllm,
    "tokenspeed": tokenspeed,
    "aiperf": aiperf,
}
