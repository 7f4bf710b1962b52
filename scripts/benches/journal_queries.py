"""Queries of the retrieval bench with what each must find, written by hand: symptoms, notes in two languages, and nothing."""

from __future__ import annotations

from typing import Any

# (what somebody types, id of the pitfall that it must find)
SYMPTOMS: tuple[tuple[str, str], ...] = (
    ("TTFT and ITL are 0.0 ms although output tokens are counted", "P3"),
    ("bench_serving reports Mean TTFT (ms): 0.00 with a reasoning model", "P3"),
    ("retokenized output tokens is 0", "P3"),
    ("推理模型的 TTFT 为 0", "P3"),
    ("首字延迟为零", "P3"),
    ("total input tokens are half of what I asked for with random dataset", "P1"),
    ("随机数据集输入长度只有一半", "P1"),
    ("one engine stops at EOS and outputs are shorter", "P2"),
    ("ignore_eos 默认值", "P2"),
    ("inter-token latency larger than TPOT with speculative decoding EAGLE", "P4"),
    ("投机解码 ITL", "P4"),
    ("old vLLM ITL below TPOT", "P5"),
    ("temperature default differs between engines", "P6"),
    ("second run much faster prefix cache hits random prompts", "P7"),
    ("第二次运行更快 前缀缓存", "P7"),
    ("TPOT when output length is 1", "P8"),
    ("TensorRT-LLM random dataset ShareGPT", "P9"),
    ("failed requests throughput too low", "P10"),
    ("tool call parser ITL burst", "P11"),
)

_WHEN = "2026-10-01T00:00:00Z"


def _note(title: str, body: str, *queries: str, **more: Any) -> dict[str, Any]:
    return {"record": {"kind": "note", "title": title, "created": _WHEN, "body": body, **more}, "queries": queries}


WRITTEN: tuple[dict[str, Any], ...] = (
    _note(
        "Piecewise CUDA graph loses to full graph below batch 8",
        "Launch gaps of the eager parts outweigh the padding saved; measured with two traces on one H200.",
        "piecewise cuda graph small batch",
        "is a full graph better at low batch",
        kind="rejection",
    ),
    _note(
        "FP8 MoE 的激活量化占 decode 的 9%",
        "per_token_group_quant_fp8 单独成核；与 silu_and_mul 融合后省下约 6%。",
        "激活量化 融合",
        "per_token_group_quant_fp8",
        "MoE decode 量化开销",
    ),
    _note(
        "Expert-parallel all-to-all hides behind shared experts only with two streams",
        "DeepEP low latency mode; DeepEPDispatcher kept the default stream and serialised.",
        "DeepEPDispatcher stream",
        "overlap of shared experts and all-to-all",
    ),
    _note(
        "Illegal memory access in fused_moe_kernel with 0 tokens on a rank",
        "cudaErrorIllegalAddress after chunked prefill; guard for M == 0 missing.",
        "illegal memory access fused_moe_kernel",
        "cudaErrorIllegalAddress chunked prefill",
        kind="crash_case",
    ),
)

NOTHING: tuple[str, ...] = (
    "banana pancake recipe",
    "quarterly marketing budget",
    "天气预报",
    "kubernetes ingress certificate renewal",
    "UserLoginController",
    "红烧肉做法",
    "postgres vacuum autovacuum threshold",
    "zzzznotaword",
)
