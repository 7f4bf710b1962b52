"""Workload, pilot, the two locks, and the search, driven against real processes (the fake engines)."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from infer_forge.base import contracts
from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault
from infer_forge.bench import baseline_lock, contract_lock, driver, pilot, search, search_config, workload
from infer_forge.bench.ledger_rows import RowStore
from infer_forge.bench.model import Row
from infer_forge.bench.run_layout import Layout, layout
from infer_forge.engines import lifecycle, runner
from tests.engines.fakes.launch import BIN, SITE, environment
from tests.engines.fakes.models import make_model

SHORT: dict[str, Any] = {
    "scenarios": [{"name": "chat", "input_len": 40, "output_len": 20, "num_prompts": 6, "concurrencies": [4]}]
}
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(SITE))
    monkeypatch.setenv("FAKE_BENCH", "mode=model")
    monkeypatch.delenv("FAKE_ENGINE", raising=False)


def raw_config(model: str = "fake/Model-8B", **changes: Any) -> dict[str, Any]:
    config: dict[str, Any] = {
        "schema": "infer-forge/search/1",
        "name": "two engines",
        "model": model,
        "precision": "bf16",
        "gpu": {"model": "H200", "count": 1},
        "client": "vllm bench serve",
        "grid": {
            "scenarios": [
                {"name": "chat", "input_len": 40, "output_len": 20, "num_prompts": 6, "concurrencies": [4]},
                {"name": "long", "input_len": 200, "output_len": 20, "num_prompts": 6},
            ]
        },
        "sla": {"min_success_rate": 1.0},
        "budget": {"runs": 3, "minutes": 5, "start_timeout_s": 20, "run_timeout_s": 20},
        "engines": [
            {"framework": "sglang", "base": {"prefix_cache": True}, "search": {"attention_backend": ["fa3"]}},
            {
                "framework": "vllm",
                "base": {"prefix_cache": True},
                "candidates": [{"name": "oom", "env": {"FAKE_ENGINE": "oom_start"}}],
                "search": {"max_running_requests": [64, 128]},
            },
        ],
    }
    return {**config, **changes}


def config_of(tmp: Path, **changes: Any) -> search_config.SearchConfig:
    return search_config.config_of(raw_config(str(make_model(tmp / "model")), **changes))


def locked(run: Path, config: search_config.SearchConfig, **changes: Any) -> str:
    workload.write_workload(config.grid, layout(run).workload)
    draft = search_config.draft_contract(config)
    draft["point"]["model"]["fingerprint"] = "f" * 64
    report = contract_lock.lock_contract(
        run, {**draft, **changes}, accepted_by="ann", reason="test of the search, not of the noise"
    )
    return str(report.extra["contract_sha256"])


def session_of(run: Path, config: search_config.SearchConfig, purpose: str = "search") -> driver.Session:
    place = layout(run)
    made = driver.Session(place, config, RowStore(place.rows), purpose, run_id="r1", grace_s=3)
    made.contract, made.contract_hash = contract_lock.read_contract(run)
    made.workload = workload.verify_workload(place.workload, expected_sha256=made.contract.grid.workload_sha256)
    made.client = driver.client_identity(config.client)
    return made


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
    report = contract_lock.lock_contract(tmp_path, {**draft, "threshold": 0.08})
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


# -------------------------------------------------------------------------------------------------------------- search


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, search_config.SearchConfig, list[driver.Launch]]:
    """A run that was searched (in two goes), measured again, and whose baseline is locked."""
    tmp = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
        patch.setenv("PYTHONPATH", str(SITE))
        patch.setenv("FAKE_BENCH", "mode=model")
        patch.setenv("INFER_FORGE_HOME", str(tmp / "home"))
        run, config = tmp / "run", config_of(tmp, grid=SHORT, budget=raw_config()["budget"] | {"runs": 2})
        locked(run, config)
        session = session_of(run, config)
        made = search.run_search(session, max_launches=1)
        made += search.run_search(session)
        assert search.run_search(session) == []
        with pytest.raises(GateRefused, match="measured again"):
            baseline_lock.lock_baseline(run)
        again = session_of(run, config, "decision")
        made += search.remeasure(again, search.finalists(again), 2)
        baseline_lock.lock_baseline(run)
        search.write_pages(session.layout, *contract_lock.read_contract(run))
    return run, config, made


Finished = tuple[Path, search_config.SearchConfig, list[driver.Launch]]


def test_a_search_keeps_failures_and_goes_on_where_it_stopped(finished: Finished) -> None:
    run, _, made = finished
    assert [(launch.candidate.framework, launch.status) for launch in made[:4]] == [
        ("sglang", "ok"), ("vllm", "ok"), ("sglang", "ok"), ("vllm", "oom"),
    ]  # fmt: skip
    store = RowStore(layout(run).rows)
    searched = store.rows(purposes=["search"])
    assert [r.status for r in searched] == ["ok", "ok", "ok", "oom"]
    assert {e["reason"] for e in store.events("not_run")} == {"the budget is used up"}
    assert [e for e in lifecycle.listed(layout(run).engines) if e.status == "healthy"] == []


def test_winners_are_launched_afresh_interleaved_and_then_locked_once(finished: Finished) -> None:
    run, config, made = finished
    assert [launch.candidate.framework for launch in made[4:]] == ["sglang", "vllm", "vllm", "sglang"]
    _, sha256 = contract_lock.read_contract(run)
    decided = RowStore(layout(run).rows).rows(contract_hash=sha256, purposes=["decision"])
    assert sorted((r.framework, r.block_position) for r in decided) == [
        ("sglang", 0),
        ("sglang", 3),
        ("vllm", 1),
        ("vllm", 2),
    ]
    assert len({r.block_id for r in decided}) == 1
    held = baseline_lock.read_baseline(run)
    assert held["contract_sha256"] == sha256
    assert sorted((w["framework"], w["launches"]) for w in held["winners"]) == [("sglang", 2), ("vllm", 2)]
    with pytest.raises(GateRefused, match="second lock"):
        baseline_lock.lock_baseline(run)
    with pytest.raises(GateRefused, match="baseline is locked"):
        search.run_search(session_of(run, config))
    assert "vllm serve" in layout(run).winners.read_text()
    assert layout(run).summary.exists()


def test_rows_carry_what_a_verdict_needs(finished: Finished) -> None:
    run, config, _ = finished
    _, sha256 = contract_lock.read_contract(run)
    row = RowStore(layout(run).rows).rows(purposes=["decision"], frameworks=["vllm"])[0]
    prompts = workload.read_workload(layout(run).workload).scenarios["chat"]
    assert row.contract_hash == sha256
    assert (row.workload.scenario, row.workload.dataset_sha256, row.workload.prompts_unique) == (
        "chat",
        prompts.sha256,
        True,
    )
    assert (row.workload.measured_input_tokens, row.workload.measured_output_tokens) == (6 * 40, 6 * 20)
    assert row.identity.served_model == config.model
    assert row.cache.prefix_cache_enabled is True
    assert row.spec_decode.enabled is False
    assert row.client.version == "0.25.1"
    assert row.server_command
    assert "--ignore-eos" in str(row.benchmark_command)
    assert row.host.hostname == os.uname().nodename
    assert row.gpu_before.foreign_processes is None, "no driver here: unknown, not none"


def copied(finished: Finished, run: Path, config: search_config.SearchConfig, **changes: Any) -> RowStore:
    """The finished run's rows and events under another contract."""
    sha256 = locked(run, config, **changes)
    source, store = RowStore(layout(finished[0]).rows), RowStore(layout(run).rows)
    for entry in source.ledger.entries():
        body = entry.body | ({"contract_hash": sha256} if "contract_hash" in entry.body else {})
        if body.get("framework") == "vllm" and not config.engine("vllm").search and body.get("candidate") == "oom":
            continue
        store.ledger.append(entry.kind, body)
    return store


def test_a_tuned_target_against_a_default_competitor_cannot_be_locked(finished: Finished, tmp_path: Path) -> None:
    config = finished[1].model_copy(deep=True)
    config.engine("vllm").candidates, config.engine("vllm").search = [], {}
    copied(finished, tmp_path, config)
    with pytest.raises(GateRefused, match="vllm has only its default candidate"):
        baseline_lock.lock_baseline(tmp_path)


def test_an_accuracy_floor_must_be_shown_for_every_engine(finished: Finished, tmp_path: Path) -> None:
    copied(finished, tmp_path, finished[1], accuracy=[{"dataset": "gsm8k", "metric": "exact_match", "floor": 0.8}])
    with pytest.raises(GateRefused, match="sglang has no gsm8k accuracy"):
        baseline_lock.lock_baseline(tmp_path)
    evidence = tmp_path / "gsm8k.json"
    evidence.write_text("{}")
    baseline_lock.record_accuracy(tmp_path, "sglang", "gsm8k", 0.86, str(evidence))
    baseline_lock.record_accuracy(tmp_path, "vllm", "gsm8k", 0.7, str(evidence))
    with pytest.raises(GateRefused, match=r"vllm reaches 0\.7"):
        baseline_lock.lock_baseline(tmp_path)
    baseline_lock.record_accuracy(tmp_path, "vllm", "gsm8k", 0.85, str(evidence))
    assert baseline_lock.lock_baseline(tmp_path, dry_run=True).extra["locked_at"] is None


@pytest.mark.parametrize(
    ("fault", "status"),
    [("crash", "failed"), ("no_file", "failed"), ("truncated", "failed"), ("hang", "timeout"), ("fail_all", "failed")],
)
def test_a_load_generator_that_fails_leaves_a_row_with_the_reason(
    fault: str, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, config = tmp_path / "run", config_of(tmp_path, grid=SHORT)
    config.budget.run_timeout_s = 1.0 if fault == "hang" else 20
    locked(run, config)
    monkeypatch.setenv("FAKE_BENCH", f"mode=model {fault}")
    session = session_of(run, config)
    launch = driver.measure(session, search_config.candidates(config, "vllm")[0])
    assert [(r.status, bool(r.failure_reason)) for r in launch.rows] == [(status, True)]
    assert runner.family(lifecycle.listed(session.layout.engines)[0].proof) == []


def test_an_engine_that_dies_between_scenarios_leaves_a_row_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, config = tmp_path / "run", config_of(tmp_path)
    locked(run, config)
    session = session_of(run, config)
    candidate = search_config.candidates(config, "vllm")[0].model_copy(update={"env": {"FAKE_ENGINE": "crash_after=2"}})
    launch = driver.measure(session, candidate)
    assert [r.workload.scenario for r in launch.rows] == ["chat", "long"]
    assert launch.rows[1].status == "failed"
    assert launch.status == "failed"


def test_an_engine_that_is_not_installed_is_recorded_once_and_not_searched_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(tmp_path)
    config.engines[1].python = "python3"
    config.engines = [config.engines[1]]
    run = tmp_path / "run"
    draft_engines = search_config.draft_contract(config)
    assert draft_engines["target"] == "vllm"
    locked(run, config)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    made = search.run_search(session_of(run, config))
    assert len(made) == 1
    assert made[0].absent
    notes = {e["reason"] for e in RowStore(layout(run).rows).events("not_run")}
    assert all(n.startswith("the engine is not installed here") for n in notes)
    assert len(notes) == 1


def test_another_configuration_than_the_contract_s_is_refused(tmp_path: Path) -> None:
    run, config = tmp_path / "run", config_of(tmp_path)
    locked(run, config)
    contract, _ = contract_lock.read_contract(run)
    search.require_same(config, contract)
    changes: list[dict[str, Any]] = [
        {"seeds": [1, 2]},
        {"budget": {"runs": 9, "minutes": 5}},
        {"sla": {}},
        {"grid": {"scenarios": [{"name": "chat", "input_len": 41, "output_len": 20}]}},
    ]
    for change in changes:
        with pytest.raises(GateRefused, match="not the locked contract"):
            search.require_same(config_of(tmp_path, **change), contract)


def test_a_killed_search_leaves_no_server_behind_and_goes_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = config_of(tmp_path)
    sha256 = locked(run, config)
    raw = raw_config(config.model)
    raw["engines"][0]["env"] = {"FAKE_ENGINE": "slow_start=3"}
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(raw))
    argv = [
        sys.executable,
        "-m",
        "infer_forge.cli.main",
        "bench",
        "search",
        "--run",
        str(run),
        "--config",
        str(path),
        "--no-help-check",
    ]
    child = subprocess.Popen(
        argv, env=environment(bench="mode=model"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    engines = layout(run).engines
    end = time.monotonic() + 20
    while not list(engines.glob("*/engine.json")) and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.1)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    left = lifecycle.listed(engines)[0]
    assert runner.family(left.proof)
    session = session_of(run, config)
    assert search.spent(session.store, "sglang", sha256).runs == 1
    assert driver.orphans(session.layout, grace_s=3) == [left.id]
    assert runner.family(left.proof) == []
    todo = [p for p in search.plan(config, session.store, sha256) if p.state == search.TODO]
    assert todo[0].candidate.name == "base"
    assert len([p for p in todo if p.candidate.framework == "sglang"]) == 2, "the killed launch counts"
    assert session.store.ledger.verify().ok


def test_the_commands_run_from_workload_to_baseline(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    raw = raw_config(str(make_model(tmp_path / "model")))
    raw["grid"] = SHORT
    path.write_text(yaml.safe_dump(raw))
    run = tmp_path / "run"
    common = ["--run", str(run), "--config", str(path), "--format", "json"]

    def forge(*words: str) -> tuple[int, dict[str, Any], str]:
        done = subprocess.run(
            [sys.executable, "-m", "infer_forge.cli.main", "bench", *words], env=environment(bench="mode=model"), capture_output=True,
            text=True, timeout=100, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return done.returncode, (json.loads(done.stdout) if done.stdout.startswith("{") else {}), done.stderr

    assert forge("workload", *common)[0] == 0
    assert forge("search", *common, "--dry-run")[1]["summary"]
    assert forge("lock", *common, "--set", "point.model.revision=abc")[0] == 4, "no pilot yet"
    assert forge("lock", *common, "--accept-by", "agent", "--reason", "x")[0] == 6, "an acceptance needs a terminal"
    code, told, err = forge("pilot", *common, "--launches", "2", "--threshold", "0.3")
    assert code == 0, err
    assert told["verdict"] == "resolved"
    code, _, err = forge("lock", *common, "--set", "point.model.revision=abc", "--set", "threshold=0.3")
    assert code == 0, err
    code, told, err = forge("search", *common, "--max-launches", "1")
    assert code == 0, err
    assert told["tables"]["launches"]["rows"][0][2] == "ok"
    assert forge("lock", "--run", str(run), "--baseline")[0] == 4
    place: Layout = layout(run)
    assert (place.help / "vllm-server.txt").exists()
    row = RowStore(place.rows).rows(purposes=["search"])[0]
    assert row.identity.tokenizer_sha256
    assert row.hardware.driver_version == "580.65.06"
    assert set(row.validated_cli_flags.values()) == {"known"}
