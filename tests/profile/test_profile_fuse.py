"""The fuse catalogue and its matcher: every pattern has a trace that shows it and traces that must not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from infer_forge.base.kernels import classify
from infer_forge.profile import fuse
from infer_forge.profile.catalogue import Catalogue, Pattern, catalogue
from infer_forge.profile.fuse import ACTIVE, OPPORTUNITY, UNLISTED, Facts, Found
from infer_forge.profile.read import Input

BOOK = catalogue()
PATTERNS = {p.id: p for p in BOOK.patterns}
SEQUENCES = [(p.id, i) for p in BOOK.patterns for i in range(len(p.unfused))]
FILLER = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int)"
)
REPEAT = 20

Make = Callable[..., Any]
Read = Callable[[Any], Input]


def facts_for(pattern: Pattern) -> Facts:
    """A run in which all conditions of a pattern hold."""
    when = pattern.when
    return Facts(
        world=when.get("min_world", 8),
        vendor=when.get("vendor", "nvidia"),
        capability=when.get("min_cc", 10.0),
        model=(when.get("model") or ["some-model"])[0],
        framework=None,
    )


def names_of(pattern: Pattern, sequence: int) -> list[str]:
    """Kernel names of one unfused sequence, from the elements' examples."""
    return [BOOK.elements[e].example for e in pattern.unfused[sequence]]


def rows(found: Input, pattern: Pattern, facts: Facts | None = None) -> list[Found]:
    """The rows that this one pattern gives."""
    alone = Catalogue(BOOK.elements, (pattern,))
    return [f for f in fuse.fuse(found.scenes[0], facts or facts_for(pattern), book=alone) if f.state != UNLISTED]


def opportunities(found: Input, pattern: Pattern, facts: Facts | None = None) -> list[Found]:
    return [f for f in rows(found, pattern, facts) if f.state == OPPORTUNITY]


def test_at_least_45_patterns_are_verified_and_each_names_repository_path_version_and_day() -> None:
    verified = BOOK.enabled()
    assert len(verified) >= 45
    for pattern in verified:
        assert {"repository", "path", "seen", "commit", "checked"} <= pattern.source.keys(), pattern.id
        assert pattern.source["repository"].count("/") == 1, pattern.id
        assert pattern.saving, pattern.id
        assert pattern.fuses, pattern.id
    assert {p.framework for p in verified} >= {"sglang", "vllm", "trtllm", "flashinfer", "aiter", "library"}


@pytest.mark.parametrize("element", list(BOOK.elements))
def test_an_elements_own_example_is_that_element(element: str) -> None:
    found = BOOK.elements[element]
    assert found.matches(found.example.lower(), classify(found.example))


@pytest.mark.parametrize(("ident", "sequence"), SEQUENCES)
def test_a_repeated_unfused_sequence_is_an_opportunity(
    ident: str, sequence: int, trace_writer: Make, read_one: Read
) -> None:
    pattern = PATTERNS[ident]
    names = names_of(pattern, sequence)
    found = opportunities(read_one(trace_writer().run([*names, FILLER], repeat=REPEAT)), pattern)
    assert len(found) == 1
    assert found[0].count == REPEAT
    assert found[0].confidence == "high"
    assert found[0].time_ns == REPEAT * len(pattern.unfused[sequence]) * 5000 or len(pattern.unfused) > 1


@pytest.mark.parametrize(("ident", "sequence"), SEQUENCES)
def test_the_same_kernels_apart_are_no_opportunity(
    ident: str, sequence: int, trace_writer: Make, read_one: Read
) -> None:
    pattern = PATTERNS[ident]
    names = names_of(pattern, sequence)
    apart = trace_writer("apart.json")
    for name in names:  # all of one kind, then all of the next: present, never in order
        apart.run([name, FILLER, FILLER], repeat=REPEAT, start=1000.0 + 1000.0 * len(apart.events))
    assert not opportunities(read_one(apart), pattern)
    streams = trace_writer("streams.json")
    ts = 1000.0
    for _ in range(REPEAT):
        for k, name in enumerate([*names, FILLER]):
            streams.kernel(name, ts, 5.0, stream=20 + k)
            ts += 6.0
    assert not opportunities(read_one(streams), pattern)
    far = trace_writer("far.json").run([*names, FILLER], repeat=REPEAT, gap=pattern.max_gap_us + 50)
    assert not opportunities(read_one(far), pattern)


@pytest.mark.parametrize("ident", list(PATTERNS))
def test_a_near_miss_is_no_opportunity_and_not_active(ident: str, trace_writer: Make, read_one: Read) -> None:
    pattern = PATTERNS[ident]
    near = pattern.example["near_miss"]
    assert near, "each pattern has a hand-written near miss"
    found = rows(read_one(trace_writer().run([*near, FILLER, FILLER], repeat=REPEAT)), pattern)
    assert not found


@pytest.mark.parametrize("ident", list(PATTERNS))
def test_the_fused_kernel_is_reported_as_active_never_as_an_opportunity(
    ident: str, trace_writer: Make, read_one: Read
) -> None:
    pattern = PATTERNS[ident]
    found = rows(read_one(trace_writer().run([pattern.example["fused"], FILLER], repeat=REPEAT)), pattern)
    assert [(f.id, f.state, f.count) for f in found] == [(ident, ACTIVE, REPEAT)]


@pytest.mark.parametrize("ident", [p.id for p in BOOK.patterns if p.when])
def test_a_condition_that_does_not_hold_turns_a_pattern_off(ident: str, trace_writer: Make, read_one: Read) -> None:
    pattern = PATTERNS[ident]
    made = read_one(trace_writer().run([*names_of(pattern, 0), FILLER], repeat=REPEAT))
    vendor = "amd" if pattern.when.get("vendor") == "nvidia" else "nvidia"
    good = facts_for(pattern)
    others = {
        "min_world": replace(good, world=1),
        "vendor": replace(good, vendor=vendor),
        "min_cc": replace(good, capability=7.5),
        "model": replace(good, model="quite-another"),
    }
    for condition in pattern.when.keys() & others.keys():
        assert not opportunities(made, pattern, others[condition]), condition
    unknown = opportunities(made, pattern, Facts(framework=None))
    assert not unknown if pattern.when.get("strict") else unknown[0].confidence == "medium"


def test_a_sequence_that_occurs_too_seldom_is_an_accident(trace_writer: Make, read_one: Read) -> None:
    pattern = PATTERNS["vllm-add-rmsnorm"]
    few = read_one(trace_writer().run([*names_of(pattern, 0), FILLER], repeat=pattern.min_count - 1))
    assert not opportunities(few, pattern)


def test_a_sequence_that_crosses_a_stage_is_not_one_occurrence(trace_writer: Make, read_one: Read) -> None:
    pattern = PATTERNS["vllm-add-rmsnorm"]
    made = trace_writer()
    first, second = names_of(pattern, 0)
    for i in range(REPEAT):
        start = 1000.0 + 100 * i
        made.kernel(first, start, 5.0).kernel(second, start + 10, 5.0)
        made.step(f"step[{'EXTEND bs=1 toks=8' if i % 2 else 'DECODE bs=1'}]", start + 8, 80.0)
    assert not opportunities(read_one(made), pattern)


def test_an_unverified_pattern_is_off_by_default(trace_writer: Make, read_one: Read) -> None:
    base = PATTERNS["vllm-add-rmsnorm"]
    doubtful = replace(base, id="doubtful", status="unverified")
    book = Catalogue(BOOK.elements, (doubtful,))
    made = read_one(trace_writer().run([*names_of(base, 0), FILLER], repeat=REPEAT))
    assert not [f for f in fuse.fuse(made.scenes[0], book=book) if f.id == "doubtful"]
    assert [f for f in fuse.fuse(made.scenes[0], book=book, unverified=True) if f.id == "doubtful"]


def test_one_gemm_and_one_memset_somewhere_confirm_nothing(trace_writer: Make, read_one: Read) -> None:
    made = (
        trace_writer()
        .kernel("nvjet_tst_64x64_64x16_2x1_2cta_v_bz_TNT", 1000, 50)
        .kernel("Memset (Device)", 1100, 1, cat="gpu_memset")
    )
    assert not [f for f in fuse.fuse(read_one(made).scenes[0]) if f.state != UNLISTED]


def test_a_training_trace_has_no_quantised_cache_store(trace_writer: Make, read_one: Read) -> None:
    training = [
        "void at::native::(anonymous namespace)::EmbeddingBag_updateOutputKernel_sum_mean<float, long>(long const*, float*)",
        "sgemm_32x32x32_NN_vec",
        "void at::native::vectorized_elementwise_kernel<4, at::native::threshold_kernel_impl<float> >(int)",
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<1> >(int)",
    ]
    found = fuse.fuse(read_one(trace_writer().run(training, repeat=REPEAT)).scenes[0])
    assert not [f for f in found if f.state != UNLISTED]


def test_a_source_file_called_quantization_makes_nothing_quantised(trace_writer: Make, read_one: Read) -> None:
    names = ["fused_moe_kernel", "void vllm::act_and_mul_kernel<c10::BFloat16, silu>(int)", "fused_moe_kernel"]
    made = trace_writer().run(names, repeat=REPEAT, op="python/sglang/srt/layers/quantization/unquant.py")
    found = [f for f in fuse.fuse(read_one(made).scenes[0]) if "quant" in f.id]
    assert not found


def test_an_all_reduce_counts_as_several_ranks_where_distributed_info_says_so(
    trace_writer: Make, read_one: Read
) -> None:
    pattern = PATTERNS["sglang-allreduce-add-rmsnorm"]
    made = read_one(trace_writer(world=8).run([*names_of(pattern, 0), FILLER], repeat=REPEAT))
    row = next(f for f in fuse.fuse(made.scenes[0]) if f.id == pattern.id)
    assert (row.state, row.confidence, row.count) == (OPPORTUNITY, "high", REPEAT)
    alone = read_one(trace_writer("one.json", world=1).run([*names_of(pattern, 0), FILLER], repeat=REPEAT))
    assert not [f for f in fuse.fuse(alone.scenes[0]) if f.id == pattern.id]


def test_the_longer_sequence_owns_the_kernels_and_names_the_shorter(trace_writer: Make, read_one: Read) -> None:
    names = [BOOK.elements[e].example for e in ("allreduce", "rmsnorm", "quant_static")]
    found = fuse.fuse(read_one(trace_writer(world=8).run([*names, FILLER], repeat=REPEAT)).scenes[0])
    missing = [f for f in found if f.state == OPPORTUNITY]
    assert len(missing) == 1
    assert "allreduce" in missing[0].id
    assert "quant" in missing[0].id
    assert "also" in missing[0].note


def test_short_repeated_neighbours_are_candidates_of_low_confidence_with_their_gap(
    trace_writer: Make, read_one: Read
) -> None:
    names = ["my_first_kernel", "my_second_kernel", FILLER]
    made = read_one(trace_writer().run(names, repeat=24, gap=2.0, dur=4.0))
    row = next(f for f in fuse.fuse(made.scenes[0]) if f.kernels == "my_first_kernel -> my_second_kernel")
    assert (row.state, row.confidence, row.count, row.launch_gap_us) == (UNLISTED, "low", 24, 2.0)
    long = read_one(trace_writer("long.json").run(names, repeat=24, gap=2.0, dur=40.0))
    assert not [f for f in fuse.fuse(long.scenes[0]) if f.state == UNLISTED]
