"""Three populations: what GPU hosts must not see, forms of one foreign delete, and ordinary work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from guard_forms import FORMS
from guard_ordinary import ORDINARY

from infer_forge.guard import policy
from infer_forge.guard.context import from_dict
from infer_forge.guard.decide import check_with


def test_every_form_of_one_foreign_delete_is_stopped(check: Any) -> None:
    passed = [form for form in FORMS if check(form).verdict == "allow"]
    assert len(set(FORMS)) >= 60
    assert passed == []


def test_most_forms_are_denied_hard_not_only_asked_about(check: Any) -> None:
    asked = [form for form in FORMS if check(form).verdict == "ask"]
    assert len(asked) <= len(FORMS) // 8


def test_at_most_one_in_a_hundred_ordinary_commands_is_not_allowed(check: Any, project: dict[str, Any]) -> None:
    assert len(set(ORDINARY)) >= 600
    stopped = [c for c in ORDINARY if check(c, **project).verdict != "allow"]
    assert len(stopped) <= len(ORDINARY) // 100, stopped


def test_gpu_host_commands_get_the_verdict_that_they_deserve(corpus: Path) -> None:
    base = json.loads((corpus / "guard" / "default_context.json").read_text())
    made = policy.compile_policy(keep=False)
    wrong: dict[str, list[str]] = {"allow": [], "ask": [], "deny": []}
    for line in (corpus / "guard" / "domain.jsonl").read_text().splitlines():
        row = json.loads(line)
        context = {**base, **row["context"]} if isinstance(row.get("context"), dict) else base
        got = check_with(row["command"], from_dict(context), made).verdict
        if got == "allow" if row["expected"] == "ask" else got != row["expected"]:
            wrong[row["expected"]].append(row["id"])
    assert wrong["deny"] == []
    assert wrong["ask"] == []
    assert len(wrong["allow"]) <= 1


@pytest.mark.parametrize("form", [f for f in FORMS[:14] if "sudo" not in f])
def test_the_same_forms_on_an_owned_folder_pass(check: Any, form: str) -> None:
    assert check(form.replace("/data/runs/run-xyz", "/data/runs/run-abc/old")).verdict == "allow"
