"""What a config.json says of every layer: its mixer and its FFN, and where it says it badly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

UNKNOWN = "UNKNOWN"
NONE = ""
"""A layer without a mixer, or without an FFN: in some hybrid models a layer is one of the two."""
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
    "mlp": NONE,
    "moe": NONE,
    "M": "MAMBA",
    "*": "FULL_ATTN",
    "-": NONE,
    "E": NONE,
    "0": "LINEAR_ATTN",
    "1": "FULL_ATTN",
}
"""Entries of `layer_types` (Transformers), `layers_block_type`, `hybrid_override_pattern` (Nemotron-H), `attn_type_list` (MiniMax)."""
_ALONE = {"mlp": "DENSE", "-": "DENSE", "moe": "MOE", "E": "MOE"}
"""Entries of layers that are an FFN alone. Where one occurs, the layers with a mixer have no FFN (Nemotron-H)."""
_RATIOS = {0: "FULL_ATTN", 4: "C4_LIGHT", 128: "C128_HEAVY"}
_LISTS = ("layer_types", "layers_block_type", "attn_type_list", "hybrid_override_pattern")
ATTENDING = frozenset({"FULL_ATTN", "SLIDING_ATTN", "CHUNKED_ATTN", "MLA", "DSA"})
"""Mixers whose core is softmax attention over cached tokens as they are; `C4_LIGHT` and the like attend to compressed ones."""
STATES = frozenset({"LINEAR_ATTN", "MAMBA", "RECURRENT", "CONV"})
"""Mixers that keep a state of fixed size."""


@dataclass(frozen=True)
class LayerType:
    """What the config says of one layer. "" where it has no mixer or no FFN; `UNKNOWN` where nothing is said."""

    attention: str
    ffn: str

    @property
    def label(self) -> str:
        """`FULL_ATTN+MOE`; hash layers and compressed layers carry their own name."""
        return "+".join(x for x in (self.attention, self.ffn) if x)


@dataclass(frozen=True)
class Sizes:
    """What the types depend on besides the lists."""

    layers: int
    drafts: int
    experts: int | None
    window: int | None
    latent: bool


def whole(value: Any) -> int | None:
    """A whole number of a config, None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def layer_types(top: Mapping[str, Any], sizes: Sizes) -> list[LayerType]:
    """The type of every layer."""
    named = _named(top)
    alone = any(str(x) in _ALONE for x in named)
    found: list[LayerType] = []
    for i in range(sizes.layers):
        mixer = _mixer(top, sizes, named, i)
        if not alone:
            found.append(LayerType(mixer, _ffn(top, sizes, i)))
        else:
            entry = str(named[i]) if i < len(named) else ""
            found.append(LayerType(mixer, _ALONE.get(entry, NONE if entry else UNKNOWN)))
    return found


def remarks(top: Mapping[str, Any], sizes: Sizes) -> list[str]:
    """What a config says badly of its layers: lists of another length, entries that are none, kinds that nobody knows."""
    said: list[str] = []
    for key in (*_LISTS, "compress_ratios"):
        value = top.get(key)
        if value is None:
            continue
        if not isinstance(value, (list, str)) or (isinstance(value, str) and key != "hybrid_override_pattern"):
            said.append(f"{key} is no list: it was left out")
            continue
        entries = cast("Sequence[Any]", value)
        if len(entries) not in (sizes.layers, sizes.layers + sizes.drafts):
            text = f"{key} has {len(entries)} entries for {sizes.layers} layers"
            short = len(entries) < sizes.layers
            said.append(f"{text}: those from layer {len(entries)} on have no type" if short else text)
        odd = [str(e)[:30] for e in entries if not (_is_ratio(e) if key == "compress_ratios" else _is_kind(e))]
        if odd:
            said.append(f"{key} names what is no known kind of layer: {', '.join([*dict.fromkeys(odd)][:4])}")
    return said


def _is_kind(entry: Any) -> bool:
    return str(entry) in _ATTENTION


def _is_ratio(entry: Any) -> bool:
    ratio = whole(entry)
    return ratio is not None and ratio >= 0


def _list(top: Mapping[str, Any], key: str) -> list[Any]:
    value = top.get(key)
    return cast("list[Any]", value) if isinstance(value, list) else []


def _named(top: Mapping[str, Any]) -> Sequence[Any]:
    """The list of layer kinds, whatever its name; empty where there is none."""
    pattern = top.get("hybrid_override_pattern")
    for key in _LISTS[:-1]:
        if found := _list(top, key):
            return found
    return pattern if isinstance(pattern, str) else ""


def _mixer(top: Mapping[str, Any], sizes: Sizes, named: Sequence[Any], i: int) -> str:
    ratios = _list(top, "compress_ratios")
    if ratios:
        ratio = whole(ratios[i]) if i < len(ratios) else None
        return UNKNOWN if ratio is None or ratio < 0 else _RATIOS.get(ratio, f"C{ratio}")
    if named:
        if i >= len(named):
            return UNKNOWN
        entry = named[i]
        return _ATTENTION.get(str(entry), entry.upper()[:30] if isinstance(entry, str) and entry.strip() else UNKNOWN)
    period = whole(top.get("attn_layer_period"))
    if period and period > 0:
        offset = whole(top.get("attn_layer_offset"))
        return "FULL_ATTN" if i % period == (period - 1 if offset is None else offset) else "MAMBA"
    every = whole(top.get("full_attention_interval"))
    if every and every > 0:
        return "FULL_ATTN" if i % every == every - 1 else "LINEAR_ATTN"
    pattern = whole(top.get("sliding_window_pattern"))
    if pattern and pattern > 0 and sizes.window:
        return "FULL_ATTN" if (i + 1) % pattern == 0 else "SLIDING_ATTN"
    if sizes.latent:
        return "DSA" if top.get("index_topk") else "MLA"
    return "FULL_ATTN"


def _first(top: Mapping[str, Any], *keys: str) -> int:
    return next((n for k in keys if (n := whole(top.get(k))) is not None), 0)


def _ffn(top: Mapping[str, Any], sizes: Sizes, i: int) -> str:
    if not sizes.experts or sizes.experts < 2:
        return "DENSE"
    if i < _first(top, "num_hash_layers"):
        return "HASH"
    if i < _first(top, "first_k_dense_replace", "moe_layer_start_index") or i in _list(top, "mlp_only_layers"):
        return "DENSE"
    step = _first(top, "decoder_sparse_step", "interleave_moe_layer_step")
    if step > 1 and (i + 1) % step != 0:
        return "DENSE"
    freq = top.get("moe_layer_freq")
    if isinstance(freq, int) and freq > 1 and i % freq != 0:
        return "DENSE"
    if isinstance(freq, list) and i < len(cast("list[Any]", freq)) and not cast("list[Any]", freq)[i]:
        return "DENSE"
    period = _first(top, "expert_layer_period")
    if period > 0 and i % period != _first(top, "expert_layer_offset"):
        return "DENSE"
    return "MOE"
