"""The state of one claim, from what collectors recorded. Pure: no clock, no file, no hub.

Fails closed: `claimed:idle-eligible` needs positive evidence of idleness at every moment of the window, by every
collector of the node; whatever is missing, stale, gapped, conflicting or unknown gives another state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from infer_forge.base.machine.model import GpuState, ProcessUse, RuntimeState
from infer_forge.nodes.model import Claim, GpuRef, Observation, Policy
from infer_forge.nodes.read import Record, Sample

CONFLICTING = "blocked:conflicting"
MISSING = "blocked:missing"
STALE = "blocked:stale"
GAPPED = "blocked:gapped"
ACTIVE = "claimed:active"
RUNTIME_ONLY = "review:runtime-active-gpu-idle"
GPU_ONLY = "review:gpu-active-no-runtime"
ELIGIBLE = "claimed:idle-eligible"
STATES = (CONFLICTING, MISSING, STALE, GAPPED, ACTIVE, RUNTIME_ONLY, GPU_ONLY, ELIGIBLE)
"""In the order in which they win."""


@dataclass(frozen=True)
class Reason:
    """Why: the state that it speaks for, what was seen, in whose record and at which sample."""

    state: str
    text: str
    collector_id: str | None = None
    seq: int | None = None


@dataclass
class Evaluation:
    """The state of a claim, all its reasons, and what was looked at.

    Attributes:
        window: collector id -> seqs of the samples that the window held.
        newest_wall: the newest sample's own clock, None when there is none.
    """

    state: str
    reasons: list[Reason] = field(default_factory=list[Reason])
    window: dict[str, list[int]] = field(default_factory=dict[str, "list[int]"])
    newest_wall: float | None = None


@dataclass(frozen=True)
class Arrival:
    """How long the evaluator has had a collector's newest sample, by the evaluator's own monotonic clock; None: unknown."""

    age_s: float | None


def evaluate(
    claim: Claim,
    records: Sequence[Record],
    policy: Policy,
    now_wall: float,
    arrivals: Mapping[str, Arrival],
    *,
    keys: Mapping[str, str],
    notes: Sequence[Observation] = (),
    expected: Sequence[str] = (),
) -> Evaluation:
    """Judge one claim.

    Args:
        records: of the node's collectors.
        now_wall: the evaluator's clock.
        arrivals: collector id -> how long its newest sample has been here.
        keys: collector id -> public key, of registered collectors; the record of another one counts for nothing.
        notes: what agents saw; may block, never helps.
        expected: ids of all collectors that the node has; one without a record blocks.
    """
    judge = _Judge(claim, policy, now_wall)
    by_id = {r.collector_id: r for r in records if r.collector_id in keys}
    for collector_id in expected:
        if collector_id not in by_id:
            judge.say(MISSING, f"collector {collector_id} has recorded nothing", collector_id)
    if len(by_id) < policy.quorum:
        judge.say(MISSING, f"{len(by_id)} collectors observe this node, the policy wants {policy.quorum}")
    views = [judge.collector(record, keys[cid], arrivals.get(cid)) for cid, record in sorted(by_id.items())]
    judge.agree(views)
    judge.agents(notes)
    return judge.result()


@dataclass
class _View:
    """What one collector's window says."""

    collector_id: str
    runtime_alive: bool
    gpu_busy: bool
    foreign: bool


class _Judge:
    def __init__(self, claim: Claim, policy: Policy, now: float) -> None:
        self.claim, self.policy, self.now = claim, policy, now
        self.reasons: list[Reason] = []
        self.windows: dict[str, list[int]] = {}
        self.newest: float | None = None
        self.limits: dict[tuple[str | None, float | None], float | None] = {}

    def say(self, state: str, text: str, collector_id: str | None = None, seq: int | None = None) -> None:
        reason = Reason(state, text, collector_id, seq)
        if not any(r.state == state and r.text == text and r.collector_id == collector_id for r in self.reasons):
            self.reasons.append(reason)

    # One collector

    def collector(self, record: Record, key: str, arrival: Arrival | None) -> _View:
        who = record.collector_id
        for fault in record.faults:
            self.say(CONFLICTING, f"a record is damaged: {fault}", who)
        window = self.window_of(record)
        self.windows[who] = [s.obs.seq for s in window]
        self.head(record, key)
        if not window:
            self.say(MISSING, "no observation", who)
            return _View(who, False, False, False)
        self.fresh(who, window[-1].obs, arrival)
        self.chain(who, window)
        self.span(who, window)
        return self.content(who, window)

    def window_of(self, record: Record) -> list[Sample]:
        """The samples of the last `window_s` before the newest one, and the one before those (of an older boot, if that ends them)."""
        mine = [s for s in record.samples if s.obs.node == self.claim.node]
        if len(mine) != len(record.samples):
            self.say(CONFLICTING, "a sample speaks of another node", record.collector_id)
        if not mine:
            return []
        mine.sort(key=lambda s: (s.obs.seq, s.sha))
        newest = mine[-1].obs
        start = newest.t_mono_ns - self.policy.window_s * 1e9
        first = len(mine) - 1
        while first > 0 and mine[first].obs.boot_id == newest.boot_id and mine[first].obs.t_mono_ns > start:
            first -= 1
        while first > 0 and mine[first - 1].obs.seq == mine[first].obs.seq:
            first -= 1
        return mine[first:]

    def head(self, record: Record, key: str) -> None:
        from infer_forge.nodes.keys import verified

        who, head = record.collector_id, record.head
        if head is None:
            self.say(MISSING, "the collector's word on its newest sample is missing", who)
            return
        if not verified(key, head.sha, head.sig):
            self.say(CONFLICTING, "the newest sample is not signed by the registered collector", who)
        newest = max((s.obs.seq for s in record.samples), default=None)
        if newest is None:
            return
        if head.seq != newest or not any(s.sha == head.sha for s in record.samples if s.obs.seq == newest):
            state = MISSING if newest < head.seq else CONFLICTING
            self.say(state, f"the newest sample here is {newest}, the collector says {head.seq}", who)

    def fresh(self, who: str, newest: Observation, arrival: Arrival | None) -> None:
        policy, ahead = self.policy, newest.t_wall - self.now
        self.newest = newest.t_wall if self.newest is None else max(self.newest, newest.t_wall)
        if ahead > policy.skew_max_s:
            self.say(CONFLICTING, f"the newest sample is dated {ahead:.0f} s ahead of this clock", who, newest.seq)
        if -ahead > policy.freshness_s + policy.skew_max_s:
            self.say(STALE, f"the newest sample is {-ahead:.0f} s old", who, newest.seq)
        if arrival is None or arrival.age_s is None:
            self.say(MISSING, "when the newest sample arrived here is not known", who, newest.seq)
        elif arrival.age_s > policy.freshness_s:
            self.say(STALE, f"nothing new arrived for {arrival.age_s:.0f} s", who, newest.seq)

    def chain(self, who: str, window: list[Sample]) -> None:
        for sample in window:
            if sample.obs.source_kind != "collector" or sample.obs.collector_id != who:
                self.say(CONFLICTING, "a sample is not of this collector", who, sample.obs.seq)
        for a, b in pairwise(window):
            one, two = a.obs, b.obs
            if two.seq == one.seq:
                self.say(CONFLICTING, f"sample {two.seq} is there twice with different content", who, two.seq)
                continue
            if two.seq != one.seq + 1:
                self.say(GAPPED, f"samples {one.seq + 1} to {two.seq - 1} are missing", who, two.seq)
            elif b.obs.prev_sha != a.sha:
                self.say(
                    CONFLICTING, f"sample {two.seq} does not continue sample {one.seq} as it stands here", who, two.seq
                )
            if two.boot_id is None or two.boot_id != one.boot_id:
                self.say(GAPPED, "the node was booted inside the window (or its boot is not known)", who, two.seq)
                continue
            gap = (two.t_mono_ns - one.t_mono_ns) / 1e9
            if gap <= 0:
                self.say(CONFLICTING, f"time went back between samples {one.seq} and {two.seq}", who, two.seq)
            elif gap > self.policy.max_gap_s:
                self.say(GAPPED, f"{gap:.0f} s lie between samples {one.seq} and {two.seq}", who, two.seq)
            elif abs((two.t_wall - one.t_wall) - gap) > self.policy.skew_max_s:
                self.say(CONFLICTING, f"the node's clock was set between samples {one.seq} and {two.seq}", who, two.seq)

    def span(self, who: str, window: list[Sample]) -> None:
        policy, first, last = self.policy, window[0].obs, window[-1].obs
        covered = (last.t_mono_ns - first.t_mono_ns) / 1e9
        if covered < policy.window_s:
            self.say(GAPPED, f"the record covers {covered:.0f} s of the window's {policy.window_s:.0f} s", who)
        if len({s.obs.seq for s in window}) < policy.min_samples:
            self.say(GAPPED, f"{len(window)} samples, the policy wants {policy.min_samples}", who)
        if self.now - self.claim.claimed_at_wall < policy.min_claim_age_s:
            self.say(GAPPED, f"the claim is younger than {policy.min_claim_age_s:.0f} s", who)
        for sample in window:
            seen = sample.obs.claims
            if seen is None:
                self.say(MISSING, "the collector could not ask the hub which claims hold", who, sample.obs.seq)
            elif not any(c.claim_id == self.claim.claim_id and c.epoch == self.claim.epoch for c in seen):
                self.say(GAPPED, "the window reaches back before this claim's epoch", who, sample.obs.seq)

    # What the samples show

    def content(self, who: str, window: list[Sample]) -> _View:
        view = _View(who, False, False, False)
        uuids: set[tuple[str | None, ...]] = set()
        last: dict[str, tuple[Observation, GpuState]] = {}
        for sample in window:
            obs = sample.obs
            for error in obs.errors:
                self.say(MISSING, f"the collector met an error: {error}", who, obs.seq)
            if obs.gpus is None:
                self.say(MISSING, "GPUs could not be seen", who, obs.seq)
                continue
            uuids.add(tuple(sorted(str(g.uuid) for g in obs.gpus)))
            gpus = self.claimed(who, obs)
            for gpu in gpus:
                self.gpu(who, obs, gpu, view)
                key = gpu.uuid or str(gpu.index)
                if key in last:
                    self.power(who, *last[key], obs, gpu, view)
                last[key] = (obs, gpu)
            self.runtimes(who, obs, gpus, view)
        if len(uuids) > 1:
            self.say(CONFLICTING, "the node's GPUs changed inside the window", who)
        self.use(view)
        return view

    def use(self, view: _View) -> None:
        who = view.collector_id
        if view.runtime_alive and view.gpu_busy:
            self.say(ACTIVE, "runtime and GPU are active", who)
        elif view.runtime_alive:
            self.say(RUNTIME_ONLY, "a runtime is alive while the GPUs do nothing", who)
        elif view.gpu_busy:
            self.say(GPU_ONLY, "the GPUs work and no runtime of this claim is alive: somebody else's process", who)
        if view.foreign:
            self.say(GPU_ONLY, "a process that this claim does not name uses its GPUs", who)

    def claimed(self, who: str, obs: Observation) -> list[GpuState]:
        found: list[GpuState] = []
        by_uuid = {g.uuid: g for g in obs.gpus or () if g.uuid}
        for ref in self.claim.gpus:
            gpu = by_uuid.get(ref.uuid or "") or next((g for g in obs.gpus or () if _is(ref, g)), None)
            if gpu is None:
                state = CONFLICTING if ref.uuid and any(g.index == ref.index for g in obs.gpus or ()) else MISSING
                self.say(state, f"GPU {ref} of the claim is not among those observed", who, obs.seq)
            elif all(gpu is not other for other in found):
                found.append(gpu)
        return found

    def gpu(self, who: str, obs: Observation, gpu: GpuState, view: _View) -> None:
        idle, label = self.policy.idle, f"GPU {gpu.index}"
        for name in ("util_gpu_pct", "mem_used_mib", "procs"):
            if getattr(gpu, name) is None:
                self.say(MISSING, f"{label}: {name} is not known", who, obs.seq)
        if gpu.mig:
            self.say(MISSING, f"{label} is cut into MIG slices: its utilisation cannot be seen", who, obs.seq)
        if gpu.util_gpu_pct is not None and gpu.util_gpu_pct > idle.util_pct:
            view.gpu_busy = True
        for process in gpu.procs or ():
            if not self.claim.runtime_ids or _named(process, self.claim):
                view.runtime_alive = True
            else:
                view.foreign = True
        if gpu.procs == [] and gpu.mem_used_mib is not None and gpu.mem_used_mib > idle.mem_used_mib:
            words = f"{label}: {gpu.mem_used_mib} MiB are in use and no process is listed"
            self.say(CONFLICTING, words, who, obs.seq)

    def power(self, who: str, then: Observation, was: GpuState, obs: Observation, gpu: GpuState, view: _View) -> None:
        """Mean power between two samples by the energy counter; without one, the power at the sample."""
        kind = (gpu.name, gpu.power_limit_w)
        if kind not in self.limits:
            self.limits[kind] = self.policy.idle.power_limit_w(gpu)
        limit, label = self.limits[kind], f"GPU {gpu.index}"
        seconds = (obs.t_mono_ns - then.t_mono_ns) / 1e9
        if limit is None:
            self.say(MISSING, f"{label}: neither its idle power nor its power limit is known", who, obs.seq)
            return
        if gpu.energy_mj is not None and was.energy_mj is not None and then.boot_id == obs.boot_id and seconds > 0:
            used = gpu.energy_mj - was.energy_mj
            if used < 0:
                self.say(GAPPED, f"{label}: its energy counter went back (the driver was loaded again)", who, obs.seq)
                return
            watts: float | None = used / 1000 / seconds
        else:
            if (gpu.energy_mj is None) != (was.energy_mj is None):
                self.say(MISSING, f"{label}: its energy counter came or went", who, obs.seq)
            watts = gpu.power_w
        if watts is None:
            self.say(MISSING, f"{label}: its power is not known", who, obs.seq)
        elif watts > limit:
            view.gpu_busy = True

    def runtimes(self, who: str, obs: Observation, gpus: list[GpuState], view: _View) -> None:
        if obs.runtime is None:
            self.say(MISSING, "what runs on the node could not be seen", who, obs.seq)
            return
        ours = [r for r in obs.runtime if r.claim_id == self.claim.claim_id]
        for named in self.claim.runtime_ids:
            seen = next((r for r in ours if r.kind == named.kind and r.id == named.id), None)
            if seen is None or seen.alive is None:
                self.say(MISSING, f"{named.kind} {named.id} of this claim could not be seen", who, obs.seq)
        if any(r.alive for r in ours):
            view.runtime_alive = True
        if not self.claim.runtime_ids and not obs.complete:
            words = "the claim names no runtime, and not every process of the node can be seen"
            self.say(MISSING, words, who, obs.seq)
        self.holders(obs.runtime, gpus, view)

    def holders(self, runtime: Sequence[RuntimeState], gpus: list[GpuState], view: _View) -> None:
        """Processes with an open device file count as a runtime even before the driver lists them."""
        minors = {g.minor for g in gpus}
        listed = {p.host_pid for g in gpus for p in g.procs or ()}
        for holder in runtime:
            if holder.kind != "holder" or not holder.alive or int(holder.id) in listed:
                continue
            if holder.minors is None or None in minors or minors & set(holder.minors):
                view.runtime_alive = True

    # All together

    def agree(self, views: list[_View]) -> None:
        kinds = {(v.runtime_alive, v.gpu_busy or v.foreign) for v in views}
        if len(kinds) > 1:
            self.say(CONFLICTING, "two collectors disagree: " + ", ".join(v.collector_id for v in views))

    def agents(self, notes: Sequence[Observation]) -> None:
        for obs in notes:
            if obs.node != self.claim.node:
                continue
            for gpu in obs.gpus or ():
                ours = any(_is(ref, gpu) for ref in self.claim.gpus)
                if ours and (gpu.procs or (gpu.util_gpu_pct or 0) > self.policy.idle.util_pct):
                    self.say(CONFLICTING, f"an agent saw use of GPU {gpu.index}", obs.collector_id)

    def result(self) -> Evaluation:
        order = {state: rank for rank, state in enumerate(STATES)}
        self.reasons.sort(key=lambda r: order[r.state])
        state = self.reasons[0].state if self.reasons else ELIGIBLE
        return Evaluation(state, self.reasons, self.windows, self.newest)


def _is(ref: GpuRef, gpu: GpuState) -> bool:
    """Whether a claim's GPU is this observed one; a slice is found through its GPU."""
    if ref.uuid and gpu.uuid:
        return ref.uuid == gpu.uuid or any(m.uuid == ref.uuid for m in gpu.mig_devices)
    return ref.index is not None and ref.index == gpu.index


def _named(process: ProcessUse, claim: Claim) -> bool:
    """Whether a process belongs to a runtime that the claim names."""
    from infer_forge.base.machine.processes import job_of, pod_of

    for runtime in claim.runtime_ids:
        if runtime.kind == "pid" and str(process.host_pid) == runtime.id:
            if runtime.start_ticks is None or runtime.start_ticks == process.start_ticks:
                return True
        elif runtime.kind == "container" and process.container and len(runtime.id) >= 12:
            if process.container.startswith(runtime.id):
                return True
        elif (runtime.kind == "slurm" and job_of(process.cgroup) == runtime.id) or (
            runtime.kind == "k8s" and pod_of(process.cgroup) == runtime.id
        ):
            return True
    return False
