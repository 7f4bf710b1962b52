"""TensorRT-LLM `benchmark_serving --save-result`: the vLLM family with keys of its own.

`"request_goodput:"` really has a colon inside the key; whole latencies are `e2els`; energy may be recorded. Source:
TensorRT-LLM `tensorrt_llm/serve/scripts/benchmark_serving.py`.
"""

from __future__ import annotations

from infer_forge.bench import read_common as rc
from infer_forge.bench.model import Row
from infer_forge.bench.read_vllm import is_family, read_family

TOOL = "tensorrt-llm.benchmark_serving"

_MARKS = {"request_goodput:", "user_throughput", "avg_decoded_tokens_per_iter"}


def matches(document: rc.Document) -> bool:
    """Whether TensorRT-LLM wrote it."""
    return is_family(document) and bool(_MARKS & document.keys())


def read(document: rc.Document, row: Row) -> None:
    """Fill a row from one run."""
    f = rc.Fields(document, row.notes)
    read_family(f, row, "e2els")
    row.metrics.tokens_per_s_per_user = f.number("user_throughput")
    decoded = f.child("avg_decoded_tokens_per_iter")
    if decoded is not None:
        row.spec_decode.mean_accept_length = decoded.number("mean")
    energy = f.child("energy")
    if energy is not None:
        row.metrics.energy_j = energy.number("total_energy_j")
        tokens = row.workload.measured_output_tokens
        if row.metrics.energy_j and row.metrics.energy_j > 0 and tokens is not None:
            row.metrics.output_tokens_per_j = tokens / row.metrics.energy_j
    row.workload.parameters |= f.rest(known=("generated_texts", "percentiles"))
