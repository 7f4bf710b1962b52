"""Workload, search configurations, pilot and the contract lock."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base import contracts
from infer_forge.base.errors import ForgeError, GateRefused, InputUnusable, UsageFault
from infer_forge.bench import contract_lock, pilot, search_config, workload
from infer_forge.bench.ledger_rows import RowStore
from infer_forge.bench.model import Row
from infer_forge.bench.run_layout import layout
from tests.bench.runs import raw_config, use_fakes

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    use_fakes(monkeypatch)


# ------------------------------------------------------------------------------------------------------------ workload


def test_the_same_grid_gives_the_same_bytes_and_every_prompt_is_unique(tmp_path: Path) -> None:
    grid = contracts.grid_of([50, 300], [10, 5], num_prompts=12)
    one, two = workload.write_workload(grid, tmp_path / "a"), workload.write_workload(grid, tmp_path / "b")
    assert one.sha256 == two.sha256
    assert workload.write_workload(grid, tmp_path / "c", seed=2).sha256 != one.sha256
    rows = [json.loads(line) for line in (tmp_path / "a" / "in300_out5.jsonl").read_text().splitlines()]
    assert len({r["prompt"][:12] for r in rows}) == 12
    assert {len(r["prompt"]) for r in rows} == {1200}
    assert one.lengths_by == "characters"
    for view in ("vllm", "sglang", "aiperf"):
        assert (tmp_path / "a" / str(one.scenarios["in300_out5"].view(view, 0))).exists()


def test_every_load_of_a_scenario_has_prompts_of_its_own(tmp_path: Path) -> None:
    grid = contracts.grid_of([50], [10], num_prompts=4, concurrencies=[1, 8])
    made = workload.write_workload(grid, tmp_path, repeats=2).scenarios["in50_out10"]
    assert made.slots == 4
    texts = [(tmp_path / str(made.view("vllm", slot))).read_text().splitlines() for slot in range(4)]
    assert [len(t) for t in texts] == [4, 4, 4, 4]
    assert len({line for t in texts for line in t}) == 16
    assert made.view("vllm", 4) is None


def test_a_changed_prompt_file_or_view_is_refused(tmp_path: Path) -> None:
    grid = contracts.grid_of([50], [10], num_prompts=3)
    made = workload.write_workload(grid, tmp_path)
    assert workload.verify_workload(tmp_path, expected_sha256=made.sha256).sha256 == made.sha256
    for name in ("in50_out10.jsonl", "in50_out10.vllm.jsonl"):
        text = (tmp_path / name).read_text()
        (tmp_path / name).write_text(text.replace("river", "rivet", 1) + " ")
        with pytest.raises(GateRefused, match="changed"):
            workload.verify_workload(tmp_path)
        (tmp_path / name).write_text(text)
    with pytest.raises(GateRefused, match="another workload"):
        workload.write_workload(contracts.grid_of([60], [10]), tmp_path)
    with pytest.raises(GateRefused):
        workload.verify_workload(tmp_path, expected_sha256="0" * 64)


class WordTokenizer:
    """Every word is one token."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def encode(self, text: str) -> list[int]:
        return [self.ids.setdefault(word, len(self.ids)) for word in text.split(" ")]

    def decode(self, ids: list[int]) -> str:
        words = list(self.ids)
        return " ".join(words[i] for i in ids)


def test_lengths_are_exact_by_a_given_tokenizer(tmp_path: Path) -> None:
    made = workload.write_workload(contracts.grid_of([37], [10], num_prompts=5), tmp_path, tokenizer=WordTokenizer())
    assert made.lengths_by == "tokenizer"
    prompts = made.scenarios["in37_out10"]
    assert (prompts.input_len_min, prompts.input_len_max) == (37, 37)


# ------------------------------------------------------------------------------------------------- search configuration


def test_candidates_are_base_named_single_then_grid_without_doubles() -> None:
    raw = raw_config()
    raw["engines"][0] |= {
        "search": {"attention_backend": ["fa3", "flashinfer"], "--enable-metrics": [True]},
        "candidates": [{"name": "spec", "set": {"speculative_algorithm": "EAGLE"}}],
        "exclude": [{"attention_backend": "flashinfer", "--enable-metrics": True}],
    }
    made = search_config.candidates(search_config.config_of(raw), "sglang")
    assert [c.name for c in made] == [
        "base", "spec", "attention_backend=fa3", "attention_backend=flashinfer", "--enable-metrics=True",
        "attention_backend=fa3,--enable-metrics=True",
    ]  # fmt: skip
    assert len({c.id for c in made}) == 6
    assert made[4].command(search_config.config_of(raw), 7)[-1] == "--enable-metrics"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"client": "my-client"}, "load generator"),
        ({"engines": [{"framework": "lmdeploy"}]}, "no framework"),
        ({"engines": [{"framework": "vllm", "base": {"tpp": 2}}]}, "tpp"),
        ({"engines": [{"framework": "vllm"}, {"framework": "vllm"}]}, "twice"),
        ({"engines": [{"framework": "vllm", "search": {f"o{i}": [1, 2] for i in range(13)}}]}, "bounded"),
        ({"tp": 4}, "GPUs"),
        ({"grid": {"scenarios": []}}, "grid"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_a_wrong_configuration_names_its_fault(change: dict[str, Any], text: str) -> None:
    with pytest.raises((InputUnusable, UsageFault), match=text):
        search_config.config_of(raw_config(**change))


def test_every_ready_configuration_is_checked_by_the_same_code() -> None:
    found = sorted((ROOT / "references" / "search").glob("*.yaml"))
    assert len(found) >= 12
    for path in found:
        config = search_config.load_config(path)
        assert len(config.engines) >= 2, path
        for entry in config.engines:
            if entry.unsupported is None:
                assert len(search_config.candidates(config, entry.framework)) >= 2, (path, entry.framework)
        draft = contracts.contract_of(search_config.draft_contract(config))
        assert set(contract_lock.missing(draft)) <= {"point.model.revision|fingerprint", "client.version|sha256"}, path


def test_the_ready_configurations_are_what_their_table_gives() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "chores.search_configs", "--check"],
        cwd=ROOT / "scripts",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# --------------------------------------------------------------------------------------------------------------- pilot


def noisy(values: list[float], scenario: str = "chat") -> list[Row]:
    return [
        Row.model_validate(
            {
                "tool": "t",
                "launch_id": f"l{i}",
                "workload": {"scenario": scenario},
                "metrics": {"output_token_throughput_per_s": v},
            }
        )
        for i, v in enumerate(values)
    ]


def test_a_noise_of_one_percent_does_not_resolve_one_percent_in_twelve_launches() -> None:
    assert math.isclose(pilot.resolvable_at(0.01, 12), math.expm1(2.820 * 0.01 * math.sqrt(2 / 12)), rel_tol=1e-3)
    assert pilot.resolvable_at(0.01, 12) > 0.01
    assert pilot.resolvable_at(0.005, 12) < 0.01
    found = pilot.estimate_noise(
        noisy([100, 101.4, 98.6, 100, 101.4, 98.6]), metric="output_token_throughput", threshold=0.01, max_launches=12
    )
    assert not found.resolved
    assert found.proposed_threshold > 0.01
    quiet = pilot.estimate_noise(
        noisy([100, 100.1, 99.9, 100]), metric="output_token_throughput", threshold=0.01, max_launches=12
    )
    assert quiet.resolved
    assert (quiet.launches, quiet.proposed_threshold) == (5, 0.01)


def test_the_noisiest_scenario_decides_and_failed_runs_do_not_count() -> None:
    rows = noisy([100, 100, 100]) + noisy([100, 110, 90], "long")
    rows[0].status = "failed"
    found = pilot.estimate_noise(rows, metric="output_token_throughput", threshold=0.01, max_launches=12)
    assert found.worst.scenario == "long"
    assert next(n for n in found.noises if n.scenario == "chat").launches == 2
    with pytest.raises(InputUnusable, match="two good launches"):
        pilot.estimate_noise(noisy([1.0]), metric="output_token_throughput", threshold=0.01, max_launches=12)


# --------------------------------------------------------------------------------------------------------------- locks


def test_the_contract_lock_needs_a_pilot_a_whole_point_and_quiet_noise(tmp_path: Path) -> None:
    config = search_config.config_of(raw_config())
    draft = search_config.draft_contract(config)
    with pytest.raises(GateRefused, match=r"point\.model\.revision\|fingerprint"):
        contract_lock.lock_contract(tmp_path, draft)
    draft["point"]["model"]["revision"] = "abc"
    with pytest.raises(GateRefused, match="no pilot"):
        contract_lock.lock_contract(tmp_path, draft)
    store = RowStore(layout(tmp_path).pilot)
    rows = noisy([100, 103, 97, 100, 102])
    for row in rows:
        row.purpose = "pilot"
    store.add(rows)
    with pytest.raises(GateRefused, match="cannot be resolved"):
        contract_lock.lock_contract(tmp_path, draft)
    assert not layout(tmp_path).contract.exists()
    with pytest.raises(GateRefused, match=r"A103: a threshold of 8 % calls a tie .*: 2\.7 % is enough"):
        contract_lock.lock_contract(tmp_path, {**draft, "threshold": 0.08})
    stated = {
        "pilot": {"launches": 9, "noise_cv": 0.0, "resolvable_threshold": 0.08},
        "accepted": {"by": "ann", "at": "now", "reason": "r"},
    }
    with pytest.raises(GateRefused, match="2\\.7 % is enough"):
        contract_lock.lock_contract(tmp_path, {**draft, **stated, "threshold": 0.08})
    report = contract_lock.lock_contract(tmp_path, {**draft, "threshold": 0.027})
    held = contracts.contract_of(report.extra["contract"])
    assert held.pilot is not None
    assert held.pilot.rows_head == store.ledger.head()
    assert held.accepted is None


def test_a_person_may_accept_and_the_contract_says_who(tmp_path: Path) -> None:
    draft = search_config.draft_contract(search_config.config_of(raw_config()))
    draft["point"]["model"]["revision"] = "abc"
    with pytest.raises(UsageFault, match="reason"):
        contract_lock.lock_contract(tmp_path, draft, accepted_by="ann")
    report = contract_lock.lock_contract(tmp_path, draft, accepted_by="ann", reason="one box, no time")
    accepted = contracts.contract_of(report.extra["contract"]).accepted
    assert accepted is not None
    assert (accepted.by, accepted.reason) == ("ann", "one box, no time")
    with pytest.raises(GateRefused, match="second lock"):
        contract_lock.lock_contract(tmp_path, draft, accepted_by="ann", reason="again")


@pytest.mark.parametrize("early", ["row", "profile"])
def test_a_result_or_profile_before_the_contract_refuses_the_lock(early: str, tmp_path: Path) -> None:
    draft = search_config.draft_contract(search_config.config_of(raw_config()))
    draft["point"]["model"]["revision"] = "abc"
    if early == "row":
        RowStore(layout(tmp_path).rows).add(noisy([1.0]))
    else:
        (tmp_path / "profiles").mkdir()
        (tmp_path / "profiles" / "x-TP-0.trace.json.gz").write_bytes(b"")
    with pytest.raises(GateRefused, match="already"):
        contract_lock.lock_contract(tmp_path, draft, accepted_by="ann", reason="r")


def test_a_workload_that_is_not_the_contract_s_is_refused(tmp_path: Path) -> None:
    config = search_config.config_of(raw_config())
    draft = search_config.draft_contract(config)
    draft["point"]["model"]["revision"] = "abc"
    draft["grid"]["workload_sha256"] = "0" * 64
    with pytest.raises(GateRefused, match="not in the run directory"):
        contract_lock.lock_contract(tmp_path, draft, accepted_by="ann", reason="r")
    workload.write_workload(config.grid, layout(tmp_path).workload)
    with pytest.raises(GateRefused, match="is workload"):
        contract_lock.lock_contract(tmp_path, draft, accepted_by="ann", reason="r")


def test_the_tool_tells_what_a_lock_is_missing(tmp_path: Path) -> None:
    from infer_forge_mcp.tools.bench_locks import lock_contract

    path = tmp_path / "contract.json"
    path.write_text(json.dumps(search_config.draft_contract(search_config.config_of(raw_config()))))
    with pytest.raises(ForgeError, match=r"incomplete: point\.model\.revision"):
        lock_contract(run=str(tmp_path / "run"), contract=str(path))
