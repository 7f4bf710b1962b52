"""Real traces: every sum to the nanosecond, and the known figures of the GB300 run."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import numpy as np

from infer_forge.trace import apply_mapping, load_many
from infer_forge.trace.mapping import BY_NAMES
from infer_forge.trace.read import parse

DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}


def naive(path: Path) -> tuple[int, int, int]:
    """Device ns, device events and all events of a file, the plain way."""
    raw = path.read_bytes()
    doc: Any = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw, parse_float=str)
    events = cast("list[dict[str, Any]]", doc["traceEvents"] if isinstance(doc, dict) else doc)
    work = [Decimal(e["dur"]) for e in events if e.get("ph") == "X" and e.get("cat") in DEVICE]
    return int(sum(work, Decimal(0)) * 1000), len(work), len(events)


def test_every_real_trace_sums_to_the_nanosecond(corpus: Path) -> None:
    files = sorted((corpus / "traces").rglob("*.json*"))
    assert len(files) >= 30
    for path in files:
        trace = parse(path)
        found = (int(trace.work.dur_ns.sum()), len(trace.work), trace.coverage.events_read)
        assert found == naive(path), path.name
        assert not trace.coverage.lossy, path.name


def test_every_step_of_the_gb300_run_has_48_attention_and_96_bmm_kernels(corpus: Path) -> None:
    found = load_many(corpus / "traces" / "sglang_gb300_qwen3-30b-a3b_tp4")
    assert found.ranks == [0, 1, 2, 3]
    assert len(found.skipped) == 1
    for trace in found.traces:
        ids: list[int] = trace.windows.stage.tolist()
        stages = [trace.stages[s] for s in ids]
        assert (stages.count("prefill"), stages.count("decode")) == (8, 8)
        for tag, count in (("fmha", 48), ("bmm_", 96)):
            hit = np.array([tag in n.lower() for n in trace.names])[trace.work.name]
            per_step = [int((hit & (trace.work.window == w)).sum()) for w in range(len(trace.windows))]
            assert per_step == [count] * 16


def test_real_captures_map_their_replays_by_names(corpus: Path) -> None:
    traces = corpus / "traces"
    for capture, replay, items in (
        ("sglang_mi300x_qwen3-8b_decode_graphcapture_bs32.json.gz", "sglang_mi300x_qwen3-8b_decode_graphreplay.json.gz", 544),
        ("vllm_mi300x_gptoss_piecewise_capture.pt.trace.json.gz", "vllm_mi300x_gptoss_piecewise.json.gz", 361),
    ):  # fmt: skip
        mapped = apply_mapping(parse(traces / replay), parse(traces / capture))
        assert {m.level for m in mapped.mappings} == {BY_NAMES}
        assert mapped.coverage.links["mapping"] == items
        assert "graph_replay" not in mapped.coverage.links
        assert (mapped.work.source >= 0).all()
