"""Rules of the audit (`references/kernel_task_rules.yaml`): severity, text, what to do."""

from __future__ import annotations

from functools import cache
from typing import Any

from infer_forge.base.resources import load_yaml

RULES = "references/kernel_task_rules.yaml"


@cache
def all_rules() -> dict[str, dict[str, Any]]:
    """Rule id -> rule."""
    return {rule["id"]: rule for rule in load_yaml(RULES)["rules"]}


def data() -> dict[str, Any]:
    """The whole rule file: flags, intrinsics and source patterns too."""
    return load_yaml(RULES)


def severity(rule: str) -> str:
    """`void`, `suspect` or `note`; a rule that the file does not know is void, so that nothing passes by a typing error."""
    found = all_rules().get(rule)
    return found["severity"] if found is not None else "void"
