"""Kernel vocabularies and layer structure of real model families, under real kernel names.

A family is a function of (spec, stage) that yields the kernels of one forward pass in order. Times are plausible means on a
Hopper-class part, not measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trace_gen.model import Item, Spec

Row = tuple[str, str, str, float, float]
"""name, CPU op, frame, microseconds in prefill, microseconds in decode."""

SRT = "python/sglang/srt/"
_MODEL = {
    "llama": f"{SRT}models/llama.py",
    "qwen3": f"{SRT}models/qwen3.py",
    "moe": f"{SRT}models/qwen3_moe.py",
    "mla": f"{SRT}models/deepseek_v2.py",
    "v4": f"{SRT}models/deepseek_v4.py",
    "next": f"{SRT}models/qwen3_next.py",
    "oss": f"{SRT}models/gpt_oss.py",
}
_LAYERS = f"{SRT}layers/"
VLLM_PATHS = {
    f"{SRT}models/": "vllm/model_executor/models/",
    f"{_LAYERS}attention/": "vllm/v1/attention/backends/",
    f"{_LAYERS}": "vllm/model_executor/layers/",
    f"{SRT}distributed/": "vllm/distributed/",
    f"{SRT}mem_cache/": "vllm/v1/attention/",
}
"""How the frames are spelt when the framework is vLLM."""

NORM: Row = (
    "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*, __nv_bfloat16*, __nv_bfloat16*, unsigned int, float)",
    "sgl_kernel::fused_add_rmsnorm",
    f"{_LAYERS}layernorm.py(92): forward_cuda",
    28.0,
    2.4,
)
QK_NORM: Row = (
    "void (anonymous namespace)::fused_qknorm_warp<128l, true, __nv_bfloat16>((anonymous namespace)::QKNormParams)",
    "sglang::fused_inplace_qknorm",
    f"{_LAYERS}layernorm.py(310): apply_qk_norm",
    12.0,
    1.9,
)
ROPE: Row = (
    "void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheEnhancedKernel<false, 128u, 8u, 16u, __nv_bfloat16, long>(__nv_bfloat16*)",
    "sgl_kernel::apply_rope_pos_ids_cos_sin_cache",
    f"{_LAYERS}rotary_embedding.py(231): forward_cuda",
    15.0,
    2.1,
)
STORE: Row = (
    "void (anonymous namespace)::store_kvcache<1024l, 4, false, long>((anonymous namespace)::StoreKVCacheParams)",
    "sglang::store_cache",
    f"{SRT}mem_cache/memory_pool.py(640): set_kv_buffer",
    7.0,
    1.6,
)
ACT: Row = (
    "void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &silu<float>>(__nv_bfloat16*, __nv_bfloat16 const*, int)",
    "sgl_kernel::silu_and_mul",
    f"{_LAYERS}activation.py(67): forward_cuda",
    34.0,
    2.2,
)
_FA3 = (
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, cute::tuple<"
    "cute::C<1>, cute::C<1>, cute::C<1>>, cute::tuple<cute::C<{tile}>, cute::C<128>, cute::C<128>>, 128, cutlass::bfloat16_t, float, "
    "cutlass::arch::Sm90, true, {local}, false, true, true>>>>(flash::Params)"
)
NCCL_AR: Row = (
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "c10d::allreduce_",
    f"{SRT}distributed/parallel_state.py(540): all_reduce",
    95.0,
    9.0,
)
CUSTOM_AR: Row = (
    "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 8>(sglang::RankData*, sglang::RankSignals, sglang::Signal*, int, int)",
    "sgl_kernel::all_reduce",
    f"{SRT}distributed/device_communicators/custom_all_reduce.py(301): all_reduce",
    80.0,
    6.5,
)
HEAD: tuple[Row, ...] = (
    (
        "void at::native::(anonymous namespace)::indexSelectSmallIndex<c10::BFloat16, long, unsigned int, 2, 2, -2>(int)",
        "aten::embedding",
        f"{_LAYERS}vocab_parallel_embedding.py(470): forward",
        9.0,
        2.0,
    ),
)
TAIL: tuple[Row, ...] = (
    (
        "void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*, __nv_bfloat16*, __nv_bfloat16*, unsigned int)",
        "sgl_kernel::rmsnorm",
        f"{_LAYERS}layernorm.py(84): forward_cuda",
        6.0,
        2.0,
    ),
    (
        "nvjet_tst_64x8_64x16_4x1_v_bz_splitK_TNT",
        "aten::mm",
        f"{_LAYERS}logits_processor.py(611): _get_logits",
        120.0,
        110.0,
    ),
    (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4>>(int)",
        "aten::argmax",
        f"{_LAYERS}sampler.py(120): forward",
        14.0,
        13.0,
    ),
)


def gemm(what: str, frame: str, prefill_us: float, decode_us: float) -> Row:
    """A dense GEMM whose tile depends on its place, so that several names occur."""
    tiles = {
        "qkv": "192x128",
        "o": "128x128",
        "up": "256x128",
        "down": "128x256",
        "router": "64x32",
        "a": "128x64",
        "b": "160x128",
    }
    return (f"nvjet_tst_{tiles.get(what, '128x160')}_64x4_2x1_v_bz_coopA_TNN", "aten::mm", frame, prefill_us, decode_us)


def attention(tile: int = 128, local: bool = False, prefill_us: float = 210.0, decode_us: float = 11.0) -> Row:
    """FlashAttention 3."""
    name = _FA3.format(tile=tile, local="true" if local else "false")
    return (
        name,
        "sgl_kernel::fwd",
        f"{_LAYERS}attention/flashattention_backend.py(811): forward_extend",
        prefill_us,
        decode_us,
    )


def _linear(file: str, line: int, function: str = "forward") -> str:
    return f"{file}({line}): {function}"


Tagged = tuple[str, str, Row]
"""half, flags (`c` collective, `s` side stream, `f` free to change places), row."""


def _reduce(spec: Spec) -> list[Tagged]:
    if spec.ranks < 2:
        return []
    return [("", "c", CUSTOM_AR if spec.custom_allreduce else NCCL_AR)]


def _attn_dense(spec: Spec, model: str, qk_norm: bool = False, local: bool = False) -> list[Tagged]:
    file = _MODEL[model]
    rows: list[Tagged] = [("attn", "", NORM), ("attn", "", gemm("qkv", _linear(file, 187), 150.0, 12.0))]
    rows += [("attn", "f", QK_NORM)] if qk_norm else []
    rows += [("attn", "f", ROPE), ("attn", "f", STORE), ("attn", "", attention(local=local))]
    rows += [("attn", "", gemm("o", _linear(file, 193), 110.0, 9.0)), *_reduce(spec)]
    return rows


def _ffn_dense(spec: Spec, model: str) -> list[Tagged]:
    file = _MODEL[model]
    return [
        ("ffn", "", NORM),
        ("ffn", "", gemm("up", _linear(file, 96), 420.0, 24.0)),
        ("ffn", "", ACT),
        ("ffn", "", gemm("down", _linear(file, 98), 230.0, 15.0)),
        *_reduce(spec),
    ]


_MOE_FILE = f"{_LAYERS}moe/fused_moe_triton/fused_moe.py"


def _ffn_moe(spec: Spec, model: str, shared: bool = False, hashed: bool = False) -> list[Tagged]:
    file = _MODEL[model]
    topk = (
        "void sglang::hash_topk_route_kernel<8>(long const*, int*, float*)"
        if hashed
        else (
            "void topkGatingSoftmax<__nv_bfloat16, 4, 128, 4, 16, int>(__nv_bfloat16 const*, bool const*, float*, int, int*)"
        )
    )
    side: list[Tagged] = []
    if shared:
        side = [
            ("ffn", "s", gemm("b", _linear(file, 240, "forward_shared"), 60.0, 6.0)),
            ("ffn", "s", ACT),
            ("ffn", "s", gemm("a", _linear(file, 242, "forward_shared"), 40.0, 5.0)),
        ]
    return [
        ("ffn", "", NORM),
        ("ffn", "", gemm("router", _linear(file, 152), 20.0, 4.0)),
        *side,
        ("ffn", "f", (topk, "sgl_kernel::topk_softmax", f"{_LAYERS}moe/topk.py(300): forward_cuda", 18.0, 3.2)),
        (
            "ffn",
            "f",
            (
                "void moe_align_block_size_kernel<int>(int const*, int*, int*)",
                "sgl_kernel::moe_align_block_size",
                _linear(_MOE_FILE, 210),
                11.0,
                4.0,
            ),
        ),
        (
            "ffn",
            "",
            (
                "fused_moe_kernel",
                "sglang::inplace_fused_experts",
                _linear(_MOE_FILE, 480, "invoke_fused_moe_kernel"),
                510.0,
                40.0,
            ),
        ),
        ("ffn", "", ACT),
        (
            "ffn",
            "",
            (
                "fused_moe_kernel",
                "sglang::inplace_fused_experts",
                _linear(_MOE_FILE, 520, "invoke_fused_moe_kernel"),
                280.0,
                24.0,
            ),
        ),
        ("ffn", "", ("_moe_sum_reduce_kernel", "sglang::moe_sum_reduce", _linear(_MOE_FILE, 610), 26.0, 3.0)),
        *_reduce(spec),
    ]


def _attn_mla(spec: Spec, decode: bool) -> list[Tagged]:
    file = _MODEL["mla"]
    core = (
        "void flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64, 64, 8, cutlass::bfloat16_t, 512>, true, SharedStorageMLA>(int)"
        if decode
        else _FA3.format(tile=192, local="false")
    )
    rows: list[Tagged] = [
        ("attn", "", NORM),
        (
            "attn",
            "",
            (
                "void fused_a_gemm_kernel<1, 2112, 7168>(__nv_bfloat16*)",
                "sgl_kernel::dsv3_fused_a_gemm",
                _linear(file, 1180, "forward_absorb_prepare"),
                90.0,
                8.0,
            ),
        ),
        ("attn", "f", TAIL[0]),
        ("attn", "f", TAIL[0]),
        ("attn", "", gemm("b", _linear(file, 1202, "forward_absorb_prepare"), 120.0, 9.0)),
        (
            "attn",
            "",
            (
                "nvjet_tst_64x64_64x8_1x2_h_bz_NNT",
                "aten::bmm",
                _linear(file, 1210, "forward_absorb_prepare"),
                60.0,
                7.0,
            ),
        ),
        ("attn", "f", ROPE),
        (
            "attn",
            "f",
            (
                "set_mla_kv_buffer_kernel",
                "sglang::set_mla_kv_buffer",
                f"{SRT}mem_cache/memory_pool.py(1100): set_mla_kv_buffer",
                8.0,
                2.0,
            ),
        ),
        (
            "attn",
            "",
            (core, "sgl_kernel::fwd_mla", f"{_LAYERS}attention/flashmla_backend.py(390): forward_decode", 260.0, 32.0),
        ),
    ]
    if decode:
        rows.append(
            (
                "attn",
                "",
                (
                    "void flash_fwd_mla_combine_kernel<cutlass::bfloat16_t, 512, 32>(int)",
                    "sgl_kernel::fwd_mla",
                    f"{_LAYERS}attention/flashmla_backend.py(390): forward_decode",
                    9.0,
                    5.0,
                ),
            )
        )
    rows += [
        (
            "attn",
            "",
            ("nvjet_tst_64x128_64x6_1x2_h_bz_NNT", "aten::bmm", _linear(file, 1260, "forward_absorb_core"), 55.0, 6.0),
        ),
        ("attn", "", gemm("o", _linear(file, 1270, "forward_absorb_core"), 140.0, 13.0)),
        *_reduce(spec),
    ]
    return rows


def _attn_v4(spec: Spec, ratio: int) -> list[Tagged]:
    file = _MODEL["v4"]
    rows: list[Tagged] = [
        ("attn", "", ("mhc_pre_big_fuse_tilelang_kernel", "sglang::mhc_pre", _linear(file, 400), 30.0, 4.0)),
        ("attn", "", NORM),
        ("attn", "", gemm("a", _linear(file, 410), 80.0, 8.0)),
        ("attn", "", gemm("b", _linear(file, 418), 110.0, 9.0)),
        ("attn", "f", ROPE),
        (
            "attn",
            "f",
            (
                "set_mla_kv_buffer_kernel",
                "sglang::set_mla_kv_buffer",
                f"{SRT}mem_cache/memory_pool.py(1100): set_mla_kv_buffer",
                8.0,
                2.0,
            ),
        ),
    ]
    if ratio:
        rows.append(
            (
                "attn",
                "f",
                (
                    f"fused_compressor_kv_c{ratio}_kernel",
                    "sglang::compress_kv",
                    _linear(file, 430, "compress"),
                    22.0,
                    3.5,
                ),
            )
        )
    if ratio == 4:
        rows += [
            (
                "attn",
                "",
                (
                    "void fast_hadamard_transform_kernel<fast_hadamard_transform_kernel_traits<32, 7, c10::BFloat16>>(int)",
                    "sgl_kernel::hadamard",
                    _linear(file, 440, "indexer"),
                    9.0,
                    2.2,
                ),
            ),
            (
                "attn",
                "",
                (
                    "void deep_gemm::sm90_fp8_paged_mqa_logits<2u, 64u, 128u, 64u, true>(unsigned int)",
                    "deep_gemm::fp8_mqa_logits",
                    _linear(file, 446, "indexer"),
                    70.0,
                    7.5,
                ),
            ),
            (
                "attn",
                "",
                ("fast_topk_v2_transform_kernel", "sgl_kernel::fast_topk", _linear(file, 450, "indexer"), 28.0, 5.0),
            ),
        ]
    core = (
        "void sm90::decode::sparse_fp8::flash_mla_sparse_kernel<64>(int)"
        if ratio
        else "void flash_mla_dense_kernel<128>(int)"
    )
    rows += [
        ("attn", "", (core, "sgl_kernel::flash_mla", f"{_LAYERS}attention/dsv4_backend.py(220): forward", 190.0, 26.0)),
        ("attn", "", gemm("o", _linear(file, 470), 120.0, 11.0)),
        *_reduce(spec),
        ("attn", "", ("mhc_post_tilelang_kernel", "sglang::mhc_post", _linear(file, 480), 20.0, 3.0)),
    ]
    return rows


def _ffn_v4(spec: Spec, hashed: bool) -> list[Tagged]:
    file = _MODEL["v4"]
    return [
        ("ffn", "", ("mhc_pre_big_fuse_tilelang_kernel", "sglang::mhc_pre", _linear(file, 500), 30.0, 4.0)),
        *_ffn_moe(spec, "v4", hashed=hashed),
        ("ffn", "", ("mhc_post_tilelang_kernel", "sglang::mhc_post", _linear(file, 520), 20.0, 3.0)),
    ]


def _attn_linear(spec: Spec, decode: bool) -> list[Tagged]:
    file, gdn = _MODEL["next"], f"{_LAYERS}attention/fla/"
    rows: list[Tagged] = [
        ("attn", "", NORM),
        ("attn", "", gemm("qkv", _linear(file, 330, "_forward"), 160.0, 12.0)),
        ("attn", "", gemm("router", _linear(file, 331, "_forward"), 18.0, 4.0)),
        (
            "attn",
            "f",
            (
                "fused_gdn_gating_kernel",
                "sglang::fused_gdn_gating",
                f"{gdn}fused_gdn_gating.py(60): fused_gdn_gating",
                8.0,
                2.0,
            ),
        ),
    ]
    if decode:
        rows += [
            (
                "attn",
                "",
                (
                    "_causal_conv1d_update_kernel",
                    "sglang::causal_conv1d_update",
                    f"{_LAYERS}attention/mamba/causal_conv1d_triton.py(900): causal_conv1d_update",
                    0.0,
                    3.0,
                ),
            ),
            (
                "attn",
                "",
                (
                    "fused_sigmoid_gating_delta_rule_update_kernel",
                    "sglang::fused_sigmoid_gating",
                    f"{gdn}fused_sigmoid_gating_recurrent.py(210): update",
                    0.0,
                    14.0,
                ),
            ),
        ]
    else:
        rows += [
            (
                "attn",
                "",
                (
                    "_causal_conv1d_fwd_kernel",
                    "sglang::causal_conv1d_fn",
                    f"{_LAYERS}attention/mamba/causal_conv1d_triton.py(400): causal_conv1d_fn",
                    24.0,
                    0.0,
                ),
            )
        ]
        names = (
            "l2norm_fwd_kernel",
            "chunk_local_cumsum_scalar_kernel",
            "chunk_scaled_dot_kkt_fwd_kernel",
            "merge_16x16_to_64x64_inverse_kernel",
        )
        names += ("recompute_w_u_fwd_kernel", "chunk_gated_delta_rule_fwd_kernel_h_blockdim64", "chunk_fwd_kernel_o")
        rows += [
            (
                "attn",
                "",
                (
                    name,
                    "sglang::chunk_gated_delta_rule",
                    f"{gdn}chunk.py(120): chunk_gated_delta_rule_fwd",
                    30.0 + 9 * i,
                    0.0,
                ),
            )
            for i, name in enumerate(names)
        ]
    rows += [
        (
            "attn",
            "",
            (
                "_layer_norm_fwd_1pass_kernel",
                "sglang::rms_norm_gated",
                f"{gdn}layernorm_gated.py(150): forward",
                14.0,
                2.3,
            ),
        ),
        ("attn", "", gemm("o", _linear(file, 350, "_forward"), 110.0, 9.0)),
        *_reduce(spec),
    ]
    return rows


def _oss(spec: Spec, sliding: bool) -> list[Tagged]:
    file = _MODEL["oss"]
    ogs = "python/site-packages/triton_kernels/matmul_ogs.py(520): matmul_ogs"
    return [
        *_attn_dense(spec, "oss", local=sliding),
        ("ffn", "", NORM),
        ("ffn", "", gemm("router", _linear(file, 140), 18.0, 4.0)),
        (
            "ffn",
            "f",
            (
                "_topk_forward",
                "triton_kernels::topk",
                "python/site-packages/triton_kernels/topk.py(80): topk",
                14.0,
                3.0,
            ),
        ),
        (
            "ffn",
            "f",
            (
                "_combined_routing_compute",
                "triton_kernels::routing",
                "python/site-packages/triton_kernels/routing.py(300): routing",
                12.0,
                3.0,
            ),
        ),
        (
            "ffn",
            "",
            ("_matmul_ogs_NNT_bf16xbf16xmxfp4_128x256x128x1_swiglu", "triton_kernels::matmul_ogs", ogs, 460.0, 42.0),
        ),
        ("ffn", "", ("_matmul_ogs_NNT_bf16xbf16xmxfp4_128x256x128x1", "triton_kernels::matmul_ogs", ogs, 260.0, 26.0)),
        ("ffn", "", ("_finalize_matmul_scatter_bf16", "triton_kernels::matmul_ogs", ogs, 20.0, 4.0)),
        *_reduce(spec),
    ]


_FLUX = "diffusers/models/transformers/transformer_flux.py"


def _flux(double: bool) -> list[Tagged]:
    mod = "triton_red_fused_add_addmm_mul_native_layer_norm_split_unsqueeze_view_7"
    qkv = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64_cgasize1x2x1_execute_segment_k_off_kernel__5x_cublas"
    block = [
        ("attn", "", (mod, "aten::native_layer_norm", f"{_FLUX}(180): forward", 12.0, 12.0)),
        ("attn", "", (qkv, "aten::addmm", f"{_FLUX}(188): forward", 140.0, 140.0)),
        (
            "attn",
            "f",
            (
                "triton_poi_fused__to_copy_cat_cos_mul_sin_stack_11",
                "aten::mul",
                "diffusers/models/embeddings.py(1210): apply_rotary_emb",
                16.0,
                16.0,
            ),
        ),
        (
            "attn",
            "",
            (
                _FA3.format(tile=128, local="false"),
                "aten::scaled_dot_product_attention",
                "diffusers/models/attention_processor.py(2400): __call__",
                310.0,
                310.0,
            ),
        ),
        ("attn", "", (qkv.replace("128x256", "128x128"), "aten::addmm", f"{_FLUX}(199): forward", 90.0, 90.0)),
        ("ffn", "", (mod.replace("_7", "_12"), "aten::native_layer_norm", f"{_FLUX}(205): forward", 12.0, 12.0)),
        ("ffn", "", (qkv.replace("128x256", "256x128"), "aten::addmm", f"{_FLUX}(210): forward", 260.0, 260.0)),
        ("ffn", "", ("triton_poi_fused_addmm_gelu_view_24", "aten::gelu", f"{_FLUX}(212): forward", 22.0, 22.0)),
        ("ffn", "", (qkv.replace("128x256", "192x128"), "aten::addmm", f"{_FLUX}(214): forward", 240.0, 240.0)),
    ]
    return [*block[:2], *block[1:]] if double else block


def _layer(spec: Spec, decode: bool, number: int) -> tuple[str, list[Tagged]]:
    """Kind and kernels of one layer."""
    family = spec.family
    if family in ("llama", "qwen3"):
        return "dense", [*_attn_dense(spec, family, qk_norm=family == "qwen3"), *_ffn_dense(spec, family)]
    if family == "qwen3_moe":
        return "moe", [*_attn_dense(spec, "moe", qk_norm=True), *_ffn_moe(spec, "moe")]
    if family == "deepseek_v3":
        dense = number < spec.first_k_dense
        ffn = _ffn_dense(spec, "llama") if dense else _ffn_moe(spec, "mla", shared=True)
        return "dense" if dense else "moe", [*_attn_mla(spec, decode), *ffn]
    if family == "deepseek_v4":
        ratios = spec.compress_ratios or (0,)
        ratio, hashed = ratios[number % len(ratios)], number < spec.hash_layers
        kind = ("hash_" if hashed else "") + (f"c{ratio}" if ratio else "full")
        return kind, [*_attn_v4(spec, ratio), *_ffn_v4(spec, hashed)]
    if family == "qwen3_next":
        full = number % 4 == 3
        attn = _attn_dense(spec, "next", qk_norm=True) if full else _attn_linear(spec, decode)
        return "full" if full else "linear", [*attn, *_ffn_moe(spec, "next", shared=True)]
    if family == "gpt_oss":
        sliding = number % 2 == 0
        return "sliding" if sliding else "full", _oss(spec, sliding)
    if family == "flux":
        double = number < spec.layers // 3
        return "double" if double else "single", _flux(double)
    raise ValueError(f"no such family: {family}; known: {', '.join(FAMILIES)}")


FAMILIES = ("llama", "qwen3", "qwen3_moe", "deepseek_v3", "deepseek_v4", "qwen3_next", "gpt_oss", "flux")
"""Names that `Spec.family` takes."""

_AMD_NAMES = {
    "nvjet": "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT{tile}x64_MI16x16x1_SN_LDSB1",
    "FusedAddRMSNorm": "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi8ELb0EEEvPT0_",
    "RMSNormKernel": "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassIvEEEEJNS1_5KargsEEEEvDpT1_",
    "FlashAttnFwdSm90": "void paged_attention_ll4mi_QKV_mfma16_kernel<__hip_bfloat16, __hip_bfloat16, 16, 128, 256, false, 4>(int)",
    "ncclDevKernel": "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
    "cross_device": "void aiter::cross_device_reduce_1stage<__hip_bfloat16, 8>(aiter::RankData*)",
    "act_and_mul": "_ZN5aiter18act_and_mul_kernelIDF16bXadL_ZNS_11silu_kernelIDF16bEET_RKS2_EEEEvPS2_",
}


def _amd(name: str) -> str:
    for piece, other in _AMD_NAMES.items():
        if piece in name:
            tile = name.split("_")[2] if piece == "nvjet" else ""
            return other.format(tile=tile) if tile else other
    return name


def _respell(spec: Spec) -> tuple[Callable[[str], str], Callable[[str], str]]:
    def frame(text: str) -> str:
        for old, new in VLLM_PATHS.items():
            if old in text:
                return text.replace(old, new)
        return text

    plain: Callable[[str], str] = lambda text: text  # noqa: E731
    return (_amd if spec.vendor == "amd" else plain), (frame if spec.framework == "vllm" else plain)


def forward(spec: Spec, stage: str) -> Iterator[Item]:
    """The kernels of one forward pass in launch order."""
    decode = stage == "decode"
    column = 4 if decode else 3
    name, frame = _respell(spec)

    def item(row: Row, part: str, layer: int | None = None, half: str = "", kind: str = "", flags: str = "") -> Item:
        free = "f" in flags
        return Item(
            name(row[0]),
            row[1],
            frame(row[2]),
            float(row[column]),
            part,
            layer,
            half,
            kind,
            "c" in flags,
            "s" in flags,
            free,
        )

    if spec.family != "flux":
        for row in HEAD:
            yield item(row, "head")
        if spec.ranks > 1:
            yield item(CUSTOM_AR if spec.custom_allreduce else NCCL_AR, "head", flags="c")
    total = spec.layers + spec.mtp
    for number in range(total):
        kind, rows = _layer(spec, decode, number)
        half = "attn"
        for own_half, flags, row in rows:
            half = own_half or half
            yield item(row, "layer", number, half, "mtp" if number >= spec.layers else kind, flags)
        if spec.mtp and number == spec.layers - 1:
            for row in TAIL:
                yield item(row, "tail")
    if spec.family != "flux" and not spec.mtp:
        for row in TAIL:
            yield item(row, "tail")


def config(spec: Spec) -> dict[str, object]:
    """A `config.json` of the model, with the keys that Hugging Face uses for its family."""
    base: dict[str, object] = {
        "num_hidden_layers": spec.layers,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "head_dim": 128,
        "torch_dtype": "bfloat16",
    }
    names = {
        "llama": ("LlamaForCausalLM", "llama"),
        "qwen3": ("Qwen3ForCausalLM", "qwen3"),
        "qwen3_moe": ("Qwen3MoeForCausalLM", "qwen3_moe"),
        "deepseek_v3": ("DeepseekV3ForCausalLM", "deepseek_v3"),
        "deepseek_v4": ("DeepseekV4ForCausalLM", "deepseek_v4"),
        "qwen3_next": ("Qwen3NextForCausalLM", "qwen3_next"),
        "gpt_oss": ("GptOssForCausalLM", "gpt_oss"),
        "flux": ("FluxTransformer2DModel", "flux"),
    }
    architecture, model_type = names[spec.family]
    base |= {"architectures": [architecture], "model_type": model_type}
    if spec.family == "qwen3_moe":
        base |= {"num_experts": 128, "num_experts_per_tok": 8}
    elif spec.family == "deepseek_v3":
        base |= {
            "n_routed_experts": 256,
            "num_experts_per_tok": 8,
            "n_shared_experts": 1,
            "first_k_dense_replace": spec.first_k_dense,
        }
        base |= {"kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "num_nextn_predict_layers": spec.mtp}
    elif spec.family == "deepseek_v4":
        ratios = spec.compress_ratios or (0,)
        base |= {
            "compress_ratios": [ratios[i % len(ratios)] for i in range(spec.layers)],
            "num_hash_layers": spec.hash_layers,
        }
        base |= {"n_routed_experts": 256, "num_experts_per_tok": 6, "num_nextn_predict_layers": spec.mtp}
    elif spec.family == "qwen3_next":
        base |= {"num_experts": 512, "num_experts_per_tok": 10, "full_attention_interval": 4}
        base |= {"layer_types": ["full_attention" if i % 4 == 3 else "linear_attention" for i in range(spec.layers)]}
    elif spec.family == "gpt_oss":
        base |= {"num_local_experts": 128, "num_experts_per_tok": 4, "sliding_window": 128}
        base |= {"layer_types": ["sliding_attention" if i % 2 == 0 else "full_attention" for i in range(spec.layers)]}
    elif spec.family == "flux":
        base |= {"num_layers": spec.layers // 3, "num_single_layers": spec.layers - spec.layers // 3}
    return base
