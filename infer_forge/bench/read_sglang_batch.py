"""`sglang.bench_one_batch_server`: JSON lines, one static batch a line.

`latency` is the wall time of the batch and `last_ttft` the time of its last first token, both in seconds; an
`acc_length` of -1 means no speculation was measured. Nothing tells how many requests failed.
"""

from __future__ import annotations

from infer_forge.bench import read_common as rc
from infer_forge.bench.model import Row

TOOL = "sglang.bench_one_batch_server"


def matches(document: rc.Document) -> bool:
    """Whether the keys are those of bench_one_batch_server."""
    return {"batch_size", "input_len", "output_len", "latency"} <= document.keys()


def read(document: rc.Document, row: Row) -> None:
    """Fill a row from one batch."""
    f = rc.Fields(document, row.notes)
    row.kind = "offline_batch"
    row.framework = "sglang"
    w, m = row.workload, row.metrics
    w.kind = "one_batch"
    w.num_prompts = f.count("batch_size")
    w.input_len_label_tokens = f.number("input_len")
    w.output_len_label_tokens = f.number("output_len")
    w.measured_output_tokens = f.count("total_output_tokens")
    m.duration_s = f.number("latency")
    m.input_token_throughput_per_s = f.number("input_throughput")
    m.output_token_throughput_per_s = f.number("output_throughput")
    m.total_token_throughput_per_s = f.number("overall_throughput")
    last = f.number("last_ttft")
    m.ttft_ms.max = last * 1000.0 if last is not None else None
    m.e2e_ms.max = m.duration_s * 1000.0 if m.duration_s is not None else None
    accept = f.number("acc_length")
    row.spec_decode.mean_accept_length = accept if accept is None or accept > 0 else None
    hit = f.number("cache_hit_rate")
    if hit is not None and 0.0 <= hit <= 1.0:
        row.cache.prefix_cache_hit_rate = hit
    w.parameters = f.rest(known=("profile_link",))
    server = f.child("server_info")
    if server is not None:
        from infer_forge.bench.read_sglang import server_info

        server_info(server, row)
