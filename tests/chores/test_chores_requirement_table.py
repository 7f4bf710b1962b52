"""The requirement table: every row is held by a test that is there, and what points at nothing is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from chores.requirement_names import gates
from chores.requirement_table import COUNTS, PAGE, ROWS, holder, row_faults, table
from infer_forge.campaign.gates import rules

NAMES = {"whole": "tests/campaign/test_campaign_whole.py", "walk": "tests/campaign/test_campaign_gone.py"}
PATCH = "tests/campaign/test_campaign_gates_loop.py::test_where_nothing_is_behind_nothing_is_patched"
TEST = "whole::test_next_names_exactly_one_step_at_every_station"


def told(*words: str) -> list[str]:
    """Faults of a row with these holders."""
    return row_faults([holder(w, NAMES) for w in words])


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ((TEST,), None),
        (("rule A104", PATCH), None),
        (("rule A104", TEST), "no test of it names gate A104"),
        (("docs/index.md#work-types", "check docs", "command campaign next", TEST), None),
        (("n/a: whether a team hires somebody is no matter of code",), None),
        ((), "nothing holds it"),
        (("whole",), "is a whole file of tests"),
        (("rule A104",), "no test is named"),
        (("docs/index.md", "command campaign next"), "no test is named"),
        (("whole::test_that_nobody_wrote",), "has no test test_that_nobody_wrote"),
        (("walk::test_x",), "test_campaign_gone.py is not there"),
        (("rule A999", TEST), "no gate A999"),
        (("docs/index.md#nothing-of-it", TEST), "has no heading #nothing-of-it"),
        (("docs/none.md", TEST), "docs/none.md is not there"),
        (("command campaign dance", TEST), "no subcommand 'dance'"),
        (("command campaign next --dance", TEST), "no option --dance"),
        (("check dance", TEST), "no step dance"),
        (("n/a: no code",), "n/a without a reason"),
        (("n/a: it is no matter of code", TEST), "tested and not applicable at once"),
    ],
)
def test_a_row_is_held_by_a_test_or_argued(words: tuple[str, ...], fault: str | None) -> None:
    faults = told(*words)
    assert (fault is None) == (faults == []), faults
    assert fault is None or any(fault in f for f in faults)


def test_the_gates_read_from_the_source_are_those_that_run() -> None:
    assert gates() == set(rules())


def test_the_page_holds_every_row_and_is_what_the_rows_give() -> None:
    data: dict[str, Any] = yaml.safe_load(ROWS.read_text(encoding="utf-8"))
    page, faults, counts = table(data)
    assert faults == []
    assert page == PAGE.read_text(encoding="utf-8")
    assert sum(counts[k] for k in ("test", "n/a")) == sum(COUNTS.values()) == 308
    unused = set(data["names"]) - {str(w).partition("::")[0] for row in data["rows"].values() for w in row[1:]}
    assert unused == set()


def test_a_row_that_is_gone_or_unknown_is_told() -> None:
    data: dict[str, Any] = yaml.safe_load(ROWS.read_text(encoding="utf-8"))
    data["rows"]["A999"] = ["x", TEST]
    del data["rows"]["A1"]
    faults = table(data)[1]
    assert "A1: no row" in faults
    assert "A999: unknown" in faults


def test_the_check_is_run_and_quick(project_root: Path) -> None:
    from chores.check import STEPS

    assert [sys.executable, "-m", "chores.requirement_table", "--check"] in STEPS["docs"]
    import resource

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    argv = [sys.executable, "-m", "chores.requirement_table", "--check"]
    done = subprocess.run(argv, cwd=project_root / "scripts", capture_output=True, text=True, timeout=200)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stdout
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2.0
