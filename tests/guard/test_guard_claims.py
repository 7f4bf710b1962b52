"""The guard holds a claim against the registry's last word: fenced denies, not confirmed lately asks."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from guard_hook_process import speak

from infer_forge.base import ownership
from infer_forge.base.paths import paths
from infer_forge.guard import check, policy
from infer_forge.guard.context import claim_fault, loose_ref
from infer_forge.guard.hook_config import payload
from infer_forge.nodes import claims, verbs
from infer_forge.nodes.guarded import standing
from infer_forge.nodes.registry import CLAIMS, Registry
from infer_forge.tasks import execute
from infer_forge_mcp.confirming import keep_confirmed

NODE = ownership.node_name()
LEANS = [
    "CUDA_VISIBLE_DEVICES=0 python bench.py", "docker run --rm --gpus '\"device=1\"' img python x.py",
    "python -m sglang.launch_server --base-gpu-id 0 --tp 2", "sglang serve m --base-gpu-id 0",
]  # fmt: skip


@pytest.fixture(autouse=True)
def compiled_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    policy.compile_policy(str(tmp_path))


@pytest.fixture
def claim() -> str:
    registry = Registry.open(create=True)
    registry.ensure_policy()
    return take()


def take(gpus: str = "0,1", node: str = NODE) -> str:
    return verbs.claim(node, gpus, task="t", purpose="bench").extra["claim"]["claim_id"]


def entry(**changes: Any) -> dict[str, Any]:
    """The first claim of the ownership file, after these changes to it."""
    with ownership.editing("default") as run:
        run.claims[0] |= changes
        return run.claims[0]


def judged(command: str) -> tuple[str, str | None]:
    found = check(command)
    return found.verdict, found.rule_id


@pytest.mark.parametrize("command", LEANS)
def test_a_confirmed_claim_is_silent_an_old_one_asks_and_a_fenced_one_denies(claim: str, command: str) -> None:
    assert judged(command) == ("allow", None)
    entry(truth=None, confirmed_at=entry()["confirmed_at"] - 61)
    assert judged(command) == ("ask", "claim.stale")
    entry(fenced=True)
    assert judged(command) == ("deny", "claim.fenced")


def test_what_does_not_lean_on_the_claim_is_left_alone(claim: str) -> None:
    entry(truth=None, confirmed_at=0)
    for command in ("nvidia-smi", "ls", "CUDA_VISIBLE_DEVICES= python x.py", "git status"):
        assert judged(command)[0] == "allow"


def test_the_hook_says_how_a_claim_is_confirmed(claim: str) -> None:
    entry(truth=None, confirmed_at=0)
    done = speak(payload("codex", LEANS[0], os.getcwd()), "--client", "codex")
    assert done.returncode == 2
    assert b"claim.stale" in done.stderr
    assert b"infer-forge node status" in done.stderr
    verbs.read_status(None)
    assert speak(payload("codex", LEANS[0], os.getcwd()), "--client", "codex").returncode == 0


def test_a_registry_on_this_machine_confirms_by_its_tip_however_old_the_file_is(claim: str) -> None:
    entry(confirmed_at=0)
    assert judged(LEANS[0]) == ("allow", None)
    claims.claim(Registry.open(), "elsewhere", [], task="t", purpose="moves the tip")
    assert judged(LEANS[0]) == ("ask", "claim.stale")
    verbs.read_status(None)
    assert judged(LEANS[0]) == ("allow", None)


def test_a_claim_that_another_ended_is_fenced_at_the_next_look(claim: str) -> None:
    claims.release(Registry.open(), claim, reason="by another door", force=True)
    assert judged(LEANS[0]) == ("ask", "claim.stale")
    assert verbs.read_status(None).extra["fenced"] == [claim]
    assert judged(LEANS[0]) == ("deny", "claim.fenced")
    assert verbs.read_status(None).extra["fenced"] == []


def test_an_overtaken_epoch_is_fenced(claim: str) -> None:
    entry(epoch=7)
    verbs.confirm_claims()
    assert judged(LEANS[0]) == ("deny", "claim.fenced")


def test_a_new_claim_on_the_same_gpus_takes_the_place_of_the_fenced_one(claim: str) -> None:
    claims.release(Registry.open(), claim, reason="by another door", force=True)
    verbs.read_status(None)
    registry = Registry.open()
    registry.store.update(CLAIMS, _verified, "stands for a probe")
    again = take()
    assert [c["claim_id"] for c in ownership.load().runs["default"].claims] == [again]
    assert judged(LEANS[0]) == ("allow", None)


def _verified(snapshot: Any) -> Any:
    from infer_forge.base.gitstore import Changes
    from infer_forge.nodes.model import encode
    from infer_forge.nodes.registry import node_path

    record = Registry.open().node(NODE, snapshot)
    record.unverified = []
    return Changes(put={node_path(NODE): encode(record)})


def test_our_own_release_leaves_no_fence_behind(claim: str) -> None:
    verbs.release(claim, reason="done")
    assert ownership.load().runs["default"].claims == []


def test_releasing_what_ended_already_takes_its_fence_away(claim: str) -> None:
    claims.release(Registry.open(), claim, reason="by another door", force=True)
    verbs.read_status(None)
    with pytest.raises(Exception, match="ended already"):
        verbs.release(claim, reason="done")
    assert ownership.load().runs["default"].claims == []


def test_with_a_hub_in_a_folder_the_hub_is_the_truth(tmp_path: Path) -> None:
    hub = tmp_path / "hub.git"
    subprocess.run(["git", "init", "-q", "--bare", str(hub)], check=True)
    verbs.init(str(hub))
    take()
    assert entry(confirmed_at=0)["truth"] == str(hub)
    assert judged(LEANS[0]) == ("allow", None)
    subprocess.run(["git", f"--git-dir={hub}", "pack-refs", "--all"], check=True)
    assert not (hub / CLAIMS).exists()
    assert judged(LEANS[0]) == ("allow", None)
    subprocess.run(["git", f"--git-dir={hub}", "update-ref", "-d", CLAIMS], check=True)
    assert judged(LEANS[0]) == ("ask", "claim.stale")


def test_with_a_hub_elsewhere_only_the_time_counts(claim: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry.open()
    registry.store.remote = type("Remote", (), {"url": "ssh://hub/r.git"})()  # pyright: ignore[reportAttributeAccessIssue]
    assert standing(registry)["truth"] is None


def test_an_unreachable_hub_confirms_nothing(tmp_path: Path) -> None:
    hub = tmp_path / "hub.git"
    subprocess.run(["git", "init", "-q", "--bare", str(hub)], check=True)
    verbs.init(str(hub))
    take()
    before = entry(confirmed_at=1000.0, truth=None)
    hub.rename(tmp_path / "gone.git")
    verbs.read_status(None)
    assert ownership.load().runs["default"].claims[0]["confirmed_at"] == before["confirmed_at"]
    assert judged(LEANS[0]) == ("ask", "claim.stale")


def test_a_recorded_execution_confirms_the_claim_that_it_leans_on(claim: str, tmp_path: Path) -> None:
    entry(truth=None, confirmed_at=0)
    assert execute.judged(LEANS[0], "x", str(tmp_path))["verdict"] == "allow"
    claims.release(Registry.open(), claim, reason="by another door", force=True)
    entry(truth=None, confirmed_at=0)
    assert execute.judged(LEANS[0], "x", str(tmp_path))["rule_id"] == "claim.fenced"


def test_the_server_confirms_claims_while_it_runs(claim: str) -> None:
    entry(truth=None, confirmed_at=0)
    stop = threading.Event()
    thread = threading.Thread(target=keep_confirmed, args=(stop, 0.01), daemon=True)
    thread.start()
    until = time.monotonic() + 20
    while judged(LEANS[0])[0] != "allow" and time.monotonic() < until:
        thread.join(0.02)
    stop.set()
    thread.join(20)
    assert judged(LEANS[0]) == ("allow", None)
    assert not thread.is_alive()


def test_a_damaged_ownership_file_does_not_end_the_confirming() -> None:
    paths().ownership.parent.mkdir(parents=True, exist_ok=True)
    paths().ownership.write_text("{")
    stop = threading.Event()
    thread = threading.Thread(target=keep_confirmed, args=(stop, 0.01), daemon=True)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    stop.set()
    thread.join(20)


def test_a_claim_on_another_node_is_held_to_the_same(claim: str) -> None:
    take("0", "gpu09")
    with ownership.editing("default") as run:
        run.claims[1] |= {"truth": None}
    assert judged("ssh gpu09 python x.py") == ("allow", None)
    with ownership.editing("default") as run:
        run.claims[1] |= {"confirmed_at": 0}
    assert judged("ssh gpu09 python x.py") == ("ask", "claim.stale")
    with ownership.editing("default") as run:
        run.claims[1] |= {"fenced": True}
    assert judged("ssh gpu09 python x.py") == ("ask", "remote.unclaimed")


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        ({}, "stale"), ({"confirmed_at": 940}, "held"), ({"confirmed_at": 939}, "stale"), ({"confirmed_at": 1061}, "stale"),
        ({"confirmed_at": "soon"}, "stale"), ({"confirmed_at": 1000, "fenced": True}, "fenced"),
        ({"confirmed_at": 1000, "truth": "/nowhere", "tip": "abc"}, "stale"),
    ],
)  # fmt: skip
def test_what_is_not_known_to_hold_does_not_count_as_held(facts: dict[str, Any], wanted: str) -> None:
    assert claim_fault(facts, 1000.0)[0] == wanted


def test_a_ref_is_read_from_its_file_before_packed_refs(tmp_path: Path) -> None:
    (tmp_path / "refs").mkdir()
    (tmp_path / "packed-refs").write_text(
        f"# pack-refs with: peeled\n{'a' * 40} refs/x\n^{'b' * 40}\n{'c' * 40} refs/y\n"
    )
    (tmp_path / "refs" / "y").write_text("d" * 40 + "\n")
    assert loose_ref(str(tmp_path), "refs/x") == "a" * 40
    assert loose_ref(str(tmp_path), "refs/y") == "d" * 40
    assert loose_ref(str(tmp_path), "refs/z") is None


def test_an_ownership_file_of_before_asks_instead_of_failing() -> None:
    data = {"v": 1, "runs": {"default": {"claims": [{"node": NODE, "gpus": [0], "epoch": 1, "claim_id": "old"}]}}}
    paths().ownership.parent.mkdir(parents=True, exist_ok=True)
    paths().ownership.write_text(json.dumps(data))
    assert judged("CUDA_VISIBLE_DEVICES=0 python x.py") == ("ask", "claim.stale")
