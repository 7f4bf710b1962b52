"""Python frames: whose they are and how much they say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from infer_forge.engines import sources
from infer_forge.engines.sources import frame_rank, guess_framework


def test_model_code_wins_over_engine_plumbing_and_torch() -> None:
    model = frame_rank("python/sglang/srt/models/qwen3_moe.py(210): forward")
    engine = frame_rank("/sgl-workspace/sglang/python/sglang/srt/model_executor/model_runner.py(2100): forward")
    plumbing = frame_rank("python/sglang/srt/managers/scheduler.py(900): event_loop_overlap")
    torch = frame_rank("/usr/local/lib/python3.12/dist-packages/torch/nn/modules/linear.py(134): forward")
    noise = frame_rank("torch/nn/modules/module.py(1773): _wrapped_call_impl")
    assert model == engine == sources.ENGINE, "of the two the innermost wins"
    assert engine > plumbing > torch > noise


def test_thin_wrappers_give_way_to_the_layer_that_calls_them() -> None:
    wrapper = frame_rank("vllm/_custom_ops.py(334): fused_add_rms_norm")
    assert wrapper < frame_rank("vllm/model_executor/layers/layernorm.py(35): fused_add_rms_norm")


def test_every_framework_and_library_is_known_by_its_path() -> None:
    assert frame_rank("vllm/model_executor/layers/fused_moe/layer.py(1650): forward_impl") == sources.ENGINE
    assert frame_rank("/app/tensorrt_llm/_torch/modules/fused_moe/fused_moe_cutlass.py(90): forward") == sources.ENGINE
    assert frame_rank("/x/python/tokenspeed/runtime/layers/attention/mha.py(3): forward") == sources.ENGINE
    assert frame_rank("transformers/models/owlv2/modeling_owlv2.py(310): forward") == sources.ENGINE
    assert frame_rank("/venv/lib/python3.12/site-packages/flashinfer/prefill.py(10): run") == sources.LIBRARY
    assert frame_rank("/home/me/train.py(12): step") == sources.USER


def test_frames_without_a_place_are_noise() -> None:
    for name in (
        "<built-in method linear of type object at 0x7f>",
        "nn.Module: Linear_3",
        "<frozen os>(1): x",
        "typing.py(3): cast",
    ):
        assert frame_rank(name) == sources.NOISE


def test_a_folder_that_only_contains_the_name_is_not_the_framework() -> None:
    assert sources.framework_of("/home/me/my-vllm/train.py") is None
    assert sources.framework_of("/home/me/novllm/x.py") is None


def test_the_framework_is_guessed_from_paths_before_annotations() -> None:
    assert guess_framework(["vllm/v1/worker/gpu_worker.py(3): x", "vllm/utils.py(1): y", "ProfilerStep#1"]) == "vllm"
    assert guess_framework(["step[DECODE bs=16]"]) == "sglang"
    assert guess_framework(["transformers/models/bert/modeling_bert.py(2): forward"]) == "transformers"
    assert guess_framework(["aten::mm", "nccl:all_reduce"]) is None


@given(
    st.lists(
        st.sampled_from(["sglang/srt/", "(", "9" * 5000, "²", "): ", "<", "vllm/", "\n", "nn.Module: "])
        | st.text(max_size=6)
    ).map("".join)
)
def test_no_frame_is_too_odd_to_be_ranked(name: str) -> None:
    assert frame_rank(name) in range(sources.NOISE, sources.ENGINE + 1)
