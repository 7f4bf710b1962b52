"""Checks on a stored digest: exactly one next edit, and what every digest must state."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.errors import ForgeError, InputUnusable

JSON_NAME, TEXT_NAME, BLOCKER_NAME = "digest.json", "digest.md", "blocker.md"
_KINDS = ("edit", "collect", "none")
_EDIT_LINE = re.compile(r"^\W*Next edit: (?P<edit>.+)$", re.MULTILINE)


def lint_digest(folder: str | Path) -> list[str]:
    """What is wrong with a digest folder (`digest.json`, `digest.md`, or `blocker.md` where NCU could not run).

    Empty when it is sound. Raises nothing on a damaged folder: what is damaged is said.
    """
    place = Path(folder)
    if (place / BLOCKER_NAME).is_file() and not (place / JSON_NAME).exists():
        said = (place / BLOCKER_NAME).read_text(encoding="utf-8", errors="replace")
        return [] if "Remedy:" in said else [f"{BLOCKER_NAME} names no remedy"]
    try:
        data = jsonio.read_json(place / JSON_NAME)
    except ForgeError as exc:
        return [str(exc.what)] if isinstance(exc, InputUnusable) else [str(exc)]
    problems = _json_problems(data)
    text = place / TEXT_NAME
    if not text.is_file():
        return [*problems, f"{TEXT_NAME} is missing"]
    lines = _EDIT_LINE.findall(text.read_text(encoding="utf-8", errors="replace"))
    if len(lines) != 1:
        problems.append(f"{TEXT_NAME} holds {len(lines)} lines `Next edit:`, exactly one is needed")
    return problems


def _json_problems(data: Any) -> list[str]:
    if not isinstance(data, dict):
        return [f"{JSON_NAME} is no object"]
    report: dict[str, Any] = data  # pyright: ignore[reportUnknownVariableType]
    edit = report.get("next_edit")
    if not isinstance(edit, dict):
        return ["next_edit is not exactly one object"]
    step: dict[str, Any] = edit  # pyright: ignore[reportUnknownVariableType]
    problems = [
        f"next_edit has no {k}" for k in ("kind", "edit", "why", "verify_command", "stop_if") if not step.get(k)
    ]
    if step.get("kind") not in _KINDS:
        problems.append(f"next_edit.kind is {step.get('kind')!r}, not one of {', '.join(_KINDS)}")
    metric: dict[str, Any] = step.get("metric") or {}
    if step.get("kind") == "edit" and not metric.get("name"):
        problems.append("the edit cites no metric")
    if not report.get("kernels"):
        problems.append("no kernels")
    if "comparison" not in report:
        problems.append("no key `comparison`")
    return problems
