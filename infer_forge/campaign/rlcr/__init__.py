"""The RLCR loop of Humanize 1.16 and 1.17: its files read, its start, rounds and end judged by rules of our own."""

from typing import TYPE_CHECKING

from infer_forge.base.lazy import attach

if TYPE_CHECKING:
    from infer_forge.campaign.rlcr.doctor import examine
    from infer_forge.campaign.rlcr.loops import loops_in, parse_state
    from infer_forge.campaign.rlcr.model import PLAN
    from infer_forge.campaign.rlcr.pages import parse_tracker
    from infer_forge.campaign.rlcr.plan_input import input_faults

__all__ = ["PLAN", "examine", "input_faults", "loops_in", "parse_state", "parse_tracker"]

__getattr__, __dir__ = attach(
    __name__,
    {
        "PLAN": "model",
        "examine": "doctor",
        "input_faults": "plan_input",
        "loops_in": "loops",
        "parse_state": "loops",
        "parse_tracker": "pages",
    },
)
