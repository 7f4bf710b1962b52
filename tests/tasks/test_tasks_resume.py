"""Going on from the records alone: a fresh process, a fresh clone, another node."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infer_forge.base.errors import GateRefused
from infer_forge.base.gitstore import Store
from infer_forge.nodes import verbs as nodes
from infer_forge.tasks import blocks, events, fencing
from infer_forge.tasks.execute import record
from infer_forge.tasks.goal import goal_met
from infer_forge.tasks.predicates import Lookups
from infer_forge.tasks.resuming import take_up
from infer_forge.tasks.state import load
from tests.nodes.samples import FakeMachine
from tests.tasks.task_samples import begun, block, maker, until

NOTHING = Lookups(lambda _: None)
_RECORD = (
    "import sys\nfrom infer_forge.tasks.events import open_store\nfrom infer_forge.tasks.execute import record\n"
    "record(open_store(), sys.argv[1], ['sh', sys.argv[2]], label='long')"
)


def _dies_in_mid_record(store: Store, task_id: str, folder: Path) -> None:
    """A recorder and its command, both killed while the command runs."""
    script = folder / "long.sh"
    script.write_text("exec sleep 600\n")
    process = subprocess.Popen([sys.executable, "-c", _RECORD, task_id, str(script)])
    until(lambda: any(e.phase == "started" for e in load(store, task_id).open_executions))
    process.kill()
    process.wait()
    os.killpg(load(store, task_id).open_executions[0].started["pid"], 9)


def test_a_fresh_process_sees_and_does_the_same(tmp_path: Path) -> None:
    store = events.open_store()
    task = block(store, begun(store))
    code = (
        "import sys\nfrom infer_forge.tasks import load, open_store\n"
        "t = load(open_store(), sys.argv[1])\nprint(t.status, t.active_block.number, t.lock_sha)"
    )
    said = subprocess.run([sys.executable, "-c", code, task.id], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["active", "1", task.lock_sha]


def test_a_fresh_clone_needs_nothing_but_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = events.open_store()
    task = block(store, begun(store))
    record(store, task.id, maker(tmp_path), label="make", evidence=[("x", tmp_path / "ev.json")])
    home = tmp_path / "second-home"
    clone = home / "stores" / "tasks.git"
    subprocess.run(["git", "clone", "-q", "--mirror", str(store.gitdir), str(clone)], check=True)
    monkeypatch.setenv("INFER_FORGE_HOME", str(home))
    second = events.open_store()
    assert second.gitdir == clone
    assert load(second, task.id).evidence[0].data == {"verdict": "ok"}


def test_work_open_on_a_lost_node_is_given_up_only_when_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = events.open_store()
    task = block(store, begun(store))
    monkeypatch.setenv("INFER_FORGE_NODE", "gpuA")
    _dies_in_mid_record(store, task.id, tmp_path)
    monkeypatch.setenv("INFER_FORGE_NODE", "gpuB")
    with pytest.raises(GateRefused, match="is open on node gpuA"):
        take_up(store, task.id)
    task, found = take_up(store, task.id, take_over=True)
    assert [p.state for p in found] == ["unknown"]
    assert [e.phase for e in task.executions.values()] == ["resolved"]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hubs of the registry and the tasks, and the homes of two nodes that use them."""
    place = tmp_path / "hubs"
    for name in ("registry", "tasks"):
        subprocess.run(["git", "init", "-q", "--bare", str(place / f"{name}.git")], check=True)
    for node in ("gpuA", "gpuB"):
        home = tmp_path / node
        home.mkdir()
        lines = [f"  {name}: {place / name}.git" for name in ("registry", "tasks")]
        (home / "infer-forge.yaml").write_text("remotes:\n" + "\n".join(lines) + "\n")
    FakeMachine(tmp_path, monkeypatch)
    return place


def _on(node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("INFER_FORGE_NODE", node)
    monkeypatch.setenv("INFER_FORGE_HOME", str(tmp_path / node))
    store = events.open_store()
    store.refresh(events.PREFIX)
    return store


def test_a_task_that_dies_on_one_node_goes_on_on_another_under_a_new_claim_and_probe(
    hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _on("gpuA", tmp_path, monkeypatch)
    nodes.init(str(hub / "registry.git"))
    first = nodes.claim("gpuA", "0", task="t", purpose="work").extra["claim"]
    task = block(store, begun(store))
    record(store, task.id, maker(tmp_path), label="make", evidence=[("x", tmp_path / "ev.json")])
    assert goal_met(store, task.id, NOTHING)[1] == "met"
    _dies_in_mid_record(store, task.id, tmp_path)

    store = _on("gpuB", tmp_path, monkeypatch)
    nodes.init(str(hub / "registry.git"))
    with pytest.raises(GateRefused, match="holds no new one"):
        take_up(store, task.id)
    nodes.claim("gpuB", "0", task=task.id, purpose="go on")
    with pytest.raises(GateRefused, match="no live probe"):
        take_up(store, task.id)
    nodes.release(_claim_here(), reason="probe first")
    nodes.verify("gpuB", "0", all_visible=True)
    second = nodes.claim("gpuB", "0", task=task.id, purpose="go on").extra["claim"]
    task, found = take_up(store, task.id)

    assert [(p.label, p.state) for p in found] == [("long", "unknown")]
    assert task.fenced_claims.keys() == {first["claim_id"]}
    assert [(i.kind, i.epoch, i.fenced) for i in task.evidence] == [("x", first["epoch"], True)]
    assert goal_met(store, task.id, NOTHING)[1] != "met"
    script = maker(tmp_path)
    task, done = record(store, task.id, script, label="make", evidence=[("x", tmp_path / "ev.json")], again=True)
    assert [c["claim_id"] for c in done.intent["claims"]] == [second["claim_id"]]
    assert not task.evidence[-1].fenced
    assert goal_met(store, task.id, NOTHING)[1] == "met"


def _claim_here() -> str:
    from infer_forge.base import ownership

    run = ownership.load().current()
    assert run is not None
    return str(run.claims[-1]["claim_id"])


def test_a_claim_that_its_holder_released_vouches_for_what_was_made_before(
    hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _on("gpuA", tmp_path, monkeypatch)
    nodes.init(str(hub / "registry.git"))
    held = nodes.claim("gpuA", "0", task="t", purpose="work").extra["claim"]
    task = block(store, begun(store))
    record(store, task.id, maker(tmp_path), label="make", evidence=[("x", tmp_path / "ev.json")])
    nodes.release(held["claim_id"], reason="done")
    task, unseen = fencing.fence_ended(store, task.id)
    assert (task.fenced_claims, unseen) == ({}, [])
    assert not task.evidence[0].fenced


def test_a_resumed_task_closes_its_block_and_ends_elsewhere(
    hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _on("gpuA", tmp_path, monkeypatch)
    task = block(store, begun(store))
    store = _on("gpuB", tmp_path, monkeypatch)
    take_up(store, task.id)
    assert blocks.close_block(store, task.id, "rejected", "advanced").blocks[0].outcome == "rejected"
    assert load(_on("gpuA", tmp_path, monkeypatch), task.id).blocks[0].outcome == "rejected"
