"""The command line: digest, folders, exit codes, check-log, plan."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from infer_forge.base.errors import ForgeError, GateRefused, UsageFault
from infer_forge.cli.ncu import command
from infer_forge.ncu.checklog import check_log, failures
from infer_forge.ncu.collection import PURPOSES, plan
from infer_forge.ncu.lint import lint_digest
from tests.ncu.ncu_maker import (
    DRAM,
    DURATION,
    MEMORY,
    SM,
    SPEED_OF_LIGHT,
    Kernel,
    long_csv,
    sol_rows,
    text_page,
    wide_csv,
    write,
)


def run(*words: str) -> Result:
    return CliRunner().invoke(command, list(words), catch_exceptions=True)


def page(tmp_path: Path, name: str = "a.csv", ns: float = 1e5, memory: float = 85.0, count: int = 3) -> Path:
    values: dict[str, float | str] = {
        SM: 20.0,
        MEMORY: memory,
        DRAM: memory,
        DURATION: ns,
        "lts__t_sector_hit_rate.pct": 60.0,
    }
    return write(tmp_path / name, wide_csv([Kernel("k", values)] * count, {DURATION: "ns"}))


def test_json_holds_the_keys_of_the_contract(tmp_path: Path) -> None:
    done = run("digest", str(page(tmp_path)), "--format", "json")
    data = json.loads(done.stdout)
    assert done.exit_code == 0
    assert set(data["kernels"][0]) >= {"name", "launch", "duration_ns", "class", "limiter", "flags", "metrics"}
    assert isinstance(data["next_edit"], dict)
    assert data["comparison"] is None
    assert "note" in data["second_opinion"]
    assert data["header"]["inputs"][0]["sha256"]


@pytest.mark.parametrize("form", ["text", "md"])
def test_text_and_markdown_hold_exactly_one_next_edit(tmp_path: Path, form: str) -> None:
    done = run("digest", str(page(tmp_path)), "--format", form)
    assert done.stdout.count("Next edit:") == 1


def test_a_digest_folder_holds_both_forms_and_passes_its_lint(tmp_path: Path) -> None:
    folder = tmp_path / "kernel" / "ncu-digests" / "v2"
    done = run("digest", str(page(tmp_path)), "--baseline", str(page(tmp_path, "b.csv", 2e5)), "--out", f"{folder}/")
    assert done.exit_code == 0
    assert sorted(p.name for p in folder.iterdir()) == ["digest.json", "digest.md"]
    assert lint_digest(folder) == []
    assert json.loads((folder / "digest.json").read_text())["comparison"]["verdict"] == "improved"


def test_the_lint_counts_next_edits_and_wants_a_cited_metric(tmp_path: Path) -> None:
    run("digest", str(page(tmp_path)), "--out", f"{tmp_path}/d/")
    text = tmp_path / "d" / "digest.md"
    text.write_text(text.read_text() + "\n- Next edit: another one\n")
    assert any("2 lines" in p for p in lint_digest(tmp_path / "d"))
    data: dict[str, Any] = json.loads((tmp_path / "d" / "digest.json").read_text())
    data["next_edit"]["metric"] = None
    (tmp_path / "d" / "digest.json").write_text(json.dumps(data))
    assert any("cites no metric" in p for p in lint_digest(tmp_path / "d"))
    data["next_edit"] = [data["next_edit"]]
    (tmp_path / "d" / "digest.json").write_text(json.dumps(data))
    assert any("exactly one object" in p for p in lint_digest(tmp_path / "d"))
    assert lint_digest(tmp_path / "nowhere")


def test_a_single_file_is_written_too(tmp_path: Path) -> None:
    run("digest", str(page(tmp_path)), "--format", "json", "--out", f"{tmp_path}/one.json")
    assert json.loads((tmp_path / "one.json").read_text())["kernels"]


def test_require_turns_another_verdict_into_4(tmp_path: Path) -> None:
    old, new = str(page(tmp_path, "o.csv", 1e5)), str(page(tmp_path, "n.csv", 1.5e5))
    assert run("digest", new, "--baseline", old, "--require", "regressed").exit_code == 0
    assert isinstance(run("digest", new, "--baseline", old, "--require", "improved,same").exception, GateRefused)
    assert isinstance(run("digest", new, "--require", "improved").exception, UsageFault)
    assert isinstance(run("digest", new, "--baseline", old, "--require", "faster").exception, UsageFault)


@pytest.mark.parametrize("name", ["missing.ncu-rep", "folder"])
def test_what_cannot_be_read_is_exit_3(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    done = run("digest", str(tmp_path / name))
    assert isinstance(done.exception, ForgeError)
    assert done.exception.exit_code == 3


def test_several_reports_give_one_table_and_one_edit(tmp_path: Path) -> None:
    long = write(tmp_path / "b.csv", long_csv([(Kernel("gemm"), [(SPEED_OF_LIGHT, "Duration", "ms", "9")])]))
    data = json.loads(run("digest", str(page(tmp_path)), str(long), "--format", "json").stdout)
    assert [k["name"] for k in data["kernels"]] == ["gemm", "k"]
    assert data["next_edit"]["kernel"] == "gemm"


def test_the_kernel_is_never_assumed_silently(tmp_path: Path) -> None:
    rows = [(SPEED_OF_LIGHT, a, u, v) for a, u, v in sol_rows("20", "85", "85", "9", "ms")]
    fast = [(SPEED_OF_LIGHT, a, u, v) for a, u, v in sol_rows("20", "85", "85", "9", "us")]
    path = write(tmp_path / "a.csv", long_csv([(Kernel("warmingUp"), rows), (Kernel("gemm"), fast)]))
    data = json.loads(run("digest", str(path), "--format", "json").stdout)
    assert data["next_edit"]["kernel"] == "gemm"
    found = {f["code"]: f for f in data["findings"]}
    assert "warmingUp" in found["KERNEL_ASSUMED"]["message"]
    only = write(tmp_path / "b.csv", long_csv([(Kernel("warmingUp"), rows)]))
    data = json.loads(run("digest", str(only), "--format", "json").stdout)
    assert "NO_TARGET_KERNEL" in {f["code"] for f in data["findings"]}


def test_a_report_of_warm_up_alone_asks_for_the_target_and_not_for_the_warm_up_again(tmp_path: Path) -> None:
    rows = [(SPEED_OF_LIGHT, a, u, v) for a, u, v in sol_rows("20", "85", "85", "9", "ms")]
    only = write(tmp_path / "b.csv", long_csv([(Kernel("warmingUp"), rows), (Kernel("memset"), rows)]))
    data = json.loads(run("digest", str(only), "--format", "json").stdout)
    edit, words = data["next_edit"], shlex.split(data["next_edit"]["verify_command"])
    chosen = re.compile(words[words.index("--kernel-name") + 1].removeprefix("regex:"))
    assert edit["kind"] == "collect"
    assert [n for n in ("warmingUp", "memset", "ncclKernel", "gemm", "memset_gemm") if chosen.search(n)] == [
        "gemm",
        "memset_gemm",
    ]
    named = json.loads(run("digest", str(only), "--kernel", "warmingUp", "--format", "json").stdout)
    assert "NO_TARGET_KERNEL" not in {f["code"] for f in named["findings"]}
    assert "warmingUp" in named["next_edit"]["verify_command"]


def test_a_small_kernel_without_a_trace_names_what_is_missing(tmp_path: Path) -> None:
    data = json.loads(run("digest", str(page(tmp_path, ns=4000, memory=30)), "--format", "json").stdout)
    assert data["small_kernel"]["missing"] == ["launches", "gaps", "synchronisation"]


def test_source_lines_of_a_page_are_said_to_be_absent(tmp_path: Path) -> None:
    data = json.loads(run("digest", str(page(tmp_path)), "--source", "--format", "json").stdout)
    assert "NO_SOURCE_DATA" in {f["code"] for f in data["findings"]}


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "counter_permission"),
        ("==ERROR== Profiling failed because a driver resource was unavailable.", "driver_resource"),
        ("==WARNING== Launching the workload is taking more time than expected.", "taking_long"),
        ("==WARNING== No kernels were profiled.", "no_kernels"),
        (
            "No kernels were profiled. Kernels launched by child processes requires the --target-processes all option.",
            "no_kernels_children",
        ),
        ("==ERROR== Target process 77 terminated before first instrumented API call.", "never_started"),
        ("bash: ncu: command not found", "not_installed"),
        ("==ERROR== The application returned an error code (1).", "program_failed"),
        ("==ERROR== Something new", "profiler_error"),
        ('==PROF== Profiling "k" - 0: 0%....100% - 10 passes', "none"),
        ("hello", "unknown"),
    ],
)
def test_a_failed_collection_is_classified_with_its_remedy(tmp_path: Path, line: str, cause: str) -> None:
    report = check_log(write(tmp_path / "ncu.log", f"app starts\n{line}\napp ends\n"))
    assert report.extra["cause"] == cause
    assert report.extra["remedy"]


def test_the_root_cause_comes_before_its_consequence(tmp_path: Path) -> None:
    log = "==ERROR== ERR_NVGPUCTRPERM - no permission\n==WARNING== No kernels were profiled.\n"
    report = check_log(write(tmp_path / "ncu.log", log))
    assert [r[0] for r in report.tables["causes"].rows] == ["counter_permission", "no_kernels"]
    assert report.extra["needs_person"] is True


def test_a_blocker_in_the_digest_folder_is_a_sound_digest(tmp_path: Path) -> None:
    log = write(tmp_path / "ncu.log", "==ERROR== ERR_NVGPUCTRPERM\n")
    assert run("check-log", str(log), "--out", f"{tmp_path}/v3/").exit_code == 0
    assert lint_digest(tmp_path / "v3") == []


def test_every_failure_has_a_remedy_and_a_unique_name() -> None:
    assert len({f.id for f in failures()}) == len(failures())
    assert all(f.remedy and f.title for f in failures())


@pytest.mark.parametrize("purpose", PURPOSES)
def test_a_plan_is_one_command_with_clock_cache_and_children(purpose: str) -> None:
    words = shlex.split(plan("rms_norm", purpose=purpose, skip=3, program="python3 'my run.py'").extra["command"])
    for option, value in (
        ("--clock-control", "base"),
        ("--cache-control", "all"),
        ("--target-processes", "all"),
        ("--launch-skip", "3"),
    ):
        assert words[words.index(option) + 1] == value
    assert words[words.index("--kernel-name") + 1] == "regex:rms_norm"
    assert words[-2:] == ["python3", "my run.py"]
    assert ("--import-source" in words) == (purpose == "source")


def test_a_plan_without_a_kernel_leaves_collectives_out() -> None:
    assert "nccl" in plan().extra["command"]
    with pytest.raises(UsageFault):
        plan(purpose="everything")
    with pytest.raises(UsageFault):
        plan(count=0)


def test_plan_takes_the_program_after_two_dashes() -> None:
    done = run(
        "plan",
        "--kernel",
        "k",
        "--for",
        "quick",
        "--graph",
        "--format",
        "json",
        "--",
        "python3",
        "run.py",
        "--set",
        "x",
    )
    assert json.loads(done.stdout)["command"].endswith("python3 run.py --set x")
    assert "--graph-profiling node" in json.loads(done.stdout)["command"]


def test_text_pages_go_through_the_same_door(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", text_page(Kernel("gemm"), {SPEED_OF_LIGHT: sol_rows("20.00", "80.00", "80.00")}))
    data = json.loads(run("digest", str(path), "--format", "json").stdout)
    assert data["kernels"][0]["class"] == "bound(dram)"
    assert data["kernels"][0]["borderline"]
    assert "BORDERLINE" in {f["code"] for f in data["findings"]}
