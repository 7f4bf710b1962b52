"""The stage of passes that nothing marks: inferred from the kernels, with its evidence; unknown where they do not tell."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from infer_forge import pipeline
from infer_forge.engines.annotations import parse
from infer_forge.pipeline.model import Options, Pass
from infer_forge.pipeline.read import read
from infer_forge.pipeline.report import build_lanes
from infer_forge.pipeline.stage import UNKNOWN, by_itself
from infer_forge.pipeline.stage_evidence import Evidence, stage_shown
from tests.pipeline.pipeline_stages import stages
from trace_gen import SPECS, WORKING_SEEDS, Spec, Step, generate

SEED = WORKING_SEEDS[3]


def _graph(spec: Spec) -> Spec:
    """Decode steps as graph replays."""
    steps = tuple(replace(s, graph=1) if s.stage == "decode" else s for s in spec.steps)
    return replace(spec, steps=steps)


FORMS: dict[str, Callable[[Spec], Spec]] = {
    "eager": lambda s: s,
    "graph replays": _graph,
    "cut at both ends": lambda s: replace(s, cut_head=0.4, cut_tail=0.3),
    "graph replays cut at both ends": lambda s: replace(_graph(s), cut_head=0.4, cut_tail=0.3),
    "with shapes": lambda s: replace(s, shapes=True),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family", ["llama", "deepseek_v3", "qwen3_next", "amd"])
def test_unmarked_passes_get_the_stage_that_their_kernels_show(family: str, form: str, tmp_path: Path) -> None:
    found = stages(FORMS[form](SPECS[family]), tmp_path, SEED)
    assert [p.stage for _, _, p in found] == [stage for stage, _, _ in found]
    assert {p.stage_from for _, _, p in found} == {"kernels"}
    assert all(p.stage_evidence and p.stage_confidence in ("high", "medium", "low") for _, _, p in found)


@pytest.mark.parametrize("family", ["vllm_mixed", "gpt_oss", "graph_piecewise", "verify"])
def test_where_prefill_and_mixed_look_alike_the_stage_is_unknown_and_never_wrong(family: str, tmp_path: Path) -> None:
    found = stages(SPECS[family], tmp_path, SEED)
    assert all(p.stage in (stage, UNKNOWN) for stage, _, p in found)
    assert all(p.stage == stage for stage, _, p in found if stage == "decode")
    assert all("prefill or mixed" in p.stage_evidence for _, _, p in found if p.stage == UNKNOWN)


@pytest.mark.parametrize("form", FORMS)
def test_diffusion_is_never_called_decode(form: str, tmp_path: Path) -> None:
    denoise = replace(SPECS["flux"], steps=(Step("denoise", graph=1),)) if "graph" in form else SPECS["flux"]
    found = stages(FORMS[form](denoise), tmp_path, SEED)
    assert {p.stage for _, _, p in found} == {UNKNOWN}


def test_long_contexts_do_not_make_prefill_of_decode(tmp_path: Path) -> None:
    """Attention over a long cache and experts of a big batch take their time in decode passes too."""
    spec = replace(SPECS["llama"], steps=(Step("decode", generation=16),), cycles=8, annotation="none", gap_us=9000.0)
    files, _ = generate(spec, tmp_path / "t.json", SEED)
    document = json.loads(files[0].read_bytes())
    kernels = [e for e in document["traceEvents"] if e.get("cat") == "kernel"]
    middle = (min(e["ts"] for e in kernels) + max(e["ts"] for e in kernels)) / 2
    for event in document["traceEvents"]:
        late = event.get("ts", 0) > middle
        event["dur"] = event["dur"] * 40 if late and "FlashAttnFwd" in event["name"] else event.get("dur", 0)
    files[0].write_text(json.dumps(document))
    passes = [p for lane in build_lanes(read(files, cache=False), None, Options()) for p in lane.passes]
    assert len(passes) == 8
    assert max(p.device_ns for p in passes) > 3 * min(p.device_ns for p in passes)
    assert {p.stage for p in passes} == {UNKNOWN}  # nothing to compare with: one class of products


def test_a_trace_that_trains_has_no_serving_stage(tmp_path: Path) -> None:
    files, _ = generate(replace(_graph(SPECS["llama"]), annotation="none"), tmp_path / "t.json", SEED)
    document = json.loads(files[0].read_bytes())
    last = max((e for e in document["traceEvents"] if e.get("cat") == "kernel"), key=lambda e: e["ts"])
    step = {
        **last,
        "ts": last["ts"] + 500,
        "name": "void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>()",
    }
    document["traceEvents"].append(step)
    files[0].write_text(json.dumps(document))
    passes = [p for lane in build_lanes(read(files, cache=False), None, Options()) for p in lane.passes]
    assert {p.stage for p in passes} == {UNKNOWN}
    assert all("trains" in p.stage_evidence for p in passes)


def test_batch_and_tokens_come_from_the_dims_of_the_ops(tmp_path: Path) -> None:
    spec = replace(SPECS["llama"], shapes=True)
    found = [p for _, _, p in stages(spec, tmp_path, SEED)]
    assert {(p.stage, p.batch, p.tokens, p.kind) for p in found} == {
        ("prefill", 2, 4096, None),
        ("decode", 16, 16, "decode"),
    }


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP64VarSeqQ128Kv128PersistentContext", "prefill"),
        (
            "fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP64MultiCtasKvVarSeqQ8Kv128StaticSwapsAbForGen",
            "decode",
        ),
        ("kernel_unified_attention_3d", "decode"),
        ("_fwd_grouped_kernel_stage1", "decode"),
        ("void flashinfer::BatchPrefillWithRaggedKVCacheKernel<flashinfer::KernelTraits<1>>(int)", "prefill"),
        ("kernel_unified_attention_2d", None),
        ("void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<1>>(int)", None),
        (
            "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>(flash::Flash_fwd_params)",
            None,
        ),
    ],
)
def test_a_kernel_that_serves_every_stage_shows_none(name: str, stage: str | None) -> None:
    shown = stage_shown(name)
    assert (shown.stage if shown else None) == stage


@pytest.mark.parametrize(
    ("evidence", "stage", "words"),
    [
        (Evidence(kernels={"decode": "pa"}, tokens=4096, requests=2), UNKNOWN, "contradiction"),
        (Evidence(kernels={"prefill": "fmha"}, tokens=16, requests=16), UNKNOWN, "contradiction"),
        (Evidence(kernels={"prefill": "a", "decode": "b"}, only_always=True), UNKNOWN, "prefill or mixed"),
        (Evidence(kernels={"prefill": "a", "decode": "b"}), "mixed", "in one pass"),
        (Evidence(kernels={"decode": "b"}, tokens=32, requests=8), "decode", "attention kernel"),
        (Evidence(kernels={"verify": "verify_tree"}), "decode", "drafts"),
        (Evidence(tokens=8192, requests=46, serving=True), UNKNOWN, "prefill or mixed"),
    ],
)
def test_evidence_that_contradicts_or_leaves_two_stages_gives_none(evidence: Evidence, stage: str, words: str) -> None:
    verdict = by_itself(evidence, None)
    assert verdict is not None
    assert verdict.stage == stage
    assert words in verdict.why
    assert verdict.kind == ("verify" if stage == "decode" else None)


def test_silent_evidence_gives_no_verdict() -> None:
    assert by_itself(Evidence(tokens=141, requests=141, serving=True, sequences=(1, 141)), None) is None
    assert by_itself(Evidence(tokens=141, requests=141), None) is None
    assert by_itself(Evidence(), None) is None
    assert by_itself(Evidence(graph_launches=1), None) is None  # replayed whole, and nothing of a server in it


def test_the_report_says_what_was_inferred_and_from_what(tmp_path: Path) -> None:
    files, _ = generate(replace(_graph(SPECS["qwen3"]), annotation="none"), tmp_path / "t.json", SEED)
    report = pipeline.analyse_pipeline(files, Options(no_triage=True, cache=False, keep=False))
    rows = report.tables["passes"].dicts()
    assert {r["stage_from"] for r in rows} == {"kernels"}
    assert {(r["stage"], r["stage_confidence"]) for r in rows} == {("prefill", "low"), ("decode", "medium")}
    point = report.extra["checklist"]["4_stage_and_batch"]
    assert {row["stage"]: row["confidence"] for row in point} == {"prefill": "low", "decode": "medium"}
    assert any("graph replay" in row["evidence"] for row in point)
    assert {f.code for f in report.findings if f.code.startswith("STAGE")} == {"STAGE_INFERRED"}


def test_annotated_passes_keep_what_their_mark_says(tmp_path: Path) -> None:
    files, _ = generate(SPECS["verify"], tmp_path / "t.json", SEED)
    passes = [p for lane in build_lanes(read(files, cache=False), None, Options()) for p in lane.passes]
    assert {(p.stage, p.kind, p.stage_from) for p in passes} == {
        ("prefill", "extend", "annotation"),
        ("decode", "verify", "annotation"),
        ("decode", "decode", "annotation"),
    }


REAL = {
    "sglang_gb300_qwen3-30b-a3b_tp4/bs16-TP-0.trace.json.gz": Counter(prefill=8, decode=8),
    "sglang_mi300x_qwen3-8b_decode_graphreplay.json.gz": Counter(decode=1),
    "vllm_b200_tp8_gptoss_eager.json.gz": Counter(prefill=1),
    "vllm_mi300x_gptoss_piecewise.json.gz": Counter(unknown=1),  # mixed: one attention kernel serves every stage
    "xdit_mi300x_flux1_sage_graph.json.gz": None,
    "hf_h100_owlv2.json.gz": None,
    "hf_mi300x_timesformer.json.gz": None,
    "hf_h100_bert-small.json.gz": None,  # its head makes logits of every token
}


@pytest.mark.parametrize("name", REAL)
def test_real_traces_without_their_marks_get_the_marked_stage_or_unknown(
    corpus: Path, name: str, tmp_path: Path
) -> None:
    document = cast("dict[str, Any]", json.loads(gzip.decompress((corpus / "traces" / name).read_bytes())))
    marks = ("user_annotation", "gpu_user_annotation")
    document["traceEvents"] = [e for e in document["traceEvents"] if e.get("cat") not in marks or not parse(e["name"])]
    plain = tmp_path / "t.json"
    plain.write_text(json.dumps(document))
    passes: list[Pass] = [p for lane in build_lanes(read([plain], cache=False), None, Options()) for p in lane.passes]
    want = REAL[name]
    assert Counter(p.stage for p in passes) == (want or Counter(unknown=len(passes)))
