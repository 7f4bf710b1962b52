"""What tests of gates ask: is it refused and nothing recorded; what does a gate answer now."""

from __future__ import annotations

import json
from pathlib import Path
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


def kernel_task_of(agent: Agent, kernel: str) -> Path:
    """The folder of a recorded kernel task that runs, on two shapes of the agent's idea."""
    place = agent.tmp / "rows.json"
    rows = [
        {"id": "decode-8", "params": {"m": 8, "n": 64}, "provenance": "trace of round 1"},
        {"id": "edge", "kind": "regression", "params": {"m": 1, "n": 1}},
    ]
    place.write_text(json.dumps(rows))
    agent.record("kernel_task", kernel=kernel, idea=agent.notes["idea"], rows=str(place), sources=["speed.json"])
    record = open_campaign(agent.run).last("kernel_task")
    assert record is not None
    return Path(str(record["folder"]))
