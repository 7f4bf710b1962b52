"""What the product knows of SGLang."""

from __future__ import annotations

import re

# --- profiles: step annotations and source paths --------------------------------------------------------------------
# Spelling: sgl-project/sglang, python/sglang/srt/model_executor/step_span_utils.py (read at 2502c66c), introduced by
# PR #24911: `step[MODE bs=B]`, with `toks=T` for EXTEND. With detailed annotations the sums over the requests follow,
# context as `c_..` and generation as `g_..`: sq = sum of N_Q, sk = sum of N_KV, sqsq, sqsk; MIXED also counts `c=` and `g=`.

STEP = re.compile(r"^step\[(?P<mode>[A-Z][A-Z_0-9]*)(?P<fields>(?: \w+=\d+)*)\]$")
"""A step span."""

CAPTURE = re.compile(r"^capture_(?P<batch>\d+)_(?P<mode>[A-Z][A-Z_]*)$")
"""The capture of one CUDA graph, as traces with `capture_32_DECODE` spell it."""

MODES = {
    "EXTEND": ("prefill", "extend"),
    "SPLIT_PREFILL": ("prefill", "split_prefill"),
    "PREBUILT": ("prefill", "prebuilt"),
    "DECODE": ("decode", "decode"),
    "MIXED": ("mixed", "mixed"),
    "TARGET_VERIFY": ("decode", "verify"),
    "DRAFT_EXTEND": ("decode", "draft_extend"),
    "DRAFT_EXTEND_V2": ("decode", "draft_extend"),
    "DLLM_EXTEND": ("denoise", "dllm_extend"),
    "IDLE": ("step", "idle"),
}
"""`ForwardMode` name -> (stage, kind). Draft extend runs inside a decode step of speculative decoding."""

SOURCES = ("python/sglang/", "/sglang/srt/", "sglang/srt/", "sglang/jit_kernel/", "sglang/multimodal_gen/", "sglang/")
"""Path pieces of its own Python code, as `python_function` names spell them."""

MODEL_SOURCES = ("sglang/srt/models/", "sglang/srt/layers/", "sglang/multimodal_gen/runtime/")
"""Where its models and layers stand: a frame here says more than one of the scheduler."""

PLUMBING = (
    "sglang/srt/managers/",
    "sglang/srt/utils",
    "sglang/srt/environ.py",
    "sglang/srt/model_executor/cuda_graph",
    "sglang/srt/model_executor/forward_context.py",
    "sglang/srt/compilation/",
    "sglang/srt/observability/",
)
"""Own code that launches or schedules, but is not the model: taken only when no better frame exists."""
