"""A budget that is used up (rounds, minutes, GPU hours) leads to a handoff, by `campaign next` alone; what a person adds counts."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from infer_forge.campaign import book, budgets, open_campaign
from infer_forge.campaign.advice import next_step
from infer_forge.campaign.book import Campaign
from infer_forge.campaign.facts import facts_of
from infer_forge.tasks.state import Task
from tests.campaign.campaign_agent import Agent
from tests.campaign.conftest import Station


def allow(patch: pytest.MonkeyPatch, **limits: int) -> None:
    """The campaign's task has these budgets, and what a person added (`more_blocks`, `more_minutes`); with `minutes` it is of 2020."""
    known = Campaign.task

    def task(self: Campaign) -> Task:
        found = known(self)
        added = {k: limits[k] for k in ("more_blocks", "more_minutes") if k in limits}
        given = {k: v for k, v in limits.items() if k not in added}
        found.created_at = "2020-01-01T00:00:00+00:00" if "minutes" in limits else found.created_at
        found.definition = {**found.definition, "budgets": {**found.definition["budgets"], **given}}
        for name, value in added.items():
            setattr(found, name, value)
        return found

    patch.setattr(Campaign, "task", task)


def contract_allows(held: Campaign, **limits: Any) -> Campaign:
    """The same campaign whose contract has these budgets."""
    assert held.contract is not None
    contract, sha256 = held.contract
    allowed = contract.budgets.model_copy(update=limits)
    held.__dict__["contract"] = (contract.model_copy(update={"budgets": allowed}), sha256)
    return held


def closed(station: Station) -> Agent:
    """One round was opened and closed."""
    agent = station("round")
    agent.record("round_close")
    return agent


def test_used_up_rounds_lead_through_the_handoff_to_its_stop(station: Station, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = closed(station)
    assert "record round-open" in next_step(open_campaign(agent.run)).command
    allow(monkeypatch, blocks=1)
    step = next_step(open_campaign(agent.run))
    assert "record blocker" in step.command
    assert step.why == "the budget of 1 rounds is used up"
    agent.record("blocker", what="the rounds are used up", tried=["one round"], needs="more rounds")
    assert "record cleanup" in next_step(open_campaign(agent.run)).command
    agent.record("cleanup")
    assert "report final" in next_step(open_campaign(agent.run)).command
    agent.report("final", code="blocked")
    words = shlex.split(next_step(open_campaign(agent.run)).command)
    assert words[1:3] == ["campaign", "stop"]
    agent.record("stop", code="blocked")
    assert open_campaign(agent.run).task().ended


def test_rounds_that_a_person_added_count_in_next_and_in_plans(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = closed(station)
    allow(monkeypatch, blocks=1, more_blocks=2)
    held = open_campaign(agent.run)
    assert "record round-open" in next_step(held).command
    assert facts_of(held).max_rounds == 3


def test_used_up_minutes_lead_to_a_handoff_unless_a_person_added_some(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = closed(station)
    held = open_campaign(agent.run)
    allow(monkeypatch, minutes=1)
    assert budgets.exhausted(held) == "the task's budget of 1 minutes is used up"
    assert "record blocker" in next_step(held).command
    allow(monkeypatch, minutes=1, more_minutes=10**8)
    assert budgets.exhausted(held) is None
    assert "record round-open" in next_step(held).command


@pytest.mark.parametrize("limit", ["max_gpu_hours", "max_minutes"])
def test_used_up_launches_of_the_contract_lead_to_a_handoff(limit: str, station: Station) -> None:
    agent = closed(station)
    hours = budgets.launch_hours(open_campaign(agent.run))
    assert hours > 0
    spent = {"max_gpu_hours": hours, "max_minutes": 60 * hours}[limit]
    enough = contract_allows(open_campaign(agent.run), **{limit: 1.01 * spent})
    assert "record round-open" in next_step(enough).command
    used = contract_allows(open_campaign(agent.run), **{limit: spent})
    assert "record blocker" in next_step(used).command
    assert "the contract's budget of" in next_step(used).why


def test_time_that_runs_out_inside_a_round_closes_it_first(station: Station, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = station("explained")
    before = next_step(open_campaign(agent.run)).command
    assert "record attempt" in before
    allow(monkeypatch, minutes=1)
    step = next_step(open_campaign(agent.run))
    assert "record round-close" in step.command
    assert "close the round, then hand off" in step.why
    agent.record("round_close")
    assert "record blocker" in next_step(open_campaign(agent.run)).command


def test_an_attempt_under_way_is_ended_before_the_time_that_ran_out(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = station("patched")
    allow(monkeypatch, minutes=1)
    assert "campaign measure" in next_step(open_campaign(agent.run)).command


def test_launches_of_another_contract_cost_this_campaign_nothing(station: Station) -> None:
    held = open_campaign(closed(station).run)
    hours = budgets.launch_hours(held)
    from infer_forge.bench.ledger_rows import RowStore

    ends = RowStore(held.layout.bench.rows).events("launch_ends")[-1]
    RowStore(held.layout.bench.rows).event("launch_ends", **{**ends, "contract_hash": "0" * 64, "seconds": 7200.0})
    assert budgets.launch_hours(book.read(held.layout.run)) == hours
