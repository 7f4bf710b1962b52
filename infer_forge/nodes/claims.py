"""Claim, release, mark: decisions on the claims ref. Each is one commit, decided on the tip that it continues."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

import msgspec

from infer_forge.base.errors import GateRefused, UsageFault
from infer_forge.base.gitstore import Changes, HubUnreachable, Refuse, Snapshot
from infer_forge.nodes.model import (
    Claim,
    GpuRef,
    Holder,
    Mark,
    NodeRecord,
    Policy,
    Released,
    RuntimeId,
    check_node,
    encode,
    uuid7,
)
from infer_forge.nodes.registry import CLAIMS, POLICY, Registry, author, holder, node_path

KEPT_RELEASES = 20


@dataclass(frozen=True)
class Granted:
    """A claim that the hub has (or, without a hub, this machine's registry), and its commit."""

    claim: Claim
    commit: str


def claim(
    registry: Registry,
    node: str,
    gpus: list[GpuRef],
    *,
    task: str,
    purpose: str,
    run_id: str | None = None,
    agent: str | None = None,
    runtimes: list[RuntimeId] | None = None,
    hours: float | None = None,
    probe_id: str | None = None,
    claim_id: str | None = None,
) -> Granted:
    """Claim GPUs of a node. Of several who try at once exactly one gets them.

    Args:
        gpus: what is wanted; indices get the UUIDs of the newest observation, when there is one.
        task, purpose: what for; shown to whoever is refused.
        runtimes: processes, containers or jobs that will use them; more can be added with `attach`.
        hours: when others may ask about it; it frees nothing.
        probe_id: the live probe it stands on (default: the node's newest one).
        claim_id: given again after an unknown outcome, finds its own commit.

    Raises:
        Refused: they are held, unverified, or the node is marked; the reason and the next step are in it.
        HubUnreachable: kept as an intent, which is no claim; the same command again goes on with it.
    """
    check_node(node)
    for name, value in (("task", task), ("purpose", purpose)):
        if not value.strip():
            raise UsageFault(f"a claim needs a {name}")
    me = holder(agent)
    wish = {"node": node, "gpus": [str(g) for g in gpus], "task": task, "run": run_id, "session": me.session}
    waiting = [i for i in registry.store.intents.all("claim") if i["data"] == wish]
    ident = claim_id or (waiting[0]["id"] if waiting else uuid7())
    made: list[Claim] = []
    policy = registry.policy()
    wanted = with_uuids(registry, node, gpus)

    def decide(snapshot: Snapshot) -> Changes | Refuse:
        record = registry.node(node, snapshot)
        now = time.time()
        no = refusal(record, wanted, policy, now, probe_id)
        if no:
            return no
        probe = record.probe if any(any(g.same(u) for u in record.unverified) for g in wanted) else None
        new = Claim(
            claim_id=ident,
            node=node,
            gpus=wanted,
            task_id=task,
            run_id=run_id,
            holder=me,
            epoch=record.last_epoch + 1,
            policy_id=policy.policy_id,
            purpose=purpose,
            claimed_at_wall=now,
            expires_at_wall=now + hours * 3600 if hours else None,
            runtime_ids=list(runtimes or ()),
            probe_id=probe.probe_id if probe else None,
            prev_commit=snapshot.tip,
        )
        made.append(new)
        record.claims.append(new)
        record.last_epoch = new.epoch
        record.unverified = [u for u in record.unverified if not any(u.same(g) for g in wanted)]
        return _event(record, "claim", new, f"claim {node} [{_list(wanted)}] for {task}: {purpose}")

    op = f"claim-{ident}"
    try:
        commit = registry.store.update(CLAIMS, decide, "claim", op=op if waiting or claim_id else None, author=author())
    except HubUnreachable as exc:
        registry.store.intents.keep("claim", wish, op=ident)
        raise _kept_as_intent(exc, ident) from None
    registry.store.intents.drop(ident)
    stored = registry.node(node, registry.store.at(commit, CLAIMS)).find(ident)
    if stored is None:
        raise GateRefused(f"claim {ident} was made and has ended meanwhile", next_step="claim again")
    return Granted(stored, commit)


def _kept_as_intent(exc: HubUnreachable, ident: str) -> HubUnreachable:
    return HubUnreachable(
        f"{exc.what}; kept as intent {ident}, which is no claim",
        where=exc.where,
        next_step="run the same command again when the hub is back",
        unknown=exc.outcome_unknown,
    )


def refusal(record: NodeRecord, gpus: list[GpuRef], policy: Policy, now: float, probe_id: str | None) -> Refuse | None:
    """Why these GPUs cannot be claimed on this state of the node; None when they can."""
    if record.mark:
        mark = record.mark
        return Refuse(
            f"node {record.node} is marked {mark.state} by {mark.by.user}: {mark.reason}",
            next_step=f"a person lifts it: infer-forge node mark {record.node} --clear --reason WHY",
            data={"reason": mark.state},
        )
    for held in record.claims:
        common = [g for g in gpus if any(g.same(h) for h in held.gpus)]
        if common:
            who = held.holder
            return Refuse(
                f"GPU {_list(common)} of {record.node} is held by {who.user}@{who.host} for task {held.task_id} "
                f"(claim {held.claim_id}, epoch {held.epoch}): {held.purpose}",
                next_step=f"infer-forge node status {record.node}",
                data={"reason": "held", "claim_id": held.claim_id, "epoch": held.epoch},
            )
    if policy.verify_after_release and any(any(g.same(u) for u in record.unverified) for g in gpus):
        why = probe_fault(record, gpus, policy, now, probe_id)
        if why:
            return Refuse(
                f"GPU {_list(gpus)} of {record.node} was in use before and {why}",
                next_step=f"on that node: infer-forge node verify {record.node} --gpus {_list(gpus)}",
                data={"reason": "unverified"},
            )
    return None


def probe_fault(record: NodeRecord, gpus: list[GpuRef], policy: Policy, now: float, probe_id: str | None) -> str | None:
    """Why the node's probe does not carry a new claim; None when it does."""
    probe = record.probe
    if probe is None:
        return "was not verified since"
    if probe_id is not None and probe.probe_id != probe_id:
        return f"probe {probe_id} is not the node's newest one"
    if probe.epoch != record.last_epoch:
        return "its probe is older than the last claim"
    if not all(
        any(g == p or (g.index is not None and g.index == p.index) or (g.uuid and g.uuid == p.uuid) for p in probe.gpus)
        for g in gpus
    ):
        return "its probe did not look at all of these GPUs"
    if now - probe.at_wall > policy.reuse_ttl_s:
        return f"its probe is older than {policy.reuse_ttl_s:.0f} s"
    if probe.at_wall - now > policy.skew_max_s:
        return "its probe is dated in the future: one of the clocks is wrong"
    return None


def release(
    registry: Registry, claim_id: str, *, reason: str, epoch: int | None = None, force: bool = False
) -> Released:
    """End a claim. Its holder may (the same session); a person may with `force` (the door asks).

    Raises:
        Refused: it is another's claim, its epoch is another one, or it has ended.
    """
    return _end(registry, claim_id, "forced" if force else "released", reason, epoch=epoch, evidence=None)


def _end(
    registry: Registry,
    claim_id: str,
    how: Literal["released", "forced", "cleanup"],
    reason: str,
    *,
    epoch: int | None,
    evidence: str | None,
    tip: str | None = None,
    trailers: dict[str, str] | None = None,
) -> Released:
    """Take a claim off its node. With `tip`, only on exactly that state of the registry's node."""
    registry.store.refresh(CLAIMS)
    found, place = registry.find_claim(claim_id)
    full, node, me = found.claims[place].claim_id, found.node, holder()
    made: list[Released] = []

    def decide(snapshot: Snapshot) -> Changes | Refuse:
        record = registry.node(node, snapshot)
        held = record.find(full)
        if held is None:
            return Refuse(f"claim {full} has ended meanwhile")
        if epoch is not None and held.epoch != epoch:
            return Refuse(f"claim {full} has epoch {held.epoch}, not {epoch}")
        if how == "released" and not mine(held.holder, me):
            return Refuse(
                f"claim {full} is held by {held.holder.user}@{held.holder.host}, session {held.holder.session}",
                next_step="its holder releases it, a person uses --force, or evidence of idleness lets it be cleaned up",
            )
        if tip is not None and snapshot.blob_id(node_path(node)) != tip:
            return Refuse("the node's record changed during the evaluation", next_step="evaluate again")
        end = Released(
            claim_id=full,
            epoch=held.epoch,
            gpus=held.gpus,
            task_id=held.task_id,
            how=how,
            at_wall=time.time(),
            by=me,
            reason=reason,
            evidence=evidence,
        )
        made.append(end)
        record.claims = [c for c in record.claims if c.claim_id != full]
        record.released = [end, *record.released][:KEPT_RELEASES]
        record.unverified += [g for g in held.gpus if g not in record.unverified]
        record.probe = None
        return _event(record, how, held, f"{how} {node} [{_list(held.gpus)}] of {held.task_id}: {reason}", trailers)

    registry.store.update(CLAIMS, decide, how, author=author())
    return made[-1]


def attach(registry: Registry, claim_id: str, runtimes: list[RuntimeId]) -> Claim:
    """Name further runtimes of a claim that is ours; epoch and GPUs stay.

    Raises:
        Refused: it is another's.
    """
    registry.store.refresh(CLAIMS)
    found, place = registry.find_claim(claim_id)
    full, node, me = found.claims[place].claim_id, found.node, holder()
    made: list[Claim] = []

    def decide(snapshot: Snapshot) -> Changes | Refuse:
        record = registry.node(node, snapshot)
        held = record.find(full)
        if held is None or not mine(held.holder, me):
            return Refuse(f"claim {full} is not ours (any more)")
        new = msgspec.structs.replace(held, runtime_ids=list(dict.fromkeys([*held.runtime_ids, *runtimes])))
        made.append(new)
        record.claims = [new if c.claim_id == full else c for c in record.claims]
        return _event(record, "attach", new, f"attach {', '.join(f'{r.kind}:{r.id}' for r in runtimes)} to {full}")

    registry.store.update(CLAIMS, decide, "attach", author=author())
    return made[-1]


def mark(
    registry: Registry,
    node: str,
    state: Literal["unhealthy", "drain"] | None,
    *,
    reason: str,
    evidence: str | None = None,
) -> NodeRecord:
    """Mark a node unclaimable, or (state None; the door has asked for a person) lift the mark. Held claims stay.

    Raises:
        UsageFault: no reason.
    """
    if not reason.strip():
        raise UsageFault("a mark needs a reason")
    made: list[NodeRecord] = []
    new = Mark(state=state, reason=reason, evidence=evidence, by=holder(), at_wall=time.time()) if state else None

    def decide(snapshot: Snapshot) -> Changes:
        record = registry.node(node, snapshot)
        record.mark = new
        made.append(record)
        words = f"mark {node} {state or 'clear'}: {reason}"
        trailers = {"Event": "mark", "Node": node, "State": state or "clear"} | (
            {"Evidence": evidence} if evidence else {}
        )
        return Changes(put={node_path(node): encode(record)}, message=words, trailers=trailers)

    registry.store.update(CLAIMS, decide, "mark", author=author())
    return made[-1]


def mine(theirs: Holder, me: Holder) -> bool:
    """Whether a claim is ours to end: it was made in the same session. The same user name proves nothing."""
    return theirs.session == me.session


def check_epoch(registry: Registry, claim_id: str, epoch: int) -> Literal["current", "fenced", "unknown"]:
    """Whether evidence made under (claim, epoch) still stands: `fenced` when the claim ended or its node moved on.

    Reads what is known here; call `registry.store.refresh(CLAIMS)` before when it must be the hub's word.
    """
    for record in registry.nodes([]):
        held = record.find(claim_id)
        if held is not None:
            return "current" if held.epoch == epoch else "fenced"
        if any(r.claim_id == claim_id for r in record.released):
            return "fenced"
    trail = any(c.trailers.get("Claim") == claim_id for c in registry.store.history(CLAIMS))
    return "fenced" if trail else "unknown"


def with_uuids(registry: Registry, node: str, gpus: list[GpuRef]) -> list[GpuRef]:
    """Complete indices and UUIDs from the newest observation of the node, when there is one.

    Raises:
        UsageFault: the node was observed and has no such GPU.
    """
    from infer_forge.nodes.read import newest

    seen = newest(registry, node)
    if seen is None or seen.gpus is None:
        return gpus
    done: list[GpuRef] = []
    for want in gpus:
        hit = next(
            (g for g in seen.gpus if g.index == want.index or (want.uuid is not None and want.uuid == g.uuid)), None
        )
        if hit is not None:
            done.append(GpuRef(index=hit.index, uuid=want.uuid or hit.uuid))
            continue
        parent = next((g for g in seen.gpus if any(m.uuid == want.uuid for m in g.mig_devices)), None)
        if parent is None:
            have = ", ".join(str(g.index) for g in seen.gpus) or "none"
            raise UsageFault(f"node {node} has no GPU {want}; observed: {have}", where=node)
        done.append(GpuRef(index=parent.index, uuid=want.uuid))
    return done


def _event(record: NodeRecord, event: str, about: Claim, words: str, trailers: dict[str, str] | None = None) -> Changes:
    lines = {
        "Event": event,
        "Node": record.node,
        "Claim": about.claim_id,
        "Epoch": str(about.epoch),
        "Task": about.task_id,
        **(trailers or {}),
    }
    return Changes(put={node_path(record.node): encode(record)}, message=words, trailers=lines)


def _list(gpus: list[GpuRef]) -> str:
    return ",".join(str(g) for g in gpus)


__all__ = ["CLAIMS", "POLICY", "Granted", "attach", "check_epoch", "claim", "mark", "release"]
