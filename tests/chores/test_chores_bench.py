"""The page of benchmarks names every goal, and a run changes its own rows only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benches import Row
from chores import bench, bench_page

ROOT = Path(__file__).resolve().parents[2]

EXACT = Row("sum of the kernel table", "exact to the nanosecond", 0, "ns", "naive sum", True)
HELP = Row("infer-forge --help", "at most 100 ms", 140.0, "ms", "", False)
TRIAGE = Row("infer-forge triage none.json", "at most 200 ms", None, "ms", "", None, "no clock")


def lines_of(page: Path, name: str) -> list[str]:
    return [line for line in page.read_text().splitlines() if line.startswith(f"| {name} |")]


def test_every_benchmark_has_its_goals_and_the_page_is_what_its_rows_say() -> None:
    assert bench.faults() == []


def test_a_goal_that_nobody_measured_stands_on_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    bench_page.update(page, {})
    for name, rows in bench_page.goals().items():
        assert len(lines_of(page, name)) == len(rows)
    assert all("| not measured |" in line for line in lines_of(page, "profile.start"))


def test_a_second_run_changes_its_own_rows_and_keeps_the_others_with_their_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setattr(bench_page, "machine", lambda: "an old machine")
    bench_page.update(page, {"profile.exact": [EXACT], "profile.start": [HELP, TRIAGE]})
    before = lines_of(page, "profile.exact")
    assert "| yes |" in before[0]
    assert ["| NO |" in line for line in lines_of(page, "profile.start")] == [True, False]
    monkeypatch.setattr(bench_page, "machine", lambda: "a new machine")
    bench_page.update(page, {"profile.start": [Row(HELP.work, HELP.goal, 60.0, "ms", "", True), TRIAGE]})
    assert lines_of(page, "profile.exact") == before
    assert "| yes |" in lines_of(page, "profile.start")[0]
    assert "[1] an old machine" in page.read_text()
    assert "[2] a new machine" in page.read_text()


def test_rows_that_are_not_those_of_the_goals_are_told() -> None:
    assert bench_page.strayed("profile.exact", [EXACT]) == ""
    assert "goals.yaml says" in bench_page.strayed("profile.exact", [HELP])
    assert "goals.yaml says" in bench_page.strayed("profile.start", [HELP])


def test_the_command_puts_what_it_measured_on_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    argv = [sys.executable, "-m", "chores.bench", "profile.exact", "--out", str(page)]
    done = subprocess.run(argv, cwd=ROOT / "scripts", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (line,) = lines_of(page, "profile.exact")
    assert "| 0 | ns | yes |" in line


def test_what_is_measured_finds_its_bytecode_whatever_the_caller_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("INFER_FORGE_HOME", "put back afterwards")
    monkeypatch.setattr(sys, "argv", ["bench", "profile.exact"])
    seen: list[str | None] = []

    def measured() -> list[Row]:
        seen.append(os.environ.get("PYTHONDONTWRITEBYTECODE"))
        return [EXACT]

    monkeypatch.setattr(bench, "found", lambda: {"profile.exact": measured})
    with pytest.raises(SystemExit) as ended:
        bench.main()
    assert ended.value.code == 0
    assert seen == [None]


def test_the_memory_of_several_runs_is_the_largest_and_the_time_the_least() -> None:
    from benches import profile

    runs = iter([(2.0, 100.0), (1.0, 90.0), (3.0, 300.0)])
    assert profile._best(lambda: next(runs), 3) == (1.0, 300.0)  # pyright: ignore[reportPrivateUsage]
