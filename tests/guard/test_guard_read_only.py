"""The read-only profile of an online diagnosis: reading passes, everything else is denied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base import ownership
from infer_forge.guard import tools
from infer_forge.guard.judge import check

CONTEXT: dict[str, Any] = {"profile": "read_only", "owned_paths": ["/tmp/run1"], "cwd": "/tmp/run1"}


@pytest.mark.parametrize(
    "command",
    [
        "ls -la",
        "cat x | grep y > /tmp/run1/out",
        "sed -n 1,3p f",
        "curl http://host/metrics",
        "curl -so /dev/null http://host",
        "kubectl get pods -n x",
        "nvidia-smi -q",
        "timeout 5 ls",
        "bash -c 'ls; df'",
        "infer-forge task status T",
    ],
)
def test_reading_passes(command: str) -> None:
    assert check(command, CONTEXT).verdict == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "cat x > /etc/y",
        "rm /tmp/run1/x",
        "sed -i s/a/b/ f",
        "sed -n 'w out' f",
        "curl -X POST http://host/flush",
        "curl -O http://host/file",
        "kubectl delete pod x",
        "python x.py",
        "find . -delete",
        "bash -c 'touch x'",
        "infer-forge task record T -- rm x",
        "kill 7",
        "tee x",
        "timeout 5 touch x",
        "env touch x",
    ],
)
def test_what_is_not_known_to_read_is_denied(command: str) -> None:
    assert check(command, CONTEXT).verdict == "deny"


def test_no_grant_lifts_it() -> None:
    grant = {"action": "diagnosis.write", "target": "*", "until": 4e9, "by": "ann"}
    assert check("touch x", {**CONTEXT, "grants": [grant]}).verdict == "deny"


def test_the_run_carries_the_profile_and_edits_are_denied_too(tmp_path: Path) -> None:
    from infer_forge.guard.policy import compile_policy

    compile_policy(str(tmp_path), person=True)
    with ownership.editing() as run:
        run.profile = "read_only"
    assert json.loads(Path(ownership.ownership_file()).read_text())["runs"]["default"]["profile"] == "read_only"
    assert check("touch x", cwd=str(tmp_path)).rule_id == "diagnosis.write"
    verdict, rule, *_ = tools.decide("Write", {"file_path": str(tmp_path / "x"), "content": "x"}, str(tmp_path))
    assert (verdict, rule) == ("deny", "diagnosis.write")
