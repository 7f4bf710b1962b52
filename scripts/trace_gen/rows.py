"""Kernel vocabularies: the rows that blocks are made of, under real kernel names.

Times are plausible means on a Hopper-class part, not measurements.
"""

from __future__ import annotations

Row = tuple[str, str, str, float, float]
"""name, CPU op, frame, microseconds in prefill, microseconds in decode."""

SRT = "python/sglang/srt/"
MODEL = {
    "llama": f"{SRT}models/llama.py",
    "qwen3": f"{SRT}models/qwen3.py",
    "moe": f"{SRT}models/qwen3_moe.py",
    "mla": f"{SRT}models/deepseek_v2.py",
    "v4": f"{SRT}models/deepseek_v4.py",
    "next": f"{SRT}models/qwen3_next.py",
    "oss": f"{SRT}models/gpt_oss.py",
}
LAYERS = f"{SRT}layers/"
VLLM_PATHS = {
    f"{SRT}models/": "vllm/model_executor/models/",
    f"{LAYERS}attention/": "vllm/v1/attention/backends/",
    f"{LAYERS}": "vllm/model_executor/layers/",
    f"{SRT}distributed/": "vllm/distributed/",
    f"{SRT}mem_cache/": "vllm/v1/attention/",
}
"""How the frames are spelt when the framework is vLLM."""

NORM: Row = (
    "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*, __nv_bfloat16*, __nv_bfloat16*, unsigned int, float)",
    "sgl_kernel::fused_add_rmsnorm",
    f"{LAYERS}layernorm.py(92): forward_cuda",
    28.0,
    2.4,
)
QK_NORM: Row = (
    "void (anonymous namespace)::fused_qknorm_warp<128l, true, __nv_bfloat16>((anonymous namespace)::QKNormParams)",
    "sglang::fused_inplace_qknorm",
    f"{LAYERS}layernorm.py(310): apply_qk_norm",
    12.0,
    1.9,
)
ROPE: Row = (
    "void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheEnhancedKernel<false, 128u, 8u, 16u, __nv_bfloat16, long>(__nv_bfloat16*)",
    "sgl_kernel::apply_rope_pos_ids_cos_sin_cache",
    f"{LAYERS}rotary_embedding.py(231): forward_cuda",
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
    f"{LAYERS}activation.py(67): forward_cuda",
    34.0,
    2.2,
)
FA3 = (
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
        f"{LAYERS}vocab_parallel_embedding.py(470): forward",
        9.0,
        2.0,
    ),
)
TAIL: tuple[Row, ...] = (
    (
        "void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*, __nv_bfloat16*, __nv_bfloat16*, unsigned int)",
        "sgl_kernel::rmsnorm",
        f"{LAYERS}layernorm.py(84): forward_cuda",
        6.0,
        2.0,
    ),
    (
        "nvjet_tst_64x8_64x16_4x1_v_bz_splitK_TNT",
        "aten::mm",
        f"{LAYERS}logits_processor.py(611): _get_logits",
        120.0,
        110.0,
    ),
    (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4>>(int)",
        "aten::argmax",
        f"{LAYERS}sampler.py(120): forward",
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
    name = FA3.format(tile=tile, local="true" if local else "false")
    return (
        name,
        "sgl_kernel::fwd",
        f"{LAYERS}attention/flashattention_backend.py(811): forward_extend",
        prefill_us,
        decode_us,
    )


def at(file: str, line: int, function: str = "forward") -> str:
    """A frame of a model file."""
    return f"{file}({line}): {function}"


Tagged = tuple[str, str, Row]
"""half, flags (`c` collective, `s` side stream, `f` free to change places), row."""
