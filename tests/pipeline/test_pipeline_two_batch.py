"""Two micro-batches of one step side by side: each keeps its own layers, on two streams or taking turns on one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from infer_forge import pipeline
from infer_forge.pipeline.microbatch import Weaves, pairs_of
from infer_forge.pipeline.model import Options
from infer_forge.pipeline.segment import Names
from tests.pipeline.pipeline_score import score
from trace_gen import SPECS, WORKING_SEEDS, Spec, generate

SEED = WORKING_SEEDS[2]


def _graph(spec: Spec) -> Spec:
    return replace(spec, steps=tuple(replace(step, graph=1) for step in spec.steps))


CHANGES: dict[str, Callable[[Spec], Spec]] = {
    "eager": lambda s: s,
    "graph replays": _graph,
    "cut at both ends": lambda s: replace(s, cut_head=0.4, cut_tail=0.3),
    "without annotations": lambda s: replace(s, annotation="none"),
    "without annotations, cut": lambda s: replace(s, annotation="none", cut_head=0.4, cut_tail=0.3),
    "5 % lost": lambda s: replace(s, drop=0.05),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("form", ["streams", "stages"])
@pytest.mark.parametrize("family", ["qwen3_moe", "deepseek_v3"])
def test_every_kernel_is_in_its_layer_and_its_micro_batch(family: str, form: str, change: str, tmp_path: Path) -> None:
    found = score(CHANGES[change](replace(SPECS[family], two_batch=form, ranks=1)), tmp_path, SEED)
    assert found.missing == 0
    assert found.layer_pct >= 99
    assert found.half_pct >= 99
    shared_on_the_side = (
        family == "deepseek_v3" and change == "graph replays"
    )  # a replay does not say who launched them
    assert found.micro_pct >= (90 if shared_on_the_side else 99)


@pytest.mark.parametrize("form", ["streams", "stages"])
def test_the_draft_layers_of_both_micro_batches_are_told_apart(form: str, tmp_path: Path) -> None:
    found = score(replace(SPECS["deepseek_v3_mtp"], two_batch=form), tmp_path, SEED)
    assert min(found.layer_pct, found.half_pct, found.micro_pct) >= 99


def test_each_micro_batch_is_a_pass_with_a_note_and_no_part_of_the_batch_is_invented(tmp_path: Path) -> None:
    spec = replace(SPECS["qwen3_moe"], two_batch="streams", ranks=1)
    files, _ = generate(spec, tmp_path / "t.json", SEED)
    out = tmp_path / "step.json"
    options = Options(no_triage=True, cache=False, keep=False, stage="decode", export=out)
    report = pipeline.analyse_pipeline(files, options)
    rows = report.tables["passes"].dicts()
    assert len(rows) == 2 * 9
    assert {r["layers"] for r in rows} == {16}
    assert {r["batch"] for r in rows} == {None}
    assert (
        sum("micro-batch 1 of two" in r["note"] for r in rows)
        == sum("micro-batch 2 of two" in r["note"] for r in rows)
        == 9
    )
    assert any("two-batch overlap: 9 steps" in f.message for f in report.findings)
    streams = {e["args"]["stream"] for e in json.loads(out.read_bytes())["traceEvents"] if e.get("cat") == "kernel"}
    assert streams == {7, 28}  # the exported step holds both


def test_one_stream_that_is_shared_lowers_the_confidence(tmp_path: Path) -> None:
    spec = replace(SPECS["qwen3_moe"], two_batch="stages", ranks=1)
    files, _ = generate(spec, tmp_path / "t.json", SEED)
    report = pipeline.analyse_pipeline(files, Options(no_triage=True, cache=False, keep=False))
    assert report.extra["checklist"]["9_method"]["confidence"] == "medium"


@pytest.mark.parametrize("family", ["qwen3_moe", "deepseek_v3"])
def test_a_micro_batch_that_follows_some_stages_behind_is_said_and_trusted_little(family: str, tmp_path: Path) -> None:
    spec = replace(SPECS[family], two_batch="shifted", ranks=1)
    files, _ = generate(spec, tmp_path / "t.json", SEED)
    report = pipeline.analyse_pipeline(files, Options(no_triage=True, cache=False, keep=False))
    assert report.extra["checklist"]["9_method"]["confidence"] == "low"
    assert any("layers may be off by one" in f.message for f in report.findings)


NAMES = ["rms_norm", "nvjet_qkv", "flash_attn_fwd", "nvjet_o", "silu_and_mul", "nvjet_up", "nvjet_down"]
ATTN, FFN = [0, 1, 2, 3], [0, 5, 4, 6]


def _second(ids: list[int]) -> list[bool] | None:
    found = Weaves(Names(NAMES)).second(np.array(ids, np.int32))
    return None if found is None else found.tolist()


def test_layers_in_a_row_are_no_two_batches() -> None:
    assert _second((ATTN + FFN) * 24) is None
    assert _second(ATTN * 24) is None
    assert pairs_of(["attn", "ffn"] * 24) is None
    assert pairs_of(["attn", "ffn", "ffn"] * 24) is None  # a diffusion block with an image and a text stream
    assert pairs_of(["attn", "attn", "ffn"] * 24) is None  # time and space attention


def test_stages_that_stand_twice_are_told_apart_and_cut_ones_are_mended() -> None:
    layer = ATTN + ATTN + FFN + FFN
    want = [False] * 4 + [True] * 4 + [False] * 4 + [True] * 4
    assert _second(layer * 12) == want * 12
    assert _second((layer * 12)[2:-2]) == (want * 12)[2:-2]
    assert _second((layer * 12)[6:]) == (want * 12)[6:]
    assert pairs_of(["attn", "attn", "ffn", "ffn"] * 12) == [0, 1] * 24
