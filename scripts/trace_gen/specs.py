"""Named specs, and the two sets of seeds."""

from __future__ import annotations

from dataclasses import replace

from trace_gen.model import Spec, Step

WORKING_SEEDS = tuple(range(100, 132))
"""Seeds for development and for the tests."""

HELD_OUT_SEEDS = tuple(range(9000, 9032))
"""Seeds kept for one final run: nothing may be tuned on them, and no test uses them."""

P = Step("prefill", 2, 4096)
D = Step("decode", generation=16)
M = Step("mixed", 1, 512, 8)
V = Step("decode", generation=8, kind="verify")
DG = Step("decode", generation=16, graph=1)

_V4 = (0, 0, 4, 128, 4, 128, 4, 128)

_BIG = Spec("deepseek_v3", 16, (P, D, D, D), first_k_dense=1, stacks=True, frames=12, noise_ops=2, events=1_000_000)

SPECS: dict[str, Spec] = {
    "sample": Spec(
        "qwen3_moe", 12, (P, D, D, D, D), cycles=2, ranks=2, only_rank=0, stacks=True, frames=6, custom_allreduce=True
    ),
    "sample_tp2": Spec("qwen3_moe", 12, (P, D, D, D, D), cycles=2, ranks=2, skew_us=40, custom_allreduce=True),
    "big1m": _BIG,
    "big4m": replace(_BIG, events=4_000_000),
    "windows4k": Spec("micro", 1, (D,), cycles=4000),
    "window1": Spec("micro", 1, (D,), cycles=4000, one_window=True),
    "llama": Spec("llama", 16, (P, D, D), cycles=3),
    "qwen3": Spec("qwen3", 16, (P, D, D), cycles=3),
    "qwen3_moe": Spec("qwen3_moe", 16, (P, D, D), cycles=3, ranks=2),
    "deepseek_v3": Spec("deepseek_v3", 12, (P, D, D), cycles=3, first_k_dense=3, ranks=2, custom_allreduce=True),
    "deepseek_v3_mtp": Spec("deepseek_v3", 10, (P, V, V), cycles=3, first_k_dense=3, mtp=1),
    "deepseek_v4": Spec("deepseek_v4", 16, (P, D, D), cycles=3, compress_ratios=_V4, hash_layers=3),
    "qwen3_next": Spec("qwen3_next", 16, (P, D, D), cycles=3),
    "gpt_oss": Spec("gpt_oss", 12, (P, D, D), cycles=3, annotation="vllm", framework="vllm", ranks=2),
    "flux": Spec("flux", 24, (Step("denoise"),), cycles=6, annotation="diffusion"),
    "graph": Spec("qwen3", 16, (P, DG, DG, DG), cycles=2, flows="unbalanced"),
    "graph_piecewise": Spec(
        "qwen3_moe", 8, (replace(P, graph=9), DG, DG), cycles=2, flows="unbalanced", graph_nodes=True
    ),
    "vllm_mixed": Spec("llama", 8, (P, M, D, M, D), cycles=2, annotation="vllm", framework="vllm"),
    "vllm_detailed": Spec("llama", 8, (P, M, D), cycles=2, annotation="vllm_detailed", framework="vllm"),
    "trtllm": Spec("llama", 8, (P, M, D), cycles=2, annotation="trtllm"),
    "verify": Spec("qwen3", 8, (P, V, V, D), cycles=2),
    "amd": Spec("llama", 8, (P, D, D), cycles=2, vendor="amd", gpu_annotation=False, flows="missing"),
    "amd_graph": Spec("llama", 8, (P, DG, DG), cycles=2, vendor="amd", gpu_annotation=False),
    "merged_tp4": Spec("llama", 6, (P, D, D), cycles=2, ranks=4, merged=True, stacks=True, skew_us=30),
    "two_devices": Spec("llama", 6, (P, D), cycles=2, devices=2),
    "no_stacks": Spec("llama", 8, (P, D), cycles=2, shapes=True),
    "stacks": Spec("llama", 8, (P, D), cycles=2, stacks=True, shapes=True, noise_ops=1),
    "no_ids": Spec("llama", 8, (P, D), cycles=2, external_id="correlation", flows="missing"),
    "lower_ids": Spec("llama", 8, (P, D), cycles=2, external_id="lower"),
    "int_ts": Spec("llama", 8, (P, D), cycles=2, ts="int"),
    "string_ts": Spec("llama", 8, (P, D), cycles=2, ts="string", external_id="string", string_tid=True),
    "list_form": Spec("llama", 4, (P, D), cycles=2, list_form=True, layout="compact"),
    "syncs": Spec("llama", 8, (P, D), cycles=2, sync_events=True),
    "cut": Spec("qwen3_moe", 12, (D, D, D, D), cycles=2, cut_head=0.4, cut_tail=0.3),
    "rough": Spec("deepseek_v3", 10, (P, D, D), cycles=3, first_k_dense=3, reorder=0.3, jitter=0.25, drop=0.01),
    "hf": Spec("llama", 8, (Step("prefill", 1, 512), Step("decode", generation=1)), cycles=2, annotation="hf"),
    "sglang_detailed": Spec("llama", 8, (P, M, D), cycles=2, annotation="sglang_detailed"),
    "alternating": Spec("qwen3", 12, (P, D, D), cycles=2, alternate=6),
    "pdl": Spec("qwen3", 8, (P, DG, DG), cycles=2, pdl_us=0.6),
    "stray": Spec("llama", 8, (D, D), cycles=4, stray_ms=480),
    "unmarked": Spec("llama", 8, (P, D, D), cycles=2, annotation="none"),
}
"""Every ready spec by name."""
