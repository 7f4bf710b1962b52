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
from infer_forge.bench.layout import Layout, layout
from infer_forge.bench.ledger_rows import RowStore
from infer_forge.bench.model import Row
from infer_forge.engines import lifecycle, runner
from tests.engines.fakes.launch import BIN, SITE, environment
from tests.engines.fakes.models import make_model

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
    report = contract_lock.lock(
        run, {**draft, **changes}, accepted_by="ann", reason="test of the search, not of the noise"
    )
    return str(report.extra["contract_sha256"])


def session_of(run: Path, config: search_config.SearchConfig, purpose: str = "search") -> driver.Session:
    place = layout(run)
    made = driver.Session(place, config, RowStore(place.rows), purpose, run_id="r1", grace_s=3)
    made.contract, made.contract_hash = contract_lock.read(run)
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
        assert (tmp_path / "a" / one.scenarios["in300_out5"].views[view]["file"]).exists()


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
    """Every word with its blank is one token."""

    def encode(self, text: str) -> list[int]:
        return [hash(w) & 0xFFFF for w in text.split(" ") if self.words.setdefault(hash(w) & 0xFFFF, w) is not None]

    def decode(self, ids: list[int]) -> str:
        return " ".join(self.words[i] for i in ids)

    def __init__(self) -> None:
        self.words: dict[int, str] = {}


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
    assert pilot.resolvable_at(0.01, 12) == pytest.approx(math.expm1(2.820 * 0.01 * math.sqrt(2 / 12)), rel=1e-3)
    assert pilot.resolvable_at(0.01, 12) > 0.01
    assert pilot.resolvable_at(0.005, 12) < 0.01
    found = pilot.estimate(
        noisy([100, 101.4, 98.6, 100, 101.4, 98.6]), metric="output_token_throughput", threshold=0.01, max_launches=12
    )
    assert not found.resolved
    assert found.proposed_threshold > 0.01
    quiet = pilot.estimate(
        noisy([100, 100.1, 99.9, 100]), metric="output_token_throughput", threshold=0.01, max_launches=12
    )
    assert quiet.resolved
    assert (quiet.launches, quiet.proposed_threshold) == (5, 0.01)


def test_the_noisiest_scenario_decides_and_failed_runs_do_not_count() -> None:
    rows = noisy([100, 100, 100]) + noisy([100, 110, 90], "long")
    rows[0].status = "failed"
    found = pilot.estimate(rows, metric="output_token_throughput", threshold=0.01, max_launches=12)
    assert found.worst.scenario == "long"
    assert next(n for n in found.noises if n.scenario == "chat").launches == 2
    with pytest.raises(InputUnusable, match="two good launches"):
        pilot.estimate(noisy([1.0]), metric="output_token_throughput", threshold=0.01, max_launches=12)


# --------------------------------------------------------------------------------------------------------------- locks


def test_the_contract_lock_needs_a_pilot_a_whole_point_and_quiet_noise(tmp_path: Path) -> None:
    config = search_config.config_of(raw_config())
    draft = search_config.draft_contract(config)
    with pytest.raises(GateRefused, match=r"point\.model\.revision\|fingerprint"):
        contract_lock.lock(tmp_path, draft)
    draft["point"]["model"]["revision"] = "abc"
    with pytest.raises(GateRefused, match="no pilot"):
        contract_lock.lock(tmp_path, draft)
    store = RowStore(layout(tmp_path).pilot)
    rows = noisy([100, 103, 97, 100, 102])
    for row in rows:
        row.purpose = "pilot"
    store.add(rows)
    with pytest.raises(GateRefused, match="cannot be resolved"):
        contract_lock.lock(tmp_path, draft)
    assert not layout(tmp_path).contract.exists()
    report = contract_lock.lock(tmp_path, {**draft, "threshold": 0.08})
    held = contracts.contract_of(report.extra["contract"])
    assert held.pilot is not None
    assert held.pilot.rows_head == store.ledger.head()
    assert held.accepted is None


def test_a_person_may_accept_and_the_contract_says_who(tmp_path: Path) -> None:
    draft = search_config.draft_contract(search_config.config_of(raw_config()))
    draft["point"]["model"]["revision"] = "abc"
    with pytest.raises(UsageFault, match="reason"):
        contract_lock.lock(tmp_path, draft, accepted_by="ann")
    report = contract_lock.lock(tmp_path, draft, accepted_by="ann", reason="one box, no time")
    accepted = contracts.contract_of(report.extra["contract"]).accepted
    assert accepted is not None
    assert (accepted.by, accepted.reason) == ("ann", "one box, no time")
    with pytest.raises(GateRefused, match="second lock"):
        contract_lock.lock(tmp_path, draft, accepted_by="ann", reason="again")


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
        contract_lock.lock(tmp_path, draft, accepted_by="ann", reason="r")


def test_a_workload_that_is_not_the_contract_s_is_refused(tmp_path: Path) -> None:
    config = search_config.config_of(raw_config())
    draft = search_config.draft_contract(config)
    draft["point"]["model"]["revision"] = "abc"
    draft["grid"]["workload_sha256"] = "0" * 64
    with pytest.raises(GateRefused, match="not in the run directory"):
        contract_lock.lock(tmp_path, draft, accepted_by="ann", reason="r")
    workload.write_workload(config.grid, layout(tmp_path).workload)
    with pytest.raises(GateRefused, match="is workload"):
        contract_lock.lock(tmp_path, draft, accepted_by="ann", reason="r")


# -------------------------------------------------------------------------------------------------------------- search


def test_a_search_keeps_failures_goes_on_where_it_stopped_and_the_winners_decide(tmp_path: Path) -> None:
    run, config = tmp_path / "run", config_of(tmp_path)
    sha256 = locked(run, config)
    session = session_of(run, config)
    first = search.search(session, max_launches=1)
    assert [launch.candidate.name for launch in first] == ["base"]
    rest = search.search(session)
    assert [(launch.candidate.framework, launch.status) for launch in rest] == [
        ("vllm", "ok"), ("sglang", "ok"), ("vllm", "oom"), ("vllm", "ok"),
    ]  # fmt: skip
    assert search.search(session) == []
    rows = session.store.rows(contract_hash=sha256)
    assert len(rows) == 10
    assert {r.status for r in rows} == {"ok", "oom"}
    assert {r.purpose for r in rows} == {"search"}
    left_out = session.store.events("not_run")
    assert {e["reason"] for e in left_out} == {"the budget is used up"}
    with pytest.raises(GateRefused, match="measured again"):
        baseline_lock.lock(run)
    again = session_of(run, config, "decision")
    made = search.remeasure(again, search.finalists(again), 2)
    assert [launch.candidate.framework for launch in made] == ["sglang", "vllm", "vllm", "sglang"]
    decided = session.store.rows(contract_hash=sha256, purposes=["decision"])
    assert sorted({(r.framework, r.block_position) for r in decided}, key=str) == [
        ("sglang", 0), ("sglang", 3), ("vllm", 1), ("vllm", 2),
    ]  # fmt: skip
    report = baseline_lock.lock(run)
    assert {w["launches"] for w in report.extra["winners"]} == {2}
    assert baseline_lock.read(run)["contract_sha256"] == sha256
    with pytest.raises(GateRefused, match="second lock"):
        baseline_lock.lock(run)
    with pytest.raises(GateRefused, match="baseline is locked"):
        search.search(session)
    search.write_pages(session.layout, *contract_lock.read(run))
    assert "vllm serve" in session.layout.winners.read_text()
    assert [e for e in lifecycle.listed(session.layout.engines) if e.status == "healthy"] == []


def test_rows_carry_what_a_verdict_needs(tmp_path: Path) -> None:
    run, config = tmp_path / "run", config_of(tmp_path)
    sha256 = locked(run, config)
    session = session_of(run, config)
    launch = driver.measure(session, search_config.candidates(config, "vllm")[0])
    row = launch.rows[0]
    assert (row.contract_hash, row.launch_id, row.candidate_id) == (sha256, launch.id, launch.candidate.id)
    assert row.workload.scenario == "chat"
    assert row.workload.dataset_sha256 == session.workload.scenarios["chat"].sha256 if session.workload else False
    assert row.workload.prompts_unique is True
    assert (row.workload.measured_input_tokens, row.workload.measured_output_tokens) == (6 * 40, 6 * 20)
    assert row.identity.served_model == config.model
    assert row.cache.prefix_cache_enabled is True
    assert row.spec_decode.enabled is False
    assert row.client.version == "0.25.1"
    assert row.server_command
    assert row.benchmark_command
    assert "--ignore-eos" in row.benchmark_command
    assert row.host.hostname == os.uname().nodename
    assert row.gpu_before.foreign_processes is None, "no driver here: unknown, not none"


@pytest.mark.parametrize(
    ("fault", "status"),
    [("crash", "failed"), ("no_file", "failed"), ("truncated", "failed"), ("hang", "timeout"), ("fail_all", "failed")],
)
def test_a_load_generator_that_fails_leaves_a_row_with_the_reason(
    fault: str, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, config = tmp_path / "run", config_of(tmp_path)
    config.budget.run_timeout_s = 1.0 if fault == "hang" else 20
    config.grid.scenarios = config.grid.scenarios[:1]
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
    made = search.search(session_of(run, config))
    assert len(made) == 1
    assert made[0].absent
    notes = {e["reason"] for e in RowStore(layout(run).rows).events("not_run")}
    assert all(n.startswith("the engine is not installed here") for n in notes)
    assert len(notes) == 1


def test_another_configuration_than_the_contract_s_is_refused(tmp_path: Path) -> None:
    run, config = tmp_path / "run", config_of(tmp_path)
    locked(run, config)
    contract, _ = contract_lock.read(run)
    search.require_same(config, contract)
    for change in (
        {"seeds": [1, 2]}, {"budget": {"runs": 9, "minutes": 5}}, {"sla": {}},
        {"grid": {"scenarios": [{"name": "chat", "input_len": 41, "output_len": 20}]}},
    ):  # fmt: skip
        with pytest.raises(GateRefused, match="not the locked contract"):
            search.require_same(config_of(tmp_path, **change), contract)


def test_a_tuned_target_against_a_default_competitor_cannot_be_locked(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    config.engines[1].candidates, config.engines[1].search = [], {}
    run = tmp_path / "run"
    locked(run, config)
    session = session_of(run, config)
    search.search(session)
    again = session_of(run, config, "decision")
    search.remeasure(again, search.finalists(again), 1)
    with pytest.raises(GateRefused, match="vllm has only its default candidate"):
        baseline_lock.lock(run)


def test_an_accuracy_floor_must_be_shown_for_every_engine(tmp_path: Path) -> None:
    run, config = tmp_path / "run", config_of(tmp_path)
    config.grid.scenarios = config.grid.scenarios[:1]
    locked(run, config, accuracy=[{"dataset": "gsm8k", "metric": "exact_match", "floor": 0.8}])
    search.search(session_of(run, config))
    again = session_of(run, config, "decision")
    search.remeasure(again, search.finalists(again), 1)
    with pytest.raises(GateRefused, match="sglang has no gsm8k accuracy"):
        baseline_lock.lock(run)
    evidence = tmp_path / "gsm8k.json"
    evidence.write_text("{}")
    baseline_lock.record_accuracy(run, "sglang", "gsm8k", 0.86, str(evidence))
    baseline_lock.record_accuracy(run, "vllm", "gsm8k", 0.7, str(evidence))
    with pytest.raises(GateRefused, match=r"vllm reaches 0\.7"):
        baseline_lock.lock(run)
    baseline_lock.record_accuracy(run, "vllm", "gsm8k", 0.85, str(evidence))
    assert baseline_lock.lock(run, dry_run=True).extra["locked_at"] is None


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
    made = search.search(session)
    assert made[0].candidate.name == "base"
    assert session.store.ledger.verify().ok
    assert len([launch for launch in made if launch.candidate.framework == "sglang"]) == 2


def test_the_commands_run_from_workload_to_baseline(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    raw = raw_config(str(make_model(tmp_path / "model")))
    raw["grid"]["scenarios"] = raw["grid"]["scenarios"][:1]
    raw["budget"]["runs"] = 2
    raw["engines"][1]["candidates"] = []
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
    assert forge("search", *common)[0] == 0
    code, told, err = forge("search", *common, "--remeasure", "--launches", "1")
    assert code == 0, err
    code, told, err = forge("lock", "--run", str(run), "--baseline", "--format", "json")
    assert code == 0, err
    place: Layout = layout(run)
    for made in (place.summary, place.winners, place.help / "vllm-server.txt", place.baseline):
        assert made.exists()
    rows = RowStore(place.rows).rows(purposes=["decision"])
    assert {r.identity.tokenizer_sha256 is not None for r in rows} == {True}
    assert {r.hardware.driver_version for r in rows} == {"580.65.06"}
