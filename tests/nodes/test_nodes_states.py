"""States of a claim: one test per branch, and what no fault may ever turn into eligibility."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infer_forge.base.machine.model import GpuState, MigDevice, RuntimeState
from infer_forge.nodes.model import Claim, GpuRef, Observation, Policy, RuntimeId
from infer_forge.nodes.read import Record
from infer_forge.nodes.registry import default_policy
from infer_forge.nodes.states import ACTIVE, CONFLICTING, ELIGIBLE, GAPPED, GPU_ONLY, MISSING, RUNTIME_ONLY, STALE
from tests.nodes.samples import (
    NOW,
    Window,
    altered,
    head_of,
    idle_gpu,
    judge,
    make_claim,
    process,
    record_of,
)


def gpus_of(obs: Observation) -> list[GpuState]:
    assert obs.gpus is not None
    return obs.gpus


def at(step: int, **fields: Any):
    """Bend one sample: its own fields, or those of GPU 0 when the name is a GPU's."""

    def change(now: int, obs: Observation) -> None:
        if now == step:
            for name, value in fields.items():
                setattr(obs if hasattr(obs, name) else gpus_of(obs)[0], name, value)

    return change


def always(**fields: Any):
    def change(_: int, obs: Observation) -> None:
        for name, value in fields.items():
            setattr(obs if hasattr(obs, name) else gpus_of(obs)[0], name, value)

    return change


def state(window: Window, claim: Claim | None = None, **more: Any) -> str:
    return judge(window.record(), claim=claim or window.claim, **more).state


def test_a_claim_whose_runtime_and_gpus_were_idle_all_along_is_eligible() -> None:
    result = judge(Window().record())
    assert (result.state, result.reasons) == (ELIGIBLE, [])
    assert result.window["gpu07"] == list(range(101, 132))


def test_use_of_gpus_that_the_claim_does_not_hold_does_not_matter() -> None:
    def other(_: int, obs: Observation) -> None:
        gpus_of(obs)[3].util_gpu_pct = 100.0
        gpus_of(obs)[3].procs = [process(9)]
        obs.runtime = [RuntimeState(kind="holder", id="9", minors=[3], alive=True)]

    assert state(Window(change=other)) == ELIGIBLE


# Missing


def test_no_observation_at_all_blocks() -> None:
    assert judge(record_of([])).state == MISSING
    assert judge(expected=("gpu07",)).state == MISSING


@pytest.mark.parametrize(
    "fields",
    [
        {"gpus": None},
        {"procs": None},
        {"util_gpu_pct": None},
        {"mem_used_mib": None},
        {"energy_mj": None, "power_w": None},
        {"runtime": None},
        {"claims": None},
        {"errors": ["GPU 0 memory: Insufficient Permissions"]},
        {"name": None, "power_limit_w": None},
        {"mig": True},
        {"gpus": []},
    ],
    ids=str,
)
def test_what_is_not_known_never_counts_as_idle(fields: dict[str, Any]) -> None:
    assert state(Window(change=at(20, **fields))) in (MISSING, CONFLICTING)
    assert state(Window(change=always(**fields))) == MISSING


def test_without_a_named_runtime_all_processes_of_the_node_must_be_visible() -> None:
    assert state(Window(change=always(complete=False))) == MISSING
    named = make_claim(runtimes=(RuntimeId(kind="container", id="a" * 64),))
    assert state(Window(claim=named, change=always(complete=False))) == ELIGIBLE


def test_a_runtime_that_could_not_be_looked_at_blocks() -> None:
    named = make_claim(runtimes=(RuntimeId(kind="slurm", id="12"),))
    assert state(Window(claim=named, change=always(runtime=[]))) == MISSING
    unseen = [RuntimeState(kind="slurm", id="12", claim_id="c-1", alive=None)]
    assert state(Window(claim=named, change=always(runtime=unseen))) == MISSING


def test_fewer_collectors_than_the_policy_wants_block() -> None:
    two = msgspec.structs.replace(default_policy(), quorum=2)
    assert state(Window(), policy=two) == MISSING
    assert judge(Window().record(), expected=("gpu07", "second")).state == MISSING


# Stale


def test_an_old_newest_sample_blocks_by_either_clock() -> None:
    assert state(Window(end=NOW - 400)) == STALE
    assert state(Window(), arrival_s=200.0) == STALE
    assert state(Window(), arrival_s=None) == MISSING


# Gapped


def test_a_missing_sample_blocks_however_short_the_gap() -> None:
    samples = Window(every_s=20, count=120).samples()
    del samples[60]
    assert judge(record_of(samples)).state == GAPPED


def test_a_late_but_consecutive_sample_is_tolerated_up_to_the_policys_gap() -> None:
    assert state(Window(every_s=140, count=15)) == ELIGIBLE
    assert state(Window(every_s=160, count=15)) == GAPPED


def test_a_boot_inside_the_window_blocks() -> None:
    def boot(step: int, obs: Observation) -> None:
        obs.boot_id = "boot-0" if step < 20 else "boot-1"

    assert state(Window(change=boot)) == GAPPED


def test_a_boot_before_the_window_does_not_matter() -> None:
    def boot(step: int, obs: Observation) -> None:
        obs.boot_id = "boot-0" if step < 5 else "boot-1"

    assert state(Window(count=40, change=boot)) == ELIGIBLE


def test_a_record_shorter_than_the_window_blocks() -> None:
    assert state(Window(count=20)) == GAPPED
    assert state(Window(every_s=170, count=12), policy=_with(max_gap_s=200.0, min_samples=12)) == ELIGIBLE
    assert state(Window(every_s=190, count=11), policy=_with(max_gap_s=200.0, min_samples=12)) == GAPPED


def test_a_window_that_reaches_back_before_the_claims_epoch_blocks() -> None:
    def older(step: int, obs: Observation) -> None:
        if step < 10:
            obs.claims = [msgspec.structs.replace((obs.claims or [])[0], epoch=2)]

    assert state(Window(change=older)) == GAPPED
    assert state(Window(), make_claim(age_s=600)) == GAPPED


def test_an_energy_counter_that_went_back_blocks() -> None:
    def reset(step: int, obs: Observation) -> None:
        if step >= 20:
            gpus_of(obs)[0].energy_mj = step

    assert state(Window(change=reset)) == GAPPED


# Conflicting


def test_two_collectors_that_disagree_block_and_two_that_agree_do_not() -> None:
    busy = Window(collector="second", change=always(util_gpu_pct=90.0)).record()
    assert judge(Window().record(), busy).state == CONFLICTING
    assert judge(Window().record(), Window(collector="second").record()).state == ELIGIBLE


def test_one_seq_with_two_contents_blocks() -> None:
    samples = Window().samples()
    twin = Window(change=always(driver="other")).samples()[20]
    assert (
        judge(record_of(sorted([*samples, twin], key=lambda s: (s.obs.seq, s.sha)), head=head_of(samples[-1]))).state
        == CONFLICTING
    )


def test_a_broken_chain_blocks() -> None:
    assert state(Window(change=at(20, prev_sha="f" * 64))) == CONFLICTING


def test_a_sample_that_is_not_signed_by_the_registered_collector_blocks() -> None:
    samples = Window().samples()
    forged = head_of(samples[-1], key=b"\1" * 32)
    assert judge(record_of(samples, head=forged)).state == CONFLICTING


def test_gpus_that_changed_inside_the_window_block() -> None:
    assert state(Window(change=at(20, uuid="GPU-other"))) == CONFLICTING


def test_memory_in_use_with_no_process_listed_is_a_conflict_not_idleness() -> None:
    assert state(Window(change=always(mem_used_mib=65_720))) == CONFLICTING


def test_a_sample_from_the_future_is_a_conflict() -> None:
    assert state(Window(end=NOW + 120)) == CONFLICTING


def test_a_clock_that_was_set_inside_the_window_is_a_conflict() -> None:
    def stepped(step: int, obs: Observation) -> None:
        obs.t_wall -= 100 if step < 20 else 0

    assert state(Window(change=stepped)) == CONFLICTING


def test_a_damaged_record_is_a_conflict() -> None:
    good = Window().record()
    assert judge(Record(good.collector_id, good.samples, good.head, good.tips, ["live: 1"])).state == CONFLICTING


def test_what_an_agent_saw_can_block_and_never_helps() -> None:
    busy = Window(change=always(util_gpu_pct=50.0)).samples()[-1].obs
    busy.source_kind = "agent"
    quiet = Window().samples()[-1].obs
    quiet.source_kind = "agent"
    assert judge(Window().record(), notes=(busy,)).state == CONFLICTING
    assert judge(Window(count=5).record(), notes=(quiet,) * 50).state == GAPPED
    assert judge(Window(change=always(source_kind="agent")).record()).state == CONFLICTING


# In use


def test_runtime_and_gpu_active_is_active() -> None:
    def work(_: int, obs: Observation) -> None:
        gpus_of(obs)[0].util_gpu_pct = 97.0
        gpus_of(obs)[0].procs = [process(4242)]
        gpus_of(obs)[0].mem_used_mib = 65_000

    assert state(Window(change=work)) == ACTIVE


def test_a_loaded_server_that_does_nothing_waits_for_review() -> None:
    def loaded(_: int, obs: Observation) -> None:
        gpus_of(obs)[0].procs = [process(4242)]
        gpus_of(obs)[0].mem_used_mib = 65_720

    assert state(Window(change=loaded)) == RUNTIME_ONLY
    alive = [RuntimeState(kind="container", id="a" * 64, claim_id="c-1", alive=True)]
    named = make_claim(runtimes=(RuntimeId(kind="container", id="a" * 64),))
    assert state(Window(claim=named, change=always(runtime=alive))) == RUNTIME_ONLY


def test_somebody_elses_process_waits_for_review() -> None:
    named = make_claim(runtimes=(RuntimeId(kind="pid", id="1", start_ticks=5),))

    def foreign(_: int, obs: Observation) -> None:
        gpus_of(obs)[0].procs = [process(4242)]

    assert state(Window(claim=named, change=foreign)) == GPU_ONLY
    assert state(Window(claim=named, change=always(util_gpu_pct=90.0))) == GPU_ONLY


def test_a_reused_pid_is_not_the_claims_runtime() -> None:
    named = make_claim(runtimes=(RuntimeId(kind="pid", id="4242", start_ticks=5),))

    def reused(_: int, obs: Observation) -> None:
        gpus_of(obs)[0].procs = [process(4242)]

    assert state(Window(claim=named, change=reused)) == GPU_ONLY


def test_a_process_that_holds_the_device_open_counts_before_the_driver_lists_it() -> None:
    holder = [RuntimeState(kind="holder", id="9", minors=[0], alive=True)]
    assert state(Window(change=at(20, runtime=holder))) == RUNTIME_ONLY


def test_a_burst_between_two_samples_shows_in_the_energy_counter() -> None:
    def burst(step: int, obs: Observation) -> None:
        if step >= 20:
            gpus_of(obs)[0].energy_mj = (gpus_of(obs)[0].energy_mj or 0) + 30_000 * 60

    assert state(Window(change=burst)) == GPU_ONLY


def test_a_small_gpu_under_load_does_not_pass_for_idle_by_the_default_power() -> None:
    def t4(_: int, obs: Observation) -> None:
        gpu = gpus_of(obs)[0]
        gpu.name, gpu.power_limit_w, gpu.power_w, gpu.energy_mj = "NVIDIA Unheard 1", 70.0, 60.0, None

    assert state(Window(change=t4)) == GPU_ONLY


def test_a_mig_slice_is_found_through_its_gpu_and_stays_unknown() -> None:
    claim = make_claim()
    claim = msgspec.structs.replace(claim, gpus=[GpuRef(index=0, uuid="MIG-1")])

    def sliced(_: int, obs: Observation) -> None:
        gpu = gpus_of(obs)[0]
        gpu.mig, gpu.util_gpu_pct, gpu.mig_devices = True, None, [MigDevice(index=0, uuid="MIG-1")]

    assert state(Window(claim=claim, change=sliced)) == MISSING


# Invariants


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_removing_any_observation_of_an_eligible_window_never_leaves_it_eligible(data: st.DataObject) -> None:
    samples = Window(count=data.draw(st.integers(31, 45))).samples()
    full = judge(record_of(samples))
    assert full.state == ELIGIBLE
    seq = data.draw(st.sampled_from(full.window["gpu07"]))
    left = [s for s in samples if s.obs.seq != seq]
    assert judge(record_of(left, head=head_of(samples[-1]))).state != ELIGIBLE


FIELDS: list[tuple[str, Any]] = [
    ("seq", 5), ("seq", 10_000), ("t_mono_ns", 0), ("boot_id", None), ("boot_id", "x"), ("prev_sha", None), ("node", "other"),
    ("claims", []), ("claims", None), ("gpus", None), ("gpus", []), ("runtime", None), ("errors", ["x"]), ("complete", False),
    ("collector_id", "other"), ("source_kind", "agent"), ("t_wall", 0.0), ("t_wall", NOW * 2), ("driver", "1"),
]  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(FIELDS), st.integers(0, 30))
def test_corrupting_any_observation_of_an_eligible_window_never_leaves_it_eligible(
    fault: tuple[str, Any], place: int
) -> None:
    samples = Window(count=31).samples()
    assert judge(record_of(samples)).state == ELIGIBLE
    bent = list(samples)
    bent[place] = altered(samples[place], **{fault[0]: fault[1]})
    assert judge(record_of(bent, head=head_of(samples[-1]))).state != ELIGIBLE
    resigned = Window(count=31, change=at(place, **{fault[0]: fault[1]}))
    if fault[0] not in ("driver", "complete", "prev_sha"):  # an honest chain may say these
        assert judge(resigned.record()).state != ELIGIBLE


GPU_FIELDS = ["util_gpu_pct", "mem_used_mib", "procs"]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 30), st.sets(st.sampled_from(GPU_FIELDS), min_size=1), st.integers(0, 1))
def test_an_unknown_field_at_any_moment_never_leaves_it_eligible(place: int, names: set[str], gpu: int) -> None:
    def blind(step: int, obs: Observation) -> None:
        if step == place:
            for name in names:
                setattr(gpus_of(obs)[gpu], name, None)

    assert judge(Window(count=31, change=blind).record()).state != ELIGIBLE


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 3))
def test_the_order_of_arrival_makes_no_difference(shuffle: random.Random, kind: int) -> None:
    changes = [None, at(7, prev_sha="0" * 64), always(util_gpu_pct=50.0), at(3, boot_id="b")]
    samples = Window(change=changes[kind]).samples()
    head = head_of(samples[-1])
    mixed = [*samples, samples[4]]
    shuffle.shuffle(mixed)
    kept = list({(s.obs.seq, s.sha): s for s in mixed}.values())
    before, after = judge(record_of(samples, head=head)), judge(record_of(kept, head=head))
    assert (before.state, before.window) == (after.state, after.window)


@settings(max_examples=40, deadline=None)
@given(st.floats(300, 7200), st.booleans(), st.booleans())
def test_a_clock_that_is_off_on_either_side_never_gives_eligibility(off: float, ahead: bool, evaluator: bool) -> None:
    shift = off if ahead else -off
    if evaluator:
        assert state(Window(), now=NOW + 5 + shift) != ELIGIBLE
    else:
        assert state(Window(end=NOW + shift)) != ELIGIBLE


def _with(**fields: Any) -> Policy:
    return msgspec.structs.replace(default_policy(), **fields)


def test_the_made_up_idle_gpu_is_idle_by_the_policy() -> None:
    limit = default_policy().idle.power_limit_w(idle_gpu(0, 0))
    assert limit is not None
    assert limit > 70
