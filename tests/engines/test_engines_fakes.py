"""The fake engines do what their README says: everything else leans on them."""

from __future__ import annotations

import gzip
import json
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.engines.fakes.launch import command, engine, environment, free_port, wait_healthy

FRAMEWORKS = ["sglang", "vllm", "tensorrt_llm", "tokenspeed"]


def call(url: str, body: dict[str, Any] | None = None, *, post: bool = False) -> tuple[int, bytes]:
    data = json.dumps(body).encode() if body is not None else (b"" if post else None)
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data), timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as fault:
        return fault.code, fault.read()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_engine_serves_models_metrics_and_streams_tokens(framework: str) -> None:
    with engine(framework, settings="itl_ms=0.05 ttft_ms=0.1") as running:
        assert b"fake/Model-8B" in call(f"{running.url}/v1/models")[1]
        status, text = call(f"{running.url}/v1/completions", {"prompt": "abcdefgh", "max_tokens": 5, "stream": True})
        events = [line for line in text.decode().splitlines() if line.startswith("data: ")]
        assert status == 200
        assert events[-1] == "data: [DONE]"
        assert json.loads(events[-2][6:])["usage"] == {"prompt_tokens": 2, "completion_tokens": 5, "total_tokens": 7}
        assert len(events) == 7
        assert b"5" in call(f"{running.url}/metrics")[1]
        chat = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}
        assert b'"completion_tokens": 3' in call(f"{running.url}/v1/chat/completions", chat)[1]


def test_an_engine_starts_within_a_moment() -> None:
    with engine("vllm") as running:
        spent = psutil.Process(running.process.pid).cpu_times()
    assert spent.user + spent.system < 0.4, "about 0.1 s of processor time, whatever else the machine does"


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("oom_start", "Not enough memory"),
        ("crash_start", "illegal memory access"),
        ("port_in_use", "address already in use"),
    ],
)
def test_a_start_that_fails_ends_with_its_text(fault: str, text: str, tmp_path: Path) -> None:
    done = subprocess.run(
        command("sglang", "m", free_port()), env=environment(fault), capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 1
    assert text in done.stderr


def test_a_taken_port_is_told() -> None:
    with engine("vllm") as running:
        port = int(running.url.rsplit(":", 1)[1])
        done = subprocess.run(command("vllm", "m", port), env=environment(), capture_output=True, text=True, timeout=20)
        assert done.returncode == 1
        assert "address already in use" in done.stderr


def test_an_unknown_flag_is_refused_as_argparse_does() -> None:
    done = subprocess.run(
        command("vllm", "m", 1, ["--no-such-flag"]), env=environment(), capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 2
    assert "unrecognized arguments: --no-such-flag" in done.stderr


def test_faults_of_serving_appear_when_asked() -> None:
    with engine("sglang", settings="error_every=2 crash_after=4") as running:
        ask = f"{running.url}/v1/completions"
        assert [call(ask, {"prompt": "x", "max_tokens": 1})[0] for _ in range(3)] == [200, 500, 200]
        with pytest.raises((OSError, ConnectionError)):
            call(ask, {"prompt": "x", "max_tokens": 1})
        assert running.process.wait(timeout=5) == 1
        assert "illegal memory access" in running.log.read_text()


def load(path: Path) -> dict[str, Any]:
    return json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())


def wait_files(folder: Path, count: int) -> list[Path]:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        found = sorted(p for p in folder.rglob("*") if p.is_file())
        if len(found) >= count:
            return found
        time.sleep(0.01)
    raise TimeoutError(f"{folder}: {list(folder.rglob('*'))}")


def names(path: Path, cat: str) -> list[str]:
    return [e["name"] for e in load(path)["traceEvents"] if e["cat"] == cat]


def test_sglang_profiles_by_stage_for_each_rank(tmp_path: Path) -> None:
    with engine("sglang", words=["--tp", "2"], settings="itl_ms=0.1") as running:
        wanted = {"output_dir": str(tmp_path), "num_steps": 3, "profile_by_stage": True, "profile_id": "7"}
        assert call(f"{running.url}/start_profile", wanted)[0] == 200
        for _ in range(3):
            call(f"{running.url}/v1/completions", {"prompt": "abcd", "max_tokens": 4})
        found = wait_files(tmp_path, 4)
        assert [p.name for p in found] == [f"7-TP-{r}-{s}.trace.json.gz" for r in (0, 1) for s in ("DECODE", "EXTEND")]
        time.sleep(0.1)
        assert names(found[1], "user_annotation") == ["step[EXTEND bs=1 toks=1]"] * 3
        assert names(found[0], "user_annotation") == ["step[DECODE bs=1]"] * 3


def test_vllm_profiles_only_where_the_server_was_told_to(tmp_path: Path) -> None:
    with engine("vllm") as running:
        assert call(f"{running.url}/start_profile", post=True)[0] == 404
    config = json.dumps({"profiler": "torch", "torch_profiler_dir": str(tmp_path)})
    with engine("vllm", words=["--profiler-config", config]) as running:
        assert call(f"{running.url}/start_profile", post=True)[0] == 200
        call(f"{running.url}/v1/completions", {"prompt": "abcd", "max_tokens": 3})
        assert call(f"{running.url}/stop_profile", post=True)[0] == 200
        marks = names(wait_files(tmp_path, 1)[0], "user_annotation")
        assert marks == ["execute_context_1(1)_generation_0(0)", *["execute_context_0(0)_generation_1(1)"] * 2]


def test_tensorrt_llm_writes_the_iterations_its_environment_names(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    more = {"TLLM_PROFILE_START_STOP": "2-4", "TLLM_TORCH_PROFILE_TRACE": str(path)}
    with engine("tensorrt_llm", env=more) as running:
        call(f"{running.url}/v1/completions", {"prompt": "abcd", "max_tokens": 8})
        wait_files(tmp_path, 1)
        time.sleep(0.1)
        assert [n.split(":")[0] for n in names(path, "user_annotation")] == [
            f"[Executor] _forward_step {i}" for i in (2, 3, 4)
        ]


def test_tokenspeed_has_no_profile_route_unless_its_build_has(tmp_path: Path) -> None:
    with engine("tokenspeed") as running:
        assert call(f"{running.url}/start_profile", {})[0] == 404
    with engine("tokenspeed", settings="profile_route", env={"TOKENSPEED_PROFILER_DIR": str(tmp_path)}) as running:
        assert call(f"{running.url}/start_profile", {})[0] == 200
        call(f"{running.url}/v1/completions", {"prompt": "abcd", "max_tokens": 3})
        call(f"{running.url}/stop_profile", {})
        assert wait_files(tmp_path, 1)[0].name.endswith("-TP-0.trace.json.gz")


def test_an_export_can_stall_the_server(tmp_path: Path) -> None:
    with engine("sglang", settings="stall_export=0.4") as running:
        call(f"{running.url}/start_profile", {"output_dir": str(tmp_path), "num_steps": 1})
        call(f"{running.url}/v1/completions", {"prompt": "abcd", "max_tokens": 1})
        assert call(f"{running.url}/health")[0] == 503
        begin = time.perf_counter()
        call(f"{running.url}/v1/completions", {"prompt": "abcd", "max_tokens": 1})
        assert time.perf_counter() - begin > 0.25


@pytest.mark.parametrize("tool", ["vllm", "tokenspeed", "sglang", "aiperf"])
def test_a_load_generator_writes_its_own_file(tool: str, tmp_path: Path) -> None:
    import sys

    from tests.engines.fakes.launch import BIN

    size = ["--dataset-name", "random", "--num-prompts", "6", "--random-input-len", "12", "--random-output-len", "4"]
    with engine("vllm", settings="itl_ms=0.05 ttft_ms=0.1") as running:
        target = ["--base-url", running.url, "--model", "fake/Model-8B"]
        argv = {
            "vllm": [
                str(BIN / "vllm"),
                "bench",
                "serve",
                *target,
                *size,
                "--save-result",
                "--result-dir",
                str(tmp_path),
            ],
            "tokenspeed": [
                str(BIN / "tokenspeed"),
                "bench",
                "serve",
                *target,
                *size,
                "--output-file",
                str(tmp_path / "t.json"),
            ],
            "sglang": [
                sys.executable,
                "-m",
                "sglang.bench_serving",
                *target,
                *size,
                "--random-range-ratio",
                "1.0",
                "--output-file",
                str(tmp_path / "s.jsonl"),
            ],
            "aiperf": [
                str(BIN / "aiperf"),
                "profile",
                "--url",
                running.url,
                "--model",
                "fake/Model-8B",
                "--request-count",
                "6",
                "--isl",
                "12",
                "--osl",
                "4",
                "--artifact-dir",
                str(tmp_path),
            ],
        }[tool]
        done = subprocess.run(argv, env=environment(), capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    row = json.loads(next(p for p in tmp_path.rglob("*") if p.is_file()).read_text())
    if tool == "aiperf":
        assert row["output_sequence_length"]["avg"] == 4
        assert row["is_complete"] is True
    else:
        assert (row["completed"], row["total_input_tokens"], row["total_output_tokens"]) == (6, 72, 24)
        assert row["mean_ttft_ms"] > 0


def test_help_and_version_are_told() -> None:
    for program, words in (("vllm", ["serve"]), ("trtllm-serve", ["serve"]), ("tokenspeed", ["bench", "serve"])):
        done = subprocess.run(
            [program, *words, "--help"], env=environment(), capture_output=True, text=True, timeout=20
        )
        assert done.stdout.startswith("usage: ")
    done = subprocess.run(["vllm", "--version"], env=environment(), capture_output=True, text=True, timeout=20)
    assert done.stdout.strip() == "0.25.1"


def test_a_process_that_never_serves_is_waited_for_in_vain() -> None:
    with engine("vllm", settings="hang_start", wait=False) as running, pytest.raises(TimeoutError):
        wait_healthy(running.url, running.process, 0.3)
