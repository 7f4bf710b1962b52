"""The search and its winners, driven against real processes (the fake engines)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from infer_forge.base.errors import GateRefused
from infer_forge.bench import baseline_lock, contract_lock, driver, search, search_config, workload
from infer_forge.bench import session as shared
from infer_forge.bench.ledger_rows import RowStore
from infer_forge.bench.run_layout import Layout, layout
from infer_forge.engines import lifecycle, runner
from tests.bench.runs import SHORT, config_of, locked, raw_config, session_of, use_fakes
from tests.engines.fakes.launch import environment
from tests.engines.fakes.models import make_model


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    use_fakes(monkeypatch)


# -------------------------------------------------------------------------------------------------------------- search


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, search_config.SearchConfig, list[shared.Launch]]:
    """A run that was searched (in two goes), measured again, and whose baseline is locked."""
    tmp = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        use_fakes(patch)
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


Finished = tuple[Path, search_config.SearchConfig, list[shared.Launch]]


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
    with pytest.raises(GateRefused, match="A54: vllm has only its default candidate"):
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


def begun(
    run: Path, config: search_config.SearchConfig, tmp_path: Path
) -> tuple[subprocess.Popen[bytes], lifecycle.Engine]:
    """A search in another process whose first engine is starting, slowly."""
    raw = raw_config(config.model)
    raw["engines"][0]["env"] = {"FAKE_ENGINE": "slow_start=3"}
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(raw))  # pyright: ignore[reportUnknownMemberType]
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
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if list(engines.glob("*/engine.json")) and (found := lifecycle.listed(engines)) and found[0].process:
            return child, found[0]
        time.sleep(0.01)
    raise TimeoutError


def test_a_search_that_is_asked_to_end_stops_its_server(tmp_path: Path) -> None:
    run, config = tmp_path / "run", config_of(tmp_path)
    locked(run, config)
    child, engine = begun(run, config, tmp_path)
    child.terminate()
    assert child.wait(timeout=30) != 0
    assert runner.family(engine.proof) == []
    assert lifecycle.load(engine.folder).stopped is not None


def test_a_killed_search_leaves_no_server_behind_and_goes_on(tmp_path: Path) -> None:
    run, config = tmp_path / "run", config_of(tmp_path)
    sha256 = locked(run, config)
    child, left = begun(run, config, tmp_path)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert runner.family(left.proof)
    session = session_of(run, config)
    assert search.spent(session.store, "sglang", sha256).runs == 1
    assert driver.orphans(session.layout, grace_s=3) == [left.id]
    assert runner.family(left.proof) == []
    todo = [p for p in search.plan(config, session.store, sha256) if p.state == search.TODO]
    assert todo[0].candidate.name == "base"
    assert len([p for p in todo if p.candidate.framework == "sglang"]) == 2, "the killed launch counts"
    assert session.store.ledger.verify().ok


def test_planned_commands_hold_no_value_of_an_api_key(tmp_path: Path) -> None:
    raw = raw_config(str(make_model(tmp_path / "model")))
    for engine in raw["engines"]:
        engine["flags"] = ["--api-key", "swordfish"]
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(raw))  # pyright: ignore[reportUnknownMemberType]
    for words in (("search",), ("pilot", "--launches", "2")):
        argv = [*words, "--run", str(tmp_path / "run"), "--config", str(path), "--dry-run", "--format", "json"]
        done = subprocess.run(
            [sys.executable, "-m", "infer_forge.cli.main", "bench", *argv], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert "--api-key" in done.stdout
        assert "swordfish" not in done.stdout


def test_the_commands_run_from_workload_to_baseline(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    raw = raw_config(str(make_model(tmp_path / "model")))
    raw["grid"] = SHORT
    path.write_text(yaml.safe_dump(raw))  # pyright: ignore[reportUnknownMemberType]
    run = tmp_path / "run"
    common = ["--run", str(run), "--config", str(path), "--format", "json"]

    def forge(*words: str) -> tuple[int, dict[str, Any], str]:
        done = subprocess.run(
            [sys.executable, "-m", "infer_forge.cli.main", "bench", *words], env=environment(bench="mode=model jitter=0.002"),
            capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return done.returncode, (json.loads(done.stdout) if done.stdout.startswith("{") else {}), done.stderr

    assert forge("workload", *common)[0] == 0
    assert forge("search", *common, "--dry-run")[1]["summary"]
    assert forge("lock", *common, "--set", "point.model.revision=abc")[0] == 4, "no pilot yet"
    assert forge("lock", *common, "--accept-by", "agent", "--reason", "x")[0] == 6, "an acceptance needs a terminal"
    code, told, err = forge("pilot", *common, "--launches", "2")
    assert code == 0, err
    assert told["verdict"] == "resolved"
    code, _, err = forge("lock", *common, "--set", "point.model.revision=abc")
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
