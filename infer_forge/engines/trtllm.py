"""What the product knows of TensorRT-LLM."""

from __future__ import annotations

import re

# --- profiles: step annotations and source paths --------------------------------------------------------------------
# Spelling: NVIDIA/TensorRT-LLM, tensorrt_llm/_torch/pyexecutor/py_executor.py: the range around the forward step reads
# `[Executor] _forward_step 17: 2 ctx reqs, 30 gen reqs`; first versions have neither the prefix nor the number.

STEP = re.compile(
    r"^(?:\[Executor\] )?_forward_step(?: (?P<step>\d+))?: (?P<context>\d+) ctx reqs, (?P<generation>\d+) gen reqs$"
)
"""A step of the PyTorch executor."""

SOURCES = ("tensorrt_llm/",)
"""Path pieces of its own Python code."""

MODEL_SOURCES = (
    "tensorrt_llm/_torch/models/",
    "tensorrt_llm/_torch/modules/",
    "tensorrt_llm/_torch/attention_backend/",
)
"""Where its models and layers stand."""

PLUMBING = (
    "tensorrt_llm/_torch/pyexecutor/",
    "tensorrt_llm/executor/",
    "tensorrt_llm/_utils.py",
    "tensorrt_llm/llmapi/",
)
"""Own code that launches or schedules, but is not the model."""
