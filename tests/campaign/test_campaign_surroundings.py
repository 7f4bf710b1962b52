"""The campaign that the tests of this folder share is played in surroundings of its own."""

from __future__ import annotations

import os

from tests.bench.runs import BIN, SITE
from tests.campaign.conftest import Played, Station


def test_a_played_campaign_leaves_no_fake_program_and_no_state_behind(played: Played) -> None:
    assert str(BIN) not in os.environ["PATH"].split(os.pathsep)
    assert str(SITE) not in os.environ.get("PYTHONPATH", "")
    assert "FAKE_BENCH" not in os.environ
    assert "INFER_FORGE_NODE" not in os.environ
    assert str(played.root) not in os.environ["INFER_FORGE_HOME"]


def test_a_station_has_the_surroundings_of_its_campaign(played: Played, station: Station) -> None:
    station("begun")
    assert str(BIN) in os.environ["PATH"].split(os.pathsep)
    assert os.environ["INFER_FORGE_HOME"] == str(played.live / "home")
