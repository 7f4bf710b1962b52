"""A profile counts at the lengths of the scenario that is lost (A117, A118): fail at others, unknown where nothing tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infer_forge.bench.model import Row
from infer_forge.campaign import open_campaign, shapes, verdicts
from infer_forge.campaign.advice import next_step
from infer_forge.campaign.book import Campaign
from infer_forge.campaign.gates import look
from tests.campaign.campaign_agent import Agent
from tests.campaign.campaign_asks import answer_of, refused
from tests.campaign.conftest import Station


def captured(agent: Agent, **lengths: int) -> list[str]:
    """Traces of SGLang whose capture record states these lengths."""
    traces = agent.capture("sglang")
    record = Path(traces[0]).parents[1] / shapes.RECORD
    report: dict[str, Any] = json.loads(record.read_text())
    table = report["tables"]["workloads"]
    for row in table["rows"]:
        for name, value in lengths.items():
            row[table["columns"].index(name)] = value
    record.write_text(json.dumps(report))
    return traces


def test_profiles_at_the_lengths_of_the_slow_scenario_pass(station: Station) -> None:
    agent = station("explained")
    result, seen = answer_of(agent, "A117")
    assert result == "pass"
    assert "1 traces at the lengths of chat" in seen
    shape = open_campaign(agent.run).of("profile")[0]["shapes"][0]
    assert (shape["workload"], shape["input_len"], shape["output_len"]) == ("decode", 1, 20)


def test_a_profile_at_other_lengths_is_no_ground_for_a_patch_and_next_asks_for_another(station: Station) -> None:
    agent = station("explained")
    agent.record("profile", framework="sglang", traces=captured(agent, output_len=512))
    assert answer_of(agent, "A117") == (
        "fail",
        "sglang: decode of 1 in and 512 out; chat has 20 tokens of output",
    )
    refused(agent, "A117", "attempt", title="fused norm", idea=agent.notes["idea"], mechanism="rmsnorm_kernel")
    step = next_step(open_campaign(agent.run))
    assert f"record profile --run {agent.run} --set framework=sglang --set traces=" in step.command
    assert "A117" in step.why
    agent.record("profile", framework="sglang", traces=agent.capture("sglang"))
    assert answer_of(agent, "A117")[0] == "pass"


def test_decode_with_a_long_prompt_is_no_decode_profile(station: Station) -> None:
    agent = station("explained")
    agent.record("profile", framework="sglang", traces=captured(agent, input_len=40))
    assert answer_of(agent, "A117")[0] == "fail"


def test_without_a_capture_record_the_lengths_are_unknown_until_a_scenario_is_stated(station: Station) -> None:
    agent = station("explained")
    traces = agent.capture("sglang")
    (Path(traces[0]).parents[1] / shapes.RECORD).unlink()
    agent.record("profile", framework="sglang", traces=traces)
    assert answer_of(agent, "A117")[0] == "unknown"
    refused(agent, "A117", "attempt", title="fused norm", idea=agent.notes["idea"], mechanism="rmsnorm_kernel")
    assert "--set scenario=chat" in next_step(open_campaign(agent.run)).command
    refused(agent, "A117: other is no scenario", "profile", framework="sglang", traces=traces, scenario="other")
    agent.record("profile", framework="sglang", traces=traces, scenario="chat")
    result, seen = answer_of(agent, "A117")
    assert result == "pass"
    assert "no capture record shows it" in seen


def test_a_record_of_other_traces_says_nothing_of_these(station: Station) -> None:
    agent = station("explained")
    traces = captured(agent)
    place = Path(traces[0]).with_name("other.trace.json.gz")
    place.write_bytes(Path(agent.capture("sglang")[0]).read_bytes())
    assert [s["workload"] for s in shapes.captured([str(place)])] == [None]
    assert [s["workload"] for s in shapes.captured(traces)] == ["decode"]


def mixed(campaign: Campaign, monkeypatch: pytest.MonkeyPatch, **lengths: float) -> Campaign:
    """The same campaign on data of mixed lengths, with these figures in its rows."""
    assert campaign.contract is not None
    contract, sha256 = campaign.contract
    grid = contract.grid.model_copy(update={"kind": "sharegpt"})
    campaign.__dict__["contract"] = (contract.model_copy(update={"grid": grid}), sha256)
    sides = verdicts.sides_of(campaign, None)
    for row in (r for rows in sides.values() for r in rows):
        for name in ("input_len_p50_tokens", "input_len_p95_tokens", "output_len_p50_tokens", "output_len_p95_tokens"):
            setattr(row.workload, name, lengths.get(name))

    def known(*_: object) -> dict[str, list[Row]]:
        return sides

    monkeypatch.setattr(verdicts, "sides_of", known)
    return campaign


def test_mixed_data_is_profiled_at_its_recorded_p50_or_p95(station: Station, monkeypatch: pytest.MonkeyPatch) -> None:
    held = open_campaign(station("explained").run)
    fits = mixed(held, monkeypatch, output_len_p50_tokens=20.2, output_len_p95_tokens=90.0)
    assert look(fits, "A117").result == "pass"


def test_mixed_data_at_another_length_fails_and_without_recorded_lengths_is_unknown(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = open_campaign(station("explained").run)
    with monkeypatch.context() as patch:
        assert look(mixed(held, patch, output_len_p50_tokens=33.0), "A117").result == "fail"
    fresh = open_campaign(held.layout.run)
    assert look(mixed(fresh, monkeypatch), "A117").result == "unknown"


def test_of_mixed_data_the_bucket_is_stated_and_is_one_that_rows_recorded(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = station("explained")
    traces = agent.capture("sglang")
    (Path(traces[0]).parents[1] / shapes.RECORD).unlink()
    agent.record("profile", framework="sglang", traces=traces, scenario="chat")
    held = open_campaign(agent.run)
    mine = held.of("profile")[-1]

    def judged(scenario: str, **lengths: float) -> tuple[str, str]:
        with monkeypatch.context() as patch:
            fresh = mixed(open_campaign(agent.run), patch, **lengths)
            fresh.records[mine.number - 1].body["scenario"] = scenario
            found = next(j for j in shapes.judged(fresh) if j.framework == "sglang")
            return found.result, found.why

    known = {"output_len_p50_tokens": 20.0, "output_len_p95_tokens": 90.0}
    assert judged("chat", **known) == ("fail", "taken at chat, the slow scenario is chat p50 or chat p95")
    assert judged("chat p95", **known)[0] == "pass"
    assert judged("chat p99", **known)[0] == "fail"
    assert judged("chat p95")[0] == "unknown"
    assert shapes.statements(mixed(held, monkeypatch, **known), "chat") == ["chat p50", "chat p95"]
