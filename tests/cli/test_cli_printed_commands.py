"""Commands that the library prints exist, and what they cannot run without stands in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from chores.printed_commands import commands_of, faults, lacking

PLACES = (
    "infer_forge/tasks",
    "infer_forge/journal",
    "infer_forge/cli/task",
    "infer_forge/cli/journal",
    "infer_forge/nodes",
    "infer_forge/bench",
)
"""Where a command that is named is one to type: nothing is named in short there."""


@pytest.mark.parametrize("place", PLACES)
def test_every_printed_command_can_be_typed(place: str) -> None:
    assert faults(place) == []


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("infer-forge task block open T", "lacks --sub-target, --exit"),
        ("infer-forge task block open T --sub-target TEXT --exit", "--exit has no value"),
        ("infer-forge task block open T --sub-target=a --exit=b", None),
        ("infer-forge task record T -- sh -c true", None),
        ("infer-forge task record T", "lacks operands: 1 of 2"),
        ("infer-forge task list shows them", None),
        ("infer-forge task status", "lacks operands: 0 of 1"),
        ("infer-forge task edit T --help", None),
        ("infer-forge graph mark N active", None),
        ("infer-forge task list --newest", "list has no option --newest"),
        ("infer-forge task-new", "there is no command 'task-new'"),
    ],
)
def test_a_printed_command_that_cannot_be_typed_is_found(command: str, why: str | None) -> None:
    assert lacking(command) == why


def test_each_way_that_a_text_may_read_is_looked_at_and_docstrings_are_not(tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    file.write_text(
        '"""See `infer-forge nowhere`."""\n'
        "a = f\"infer-forge task {'start' if x else 'resume'} {y}, or infer-forge task list shows them\"\n"
        "b = 'what infer-forge keeps'\n"
    )
    assert [c for _, c in commands_of(file)] == [
        "infer-forge task start VALUE",
        "infer-forge task list shows them",
        "infer-forge task resume VALUE",
        "infer-forge task list shows them",
    ]
