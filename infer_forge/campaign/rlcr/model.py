"""Types of the loop doctor: one answer of a rule, what the runtime itself would say, and the case that is looked at."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base.resources import load_yaml
from infer_forge.campaign.gates import FAIL, NA, PASS, UNKNOWN

if TYPE_CHECKING:
    from infer_forge.campaign.book import Campaign
    from infer_forge.campaign.rlcr.loops import Loop
    from infer_forge.campaign.rlcr.memory import Memory
    from infer_forge.campaign.rlcr.setup_args import SetupArgs
    from infer_forge.campaign.rlcr.tree import Tree

MOMENTS = ("before", "after", "round", "end")
"""When the doctor looks."""

PLAN = ".humanize/sglang-sota-agent/refined-plan.md"
"""Where the refined plan stands in the checkout (A77)."""


def rules_data() -> dict[str, Any]:
    """Content of `references/rlcr.yaml`."""
    return load_yaml("references/rlcr.yaml")


@dataclass(frozen=True)
class Seen:
    """What a rule saw.

    Attributes:
        result: pass, fail, unknown or n/a.
        refused: whether Humanize's own set-up script refuses for this reason too.
    """

    result: str
    evidence: str
    fix: str = ""
    refused: bool = False


def good(evidence: str) -> Seen:
    """It holds."""
    return Seen(PASS, evidence)


def wrong(evidence: str, fix: str, *, refused: bool = False) -> Seen:
    """It does not hold."""
    return Seen(FAIL, evidence, fix, refused)


def unclear(evidence: str, fix: str = "") -> Seen:
    """It could not be seen."""
    return Seen(UNKNOWN, evidence, fix)


def absent(why: str) -> Seen:
    """It does not apply."""
    return Seen(NA, why)


@dataclass(frozen=True)
class Check:
    """A rule's answer, as the report prints it."""

    rule: str
    moment: str
    says: str
    result: str
    evidence: str
    fix: str
    refused: bool


@dataclass
class Case:
    """What the doctor looks at: a checkout, the words for the set-up script, the environment, and the campaign if there is one."""

    checkout: Path
    words: list[str] = field(default_factory=list[str])
    campaign: Campaign | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    home: Path | None = None
    setup_rc: int | None = None

    @cached_property
    def tree(self) -> Tree:
        """The checkout as git tells it."""
        from infer_forge.campaign.rlcr.tree import look

        return look(self.checkout)

    @cached_property
    def loops(self) -> list[Loop]:
        """Every loop folder, oldest first."""
        from infer_forge.campaign.rlcr.loops import loops_in

        return loops_in(self.checkout)

    @cached_property
    def args(self) -> SetupArgs:
        """The set-up words, parsed as the script does it."""
        from infer_forge.campaign.rlcr.setup_args import parse

        return parse(self.words)

    @cached_property
    def memory(self) -> Memory:
        """What earlier looks saw."""
        from infer_forge.campaign.rlcr.memory import Memory, place_of

        return Memory(place_of(self.checkout, self.campaign))

    @property
    def user_home(self) -> Path:
        """The user's folder."""
        return self.home or Path(self.environ.get("HOME") or "~").expanduser()

    @property
    def loop(self) -> Loop | None:
        """The loop in question: the active one, else the newest."""
        active = [item for item in self.loops if item.active]
        return (active or self.loops)[-1] if self.loops else None


Rule = Callable[[Case], Seen]
