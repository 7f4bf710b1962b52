"""Operator costs, rooflines and step floors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infer_forge import pipeline
from infer_forge.base.errors import InputUnusable
from infer_forge.base.kernels import gpu_peaks
from infer_forge.pipeline.cost import Cost, Load, Split, active_experts, layer_costs
from infer_forge.pipeline.flow import Row
from infer_forge.pipeline.model import Options
from infer_forge.pipeline.model_config import shape_of
from infer_forge.pipeline.roofline import _from_dims  # pyright: ignore[reportPrivateUsage]
from trace_gen import SPECS, config, generate

LLAMA: dict[str, Any] = {
    "num_hidden_layers": 2, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 14336, "vocab_size": 128256, "torch_dtype": "bfloat16", "model_type": "llama",
}  # fmt: skip
POINT = {"serving_topology": {"tp": 1}, "accelerator_platform": {"gpu_model": "H100-SXM"}}


def costs(load: Load, split: Split | None = None, **more: Any) -> dict[str, Cost]:
    shape = shape_of({**LLAMA, **more})
    return {c.operator: c for c in layer_costs(shape, shape.types[0], load, split or Split())}


def test_projections_have_two_operations_a_weight_and_token() -> None:
    found = costs(Load(64, 64, None, None))
    assert found["qkv projection"].flops == 2 * 64 * 4096 * (32 + 16) * 128
    assert found["qkv projection"].weight_bytes == 4096 * (32 + 16) * 128 * 2
    assert found["gate and up projection"].flops == 2 * 64 * 4096 * 2 * 14336


def test_attention_reads_every_cached_token_once_and_is_unknown_without_context() -> None:
    assert "attention" not in costs(Load(8, 8, None, None))
    found = costs(Load(8, 8, 8 * 1000.0, 8 * 1000.0))["attention"]
    assert found.flops == 4 * 8000 * 32 * 128
    assert found.kv_bytes == 2 * 8000 * 8 * 128 * 2


def test_tensor_parallelism_divides_weights_and_adds_two_all_reduces_a_layer() -> None:
    one, four = costs(Load(64, 64, None, None)), costs(Load(64, 64, None, None), Split(tp=4))
    assert four["o projection"].weight_bytes == one["o projection"].weight_bytes / 4
    assert four["attn all-reduce"].link_bytes == 2 * 3 / 4 * 64 * 4096 * 2
    assert "attn all-reduce" not in one


def test_few_tokens_touch_few_experts_and_many_touch_all() -> None:
    assert active_experts(128, 8, 1) == pytest.approx(8)
    assert active_experts(128, 8, 4096) == pytest.approx(128)
    moe: dict[str, Any] = {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768}
    few, many = costs(Load(1, 1, None, None), None, **moe), costs(Load(4096, 2, None, None), None, **moe)
    assert few["experts up"].weight_bytes == pytest.approx(8 * 4096 * 2 * 768 * 2)
    assert many["experts up"].weight_bytes == pytest.approx(128 * 4096 * 2 * 768 * 2)


def test_a_floor_is_the_longest_of_its_bounds_and_unknown_without_a_peak() -> None:
    peaks = gpu_peaks("H100-SXM")
    assert peaks is not None
    seconds, bound = Cost("gemm", "x", 989.4e12, 3350e9 / 2).floor_s(peaks)
    assert (seconds, bound) == (pytest.approx(1.0), "compute")
    assert Cost("gemm", "x", 1.0, 3350e9).floor_s(peaks) == (pytest.approx(1.0), "memory")
    assert Cost("gemm", "x", 1.0, 1.0).floor_s(peaks._replace(hbm_gb_s=None)) == (None, "unknown")


def _row(**more: Any) -> Row:
    base: dict[str, Any] = {
        "order": 0, "row": 0, "half": "attn", "category": "gemm", "kernel": "k", "name": "k", "dur_ns": 1000.0, "min_ns": 1, "max_ns": 1,
        "gap_ns": None, "share_pct": 1.0, "stream": 7, "rel_ns": 0, "op": "aten::mm", "dims": None, "dtypes": None, "source": None,
    }  # fmt: skip
    return Row(**{**base, **more})


@pytest.mark.parametrize(
    ("op", "dims", "flops"),
    [
        ("aten::mm", [[16, 4096], [4096, 1024]], 2 * 16 * 4096 * 1024),
        ("aten::addmm", [[1024], [16, 4096], [4096, 1024]], 2 * 16 * 4096 * 1024),
        ("aten::linear", [[2, 8, 4096], [1024, 4096], []], 2 * 16 * 4096 * 1024),
        ("aten::bmm", [[4, 16, 64], [4, 64, 32]], 2 * 4 * 16 * 64 * 32),
    ],
)
def test_recorded_dims_give_the_operations_of_a_product(op: str, dims: list[Any], flops: int) -> None:
    cost = _from_dims(_row(op=op, dims=json.dumps(dims), dtypes=json.dumps(["c10::BFloat16"] * 3)))
    assert cost is not None
    assert cost.flops == flops


@pytest.mark.parametrize(
    ("dims", "dtypes"),
    [
        ("[[16, 4], [5, 8]]", '["c10::BFloat16"]'),
        ("nonsense", "[]"),
        ("[[16, 4]]", "[]"),
        ("[[16,4],[4,8]]", '["quint"]'),
    ],
)
def test_dims_that_do_not_fit_stay_unknown(dims: str, dtypes: str) -> None:
    assert _from_dims(_row(dims=dims, dtypes=dtypes)) is None


def _files(folder: Path, **point: Any) -> tuple[Path, Path]:
    shape, where = folder / "config.json", folder / "point.json"
    shape.write_text(json.dumps(LLAMA))
    where.write_text(json.dumps({**POINT, **point}))
    return shape, where


def test_a_decode_floor_of_a_small_batch_is_the_time_to_read_the_weights(tmp_path: Path) -> None:
    shape, point = _files(tmp_path)
    report = pipeline.step_ceiling(shape, point, batch=1, input_len=16, output_len=16)
    decode = next(r for r in report.tables["steps"].dicts() if r["stage"] == "decode")
    weights = 2 * (4096 * 48 * 128 + 4096 * 4096 + 3 * 4096 * 14336) * 2 + 4096 * 128256 * 2
    assert decode["weights_gb"] == pytest.approx(weights / 1e9, rel=1e-3)
    assert decode["floor_ms"] == pytest.approx(weights / 3350e9 * 1e3, rel=0.02)
    assert decode["measured_ms"] is None


def test_the_headroom_of_a_trace_is_what_it_takes_beyond_the_floor(tmp_path: Path) -> None:
    spec = replace(SPECS["llama"], layers=8)
    files, _ = generate(spec, tmp_path / "t.json.gz", 109)
    shape, point = _files(tmp_path)
    shape.write_text(json.dumps({**LLAMA, **config(spec)}))
    report = pipeline.step_ceiling(shape, point, trace=files[0], cache=False)
    rows = [r for r in report.tables["families"].dicts() if r["measured_us"]]
    assert rows
    for row in rows:
        assert row["headroom_us"] == pytest.approx(row["measured_us"] - row["floor_us"], abs=0.01)
    assert {r["stage"] for r in report.tables["steps"].dicts() if r["measured_ms"]} == {"prefill", "decode"}


def test_a_floor_of_which_nothing_is_known_is_unknown_not_zero(tmp_path: Path) -> None:
    shape, point = _files(tmp_path)
    shape.write_text(json.dumps({"num_hidden_layers": 2}))
    report = pipeline.step_ceiling(shape, point)
    for row in report.tables["steps"].dicts():
        assert row["floor_ms"] is row["weights_gb"] is row["tflop"] is None
    assert all("unknown" in line for line in report.summary)
    assert "0.000 ms" not in report.render("text")


def test_a_trace_of_another_deployment_is_told_beside_what_was_measured_of_it(tmp_path: Path) -> None:
    spec = replace(SPECS["llama"], layers=8)
    files, _ = generate(spec, tmp_path / "t.json.gz", 109)
    shape, point = _files(tmp_path, accelerator_platform={"gpu_model": "MI300X"})
    shape.write_text(json.dumps({**LLAMA, **config(spec), "num_hidden_layers": 9}))
    told = [
        f for f in pipeline.step_ceiling(shape, point, trace=files[0], cache=False).findings if f.severity == "warning"
    ]
    assert {f.code for f in told} == {"OTHER_DEPLOYMENT"}
    assert any("MI300X" in f.message for f in told)
    assert any("8 layers" in f.message for f in told)
    assert all(f.next_step for f in told)


def test_a_trace_of_the_point_is_not_called_one_of_another(tmp_path: Path) -> None:
    spec = replace(SPECS["llama"], layers=8)
    files, _ = generate(spec, tmp_path / "t.json.gz", 109)
    shape, point = _files(tmp_path)
    shape.write_text(json.dumps({**LLAMA, **config(spec)}))
    report = pipeline.step_ceiling(shape, point, trace=files[0], cache=False)
    assert not [f for f in report.findings if f.code == "OTHER_DEPLOYMENT"]


@pytest.mark.parametrize(
    "more",
    [
        {"layer_types": ["mamba", "full_attention"]},
        {"layer_types": ["full_attention"]},
        {"compress_ratios": [0, 128], "q_lora_rank": 1024},
        {"hybrid_override_pattern": "M*"},
    ],
)
def test_a_mixer_that_no_formula_fits_has_no_cost_and_the_floor_is_said_to_be_incomplete(
    more: dict[str, Any], tmp_path: Path
) -> None:
    shape, point = _files(tmp_path)
    shape.write_text(json.dumps({**LLAMA, **more}))
    report = pipeline.step_ceiling(shape, point)
    assert {r["complete"] for r in report.tables["steps"].dicts()} == {
        "some operators are unknown: the true floor is higher"
    }
    per_layer = [r for r in report.tables["floors"].dicts() if r["operator"] in ("qkv projection", "attention")]
    assert all(r["layers"] == 1 for r in per_layer)


@pytest.mark.parametrize(
    "more",
    [
        {"kv_lora_rank": 512, "index_topk": 2048},
        {"num_experts": 8, "top_k_experts": 2, "enable_moe_block": True},
    ],
)
def test_an_operator_that_only_a_key_of_the_config_shows_makes_the_floor_incomplete(
    more: dict[str, Any], tmp_path: Path
) -> None:
    shape, point = _files(tmp_path)
    shape.write_text(json.dumps({**LLAMA, **more}))
    steps = pipeline.step_ceiling(shape, point).tables["steps"].dicts()
    assert {r["complete"] for r in steps} == {"some operators are unknown: the true floor is higher"}


def test_full_attention_has_its_own_heads_where_the_config_says_so(tmp_path: Path) -> None:
    kinds = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 1024}
    shape = shape_of({**LLAMA, **kinds, "global_head_dim": 256, "num_global_key_value_heads": 2})
    load = Load(1, 1, 1000.0, 1000.0)
    sliding, full = ({c.operator: c for c in layer_costs(shape, kind, load, Split())} for kind in shape.types)
    assert sliding["kv store"].kv_bytes == 2 * 8 * 128 * 2
    assert full["kv store"].kv_bytes == 2 * 2 * 256 * 2


def test_a_layer_that_is_an_ffn_alone_has_no_mixer_and_one_norm_and_one_all_reduce(tmp_path: Path) -> None:
    shape, point = _files(tmp_path, serving_topology={"tp": 2})
    shape.write_text(json.dumps({**LLAMA, "hybrid_override_pattern": "*-"}))
    report = pipeline.step_ceiling(shape, point)
    floors = {r["operator"]: r["layers"] for r in report.tables["floors"].dicts() if r["stage"] == "decode"}
    assert {floors[k] for k in ("qkv projection", "down projection", "input norm", "post-attention norm")} == {1}
    assert {floors[k] for k in ("attn all-reduce", "ffn all-reduce")} == {1}
    assert {r["complete"] for r in report.tables["steps"].dicts()} == {"every operator"}


@pytest.mark.parametrize("text", ["", "hi"])
def test_a_point_that_is_no_json_says_what_to_do(tmp_path: Path, text: str) -> None:
    shape, point = _files(tmp_path)
    point.write_text(text)
    with pytest.raises(InputUnusable, match="JSON") as caught:
        pipeline.step_ceiling(shape, point)
    assert caught.value.next_step


def test_a_point_without_a_known_gpu_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    shape, point = _files(tmp_path, accelerator_platform={"gpu_model": "Abacus 9000"})
    with pytest.raises(InputUnusable, match="Abacus") as caught:
        pipeline.step_ceiling(shape, point)
    assert "H100-SXM" in str(caught.value.next_step)


def test_the_report_states_how_much_of_the_flow_has_a_roofline_figure(tmp_path: Path) -> None:
    spec = SPECS["vllm_detailed"]
    files, _ = generate(spec, tmp_path / "t.json.gz", 110)
    shape = tmp_path / "config.json"
    shape.write_text(json.dumps({**LLAMA, **config(spec)}))
    options = Options(config=shape, no_triage=True, cache=False, keep=False, stage="prefill")
    report = pipeline.analyse_pipeline([files[0]], options)
    cover = report.header.coverage["roofline"]["prefill"]
    assert cover["device_time_pct"] > 80
    attention = [r for r in report.tables["flow"].dicts() if r["category"] == "attention"]
    assert all(r["roofline_pct"] is not None for r in attention)
