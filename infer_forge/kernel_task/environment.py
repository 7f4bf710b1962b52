"""Switches of the process that change numbers or timing, and whether a side moved them."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

CLOCK = time.perf_counter_ns
"""The clock as it was when the harness was imported."""


def snapshot() -> dict[str, Any]:
    """Environment variables (as a hash each), the clock, and PyTorch's switches when it is loaded."""
    out: dict[str, Any] = {f"env {k}": hash(v) for k, v in os.environ.items()}
    out["clock"] = time.perf_counter_ns is CLOCK
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "backends"):
        out["torch matmul allow_tf32"] = torch.backends.cuda.matmul.allow_tf32
        out["torch cudnn allow_tf32"] = torch.backends.cudnn.allow_tf32
        out["torch fp16 reduced precision"] = torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
        out["torch bf16 reduced precision"] = torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
        out["torch float32 matmul precision"] = torch.get_float32_matmul_precision()
        out["torch deterministic"] = torch.are_deterministic_algorithms_enabled()
        out["torch default dtype"] = str(torch.get_default_dtype())
        out["torch cudnn benchmark"] = torch.backends.cudnn.benchmark
        out["torch synchronize"] = id(torch.cuda.synchronize)
    return out


def moved(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Names of the switches that differ."""
    return sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k))


def versions() -> dict[str, Any]:
    """Python, numpy, PyTorch, CUDA and the device, as far as they are loaded."""
    import platform
    from importlib.metadata import version

    out: dict[str, Any] = {
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "machine": platform.machine(),
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        out["torch"] = str(torch.__version__)
        out["cuda"] = torch.version.cuda
        if torch.cuda.is_available():
            out["gpu"] = torch.cuda.get_device_name()
    return out
