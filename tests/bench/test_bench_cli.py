"""The bench group at the command line: exit codes, JSON alone on stdout, files written."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from infer_forge.base.errors import ForgeError, GateRefused, InputUnusable, UsageFault
from infer_forge.cli.bench import command

SideFiles = Callable[..., list[Path]]


def call(*args: object) -> Any:
    """Run the group in this process; a ForgeError is raised as it is."""
    result = CliRunner().invoke(command, [str(a) for a in args], standalone_mode=False, catch_exceptions=True)
    if isinstance(result.exception, ForgeError):
        raise result.exception
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_import_prints_json_with_whole_rows(sglang_file: Any) -> None:
    answer = json.loads(call("import", sglang_file("a.jsonl"), "--format", "json").stdout)
    assert answer["rows"][0]["metrics"]["output_token_throughput_per_s"] == 1000.0
    assert answer["rows"][0]["workload"]["failed_requests"] is None
    assert answer["tables"]["rows"]["columns"][0] == "row"


def test_a_named_stranger_is_refused_and_one_in_a_folder_is_listed(sglang_file: Any, tmp_path: Path) -> None:
    sglang_file("a.jsonl")
    stranger = tmp_path / "b_meta.json"
    stranger.write_text('{"framework": "x", "case": "y", "rep": 1}')
    with pytest.raises(InputUnusable, match="metadata"):
        call("import", stranger)
    answer = json.loads(call("import", tmp_path, "--format", "json").stdout)
    assert len(answer["tables"]["rows"]["rows"]) == 1
    assert "metadata" in answer["tables"]["refused"]["rows"][0][1]


def test_rows_go_into_a_ledger_and_come_out_of_it(sglang_file: Any, tmp_path: Path) -> None:
    ledger = tmp_path / "candidates.jsonl"
    call("import", sglang_file("a.jsonl"), "--set", "framework=sglang", "--set", "launch_id=1", "--into", ledger)
    call("import", sglang_file("b.jsonl", 900.0), "--set", "framework=vllm", "--into", ledger)
    answer = json.loads(call("rank", ledger, "--format", "json").stdout)
    assert [r[2] for r in answer["tables"]["ranking"]["rows"]] == ["sglang", "vllm"]
    found = json.loads(call("gap", "--rows", ledger, "--target", "sglang", "--format", "json").stdout)
    assert found["tables"]["gap"]["rows"][0][1] == "insufficient"


def test_check_exits_by_its_verdict(sglang_file: Any) -> None:
    assert call("check", sglang_file("good.jsonl")).return_value in (None, 0)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "infer_forge",
            "bench",
            "check",
            str(sglang_file("bad.jsonl", mean_ttft_ms=0.0)),
            "--format",
            "json",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert json.loads(done.stdout)["verdict"] == "fail"


def test_an_all_failed_file_never_ranks(sglang_file: Any, write_json: Any, vllm: Any) -> None:
    zero = {k: 0.0 for k in vllm() if k.endswith("_ms")}
    dead = write_json("dead.json", vllm(completed=0, failed=8, output_throughput=0.0, request_throughput=0.0, **zero))
    answer = json.loads(call("rank", dead, sglang_file("a.jsonl"), "--format", "json").stdout)
    assert [r[3] for r in answer["tables"]["ranking"]["rows"]] == ["a.jsonl"]
    assert "ALL_FAILED" in answer["tables"]["unranked"]["rows"][0][3]


def test_rank_recomputes_the_sla(sglang_file: Any) -> None:
    files = [
        sglang_file("fast.jsonl", 2000.0, median_ttft_ms=900.0, p99_ttft_ms=950.0),
        sglang_file("slow.jsonl", 1000.0),
    ]
    answer = json.loads(call("rank", *files, "--sla", "max_p50_ttft_ms=500", "--format", "json").stdout)
    names = [(r[3], r[4], r[5]) for r in answer["tables"]["ranking"]["rows"]]
    assert names == [("slow.jsonl", True, "pass"), ("fast.jsonl", False, "fail")]


def test_gap_reads_named_groups_and_writes_pictures(side_files: SideFiles, tmp_path: Path) -> None:
    a, b = side_files("a", [90, 91, 90, 91, 90]), side_files("b", [100] * 5)
    result = call(
        "gap",
        "--target",
        "a",
        *a,
        "--against",
        "b",
        *b,
        "--format",
        "json",
        "--svg",
        tmp_path / "g.svg",
        "--html",
        tmp_path / "g.html",
    )
    answer = json.loads(result.stdout)
    assert (
        dict(zip(answer["tables"]["gap"]["columns"], answer["tables"]["gap"]["rows"][0], strict=True))["verdict"]
        == "behind"
    )
    assert (tmp_path / "g.svg").read_text().startswith("<svg")
    with pytest.raises(GateRefused, match="behind"):
        call("gap", "--target", "a", *a, "--against", "b", *b, "--require", "ahead,tie,not_behind")


def test_gap_requires_a_verdict_that_may_be_built_on(side_files: SideFiles) -> None:
    """The verdict alone is data; as a gate it needs the contract under which it was decided."""
    a, b = side_files("a", [110, 111, 110, 111, 110]), side_files("b", [100] * 5)
    words = ("gap", "--target", "a", *a, "--against", "b", *b)
    assert "not a decision to build on" in call(*words).stdout
    with pytest.raises(GateRefused, match="ahead, but not a decision to build on: no contract") as refused:
        call(*words, "--require", "ahead")
    assert "--contract" in str(refused.value.next_step)
    assert "without --require" in str(refused.value.next_step)
    few = ("gap", "--target", "a", *a[:2], "--against", "b", *b[:2])
    assert "insufficient" in call(*few, "--require", "insufficient").stdout


@pytest.mark.parametrize(
    "words",
    [
        ["--target", "a"],
        ["--against", "b", "x"],
        ["--target"],
        ["--target", "a", "x", "--target", "b", "y"],
        ["--target", "a", "x", "--against", "a", "y"],
    ],
)
def test_missing_sides_are_a_usage_fault(words: list[str]) -> None:
    with pytest.raises(UsageFault):
        call("gap", *words)


def test_fairness_writes_both_forms(side_files: SideFiles, tmp_path: Path) -> None:
    a, b = side_files("a", [90]), side_files("b", [100])
    call("fairness", "--target", "a", *a, "--against", "b", *b, "--write", tmp_path / "out")
    assert "E12" in (tmp_path / "out" / "fairness.md").read_text()
    assert json.loads((tmp_path / "out" / "fairness.json").read_text())["verdict"] == "unknown"


def test_a_file_given_twice_counts_once(sglang_file: Any) -> None:
    path = sglang_file("a.jsonl")
    answer = json.loads(call("import", path, path, "--format", "json").stdout)
    assert len(answer["rows"]) == 1
    assert any("twice" in f["message"] for f in answer["findings"])


def test_pairs_without_start_times_are_said_to_follow_the_order_given(side_files: SideFiles) -> None:
    def codes(**over: Any) -> list[str]:
        a, b = side_files("a", [100.0, 101.0], **over), side_files("b", [90.0, 91.0], **over)
        answer = json.loads(call("gap", "--target", "a", *a, "--against", "b", *b, "--format", "json").stdout)
        return [f["code"] for f in answer["findings"]]

    assert "ORDER_UNKNOWN" in codes()
