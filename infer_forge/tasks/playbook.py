"""Playbooks: a starting method for each task type but custom; a deviation is recorded, never forbidden (B30, B66)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from infer_forge.base import jsonio, yamlio
from infer_forge.base.config import settings
from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.resources import data_path
from infer_forge.tasks import printed
from infer_forge.tasks.model import TASK_TYPES, TaskType

_HEAD = re.compile(r"---\n(.*?)\n---\n(.*)", re.DOTALL)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StartingBlock(_Strict):
    """A loop block that work of this type usually begins with."""

    sub_target: str = Field(min_length=5)
    exit_condition: str = Field(min_length=5)
    uncertainty: Literal["low", "medium", "high"] = "medium"


class Playbook(_Strict):
    """The front matter of a playbook; the Markdown below it is for whoever works.

    Attributes:
        repositories, skills, commands: where to look and what to use; names only, a task adds and leaves out.
        verification: commands that show the acceptance. safety: limits. pitfalls: searches of the journal worth making.
    """

    type: TaskType
    title: str
    repositories: list[str] = Field(default_factory=list)
    skills: list[str] = Field(default_factory=list)
    commands: list[str] = Field(min_length=1)
    verification: list[str] = Field(min_length=1)
    safety: list[str] = Field(min_length=1)
    blocks: list[StartingBlock] = Field(min_length=1)
    pitfalls: list[str] = Field(default_factory=list)
    exit_criteria: list[str] = Field(min_length=1)
    deliverable: str
    body: str = ""
    path: str = ""
    sha256: str = ""


def read(path: Path) -> Playbook:
    """One playbook.

    Raises:
        InputUnusable: no front matter, or a field is wrong; the message names it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise InputUnusable(str(exc), where=str(path)) from None
    match = _HEAD.match(text)
    if match is None:
        raise InputUnusable("has no front matter", where=str(path), next_step="begin it with --- lines of YAML")
    try:
        fields: Any = yamlio.parse(match.group(1), where=str(path))
        return Playbook.model_validate(
            {**fields, "body": match.group(2), "path": str(path), "sha256": jsonio.sha256_file(path)}
        )
    except TypeError:
        raise InputUnusable(
            "its front matter is no YAML mapping", where=str(path), next_step="begin it with --- lines of YAML"
        ) from None
    except ValidationError as exc:
        told = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in exc.errors(include_url=False)[:4])
        raise InputUnusable(told, where=str(path), next_step="mend these fields of the front matter") from None


def all_playbooks() -> dict[str, Playbook]:
    """Type -> playbook: a team's own folders (setting `playbooks`) before ours."""
    found: dict[str, Playbook] = {}
    folders = [Path(p).expanduser() for p in settings().get("playbooks")]
    for folder in [*folders, data_path("playbooks")]:
        if not folder.is_dir():
            raise InputUnusable(
                "this folder of playbooks is not there", where=str(folder), next_step="infer-forge config show"
            )
        for path in sorted(folder.glob("*.md")):
            if path.name != "README.md":
                one = read(path)
                found.setdefault(one.type, one)
    return found


def for_type(kind: str) -> Playbook:
    """The playbook of a task type.

    Raises:
        UsageFault: no such type, or it has no playbook (custom).
    """
    if kind not in TASK_TYPES:
        raise UsageFault(f"there is no task type {kind!r}", next_step=f"use one of {', '.join(TASK_TYPES)}")
    found = all_playbooks().get(kind)
    if found is None:
        raise UsageFault(f"the type {kind} has no playbook", next_step="infer-forge task new --from FILE")
    return found


def draft(kind: str, title: str, goal: str, scope: str) -> dict[str, Any]:
    """A definition in the making: what the playbook knows, and the goal and scope of the caller; acceptance is still to be said.

    Raises:
        UsageFault: no such type, it has no playbook, or the title is no title.
    """
    book = for_type(kind)
    if len(title) < 3:
        raise UsageFault(
            f"a playbook brings no title, goal, scope or acceptance: the title {title!r} has less than 3 characters",
            next_step=printed.draft(kind),
        )
    return {
        "type": kind,
        "title": title,
        "contract": {"goal": goal, "scope": scope, "verification": list(book.verification)},
        "exit_criteria": list(book.exit_criteria),
        "playbook": f"{kind}@{book.sha256[:12]}",
        "repositories": [],
        "extra": {"starting_blocks": [b.model_dump() for b in book.blocks]},
    }
