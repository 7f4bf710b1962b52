"""The collector, clean-up and re-verification, on real repositories with a machine whose GPUs the test decides."""

from __future__ import annotations

import subprocess
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import GateRefused, HumanNeeded, InputUnusable, MissingPart, UsageFault
from infer_forge.base.gitstore import Refused
from infer_forge.nodes import claims
from infer_forge.nodes.collector import Collector, collect
from infer_forge.nodes.eligibility import Judged, cleanup, eligible
from infer_forge.nodes.keys import private_key
from infer_forge.nodes.looking import observe
from infer_forge.nodes.model import parse_gpus
from infer_forge.nodes.probing import verify
from infer_forge.nodes.read import record_of
from infer_forge.nodes.registry import CLAIMS, LIVE, NOTES, OBS, Registry, set_policy
from infer_forge.nodes.reports import cleanup_report, eligible_report, observations, status
from infer_forge.nodes.retention import gc
from infer_forge.nodes.states import CONFLICTING, ELIGIBLE, GAPPED, MISSING, RUNTIME_ONLY, STALE
from tests.nodes.samples import Clock, FakeMachine


class Scene:
    """A node `gpu07` with a claim, its collector, and clocks that the test moves."""

    def __init__(self, registry: Registry, machine: FakeMachine, clock: Clock) -> None:
        self.registry, self.machine, self.clock = registry, machine, clock
        self.claim = claims.claim(registry, "gpu07", parse_gpus("0,1"), task="t", purpose="p").claim
        self.collector = Collector(registry, all_visible=True)

    def minutes(self, count: int) -> None:
        for _ in range(count):
            self.clock.pass_(60)
            self.collector.step()

    def judged(self) -> Judged:
        return eligible(self.registry)[0]

    @property
    def state(self) -> str:
        return self.judged().evaluation.state


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    monkeypatch.setenv("INFER_FORGE_NODE", "gpu07")
    return FakeMachine(tmp_path, monkeypatch)


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    path = tmp_path / "hub.git"
    subprocess.run(["git", "init", "-q", "--bare", str(path)], check=True)
    return path


@pytest.fixture
def scene(machine: FakeMachine, clock: Clock) -> Scene:
    registry = Registry.open(create=True)
    registry.ensure_policy()
    return Scene(registry, machine, clock)


@pytest.fixture
def shared(machine: FakeMachine, clock: Clock, hub: Path) -> Scene:
    registry = Registry.open(str(hub), create=True)
    registry.ensure_policy()
    return Scene(registry, machine, clock)


def test_an_idle_claim_becomes_eligible_is_cleaned_up_verified_and_claimed_again(scene: Scene) -> None:
    scene.minutes(30)
    assert scene.state == GAPPED
    scene.minutes(2)
    judged = scene.judged()
    assert judged.evaluation.state == ELIGIBLE
    dry = cleanup(scene.registry, scene.claim.claim_id, epoch=1, evidence=judged.evidence)
    assert dry.released is None
    assert scene.registry.node("gpu07").claims
    done = cleanup(scene.registry, scene.claim.claim_id, epoch=1, evidence=judged.evidence[:16], execute=True)
    assert done.released is not None
    assert (done.released.how, done.released.epoch) == ("cleanup", 1)
    assert done.before is not None
    assert done.changed == []
    kept = scene.registry.store.read(CLAIMS).get_json(f"cleanups/gpu07/{scene.claim.claim_id}.json")
    assert kept["before"]["gpus"][0]["index"] == 0
    commit = next(c for c in scene.registry.store.history(CLAIMS) if c.trailers.get("Event") == "cleanup")
    assert {"Evidence", "Policy", "Claim", "Epoch"} <= set(commit.trailers)
    with pytest.raises(Refused, match="not verified since"):
        claims.claim(scene.registry, "gpu07", parse_gpus("0"), task="u", purpose="p")
    probe = verify(scene.registry, "gpu07", all_visible=True)
    again = claims.claim(scene.registry, "gpu07", parse_gpus("0,1"), task="u", purpose="p").claim
    assert (again.epoch, again.probe_id) == (2, probe.probe_id)
    assert again.gpus[0].uuid is not None


def test_reports_of_states_and_clean_up_carry_what_a_reader_needs(scene: Scene) -> None:
    scene.minutes(32)
    found = eligible(scene.registry)
    report = eligible_report(scene.registry, found, explain=True).to_json()
    assert report["tables"]["claims"]["rows"][0][5:7] == [ELIGIBLE, True]
    assert "node cleanup --claim" in report["next_step"]
    assert report["evidence_tips"][scene.claim.claim_id]
    dry = cleanup_report(cleanup(scene.registry, scene.claim.claim_id, epoch=1, evidence=found[0].evidence)).to_json()
    assert dry["executed"] is False
    seen = observations(scene.registry, "gpu07").to_json()["tables"]["samples"]
    assert len(seen["rows"]) == 64
    assert seen["columns"][:4] == ["time", "collector", "seq", "source"]


def test_a_clean_up_needs_the_right_epoch_and_evidence_that_is_real_fresh_and_of_this_claim(scene: Scene) -> None:
    scene.minutes(20)
    early = scene.judged().evidence
    scene.minutes(12)
    good = scene.judged().evidence
    ident = scene.claim.claim_id
    for epoch, evidence, words in (
        (2, good, "epoch 1, not 2"),
        (1, "f" * 64, "not known"),
        (1, early, "says blocked"),
        (1, good[:8], "not known"),
        (1, "../../x", "not known"),
    ):
        with pytest.raises(GateRefused, match=words):
            cleanup(scene.registry, ident, epoch=epoch, evidence=evidence, execute=True)
    scene.minutes(4)
    with pytest.raises(GateRefused, match="old"):
        cleanup(scene.registry, ident, epoch=1, evidence=good, execute=True)
    assert scene.registry.node("gpu07").claims


def test_evidence_of_an_idle_past_does_not_carry_a_clean_up_of_a_busy_present(scene: Scene) -> None:
    scene.minutes(32)
    evidence = scene.judged().evidence
    scene.machine.set({"index": 0, "util": 99, "used": 60000, "procs": [[4242, "C", "python", 60000]]}, {"index": 1})
    scene.minutes(1)
    with pytest.raises(GateRefused, match="claimed:active"):
        cleanup(scene.registry, scene.claim.claim_id, epoch=1, evidence=evidence, execute=True)


@pytest.mark.parametrize(
    ("gpu", "state"),
    [
        ({"procs": [[1, "C", "sglang::scheduler", 65720]], "used": 65720}, RUNTIME_ONLY),
        ({"used": 65720}, CONFLICTING),
        ({"procs": "N/A"}, MISSING),
        ({"util": "N/A"}, MISSING),
        ({"mig": [[1, 0, "MIG-1", 10, 9000]]}, MISSING),
        ({"power": "N/A"}, MISSING),
    ],
    ids=str,
)
def test_what_nvidia_smi_says_decides_the_state(scene: Scene, gpu: dict[str, Any], state: str) -> None:
    scene.machine.set({"index": 0, **gpu}, {"index": 1})
    scene.minutes(32)
    assert scene.state == state


@pytest.mark.parametrize("mode", ["no-driver", "permission", "truncated"])
def test_a_driver_that_fails_is_recorded_and_blocks(scene: Scene, mode: str) -> None:
    scene.minutes(20)
    scene.machine.set(mode=mode)
    scene.minutes(1)
    scene.machine.set()
    scene.minutes(12)
    assert scene.state == MISSING
    assert any("error" in r.text for r in scene.judged().evaluation.reasons)


def test_a_collector_that_stops_makes_the_claim_stale(scene: Scene) -> None:
    scene.minutes(32)
    assert scene.state == ELIGIBLE
    scene.clock.pass_(190)
    assert scene.state == STALE


def test_a_collector_that_pauses_leaves_a_gap_for_the_whole_window(scene: Scene) -> None:
    scene.minutes(32)
    scene.clock.pass_(200)
    scene.minutes(29)
    assert scene.state == GAPPED
    scene.minutes(3)
    assert scene.state == ELIGIBLE


def test_a_collector_started_again_goes_on_with_its_chain(scene: Scene) -> None:
    scene.minutes(16)
    scene.collector = Collector(scene.registry, all_visible=True)
    scene.minutes(16)
    assert scene.state == ELIGIBLE
    scene.collector.folder.joinpath("chain.json").unlink()
    scene.collector = Collector(scene.registry, all_visible=True)
    scene.minutes(1)
    assert scene.state == ELIGIBLE


def test_segments_are_sealed_every_ten_minutes_and_old_live_samples_do_not_pile_up(scene: Scene) -> None:
    scene.minutes(45)
    store = scene.registry.store
    refs = store.tips(OBS)
    assert list(refs) == [f"{OBS}gpu07/{datetime.fromtimestamp(scene.clock.wall, timezone.utc):%Y-%m}"]
    segments = store.read(next(iter(refs))).list()
    assert len(segments) == 4
    assert segments[0].endswith("-000000000001.jsonl")
    assert len(store.read(LIVE + "gpu07").list()) <= 12
    record = record_of(scene.registry, "gpu07", 10_000)
    assert [s.obs.seq for s in record.samples] == list(range(1, 46))
    assert all(b.obs.prev_sha == a.sha for a, b in pairwise(record.samples))
    done = subprocess.run(
        ["git", "-C", str(store.gitdir), "fsck", "--unreachable", "--no-progress", "--strict"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert len([line for line in done.stdout.splitlines() if line.startswith("unreachable")]) <= 3


def test_a_tampered_sample_in_a_sealed_segment_blocks(scene: Scene) -> None:
    scene.minutes(32)
    store = scene.registry.store
    ref = next(iter(store.tips(OBS)))

    def tamper(snapshot: Any) -> Any:
        from infer_forge.base.gitstore import Changes

        path = snapshot.list()[-1]
        return Changes(put={path: (snapshot.get(path) or b"").replace(b'"util_gpu_pct":0.0', b'"util_gpu_pct":0.1', 1)})

    store.update(ref, tamper, "tamper")
    assert scene.state == CONFLICTING


def test_an_agents_observation_is_shown_blocks_and_never_helps(scene: Scene) -> None:
    scene.minutes(32)
    scene.machine.set({"index": 0, "util": 80, "procs": [[9, "C", "x", 100]]}, {"index": 1})
    observe(scene.registry, note="I see a server")
    assert len(scene.registry.store.tips(NOTES)) == 1
    assert scene.state == CONFLICTING
    with pytest.raises(UsageFault, match="not gpu08"):
        observe(scene.registry, "gpu08")


def test_a_second_collector_or_another_key_needs_a_person(scene: Scene) -> None:
    with pytest.raises(HumanNeeded, match="another collector"):
        Collector(scene.registry, collector_id="second", all_visible=True)
    key = scene.collector.folder / "collector.key"
    assert key.stat().st_mode & 0o077 == 0
    key.unlink()
    with pytest.raises(HumanNeeded, match="another key"):
        Collector(scene.registry, all_visible=True)
    assert Collector(scene.registry, all_visible=True, trusted=True).key == private_key(key)


def test_one_collector_of_a_name_runs_at_a_time(scene: Scene) -> None:
    with scene.collector.running(), pytest.raises(GateRefused, match="runs already"):
        collect(Collector(scene.registry, all_visible=True), samples=1)


def test_an_interval_that_the_policy_calls_a_gap_is_refused(scene: Scene) -> None:
    with pytest.raises(UsageFault, match="leaves gaps"):
        Collector(scene.registry, interval_s=300)


# With a hub


def test_another_machine_sees_the_same_state_through_the_hub(
    shared: Scene, hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared.minutes(32)
    monkeypatch.setenv("INFER_FORGE_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("INFER_FORGE_NODE", "laptop")
    other = Registry.open(str(hub), create=True)
    judged = eligible(other)[0]
    assert judged.evaluation.state == ELIGIBLE
    done = cleanup(other, shared.claim.claim_id, epoch=1, evidence=judged.evidence, execute=True)
    assert (done.before, done.after, done.changed) == (None, None, None)
    with pytest.raises(MissingPart, match="on gpu07"):
        verify(other, "gpu07")


def test_a_lost_network_leaves_no_gap_but_samples_that_could_not_ask_for_claims(shared: Scene, hub: Path) -> None:
    shared.minutes(20)
    away = hub.with_suffix(".away")
    hub.rename(away)
    shared.minutes(12)
    assert shared.collector.problem
    away.rename(hub)
    shared.minutes(1)
    assert shared.collector.problem is None
    reasons = shared.judged().evaluation
    assert reasons.state == MISSING
    assert all("could not ask the hub" in r.text for r in reasons.reasons)
    assert len(record_of(shared.registry, "gpu07", 10_000).samples) == 33


def test_eligibility_is_never_told_from_what_may_be_old(shared: Scene, hub: Path) -> None:
    shared.minutes(32)
    hub.rename(hub.with_suffix(".away"))
    with pytest.raises(MissingPart):
        eligible(shared.registry)
    report = status(shared.registry).to_json()
    assert report["findings"][0]["code"] == "HUB_UNREACHABLE"


# Re-verification


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        ({"util": 40}, "works"),
        ({"procs": [[9, "C", "x", 100]]}, "processes use it"),
        ({"used": 2000}, "2000 MiB"),
        ({"power": 300}, "draws 300 W"),
        ({"recovery": "Drain and Reset"}, "drain_and_reset"),
        ({"ecc": 2}, "ECC"),
        ({"util": "N/A"}, "not known"),
        ({"procs": "N/A"}, "procs is not known"),
        ({"mig": [[1, 0, "MIG-1", 10, 9000]]}, "MIG"),
    ],
    ids=str,
)
def test_a_gpu_that_is_used_unhealthy_or_unknown_is_not_verified(scene: Scene, gpu: dict[str, Any], words: str) -> None:
    claims.release(scene.registry, scene.claim.claim_id, reason="done")
    scene.machine.set({"index": 0, **gpu}, {"index": 1})
    with pytest.raises(GateRefused, match=words):
        verify(scene.registry, "gpu07", all_visible=True)


@pytest.mark.parametrize(("xid", "free"), [(79, False), (48, False), (31, True), (13, True)])
def test_an_xid_of_the_hardware_keeps_a_gpu_from_being_verified_and_one_of_a_program_does_not(
    scene: Scene, xid: int, free: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims.release(scene.registry, scene.claim.claim_id, reason="done")
    monkeypatch.setattr("infer_forge.base.machine.looking.xid_errors", lambda _: {"0000:1b:00": [xid]})  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    if free:
        assert verify(scene.registry, "gpu07", all_visible=True).gpus
        return
    with pytest.raises(GateRefused, match=f"Xid {xid}"):
        verify(scene.registry, "gpu07", all_visible=True)
    scene.minutes(1)
    codes = [f.code for f in status(scene.registry).findings]
    assert "GPU_UNHEALTHY" in codes


def test_a_damaged_record_of_one_node_hides_no_other(scene: Scene) -> None:
    def damage(_: Any) -> Any:
        from infer_forge.base.gitstore import Changes

        return Changes(put={"nodes/gpu99.json": "{}"})

    scene.registry.store.update(CLAIMS, damage, "damage")
    report = status(scene.registry).to_json()
    assert report["findings"][0]["code"] == "NODE_UNREADABLE"
    assert report["tables"]["nodes"]["rows"][0][0] == "gpu07"
    with pytest.raises(InputUnusable):
        claims.claim(scene.registry, "gpu99", parse_gpus("0"), task="t", purpose="p")


def test_a_damaged_live_sample_blocks_and_stops_no_collector(scene: Scene) -> None:
    scene.minutes(3)
    store = scene.registry.store
    from infer_forge.base.gitstore import Changes

    files: dict[str, bytes | str] = dict(store.read(LIVE + "gpu07").items())
    files["000000000002.json"] = "nonsense"
    store.replace(LIVE + "gpu07", Changes(put=files), "damage")
    assert scene.state == CONFLICTING
    scene.minutes(32)
    assert scene.state == ELIGIBLE


def test_a_probe_ends_soon_and_with_the_next_claim(scene: Scene) -> None:
    claims.release(scene.registry, scene.claim.claim_id, reason="done")
    with pytest.raises(GateRefused, match="not every process"):
        verify(scene.registry, "gpu07", all_visible=False)
    verify(scene.registry, "gpu07", parse_gpus("0"), all_visible=True)
    with pytest.raises(Refused, match="did not look at all"):
        claims.claim(scene.registry, "gpu07", parse_gpus("0,1"), task="u", purpose="p")
    verify(scene.registry, "gpu07", all_visible=True)
    scene.clock.pass_(121)
    with pytest.raises(Refused, match="older than 120 s"):
        claims.claim(scene.registry, "gpu07", parse_gpus("0"), task="u", purpose="p")
    scene.clock.pass_(-3600)
    with pytest.raises(Refused, match="future"):
        claims.claim(scene.registry, "gpu07", parse_gpus("0"), task="u", purpose="p")
    scene.clock.pass_(3600)
    verify(scene.registry, "gpu07", all_visible=True)
    claims.claim(scene.registry, "gpu07", parse_gpus("0"), task="u", purpose="p")
    with pytest.raises(Refused, match="older than the last claim"):
        claims.claim(scene.registry, "gpu07", parse_gpus("1"), task="u", purpose="p")


def test_nobody_verifies_gpus_that_are_held(scene: Scene) -> None:
    with pytest.raises(Refused, match="held by claim"):
        verify(scene.registry, "gpu07", parse_gpus("0"), all_visible=True)


# Retention


def test_gc_drops_whole_old_months_and_keeps_every_claim(shared: Scene, hub: Path) -> None:
    shared.minutes(12)
    set_policy(shared.registry, {"retention_months": "1"})
    before = len(list(shared.registry.store.history(CLAIMS)))
    later = datetime.fromtimestamp(shared.clock.wall + 100 * 86400, timezone.utc)
    dry = gc(shared.registry, now=later)
    assert len(dry.dropped) == 1
    assert shared.registry.store.tips(OBS)
    done = gc(shared.registry, now=later, execute=True)
    assert done.dropped == dry.dropped
    assert len(done.sizes) == 2
    assert shared.registry.store.tips(OBS) == {}
    refs = subprocess.run(["git", "-C", str(hub), "for-each-ref"], capture_output=True, text=True, check=True).stdout
    assert OBS not in refs
    assert len(list(shared.registry.store.history(CLAIMS))) == before
