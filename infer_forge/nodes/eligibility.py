"""Which claims may be cleaned up, and the clean-up of one: explicit, on evidence, fail-closed. It stops nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from infer_forge.base.errors import ForgeError, GateRefused
from infer_forge.base.gitstore import Changes, Snapshot
from infer_forge.base.jsonio import sha256_of, write_atomic
from infer_forge.base.machine.model import MachineState, compare
from infer_forge.base.ownership import boot_id, node_name
from infer_forge.base.paths import paths
from infer_forge.nodes.claims import _end  # pyright: ignore[reportPrivateUsage]
from infer_forge.nodes.model import Claim, NodeRecord, Released, encode
from infer_forge.nodes.read import Record, notes, record_of
from infer_forge.nodes.registry import ALL, CLAIMS, Registry, author, node_path
from infer_forge.nodes.states import CONFLICTING, ELIGIBLE, Arrival, Evaluation, Reason, evaluate


@dataclass
class Judged:
    """A claim's evaluation with what it stood on.

    Attributes:
        evidence: sha256 over the tips that were read, the node's record and the policy: what a clean-up must cite.
        tips: ref -> commit.
        node_blob: the node's record as it was when the evaluation began.
    """

    claim: Claim
    evaluation: Evaluation
    evidence: str
    tips: dict[str, str]
    policy_id: str
    node_blob: str | None


def judge(registry: Registry, record: NodeRecord, *, now: float | None = None) -> list[Judged]:
    """Evaluate all claims of one node on what is known here; refresh before."""
    policy = registry.policy()
    collectors = registry.collectors(record.node)
    blob = registry.store.read(CLAIMS).blob_id(node_path(record.node))
    moment = time.time() if now is None else now
    records = [record_of(registry, cid, policy.window_s) for cid in collectors]
    arrivals = _arrivals(records)
    seen = notes(registry, record.node, moment, policy.window_s)
    tips = {ref: tip for r in records for ref, tip in r.tips.items()}
    found: list[Judged] = []
    for claim in record.claims:
        evaluation = evaluate(
            claim,
            records,
            policy,
            moment,
            arrivals,
            keys={c.id: c.key for c in collectors.values()},
            notes=seen,
            expected=list(collectors),
        )
        if registry.store.read(CLAIMS).blob_id(node_path(record.node)) != blob:
            evaluation.reasons.insert(0, Reason(CONFLICTING, "the node's claims changed during the evaluation"))
            evaluation.state = CONFLICTING
        about = {"claim": claim.claim_id, "epoch": claim.epoch, "tips": tips, "node": blob, "policy": policy.policy_id}
        found.append(Judged(claim, evaluation, sha256_of(about), tips, policy.policy_id, blob))
    return found


def eligible(registry: Registry, node: str | None = None) -> list[Judged]:
    """Evaluate the claims of a node, or of all, on the hub's newest state; each evaluation is kept for `cleanup` to cite.

    Raises:
        HubUnreachable: nothing is eligible on a state that may be old.
    """
    registry.store.refresh(ALL)
    records = [registry.node(node)] if node else registry.nodes()
    found = [judged for record in records for judged in judge(registry, record)]
    for judged in found:
        _keep(judged)
    return found


@dataclass
class CleanUp:
    """What a clean-up did, or would do (`released` is None then).

    Attributes:
        before, after: the machine when the claim was removed, and right after; None: this is another machine.
        changed: what differs between the two.
    """

    judged: Judged
    released: Released | None
    before: MachineState | None = None
    after: MachineState | None = None
    changed: list[str] | None = None


def cleanup(
    registry: Registry, claim_id: str, *, epoch: int, evidence: str, reason: str = "idle", execute: bool = False
) -> CleanUp:
    """Remove a claim whose runtime and GPUs were idle for the whole window. The claim only: no process is touched.

    It evaluates again on the hub's newest state; the cited evidence must be an evaluation of this claim and epoch that
    found it eligible, not older than the policy's freshness.

    Args:
        execute: False is a dry run.

    Raises:
        GateRefused: not eligible (any more), another epoch, or evidence that is none.
    """
    registry.store.refresh(ALL)
    record, place = registry.find_claim(claim_id)
    claim = record.claims[place]
    if claim.epoch != epoch:
        raise GateRefused(
            f"claim {claim.claim_id} has epoch {claim.epoch}, not {epoch}", next_step="infer-forge node status"
        )
    judged = next(j for j in judge(registry, record) if j.claim.claim_id == claim.claim_id)
    if judged.evaluation.state != ELIGIBLE:
        why = judged.evaluation.reasons[0]
        raise GateRefused(
            f"claim {claim.claim_id} is {judged.evaluation.state}: {why.text}",
            where=claim.node,
            next_step=f"infer-forge node eligible {claim.node} --explain",
        )
    _check_evidence(judged, evidence, registry.policy().freshness_s)
    if not execute:
        return CleanUp(judged, None)
    before = _machine(claim.node)
    trailers = {"Evidence": evidence, "Evaluated": judged.evidence, "Policy": judged.policy_id}
    released = _end(
        registry,
        claim.claim_id,
        "cleanup",
        reason,
        epoch=epoch,
        evidence=judged.evidence,
        tip=judged.node_blob,
        trailers=trailers,
    )
    after = _machine(claim.node)
    done = CleanUp(judged, released, before, after, compare(before, after) if before and after else None)
    _write_states(registry, done)
    return done


def _machine(node: str) -> MachineState | None:
    """This machine's state, when it is the node; None for another one (which then was not looked at)."""
    from infer_forge.base.machine.looking import snapshot

    return snapshot() if node == node_name() else None


def _write_states(registry: Registry, done: CleanUp) -> None:
    """Record process and GPU state before and after beside the claims (A69); the clean-up itself stands already."""
    claim = done.judged.claim
    data = {
        "v": 1,
        "claim_id": claim.claim_id,
        "epoch": claim.epoch,
        "evidence": done.judged.evidence,
        "tips": done.judged.tips,
        "before": done.before.to_json() if done.before else None,
        "after": done.after.to_json() if done.after else None,
        "changed": done.changed,
    }

    def decide(_: Snapshot) -> Changes:
        path = f"cleanups/{claim.node}/{claim.claim_id}.json"
        return Changes(put={path: encode(data)}, trailers={"Event": "cleanup-state", "Claim": claim.claim_id})

    registry.store.update(CLAIMS, decide, f"state around the clean-up of {claim.claim_id}", author=author())


# Evidence that was evaluated before


class _Kept(msgspec.Struct):
    claim_id: str
    epoch: int
    state: str
    at_mono: float
    boot_id: str | None


def _evaluations() -> Path:
    return paths().state / "nodes" / "evaluations"


def _keep(judged: Judged) -> None:
    kept = _Kept(judged.claim.claim_id, judged.claim.epoch, judged.evaluation.state, time.monotonic(), boot_id())
    write_atomic(_evaluations() / f"{judged.evidence}.json", msgspec.json.encode(kept))
    _forget_old(_evaluations())


def _forget_old(folder: Path) -> None:
    files = sorted(folder.glob("*.json"), key=lambda f: f.stat().st_mtime)
    for file in files[:-500]:
        file.unlink(missing_ok=True)


def _check_evidence(judged: Judged, evidence: str, freshness_s: float) -> None:
    if len(evidence) < 12 or not judged.evidence.startswith(evidence):
        files = list(_evaluations().glob(f"{evidence}*.json")) if len(evidence) >= 12 and evidence.isalnum() else []
        if len(files) != 1:
            raise GateRefused(
                "this evidence is not known here",
                where=evidence,
                next_step=f"infer-forge node eligible {judged.claim.node} --explain",
            )
        kept = msgspec.json.decode(files[0].read_bytes(), type=_Kept)
        if (kept.claim_id, kept.epoch) != (judged.claim.claim_id, judged.claim.epoch):
            raise GateRefused("this evidence is of another claim or epoch", where=evidence)
        if kept.state != ELIGIBLE:
            raise GateRefused(f"this evidence says {kept.state}", where=evidence)
        age = time.monotonic() - kept.at_mono
        if kept.boot_id != boot_id() or not 0 <= age <= freshness_s:
            raise GateRefused("this evidence is old", where=evidence, next_step="evaluate again")


# When things arrived here


def _arrivals(records: list[Record]) -> dict[str, Arrival]:
    """How long each collector's newest sample has been here, by this machine's monotonic clock."""
    file = paths().state / "nodes" / "arrivals.json"
    known: dict[str, Any] = {}
    try:
        known = msgspec.json.decode(file.read_bytes())
    except (OSError, msgspec.DecodeError):
        known = {}
    now, boot = time.monotonic(), boot_id()
    found: dict[str, Arrival] = {}
    changed = False
    for record in records:
        if record.head is None:
            continue
        old = known.get(record.collector_id)
        if not isinstance(old, dict) or old.get("sha") != record.head.sha or old.get("boot") != boot:  # pyright: ignore[reportUnknownMemberType]
            known[record.collector_id] = {"sha": record.head.sha, "boot": boot, "mono": now}
            changed = True
            found[record.collector_id] = Arrival(0.0)
        else:
            found[record.collector_id] = Arrival(now - float(old["mono"]))  # pyright: ignore[reportUnknownArgumentType]
    if changed:
        try:
            write_atomic(file, msgspec.json.encode(known))
        except OSError as exc:
            raise ForgeError(f"cannot remember when samples arrived ({exc})", where=str(file)) from None
    return found


__all__ = ["CleanUp", "Judged", "cleanup", "eligible", "judge"]
