"""What the product knows of vLLM."""

from __future__ import annotations

import re

# --- profiles: step annotations and source paths --------------------------------------------------------------------
# Spelling: vllm-project/vllm PR #22496 introduced `execute_context_N(T)_generation_M(T)` (requests, then their tokens);
# a later form adds a second number in the brackets, `(888_788544)` (kept as `second`); PR #37524 and #45069 added
# `execute_B_context_N(sq..sk..sqsq..sqsk..)_generation_M(..)` with the sums over the requests.

STEP = re.compile(
    r"^execute_(?:(?P<total>\d+)_)?context_(?P<context>\d+)\((?P<context_in>[^()]*)\)"
    r"_generation_(?P<generation>\d+)\((?P<generation_in>[^()]*)\)$"
)
"""A step of the model runner."""

SUM = re.compile(r"(sqsq|sqsk|sq|sk)(\d+)")
"""One sum inside the brackets of the newer form."""

CAPTURE = re.compile(r"^capture_(?P<batch>\d+)_(?P<mode>FULL|PIECEWISE|FULL_DECODE_ONLY)$")
"""The capture of the CUDA graphs of one batch size."""

SOURCES = ("vllm/",)
"""Path pieces of its own Python code."""

MODEL_SOURCES = ("vllm/model_executor/", "vllm/attention/", "vllm/v1/attention/", "vllm/v1/sample/")
"""Where its models and layers stand."""

PLUMBING = (
    "vllm/v1/worker/",
    "vllm/v1/engine/",
    "vllm/v1/executor/",
    "vllm/v1/core/",
    "vllm/compilation/",
    "vllm/worker/",
    "vllm/utils",
    "vllm/forward_context.py",
    "vllm/profiler/",
    "vllm/envs.py",
)
"""Own code that launches or schedules, but is not the model."""
