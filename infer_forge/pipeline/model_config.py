"""A model's config.json -> its layers and its sizes, for every family's spelling of the keys.

Sources of the keys: the configs that Hugging Face Transformers writes (`text_config` nesting, `layer_types`,
`first_k_dense_replace`, `full_attention_interval`, `decoder_sparse_step`, `mlp_only_layers`, `moe_layer_freq`), DeepSeek-V4's
`compress_ratios` and `num_hash_layers`, and diffusers' `num_layers` with `num_single_layers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable
from infer_forge.base.records import InputFile

_BITS = {
    "float32": 4.0,
    "float": 4.0,
    "bfloat16": 2.0,
    "float16": 2.0,
    "half": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "fp4": 0.5,
    "mxfp4": 0.53,
    "nvfp4": 0.56,
    "int4": 0.5,
}
"""Bytes a weight; mxfp4 with one scale byte in 32, nvfp4 with one in 16."""
_QUANT = {
    "fp8": "fp8",
    "mxfp4": "mxfp4",
    "nvfp4": "nvfp4",
    "modelopt_fp4": "nvfp4",
    "gptq": "int4",
    "awq": "int4",
    "compressed-tensors": None,
    "w8a8_int8": "int8",
}
_ATTENTION = {
    "full_attention": "FULL_ATTN",
    "sliding_attention": "SLIDING_ATTN",
    "chunked_attention": "CHUNKED_ATTN",
    "linear_attention": "LINEAR_ATTN",
    "attention": "FULL_ATTN",
    "mamba": "MAMBA",
    "mamba2": "MAMBA",
    "recurrent": "RECURRENT",
    "conv": "CONV",
}


@dataclass(frozen=True)
class LayerType:
    """What the config says of one layer."""

    attention: str
    ffn: str

    @property
    def label(self) -> str:
        """`FULL_ATTN+MOE`; hash layers and compressed layers carry their own name."""
        return f"{self.attention}+{self.ffn}"


@dataclass(frozen=True)
class ModelShape:
    """A model's layers and sizes. None: the config does not say it."""

    model_type: str
    layers: int | None
    drafts: int
    """Multi-token-prediction layers beside the others."""
    types: tuple[LayerType, ...]
    hidden: int | None
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    ffn: int | None
    moe_ffn: int | None
    experts: int | None
    experts_per_token: int | None
    shared_ffn: int
    """Intermediate size of the shared experts in all; 0 without."""
    vocab: int | None
    tied: bool
    window: int | None
    mla: dict[str, int] = field(default_factory=dict[str, int])
    linear: dict[str, int] = field(default_factory=dict[str, int])
    dtype: str = "bfloat16"
    quantization: str | None = None
    """fp8, mxfp4, nvfp4, int4, int8; None for plain weights."""
    unquantized: tuple[str, ...] = ()
    experts_as: str | None = None
    """Number type of the experts where the config names one of their own."""
    diffusion: bool = False
    source: InputFile | None = None

    def weight_bytes(self, part: str) -> float:
        """Bytes a weight of a part (`attention`, `ffn`, `moe`, `head`, `embedding`)."""
        plain = _BITS.get(self.dtype, 2.0)
        if part == "moe" and self.experts_as in _BITS:
            return _BITS[self.experts_as]
        if self.quantization is None or part in ("head", "embedding"):
            return plain
        spared = {
            "attention": ("attn", "attention"),
            "moe": ("experts",),
            "ffn": ("mlp.up", "mlp.gate_proj", "mlp.down"),
        }
        if any(word in text for text in self.unquantized for word in spared.get(part, ())):
            return plain
        return _BITS[self.quantization]


_MOST_LAYERS = 10_000
"""Far beyond any model; a damaged number must not fill the memory."""


def read_config(path: Path) -> ModelShape:
    """Read a config.json.

    Raises:
        InputUnusable: it cannot be read, or it is no model config.
    """
    file = InputFile.of(path)
    try:
        data = jsonio.read_json(path)
    except (ValueError, InputUnusable) as fault:
        raise InputUnusable("is no JSON", where=str(path), next_step="give the deployed model's config.json") from fault
    if not isinstance(data, dict):
        raise InputUnusable("is no model config", where=str(path), next_step="give the deployed model's config.json")
    return shape_of(cast("dict[str, Any]", data), file)


def shape_of(data: Mapping[str, Any], source: InputFile | None = None) -> ModelShape:
    """Layers and sizes of a config.

    Raises:
        InputUnusable: it names no number of layers.
    """
    top = dict(data)
    for nest in ("text_config", "llm_config", "language_config", "thinker_config"):
        inner = top.get(nest)
        if isinstance(inner, dict):
            top = {**top, **cast("dict[str, Any]", inner)}
    get = top.get
    double, single = _int(get("num_layers")), _int(get("num_single_layers"))
    diffusion = (
        "num_single_layers" in top
        or "DiT" in str(get("_class_name", ""))
        or "Transformer2D" in str(get("architectures", ""))
    )
    layers = _int(get("num_hidden_layers"), get("n_layer"), get("n_layers"), get("num_layers"))
    if diffusion and double is not None:
        layers = double + (single or 0)
    drafts = _int(get("num_nextn_predict_layers"), get("mtp_num_hidden_layers"), get("mtp_transformer_layers")) or 0
    if max(layers or 0, drafts) > _MOST_LAYERS:
        raise InputUnusable(
            f"names {max(layers or 0, drafts):,} layers; no model has more than {_MOST_LAYERS:,}",
            where=source.path if source else "config",
            next_step="give the deployed model's config.json",
        )
    if layers is None or layers < 1:
        raise InputUnusable(
            "names no number of layers (num_hidden_layers)",
            where=source.path if source else None,
            next_step="give the deployed model's config.json",
        )
    quant, spared = _quantization(top)
    heads, hidden = (
        _int(get("num_attention_heads"), get("n_head")),
        _int(get("hidden_size"), get("d_model"), get("n_embd")),
    )
    moe_ffn = _int(get("moe_intermediate_size"), get("expert_ffn_hidden_size"))
    experts = _int(get("n_routed_experts"), get("num_experts"), get("num_local_experts"))
    shared = _int(get("shared_expert_intermediate_size")) or (_int(get("n_shared_experts")) or 0) * (moe_ffn or 0)
    ffn = _int(get("intermediate_size"), get("ffn_hidden_size"), get("n_inner"))
    shape = ModelShape(
        model_type=str(get("model_type") or get("_class_name") or "unknown"),
        layers=layers,
        drafts=drafts,
        types=(),
        hidden=hidden,
        heads=heads,
        kv_heads=_int(get("num_key_value_heads"), get("n_head_kv")) or heads,
        head_dim=_int(get("head_dim")) or (hidden // heads if hidden and heads else None),
        ffn=ffn,
        moe_ffn=moe_ffn or (ffn if experts else None),
        experts=experts,
        experts_per_token=_int(
            get("num_experts_per_tok"), get("experts_per_token"), get("top_k_experts"), get("moe_topk")
        ),
        shared_ffn=shared,
        vocab=_int(get("vocab_size")),
        tied=bool(get("tie_word_embeddings", False)),
        window=_int(get("sliding_window")) if get("use_sliding_window", True) else None,
        mla={
            k: v
            for k in ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "index_topk")
            if (v := _int(get(k)))
        },
        linear={
            k: v
            for k in ("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim")
            if (v := _int(get(k)))
        },
        dtype=str(get("dtype") or get("torch_dtype") or "bfloat16").removeprefix("torch."),
        quantization=quant,
        unquantized=spared,
        experts_as={"fp4": "mxfp4"}.get(str(get("expert_dtype")), get("expert_dtype")),
        diffusion=diffusion,
        source=source,
    )
    return replace(shape, types=tuple(_types(top, shape, double if diffusion else None)))


def _int(*values: Any) -> int | None:
    for v in values:
        if isinstance(v, int) and not isinstance(v, bool):
            return v
    return None


def _quantization(top: Mapping[str, Any]) -> tuple[str | None, tuple[str, ...]]:
    found = top.get("quantization_config")
    if not isinstance(found, dict):
        return None, ()
    config = cast("dict[str, Any]", found)
    method = str(config.get("quant_method") or config.get("quant_algo") or "").lower()
    spared: Any = config.get("modules_to_not_convert") or config.get("ignore") or []
    names = tuple(str(x) for x in cast("list[Any]", spared)) if isinstance(spared, list) else ()
    if _QUANT.get(method):
        return _QUANT[method], names
    text = str(config).lower()
    return next(
        (k for k in ("nvfp4", "mxfp4", "fp8", "int8", "int4") if k in text), "fp8" if "float8" in text else None
    ), names


def _types(top: Mapping[str, Any], shape: ModelShape, double: int | None) -> list[LayerType]:
    count = shape.layers or 0
    if double is not None:
        return [LayerType("DOUBLE" if i < double else "SINGLE", "BLOCK") for i in range(count)]
    return [LayerType(_attention(top, shape, i), _ffn(top, shape, i)) for i in range(count)]


def _list(top: Mapping[str, Any], key: str) -> list[Any]:
    value = top.get(key)
    return cast("list[Any]", value) if isinstance(value, list) else []


def _attention(top: Mapping[str, Any], shape: ModelShape, i: int) -> str:
    ratios = _list(top, "compress_ratios")
    if i < len(ratios):
        return {0: "FULL_ATTN", 4: "C4_LIGHT", 128: "C128_HEAVY"}.get(ratios[i], f"C{ratios[i]}")
    named = _list(top, "layer_types") or _list(top, "layers_block_type") or _list(top, "attn_type_list")
    if i < len(named):
        return _ATTENTION.get(str(named[i]), str(named[i]).upper())
    pattern = top.get("hybrid_override_pattern")
    if isinstance(pattern, str) and i < len(pattern):
        return {"M": "MAMBA", "*": "FULL_ATTN", "-": "NO_ATTN"}.get(pattern[i], pattern[i])
    every = _int(top.get("full_attention_interval"), top.get("attn_layer_period"))
    if every:
        offset = _int(top.get("attn_layer_offset"))
        full = i % every == (every - 1 if offset is None else offset)
        return "FULL_ATTN" if full else "LINEAR_ATTN"
    pattern_len = _int(top.get("sliding_window_pattern"))
    if pattern_len and shape.window:
        return "FULL_ATTN" if (i + 1) % pattern_len == 0 else "SLIDING_ATTN"
    if shape.mla.get("kv_lora_rank"):
        return "DSA" if top.get("index_topk") else "MLA"
    return "FULL_ATTN"


def _ffn(top: Mapping[str, Any], shape: ModelShape, i: int) -> str:
    if not shape.experts or shape.experts < 2:
        return "DENSE"
    if i < (_int(top.get("num_hash_layers")) or 0):
        return "HASH"
    if i < (_int(top.get("first_k_dense_replace"), top.get("moe_layer_start_index")) or 0) or i in _list(
        top, "mlp_only_layers"
    ):
        return "DENSE"
    step = _int(top.get("decoder_sparse_step"), top.get("interleave_moe_layer_step"))
    if step and step > 1 and (i + 1) % step != 0:
        return "DENSE"
    freq = top.get("moe_layer_freq")
    if isinstance(freq, int) and freq > 1 and i % freq != 0:
        return "DENSE"
    if isinstance(freq, list) and i < len(cast("list[Any]", freq)) and not cast("list[Any]", freq)[i]:
        return "DENSE"
    period, offset = _int(top.get("expert_layer_period")), _int(top.get("expert_layer_offset")) or 0
    if period and i % period != offset:
        return "DENSE"
    return "MOE"
