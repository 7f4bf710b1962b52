"""Engines are run one recordable way: refused, started, waited for, told, and stopped with proof."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base import ownership
from infer_forge.base.errors import GateRefused, InputUnusable, MissingPart, UsageFault
from infer_forge.cli.main import cli
from infer_forge.engines import command, frameworks, help_text, lifecycle, profile_control, runner
from infer_forge.engines.grammar import ClientPlan
from tests.engines.fakes.launch import BIN, SITE, environment, free_port

FRAMEWORKS = list(frameworks.FRAMEWORKS)


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(SITE))
    monkeypatch.delenv("FAKE_ENGINE", raising=False)


def launch(framework: str, *extra: str, **options: Any) -> list[str]:
    port = options.pop("port", None) or free_port()
    return command.server_command(framework, "fake/Model-8B", {"port": port, **options}, extra=extra)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_engine_is_started_waited_for_told_and_stopped(framework: str, tmp_path: Path) -> None:
    engine = lifecycle.start(
        launch(framework), folder=tmp_path, env={"HF_TOKEN": "hf_" + "a" * 34, "FAKE_ENGINE": "workers=1"}
    )
    owned = [o for r in ownership.load().runs.values() for o in r.of_kind("pid")]
    assert [o.target for o in owned] == [str(engine.proof.pid)]
    lifecycle.wait(engine, 20, expect_model="fake/Model-8B")
    assert engine.status == "healthy", engine.reason
    record = json.loads((Path(engine.folder) / "engine.json").read_text())
    assert "hf_aaa" not in json.dumps(record)
    assert record["process"]["start_ticks"] == ownership.process_start(engine.proof.pid)
    again = lifecycle.load(engine.folder)
    assert lifecycle.health(again)["status"] == "healthy"
    assert lifecycle.facts(again).framework == framework
    assert len(runner.family(again.proof)) == 2
    lifecycle.stop(again, grace_s=5)
    assert again.stopped is not None
    assert len(again.stopped["ended"]) == 2
    assert again.stopped["left"] == []
    assert not again.stopped["answers_still"]
    assert lifecycle.load(engine.folder).status == "stopped"
    assert [o for r in ownership.load().runs.values() for o in r.of_kind("pid")] == []


@pytest.mark.parametrize(
    ("fault", "status", "row"),
    [
        ("oom_start", "oom", "oom"),
        ("crash_start", "crash", "failed"),
        ("crash_start=import", "missing_part", "failed"),
        ("crash_start=config", "bad_config", "failed"),
        ("hang_start", "timeout", "timeout"),
        ("wrong_model=other/M", "wrong_model", "failed"),
    ],
)
def test_a_start_that_fails_is_named_with_its_line(fault: str, status: str, row: str, tmp_path: Path) -> None:
    engine = lifecycle.start(launch("vllm"), folder=tmp_path, env={"FAKE_ENGINE": fault})
    lifecycle.wait(engine, 1.0 if status == "timeout" else 20, expect_model="fake/Model-8B")
    assert (engine.status, lifecycle.row_status(engine.status)) == (status, row)
    assert engine.reason
    lifecycle.stop(engine, grace_s=3)
    assert not runner.alive(engine.proof)


def test_an_engine_that_dies_later_is_seen(tmp_path: Path) -> None:
    engine = lifecycle.wait(
        lifecycle.start(launch("sglang"), folder=tmp_path, env={"FAKE_ENGINE": "crash_after=1"}), 20
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import urllib.request as u; u.urlopen('{engine.url}/v1/completions', b'{{}}')"],
        capture_output=True, timeout=20,
    )  # fmt: skip
    assert done.returncode != 0
    end = time.monotonic() + 5
    while runner.alive(engine.proof) and time.monotonic() < end:
        time.sleep(0.02)
    seen = lifecycle.health(engine)
    assert (seen["status"], seen["alive"]) == ("crash", False)
    assert "illegal memory access" in seen["reason"]


def test_a_port_that_somebody_holds_is_refused_and_nobody_is_touched(tmp_path: Path) -> None:
    first = lifecycle.wait(lifecycle.start(launch("vllm"), folder=tmp_path), 20)
    port = int(first.url.rsplit(":", 1)[1])
    with pytest.raises(GateRefused, match="answers there already"):
        lifecycle.start(launch("sglang", port=port), folder=tmp_path)
    assert lifecycle.health(first)["status"] == "healthy"
    lifecycle.stop(first, grace_s=5)


def test_in_a_container_and_over_ssh_the_same_is_recorded(tmp_path: Path) -> None:
    for spec in ("docker:box", "ssh:127.0.0.1"):
        engine = lifecycle.wait(lifecycle.start(launch("vllm"), place=spec, folder=tmp_path), 20)
        assert engine.status == "healthy", engine.reason
        assert engine.process["place"] == spec
        assert (engine.process["container_id"] is not None) == spec.startswith("docker")
        assert "Application startup complete" in lifecycle.logs(engine)
        lifecycle.stop(engine, grace_s=5)
        assert engine.status == "stopped"
        Path(engine.log).unlink()


@pytest.mark.parametrize(
    "argv",
    [
        ["bash", "-c", "vllm serve m --port 1"],
        ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"],
        ["python3", "-m", "sglang.launch_server_evil", "--model-path", "m"],
        ["trtllm-serve", "m", "--backend", "pytorch"],
        ["trtllm-serve", "serve", "m"],
        ["trtllm-serve", "serve", "m", "--backend", "tensorrt"],
        ["trtllm-serve", "serve", "m", "--backend", "pytorch", "--backend=_autodeploy"],
        ["tokenspeed", "bench", "serve"],
        ["nohup", "vllm", "serve", "m"],
        ["vllm"],
        ["sglang", "generate", "m"],
        ["docker", "run", "vllm", "serve", "m"],
    ],
)
def test_other_command_shapes_are_refused(argv: list[str]) -> None:
    with pytest.raises(GateRefused):
        command.check_shape(argv)


def test_a_config_file_cannot_smuggle_another_backend(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("backend: tensorrt\n")
    with pytest.raises(GateRefused, match="PyTorch"):
        command.check_shape(
            ["trtllm-serve", "serve", "m", "--backend", "pytorch", "--extra_llm_api_options", str(path)]
        )


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_allowed_shape_is_built_and_accepted(framework: str) -> None:
    grammar = frameworks.GRAMMARS[framework]
    for index in range(len(grammar.launches)):
        argv = command.server_command(
            framework, "/m", {"tp": 2, "port": 9}, launch=index, python="/opt/py/bin/python3.12"
        )
        shape = command.check_shape(argv)
        assert (shape.framework, shape.model, shape.port, shape.alias) == (framework, "/m", 9, False)
    for alias in (framework, *grammar.aliases):
        assert frameworks.canonical(alias.upper()) == framework


def test_an_alias_counts_only_with_the_same_help() -> None:
    argv = ["ts", "serve", "m", "--port", str(free_port())]
    assert command.check_shape(argv).alias
    with pytest.raises(GateRefused, match="alias"):
        lifecycle.start(argv)
    taken = help_text.snapshot("tokenspeed", runner.Place())
    help_text.refuse_unverified_alias(command.check_shape(argv), taken)


def test_an_unknown_option_or_framework_is_named() -> None:
    with pytest.raises(UsageFault, match="no option 'tpp'"):
        command.server_command("vllm", "m", {"tpp": 1})
    with pytest.raises(UsageFault, match="switch"):
        command.server_command("vllm", "m", {"prefix_cache": "no"})
    with pytest.raises(UsageFault, match="no framework"):
        frameworks.canonical("lmdeploy")


def test_flags_are_held_against_the_program_s_own_help(tmp_path: Path) -> None:
    taken = help_text.snapshot("vllm", runner.Place(), folder=tmp_path)
    assert (taken.server.state, taken.client.state, taken.server.version) == ("verified", "verified", "0.25.1")
    assert (tmp_path / "vllm-server.txt").read_text().startswith("usage: ")
    assert help_text.load(tmp_path / "vllm.json") == taken
    words = ["--max-num-seqs", "4", "--max-num-seq", "4", "--tensor_parallel_size=2", "-O3", "--seed", "-1"]
    states = {c.flag: (c.state, c.hint) for c in help_text.check_flags(words, taken.server)}
    assert states["--max-num-seqs"][0] == "known"
    assert states["--max-num-seq"] == ("unknown", "did you mean --max-num-seqs?")
    assert states["--tensor_parallel_size"][0] == "known"
    assert states["-O"][0] == "known"
    assert len(states) == 5
    argv = launch("vllm", "--max-num-seq", "4")
    with pytest.raises(GateRefused, match="--max-num-seq"):
        lifecycle.start(argv, help_of=taken)


def test_what_is_not_installed_is_unverified_with_a_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    taken = help_text.snapshot("vllm", runner.Place())
    assert (taken.server.state, taken.server.sha256, taken.server.flags) == ("unverified", None, [])
    assert taken.server.taken_at
    assert taken.server.reason
    assert {c.state for c in help_text.check_flags(["--x"], taken.server)} == {"unverified"}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_flag_that_we_write_is_one_that_the_fake_s_help_names(framework: str) -> None:
    taken = help_text.snapshot(framework, runner.Place())
    grammar = frameworks.GRAMMARS[framework]
    plan = ClientPlan(
        base_url="http://h:1", model="m", input_len=9, output_len=9, num_prompts=3, result="r/x.json", concurrency=2
    )
    argv = command.client_command(grammar.client.name, plan)[len(grammar.client.launch) :]
    bad = [c for c in help_text.check_flags(argv, taken.client) if c.state != "known"]
    options = dict.fromkeys(grammar.options, 1) | dict.fromkeys(grammar.switches, True)
    for values in (options, dict.fromkeys(grammar.switches, False)):
        words = command.server_command(framework, "m", values)
        bad += [c for c in help_text.check_flags(words, taken.server) if c.state != "known" and c.flag not in ("-m",)]
    assert bad == []


def test_the_same_length_is_asked_of_every_client() -> None:
    plan = ClientPlan(
        base_url="http://h:1", model="m", input_len=1000, output_len=1000, num_prompts=3, result="r/x.json"
    )
    lines = {n: " ".join(command.client_command(n, plan)) for n in frameworks.CLIENTS}
    assert "--random-range-ratio 1.0" in lines["sglang.bench_serving"]
    for name in ("vllm bench serve", "tokenspeed bench serve", "trtllm benchmark_serving"):
        assert "--random-range-ratio 0.0" in lines[name]
        assert "--ignore-eos" in lines[name]
        assert "--temperature 0" in lines[name]
    assert "--random-ids" in lines["trtllm benchmark_serving"]
    assert "ignore_eos:true" in lines["aiperf"]


def test_profile_ways_are_detected_without_starting_one(tmp_path: Path) -> None:
    started = lifecycle.wait(lifecycle.start(launch("sglang"), folder=tmp_path), 20)
    offer = profile_control.detect("sglang", started.url)
    assert (offer.way, offer.by_stage, offer.counts_steps) == ("http", True, True)
    assert profile_control.load(started.url) == (0, 0)
    answer = profile_control.start(offer, started.url, {"output_dir": str(tmp_path), "num_steps": 2})
    assert answer["status"] == 200
    with pytest.raises(InputUnusable, match="already in progress"):
        profile_control.start(offer, started.url, {"output_dir": str(tmp_path)})
    assert profile_control.stop(offer, started.url)["stopped"] is True
    assert profile_control.stop(offer, started.url)["stopped"] is True
    lifecycle.stop(started, grace_s=5)
    assert profile_control.stop(offer, started.url, timeout_s=2)["stopped"] is None
    with pytest.raises(InputUnusable, match="does not answer"):
        profile_control.detect("sglang", started.url)


def test_vllm_is_profiled_only_when_its_launch_said_where(tmp_path: Path) -> None:
    plain = lifecycle.wait(lifecycle.start(launch("vllm"), folder=tmp_path), 20)
    offer = profile_control.detect("vllm", plain.url, argv=plain.argv)
    assert offer.way == "none"
    assert "--profiler-config" in offer.next_step
    with pytest.raises(MissingPart, match="no profile can be started"):
        profile_control.start(offer, plain.url, {"output_dir": "x"})
    lifecycle.stop(plain, grace_s=5)
    argv = launch("vllm", *profile_control.launch_flags("vllm", str(tmp_path / "traces")))
    told = lifecycle.wait(lifecycle.start(argv, folder=tmp_path), 20)
    offer = profile_control.detect("vllm", told.url, argv=told.argv)
    assert (offer.way, offer.directory) == ("http", str(tmp_path / "traces"))
    lifecycle.stop(told, grace_s=5)


def test_the_other_two_are_profiled_their_own_way() -> None:
    assert profile_control.detect("trtllm", None).way == "none"
    env = profile_control.launch_env("trtllm", "/t/x.json", 10, 20)
    offer = profile_control.detect("trtllm", None, env=env)
    assert (offer.way, offer.directory) == ("launch_env", "/t/x.json")
    assert env["TLLM_PROFILE_START_STOP"] == "10-20"
    assert profile_control.detect("tokenspeed", None).way == "none"
    assert profile_control.detect("tokenspeed", None, directory="/run").way == "run_directory"


def run(*words: str, **env: str) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, "-m", "infer_forge.cli.main", *words],
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, (json.loads(done.stdout) if done.stdout.startswith("{") else {}), done.stderr


def test_the_command_line_starts_watches_and_stops(tmp_path: Path) -> None:
    assert cli
    argv = launch("vllm")
    code, told, err = run("engine", "start", "--folder", str(tmp_path), "--wait", "20", "--format", "json", "--", *argv)
    assert code == 0, err
    folder = told["engine"]["folder"]
    assert (
        run("engine", "health", folder, "--require", "healthy", "--format", "json")[1]["health"]["status"] == "healthy"
    )
    assert (
        run("engine", "logs", folder, "--format", "json")[1]["facts"]["facts"]["attention_backend"]["value"]
        == "FLASH_ATTN"
    )
    code, told, err = run("engine", "stop", folder, "--format", "json")
    assert code == 0, err
    assert told["engine"]["stopped"]["left"] == []
    code, told, err = run("engine", "health", folder, "--require", "healthy", "--format", "json")
    assert (code, told["health"]["status"]) == (4, told["engine"]["status"])
    assert "required was healthy" in err
    assert run("engine", "start", "--", "bash", "-c", "vllm serve m")[0] == 4
    code, _, err = run(
        "engine", "start", "--folder", str(tmp_path), "--wait", "20", "--", *launch("vllm"), settings="oom_start"
    )
    assert code == 3
    assert "oom" in err
    assert "Traceback" not in err


def test_the_command_line_writes_commands_and_help(tmp_path: Path) -> None:
    code, told, err = run(
        "engine",
        "help-snapshot",
        "--framework",
        "sglang",
        "--folder",
        str(tmp_path),
        "--require",
        "verified",
        "--format",
        "json",
    )
    assert code == 0, err
    assert set(told["snapshots"]) == {"sglang"}
    code, told, err = run(
        "engine", "command", "--framework", "sglang", "--model", "m", "--set", "tp=2", "--set", "port=1234",
        "--help-file", str(tmp_path / "sglang.json"), "--format", "json", "--", "--enable-metrics",
    )  # fmt: skip
    assert code == 0, err
    assert told["server_command"][-1] == "--enable-metrics"
    assert {r[2] for r in told["tables"]["flags"]["rows"]} == {"known"}
    old = tmp_path / "old.json"
    now = told["tables"]["flags"]["rows"][0][3]
    old.write_text((tmp_path / "sglang.json").read_text().replace(now[:4], str(int(now[:4]) - 1)))
    words = ["engine", "command", "--framework", "sglang", "--model", "m", "--help-file", str(old), "--format", "json"]
    assert [f["code"] for f in run(*words)[1]["findings"]] == ["HELP_OLD"]
    words = ["engine", "command", "--framework", "vllm", "--model", "m", "--format"]
    for key in (["--api-key", "swordfish"], ["--api-key=swordfish"]):
        code, told, err = run(*words, "json", "--", *key)
        assert code == 0, err
        assert "swordfish" not in json.dumps(told)
        assert "--api-key" in json.dumps(told["server_command"])
        assert "SECRET_MASKED" in {f["code"] for f in told["findings"]}
    code, _, err = run(
        "engine",
        "command",
        "--framework",
        "sglang",
        "--model",
        "m",
        "--help-file",
        str(tmp_path / "sglang.json"),
        "--",
        "--no-such",
    )
    assert code == 4
    assert "--no-such" in err
    assert run("engine", "env", "--format", "json")[1]["digest"]


def test_no_record_holds_the_key_of_the_server(tmp_path: Path) -> None:
    engine = lifecycle.start(launch("vllm", "--api-key", "plainword"), folder=tmp_path)
    try:
        assert "plainword" not in (Path(engine.folder) / "engine.json").read_text()
        assert "--api-key" in engine.argv
    finally:
        lifecycle.stop(engine)
