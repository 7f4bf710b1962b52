"""Loop folders and their state files: `.humanize/rlcr/<time>/` read as the hook reads it, line by line and never as YAML."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from infer_forge.campaign.rlcr.model import rules_data

LARGEST_BYTES = 4 << 20
"""A file of a loop that is larger is read only so far."""

_LINE = re.compile(r"^([A-Za-z_][A-Za-z0-9_]*):[ \t]*(.*?)[ \t]*$")
_NUMBERED = re.compile(r"^round-(\d{1,6})-(prompt|contract|summary|review-prompt|review-result)\.md$")


def text_of(path: Path) -> str | None:
    """A file's text with bad bytes replaced; None when it is not there or cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_BYTES).decode("utf-8", "replace").replace("\r\n", "\n")
    except OSError:
        return None


@dataclass
class State:
    """A state file's fields as written, and what is wrong with them."""

    path: Path
    raw: dict[str, str] = field(default_factory=dict[str, str])
    faults: list[str] = field(default_factory=list[str])
    extra: list[str] = field(default_factory=list[str])

    def number(self, name: str) -> int | None:
        """An integer field; None when it is missing or no integer."""
        value = self.raw.get(name, "")
        return int(value) if re.fullmatch(r"\d{1,9}", value) else None

    def flag(self, name: str) -> bool | None:
        """A boolean field; None when it is missing or neither."""
        return {"true": True, "false": False}.get(self.raw.get(name, ""))

    def text(self, name: str) -> str:
        """A text field; empty when missing."""
        return self.raw.get(name, "")


def _field_fault(name: str, value: str, wanted: dict[str, Any]) -> str | None:
    if value == "":
        return None if wanted.get("empty") else f"{name} is empty"
    kind = wanted["type"]
    if kind == "bool" and value not in ("true", "false"):
        return f"{name} is {value!r}, neither true nor false"
    if kind == "int" and (not re.fullmatch(r"\d{1,9}", value) or int(value) < int(wanted.get("min", 0))):
        return f"{name} is {value!r}, no whole number from {wanted.get('min', 0)} on"
    if "one_of" in wanted and value not in wanted["one_of"]:
        return f"{name} is {value!r}, none of {', '.join(wanted['one_of'])}"
    if "pattern" in wanted and not re.search(wanted["pattern"], value):
        return f"{name} is {value!r}"
    return None


def parse_state(text: str, path: Path) -> State:
    """Fields between the first two `---` lines; every fault is named, none is raised."""
    state = State(path)
    lines = text.split("\n")
    if not lines or lines[0].strip() != "---":
        state.faults.append("does not begin with ---")
        return state
    end = next((i for i, line in enumerate(lines[1:], 1) if line.strip() == "---"), None)
    if end is None:
        state.faults.append("has no closing ---: it is cut off")
        end = len(lines)
    for line in lines[1:end]:
        found = _LINE.match(line)
        if found and found[1] not in state.raw:
            state.raw[found[1]] = found[2]
        elif found:
            state.faults.append(f"{found[1]} stands twice")
    fields = cast("dict[str, dict[str, Any]]", rules_data()["state_fields"])
    for name, wanted in fields.items():
        if name not in state.raw:
            state.faults.append(f"{name} is missing")
        elif fault := _field_fault(name, state.raw[name], wanted):
            state.faults.append(fault)
    state.extra = [n for n in state.raw if n not in fields]
    return state


@dataclass(frozen=True)
class Loop:
    """One loop folder."""

    folder: Path

    @cached_property
    def names(self) -> list[str]:
        """Names of its files."""
        try:
            return sorted(p.name for p in self.folder.iterdir())
        except OSError:
            return []

    @property
    def active(self) -> str | None:
        """The active state file by precedence; None when the loop has ended."""
        return next((n for n in rules_data()["active"] if n in self.names), None)

    @property
    def active_names(self) -> list[str]:
        """Every active state file."""
        return [n for n in rules_data()["active"] if n in self.names]

    @property
    def terminals(self) -> list[str]:
        """Every terminal state file."""
        return [n for n in rules_data()["terminal"] if n in self.names]

    @property
    def ended_as(self) -> str | None:
        """complete, stop, maxiter, cancel or unexpected; None while it runs."""
        return rules_data()["terminal"][self.terminals[0]] if self.terminals and not self.active else None

    @property
    def state_file(self) -> Path | None:
        """The state file that counts: the active one, else the terminal one."""
        name = self.active or next(iter(self.terminals), None)
        return self.folder / name if name else None

    @cached_property
    def state(self) -> State | None:
        """Its parsed state; None when there is no state file."""
        place = self.state_file
        text = text_of(place) if place else None
        return parse_state(text, place) if place and text is not None else None

    @property
    def round(self) -> int | None:
        """The current round; None when the state does not tell."""
        return self.state.number("current_round") if self.state else None

    def file(self, number: int, what: str) -> Path:
        """`round-N-WHAT.md`."""
        return self.folder / f"round-{number}-{what}.md"

    def numbers(self, what: str) -> list[int]:
        """Rounds that have a file of this kind, in order."""
        found = (_NUMBERED.match(n) for n in self.names)
        return sorted(int(m[1]) for m in found if m and m[2] == what)

    def text(self, name: str) -> str | None:
        """A file's text."""
        return text_of(self.folder / name)

    @property
    def build_finish_round(self) -> int | None:
        """The round in which implementation ended and review began; None before, or when the marker does not tell."""
        found = re.search(r"build_finish_round=(\d+)", self.text(".review-phase-started") or "")
        return int(found[1]) if found else None


def loops_in(checkout: Path) -> list[Loop]:
    """Every folder under `.humanize/rlcr`, oldest first; Humanize itself looks only at the newest."""
    base = checkout / ".humanize" / "rlcr"
    try:
        folders = sorted(p for p in base.iterdir() if p.is_dir())
    except OSError:
        return []
    return [Loop(p) for p in folders]
