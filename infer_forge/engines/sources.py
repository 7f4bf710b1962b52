"""Which Python frames say where a kernel comes from, and which framework a trace shows.

A `python_function` event is named `path(line): function`, `nn.Module: Class_0` or `<built-in method ..>`. `frame_rank` orders
them: the innermost frame of the highest rank is the source that a table prints. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from infer_forge.engines import sglang, tokenspeed, trtllm, vllm

ENGINE, LIBRARY, PLUMBING, USER, TORCH, NOISE = 50, 40, 30, 20, 10, 0
"""Ranks: model, layer and other code of an engine (and models of transformers and diffusers); kernel and model libraries; an
engine's launching and scheduling code and thin wrappers; code of nobody known (a user's script or model); torch and triton
internals; frames that say nothing."""

FRAMEWORKS = {"sglang": sglang, "vllm": vllm, "trtllm": trtllm, "tokenspeed": tokenspeed}
"""Framework -> the module that knows its paths."""

LIBRARIES = {
    "transformers": ("transformers/models/", "transformers/"),
    "diffusers": ("diffusers/models/", "diffusers/"),
    "xfuser": ("xfuser/",),
    "flashinfer": ("flashinfer/",),
    "sgl_kernel": ("sgl_kernel/",),
    "flash_attn": ("flash_attn/", "flash_attn_interface", "hopper/flash_attn"),
    "deep_gemm": ("deep_gemm/",),
    "deep_ep": ("deep_ep/",),
    "triton_kernels": ("triton_kernels/",),
    "aiter": ("aiter/",),
    "fla": ("fla/ops/", "fla/modules/", "fla/layers/"),
    "mamba_ssm": ("mamba_ssm/", "causal_conv1d/"),
    "xformers": ("xformers/",),
    "sageattention": ("sageattention/",),
    "torchao": ("torchao/",),
    "nunchaku": ("nunchaku/",),
    "timm": ("timm/",),
}
"""Libraries of kernels and models, with the path pieces that show them."""

_TORCH = (
    "torch/",
    "torch_guard.py",
    "torchinductor_",
    "triton/",
    "torchvision/",
    "cuda/bindings",
    "cutlass/",
    "functorch/",
    "apex/",
)
_STANDARD = (
    "contextlib.py",
    "dataclasses.py",
    "typing.py",
    "inspect.py",
    "enum.py",
    "functools.py",
    "threading.py",
    "importlib/",
    "asyncio/",
    "concurrent/",
    "multiprocessing/",
    "abc.py",
    "collections/",
    "copy.py",
    "random.py",
    "logging/",
    "warnings.py",
    "pathlib.py",
    "os.py",
    "re.py",
    "json/",
    "queue.py",
    "tempfile.py",
    "PIL/",
    "numpy/",
    "zmq/",
    "runpy.py",
)
_NOISE = re.compile(
    r"^<|^nn\.Module: |^\[memory\]|(?:\): (?:__call__|_call_impl|_wrapped_call_impl|__torch_function__|__enter__|__exit__"
    r"|_fn|decorate_context|wrapper|inner|<lambda>|<listcomp>|<genexpr>|<dictcomp>)$)"
)
_FRAME = re.compile(r"^(?P<path>.*?)\((?P<line>\d{1,9})\): (?P<function>.*)$", re.ASCII | re.DOTALL)


@lru_cache(maxsize=262144)
def split(name: str) -> tuple[str, int, str] | None:
    """`path(line): function` as its three parts, or None for names of other shapes."""
    found = _FRAME.match(name)
    return (found["path"], int(found["line"]), found["function"]) if found else None


def _holds(path: str, pieces: Iterable[str]) -> bool:
    return any(path.startswith(piece) or f"/{piece.lstrip('/')}" in path for piece in pieces)


@lru_cache(maxsize=262144)
def framework_of(path: str) -> str | None:
    """The framework whose code a path is (`sglang`, `vllm`, `trtllm`, `tokenspeed`), else None. Takes a whole frame name too."""
    for name, module in FRAMEWORKS.items():
        if _holds(path, module.SOURCES):
            return name
    return None


@lru_cache(maxsize=262144)
def library_of(path: str) -> str | None:
    """The kernel or model library whose code a path is (`flashinfer`, `transformers`, ..), else None."""
    for name, pieces in LIBRARIES.items():
        if _holds(path, pieces):
            return name
    return None


@lru_cache(maxsize=262144)
def frame_rank(name: str) -> int:
    """How much a frame says of where a kernel comes from: one of ENGINE .. NOISE; of two active frames the higher rank wins,
    and among equals the innermost."""
    if _NOISE.search(name):
        return NOISE
    parts = split(name)
    path = parts[0] if parts else name
    framework = framework_of(path)
    if framework:
        return PLUMBING if _holds(path, FRAMEWORKS[framework].PLUMBING) else ENGINE
    library = library_of(path)
    if library:
        return ENGINE if library in {"transformers", "diffusers"} and "/models/" in path else LIBRARY
    if _holds(path, _TORCH):
        return TORCH
    if _holds(path, _STANDARD) or parts is None:
        return NOISE
    return USER


def guess_framework(names: Iterable[str]) -> str | None:
    """The framework that a trace shows: the one whose paths or step spellings occur, most often first; None when none does.

    Args:
        names: names of events (frames, annotations), for example the distinct ones of a trace.
    """
    from infer_forge.engines.annotations import parse

    counts: dict[str, int] = {}
    for name in names:
        parts = split(name)
        found = framework_of(parts[0]) if parts else None
        if found is None and parts is None:
            mark = parse(name)
            found = mark.framework if mark and mark.framework in FRAMEWORKS else None
        if found is None and parts:
            library = library_of(parts[0])
            found = library if library in {"diffusers", "transformers"} else None
            if found:
                counts[found] = counts.get(found, 0)
                continue
        if found:
            counts[found] = counts.get(found, 0) + 1
    return max(counts, key=lambda key: counts[key]) if counts else None
