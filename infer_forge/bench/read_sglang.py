"""`sglang.bench_serving` (and `sglang.benchmark.serving`): JSON lines, one run a line, runs appended.

The rate may be a bare `Infinity`; there is no failed count, no model id, no seed and no date. The model and the server's
settings stand in `server_info`, which only SGLang servers answer. Files of 2024 have 18 keys. Source: sglang 0.5.23,
`sglang/benchmark/serving.py`.
"""

from __future__ import annotations

from typing import Any, cast

from infer_forge.bench import read_common as rc
from infer_forge.bench.model import Row

TOOL = "sglang.bench_serving"

_MARKS = {"random_range_ratio", "sharegpt_output_len", "total_output_tokens_retokenized", "total_throughput"}
_FRAMEWORKS = {
    "sglang": "sglang", "vllm": "vllm", "trt": "tensorrt_llm", "trtllm": "tensorrt_llm", "tensorrt": "tensorrt_llm",
    "lmdeploy": "lmdeploy", "tokenspeed": "tokenspeed", "gserver": "gserver", "truss": "truss",
}  # fmt: skip


def matches(document: rc.Document) -> bool:
    """Whether the keys are those of bench_serving."""
    return "backend" in document and "completed" in document and len(_MARKS & document.keys()) >= 2


def framework_of(backend: str | None) -> str | None:
    """The engine behind a client's backend name; None for generic names such as `openai-chat`."""
    if backend is None:
        return None
    return _FRAMEWORKS.get(backend.lower().split("-")[0])


def read(document: rc.Document, row: Row) -> None:
    """Fill a row from one run."""
    f = rc.Fields(document, row.notes)
    backend = f.text("backend")
    row.framework = framework_of(backend)
    row.workload.endpoint = backend
    _workload(f, row)
    _metrics(f, row)
    ok = rc.error_counts(f, row)
    if ok is not None:
        row.workload.num_prompts = len(ok)
        row.workload.failed_requests = ok.count(False)
    rc.per_request(f, row, ok, None)
    server = f.child("server_info")
    if server is not None:
        server_info(server, row)
    report = f.child("cache_report")
    if report is not None:
        rate = report.number("cache_hit_rate_pct")
        row.cache.prefix_cache_hit_rate = rate / 100.0 if rate is not None else None
    rc.mean_lengths(row)
    rc.settle_status(row)


def _workload(f: rc.Fields, row: Row) -> None:
    w = row.workload
    w.kind = f.text("dataset_name")
    rc.request_rate(f, row)
    w.max_concurrency = f.count("max_concurrency")
    w.random_range_ratio = f.number("random_range_ratio")
    if w.kind is not None and w.kind.startswith("random"):
        w.input_len_label_tokens = f.number("random_input_len")
        w.output_len_label_tokens = f.number("random_output_len")
    w.completed_requests = f.count("completed")
    w.measured_input_tokens = f.count("total_input_tokens")
    w.measured_output_tokens = f.count("total_output_tokens")
    w.retokenized_output_tokens = f.count("total_output_tokens_retokenized")
    tag = f.text("tag")
    if tag is not None:
        w.parameters["tag"] = tag


def _metrics(f: rc.Fields, row: Row) -> None:
    m = row.metrics
    m.duration_s = f.number("duration")
    m.request_throughput_per_s = f.number("request_throughput")
    m.input_token_throughput_per_s = f.number("input_throughput")
    m.output_token_throughput_per_s = f.number("output_throughput")
    m.total_token_throughput_per_s = f.number("total_throughput")
    m.goodput_requests_per_s = f.number("request_goodput")
    m.max_output_tokens_per_s = f.number("max_output_tokens_per_s")
    m.max_concurrent_requests = f.number("max_concurrent_requests")
    m.concurrency_mean = f.number("concurrency")
    m.ttft_ms = rc.spread(f, "ttft")
    m.tpot_ms = rc.spread(f, "tpot")
    m.itl_ms = rc.spread(f, "itl")
    m.e2e_ms = rc.spread(f, "e2e_latency")
    row.spec_decode.mean_accept_length = f.number("accept_length")


def server_info(s: rc.Fields, row: Row) -> None:
    """Facts of an SGLang server from its own `/server_info` answer. Only named keys are taken: the rest may hold host details."""
    i = row.identity
    row.model = row.model or s.text("served_model_name", "model_path")
    i.served_model = s.text("model_path")
    i.tokenizer = s.text("tokenizer_path")
    i.dtype = s.text("dtype")
    i.quantization = s.text("quantization")
    if i.quantization is None and "quantization" in s.document and s.document["quantization"] is None:
        i.quantization = "none"  # the server's own word: an explicit null in its settings
    i.tensor_parallel = s.count("tp_size")
    i.pipeline_parallel = s.count("pp_size")
    i.data_parallel = s.count("dp_size")
    i.expert_parallel = s.count("ep_size")
    i.attention_backend = s.text("attention_backend")
    i.server_seed = s.count("random_seed")
    i.reasoning_parser = s.text("reasoning_parser")
    row.framework_version = s.text("version")
    row.framework = row.framework or "sglang"
    algorithm = s.text("speculative_algorithm")
    if "speculative_algorithm" in s.document:
        row.spec_decode.enabled = algorithm is not None
    row.spec_decode.algorithm = algorithm
    row.spec_decode.draft_model = s.text("speculative_draft_model_path")
    row.spec_decode.num_steps = s.count("speculative_num_steps")
    row.spec_decode.num_draft_tokens = s.count("speculative_num_draft_tokens")
    radix = s.flag("disable_radix_cache")
    row.cache.prefix_cache_enabled = None if radix is None else not radix
    row.cache.kv_cache_tokens = s.count("max_total_num_tokens")
    row.memory.gpu_memory_utilization = s.number("mem_fraction_static")
    row.memory.kv_cache_dtype = s.text("kv_cache_dtype")
    row.memory.cpu_offload_gb = s.number("cpu_offload_gb")
    _gpu_count(s, row)
    _state(s, row)


def _gpu_count(s: rc.Fields, row: Row) -> None:
    i = row.identity
    if not i.tensor_parallel or i.tensor_parallel < 1:
        return
    replicas = 1 if s.flag("enable_dp_attention") else (i.data_parallel or 1)
    row.hardware.gpu_count = i.tensor_parallel * (i.pipeline_parallel or 1) * replicas
    row.notes.append("gpu_count is tp x pp x dp of server_info, not an observation of the GPUs")


def _state(s: rc.Fields, row: Row) -> None:
    states = s.raw("internal_states")
    first = cast("list[Any]", states)[0] if isinstance(states, list) and states else None
    if not isinstance(first, dict):
        return
    usage = rc.Fields(cast("rc.Document", first), row.notes, "internal_states.").child("memory_usage")
    if usage is not None:
        row.memory.gpu_resident_weight_gb = usage.number("weight")
        row.cache.kv_cache_tokens = row.cache.kv_cache_tokens or usage.count("token_capacity")
