"""Taking one observation: what the machine shows, which claims hold on it, what their runtimes do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

import msgspec

from infer_forge.base.errors import ForgeError, UsageFault
from infer_forge.base.gitstore import Changes, HubUnreachable, Snapshot
from infer_forge.base.machine.looking import snapshot
from infer_forge.base.machine.model import MachineState, RuntimeState
from infer_forge.base.machine.processes import device_holders, runtime_state, sees_all_processes
from infer_forge.base.ownership import node_name
from infer_forge.nodes.model import Claim, ClaimSeen, Observation, short_id, uuid7
from infer_forge.nodes.registry import CLAIMS, NOTES, Registry, author, holder


@dataclass
class Look:
    """What a collector sees at one moment, before it is numbered and signed."""

    machine: MachineState
    claims: list[ClaimSeen] | None
    runtime: list[RuntimeState] | None
    complete: bool
    vouched: bool


def look(
    registry: Registry,
    node: str,
    *,
    source: str = "auto",
    all_visible: bool | None = None,
    xid_since_s: float | None = None,
) -> Look:
    """Look at this machine now, with the claims that the hub says hold on `node`.

    Args:
        all_visible: whether every process of the node can be looked into from here; None finds out.
    """
    visible = sees_all_processes() if all_visible is None else all_visible
    try:
        registry.store.refresh(CLAIMS)
        held: Sequence[Claim] | None = registry.node(node).claims
    except ForgeError:  # the hub is away, or the record is damaged: which claims hold is not known
        held = None
    machine = snapshot(source, all_visible=visible, xid_since_s=xid_since_s)
    known = held if held is not None else _last_known(registry, node)
    holders = device_holders(all_visible=all_visible)
    named = [
        runtime_state(r.kind, r.id, r.start_ticks, claim_id=c.claim_id, all_visible=visible)
        for c in known
        for r in c.runtime_ids
    ]
    return Look(
        machine=machine,
        claims=None if held is None else [ClaimSeen(claim_id=c.claim_id, epoch=c.epoch) for c in held],
        runtime=None if holders is None and not named else [*named, *(holders or ())],
        complete=holders is not None,
        vouched=bool(all_visible),
    )


def _last_known(registry: Registry, node: str) -> Sequence[Claim]:
    """Claims as they were when the hub answered last: whose runtimes to look at, no word on which hold."""
    try:
        return registry.node(node).claims
    except ForgeError:
        return ()


def pack(obs: Observation, private: bytes | None) -> tuple[bytes, str, str | None]:
    """An observation as stored (one line), its hash, and the signature of that.

    Hash and signature are not stored with it: the next sample names the hash, and `head.json` signs the newest one, which
    vouches for the whole chain before it. So nothing in a segment can be changed, and no byte says what another says.
    """
    import hashlib

    from infer_forge.nodes.keys import sign

    raw = msgspec.json.encode(obs)
    sha = hashlib.sha256(raw).hexdigest()
    return raw, sha, sign(private, sha) if private else None


def observation(
    seen: Look, *, collector_id: str, node: str, seq: int, prev_sha: str | None, interval_s: float
) -> Observation:
    """A collector's sample out of what it saw."""
    machine = seen.machine
    return Observation(
        collector_id=collector_id,
        source_kind="collector",
        node=node,
        boot_id=machine.boot_id,
        seq=seq,
        t_wall=machine.t_wall,
        t_mono_ns=machine.t_mono_ns,
        prev_sha=prev_sha,
        interval_s=interval_s,
        driver=machine.driver,
        source=machine.source,
        gpus=machine.gpus,
        runtime=seen.runtime,
        claims=seen.claims,
        complete=seen.complete,
        vouched=seen.vouched,
        errors=machine.errors,
    )


def observe(
    registry: Registry, node: str | None = None, *, note: str | None = None, source: str = "auto"
) -> Observation:
    """Record one observation of this machine as an agent (or person): shown, may block a clean-up, never helps one.

    Raises:
        UsageFault: `node` is another machine: nobody observes from afar.
        HubUnreachable: it is recorded here, and goes to the hub with the next one.
    """
    here = node_name()
    if node not in (None, here):
        raise UsageFault(f"this machine is {here}, not {node}", next_step=f"run it on {node}")
    seen = look(registry, here, source=source)
    obs = observation(seen, collector_id=f"agent:{holder().user}", node=here, seq=0, prev_sha=None, interval_s=0)
    obs.source_kind, obs.note = "agent", note
    data, _, _ = pack(obs, None)
    ref = f"{NOTES}{datetime.fromtimestamp(obs.t_wall, timezone.utc):%Y-%m}"

    def decide(_: Snapshot) -> Changes:
        return Changes(put={f"{here}/{uuid7()}.json": data}, trailers={"Event": "note", "Node": here})

    registry.store.update(ref, decide, f"agent observation of {here}", op=short_id(), author=author(), local=True)
    if registry.shared:
        try:
            registry.store.sync(ref)
        except HubUnreachable as exc:
            raise HubUnreachable(f"{exc.what}; the observation is recorded here", where=exc.where) from None
    return obs


def now_boot_s() -> float:
    """Seconds since boot, as the kernel log counts."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)
