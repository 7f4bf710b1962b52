"""Real traces: the layers that are known of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infer_forge import pipeline, trace
from infer_forge.base.records import Report
from infer_forge.pipeline.model import Options


def run(files: list[Path], **more: Any) -> Report:
    options: dict[str, Any] = {"no_triage": True, "keep": False, **more}
    return pipeline.analyse_pipeline(files, Options(**options))


def test_gb300_has_eight_passes_of_48_layers_a_stage_on_every_rank_and_one_moe_cluster(corpus: Path) -> None:
    folder = corpus / "traces" / "sglang_gb300_qwen3-30b-a3b_tp4"
    report = run([folder], config=corpus / "configs" / "Qwen--Qwen3-30B-A3B.config.json")
    passes = report.tables["passes"].dicts()
    for rank in range(4):
        for stage in ("prefill", "decode"):
            mine = [r for r in passes if r["rank"] == rank and r["stage"] == stage]
            assert [r["layers"] for r in mine] == [48] * 8
            assert not any("partial" in r["note"] for r in mine)
    clusters = report.tables["clusters"].dicts()
    assert [(c["type"], c["layers"], c["stage"]) for c in clusters] == [
        ("FULL_ATTN+MOE", 48, "prefill"),
        ("FULL_ATTN+MOE", 48, "decode"),
    ]
    assert clusters[1]["variants"] == "0, 47"
    for stage in ("prefill", "decode"):
        flow = [r["kernel"] for r in report.tables["flow"].dicts() if r["stage"] == stage]
        assert sum("bmm_" in k for k in flow) == 2
        assert sum("fmha" in k for k in flow) == 1


@pytest.mark.parametrize(
    ("name", "config", "layers", "clusters"),
    [
        ("vllm_b200_tp8_gptoss_eager", "openai--gpt-oss-120b", 36, 2),
        ("sglang_mi300x_qwen3-8b_decode_graphreplay", "Qwen--Qwen3-8B", 36, 1),
        ("vllm_mi300x_gptoss_piecewise", None, 24, 1),
        ("hf_h100_qwen1.5-0.5b", None, 24, 1),
        ("hf_mi300x_timesformer", None, 12, 1),
        ("hf_h100_bert-small", None, 4, 1),  # behind them the head of a masked language model, which is no layer
    ],
)
def test_real_models_have_their_layers(corpus: Path, name: str, config: str | None, layers: int, clusters: int) -> None:
    shape = corpus / "configs" / f"{config}.config.json" if config else None
    report = run([corpus / "traces" / f"{name}.json.gz"], config=shape)
    whole = [r["layers"] for r in report.tables["passes"].dicts() if r["layers"] and "partial" not in r["note"]]
    assert set(whole) == {layers}
    assert len(report.tables["clusters"].rows) == clusters


def test_a_diffusion_trace_shows_its_blocks_with_a_confidence(corpus: Path) -> None:
    report = run([corpus / "traces" / "xdit_mi300x_flux1_sage_graph.json.gz"])
    assert report.tables["clusters"].rows
    assert report.extra["checklist"]["9_method"]["confidence"] in ("medium", "low")


@pytest.mark.parametrize(
    ("name", "capture", "least"),
    [
        (
            "sglang_mi300x_qwen3-8b_decode_graphreplay.json.gz",
            "sglang_mi300x_qwen3-8b_decode_graphcapture_bs32.json.gz",
            0.99,
        ),
        ("vllm_mi300x_gptoss_piecewise.json.gz", "vllm_mi300x_gptoss_piecewise_capture.pt.trace.json.gz", 0.50),
    ],
)
def test_a_capture_trace_gives_graph_replays_their_ops_with_a_stated_level(
    corpus: Path, name: str, capture: str, least: float
) -> None:
    folder = corpus / "traces"
    mapped = trace.apply_mapping(trace.load(folder / name), trace.load(folder / capture))
    known = mapped.work.dur_ns[mapped.work.op >= 0].sum() / mapped.work.dur_ns.sum()
    assert float(known) >= least
    assert all(m.level for m in mapped.mappings)
    report = run([folder / name], mapping=folder / capture)
    ops = [r["op"] for r in report.tables["flow"].dicts()]
    assert np.mean([op is not None for op in ops]) > 0.9
