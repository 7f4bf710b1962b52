"""Requests that fail under the profiler: counted once each, and told, since they make the batch smaller than asked for."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from time import process_time

from infer_forge.capture import Plan, Shape, take
from infer_forge.capture.load import Load, prompt_ids
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


def test_a_prompt_of_the_greatest_length_is_made_in_seconds() -> None:
    begun = process_time()
    ids = prompt_ids(Shape(1_000_000, 1), random.Random(0))
    assert len(ids) == 1_000_000
    assert min(ids) >= 1000
    assert process_time() - begun < 1.0  # a tenth of the greatest length


def test_a_prompt_longer_than_any_context_is_wrong_usage(tmp_path: Path) -> None:
    words = ["capture", "--framework", "sglang", "--url", "http://127.0.0.1:1", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "infer_forge.cli.main", *words, "--input-len", "100000000"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--input-len" in done.stderr
