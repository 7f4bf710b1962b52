"""Locks, ledgers and records are refs of a git store: no git command of a run changes them, reading stays free."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.paths import paths


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A bare store where stores of records lie."""
    place = paths().stores / "tasks.git"
    subprocess.run(["git", "init", "-q", "--bare", str(place)], check=True)
    return place


@pytest.mark.parametrize(
    "command",
    [
        "git -C {0} update-ref refs/tasks/x HEAD",
        "GIT_DIR={0} git update-ref refs/heads/a b",
        "cd {0} && git update-ref refs/a b",
        "git --git-dir={0} symbolic-ref HEAD refs/x",
        "git -C {0} fetch /tmp/a '+refs/*:refs/*'",
        "git --git-dir {0} config gc.auto 1",
        "git --git-dir={0} hash-object -w --stdin",
        "git push {0} HEAD:refs/tasks/x",
    ],
)
def test_a_git_command_that_writes_into_a_store_of_records_is_denied(check: Any, store: Path, command: str) -> None:
    assert check(command.format(store)).verdict == "deny"


def test_a_store_of_records_may_be_read_with_git(check: Any, store: Path) -> None:
    for command in ("git -C {0} log --oneline", "git --git-dir={0} cat-file -p HEAD", "git -C {0} for-each-ref"):
        assert check(command.format(store)).verdict == "allow", command
