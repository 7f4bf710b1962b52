"""Claims on real repositories: who wins, epochs, release, marks, intents, the guard's context, the command line."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base import ownership
from infer_forge.base.errors import UsageFault
from infer_forge.base.gitstore import HubUnreachable, Refused
from infer_forge.nodes import claims
from infer_forge.nodes.model import GpuRef, parse_gpus, parse_runtime
from infer_forge.nodes.registry import Registry, node_name, set_policy
from tests.base.test_gitstore_remote import Wire
from tests.nodes.samples import FakeMachine

COMMAND = [sys.executable, "-m", "infer_forge"]


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    path = tmp_path / "hub.git"
    subprocess.run(["git", "init", "-q", "--bare", str(path)], check=True)
    return path


@pytest.fixture
def registry() -> Registry:
    made = Registry.open(create=True)
    made.ensure_policy()
    return made


def forge(*args: str, home: Path | None = None, code: int = 0, **env: str) -> dict[str, Any]:
    """Run `infer-forge node ARGS --format json`; its JSON, or {} when it fails as wanted."""
    where = {"INFER_FORGE_HOME": str(home)} if home else {}
    done = subprocess.run(
        [*COMMAND, "node", *args, "--format", "json"],
        capture_output=True,
        text=True,
        env=os.environ | where | env,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout) if done.stdout else {"stderr": done.stderr}


def take(registry: Registry, node: str = "gpu07", gpus: str = "0,1", **more: Any) -> claims.Granted:
    return claims.claim(registry, node, parse_gpus(gpus), task="t", purpose="bench", **more)


def rows(report: dict[str, Any], name: str) -> list[dict[str, Any]]:
    table = report["tables"][name]
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


# What is a GPU


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("0,1", [0, 1]), ("0-3", [0, 1, 2, 3]), (" 5 ", [5]), ("1,3-4", [1, 3, 4])],
)
def test_gpus_are_named_by_index_and_span(text: str, wanted: list[int]) -> None:
    assert [g.index for g in parse_gpus(text)] == wanted


@pytest.mark.parametrize("text", ["", "a", "0,0", "3-1", "0-3,2", "-1", "GPU", "0;1", "9999"])
def test_what_names_no_gpu_is_refused(text: str) -> None:
    with pytest.raises(UsageFault):
        parse_gpus(text)


def test_gpus_that_cannot_be_told_apart_count_as_the_same() -> None:
    by_index, by_uuid = GpuRef(index=0), GpuRef(uuid="GPU-aaaa")
    assert by_index.same(by_uuid)
    assert not by_index.same(GpuRef(index=1, uuid="GPU-aaaa"))
    assert not by_uuid.same(GpuRef(uuid="GPU-bbbb"))
    assert GpuRef(index=0, uuid="MIG-1").same(GpuRef(index=0, uuid="GPU-aaaa"))
    assert not GpuRef(index=0, uuid="MIG-1").same(GpuRef(index=0, uuid="MIG-2"))
    assert GpuRef(uuid="MIG-1").same(by_uuid)
    assert not GpuRef(index=1, uuid="MIG-1").same(GpuRef(index=0, uuid="GPU-aaaa"))


def test_a_pid_gets_its_start_time_and_a_gone_one_is_refused() -> None:
    mine = parse_runtime(f"pid:{os.getpid()}")
    assert mine.start_ticks == ownership.process_start(os.getpid())
    for bad in ("pid:0999999999", "pid:x", "screen:1", "container:", "container:a b"):
        with pytest.raises(UsageFault):
            parse_runtime(bad)


# Claims


def test_overlapping_gpus_are_refused_with_the_holder_and_others_are_not(registry: Registry) -> None:
    first = take(registry)
    with pytest.raises(Refused, match=f"held by .*{first.claim.claim_id}"):
        take(registry, gpus="1-2")
    second = take(registry, gpus="2,3")
    assert (first.claim.epoch, second.claim.epoch) == (1, 2)
    assert second.claim.prev_commit == first.commit


def test_epochs_grow_for_ever_and_never_come_back(registry: Registry) -> None:
    set_policy(registry, {"verify_after_release": "false"})
    for epoch in range(1, 5):
        held = take(registry).claim
        assert held.epoch == epoch
        claims.release(registry, held.claim_id, reason="done")
    assert registry.node("gpu07").last_epoch == 4


def test_released_gpus_need_a_probe_before_the_next_claim(registry: Registry) -> None:
    held = take(registry).claim
    claims.release(registry, held.claim_id, reason="done")
    with pytest.raises(Refused, match="not verified since") as caught:
        take(registry, gpus="1")
    assert "node verify gpu07" in str(caught.value)
    assert take(registry, gpus="4").claim.epoch == 2


def test_only_the_session_that_holds_a_claim_releases_it(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    held = take(registry).claim
    monkeypatch.setenv("INFER_FORGE_RUN_ID", "another")
    with pytest.raises(Refused, match="is held by"):
        claims.release(registry, held.claim_id, reason="mine now")
    with pytest.raises(Refused, match="epoch 1, not 7"):
        claims.release(registry, held.claim_id, reason="x", epoch=7, force=True)
    assert claims.release(registry, held.claim_id, reason="gone", force=True).how == "forced"
    with pytest.raises(UsageFault, match="ended already"):
        claims.release(registry, held.claim_id, reason="again")


def test_a_marked_node_is_not_claimable(registry: Registry) -> None:
    claims.mark(registry, "gpu07", "unhealthy", reason="Xid 79", evidence="dmesg")
    with pytest.raises(Refused, match="Xid 79"):
        take(registry)
    claims.mark(registry, "gpu07", None, reason="replaced")
    take(registry)


def test_evidence_of_an_ended_claim_is_fenced(registry: Registry) -> None:
    held = take(registry).claim
    assert claims.check_epoch(registry, held.claim_id, 1) == "current"
    assert claims.check_epoch(registry, held.claim_id, 0) == "fenced"
    claims.release(registry, held.claim_id, reason="done")
    assert claims.check_epoch(registry, held.claim_id, 1) == "fenced"
    assert claims.check_epoch(registry, "never-heard", 1) == "unknown"


@pytest.mark.parametrize("node", ["", "../x", "a/b", ".git", "a b", "x.lock", "a..b", "é"])
def test_a_bad_node_name_is_refused(registry: Registry, node: str) -> None:
    with pytest.raises(UsageFault):
        take(registry, node=node)


def test_runtimes_can_be_added_by_the_holder_alone(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    held = take(registry).claim
    runtime = parse_runtime("slurm:12")
    claims.attach(registry, held.claim_id, [runtime, runtime])
    assert claims.attach(registry, held.claim_id, [runtime]).runtime_ids == [runtime]
    assert registry.node("gpu07").claims[0].epoch == held.epoch
    monkeypatch.setenv("INFER_FORGE_RUN_ID", "another")
    with pytest.raises(Refused):
        claims.attach(registry, held.claim_id, [runtime])


def test_the_policy_refuses_values_that_would_hollow_it_out(registry: Registry) -> None:
    for bad in (
        {"window_s": "1"},
        {"min_samples": "1"},
        {"quorum": "0"},
        {"nonsense": "1"},
        {"window_s": "x"},
        {"idle.util_pct": "90"},
    ):
        with pytest.raises(UsageFault):
            set_policy(registry, bad)
    before = registry.policy().policy_id
    after = set_policy(registry, {"idle.power_w.NVIDIA H100": "80", "window_s": "3600"})
    assert (after.idle.power_w["NVIDIA H100"], after.window_s) == (80, 3600)
    assert after.policy_id == registry.policy().policy_id != before


# A hub


def test_a_claim_made_while_the_hub_is_away_is_an_intent_and_no_claim(
    hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry.open(f"file://{hub}", create=True)
    registry.ensure_policy()
    hub.rename(hub.with_suffix(".away"))
    with pytest.raises(HubUnreachable, match="no claim"):
        take(registry)
    assert registry.nodes() == []
    intent = registry.store.intents.all("claim")[0]["id"]
    hub.with_suffix(".away").rename(hub)
    granted = take(registry)
    assert granted.claim.claim_id == intent
    assert registry.store.intents.all() == []


def test_an_intent_is_decided_again_and_may_lose(hub: Path, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    for home in (a, b):
        forge("init", "--remote", f"file://{hub}", home=home)
    hub.rename(hub.with_suffix(".away"))
    words = ("claim", "gpu07", "--gpus", "0", "--task", "t", "--purpose", "p")
    assert "no claim" in forge(*words, home=a, code=5)["stderr"]
    hub.with_suffix(".away").rename(hub)
    won = forge(*words, home=b)["claim"]
    assert rows(forge("status", home=a), "intents")[0]["node"] == "gpu07"
    assert won["claim_id"] in forge(*words, home=a, code=4)["stderr"]


def test_homes_on_one_machine_are_different_holders(hub: Path, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    for home in (a, b):
        forge("init", "--remote", str(hub), home=home)
    held = forge("claim", "gpu07", "--gpus", "0", "--task", "t", "--purpose", "p", home=a)["claim"]
    seen = rows(forge("status", "gpu07", home=b), "claims")[0]
    assert (seen["claim_id"], seen["state"], seen["ours"]) == (held["claim_id"], "blocked:missing", False)
    forge("release", held["claim_id"], home=b, code=4)
    forge("release", held["claim_id"], home=a)
    events = [e["event"] for e in rows(forge("history", "gpu07", home=b), "events")]
    assert events == ["released", "claim"]


def test_a_claim_of_a_node_that_nobody_knows_says_so_with_the_names_that_are_known(hub: Path, tmp_path: Path) -> None:
    home = tmp_path / "a"
    forge("init", "--remote", str(hub), home=home)
    wish = ("--gpus", "0", "--task", "t", "--purpose", "p")
    first = forge("claim", "gpu07", *wish, home=home)
    assert [f["code"] for f in first["findings"]] == ["NODE_UNKNOWN"]
    assert "known nodes: none" in first["findings"][0]["message"]
    slip = forge("claim", "gpu7", *wish, home=home)
    assert "known nodes: gpu07" in slip["findings"][0]["message"]
    assert slip["claim"]["claim_id"] in slip["findings"][0]["next_step"]
    forge("release", first["claim"]["claim_id"], home=home)
    known = forge("claim", "gpu07", "--gpus", "1", "--task", "t", "--purpose", "p", home=home)
    assert known["findings"] == []
    assert forge("claim", node_name(), *wish, home=home)["findings"] == []


def test_the_guards_context_follows_the_claims(hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "a"
    forge("init", "--remote", str(hub), home=home)
    held = forge("claim", "gpu07", "--gpus", "0,1", "--task", "t", "--purpose", "p", "--run", "r1", home=home)["claim"]
    monkeypatch.setenv("INFER_FORGE_HOME", str(home))
    entry = ownership.load().runs["r1"].claims[0]
    assert (entry["node"], entry["gpus"], entry["epoch"]) == ("gpu07", [0, 1], 1)
    forge("claim", "--claim", held["claim_id"], "--runtime", f"pid:{os.getpid()}", "--run", "r1", home=home)
    assert ownership.load().runs["r1"].claims[0]["runtime_ids"][0]["id"] == str(os.getpid())
    forge("release", held["claim_id"], home=home)
    assert ownership.load().runs["r1"].claims == []


def test_a_claim_that_another_home_ended_is_fenced_in_the_guards_context_at_the_next_status(
    hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "a"
    forge("init", "--remote", str(hub), home=home)
    held = forge("claim", "gpu07", "--gpus", "0", "--task", "t", "--purpose", "p", "--run", "r1", home=home)["claim"]
    other = Registry.open(str(hub), create=True)
    claims.release(other, held["claim_id"], reason="gone", force=True)
    forge("status", home=home)
    monkeypatch.setenv("INFER_FORGE_HOME", str(home))
    assert [(c["claim_id"], c["fenced"]) for c in ownership.load().runs["r1"].claims] == [(held["claim_id"], True)]
    verdict = forge("status", "--claim", held["claim_id"], "--epoch", "1", home=home)
    assert verdict["verdict"] == "fenced"
    gate = ("status", "--claim", held["claim_id"], "--epoch", "1", "--require", "current")
    assert forge(*gate, home=home, code=4)["verdict"] == "fenced"  # what a gate refuses is printed all the same


def test_a_hub_that_hangs_and_then_refuses_gives_nobody_a_claim(
    hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = Wire(tmp_path, monkeypatch)
    monkeypatch.setenv("INFER_FORGE_HUB_TIMEOUT_S", "1")
    registry = Registry.open(f"ssh://hub{hub}", create=True)
    registry.ensure_policy()
    for mode in ("hang", "refuse", "hang-push"):
        wire.set(mode)
        with pytest.raises(HubUnreachable, match="no claim"):
            take(registry)
        assert registry.nodes() == []
    assert len(registry.store.intents.all()) == 1
    wire.set("ok")
    other = Registry.open(str(hub), create=True)
    with pytest.MonkeyPatch.context() as elsewhere:
        elsewhere.setenv("INFER_FORGE_HOME", str(tmp_path / "other"))
        other = Registry.open(str(hub), create=True)
        take(other)
    with pytest.raises(Refused, match="held by"):
        take(registry)


def test_an_answer_that_got_lost_after_the_push_is_a_claim_and_not_two(
    hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = Wire(tmp_path, monkeypatch)
    registry = Registry.open(f"ssh://hub{hub}", create=True)
    registry.ensure_policy()
    wire.set("lose-answer")
    held = take(registry).claim
    assert registry.node("gpu07").claims == [held]
    assert held.epoch == 1


# The command line


def test_the_collect_command_takes_samples_and_ends_on_a_signal(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFER_FORGE_NODE", "gpu07")
    FakeMachine(tmp_path, monkeypatch)
    words = [*COMMAND, "node", "collect", "--interval", "0.05"]
    done = subprocess.run([*words, "--samples", "3"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "3 samples taken" in done.stderr
    assert done.stdout == ""
    running = subprocess.Popen([*words, "--interval", "30"], stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    assert "collector gpu07" in running.stderr.readline()
    running.terminate()
    assert "taken" in running.stderr.read()
    running.stderr.close()
    assert running.wait() == 0
    seen = rows(forge("history", "gpu07", "--observations"), "samples")
    assert len(seen) >= 6
    assert {s["source"] for s in seen} == {"smi-xml"}


def test_without_a_registry_every_command_says_how_to_make_one(tmp_path: Path) -> None:
    for words in (
        ["status"],
        ["history"],
        ["eligible"],
        ["claim", "n", "--gpus", "0", "--task", "t", "--purpose", "p"],
    ):
        assert "node init" in forge(*words, code=2)["stderr"]


def test_a_person_is_needed_to_force_to_clear_and_to_change_the_policy(registry: Registry) -> None:
    held = take(registry).claim
    claims.mark(registry, "gpu07", "drain", reason="x")
    for words in (
        ["release", held.claim_id, "--force"],
        ["mark", "gpu07", "--clear", "--reason", "x"],
        ["policy", "--set", "window_s=3600"],
        ["policy", "--retire", "gpu07"],
    ):
        assert "person" in forge(*words, code=6)["stderr"]
    assert _typed("mark", "gpu07", "--clear", "--reason", "mended") == 0
    assert registry.node("gpu07").mark is None
    assert _typed("mark", "gpu07", "--clear", "--reason", "mended", CLAUDECODE="1") == 6


def _typed(*args: str, **env: str) -> int:
    """Run a command with a terminal as its standard input; its exit code."""
    master, slave = pty.openpty()
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("CLAUDE", "CODEX_"))}
    try:
        done = subprocess.run([*COMMAND, "node", *args], stdin=slave, capture_output=True, env=clean | env, check=False)
    finally:
        os.close(master)
        os.close(slave)
    return done.returncode


@pytest.mark.parametrize("form", ["text", "md", "json"])
def test_every_answer_has_three_forms(
    registry: Registry, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeMachine(tmp_path, monkeypatch)
    take(registry)
    for words in (["status"], ["history"], ["eligible", "--explain"], ["policy"], ["gc"], ["observe"]):
        done = subprocess.run([*COMMAND, "node", *words, "--format", form], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()


def test_a_claim_starts_no_heavy_package() -> None:
    code = (
        "import sys; from infer_forge.cli import node; from infer_forge.nodes import claims, guarded, registry; "
        "print([m for m in ('pydantic','networkx','pandas','numpy','mcp','psutil','git','yaml','cryptography') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
