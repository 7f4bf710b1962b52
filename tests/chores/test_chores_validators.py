"""A validator that is skipped is skipped for its own reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from chores import validators


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("echo 2025-11-25", "is too old to know 2026-07-28"),
        ("echo '2025-11-25 2026-07-28'", ""),
        ("echo 'file:1' >&2; echo 'SyntaxError: no such export' >&2; echo 'Node.js v20' >&2; exit 1",
         "does not run here: SyntaxError: no such export"),
        ("exit 1", "does not run here: it says nothing"),
    ],
)  # fmt: skip
def test_a_program_that_does_not_run_is_not_called_too_old(body: str, reason: str, tmp_path: Path) -> None:
    program = tmp_path / "conformance"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    assert validators._lacks("conformance", str(program)) == reason  # pyright: ignore[reportPrivateUsage]
