"""Errors say what, where and what next; lazy faces import late."""

from __future__ import annotations

import subprocess
import sys

import pytest

from infer_forge.base import errors


def test_an_error_prints_where_what_and_the_next_step() -> None:
    fault = errors.InputUnusable("is empty", where="a.json", next_step="capture again")
    assert str(fault) == "a.json: is empty\nnext: capture again"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.UsageFault, 2),
        (errors.InputUnusable, 3),
        (errors.GateRefused, 4),
        (errors.MissingPart, 5),
        (errors.HumanNeeded, 6),
        (errors.ForgeError, 1),
    ],
)
def test_each_kind_of_error_has_the_exit_code_of_the_command_line(kind: type[errors.ForgeError], code: int) -> None:
    assert kind("x").exit_code == code


def test_the_command_line_starts_without_any_heavy_package() -> None:
    heavy = [
        "numpy",
        "pandas",
        "mcp",
        "pydantic",
        "yaml",
        "orjson",
        "msgspec",
        "networkx",
        "dulwich",
        "git",
        "rich.console",
    ]
    code = f"import sys, infer_forge.cli.main; print([m for m in {heavy!r} if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
