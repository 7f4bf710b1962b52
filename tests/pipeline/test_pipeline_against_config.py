"""A config of another model with as many layers is noticed, and neither types nor sizes are taken from it."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infer_forge import pipeline
from infer_forge.base.records import Report
from infer_forge.pipeline.model import Options
from trace_gen import SPECS, Spec, config, generate

MOE = replace(SPECS["qwen3_moe"], ranks=1, cycles=2)
DENSE = replace(SPECS["llama"], cycles=2, shapes=True)
HYBRID = replace(SPECS["qwen3_next"], cycles=2)
LATENT = replace(SPECS["deepseek_v3"], ranks=1, cycles=2)


def run(spec: Spec, folder: Path, shape: dict[str, Any], seed: int = 104) -> Report:
    files, _ = generate(spec, folder / "t.json.gz", seed)
    return analyse(files, folder, shape)


def analyse(files: list[Path], folder: Path, shape: dict[str, Any]) -> Report:
    (folder / "config.json").write_text(json.dumps(shape))
    options = Options(config=folder / "config.json", no_triage=True, cache=False, keep=False)
    return pipeline.analyse_pipeline(files, options)


def said(report: Report) -> list[str]:
    return [f.message for f in report.findings if f.code == "CONFIG_DISAGREES"]


@pytest.mark.parametrize(
    ("spec", "of", "words"),
    [
        (MOE, SPECS["llama"], "layers 0-15: kernels of experts, where the config has DENSE"),
        (replace(DENSE, shapes=False), MOE, "layers 0-15: no kernel that is known to be of experts"),
        (MOE, SPECS["qwen3_next"], "attention, where the config has LINEAR_ATTN"),
        (HYBRID, replace(MOE, layers=16), "a mixer that keeps a state, where the config has FULL_ATTN"),
        (LATENT, replace(MOE, layers=12), "latent attention (MLA), of which the config knows nothing"),
        (LATENT, replace(LATENT, first_k_dense=1), "layers 1, 2: no kernel that is known to be of experts"),
    ],
)
def test_a_config_of_another_model_with_as_many_layers_is_said_and_left_out(
    spec: Spec, of: Spec, words: str, tmp_path: Path
) -> None:
    report = run(spec, tmp_path, config(of))
    assert any(words in text for text in said(report)), said(report)
    points = report.extra["checklist"]
    assert points["2_model"]["agrees"] is False
    assert points["2_model"]["disagreements"] == said(report)
    assert points["9_method"]["confidence"] == "medium"
    labels = {row["type"] for row in report.tables["clusters"].dicts()}
    assert labels <= {"ATTN+MOE", "ATTN+DENSE", "LINEAR_ATTN+MOE", "MLA+MOE", "MLA+DENSE"}
    for stage in report.header.coverage["roofline"].values():
        assert stage["config_left_out"]
        assert stage["from_config_pct"] == 0


@pytest.mark.parametrize(
    "name", ["llama", "qwen3_moe", "deepseek_v3", "deepseek_v3_mtp", "qwen3_next", "deepseek_v4", "gpt_oss"]
)
@pytest.mark.parametrize("drop", [0.0, 0.05])
def test_a_models_own_config_is_never_contradicted(name: str, drop: float, tmp_path: Path) -> None:
    spec = replace(SPECS[name], ranks=1, cycles=3, drop=drop)
    report = run(spec, tmp_path, config(spec))
    assert said(report) == []
    assert report.extra["checklist"]["2_model"]["agrees"] is True


@pytest.mark.parametrize(("hidden", "other"), [(4096, False), (5120, True)])
def test_dims_that_never_hold_the_configs_hidden_size_tell_another_model(
    hidden: int, other: bool, tmp_path: Path
) -> None:
    files, _ = generate(DENSE, tmp_path / "t.json.gz", 104)
    document = json.loads(gzip.decompress(files[0].read_bytes()))
    sizes, products = [(4096, 6144), (4096, 4096), (4096, 28672), (14336, 4096)], 0
    for event in document["traceEvents"]:
        if event.get("cat") == "cpu_op" and event["name"] == "aten::mm":
            k, n = sizes[products % 4]
            event["args"]["Input Dims"], products = [[16, k], [k, n]], products + 1
    files[0].write_bytes(gzip.compress(json.dumps(document).encode()))
    report = analyse(files, tmp_path, config(DENSE) | {"hidden_size": hidden})
    wanted = ["no product or norm of the layers has an operand of the config's hidden size 5120"]
    assert said(report) == (wanted if other else [])


def test_the_roofline_leaves_a_config_of_another_layer_count_out_and_says_so(tmp_path: Path) -> None:
    report = run(MOE, tmp_path, config(MOE) | {"num_hidden_layers": 20})
    stages = report.header.coverage["roofline"]
    assert {s["config_left_out"] for s in stages.values()} == {"the kernels show 16 layers, the config 20"}
    assert report.extra["checklist"]["9_method"]["confidence"] == "medium"


def test_a_hybrid_whose_layers_are_a_mixer_or_an_ffn_each_has_the_layers_of_its_pattern(tmp_path: Path) -> None:
    """Qwen3-Next's kernels with every half as a layer, as Nemotron-H counts."""
    shape = config(HYBRID) | {"num_hidden_layers": 32, "hybrid_override_pattern": "MEMEME*E" * 4}
    del shape["layer_types"]
    report = run(HYBRID, tmp_path, shape)
    assert {row["layers"] for row in report.tables["passes"].dicts()} == {32}
    assert {row["type"] for row in report.tables["clusters"].dicts()} == {"MAMBA", "FULL_ATTN", "MOE"}
    assert report.extra["checklist"]["2_model"]["agrees"] is True


def test_what_a_config_says_badly_is_a_finding(tmp_path: Path) -> None:
    shape = config(HYBRID) | {"layer_types": ["linear_attention"] * 3 + [7], "hidden_size": "wide"}
    found = [f.message for f in run(HYBRID, tmp_path, shape).findings if f.code == "CONFIG_ODD"]
    assert any("4 entries for 16 layers: those from layer 4 on have no type" in text for text in found)
    assert any("layer_types names what is no known kind of layer: 7" in text for text in found)
    assert any("hidden_size is no size" in text for text in found)
