"""Kills and races: whatever instant a process dies at, a fresh one goes on from what is recorded."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from infer_forge.base.errors import MissingPart
from infer_forge.campaign import book, ending, open_campaign, status_report, stopping
from infer_forge.campaign.gates import look
from tests.campaign.campaign_agent import Agent
from tests.campaign.conftest import Station


def opened(agent: Agent) -> None:
    """Exactly one round and one block are open, and they are the same."""
    held = open_campaign(agent.run)
    assert look(held, "chain").result == "pass"
    block = held.task().active_block
    assert held.round is not None
    assert block is not None
    assert int(block.data["round"]) == held.round_number


@pytest.mark.parametrize("after", ["the block", "the record", "the anchor"])
def test_a_round_whose_opening_was_cut_off_is_opened_by_the_next_process(
    after: str, station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = station("planned")
    whole, anchor = book.append, book.anchor

    def cut(campaign: book.Campaign, kind: str, body: dict[str, object]) -> book.Campaign:
        if after == "the block" and kind == "round_open":
            raise KeyboardInterrupt
        made = whole(campaign, kind, body)
        if after == "the record" and kind == "round_open":
            raise KeyboardInterrupt
        return made

    def unanchored(campaign: book.Campaign, head: str) -> None:
        if after == "the anchor" and campaign.records[-1].kind == "round_open":
            raise KeyboardInterrupt
        anchor(campaign, head)

    with monkeypatch.context() as patch:
        patch.setattr(book, "append", cut)
        patch.setattr(book, "anchor", unanchored)
        from infer_forge.campaign.obligations import open_round

        with pytest.raises(KeyboardInterrupt):
            open_round(
                open_campaign(agent.run),
                {"claim_id": agent.claim["claim_id"], "epoch": agent.claim["epoch"], "query": "a b c"},
            )
    if open_campaign(agent.run).round is None:
        agent.open_round()
    else:
        agent.record("gap")
    opened(agent)


def test_a_round_that_was_closed_in_the_ledger_alone_is_closed_in_the_task_too(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    from infer_forge.campaign.obligations import close_round
    from infer_forge.tasks import blocks

    agent = station("round")
    with monkeypatch.context() as patch:
        patch.setattr(blocks, "close_block", _die)
        patch.setattr("infer_forge.tasks.close_block", _die, raising=False)
        with pytest.raises(KeyboardInterrupt):
            close_round(open_campaign(agent.run), {})
    assert open_campaign(agent.run).round is None
    agent.open_round()
    opened(agent)
    assert [b.outcome for b in open_campaign(agent.run).task().blocks] == ["constraint", None]


def _die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.stress
def test_a_killed_recording_loses_nothing_that_was_answered(
    station: Station, stress_count: Callable[[int], int], seeded: random.Random
) -> None:
    agent = station("planned")
    words = [
        "--set",
        f"claim_id={agent.claim['claim_id']}",
        "--set",
        f"epoch={agent.claim['epoch']}",
        "--set",
        "query=a b c",
    ]
    argv = [
        sys.executable,
        "-m",
        "infer_forge.cli.main",
        "campaign",
        "record",
        "round-open",
        "--run",
        str(agent.run),
        *words,
    ]
    for _ in range(stress_count(40)):
        agent = station("planned")
        child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            child.wait(timeout=seeded.uniform(0.3, 2.5))
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.wait()
        held = open_campaign(agent.run)
        assert look(held, "chain").result == "pass"
        assert len(status_report(held).text or "") < 1200
        if held.round is None:
            agent.open_round()
        opened(agent)


def test_of_two_that_record_at_once_both_are_kept_or_one_is_told(station: Station) -> None:
    agent = station("round")
    argv = [
        sys.executable,
        "-m",
        "infer_forge.cli.main",
        "campaign",
        "record",
        "command",
        "--run",
        str(agent.run),
        "--set",
    ]
    children = [
        subprocess.Popen([*argv, f"command=echo {n}"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        for n in range(3)
    ]
    codes = [(c.wait(), (c.stderr.read() if c.stderr else b"").decode()) for c in children]
    for c in children:
        if c.stderr:
            c.stderr.close()
    held = open_campaign(agent.run)
    assert look(held, "chain").result == "pass"
    assert len(held.in_round("command")) == sum(code == 0 for code, _ in codes) >= 1
    assert all("has grown since it was read" in told for code, told in codes if code)


def test_a_lost_chat_needs_the_run_directory_alone(station: Station, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = station("validated")
    shutil.rmtree(agent.tmp / "home" / "state", ignore_errors=True)
    shutil.rmtree(agent.tmp / "home" / "cache", ignore_errors=True)
    begin = time.monotonic()
    told = agent.campaign("next")
    assert f"attempt={agent.notes['attempt']}" in told["command"]
    assert time.monotonic() - begin < 60
    assert agent.notes["measurement"][:12] in (agent.run / "humanize" / "lineage.jsonl").read_text()
    assert monkeypatch is not None


def test_a_stop_whose_locked_python_is_gone_says_how_the_task_ends(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = station("reported")
    real = ending._pinned  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(ending, "_pinned", lambda task, run: ["/gone/bin/python", *real(task, run)[1:]])  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    held = open_campaign(agent.run)
    with pytest.raises(MissingPart, match="/gone/bin/python is not here, and the task is locked to it") as told:
        stopping.stop(held, "A151")
    assert f"infer-forge task handoff {held.task_id}" in str(told.value.next_step)
    agent.forge("task", "handoff", held.task_id, "--done", "the campaign stopped", "--next", "read its final page")
    stopping.stop(open_campaign(agent.run), "A151")
    assert open_campaign(agent.run).task().status == "handed_off"
