"""The kernel classifier, readable names, families, and GPU peaks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_forge.base import kernels
from infer_forge.base.kernels import classify, demangle, family, gpu_peaks, simplify
from infer_forge.base.resources import data_path


def _examples() -> list[tuple[str, str]]:
    lines = data_path("references/kernel_examples.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return [(line.split("\t")[0], line.split("\t")[1]) for line in lines]


@pytest.mark.parametrize(
    ("name", "category"),
    [
        (
            "void flash::flash_fwd_splitkv_kernel<Traits<128, cutlass::bfloat16_t>, true>(flash::Flash_fwd_params)",
            "attention",
        ),
        (
            "void cutlass::device_kernel<flash::FlashAttnFwdSm90<Mainloop<2, cutlass::bfloat16_t> > >(Params)",
            "attention",
        ),
        ("void flashinfer::norm::GemmaRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)", "norm"),
        ("triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0", "norm"),
        ("void fbgemm_gpu::permute_2D_data_kernel<false, int, int>(int, int)", "embedding"),
        ("void split_embedding_codegen_forward_unweighted_kernel<float>(Tensor)", "embedding"),
        ("volta_scudnn_128x64_relu_interior_nn_v1", "convolution"),
        ("Cijk_Alik_Bljk_BBS_BH_MT128x64x32_MI16x16x1", "gemm"),
        ("fused_sigmoid_gating_delta_rule_update_kernel", "linear_attention"),
        ("void vllm::reshape_and_cache_flash_kernel<__half, __half>(__half*)", "kv_cache"),
        ("event_wait", "sync"),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", "communication"),
    ],
)
def test_names_that_other_classifiers_get_wrong(name: str, category: str) -> None:
    assert classify(name) == category


def test_at_least_400_labelled_shapes_are_98_percent_right() -> None:
    examples = _examples()
    assert len({simplify(name) for _, name in examples}) >= 400
    wrong = [(category, classify(name), name) for category, name in examples if classify(name) != category]
    assert len(wrong) <= 0.02 * len(examples), wrong


def test_every_rule_and_example_names_a_known_category() -> None:
    known = set(kernels.categories())
    assert {rule.category for rule in kernels.rules()} <= known
    assert {category for category, _ in _examples()} <= known
    assert all(rule.why and (rule.words or rule.pattern) for rule in kernels.rules())


@pytest.mark.parametrize(
    "name", ["void acme::frobnicate<float>(float*)", "xyz", "", "k", "run", "(", "<<<", "_Z", "_ZN", "_ZN99x"]
)
def test_nothing_is_elementwise_or_copy_without_evidence(name: str) -> None:
    assert classify(name) == "other"


def test_number_types_say_nothing_of_the_category() -> None:
    assert classify("void acme::thing<cutlass::bfloat16_t, cutlass::half_t>(cutlass::bfloat16_t*)") == "other"


def test_a_decision_has_a_reason() -> None:
    rule = kernels.rule_for("Cijk_Alik_Bljk_BBS")
    assert rule is not None
    assert "Tensile" in rule.why


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void flashinfer::norm::RMSNormKernel<8u, __half>(__half*, unsigned int)", "flashinfer::norm::RMSNormKernel"),
        ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256EEEvPT0_", "aiter::add_rmsnorm_quant_kernel"),
        (
            "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassIvEEEEJNS1_5KargsEEEEvDpT1_",
            "Rmsnorm2dFwd",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, std::array<char*, 1ul> >(int)",
            "vectorized_elementwise_kernel[FillFunctor]",
        ),
        ("void cutlass::device_kernel<flash::FlashAttnFwdSm90<M<2> > >(flash::Params)", "flash::FlashAttnFwdSm90"),
        ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD"),
        (
            "std::enable_if<(((8)>(0)))&&vllm::X<c10::Half>::exists, void>::type vllm::fused_add_rms_norm_kernel<c10::Half>(int)",
            "vllm::fused_add_rms_norm_kernel",
        ),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
    ],
)
def test_readable_names(name: str, short: str) -> None:
    assert simplify(name) == short


def test_variants_of_one_kernel_are_one_family() -> None:
    assert family("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn") == family(
        "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_tn"
    )
    assert family("triton_poi_fused_add_0") == family("triton_poi_fused_add_17")
    assert family("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNN") == family("nvjet_tst_64x8_64x16_4x1_v_bz_TNT")
    assert family("void vllm::rms_norm_kernel<float>(float*)") != family(
        "void vllm::fused_add_rms_norm_kernel<float>(float*)"
    )


def test_long_names_keep_what_tells_them_apart() -> None:
    ops = "_".join(["add", "mul", "cat", "view"] * 12)
    assert simplify(f"triton_poi_fused_{ops}_17") != simplify(f"triton_poi_fused_{ops}_18")
    assert family(f"triton_poi_fused_{ops}_17") == family(f"triton_poi_fused_{ops}_18")
    assert len(simplify("x" * 500)) <= 120
    gate = "bmm_Bfloat16_Bfloat16Bfloat16_Fp32_t128x8x128_s6_et128x8_m128x8x16_rM_BN_transOut_schPd2x1x2x3_bN_tmaSf_swiGlu_dynB_sm100f"
    assert family(gate) == "bmm_swiGlu"
    assert family(gate.replace("_swiGlu", "")) == "bmm_dynB"


def test_other_names_are_not_demangled() -> None:
    assert demangle("plain_kernel") == "plain_kernel"
    assert demangle("_ZN5aiter") == "aiter"


_PIECES = [
    "_ZN",
    "_Z",
    "12",
    "²",
    "9" * 50,
    "I",
    "E",
    "S_",
    "void ",
    "<",
    ">",
    "(",
    ")",
    "::",
    "anonymous",
    "std::enable_if<",
    ">::type ",
    "triton_poi_fused_",
]


@given(st.lists(st.sampled_from(_PIECES) | st.text(max_size=8), max_size=20).map("".join))
def test_no_name_is_too_odd_to_be_judged(name: str) -> None:
    assert classify(name) in kernels.categories()
    assert isinstance(simplify(name), str)
    assert isinstance(family(name), str)


def test_long_and_hostile_names_are_judged_quickly() -> None:
    start = time.process_time()
    for index in range(200):
        classify("a" * 20000 + str(index))
        classify("void f<" + "(<" * 3000 + str(index))
        classify("void g<" + "cutlass::X<" * 900 + str(index) + ">" * 900 + "(int)")
        classify("_ZN" + "9" * 500 + str(index))
    assert time.process_time() - start < 3


def test_gpu_peaks_are_found_by_device_name_and_never_guessed() -> None:
    h100 = gpu_peaks("NVIDIA H100 80GB HBM3")
    assert h100 is not None
    assert (h100.name, h100.sm_count, h100.flops("bf16")) == ("H100-SXM", 132, 989.4e12)
    gb300, mi300 = gpu_peaks("NVIDIA GB300"), gpu_peaks("AMD Instinct MI300X")
    assert gb300 is not None
    assert mi300 is not None
    assert (gb300.sm_count, mi300.sm_count) == (152, 304)
    assert gpu_peaks("NVIDIA L40") is None
    assert gpu_peaks("NVIDIA A10G") is None
    assert gpu_peaks("") is None
    assert gpu_peaks("9.0") is None, "H100 and H200 share it"
    consumer = gpu_peaks("12.0")
    assert consumer is not None
    assert consumer.name == "RTX 5090"
    volta = gpu_peaks("Tesla V100-SXM2-16GB")
    assert volta is not None
    assert volta.flops("bf16") is None


GPUS = (
    "V100,RTX 2080 Ti,T4,A10,A100,L4,L40S,H100,H200,B200,B300,GB200,GB300,RTX 4090,RTX 5090,MI250X,MI300X,MI325X,MI355X"
)


@pytest.mark.parametrize("name", GPUS.split(","))
def test_every_listed_gpu_has_peaks_with_a_source(name: str) -> None:
    peaks = gpu_peaks(name)
    assert peaks is not None
    assert peaks.source
    assert peaks.hbm_gb_s
    assert peaks.flops("fp16")


def test_less_than_3_percent_of_device_time_is_other_in_every_real_trace(corpus: Path) -> None:
    import gzip
    import json

    checked = 0
    for path in sorted((corpus / "traces").rglob("*.json*")):
        raw = path.read_bytes()
        if path.stat().st_size > 1_300_000:
            continue
        data: Any = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
        events = cast("list[dict[str, Any]]", data["traceEvents"] if isinstance(data, dict) else data)
        times: dict[str, float] = {}
        for event in events:
            if event.get("ph") == "X" and event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
                category = classify(event["name"])
                times[category] = times.get(category, 0.0) + float(event["dur"])
        if times:
            checked += 1
            assert times.get("other", 0.0) < 0.03 * sum(times.values()), path.name
    assert checked > 10
