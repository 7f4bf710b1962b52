"""The halves of layers of real model families, kernel by kernel.

Times are plausible means on a Hopper-class part, not measurements.
"""

from __future__ import annotations

from trace_gen.model import Spec
from trace_gen.rows import (
    ACT,
    CUSTOM_AR,
    FA3,
    LAYERS,
    MODEL,
    NCCL_AR,
    NORM,
    QK_NORM,
    ROPE,
    SRT,
    STORE,
    TAIL,
    Tagged,
    at,
    attention,
    gemm,
)


def all_reduce(spec: Spec) -> list[Tagged]:
    """The all-reduce behind a half, when there are several ranks."""
    if spec.ranks < 2:
        return []
    return [("", "c", CUSTOM_AR if spec.custom_allreduce else NCCL_AR)]


def attn_dense(spec: Spec, model: str, qk_norm: bool = False, local: bool = False) -> list[Tagged]:
    """Attention half of a dense or GQA model."""
    file = MODEL[model]
    rows: list[Tagged] = [("attn", "", NORM), ("attn", "", gemm("qkv", at(file, 187), 150.0, 12.0))]
    rows += [("attn", "f", QK_NORM)] if qk_norm else []
    rows += [("attn", "f", ROPE), ("attn", "f", STORE), ("attn", "", attention(local=local))]
    rows += [("attn", "", gemm("o", at(file, 193), 110.0, 9.0)), *all_reduce(spec)]
    return rows


def ffn_dense(spec: Spec, model: str) -> list[Tagged]:
    """Dense MLP half."""
    file = MODEL[model]
    return [
        ("ffn", "", NORM),
        ("ffn", "", gemm("up", at(file, 96), 420.0, 24.0)),
        ("ffn", "", ACT),
        ("ffn", "", gemm("down", at(file, 98), 230.0, 15.0)),
        *all_reduce(spec),
    ]


MOE_FILE = f"{LAYERS}moe/fused_moe_triton/fused_moe.py"


def ffn_moe(spec: Spec, model: str, shared: bool = False, hashed: bool = False) -> list[Tagged]:
    """MoE half with Triton experts; shared experts run on the side stream."""
    file = MODEL[model]
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
            ("ffn", "s", gemm("b", at(file, 240, "forward_shared"), 60.0, 6.0)),
            ("ffn", "s", ACT),
            ("ffn", "s", gemm("a", at(file, 242, "forward_shared"), 40.0, 5.0)),
        ]
    return [
        ("ffn", "", NORM),
        ("ffn", "", gemm("router", at(file, 152), 20.0, 4.0)),
        *side,
        ("ffn", "f", (topk, "sgl_kernel::topk_softmax", f"{LAYERS}moe/topk.py(300): forward_cuda", 18.0, 3.2)),
        (
            "ffn",
            "f",
            (
                "void moe_align_block_size_kernel<int>(int const*, int*, int*)",
                "sgl_kernel::moe_align_block_size",
                at(MOE_FILE, 210),
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
                at(MOE_FILE, 480, "invoke_fused_moe_kernel"),
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
                at(MOE_FILE, 520, "invoke_fused_moe_kernel"),
                280.0,
                24.0,
            ),
        ),
        ("ffn", "", ("_moe_sum_reduce_kernel", "sglang::moe_sum_reduce", at(MOE_FILE, 610), 26.0, 3.0)),
        *all_reduce(spec),
    ]


def attn_mla(spec: Spec, decode: bool) -> list[Tagged]:
    """MLA half of DeepSeek-V2/V3, absorbed."""
    file = MODEL["mla"]
    core = (
        "void flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64, 64, 8, cutlass::bfloat16_t, 512>, true>(int)"
        if decode
        else FA3.format(tile=192, local="false")
    )
    rows: list[Tagged] = [
        ("attn", "", NORM),
        (
            "attn",
            "",
            (
                "void fused_a_gemm_kernel<1, 2112, 7168>(__nv_bfloat16*)",
                "sgl_kernel::dsv3_fused_a_gemm",
                at(file, 1180, "forward_absorb_prepare"),
                90.0,
                8.0,
            ),
        ),
        ("attn", "f", TAIL[0]),
        ("attn", "f", TAIL[0]),
        ("attn", "", gemm("b", at(file, 1202, "forward_absorb_prepare"), 120.0, 9.0)),
        (
            "attn",
            "",
            (
                "nvjet_tst_64x64_64x8_1x2_h_bz_NNT",
                "aten::bmm",
                at(file, 1210, "forward_absorb_prepare"),
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
            (core, "sgl_kernel::fwd_mla", f"{LAYERS}attention/flashmla_backend.py(390): forward_decode", 260.0, 32.0),
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
                    f"{LAYERS}attention/flashmla_backend.py(390): forward_decode",
                    9.0,
                    5.0,
                ),
            )
        )
    rows += [
        (
            "attn",
            "",
            ("nvjet_tst_64x128_64x6_1x2_h_bz_NNT", "aten::bmm", at(file, 1260, "forward_absorb_core"), 55.0, 6.0),
        ),
        ("attn", "", gemm("o", at(file, 1270, "forward_absorb_core"), 140.0, 13.0)),
        *all_reduce(spec),
    ]
    return rows


def attn_v4(spec: Spec, ratio: int) -> list[Tagged]:
    """Attention half of DeepSeek-V4: hyper-connections, compressor, indexer for ratio 4."""
    file = MODEL["v4"]
    rows: list[Tagged] = [
        ("attn", "", ("mhc_pre_big_fuse_tilelang_kernel", "sglang::mhc_pre", at(file, 400), 30.0, 4.0)),
        ("attn", "", NORM),
        ("attn", "", gemm("a", at(file, 410), 80.0, 8.0)),
        ("attn", "", gemm("b", at(file, 418), 110.0, 9.0)),
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
                    at(file, 430, "compress"),
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
                    at(file, 440, "indexer"),
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
                    at(file, 446, "indexer"),
                    70.0,
                    7.5,
                ),
            ),
            (
                "attn",
                "",
                ("fast_topk_v2_transform_kernel", "sgl_kernel::fast_topk", at(file, 450, "indexer"), 28.0, 5.0),
            ),
        ]
    core = (
        "void sm90::decode::sparse_fp8::flash_mla_sparse_kernel<64>(int)"
        if ratio
        else "void flash_mla_dense_kernel<128>(int)"
    )
    rows += [
        ("attn", "", (core, "sgl_kernel::flash_mla", f"{LAYERS}attention/dsv4_backend.py(220): forward", 190.0, 26.0)),
        ("attn", "", gemm("o", at(file, 470), 120.0, 11.0)),
        *all_reduce(spec),
        ("attn", "", ("mhc_post_tilelang_kernel", "sglang::mhc_post", at(file, 480), 20.0, 3.0)),
    ]
    return rows


def ffn_v4(spec: Spec, hashed: bool) -> list[Tagged]:
    """MoE half of DeepSeek-V4; the first layers route by hash."""
    file = MODEL["v4"]
    return [
        ("ffn", "", ("mhc_pre_big_fuse_tilelang_kernel", "sglang::mhc_pre", at(file, 500), 30.0, 4.0)),
        *ffn_moe(spec, "v4", hashed=hashed),
        ("ffn", "", ("mhc_post_tilelang_kernel", "sglang::mhc_post", at(file, 520), 20.0, 3.0)),
    ]


def _delta_decode(gdn: str) -> list[Tagged]:
    """Convolution and gated delta rule of one token."""
    return [
        (
            "attn",
            "",
            (
                "_causal_conv1d_update_kernel",
                "sglang::causal_conv1d_update",
                f"{LAYERS}attention/mamba/causal_conv1d_triton.py(900): causal_conv1d_update",
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


def _delta_prefill(gdn: str) -> list[Tagged]:
    """Convolution and chunked gated delta rule of a prompt."""
    rows: list[Tagged] = [
        (
            "attn",
            "",
            (
                "_causal_conv1d_fwd_kernel",
                "sglang::causal_conv1d_fn",
                f"{LAYERS}attention/mamba/causal_conv1d_triton.py(400): causal_conv1d_fn",
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
    return rows


def attn_linear(spec: Spec, decode: bool) -> list[Tagged]:
    """Gated delta net half of Qwen3-Next."""
    file, gdn = MODEL["next"], f"{LAYERS}attention/fla/"
    rows: list[Tagged] = [
        ("attn", "", NORM),
        ("attn", "", gemm("qkv", at(file, 330, "_forward"), 160.0, 12.0)),
        ("attn", "", gemm("router", at(file, 331, "_forward"), 18.0, 4.0)),
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
    rows += _delta_decode(gdn) if decode else _delta_prefill(gdn)
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
        ("attn", "", gemm("o", at(file, 350, "_forward"), 110.0, 9.0)),
        *all_reduce(spec),
    ]
    return rows


def block_oss(spec: Spec, sliding: bool) -> list[Tagged]:
    """A layer of GPT-OSS with MXFP4 experts."""
    file = MODEL["oss"]
    ogs = "python/site-packages/triton_kernels/matmul_ogs.py(520): matmul_ogs"
    return [
        *attn_dense(spec, "oss", local=sliding),
        ("ffn", "", NORM),
        ("ffn", "", gemm("router", at(file, 140), 18.0, 4.0)),
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
        *all_reduce(spec),
    ]


FLUX = "diffusers/models/transformers/transformer_flux.py"


def block_flux(double: bool) -> list[Tagged]:
    """A block of FLUX.1; a double block runs both streams of tokens."""
    mod = "triton_red_fused_add_addmm_mul_native_layer_norm_split_unsqueeze_view_7"
    qkv = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64_cgasize1x2x1_execute_segment_k_off_kernel__5x_cublas"
    block = [
        ("attn", "", (mod, "aten::native_layer_norm", f"{FLUX}(180): forward", 12.0, 12.0)),
        ("attn", "", (qkv, "aten::addmm", f"{FLUX}(188): forward", 140.0, 140.0)),
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
                FA3.format(tile=128, local="false"),
                "aten::scaled_dot_product_attention",
                "diffusers/models/attention_processor.py(2400): __call__",
                310.0,
                310.0,
            ),
        ),
        ("attn", "", (qkv.replace("128x256", "128x128"), "aten::addmm", f"{FLUX}(199): forward", 90.0, 90.0)),
        ("ffn", "", (mod.replace("_7", "_12"), "aten::native_layer_norm", f"{FLUX}(205): forward", 12.0, 12.0)),
        ("ffn", "", (qkv.replace("128x256", "256x128"), "aten::addmm", f"{FLUX}(210): forward", 260.0, 260.0)),
        ("ffn", "", ("triton_poi_fused_addmm_gelu_view_24", "aten::gelu", f"{FLUX}(212): forward", 22.0, 22.0)),
        ("ffn", "", (qkv.replace("128x256", "192x128"), "aten::addmm", f"{FLUX}(214): forward", 240.0, 240.0)),
    ]
    return [*block[:2], *block[1:]] if double else block
