"""Captures from fake engines over real HTTP: each the way it is controlled; every fault ends clearly, the profiler off."""

from __future__ import annotations

import gzip
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import ForgeError, GateRefused, InputUnusable, MissingPart, UsageFault
from infer_forge.capture import Plan, Shape, slow_scenario, take
from infer_forge.capture.load import Load
from infer_forge.engines import http, profile_lock
from infer_forge.trace import load
from tests.engines.fakes.launch import Running, engine

SHAPES = {"prefill": Shape(256, 1), "decode": Shape(1, 64)}
FAST = "itl_ms=1 ttft_ms=1"


def plan(running: Running, out: Path, framework: str = "sglang", **more: Any) -> Plan:
    wanted: dict[str, Any] = {
        "shapes": SHAPES,
        "requests": 2,
        "warmup": 2,
        "steps": 3,
        "window_s": 5.0,
        "export_s": 3.0,
    }
    return Plan(framework, running.url, out, **(wanted | more))


def profiler_is_off(running: Running) -> bool:
    answer = http.call(f"{running.url}/stop_profile", method="POST")
    return answer.status != 200 and b"not in progress" in answer.body


def test_sglang_gives_prefill_and_decode_apart_with_unique_prompts_and_the_profiler_off(tmp_path: Path) -> None:
    with engine("sglang", settings=FAST) as running:
        report = take(plan(running, tmp_path))
        assert profiler_is_off(running)
    by = {row[0]: Path(row[1]) for row in report.tables["files"].rows}
    assert set(by) == {"prefill", "decode"}
    for name, path in by.items():
        trace = load(path, cache=False)
        assert {trace.stages[s] for s in trace.windows.stage.tolist()} == {name}
    assert report.header.more["server"]["model"] == "fake/Model-8B"
    stored = json.loads((tmp_path / "capture.json").read_text())
    assert stored["tables"]["files"]["rows"][0][3] == report.header.inputs[0].sha256


def test_vllm_needs_to_be_told_the_folder_of_its_launch(tmp_path: Path) -> None:
    words = ["--profiler-config", json.dumps({"profiler": "torch", "torch_profiler_dir": str(tmp_path / "server")})]
    with engine("vllm", settings=FAST, words=words) as running:
        with pytest.raises(UsageFault, match="folder of its launch"):
            take(plan(running, tmp_path / "out", "vllm"))
        report = take(plan(running, tmp_path / "out", "vllm", directory=str(tmp_path / "server")))
        assert profiler_is_off(running)
    assert [row[0] for row in report.tables["files"].rows] == ["prefill", "decode"]


def test_vllm_without_profile_routes_is_refused_with_the_supported_way(tmp_path: Path) -> None:
    with engine("vllm", settings=FAST) as running, pytest.raises(MissingPart) as told:
        take(plan(running, tmp_path, "vllm"))
    assert "--profiler-config" in str(told.value)


def test_tensorrt_llm_is_loaded_until_the_file_of_its_launch_is_whole(tmp_path: Path) -> None:
    env = {"TLLM_PROFILE_START_STOP": "5-12", "TLLM_TORCH_PROFILE_TRACE": str(tmp_path / "t.json.gz")}
    record = tmp_path / "record.json"
    record.write_text(json.dumps({"argv": ["trtllm-serve"], "env": env}))
    with engine("tensorrt_llm", settings=FAST, env=env) as running:
        report = take(plan(running, tmp_path / "out", "tensorrt_llm", record=str(record)))
    assert [Path(row[1]).name for row in report.tables["files"].rows] == ["t.json.gz"]


def test_tensorrt_llm_whose_launch_had_no_window_names_the_variables(tmp_path: Path) -> None:
    with engine("tensorrt_llm", settings=FAST) as running, pytest.raises(MissingPart, match="TLLM_PROFILE_START_STOP"):
        take(plan(running, tmp_path, "tensorrt_llm"))


def test_tokenspeed_reads_what_its_run_directory_holds_and_invents_no_endpoint(tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.mkdir()
    with engine("tokenspeed", settings=FAST) as running:
        with pytest.raises(MissingPart, match="holds no whole trace"):
            take(plan(running, tmp_path / "out", "tokenspeed", directory=str(place)))
        (place / "rank0.trace.json.gz").write_bytes(gzip.compress(b'{"traceEvents": []}'))
        report = take(plan(running, tmp_path / "out", "tokenspeed", directory=str(place)))
    assert [Path(row[1]).name for row in report.tables["files"].rows] == ["rank0.trace.json.gz"]


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("no_trace", "no new trace file"),
        ("truncated_trace", "not whole"),
        ("error_every=1", "every warm-up request failed"),
        ("hang_after=3", "warm-up did not end|passes did not run|did not get going"),
    ],
)
def test_every_fault_ends_in_a_clear_error_and_the_profiler_is_off(tmp_path: Path, fault: str, why: str) -> None:
    with engine("sglang", settings=f"{FAST} {fault}") as running:
        with pytest.raises(InputUnusable, match=why) as told:
            take(plan(running, tmp_path, window_s=1.5, export_s=1.5))
        assert told.value.next_step
        assert profiler_is_off(running)
    assert profile_lock.active(running.url) is None


def test_an_engine_that_crashes_under_the_load_is_told_as_such(tmp_path: Path) -> None:
    with engine("sglang", settings=f"{FAST} crash_after=4") as running, pytest.raises(InputUnusable) as told:
        take(plan(running, tmp_path, shapes={"decode": SHAPES["decode"]}, window_s=2.0))
    said = str(told.value)
    # it dies before the profiler starts, or after
    assert "did not get going" in said or "the passes did not run" in said
    assert "decode" in said
    assert "next: see the server's log" in said


@pytest.mark.parametrize("fault", ["late_trace=1", "slow_trace=1"])
def test_late_and_slow_files_are_waited_for(tmp_path: Path, fault: str) -> None:
    with engine("sglang", settings=f"{FAST} {fault}") as running:
        report = take(plan(running, tmp_path, shapes={"decode": SHAPES["decode"]}, export_s=10.0))
    assert len(report.tables["files"]) == 1


def test_the_stall_that_an_export_causes_is_measured_to_its_end(tmp_path: Path) -> None:
    with engine("sglang", settings=f"{FAST} stall_export=1") as running:
        report = take(plan(running, tmp_path, shapes={"decode": SHAPES["decode"]}))
    assert report.tables["workloads"].dicts()[0]["stall_s"] >= 0.9


def test_somebody_elses_running_profile_is_not_stopped(tmp_path: Path) -> None:
    with engine("sglang", settings=FAST) as running:
        assert (
            http.call(f"{running.url}/start_profile", method="POST", body={"output_dir": str(tmp_path)}).status == 200
        )
        with pytest.raises(InputUnusable, match="already in progress"):
            take(plan(running, tmp_path / "out"))
        assert http.call(f"{running.url}/stop_profile", method="POST").status == 200


def test_stacks_are_refused_on_a_busy_server_and_traffic_is_told_without_them(tmp_path: Path) -> None:
    with engine("sglang", settings="itl_ms=20") as running:
        traffic = Load(running.url, None, Shape(4, 400), 2, 9)
        traffic.start(again=True)
        assert traffic.wait_tokens(4, 5)
        with pytest.raises(GateRefused, match="stacks"):
            take(plan(running, tmp_path, stacks=True))
        report = take(plan(running, tmp_path, shapes={"decode": SHAPES["decode"]}))
        traffic.finish()
    assert "OTHER_TRAFFIC" in [f.code for f in report.findings]


def test_nobody_benchmarks_or_profiles_an_address_while_a_profile_is_taken_there() -> None:
    url = "http://127.0.0.1:1"
    with profile_lock.held(url):
        for what in ("a benchmark", "a second profile"):
            with pytest.raises(GateRefused, match="a profile is being taken"):
                profile_lock.refuse_while_active(url, what)
    profile_lock.refuse_while_active(url, "a benchmark")


@pytest.mark.parametrize(
    ("named", "runs"),
    [("tokenspeed", "sglang"), ("sglang", "vllm"), ("vllm", "tensorrt_llm"), ("tensorrt_llm", "tokenspeed")],
)
def test_a_server_of_another_framework_than_the_one_named_is_noticed(named: str, runs: str, tmp_path: Path) -> None:
    with engine(runs, settings=FAST) as running, pytest.raises(UsageFault, match="the server says that it is") as told:
        take(plan(running, tmp_path, named, directory=str(tmp_path)))
    assert f"--framework {runs}" in str(told.value)


def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ForgeError, match="does not answer"):
        take(Plan("sglang", "http://127.0.0.1:1", tmp_path, SHAPES))


def test_prompts_of_parallel_workers_are_all_different() -> None:
    seen: list[tuple[int, ...]] = []
    lock = threading.Lock()
    made = Load("http://127.0.0.1:1", None, Shape(16, 1), 1, 5)

    def note(prompt: Any) -> tuple[int, str]:
        with lock:
            seen.append(tuple(prompt))
        return 200, ""

    made._send = note  # pyright: ignore[reportPrivateUsage]
    for _ in range(50):
        made._one()  # pyright: ignore[reportPrivateUsage]
    assert len(set(seen)) == 50


def test_lengths_come_from_the_scenario_that_is_furthest_behind(tmp_path: Path) -> None:
    scenarios = [
        {"name": "chat", "input_len": 1000, "output_len": 900},
        {"name": "sum", "input_len": 8000, "output_len": 800},
    ]
    folder = tmp_path / "benchmark"
    folder.mkdir()
    with pytest.raises(InputUnusable, match="no contract"):
        slow_scenario(tmp_path)
    (folder / "contract.json").write_text(json.dumps({"contract": {"grid": {"scenarios": scenarios}}}))
    assert slow_scenario(tmp_path) == ("sum", {"prefill": Shape(8000, 1), "decode": Shape(1, 800)})
    for rows, slow in (
        ([["sum", "tie", 0.1], ["chat", "behind", -2.0]], "chat"),
        ([["sum", "behind", -9.0], ["chat", "behind", -2.0]], "sum"),
        ([["sum c4", "tie", 0.1], ["chat c16", "behind", -2.0]], "chat"),
    ):
        table = {"columns": ["scenario", "verdict", "mean_pct"], "rows": rows}
        (folder / "gap.json").write_text(json.dumps({"tables": {"gap": table}}))
        assert slow_scenario(tmp_path)[0] == slow
