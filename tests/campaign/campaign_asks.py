"""What tests of gates ask: is it refused and nothing recorded; what does a gate answer now."""

from __future__ import annotations

from typing import Any

import pytest

from infer_forge.campaign import open_campaign
from infer_forge.campaign.gates import look
from tests.campaign.campaign_agent import Agent, Refused


def refused(agent: Agent, match: str, kind: str, /, **data: Any) -> None:
    """Recording it is refused, with these words, and the ledger stays as it was."""
    ledger = agent.run / "humanize" / "ledger.jsonl"
    before = ledger.read_bytes()
    with pytest.raises(Refused, match=match):
        agent.record(kind, **data)
    assert ledger.read_bytes() == before


def answer_of(agent: Agent, gate: str) -> tuple[str, str]:
    """A gate's result and evidence now."""
    found = look(open_campaign(agent.run), gate)
    return found.result, found.evidence
