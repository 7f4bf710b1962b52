"""Evidence files fill what rows do not say and never overrule them; diffusion rows are paired by what was generated."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import UsageFault
from infer_forge.bench import evidence
from infer_forge.bench.fairness import diagnose
from infer_forge.bench.gap import decide_gap, gap_report, request_of
from infer_forge.bench.model import Row
from infer_forge.bench.rank import candidate_name, rank_report
from infer_forge.bench.read import import_file

ARGS = {
    "model_path": "org/model",
    "tp_size": 2,
    "dtype": "bfloat16",
    "kv_cache_dtype": "fp8_e5m2",
    "disable_radix_cache": True,
    "speculative_algorithm": None,
    "mem_fraction_static": 0.85,
}


def test_saved_server_arguments_fill_unknown_fields_only(sglang_file: Any, tmp_path: Path) -> None:
    (tmp_path / "args.json").write_text(json.dumps(ARGS))
    row = import_file(sglang_file("a.jsonl")).rows[0]
    row.identity.dtype = "float16"
    evidence.apply({"a": [row]}, [("args", f"a={tmp_path / 'args.json'}")])
    assert (row.identity.tensor_parallel, row.memory.kv_cache_dtype, row.cache.prefix_cache_enabled) == (
        2,
        "fp8_e5m2",
        False,
    )
    assert row.spec_decode.enabled is False
    assert row.identity.dtype == "float16"
    assert any("the row's word stands" in note for note in row.notes)
    assert str(row.artifacts.server_args).endswith("args.json")


def test_evidence_turns_unknown_diagnostics_into_answers(sglang_file: Any, tmp_path: Path) -> None:
    (tmp_path / "args.json").write_text(json.dumps(ARGS))
    sides = {n: [import_file(sglang_file(f"{n}.jsonl", r)).rows[0]] for n, r in (("a", 100.0), ("b", 101.0))}
    assert next(d for d in diagnose(sides) if d.id == "E3").result == "unknown"
    evidence.apply(sides, [("args", f"{n}={tmp_path / 'args.json'}") for n in sides])
    found = {d.id: d.result for d in diagnose(sides)}
    assert (found["E3"], found["E4"]) == ("pass", "pass")


@pytest.mark.parametrize("text", ["nobody=x.json", "a", "=x"])
def test_evidence_must_name_a_side(sglang_file: Any, text: str) -> None:
    with pytest.raises(UsageFault, match="SIDE=FILE"):
        evidence.apply({"a": [import_file(sglang_file("a.jsonl")).rows[0]]}, [("log", text)])


def dump(seconds: float, **meta: Any) -> dict[str, Any]:
    """A diffusion performance dump."""
    known = {
        "model": "org/video",
        "height": 480,
        "width": 832,
        "num_frames": 81,
        "guidance_scale": 5.0,
        "seed": 42,
        "warmup": True,
    }
    return {
        "request_id": "r",
        "total_duration_ms": 1000.0 * seconds,
        "steps": [{"name": "DenoisingStage", "duration_ms": 900.0 * seconds}],
        "denoise_steps_ms": [{"step": i, "duration_ms": 450.0 * seconds} for i in range(2)],
        "memory_checkpoints": {},
        "meta": {**known, **meta},
    }


@pytest.fixture
def generated(write_json: Callable[[str, Any], Path]) -> Callable[..., list[Row]]:
    """Rows of dumps: `generated("a", [1.0, 1.01], seed=1)`."""

    def make(name: str, seconds: list[float], **meta: Any) -> list[Row]:
        return [
            import_file(write_json(f"{name}{i}.json", {**dump(s, **meta), "request_id": f"{name}{i}"})).rows[0]
            for i, s in enumerate(seconds)
        ]

    return make


def test_diffusion_decides_by_end_to_end_time_in_each_workload(generated: Callable[..., list[Row]]) -> None:
    a = [*generated("a", [0.9, 0.91, 0.9, 0.91, 0.9]), *generated("aw", [2.0] * 5, width=1280)]
    b = [*generated("b", [1.0] * 5), *generated("bw", [2.0] * 5, width=1280)]
    table = gap_report(decide_gap(request_of({"a": a, "b": b}, "a"))).tables["gap"].dicts()
    assert [(r["scenario"], r["verdict"], r["metric"]) for r in table] == [
        ("org/video 832x480x81f 2 steps guidance 5 seed 42", "ahead", "end_to_end_ms"),
        ("org/video 1280x480x81f 2 steps guidance 5 seed 42", "tie", "end_to_end_ms"),
    ]


def test_diffusion_parity_asks_for_what_is_generated_and_for_step_caching(generated: Callable[..., list[Row]]) -> None:
    sides = {"a": generated("a", [1.0], enable_teacache=False), "b": generated("b", [1.0], enable_teacache=True)}
    found = {d.id: d for d in diagnose(sides)}
    assert found["E4"].result == "fail"
    assert found["E2"].result == found["E3"].result == "pass"
    assert "model_fingerprint" in found["E1"].evidence
    assert "tokenizer" not in found["E1"].evidence


def test_diffusion_candidates_are_named_by_how_they_ran(generated: Callable[..., list[Row]]) -> None:
    row = generated(
        "a", [1.0], sp_degree=2, enable_cfg_parallel=True, num_gpus=4, dit_cpu_offload=False, enable_torch_compile=True
    )[0]
    assert candidate_name(row) == "cfg2 sp2 gpus4 compiled"
    slow = generated("s", [2.0], sp_degree=1)[0]
    ranked = rank_report([slow, row]).tables["ranking"].dicts()
    assert [r["candidate"] for r in ranked] == ["cfg2 sp2 gpus4 compiled", "sp1"]
