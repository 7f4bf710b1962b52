"""Profiles taken from a running server: `take(plan)`; plans are `Plan` with `Shape`s; `slow_scenario` reads a campaign's."""

from typing import TYPE_CHECKING

from infer_forge.base.lazy import attach

if TYPE_CHECKING:
    from infer_forge.capture.model import Plan, Shape
    from infer_forge.capture.scenario import slow_scenario
    from infer_forge.capture.taking import take

__all__ = ["Plan", "Shape", "slow_scenario", "take"]

__getattr__, __dir__ = attach(
    __name__, {"Plan": "model", "Shape": "model", "slow_scenario": "scenario", "take": "taking"}
)
