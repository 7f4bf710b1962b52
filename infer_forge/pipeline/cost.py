"""FLOPs and bytes of a step from the model's sizes, one row an operator family. Usable without a trace.

All figures are of one GPU under the given parallelism and are lower bounds: weights are read once, activations once in and once
out, caches once; nothing is charged for layout, padding or launch. Formulas: a product of M x K and K x N is 2 M N K operations
and (M K + K N + M N) elements; causal attention over `pairs` query-key pairs is 4 pairs per head dimension and head; an
all-reduce over n ranks moves 2 (n - 1) / n of its message on each, the bound of ring and of two-shot schemes.
"""

from __future__ import annotations

from dataclasses import dataclass

from infer_forge.base.kernels import GpuPeaks
from infer_forge.pipeline.layer_types import ATTENDING, LayerType
from infer_forge.pipeline.model_config import ModelShape

ACTIVATION_BYTES = 2.0


@dataclass(frozen=True)
class Load:
    """What a step has to do: new tokens, requests, query-key pairs and cached tokens that attention reads.

    pairs and cached are None where the step does not say them.
    """

    tokens: int
    requests: int
    pairs: float | None
    cached: float | None


@dataclass(frozen=True)
class Split:
    """Parallelism of one GPU's part."""

    tp: int = 1
    ep: int = 1
    pp: int = 1
    kv_bytes: float = 2.0


@dataclass(frozen=True)
class Cost:
    """One operator of one layer (or of the head) on one GPU."""

    family: str
    operator: str
    flops: float
    weight_bytes: float = 0.0
    kv_bytes: float = 0.0
    activation_bytes: float = 0.0
    link_bytes: float = 0.0
    dtype: str = "bf16"

    @property
    def bytes(self) -> float:
        """All bytes through the GPU's own memory."""
        return self.weight_bytes + self.kv_bytes + self.activation_bytes

    def floor_s(self, peaks: GpuPeaks) -> tuple[float | None, str]:
        """Least time on a GPU, and what bounds it: `compute`, `memory` or `link`; None where a peak is unknown."""
        times: dict[str, float] = {}
        if self.flops:
            rate = peaks.flops(self.dtype) or peaks.flops("bf16") or peaks.flops("fp16")
            if rate is None:
                return None, "unknown"
            times["compute"] = self.flops / rate
        if self.bytes:
            if peaks.hbm_gb_s is None:
                return None, "unknown"
            times["memory"] = self.bytes / (peaks.hbm_gb_s * 1e9)
        if self.link_bytes:
            if peaks.nvlink_gb_s is None:
                return None, "unknown"
            times["link"] = self.link_bytes / (peaks.nvlink_gb_s / 2 * 1e9)
        if not times:
            return 0.0, "none"
        bound = max(times, key=lambda k: times[k])
        return times[bound], bound


def layer_costs(shape: ModelShape, kind: LayerType, load: Load, split: Split) -> list[Cost]:
    """Operators of one layer; those whose sizes the config does not give are left out (see `unknown`)."""
    if shape.hidden is None:
        return []
    hidden, tokens = shape.hidden, load.tokens
    norm = 4 * tokens * hidden * ACTIVATION_BYTES
    rows: list[Cost] = []
    if kind.attention:
        rows += [Cost("norm", "input norm", 0, activation_bytes=norm), *_mixer(shape, kind, load, split)]
    if kind.ffn:
        rows += [Cost("norm", "post-attention norm", 0, activation_bytes=norm), *_feed(shape, kind, load, split)]
    if split.tp > 1:
        message = tokens * hidden * ACTIVATION_BYTES
        link = 2 * (split.tp - 1) / split.tp * message
        rows += [
            Cost("communication", f"{h} all-reduce", 0, link_bytes=link, activation_bytes=2 * message)
            for h, there in (("attn", kind.attention), ("ffn", kind.ffn))
            if there
        ]
    return rows


def is_whole(shape: ModelShape, kind: LayerType, load: Load, split: Split) -> bool:
    """Whether `layer_costs` knows every operator of a layer's mixer and FFN; its sum is no floor of the layer otherwise."""
    if shape.hidden is None or shape.uncovered:
        return False
    mixer, feed = _mixer(shape, kind, load, split), _feed(shape, kind, load, split)
    return bool(mixer or not kind.attention) and bool(feed or not kind.ffn)


def head_costs(shape: ModelShape, load: Load, split: Split) -> list[Cost]:
    """Embedding look-up, final norm and lm_head (logits of one token a request)."""
    if shape.hidden is None or shape.vocab is None:
        return []
    hidden, vocab = shape.hidden, shape.vocab
    size = shape.weight_bytes("head")
    return [
        Cost("embedding", "embedding", 0, activation_bytes=2 * load.tokens * hidden * ACTIVATION_BYTES),
        Cost("norm", "final norm", 0, activation_bytes=4 * load.tokens * hidden * ACTIVATION_BYTES),
        Cost(
            "gemm", "lm_head", 2.0 * load.requests * hidden * vocab / split.tp, hidden * vocab / split.tp * size,
            activation_bytes=load.requests * (hidden + vocab / split.tp) * ACTIVATION_BYTES,
        ),
    ]  # fmt: skip


def number_type(bytes_each: float, quantization: str | None) -> str:
    """Number type whose peak bounds a product from above: the weights' own."""
    if quantization in ("mxfp4", "nvfp4") and bytes_each < 1:
        return "fp4"
    if bytes_each == 1.0:
        return "int8" if quantization == "int8" else "fp8"
    return "bf16"


def _gemm(family: str, name: str, tokens: float, k: float, n: float, size: float, quant: str | None) -> Cost:
    return Cost(
        family,
        name,
        2.0 * tokens * k * n,
        k * n * size,
        activation_bytes=tokens * (k + n) * ACTIVATION_BYTES,
        dtype=number_type(size, quant),
    )


def _mixer(shape: ModelShape, kind: LayerType, load: Load, split: Split) -> list[Cost]:
    hidden, size, quant, tp = shape.hidden or 0, shape.weight_bytes("attention"), shape.quantization, split.tp
    tokens = load.tokens
    if kind.attention == "LINEAR_ATTN" and shape.linear:
        return _linear(shape, load, split)
    if shape.heads is None or kind.attention not in ATTENDING:
        return []
    if shape.mla.get("kv_lora_rank"):
        return _mla(shape, load, split)
    if shape.head_dim is None or shape.kv_heads is None or shape.mla.get("q_lora_rank"):
        return []  # projections of low rank around compressed keys (DeepSeek-V4) are others than these
    kv_heads, dim = shape.kv_heads, shape.head_dim
    if kind.attention == "FULL_ATTN":
        kv_heads, dim = shape.full_kv_heads or kv_heads, shape.full_head_dim or dim
    heads, kv = shape.heads / tp, max(1.0, kv_heads / tp)
    rows = [
        _gemm("gemm", "qkv projection", tokens, hidden, (heads + 2 * kv) * dim, size, quant),
        _gemm("gemm", "o projection", tokens, heads * dim, hidden, size, quant),
        Cost("rope", "rope", 0, activation_bytes=2 * tokens * (heads + kv) * dim * ACTIVATION_BYTES),
        Cost("kv_cache", "kv store", 0, kv_bytes=2 * tokens * kv * dim * split.kv_bytes),
    ]
    pairs, cached = load.pairs, load.cached
    if pairs is not None and cached is not None:
        if kind.attention in ("SLIDING_ATTN", "CHUNKED_ATTN") and shape.window:
            pairs, cached = (
                min(pairs, tokens * shape.window),
                min(cached, load.requests * (shape.window + tokens / max(1, load.requests))),
            )
        rows.append(
            Cost(
                "attention", "attention", 4.0 * pairs * heads * dim, kv_bytes=2 * cached * kv * dim * split.kv_bytes,
                activation_bytes=2 * tokens * heads * dim * ACTIVATION_BYTES,
            )
        )  # fmt: skip
    return rows


def _mla(shape: ModelShape, load: Load, split: Split) -> list[Cost]:
    """Multi-head latent attention; the core is the absorbed form, whose cache is one latent vector a token."""
    hidden, size, quant = shape.hidden or 0, shape.weight_bytes("attention"), shape.quantization
    m, heads, tokens = shape.mla, (shape.heads or 0) / split.tp, load.tokens
    lora, rope = m["kv_lora_rank"], m.get("qk_rope_head_dim", 64)
    nope, value, q_lora = m.get("qk_nope_head_dim", 128), m.get("v_head_dim", 128), m.get("q_lora_rank")
    rows = [_gemm("gemm", "kv_a projection", tokens, hidden, lora + rope, size, quant)]
    if q_lora:
        rows.append(_gemm("gemm", "q_a projection", tokens, hidden, q_lora, size, quant))
        rows.append(_gemm("gemm", "q_b projection", tokens, q_lora, heads * (nope + rope), size, quant))
    else:
        rows.append(_gemm("gemm", "q projection", tokens, hidden, heads * (nope + rope), size, quant))
    rows.append(_gemm("gemm", "kv_b projection", tokens, lora, heads * (nope + value), size, quant))
    rows.append(_gemm("gemm", "o projection", tokens, heads * value, hidden, size, quant))
    rows.append(Cost("kv_cache", "kv store", 0, kv_bytes=tokens * (lora + rope) * split.kv_bytes))
    if load.pairs is not None and load.cached is not None:
        pairs, cached = load.pairs, load.cached
        top = shape.mla.get("index_topk")
        if top:
            pairs, cached = min(pairs, tokens * top), min(cached, tokens * top)
        rows.append(
            Cost(
                "mla", "attention", 2.0 * pairs * heads * (2 * lora + rope), kv_bytes=cached * (lora + rope) * split.kv_bytes,
                activation_bytes=tokens * heads * (2 * lora + rope) * ACTIVATION_BYTES,
            )
        )  # fmt: skip
    return rows


def _linear(shape: ModelShape, load: Load, split: Split) -> list[Cost]:
    """Gated delta net: projections, and a state of value heads x key dim x value dim in fp32 read and written once a request."""
    hidden, size, quant, n = shape.hidden or 0, shape.weight_bytes("attention"), shape.quantization, shape.linear
    kh, vh = n.get("linear_num_key_heads", 0) / split.tp, n.get("linear_num_value_heads", 0) / split.tp
    kd, vd = n.get("linear_key_head_dim", 0), n.get("linear_value_head_dim", 0)
    tokens = load.tokens
    return [
        _gemm("gemm", "qkvz projection", tokens, hidden, 2 * kh * kd + 2 * vh * vd, size, quant),
        _gemm("gemm", "o projection", tokens, vh * vd, hidden, size, quant),
        Cost(
            "linear_attention", "delta rule", 6.0 * tokens * vh * kd * vd, kv_bytes=2 * load.requests * vh * kd * vd * 4
        ),
    ]


def _feed(shape: ModelShape, kind: LayerType, load: Load, split: Split) -> list[Cost]:
    hidden, tokens, quant = shape.hidden or 0, load.tokens, shape.quantization
    if kind.ffn in ("MOE", "HASH") and shape.experts and shape.experts_per_token and shape.moe_ffn:
        return _moe(shape, load, split)
    if shape.ffn is None or kind.ffn != "DENSE":
        return []
    size, width = shape.weight_bytes("ffn"), shape.ffn / split.tp
    return [
        _gemm("gemm", "gate and up projection", tokens, hidden, 2 * width, size, quant),
        Cost("activation", "activation", 0, activation_bytes=3 * tokens * width * ACTIVATION_BYTES),
        _gemm("gemm", "down projection", tokens, width, hidden, size, quant),
    ]


def active_experts(experts: int, per_token: int, tokens: float) -> float:
    """Expected number of experts that some token chooses, when all are equally likely."""
    return experts * (1.0 - (1.0 - per_token / experts) ** tokens)


def _moe(shape: ModelShape, load: Load, split: Split) -> list[Cost]:
    hidden, tokens = shape.hidden or 0, load.tokens
    experts, chosen, width = shape.experts or 0, shape.experts_per_token or 0, (shape.moe_ffn or 0)
    size = shape.weight_bytes("moe")
    quant = shape.experts_as or shape.quantization
    ways = max(split.tp, split.ep)
    active = active_experts(experts, chosen, tokens) / ways
    routed = tokens * chosen / ways
    dtype = number_type(size, quant)
    rows = [
        _gemm("gemm", "router", tokens, hidden, experts, 2.0, None),
        Cost(
            "moe", "experts up", 2.0 * routed * hidden * 2 * width, active * hidden * 2 * width * size,
            activation_bytes=(routed * (hidden + 2 * width)) * ACTIVATION_BYTES, dtype=dtype,
        ),
        Cost(
            "moe", "experts down", 2.0 * routed * hidden * width, active * hidden * width * size,
            activation_bytes=(routed * (hidden + width)) * ACTIVATION_BYTES, dtype=dtype,
        ),
    ]  # fmt: skip
    if shape.shared_ffn:
        rows.append(_gemm("gemm", "shared expert", tokens, hidden, 3 * shape.shared_ffn / split.tp, size, quant))
    return rows
