"""`vllm bench serve --save-result` and its sweeps; what the whole vLLM family of result files shares.

One JSON object a run (`--append-result`: several, joined by newlines; a sweep's summary: a list). Latency percentiles
are there only for the metrics that were asked for. Source: vllm `vllm/benchmarks/serve.py`.
"""

from __future__ import annotations

from infer_forge.bench import read_common as rc
from infer_forge.bench.model import Row
from infer_forge.bench.read_sglang import framework_of

TOOL = "vllm.bench_serve"

FAMILY = {"num_prompts", "completed", "total_input_tokens", "total_output_tokens", "total_token_throughput"}
"""Keys that vLLM, TensorRT-LLM and TokenSpeed write alike."""

_UNUSED = (
    "generated_texts", "start_times", "queue_times", "rps_change_events", "spec_decode_per_position_acceptance_rates",
    "spec_decode_num_drafts", "spec_decode_draft_tokens", "spec_decode_accepted_tokens", "percentiles",
)  # fmt: skip


def is_family(document: rc.Document) -> bool:
    """Whether the document is of the vLLM family at all."""
    return len(FAMILY & document.keys()) >= 4 and bool({"duration", "request_throughput"} & document.keys())


def matches(document: rc.Document) -> bool:
    """Whether vLLM wrote it: the family's keys and `endpoint_type`, `rtfx`, or no other member's mark."""
    return is_family(document)


def read(document: rc.Document, row: Row) -> None:
    """Fill a row from one run."""
    f = rc.Fields(document, row.notes)
    read_family(f, row, "latencies")
    f.raw("rtfx")
    row.workload.parameters |= f.rest(known=_UNUSED)


def read_family(f: rc.Fields, row: Row, latency_key: str) -> None:
    """The keys that the vLLM family shares; `latency_key` names the array of whole latencies."""
    backend = f.text("backend", "endpoint_type")
    row.framework = framework_of(backend) or framework_of(f.text("label"))
    row.workload.endpoint = f.text("endpoint_type") or backend
    row.model = f.text("model_id")
    row.identity.served_model = row.model
    row.identity.tokenizer = f.text("tokenizer_id")
    row.started_at = rc.started_at(f)
    _workload(f, row)
    _metrics(f, row)
    _speculation(f, row)
    ok = rc.error_counts(f, row)
    rc.per_request(f, row, ok, latency_key)
    rc.mean_lengths(row)
    rc.settle_status(row)


def _workload(f: rc.Fields, row: Row) -> None:
    w = row.workload
    rc.request_rate(f, row)
    w.kind = f.text("dataset_name")
    w.burstiness = f.number("burstiness")
    w.max_concurrency = f.count("max_concurrency")
    w.num_prompts = f.count("num_prompts")
    w.completed_requests = f.count("completed")
    w.failed_requests = f.count("failed")
    w.measured_input_tokens = f.count("total_input_tokens")
    w.measured_output_tokens = f.count("total_output_tokens")
    if w.kind is not None and w.kind.startswith("random"):
        w.input_len_label_tokens = f.number("random_input_len")
        w.output_len_label_tokens = f.number("random_output_len")
        w.random_range_ratio = f.number("random_range_ratio")


def _metrics(f: rc.Fields, row: Row) -> None:
    m = row.metrics
    m.duration_s = f.number("duration")
    m.request_throughput_per_s = f.number("request_throughput")
    m.output_token_throughput_per_s = f.number("output_throughput")
    m.total_token_throughput_per_s = f.number("total_token_throughput")
    m.goodput_requests_per_s = f.number("request_goodput", "request_goodput:")
    m.max_output_tokens_per_s = f.number("max_output_tokens_per_s")
    m.max_concurrent_requests = f.number("max_concurrent_requests")
    m.ttft_ms = rc.spread(f, "ttft")
    m.tpot_ms = rc.spread(f, "tpot")
    m.itl_ms = rc.spread(f, "itl")
    m.e2e_ms = rc.spread(f, "e2el")


def _speculation(f: rc.Fields, row: Row) -> None:
    rate = f.number("spec_decode_acceptance_rate")
    length = f.number("spec_decode_acceptance_length")
    row.spec_decode.acceptance_rate = rate / 100.0 if rate is not None else None
    row.spec_decode.mean_accept_length = length
    if rate is not None or length is not None:
        row.spec_decode.enabled = True
