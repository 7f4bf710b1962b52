"""Requests that fail under the profiler, and what is refused before the server hears of it."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from infer_forge.capture import Plan, Shape, take
from infer_forge.capture.files import holds_device_work
from infer_forge.capture.load import Load
from tests.engines.fakes.launch import engine

FAST = "itl_ms=1 ttft_ms=1"


def test_a_failed_request_counts_once() -> None:
    with engine("sglang", settings=f"{FAST} error_every=1") as running:
        load = Load(running.url, "fake/Model-8B", Shape(16, 4), 3, 0)
        load.start(again=False)
        assert load.join(10.0)
        load.finish()
    assert (load.ok, load.failed) == (0, 3)
    assert load.first_error is not None
    assert load.first_error.startswith("500 ")


def test_requests_that_fail_under_the_profiler_are_a_finding(tmp_path: Path) -> None:
    with engine("sglang", settings=f"{FAST} error_every=3") as running:
        plan = Plan(
            "sglang", running.url, tmp_path, {"prefill": Shape(64, 1)}, requests=2, warmup=2, steps=3, window_s=5.0
        )
        report = take(plan)
    row = report.tables["workloads"].dicts()[0]
    told = [f for f in report.findings if f.code == "REQUESTS_FAILED"]
    assert row["requests_failed"] > 0
    assert [f.figure for f in told] == [row["requests_failed"]]
    assert "500" in told[0].message
    assert told[0].next_step


def test_a_profile_in_which_the_gpu_did_nothing_is_told_as_that(tmp_path: Path) -> None:
    found: dict[int, list[str]] = {}
    for steps in (0, 64):
        with engine("sglang", settings=f"{FAST} trace_steps={steps}") as running:
            plan = Plan("sglang", running.url, tmp_path / str(steps), {"prefill": Shape(64, 1)}, requests=2, steps=3)
            report = take(plan)
        found[steps] = [f.code for f in report.findings]
        assert {row["device_work"] for row in report.tables["files"].dicts()} == {steps > 0}
    assert "NO_DEVICE_WORK" in found[0]
    assert "NO_DEVICE_WORK" not in found[64]


@pytest.mark.parametrize("packed", [True, False])
def test_device_work_is_seen_across_the_border_of_two_blocks(tmp_path: Path, packed: bool) -> None:
    event = b'{"ph": "X", "cat": "kernel", "name": "k"}'
    for before in ((1 << 20) - 20, (1 << 20) - 1, 5):
        file = tmp_path / f"{before}.json"
        data = b"[" + b" " * before + event + b"]"
        file.write_bytes(gzip.compress(data, 1) if packed else data)
        assert holds_device_work(file)
        file.write_bytes(gzip.compress(data.replace(b"kernel", b"cpu_op"), 1) if packed else data[:before])
        assert not holds_device_work(file)


def run(folder: str, *more: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "infer_forge.cli.main", "capture", "--framework", "sglang", "--out", folder, *more]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_a_prompt_longer_than_any_context_is_wrong_usage(tmp_path: Path) -> None:
    done = run(str(tmp_path), "--url", "http://127.0.0.1:1", "--input-len", "100000000")
    assert done.returncode == 2
    assert "--input-len" in done.stderr


@pytest.mark.parametrize("folder", ["", "/proc/capture", "/dev/null"])
def test_a_folder_that_cannot_be_written_is_wrong_usage_before_the_server_is_asked(folder: str) -> None:
    done = run(folder, "--url", "http://127.0.0.1:1")
    assert done.returncode == 2, done.stderr
    assert "server" not in done.stderr


@pytest.mark.parametrize("url", ["", "127.0.0.1:30000", "file:///etc/hosts", "http://"])
def test_an_address_that_is_none_is_wrong_usage(tmp_path: Path, url: str) -> None:
    done = run(str(tmp_path), "--url", url)
    assert done.returncode == 2, done.stderr
    assert "http://HOST:PORT" in done.stderr


@pytest.mark.parametrize("text", ["{}", "[]", '{"argv": "sglang"}', '{"argv": [], "env": [1]}'])
def test_a_record_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    record = tmp_path / "record.json"
    record.write_text(text)
    done = run(str(tmp_path / "out"), "--url", "http://127.0.0.1:1", "--record", str(record))
    assert done.returncode == 3, done.stderr
    assert "engine start" in done.stderr


def test_lengths_given_twice_say_which_to_leave_out(tmp_path: Path) -> None:
    done = run(str(tmp_path / "out"), "--url", "http://127.0.0.1:1", "--campaign", str(tmp_path), "--input-len", "5")
    assert done.returncode == 2
    assert "next: leave" in done.stderr
