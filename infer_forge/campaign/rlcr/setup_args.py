"""Words for the set-up script, parsed and judged as it does: unknown flags, two plans, efforts, limits."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, cast

from infer_forge.campaign.rlcr.model import PLAN, rules_data

_MODEL = re.compile(r"^[A-Za-z0-9._/-]+$")


@dataclass
class SetupArgs:
    """What the words say. `faults`: for these the script itself refuses."""

    plan: str | None = None
    flags: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    faults: list[str] = field(default_factory=list[str])

    @property
    def limit(self) -> int:
        """Rounds at the most."""
        given = self.flags.get("--max")
        return int(given) if given and given.isdigit() else int(rules_data()["default_max"])

    @property
    def base(self) -> str | None:
        """The base branch that was named."""
        return self.flags.get("--base-branch")

    @property
    def tracked_plan(self) -> bool:
        """Whether the plan is meant to be tracked by git."""
        return "--track-plan-file" in self.flags

    def expected(self) -> dict[str, str]:
        """State field -> value that these words make."""
        table = cast("dict[str, dict[str, Any]]", rules_data()["setup_flags"])
        made: dict[str, str] = {}
        for flag, value in self.flags.items():
            entry = table[flag]
            if entry.get("field"):
                made[str(entry["field"])] = str(entry["sets"]) if "sets" in entry else str(value)
        if model := self.flags.get("--codex-model"):
            name, _, effort = model.partition(":")
            made["codex_model"] = name
            if effort:
                made["codex_effort"] = effort
        if self.plan and "--skip-impl" not in self.flags:
            made["plan_file"] = self.plan
        return made


def _check_value(args: SetupArgs, flag: str, kind: str, value: str) -> None:
    data = rules_data()
    if kind == "int" and not re.fullmatch(r"\d{1,9}", value):
        args.faults.append(f"{flag} takes a whole number, not {value!r}")
    elif flag == "--full-review-round" and int(value) < int(data["min_full_review"]):
        args.faults.append(f"{flag} must be {data['min_full_review']} or more, not {value}")
    elif kind == "model":
        name, _, effort = value.partition(":")
        if not _MODEL.match(name):
            args.faults.append(f"{flag}: {name!r} is no model name")
        if effort and effort not in data["efforts"]:
            args.faults.append(f"{flag}: effort {effort!r} is none of {', '.join(data['efforts'])}")


def parse(words: list[str]) -> SetupArgs:
    """Parse the words behind the script's name; without words, those of the campaign (A95)."""
    args, table = SetupArgs(), cast("dict[str, dict[str, Any]]", rules_data()["setup_flags"])
    rest, positional = list(words), None
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            if positional is not None:
                args.faults.append(f"a second plan {word!r}")
            positional = word
            continue
        if word not in table:
            args.faults.append(f"unknown option {word}")
            continue
        kind = table[word].get("value")
        if kind and not rest:
            args.faults.append(f"{word} needs a value")
            continue
        value = rest.pop(0) if kind else None
        args.flags[word] = value
        if kind and value is not None:
            _check_value(args, word, str(kind), value)
    named = args.flags.get("--plan-file")
    if named and positional:
        args.faults.append("a plan both as a word and with --plan-file")
    args.plan = positional or named
    if args.plan is None and "--skip-impl" not in args.flags:
        args.faults.append("no plan is named")
    return args


def default_words(base: str | None = None) -> list[str]:
    """The words that a campaign starts its loop with (A93, A95)."""
    return [PLAN, "--yolo", *(["--base-branch", base] if base else [])]
