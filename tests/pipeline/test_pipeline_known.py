"""Known kernels of a layer: a check on the layers found, and layers themselves where the kernels show no period."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from infer_forge import pipeline
from infer_forge.base.records import Report
from infer_forge.pipeline import known
from infer_forge.pipeline.model import Options
from trace_gen import SPECS, WORKING_SEEDS, generate

SEED = WORKING_SEEDS[4]


def run(trace: Path, **more: Any) -> Report:
    options: dict[str, Any] = {"no_triage": True, "cache": False, "keep": False, **more}
    return pipeline.analyse_pipeline([trace], Options(**options))


def test_every_anchor_says_where_it_comes_from() -> None:
    assert all(a.source.count("/") and a.each >= 1 and a.at in ("start", "end", "inside") for a in known.anchors())
    assert all(a.kernel == a.kernel.lower() for a in known.anchors())


def test_layers_that_agree_with_the_anchors_say_so(tmp_path: Path) -> None:
    files, _ = generate(SPECS["deepseek_v4"], tmp_path / "t.json.gz", SEED)
    report = run(files[0])
    found = {row["kernel"]: row for row in report.extra["checklist"]["9_method"]["anchors"]}
    assert {"mhc_pre", "mhc_post", "topkgatingsoftmax"} == set(found)
    assert {row["agrees_pct"] for row in found.values()} == {100.0}
    assert found["mhc_pre"]["layers_a_pass"] == 16
    assert found["topkgatingsoftmax"]["layers_a_pass"] == 13  # the first three route by hash
    assert not any(f.code == "ANCHOR_DISAGREES" for f in report.findings)


def test_layers_that_disagree_are_kept_and_it_is_said(tmp_path: Path) -> None:
    files, _ = generate(SPECS["deepseek_v4"], tmp_path / "t.json.gz", SEED)
    report = run(files[0], anchor="mhc_pre")  # without a config it is taken to begin a layer each time: halves
    assert {r["layers"] for r in report.tables["passes"].dicts()} == {32}
    said = [f for f in report.findings if f.code == "ANCHOR_DISAGREES"]
    assert any("mhc_pre" in f.message and "16 layers a pass" in f.message for f in said)


def test_an_anchor_gives_the_layers_where_no_period_is_found(tmp_path: Path) -> None:
    files, _ = generate(SPECS["deepseek_v4"], tmp_path / "t.json", SEED)
    document = json.loads(files[0].read_bytes())
    for number, event in enumerate(document["traceEvents"]):
        if event.get("cat") == "kernel" and not event["name"].startswith("mhc_"):
            event["name"] = f"unheard_of_{number}"
    files[0].write_text(json.dumps(document))
    report = run(files[0])
    assert {r["layers"] for r in report.tables["passes"].dicts()} == {16}
    method = report.extra["checklist"]["9_method"]
    assert method["method"].startswith("anchor of references")
    assert method["confidence"] in ("medium", "low")


def test_real_layers_agree_with_the_anchors(corpus: Path) -> None:
    for name, kernel, layers in (
        ("sglang_gb300_qwen3-30b-a3b_tp4/bs16-TP-0.trace.json.gz", "fused_qknorm", 48),
        ("vllm_b200_tp8_gptoss_eager.json.gz", "reshape_and_cache_flash", 36),
        ("vllm_mi300x_gptoss_piecewise.json.gz", "reshape_and_cache_flash", 24),
    ):
        report = run(corpus / "traces" / name)
        (row,) = report.extra["checklist"]["9_method"]["anchors"]
        assert (row["kernel"], row["agrees_pct"], row["layers_a_pass"]) == (kernel, 100.0, layers)
