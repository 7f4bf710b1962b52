"""`tokenspeed bench serve`: the vLLM family without `endpoint_type`, `latencies` and `rtfx`.

Source: tokenspeed `python/tokenspeed/bench.py`.
"""

from __future__ import annotations

from infer_forge.bench import read_common as rc
from infer_forge.bench.model import Row
from infer_forge.bench.read_vllm import is_family, read_family

TOOL = "tokenspeed.bench_serve"


def matches(document: rc.Document) -> bool:
    """Whether TokenSpeed wrote it: the family's keys, its name as backend or label, and no mark of vLLM."""
    named = "tokenspeed" in (document.get("backend"), document.get("label"))
    return is_family(document) and named and "endpoint_type" not in document


def read(document: rc.Document, row: Row) -> None:
    """Fill a row from one run."""
    f = rc.Fields(document, row.notes)
    read_family(f, row, "e2els")
    row.workload.parameters |= f.rest(known=("generated_texts", "percentiles"))
