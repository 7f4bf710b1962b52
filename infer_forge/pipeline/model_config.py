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
from infer_forge.base.records import Finding, InputFile
from infer_forge.pipeline.layer_types import LayerType, Sizes, layer_types, remarks, whole

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
    full_head_dim: int | None = None
    full_kv_heads: int | None = None
    """Of the layers with full attention, where they differ from the sliding ones' (Gemma 4)."""
    uncovered: tuple[str, ...] = ()
    """Operators of its layers that no formula of `infer_forge.pipeline.cost` covers."""
    experts_as: str | None = None
    """Number type of the experts where the config names one of their own."""
    diffusion: bool = False
    source: InputFile | None = None
    remarks: tuple[str, ...] = ()
    """What the config says badly, and what was made of it."""

    @property
    def one_half(self) -> bool:
        """A layer is a mixer or an FFN, never both."""
        return any(not t.attention or not t.ffn for t in self.types)

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


_CHOSEN = ("num_experts_per_tok", "experts_per_token", "top_k_experts", "moe_topk")
"""Spellings of how many experts a token goes to."""
_UNCOVERED = {"indexer": "index_topk", "dense FFN beside the experts": "enable_moe_block"}
"""Operators that a key of the config shows (DeepSeek sparse attention, Gemma 4)."""
_SIZES = ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size", "vocab_size")
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


def _is_diffusion(top: Mapping[str, Any]) -> bool:
    names = (str(top.get("_class_name", "")), str(top.get("architectures", "")))
    return "num_single_layers" in top or "DiT" in names[0] or "Transformer2D" in names[1]


def _layer_counts(top: Mapping[str, Any], double: int | None, source: InputFile | None) -> tuple[int, int]:
    """Layers and draft layers; `double` are the two-stream blocks of a diffusion model, which single ones follow.

    Raises:
        InputUnusable: no number of layers is named, or one that no model has.
    """
    get = top.get
    layers = _int(get("num_hidden_layers"), get("n_layer"), get("n_layers"), get("num_layers"))
    if double is not None:
        layers = double + (_int(get("num_single_layers")) or 0)
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
    return layers, drafts


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
    double = _int(get("num_layers")) if _is_diffusion(top) else None
    layers, drafts = _layer_counts(top, double, source)
    quant, spared = _quantization(top)
    heads, hidden = (
        _size(get("num_attention_heads"), get("n_head")),
        _size(get("hidden_size"), get("d_model"), get("n_embd")),
    )
    moe_ffn = _size(get("moe_intermediate_size"), get("expert_ffn_hidden_size"))
    experts = _size(get("n_routed_experts"), get("num_experts"), get("num_local_experts"))
    chosen = _size(*(get(k) for k in _CHOSEN))
    shared = _size(get("shared_expert_intermediate_size")) or (_size(get("n_shared_experts")) or 0) * (moe_ffn or 0)
    ffn = _size(get("intermediate_size"), get("ffn_hidden_size"), get("n_inner"))
    shape = ModelShape(
        model_type=str(get("model_type") or get("_class_name") or "unknown"),
        layers=layers,
        drafts=drafts,
        types=(),
        hidden=hidden,
        heads=heads,
        kv_heads=_size(get("num_key_value_heads"), get("n_head_kv")) or heads,
        head_dim=_size(get("head_dim")) or (hidden // heads if hidden and heads else None),
        ffn=ffn,
        moe_ffn=moe_ffn or (ffn if experts else None),
        experts=experts,
        experts_per_token=chosen if chosen is None or chosen <= (experts or chosen) else None,
        shared_ffn=shared,
        vocab=_size(get("vocab_size")),
        tied=bool(get("tie_word_embeddings", False)),
        window=_size(get("sliding_window")) if get("use_sliding_window", True) else None,
        mla={
            k: v
            for k in ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "index_topk")
            if (v := _size(get(k)))
        },
        linear={
            k: v
            for k in ("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim")
            if (v := _size(get(k)))
        },
        dtype=str(get("dtype") or get("torch_dtype") or "bfloat16").removeprefix("torch."),
        quantization=quant,
        unquantized=spared,
        full_head_dim=_size(get("global_head_dim")),
        full_kv_heads=_size(get("num_global_key_value_heads")),
        uncovered=tuple(name for name, key in _UNCOVERED.items() if get(key)),
        experts_as={"fp4": "mxfp4"}.get(str(get("expert_dtype")), get("expert_dtype")),
        diffusion=_is_diffusion(top),
        source=source,
    )
    types = tuple(_types(top, shape, double))
    return replace(shape, types=types, remarks=tuple(_odd(top, shape)))


def config_findings(shape: ModelShape) -> list[Finding]:
    """What a config says badly, as findings of a report that stands on it."""
    step = "give the deployed model's config.json"
    return [Finding("CONFIG_ODD", f"the config's {text}", "warning", next_step=step) for text in shape.remarks]


def _int(*values: Any) -> int | None:
    return next((n for v in values if (n := whole(v)) is not None), None)


def _size(*values: Any) -> int | None:
    """The first whole number above zero."""
    return next((n for v in values if (n := whole(v)) is not None and n > 0), None)


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
    return layer_types(top, _sizes(shape))


def _sizes(shape: ModelShape) -> Sizes:
    return Sizes(shape.layers or 0, shape.drafts, shape.experts, shape.window, bool(shape.mla.get("kv_lora_rank")))


def _odd(top: Mapping[str, Any], shape: ModelShape) -> list[str]:
    """What a config says badly: sizes that are none, and its lists of layers."""
    said = [
        f"{key} is no size ({str(value)[:30]}): it was left out"
        for key in _SIZES
        if (value := top.get(key)) is not None and (_int(value) is None or value < 0)
    ]
    chosen, experts = _size(*(top.get(k) for k in _CHOSEN)), shape.experts
    if chosen and experts and chosen > experts:
        said.append(f"experts a token are {chosen} of {experts}: the number was left out")
    return said if shape.diffusion else [*said, *remarks(top, _sizes(shape))]
