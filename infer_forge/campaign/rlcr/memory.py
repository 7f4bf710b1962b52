"""What earlier looks at a loop saw, in an append-only chain: the loop's own files say only what is now."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base import jsonio
from infer_forge.base.ledger import Ledger
from infer_forge.base.paths import paths
from infer_forge.campaign.rlcr.loops import Loop
from infer_forge.campaign.rlcr.pages import parse_tracker

if TYPE_CHECKING:
    from infer_forge.campaign.book import Campaign


def place_of(checkout: Path, campaign: Campaign | None) -> Path:
    """The chain of a checkout: in the campaign's run directory, else in infer-forge's own state."""
    if campaign is not None:
        return campaign.layout.run / "humanize" / "rlcr-looks.jsonl"
    return paths().state / "rlcr" / f"{jsonio.sha256_of(str(checkout.resolve()))[:16]}.jsonl"


@dataclass(frozen=True)
class Memory:
    """The looks of one checkout."""

    path: Path

    @cached_property
    def looks(self) -> list[dict[str, Any]]:
        """Every look, oldest first."""
        return [entry.body for entry in Ledger(self.path).entries("look")]

    def of(self, loop: Loop) -> list[dict[str, Any]]:
        """Looks at this loop."""
        return [look for look in self.looks if look["loop"] == loop.folder.name]

    def add(self, loop: Loop, moment: str, head: str | None) -> None:
        """Keep this look."""
        plan, tracker = loop.text("plan.md"), parse_tracker(loop.text("goal-tracker.md") or "")
        settled = bool(tracker.immutable) and (bool(loop.round) or not tracker.unfilled)
        body = {
            "loop": loop.folder.name,
            "moment": moment,
            "file": loop.state_file.name if loop.state_file else None,
            "round": loop.round,
            "plan_sha256": jsonio.sha256_of(plan) if plan is not None else None,
            "immutable_sha256": tracker.sha256 if settled else None,
            "head": head,
        }
        last = self.of(loop)[-1:]
        if not last or {**last[0], "moment": moment} != body:
            Ledger(self.path).append("look", body)
            self.__dict__.pop("looks", None)
