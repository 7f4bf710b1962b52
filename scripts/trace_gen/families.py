"""Model families: which halves make a layer, which layers make a forward pass, and the model's config.json.

A family is known by name; `forward` yields the kernels of one pass in launch order with their place in the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby

from trace_gen.blocks import (
    attn_dense,
    attn_linear,
    attn_mla,
    attn_v4,
    block_flux,
    block_oss,
    ffn_dense,
    ffn_moe,
    ffn_v4,
)
from trace_gen.model import Item, Spec
from trace_gen.rows import CUSTOM_AR, HEAD, NCCL_AR, TAIL, VLLM_PATHS, Row, Tagged


def _layer(spec: Spec, decode: bool, number: int) -> tuple[str, list[Tagged]]:
    """Kind and kernels of one layer."""
    family = spec.family
    if family in ("llama", "qwen3"):
        sliding = bool(spec.alternate) and (number + 1) % spec.alternate != 0
        kind = "dense" if not spec.alternate else "sliding" if sliding else "full"
        return kind, [*attn_dense(spec, family, qk_norm=family == "qwen3", local=sliding), *ffn_dense(spec, family)]
    if family == "micro":
        return "dense", [*attn_dense(spec, "llama")[:6], *ffn_dense(spec, "llama")[:2]]
    if family == "qwen3_moe":
        return "moe", [*attn_dense(spec, "moe", qk_norm=True), *ffn_moe(spec, "moe")]
    if family == "deepseek_v3":
        dense = number < spec.first_k_dense
        ffn = ffn_dense(spec, "llama") if dense else ffn_moe(spec, "mla", shared=True)
        return "dense" if dense else "moe", [*attn_mla(spec, decode), *ffn]
    if family == "deepseek_v4":
        ratios = spec.compress_ratios or (0,)
        ratio, hashed = ratios[number % len(ratios)], number < spec.hash_layers
        kind = ("hash_" if hashed else "") + (f"c{ratio}" if ratio else "full")
        return kind, [*attn_v4(spec, ratio), *ffn_v4(spec, hashed)]
    if family == "qwen3_next":
        full = number % 4 == 3
        attn = attn_dense(spec, "next", qk_norm=True) if full else attn_linear(spec, decode)
        return "full" if full else "linear", [*attn, *ffn_moe(spec, "next", shared=True)]
    if family == "gpt_oss":
        sliding = number % 2 == 0
        return "sliding" if sliding else "full", block_oss(spec, sliding)
    if family == "flux":
        double = number < spec.layers // 3
        return "double" if double else "single", block_flux(double)
    raise ValueError(f"no such family: {family}; known: {', '.join(FAMILIES)}")


FAMILIES = ("llama", "qwen3", "qwen3_moe", "deepseek_v3", "deepseek_v4", "qwen3_next", "gpt_oss", "flux", "micro")
"""Names that `Spec.family` takes; `micro` is eight kernels without head and tail, for measurements."""
_BARE = ("flux", "micro")

_AMD_NAMES = {
    "nvjet": "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT{tile}x64_MI16x16x1_SN_LDSB1",
    "FusedAddRMSNorm": "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi8ELb0EEEvPT0_",
    "RMSNormKernel": "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassIvEEEEJNS1_5KargsEEEEvDpT1_",
    "FlashAttnFwdSm90": "void paged_attention_ll4mi_QKV_mfma16_kernel<__hip_bfloat16, __hip_bfloat16, 16, 128, 256, false, 4>(int)",
    "ncclDevKernel": "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
    "cross_device": "void aiter::cross_device_reduce_1stage<__hip_bfloat16, 8>(aiter::RankData*)",
    "act_and_mul": "_ZN5aiter18act_and_mul_kernelIDF16bXadL_ZNS_11silu_kernelIDF16bEET_RKS2_EEEEvPS2_",
}


_AMD_PREFILL = "_ZN7ck_tile6kentryILi2ENS_39FmhaBatchPrefillWithPagedKVCacheKernelIvvEEJNS_5KargsEEEEvDpT1_"
"""Prompts have an attention kernel of their own."""


def _amd(name: str) -> str:
    for piece, other in _AMD_NAMES.items():
        if piece in name:
            tile = name.split("_")[2] if piece == "nvjet" else ""
            return other.format(tile=tile) if tile else other
    return name


def _respell(spec: Spec, decode: bool) -> tuple[Callable[[str], str], Callable[[str], str]]:
    """How kernels, and how frames and ops are spelt."""

    def frame(text: str) -> str:
        for old, new in VLLM_PATHS.items():
            if old in text:
                return text.replace(old, new)
        return text.replace("sgl_kernel::", "_C::").replace("sglang::", "vllm::")

    plain: Callable[[str], str] = lambda text: text  # noqa: E731
    amd: Callable[[str], str] = lambda text: _AMD_PREFILL if "FlashAttnFwdSm90" in text and not decode else _amd(text)  # noqa: E731
    return (amd if spec.vendor == "amd" else plain), (frame if spec.framework == "vllm" else plain)


def _side_by_side(layers: list[Item], shift: int) -> Iterator[Item]:
    """Layers of two micro-batches that take turns, half after half; the second one follows `shift` halves behind."""
    halves = [list(items) for _, items in groupby(layers, key=lambda i: (i.layer, i.half))]
    for turn in range(len(halves) + shift):
        for micro, at in ((0, turn), (1, turn - shift)):
            if 0 <= at < len(halves):
                yield from (i._replace(micro=micro) for i in halves[at])


def forward(spec: Spec, stage: str) -> Iterator[Item]:
    """The kernels of one forward pass in launch order."""
    decode = stage == "decode"
    column = 4 if decode else 3
    name, frame = _respell(spec, decode)

    def item(row: Row, part: str, layer: int | None = None, half: str = "", kind: str = "", flags: str = "") -> Item:
        free = "f" in flags
        return Item(
            name(row[0]),
            frame(row[1]),
            frame(row[2]),
            float(row[column]),
            part,
            layer,
            half,
            kind,
            "c" in flags,
            "s" in flags,
            free,
        )

    if spec.family not in _BARE:
        for row in HEAD:
            yield item(row, "head")
        if spec.ranks > 1:
            yield item(CUSTOM_AR if spec.custom_allreduce else NCCL_AR, "head", flags="c")
    total = spec.layers + spec.mtp
    layers: list[Item] = []
    for number in range(total):
        kind, rows = _layer(spec, decode, number)
        made: list[Item] = []
        half = "attn"
        for own_half, flags, row in rows:
            half = own_half or half
            made.append(item(row, "layer", number, half, "mtp" if number >= spec.layers else kind, flags))
        layers += made
        if (spec.mtp and number == spec.layers - 1) or number == total - 1:
            yield from _side_by_side(layers, int(spec.two_batch == "shifted")) if spec.two_batch else layers
            layers = []
        if spec.mtp and number == spec.layers - 1:
            for row in TAIL:
                yield item(row, "tail")
    if spec.family not in _BARE and not spec.mtp:
        for row in TAIL:
            yield item(row, "tail")


def config(spec: Spec) -> dict[str, object]:
    """A `config.json` of the model, with the keys that Hugging Face uses for its family."""
    base: dict[str, object] = {
        "num_hidden_layers": spec.layers,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "head_dim": 128,
        "torch_dtype": "bfloat16",
    }
    names = {
        "llama": ("LlamaForCausalLM", "llama"),
        "qwen3": ("Qwen3ForCausalLM", "qwen3"),
        "qwen3_moe": ("Qwen3MoeForCausalLM", "qwen3_moe"),
        "deepseek_v3": ("DeepseekV3ForCausalLM", "deepseek_v3"),
        "deepseek_v4": ("DeepseekV4ForCausalLM", "deepseek_v4"),
        "qwen3_next": ("Qwen3NextForCausalLM", "qwen3_next"),
        "gpt_oss": ("GptOssForCausalLM", "gpt_oss"),
        "flux": ("FluxTransformer2DModel", "flux"),
        "micro": ("LlamaForCausalLM", "llama"),
    }
    architecture, model_type = names[spec.family]
    base |= {"architectures": [architecture], "model_type": model_type}
    if spec.family == "qwen3_moe":
        base |= {"num_experts": 128, "num_experts_per_tok": 8}
    elif spec.family == "deepseek_v3":
        base |= {
            "n_routed_experts": 256,
            "num_experts_per_tok": 8,
            "n_shared_experts": 1,
            "first_k_dense_replace": spec.first_k_dense,
        }
        base |= {"kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "num_nextn_predict_layers": spec.mtp}
    elif spec.family == "deepseek_v4":
        ratios = spec.compress_ratios or (0,)
        base |= {
            "compress_ratios": [ratios[i % len(ratios)] for i in range(spec.layers)],
            "num_hash_layers": spec.hash_layers,
        }
        base |= {"n_routed_experts": 256, "num_experts_per_tok": 6, "num_nextn_predict_layers": spec.mtp}
    elif spec.family == "qwen3_next":
        base |= {"num_experts": 512, "num_experts_per_tok": 10, "full_attention_interval": 4}
        base |= {"layer_types": ["full_attention" if i % 4 == 3 else "linear_attention" for i in range(spec.layers)]}
    elif spec.family == "gpt_oss":
        base |= {"num_local_experts": 128, "num_experts_per_tok": 4, "sliding_window": 128}
        base |= {"layer_types": ["sliding_attention" if i % 2 == 0 else "full_attention" for i in range(spec.layers)]}
    elif spec.family == "flux":
        base |= {"num_layers": spec.layers // 3, "num_single_layers": spec.layers - spec.layers // 3}
    return base
