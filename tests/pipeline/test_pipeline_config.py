"""config.json of every family: layer count, layer types, sizes, number types."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import InputUnusable
from infer_forge.pipeline.model_config import read_config, shape_of

BASE: dict[str, Any] = {"num_hidden_layers": 8, "hidden_size": 64, "num_attention_heads": 4}


def labels(**more: Any) -> list[str]:
    return [t.label for t in shape_of({**BASE, **more}).types]


def test_a_plain_model_is_dense_with_full_attention() -> None:
    assert labels() == ["FULL_ATTN+DENSE"] * 8


@pytest.mark.parametrize("key", ["num_experts", "n_routed_experts", "num_local_experts"])
def test_every_spelling_of_experts_is_moe(key: str) -> None:
    assert labels(**{key: 16, "num_experts_per_tok": 2}) == ["FULL_ATTN+MOE"] * 8


def test_the_first_layers_may_be_dense_and_others_by_list_step_or_frequency() -> None:
    moe = {"n_routed_experts": 16, "num_experts_per_tok": 2}
    assert labels(**moe, first_k_dense_replace=3)[2:4] == ["FULL_ATTN+DENSE", "FULL_ATTN+MOE"]
    assert labels(**moe, mlp_only_layers=[5])[5] == "FULL_ATTN+DENSE"
    assert labels(**moe, decoder_sparse_step=2)[:2] == ["FULL_ATTN+DENSE", "FULL_ATTN+MOE"]
    assert labels(**moe, moe_layer_freq=2)[:2] == ["FULL_ATTN+MOE", "FULL_ATTN+DENSE"]


def test_attention_types_come_from_lists_intervals_ratios_and_windows() -> None:
    assert labels(full_attention_interval=4)[2:4] == ["LINEAR_ATTN+DENSE", "FULL_ATTN+DENSE"]
    assert labels(layer_types=["sliding_attention", "full_attention"] * 4)[:2] == [
        "SLIDING_ATTN+DENSE",
        "FULL_ATTN+DENSE",
    ]
    ratios = [0, 4, 128, 4, 128, 4, 128, 16]
    assert [x.split("+")[0] for x in labels(compress_ratios=ratios)][:3] == ["FULL_ATTN", "C4_LIGHT", "C128_HEAVY"]
    assert labels(compress_ratios=ratios)[-1] == "C16+DENSE"
    assert labels(kv_lora_rank=512)[0] == "MLA+DENSE"
    assert labels(kv_lora_rank=512, index_topk=2048)[0] == "DSA+DENSE"


def test_a_nested_text_config_and_a_diffusion_config_are_read() -> None:
    assert shape_of({"text_config": {**BASE, "num_hidden_layers": 3}}).layers == 3
    flux = shape_of({"_class_name": "FluxTransformer2DModel", "num_layers": 19, "num_single_layers": 38})
    assert flux.layers == 57
    assert Counter(t.attention for t in flux.types) == {"DOUBLE": 19, "SINGLE": 38}


def test_weights_have_the_bytes_of_their_number_type() -> None:
    fp8 = shape_of({**BASE, "quantization_config": {"quant_method": "fp8"}})
    assert (fp8.weight_bytes("attention"), fp8.weight_bytes("head")) == (1.0, 2.0)
    oss = shape_of(
        {
            **BASE,
            "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
        }
    )
    assert oss.weight_bytes("attention") == 2.0
    assert oss.weight_bytes("moe") == pytest.approx(0.53)
    v4 = shape_of({**BASE, "expert_dtype": "fp4", "quantization_config": {"quant_method": "fp8"}})
    assert (v4.weight_bytes("attention"), v4.weight_bytes("moe")) == (1.0, pytest.approx(0.53))


@pytest.mark.parametrize(
    "text", ["", "[1]", "{}", '{"num_hidden_layers": "many"}', '{"num_hidden_layers": 0}', "\x00\x01"]
)
def test_what_is_no_model_config_is_refused_with_the_file(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(InputUnusable, match="config.json"):
        read_config(file)


def test_every_real_config_has_its_layers_and_types(corpus: Path) -> None:
    known = {
        "Qwen--Qwen3-30B-A3B": (48, {"FULL_ATTN+MOE": 48}),
        "Qwen--Qwen3-Next-80B-A3B": (48, {"LINEAR_ATTN+MOE": 36, "FULL_ATTN+MOE": 12}),
        "Qwen--Qwen3.5-35B-A3B": (40, {"LINEAR_ATTN+MOE": 30, "FULL_ATTN+MOE": 10}),
        "deepseek-ai--DeepSeek-V3": (61, {"MLA+DENSE": 3, "MLA+MOE": 58}),
        "deepseek-ai--DeepSeek-V4-Pro": (
            61,
            {"C128_HEAVY+HASH": 2, "C4_LIGHT+HASH": 1, "C128_HEAVY+MOE": 29, "C4_LIGHT+MOE": 29},
        ),
        "openai--gpt-oss-120b": (36, {"SLIDING_ATTN+MOE": 18, "FULL_ATTN+MOE": 18}),
        "meta-llama--Meta-Llama-3.1-70B": (80, {"FULL_ATTN+DENSE": 80}),
    }
    for file in sorted((corpus / "configs").glob("*.config.json")):
        shape = read_config(file)
        assert len(shape.types) == shape.layers == json.loads(file.read_text()).get("num_hidden_layers", shape.layers)
        name = file.name.removesuffix(".config.json")
        if name in known:
            assert (shape.layers, dict(Counter(t.label for t in shape.types))) == known[name]


@pytest.mark.parametrize("name", ["num_hidden_layers", "num_nextn_predict_layers"])
def test_a_number_of_layers_that_no_model_has_is_refused_at_once(name: str) -> None:
    with pytest.raises(InputUnusable, match="no model has more"):
        shape_of({"num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, name: 99_999_999_999})


@pytest.mark.parametrize(
    ("more", "remark"),
    [
        ({"layer_types": ["full_attention"] * 3}, "3 entries for 8 layers: those from layer 3 on have no type"),
        ({"layer_types": ["full_attention"] * 9}, "9 entries for 8 layers"),
        ({"layer_types": "full_attention"}, "layer_types is no list"),
        ({"layer_types": ["full_attention"] * 7 + [None]}, "no known kind of layer: None"),
        ({"layer_types": ["full_attention"] * 7 + ["wonder"]}, "no known kind of layer: wonder"),
        ({"compress_ratios": [4, 128, -3, "x", 4, 4, 4, 4]}, "no known kind of layer: -3, x"),
        ({"hybrid_override_pattern": "M*-"}, "3 entries for 8 layers"),
        ({"hidden_size": -4}, "hidden_size is no size (-4)"),
        ({"intermediate_size": [1, 2]}, "intermediate_size is no size"),
        ({"num_experts": 4, "num_experts_per_tok": 9}, "experts a token are 9 of 4"),
    ],
)
def test_what_a_config_says_badly_is_told(more: dict[str, Any], remark: str) -> None:
    shape = shape_of({**BASE, **more})
    assert any(remark in text for text in shape.remarks), shape.remarks
    assert len(shape.types) == 8


def test_layers_of_which_a_list_says_nothing_have_no_type_and_no_cost() -> None:
    assert labels(layer_types=["full_attention"] * 3 + [{}])[2:5] == [
        "FULL_ATTN+DENSE",
        "UNKNOWN+DENSE",
        "UNKNOWN+DENSE",
    ]
    assert shape_of({**BASE, "num_experts": 4, "num_experts_per_tok": 9}).experts_per_token is None
    assert shape_of({**BASE, "hidden_size": -4}).hidden is None


def test_lists_that_fit_their_layers_or_those_with_drafts_are_not_remarked_on() -> None:
    assert shape_of({**BASE, "compress_ratios": [0] * 9, "num_nextn_predict_layers": 1}).remarks == ()
    assert shape_of({**BASE, "attn_type_list": [0, 1] * 4}).remarks == ()
    assert labels(attn_type_list=[0, 1] * 4)[:2] == ["LINEAR_ATTN+DENSE", "FULL_ATTN+DENSE"]


def test_layers_that_are_a_mixer_or_an_ffn_have_one_half() -> None:
    moe = {"n_routed_experts": 16, "num_experts_per_tok": 2}
    assert labels(hybrid_override_pattern="M-M*-EM-", **moe) == [
        *("MAMBA", "DENSE", "MAMBA", "FULL_ATTN", "DENSE", "MOE", "MAMBA", "DENSE")
    ]
    assert shape_of({**BASE, "hybrid_override_pattern": "M-M*-EM-"}).one_half
    assert not shape_of({**BASE, "layer_types": ["mamba", "attention"] * 4}).one_half
    assert labels(attn_layer_period=4, attn_layer_offset=1)[:2] == ["MAMBA+DENSE", "FULL_ATTN+DENSE"]


def test_every_real_config_is_read_without_a_remark(corpus: Path) -> None:
    for file in sorted((corpus / "configs").glob("*.config.json")):
        assert read_config(file).remarks == (), file.name
