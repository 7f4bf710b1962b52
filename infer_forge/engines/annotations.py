"""Step annotations of all frameworks, read by one function.

`parse` takes the name of a `user_annotation` or `gpu_user_annotation` event and says which step it marks, with the real
numbers that the name carries. The spellings stand in the framework's own file (`sglang.py`, `vllm.py`, `trtllm.py`).
Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from infer_forge.engines import sglang, trtllm, vllm

PROFILER_STEP = re.compile(r"^ProfilerStep#(?P<step>\d{1,18})$", re.ASCII)
"""torch.profiler's own step, written by `prof.step()` (Hugging Face scripts, training loops)."""

DIFFUSION = re.compile(r"^execute_diffusion_(?P<batch>\d{1,9})(?:_(?P<width>\d{1,9})x(?P<height>\d{1,9}))?$", re.ASCII)
"""A denoise run as xDiT-based harnesses write it: batch and picture size."""

DENOISE = re.compile(
    r"^(?:\[?denois\w*\]?|diffusion)[ _\-]?(?:step|loop)?[ _\-#:]*(?P<step>\d{1,18})?(?:/\d+)?$", re.IGNORECASE
)
"""A denoise step in words, for example `denoising_step_3`, `denoise step 3/28`."""


@dataclass(frozen=True)
class StepAnnotation:
    """One step mark.

    Attributes:
        framework: `sglang`, `vllm`, `trtllm`, `torch` or `diffusion`: whose spelling it is.
        stage: `prefill`, `decode`, `mixed`, `denoise`, or `step` where the mark does not say.
        kind: what the framework calls it (`extend`, `decode`, `verify`, `mixed`, `capture`, `idle`, `profiler_step`, ..).
            `capture` marks the capture of a CUDA graph, not a step of serving.
        batch: requests (pictures for diffusion) in the step; None when the name does not say.
        tokens: new tokens of the step; None when the name does not say.
        context_requests, context_tokens: the prefill part.
        generation_requests, generation_tokens: the decode part.
        step: running number of the step where the name has one.
        sums: sums over requests, `context_sq` (N_Q), `context_sk` (N_KV), `context_sqsq`, `context_sqsk`, and the same
            with `generation_`; for diffusion `width` and `height`; `context_second` is the unexplained second number of
            vLLM's two-number form.
    """

    framework: str
    stage: str
    kind: str
    batch: int | None = None
    tokens: int | None = None
    context_requests: int | None = None
    context_tokens: int | None = None
    generation_requests: int | None = None
    generation_tokens: int | None = None
    step: int | None = None
    sums: dict[str, int] = field(default_factory=dict[str, int])


def _stage_of(context: int, generation: int) -> str:
    if context and generation:
        return "mixed"
    if context:
        return "prefill"
    return "decode" if generation else "step"


def _sglang(name: str) -> StepAnnotation | None:
    found = sglang.STEP.match(name)
    if not found:
        return None
    pairs = (piece.split("=") for piece in found["fields"].split())
    numbers = {key: int(value) for key, value in pairs}
    stage, kind = sglang.MODES.get(found["mode"], ("step", found["mode"].lower()))
    batch, tokens = numbers.pop("bs", None), numbers.pop("toks", None)
    context, generation = numbers.pop("c", None), numbers.pop("g", None)
    sums = {key.replace("c_", "context_", 1).replace("g_", "generation_", 1): value for key, value in numbers.items()}
    context_tokens, generation_tokens = sums.get("context_sq"), sums.get("generation_sq")
    if stage == "prefill":
        context, context_tokens, generation, generation_tokens = batch, tokens or context_tokens, 0, 0
    elif stage == "decode":
        context, context_tokens, generation = 0, 0, batch
        generation_tokens = generation_tokens if generation_tokens is not None else batch if kind == "decode" else None
    parts = [part for part in (context_tokens, generation_tokens) if part is not None]
    return StepAnnotation(
        "sglang",
        stage,
        kind,
        batch=batch,
        tokens=tokens if tokens is not None else sum(parts) if len(parts) == 2 else None,
        context_requests=context,
        context_tokens=context_tokens,
        generation_requests=generation,
        generation_tokens=generation_tokens,
        sums=sums,
    )


def _vllm_side(text: str, side: str, sums: dict[str, int]) -> int | None:
    """Tokens of one bracket; its further numbers go into `sums`."""
    parts = {f"{side}_{key}": int(value) for key, value in vllm.SUM.findall(text)}
    if parts:
        sums.update(parts)
        return parts.get(f"{side}_sq")
    numbers = [int(part) for part in text.split("_") if part.isascii() and part.isdigit() and len(part) < 31]
    if len(numbers) > 1:
        sums[f"{side}_second"] = numbers[1]
    return numbers[0] if numbers else None


def _vllm(name: str) -> StepAnnotation | None:
    found = vllm.STEP.match(name)
    if not found:
        return None
    sums: dict[str, int] = {}
    context, generation = int(found["context"]), int(found["generation"])
    context_tokens = _vllm_side(found["context_in"], "context", sums)
    generation_tokens = _vllm_side(found["generation_in"], "generation", sums)
    known = context_tokens is not None and generation_tokens is not None
    stage = _stage_of(context, generation)
    return StepAnnotation(
        "vllm",
        stage,
        stage if stage != "step" else "idle",
        batch=context + generation,
        tokens=(context_tokens or 0) + (generation_tokens or 0) if known else None,
        context_requests=context,
        context_tokens=context_tokens,
        generation_requests=generation,
        generation_tokens=generation_tokens,
        sums=sums,
    )


def _trtllm(name: str) -> StepAnnotation | None:
    found = trtllm.STEP.match(name)
    if not found:
        return None
    context, generation = int(found["context"]), int(found["generation"])
    stage = _stage_of(context, generation)
    return StepAnnotation(
        "trtllm",
        stage,
        stage if stage != "step" else "idle",
        batch=context + generation,
        context_requests=context,
        generation_requests=generation,
        step=int(found["step"]) if found["step"] else None,
    )


def _capture(name: str) -> StepAnnotation | None:
    for framework, pattern in (("vllm", vllm.CAPTURE), ("sglang", sglang.CAPTURE)):
        found = pattern.match(name)
        if found:
            return StepAnnotation(framework, "step", "capture", batch=int(found["batch"]))
    return None


def _torch(name: str) -> StepAnnotation | None:
    found = PROFILER_STEP.match(name)
    return StepAnnotation("torch", "step", "profiler_step", step=int(found["step"])) if found else None


def _diffusion(name: str) -> StepAnnotation | None:
    found = DIFFUSION.match(name)
    if found:
        size = {key: int(found[key]) for key in ("width", "height") if found[key]}
        return StepAnnotation("diffusion", "denoise", "denoise", batch=int(found["batch"]), sums=size)
    found = DENOISE.match(name)
    if found:
        return StepAnnotation("diffusion", "denoise", "denoise", step=int(found["step"]) if found["step"] else None)
    return None


_READERS: tuple[Callable[[str], StepAnnotation | None], ...] = (_sglang, _vllm, _trtllm, _torch, _diffusion, _capture)


@lru_cache(maxsize=65536)
def parse(name: str) -> StepAnnotation | None:
    """The step that an annotation marks, or None when it marks none (collectives, compiled graphs, optimiser ranges).

    Args:
        name: the event's name as the trace spells it.
    """
    for reader in _READERS:
        found = reader(name)
        if found is not None:
            return found
    return None
