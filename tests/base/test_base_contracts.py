"""Deployment points and locks: what is missing, what differs, one hash for equal content, one lock."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_forge.base import contracts
from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault


def whole_point(**changes: Any) -> dict[str, Any]:
    point: dict[str, Any] = {
        "model": {
            "id": "Qwen/Qwen3-8B",
            "revision": "0123abc",
            "tokenizer": "Qwen/Qwen3-8B",
            "precision": "bf16",
            "quantization": "none",
        },
        "serving_scenario": {"modality": "text", "traffic_shape": "chat", "slo": {"max_p99_ttft_ms": 500}},
        "serving_topology": {"architecture": "colocated_pd", "tp": 1, "pp": 1, "dp": 1, "ep": 1},
        "runtime_profile": {
            "framework": "sglang",
            "version": "0.5.23",
            "image_digest": "sha256:aa",
            "engine_config": {"attention_backend": "fa3"},
        },
        "accelerator_platform": {"gpu_model": "H200", "gpu_count": 1},
    }
    for dotted, value in changes.items():
        layer, field = dotted.split("__")
        point[layer][field] = value
    return point


def test_a_whole_point_misses_nothing() -> None:
    assert contracts.missing(whole_point()) == []
    contracts.require_complete(contracts.point_of(whole_point()))


@pytest.mark.parametrize("layer", contracts.LAYERS)
def test_a_point_without_a_layer_is_refused_with_its_fields(layer: str) -> None:
    point = whole_point()
    del point[layer]
    lacking = contracts.missing(point)
    assert lacking
    assert all(name.startswith(f"{layer}.") for name in lacking)
    with pytest.raises(GateRefused, match=layer):
        contracts.require_complete(point)


def test_an_empty_engine_configuration_is_a_statement_and_an_absent_one_is_not() -> None:
    assert contracts.missing(whole_point(runtime_profile__engine_config={})) == []
    assert contracts.missing(whole_point(runtime_profile__engine_config=None)) == ["runtime_profile.engine_config"]


def test_one_of_two_identities_is_enough() -> None:
    assert contracts.missing(whole_point(model__revision=None)) == ["model.revision|fingerprint"]
    assert contracts.missing(whole_point(model__revision=None, model__fingerprint="ff")) == []


def test_what_varies_need_not_be_stated_by_the_contract() -> None:
    point = whole_point()
    point["runtime_profile"] = {}
    assert contracts.missing(point, varying=["runtime_profile"]) == []


def test_an_unknown_field_or_architecture_is_named() -> None:
    with pytest.raises(InputUnusable, match=r"model\.idd"):
        contracts.point_of({"model": {"idd": "x"}})
    with pytest.raises(InputUnusable, match=r"serving_topology\.architecture"):
        contracts.point_of({"serving_topology": {"architecture": "monolith"}})


def test_the_differing_fields_are_named_and_a_varied_layer_is_marked() -> None:
    left = whole_point()
    right = whole_point(model__precision="fp8", runtime_profile__framework="vllm", model__tokenizer=None)
    found = {d.field: (d.state, d.varied) for d in contracts.differences(left, right, varying=["runtime_profile"])}
    assert found == {
        "model.precision": ("differs", False),
        "model.tokenizer": ("unknown", False),
        "runtime_profile.framework": ("differs", True),
    }


def test_a_field_name_that_begins_like_a_varied_one_is_not_varied() -> None:
    left, right = {"runtime_profile2": {"a": 1}}, {"runtime_profile2": {"a": 2}}
    assert not contracts.differences(left, right, varying=["runtime_profile"])[0].varied


def test_equal_content_has_one_hash_however_it_is_written() -> None:
    a = {"x": 1, "y": {"b": 0.01, "a": None}, "z": [1, 2]}
    b = {"z": [1.0, 2], "y": {"b": 1e-2}, "x": 1.0}
    assert contracts.contract_sha256(a) == contracts.contract_sha256(b)
    assert contracts.contract_sha256(a) != contracts.contract_sha256({**a, "x": 2})


def test_what_has_no_canonical_form_is_refused() -> None:
    with pytest.raises(UsageFault):
        contracts.contract_sha256({"x": float("nan")})
    with pytest.raises(UsageFault):
        contracts.contract_sha256({1: "x"})


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_the_hash_survives_being_written_and_read(value: dict[str, Any]) -> None:
    assert contracts.contract_sha256(json.loads(json.dumps(value))) == contracts.contract_sha256(value)
    assert contracts.differences(value, json.loads(json.dumps(value))) == []


def test_a_lock_is_set_once_and_a_second_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run" / "contract.json"
    lock = contracts.lock_once(path, "benchmark_contract", {"a": 1})
    assert contracts.read_lock(path, "benchmark_contract") == lock
    assert not path.stat().st_mode & 0o222
    for content in ({"a": 1}, {"a": 2}):
        with pytest.raises(GateRefused, match="second lock"):
            contracts.lock_once(path, "benchmark_contract", content)
    assert contracts.read_lock(path).contract == {"a": 1}
    assert [p.name for p in path.parent.iterdir()] == ["contract.json"]


def test_of_two_that_race_for_a_lock_one_wins(tmp_path: Path) -> None:
    path = tmp_path / "contract.json"
    won: list[int] = []

    def lock(index: int) -> None:
        try:
            contracts.lock_once(path, "k", {"who": index})
            won.append(index)
        except GateRefused:
            pass

    threads = [threading.Thread(target=lock, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert contracts.read_lock(path).contract == {"who": won[0]}


def test_an_edited_lock_is_found_out(tmp_path: Path) -> None:
    path = tmp_path / "contract.json"
    contracts.lock_once(path, "k", {"threshold": 0.01})
    path.chmod(0o644)
    path.write_text(path.read_text().replace("0.01", "0.05"))
    with pytest.raises(InputUnusable, match="edited"):
        contracts.read_lock(path)
    with pytest.raises(GateRefused):
        contracts.lock_once(path, "k", {"threshold": 0.01})


def test_a_lock_of_another_kind_or_no_lock_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "contract.json"
    contracts.lock_once(path, "k", {})
    with pytest.raises(InputUnusable, match="kind"):
        contracts.read_lock(path, "other")
    for text in ("[]", "{}", '{"kind":"k","sha256":"x","locked_at":"t","contract":[]}'):
        other = tmp_path / "other.json"
        other.write_text(text)
        with pytest.raises(InputUnusable, match="no locked contract"):
            contracts.read_lock(other)


def test_lengths_are_aligned_pairs_never_a_product() -> None:
    grid = contracts.grid_of([100, 200], [10, 20])
    assert [(s.input_len, s.output_len) for s in grid.scenarios] == [(100, 10), (200, 20)]
    with pytest.raises(UsageFault, match="aligned pairs"):
        contracts.grid_of([100, 200], [10])


def test_the_default_grid_is_chat_and_summarization() -> None:
    pairs = {s.name: (s.input_len, s.output_len, s.num_prompts) for s in contracts.default_grid().scenarios}
    assert pairs == {"chat": (1000, 1000, 80), "summarization": (8000, 1000, 80)}


def test_a_contract_names_its_faulty_fields() -> None:
    with pytest.raises(InputUnusable, match="grid") as caught:
        contracts.contract_of({"name": "x", "point": {}, "sla": {}, "client": {}, "engines": []})
    assert "engines" in str(caught.value)


def test_a_target_that_is_not_compared_is_refused() -> None:
    data = {
        "name": "x",
        "point": {},
        "sla": {},
        "client": {},
        "grid": {"scenarios": [{"name": "chat", "input_len": 1, "output_len": 1}]},
        "engines": [{"framework": "vllm", "max_runs": 1, "max_minutes": 1}],
    }
    with pytest.raises(InputUnusable, match="target sglang"):
        contracts.contract_of(data)
