"""Step annotations: each framework's real spelling with its numbers, and what is no step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_forge.engines.annotations import parse


@pytest.mark.parametrize(
    ("name", "framework", "stage", "kind", "batch", "tokens"),
    [
        ("step[EXTEND bs=2 toks=4096]", "sglang", "prefill", "extend", 2, 4096),
        ("step[DECODE bs=16]", "sglang", "decode", "decode", 16, 16),
        ("step[TARGET_VERIFY bs=8]", "sglang", "decode", "verify", 8, None),
        ("step[TARGET_VERIFY bs=8 g_sq=32 g_sqsq=128 g_sqsk=40000 g_sk=10000]", "sglang", "decode", "verify", 8, 32),
        ("step[DRAFT_EXTEND_V2 bs=8]", "sglang", "decode", "draft_extend", 8, None),
        ("step[IDLE bs=0]", "sglang", "step", "idle", 0, None),
        ("execute_context_1(888_788544)_generation_0(0)", "vllm", "prefill", "prefill", 1, 888),
        ("execute_context_0(0)_generation_256(256)", "vllm", "decode", "decode", 256, 256),
        ("execute_context_1(512)_generation_1(1)", "vllm", "mixed", "mixed", 2, 513),
        ("execute_context_0(0)_generation_1(1)", "vllm", "decode", "decode", 1, 1),
        ("execute_context_0(0)_generation_8(8)", "vllm", "decode", "decode", 8, 8),
        ("[Executor] _forward_step 17: 2 ctx reqs, 0 gen reqs", "trtllm", "prefill", "prefill", 2, None),
        ("[Executor] _forward_step 18: 2 ctx reqs, 30 gen reqs", "trtllm", "mixed", "mixed", 32, None),
        ("_forward_step: 0 ctx reqs, 30 gen reqs", "trtllm", "decode", "decode", 30, None),
        ("ProfilerStep#6", "torch", "step", "profiler_step", None, None),
        ("execute_diffusion_1_256x256", "diffusion", "denoise", "denoise", 1, None),
        ("denoising_step_3", "diffusion", "denoise", "denoise", None, None),
        ("capture_32_DECODE", "sglang", "step", "capture", 32, None),
        ("capture_512_PIECEWISE", "vllm", "step", "capture", 512, None),
    ],
)
def test_a_step_is_read_with_its_stage_and_numbers(
    name: str, framework: str, stage: str, kind: str, batch: int | None, tokens: int | None
) -> None:
    mark = parse(name)
    assert mark is not None
    assert (mark.framework, mark.stage, mark.kind, mark.batch, mark.tokens) == (framework, stage, kind, batch, tokens)


def test_sums_of_the_detailed_vllm_form_are_kept() -> None:
    mark = parse("execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)")
    assert mark is not None
    assert mark.stage == "mixed"
    assert (mark.context_requests, mark.context_tokens, mark.generation_requests, mark.generation_tokens) == (
        9,
        8155,
        37,
        37,
    )
    assert mark.tokens == 8192
    assert mark.sums["context_sqsk"] == 7671310
    assert mark.sums["generation_sk"] == 34489


def test_sums_of_a_detailed_mixed_sglang_step_are_kept() -> None:
    mark = parse(
        "step[MIXED bs=5 c=1 g=4 c_sq=500 c_sk=500 c_sqsq=250000 c_sqsk=250000 g_sq=4 g_sk=4000 g_sqsq=4 g_sqsk=4000]"
    )
    assert mark is not None
    assert (mark.stage, mark.context_requests, mark.generation_requests, mark.tokens) == ("mixed", 1, 4, 504)
    assert mark.sums["context_sqsq"] == 250000


@pytest.mark.parametrize(
    "name",
    [
        "nccl:all_reduce",
        "## Call CompiledFxGraph fbje ##",
        "Optimizer.step#SGD.step",
        "generation_1",
        "decode",
        "llama-decode-bench",
        "step[extend]",
        "execute_context_(1)",
        "",
        "execute_context_1(512",
    ],
)
def test_what_only_resembles_a_step_is_none(name: str) -> None:
    assert parse(name) is None


_PIECES = [
    "step[",
    "EXTEND",
    " bs=",
    "1",
    "²",
    "٣",
    "9" * 5000,
    "]",
    "execute_",
    "context_",
    "(",
    ")",
    "_generation_",
    "sq",
    "_",
    "capture_",
    "#",
]


@given(st.lists(st.sampled_from(_PIECES) | st.text(max_size=5), max_size=12).map("".join))
def test_no_name_is_too_odd_to_be_judged(name: str) -> None:
    mark = parse(name)
    assert mark is None or mark.stage in ("prefill", "decode", "mixed", "denoise", "step")


def test_numbers_of_absurd_length_are_no_step() -> None:
    assert parse(f"step[DECODE bs={'9' * 5000}]") is None
    assert parse(f"ProfilerStep#{'9' * 5000}") is None
    assert parse("step[DECODE bs=²]") is None
