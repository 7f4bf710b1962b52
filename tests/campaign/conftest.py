"""One campaign, played once and kept at its stations; every test begins at a station again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.campaign.campaign_agent import FAST, Agent

Station = Callable[[str], Agent]


class Played:
    """The campaign's folder and its copies."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root, self.live, self.notes = root, root / "live", dict[str, dict[str, str]]()
        self.live.mkdir()
        patch.setenv("INFER_FORGE_HOME", str(self.live / "home"))
        self.agent = Agent(self.live, patch)

    def keep(self, name: str, **notes: str) -> None:
        """Remember this station."""
        shutil.copytree(self.live, self.root / name, symlinks=True)
        self.notes[name] = notes

    def back(self, name: str) -> Agent:
        """Put the folder back to a station (file times are kept)."""
        shutil.rmtree(self.live)
        shutil.copytree(self.root / name, self.live, symlinks=True)
        self.agent.notes = self.notes[name]
        return self.agent


def play(played: Played) -> None:
    """From nothing to the end."""
    agent = played.agent
    agent.begin()
    played.keep("begun")
    agent.lock()
    agent.search()
    played.keep("searched")
    agent.baseline()
    agent.plan()
    agent.claim_gpu()
    played.keep("planned")
    agent.open_round()
    played.keep("round")
    agent.explain()
    idea = agent.think()
    played.keep("explained", idea=idea)
    attempt = agent.attempt(idea)
    head = agent.commit(FAST)
    played.keep("patched", idea=idea, attempt=attempt, head=head)
    measured = agent.validate(attempt, head)
    played.keep("validated", idea=idea, attempt=attempt, head=head, measurement=measured)
    result = agent.record("result", attempt=attempt, outcome="accepted", reason="it closes the gap")
    agent.record("round_close")
    agent.review(result)
    agent.record("cleanup")
    agent.report("final", code="A151")
    played.keep("reported", result=result, attempt=attempt)
    agent.record("stop", code="A151")
    played.keep("stopped", result=result)


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """The campaign, played to its end; its surroundings end with it, else every later test would have the fake programs."""
    with pytest.MonkeyPatch.context() as patch:
        made = Played(tmp_path_factory.mktemp("campaign"), patch)
        play(made)
    return made


@pytest.fixture
def station(played: Played, monkeypatch: pytest.MonkeyPatch) -> Station:
    """`station("explained")`: the agent at that station, with `agent.notes` of ids."""
    monkeypatch.setenv("INFER_FORGE_HOME", str(played.live / "home"))
    played.agent.environment(monkeypatch)
    assert os.environ["INFER_FORGE_NODE"] == "gpu07"
    return played.back
