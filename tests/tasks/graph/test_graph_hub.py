"""A graph that a team shares over a hub."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from infer_forge.base.errors import GateRefused
from infer_forge.base.gitstore import Store
from infer_forge.tasks import graph

P = "main"


@pytest.fixture
def two(tmp_path: Path) -> tuple[Store, Store]:
    """Two people's stores with one hub."""
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "hub.git")], check=True)
    hub = (tmp_path / "hub.git").as_uri()
    return Store.open(tmp_path / "one.git", hub), Store.open(tmp_path / "two.git", hub)


def test_what_one_person_adds_the_other_sees_and_both_rules_hold(two: tuple[Store, Store]) -> None:
    one, other = two
    graph.add_node(one, P, "code-1", type="code", title="the first work", author="ana")
    graph.add_node(other, P, "code-2", type="code", title="the next work", author="bo")
    graph.link(one, P, "code-1", "code-2")
    with pytest.raises(GateRefused, match="cycle of handoffs"):
        graph.link(other, P, "code-2", "code-1")
    assert set(graph.look(one, P).graph.nodes) == set(graph.look(other, P).graph.nodes) == {"code-1", "code-2"}


def test_a_hub_that_is_away_is_told_and_what_is_here_stays_readable(two: tuple[Store, Store], tmp_path: Path) -> None:
    one, _ = two
    graph.add_node(one, P, "code-1", type="code", title="the first work")
    (tmp_path / "hub.git").rename(tmp_path / "away.git")
    report = graph.ready(graph.look(one, P))
    assert [r["node"] for r in report.tables["ready"].dicts()] == ["code-1"]
    assert report.findings[0].code == "HUB_NOT_ASKED"
