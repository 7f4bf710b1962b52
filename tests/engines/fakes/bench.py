"""Fake load generators: they load a server over real HTTP (or model the load) and write each tool's own result file.

FAKE_BENCH (words `key=value`): `mode=model` sends one request and models the rest from the server's own speed or from
`ttft_ms=`, `itl_ms=`; `noise=` (coefficient of variation from run to run), `jitter=` (most relative deviation of a single
time, 0.05 unless told), `seed=`; faults `crash`, `hang`, `no_file`, `truncated`, `zero_ttft`, `fail_all`, `fail=N`,
`short_output`.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.engines.fakes import helps, shapes

TOOLS = {
    "sglang": ("bench_serving.py", helps.SGLANG_BENCH),
    "vllm": ("vllm bench serve", helps.VLLM_BENCH),
    "tensorrt_llm": ("benchmark_serving.py", helps.TRTLLM_BENCH),
    "tokenspeed": ("tokenspeed bench serve", helps.TOKENSPEED_BENCH),
    "aiperf": ("aiperf profile", helps.AIPERF),
}


@dataclass
class Sample:
    """One request as the client saw it; times in seconds."""

    input_len: int
    output_len: int = 0
    ttft: float = 0.0
    latency: float = 0.0
    itls: list[float] = field(default_factory=list[float])
    error: str = ""
    start: float = 0.0


@dataclass
class Plan:
    """What the flags ask for."""

    url: str
    model: str
    prompts: list[tuple[Any, int, int]]
    concurrency: int
    ignore_eos: bool
    chat: bool
    seed: int
    options: dict[str, Any]


def _wish() -> dict[str, str]:
    words = os.environ.get("FAKE_BENCH", "").replace(",", " ").split()
    return {k: v or "1" for k, _, v in (w.partition("=") for w in words)}


def _lengths(tool: str, options: dict[str, Any], count: int, generator: random.Random) -> list[tuple[int, int]]:
    """Lengths as that tool samples them: a range ratio of 0 means [1, L] to one family and exactly L to the other."""
    if tool == "aiperf":
        wanted = int(options.get("synthetic_input_tokens_mean") or 550), int(options.get("output_tokens_mean") or 16)
        return [wanted] * count
    wanted = int(options.get("random_input_len") or 1024), int(options.get("random_output_len") or 128)
    ratio = float(options.get("random_range_ratio") or 0.0)
    if tool == "sglang":
        return [
            (
                generator.randint(max(1, int(ratio * wanted[0])), wanted[0]),
                generator.randint(max(1, int(ratio * wanted[1])), wanted[1]),
            )
            for _ in range(count)
        ]
    spans = [(int(n * (1 - ratio)) or 1, max(1, int(n * (1 + ratio)))) for n in wanted]
    return [(generator.randint(*spans[0]), generator.randint(*spans[1])) for _ in range(count)]


def _file_prompts(path: str, options: dict[str, Any]) -> list[tuple[Any, int, int]]:
    found: list[tuple[Any, int, int]] = []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        row: dict[str, Any] = json.loads(line)
        turns: list[dict[str, Any]] = row.get("conversations") or []
        prompt: Any = (
            row.get("prompt") or row.get("text") or (turns[0].get("content") or turns[0].get("value") if turns else "")
        )
        answer = len(str(turns[1].get("content") or turns[1].get("value") or "")) // 4 if len(turns) > 1 else 0
        wanted = (
            row.get("output_tokens")
            or row.get("output_len")
            or options.get("custom_output_len")
            or options.get("sharegpt_output_len")
        )
        asked = int(wanted or answer or 256)
        found.append((prompt, max(1, -(-len(str(prompt)) // 4)), asked))
    return found


def plan(tool: str, options: dict[str, Any]) -> Plan:
    """The plan of one run."""
    url = (
        options.get("base_url")
        or options.get("url")
        or f"http://{options.get('host') or '127.0.0.1'}:{options.get('port') or 8000}"
    )
    url = str(url) if "://" in str(url) else f"http://{url}"
    count = int(options.get("num_prompts") or options.get("request_count") or 1000)
    seed = int(options.get("seed") or options.get("random_seed") or 0)
    generator = random.Random(seed)
    source = options.get("dataset_path") or options.get("input_file")
    if source and options.get("dataset_name", "custom") in ("custom", "sharegpt", "single_turn"):
        prompts = _file_prompts(str(source), options)[:count]
    else:
        prompts = [("x" * (4 * i), i, o) for i, o in _lengths(tool, options, count, generator)]
    extra: dict[str, Any] = json.loads(options.get("extra_request_body") or options.get("extra_body") or "{}")
    told = {w.partition(":")[0] for w in options.get("extra_inputs", [])}
    eos = not options.get("disable_ignore_eos") if tool == "sglang" else bool(options.get("ignore_eos"))
    chat = "chat" in str(options.get("backend") or options.get("endpoint_type") or options.get("endpoint") or "")
    limit = int(options.get("max_concurrency") or options.get("concurrency") or len(prompts) or 1)
    model = str(options.get("served_model_name") or options.get("model") or "")
    return Plan(
        url, model, prompts, limit, eos or bool(extra.get("ignore_eos")) or "ignore_eos" in told, chat, seed, options
    )


def _ask(work: Plan, prompt: Any, input_len: int, output_len: int) -> Sample:
    sample = Sample(input_len)
    parts = urlsplit(work.url)
    body: dict[str, Any] = {
        "model": work.model,
        "max_tokens": output_len,
        "stream": True,
        "ignore_eos": work.ignore_eos,
        "temperature": 0,
    }
    body |= {"messages": [{"role": "user", "content": prompt}]} if work.chat else {"prompt": prompt}
    path = "/v1/chat/completions" if work.chat else "/v1/completions"
    try:
        link = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port or 80, timeout=60)
        start = last = time.perf_counter()
        link.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = link.getresponse()
        if answer.status != 200:
            sample.error = f"HTTP {answer.status}: {answer.read()[:200].decode(errors='replace')}"
            return sample
        while line := answer.readline():
            if not line.startswith(b"data: {"):
                continue
            data: dict[str, Any] = json.loads(line[6:])
            now = time.perf_counter()
            choice: dict[str, Any] = data["choices"][0]
            delta: dict[str, Any] = choice.get("delta") or {}
            text = str(choice.get("text") or delta.get("content") or delta.get("reasoning_content") or "")
            if text:
                if sample.ttft == 0.0:
                    sample.ttft = now - start
                else:
                    sample.itls.append(now - last)
                last = now
            if usage := data.get("usage"):
                sample.output_len = int(usage["completion_tokens"])
        sample.latency = last - start
        link.close()
    except (OSError, http.client.HTTPException, ValueError) as fault:
        sample.error = f"{type(fault).__name__}: {fault}"
    return sample


def _load(work: Plan) -> tuple[list[Sample], float]:
    samples: list[Sample] = [Sample(0)] * len(work.prompts)
    turn = iter(range(len(work.prompts)))
    lock = threading.Lock()
    begin = time.perf_counter()

    def drive() -> None:
        while True:
            with lock:
                index = next(turn, None)
            if index is None:
                return
            at = time.perf_counter() - begin
            samples[index] = _ask(work, *work.prompts[index])
            samples[index].start = at

    crew = [threading.Thread(target=drive) for _ in range(min(work.concurrency, len(work.prompts), 64))]
    for member in crew:
        member.start()
    for member in crew:
        member.join()
    return samples, time.perf_counter() - begin


def _speed(work: Plan) -> dict[str, float]:
    parts = urlsplit(work.url)
    link = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port or 80, timeout=10)
    link.request("GET", "/fake/speed")
    answer = link.getresponse()
    return json.loads(answer.read()) if answer.status == 200 else {}


def _model(work: Plan, wish: dict[str, str]) -> tuple[list[Sample], float]:
    speed = _speed(work)
    first = _ask(work, *work.prompts[0][:2], 1)
    if first.error:
        return [Sample(i, error=first.error) for _, i, _ in work.prompts], 0.01
    ttft, itl = (float(wish.get(k) or speed.get(k, 1.0)) / 1e3 for k in ("ttft_ms", "itl_ms"))
    per_token = float(wish.get("prefill_us_per_token") or speed.get("prefill_us_per_token", 0.0)) / 1e6
    noise = float(wish.get("noise") or speed.get("noise", 0.0))
    generator = random.Random(f"{wish.get('seed', speed.get('seed', 0))}-{speed.get('launch', 0)}-{work.seed}")
    factor = max(0.1, generator.gauss(1.0, noise)) if noise else 1.0
    jitter = float(wish.get("jitter") or 0.05)

    def near(time_s: float) -> float:
        return time_s * factor * generator.uniform(1 - jitter, 1 + jitter)

    yields = max(1.0, speed.get("accept_length", 0.0))
    samples: list[Sample] = []
    lanes = [0.0] * max(1, min(work.concurrency, len(work.prompts)))
    for _, input_len, output_len in work.prompts:
        lane = lanes.index(min(lanes))
        wait = near(ttft + input_len * per_token)
        beats = [near(itl) for _ in range(max(0, round((output_len - 1) / yields)))]
        samples.append(Sample(input_len, output_len, wait, wait + sum(beats), beats, start=lanes[lane]))
        lanes[lane] += wait + sum(beats)
    return samples, max(lanes)


def _spoil(samples: list[Sample], wish: dict[str, str]) -> None:
    failing = len(samples) if "fail_all" in wish else int(wish.get("fail", "0"))
    for sample in samples[:failing]:
        sample.error, sample.output_len, sample.ttft, sample.latency, sample.itls = (
            "ConnectionError: refused",
            0,
            0.0,
            0.0,
            [],
        )
    if "zero_ttft" in wish:
        for sample in samples:
            sample.ttft, sample.itls = 0.0, []
    if "short_output" in wish:
        for sample in samples:
            sample.output_len = max(1, sample.output_len // 2)


def main(tool: str, argv: list[str]) -> int:
    """Run one load generator."""
    usage, flags = TOOLS[tool]
    if any(w in ("-h", "--help") for w in argv):
        print(helps.help_text(usage, flags), end="")
        return 0
    wish = _wish()
    options = helps.parse(flags, argv, prog=usage)
    work = plan(tool, options)
    if "hang" in wish:
        threading.Event().wait()
    print(f"benchmark: {len(work.prompts)} prompts, concurrency {work.concurrency}", flush=True)
    if "crash" in wish:
        print("Traceback (most recent call last):\nRuntimeError: fake client died", file=sys.stderr)
        return 1
    samples, duration = _model(work, wish) if wish.get("mode") == "model" else _load(work)
    _spoil(samples, wish)
    writer: Callable[..., tuple[Path | None, str]] = shapes.WRITERS[tool]
    path, text = writer(options, work, samples, duration)
    done = sum(1 for s in samples if not s.error)
    print(f"Successful requests: {done}\nBenchmark duration (s): {duration:.2f}")
    if path is None or "no_file" in wish:
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    if "truncated" in wish:
        text = text[: len(text) // 2]
    append = tool == "sglang" or bool(options.get("append_result"))
    with path.open("a" if append else "w", encoding="utf-8") as file:
        file.write(text)
    return 0
