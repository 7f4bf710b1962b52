"""What the registry says, as reports."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Any

import msgspec

from infer_forge.base.gitstore import HubUnreachable
from infer_forge.base.records import Finding, Header, Report
from infer_forge.base.tables import Column, Table
from infer_forge.nodes.claims import probe_fault
from infer_forge.nodes.eligibility import CleanUp, Judged, judge
from infer_forge.nodes.model import GpuRef, NodeRecord, Observation, Policy
from infer_forge.nodes.read import newest, notes, record_of
from infer_forge.nodes.registry import ALL, CLAIMS, Registry, holder
from infer_forge.nodes.states import ELIGIBLE

_T = "text"
NODES = ("node", "state", "held_gpus", "unverified_gpus", "claims", "last_epoch", "collectors", "seen_age_s", "mark")
CLAIM_COLUMNS = (
    "claim_id", "node", "gpus", "epoch", "task", "holder", "purpose", "state", "reason", "age_s", "expired", "runtime", "ours",
)  # fmt: skip


def status(registry: Registry, node: str | None = None, *, refresh: bool = True) -> Report:
    """All nodes (or one), their claims with state and first reason, and intents that wait for the hub.

    A hub that does not answer is a finding: the answer is then what was known here, and says so.
    """
    findings: list[Finding] = []
    if refresh:
        _refresh(registry, findings)
    policy, now = registry.policy(), time.time()
    faults: list[str] = []
    records = [registry.node(node)] if node else registry.nodes(faults)
    findings += [Finding("NODE_UNREADABLE", fault, "error") for fault in faults]
    known = {r.node for r in records}
    if node is None:  # nodes that are observed and were never claimed
        records += [NodeRecord(node=n) for n in sorted({c.node for c in registry.collectors().values()} - known)]
    nodes = Table("nodes", [Column(n, _T if n in _WORDS else "") for n in NODES])
    claims = Table("claims", [Column(n, _T if n in _WORDS else "") for n in CLAIM_COLUMNS])
    for record in records:
        seen = newest(registry, record.node)
        judged = judge(registry, record) if record.claims else []
        age = None if seen is None else round(now - seen.t_wall, 1)
        nodes.rows.append(_node_row(record, policy, now, age, len(registry.collectors(record.node))))
        claims.rows += [_claim_row(j, now) for j in judged]
        findings += _health(record.node, seen)
    report = Report("node_status", Header(thresholds=_thresholds(policy)), findings=findings)
    report.add(nodes)
    report.add(claims)
    intents = registry.store.intents.all("claim")
    if intents:
        waiting = Table("intents", [Column(n, _T) for n in ("intent", "node", "gpus", "task", "since")])
        for one in intents:
            wish = one["data"]
            waiting.rows.append((one["id"], wish["node"], ",".join(wish["gpus"]), wish["task"], stamp(one["time"])))
        report.add(waiting)
    report.header.more["hub"] = registry.store.remote.url if registry.store.remote else None
    held = sum(len(r.claims) for r in records)
    report.summary.append(
        f"{len(records)} nodes, {held} claims" + (f", {len(intents)} intents that are no claims" if intents else "")
    )
    ready = [row[0] for row in claims.rows if row[7] == ELIGIBLE]
    if ready:
        report.next_step = f"infer-forge node eligible --explain  (claim {ready[0]} was idle for the whole window)"
    return report


_WORDS = (
    "node", "state", "held_gpus", "unverified_gpus", "mark", "claim_id", "gpus", "task", "holder", "purpose", "reason",
    "expired", "runtime", "ours",
)  # fmt: skip


def node_state(record: NodeRecord, policy: Policy, now: float) -> str:
    """`unhealthy`, `drain`, `claimed`, `verified-free`, `released-unverified` or `unclaimed`."""
    if record.mark:
        return record.mark.state
    if record.claims:
        return "claimed"
    if record.unverified:
        free = probe_fault(record, record.unverified, policy, now, None) is None
        return "verified-free" if free else "released-unverified"
    return "unclaimed"


def _node_row(record: NodeRecord, policy: Policy, now: float, age: float | None, collectors: int) -> tuple[Any, ...]:
    held = [g for c in record.claims for g in c.gpus]
    words = f"{record.mark.state}: {record.mark.reason} ({record.mark.by.user})" if record.mark else None
    return (
        record.node,
        node_state(record, policy, now),
        names(held),
        names(record.unverified),
        len(record.claims),
        record.last_epoch,
        collectors,
        age,
        words,
    )


def _claim_row(judged: Judged, now: float) -> tuple[Any, ...]:
    claim, result = judged.claim, judged.evaluation
    who = claim.holder
    return (
        claim.claim_id,
        claim.node,
        names(claim.gpus),
        claim.epoch,
        claim.task_id,
        f"{who.user}@{who.host}" + (f" ({who.agent})" if who.agent else ""),
        claim.purpose,
        result.state,
        result.reasons[0].text if result.reasons else "idle for the whole window",
        round(now - claim.claimed_at_wall, 1),
        None if claim.expires_at_wall is None else now > claim.expires_at_wall,
        ", ".join(f"{r.kind}:{r.id}" for r in claim.runtime_ids) or None,
        who.session == holder().session,
    )


def _health(node: str, seen: Observation | None) -> list[Finding]:
    found: list[Finding] = []
    for gpu in (seen.gpus if seen else None) or ():
        what = [f"Xid {x}" for x in sorted(set(gpu.xid or ()))]
        what += [f"the driver asks for {gpu.recovery_action}"] if gpu.recovery_action not in (None, "none") else []
        what += [f"{gpu.ecc_uncorrected} uncorrected ECC errors"] if gpu.ecc_uncorrected else []
        if what:
            step = f"infer-forge node mark {node} --unhealthy --reason .."
            found.append(Finding("GPU_UNHEALTHY", f"{node} GPU {gpu.index}: {', '.join(what)}", next_step=step))
    return found


def _refresh(registry: Registry, findings: list[Finding]) -> None:
    try:
        registry.store.refresh(ALL)
    except HubUnreachable as exc:
        findings.append(
            Finding(
                "HUB_UNREACHABLE", f"{exc.what}; this is what was known here", "error", next_step=exc.next_step or ""
            )
        )


def _thresholds(policy: Policy) -> dict[str, Any]:
    return {
        "policy_id": policy.policy_id,
        "window_s": policy.window_s,
        "max_gap_s": policy.max_gap_s,
        "freshness_s": policy.freshness_s,
        "reuse_ttl_s": policy.reuse_ttl_s,
    }


def eligible_report(registry: Registry, found: list[Judged], *, explain: bool) -> Report:
    """States of claims, with the evidence that a clean-up must cite; `explain` adds every reason and the window."""
    policy = registry.policy()
    report = Report(
        "node_eligible", Header(thresholds=_thresholds(policy) | {"idle": msgspec.to_builtins(policy.idle)})
    )
    columns = ("claim_id", "node", "gpus", "epoch", "task", "state", "eligible", "evidence")
    table = report.add(Table("claims", [Column(n, "int" if n == "epoch" else _T) for n in columns]))
    reasons = Table(
        "reasons", [Column(n, "int" if n == "seq" else _T) for n in ("claim_id", "state", "reason", "collector", "seq")]
    )
    windows = Table("windows", [Column("claim_id", _T), Column("collector", _T), "samples", "first_seq", "last_seq"])
    for j in found:
        c, result = j.claim, j.evaluation
        good = result.state == ELIGIBLE
        table.rows.append((c.claim_id, c.node, names(c.gpus), c.epoch, c.task_id, result.state, good, j.evidence))
        reasons.rows += [(c.claim_id, r.state, r.text, r.collector_id, r.seq) for r in result.reasons]
        for who, seqs in result.window.items():
            windows.rows.append((c.claim_id, who, len(seqs), min(seqs, default=None), max(seqs, default=None)))
    if explain:
        report.add(reasons)
        report.add(windows)
        report.extra["evidence_tips"] = {j.claim.claim_id: j.tips for j in found}
    ready = [j for j in found if j.evaluation.state == ELIGIBLE]
    report.summary.append(f"{len(ready)} of {len(found)} claims are eligible for clean-up")
    if ready:
        one = ready[0]
        report.next_step = f"infer-forge node cleanup --claim {one.claim.claim_id} --epoch {one.claim.epoch} --evidence {one.evidence[:16]}"
    return report


def cleanup_report(done: CleanUp) -> Report:
    """What a clean-up did, or (dry run) would do."""
    claim = done.judged.claim
    report = Report("node_cleanup", Header(thresholds={"policy_id": done.judged.policy_id}))
    executed = done.released is not None
    report.extra = {
        "executed": executed,
        "claim_id": claim.claim_id,
        "epoch": claim.epoch,
        "node": claim.node,
        "gpus": [str(g) for g in claim.gpus],
        "evidence": done.judged.evidence,
        "tips": done.judged.tips,
        "machine_before": done.before.to_json() if done.before else None,
        "machine_after": done.after.to_json() if done.after else None,
        "changed": done.changed,
    }
    verb = "removed" if executed else "would remove"
    report.summary = [
        f"{verb} claim {claim.claim_id} (epoch {claim.epoch}) on GPU {names(claim.gpus)} of {claim.node}, task {claim.task_id}",
        "no process was touched, and no task is marked done",
    ]
    report.next_step = (
        f"on {claim.node}, before the next claim: infer-forge node verify {claim.node}"
        if executed
        else "the same command with --execute"
    )
    return report


def history(registry: Registry, node: str | None = None, *, limit: int = 50, refresh: bool = True) -> Report:
    """Claims, releases, clean-ups, marks and probes, newest first: the commits are the log."""
    findings: list[Finding] = []
    if refresh:
        _refresh(registry, findings)
    report = Report("node_history", findings=findings)
    columns = ("time", "event", "node", "claim_id", "epoch", "who", "what", "commit")
    table = report.add(Table("events", [Column(n, _T) for n in columns]))
    for commit in registry.store.history(CLAIMS):
        lines = commit.trailers
        if node is not None and lines.get("Node") != node:
            continue
        who = commit.author.split(" <")[-1].rstrip(">")
        event, where = lines.get("Event"), lines.get("Node")
        row = (stamp(commit.time), event, where, lines.get("Claim"), lines.get("Epoch"), who, commit.message, commit.id)
        table.rows.append(row)
        if len(table) >= limit:
            break
    return report


def observations(registry: Registry, node: str, *, limit: int = 60, refresh: bool = True) -> Report:
    """The newest samples of a node, GPU by GPU, by collector and by agents: who saw what, when, and from where."""
    findings: list[Finding] = []
    if refresh:
        _refresh(registry, findings)
    report = Report("node_observations", findings=findings)
    columns = (
        "time",
        "collector",
        "seq",
        "source",
        "gpu",
        "util_gpu_pct",
        "mem_used_mib",
        "power_w",
        "processes",
        "xid",
        "errors",
    )
    table = report.add(
        Table(
            "samples", [Column(n, _T if n in ("time", "collector", "source", "xid", "errors") else "") for n in columns]
        )
    )
    window = limit * registry.policy().cadence_s
    seen: list[Observation] = notes(registry, node, time.time(), window)
    for collector_id in registry.collectors(node):
        seen += [s.obs for s in record_of(registry, collector_id, window).samples]
    for obs in sorted(seen, key=lambda o: (-o.t_wall, o.collector_id))[:limit]:
        errors = "; ".join(obs.errors) or None
        head = (stamp(obs.t_wall), obs.collector_id, obs.seq if obs.source_kind == "collector" else None, obs.source)
        for gpu in obs.gpus or ():
            count = None if gpu.procs is None else len(gpu.procs)
            xid = None if gpu.xid is None else ",".join(map(str, gpu.xid)) or "none"
            table.rows.append((*head, gpu.index, gpu.util_gpu_pct, gpu.mem_used_mib, gpu.power_w, count, xid, errors))
        if not obs.gpus:
            table.rows.append(
                (*head, None, None, None, None, None, None, errors or ("no GPU" if obs.gpus == [] else "could not see"))
            )
    return report


def observation_report(obs: Observation) -> Report:
    """One observation that was just recorded."""
    report = Report("node_observation")
    report.extra["observation"] = msgspec.to_builtins(obs)
    count = "unknown" if obs.gpus is None else str(len(obs.gpus))
    report.summary = [
        f"recorded for {obs.node} by {obs.collector_id}: {count} GPUs through {obs.source}",
        "an agent's observation is shown and may block a clean-up; it never makes one eligible",
    ]
    report.findings = [Finding("COULD_NOT_SEE", error) for error in obs.errors]
    return report


def policy_report(registry: Registry) -> Report:
    """The policy in force, and the registered collectors."""
    policy = registry.policy()
    report = Report("node_policy")
    data: dict[str, Any] = msgspec.to_builtins(policy)
    table = report.add(Table("policy", [Column("key", _T), Column("value", "number")]))
    idle = data.pop("idle")
    power = idle.pop("power_w")
    rows = data | {f"idle.{k}": v for k, v in idle.items()} | {f"idle.power_w.{k}": v for k, v in power.items()}
    table.rows = list(rows.items())
    who = report.add(Table("collectors", [Column(n, _T) for n in ("collector", "node", "since", "by", "key")]))
    for c in registry.collectors().values():
        who.rows.append((c.id, c.node, stamp(c.registered_at_wall), f"{c.by.user}@{c.by.host}", c.key[:16]))
    report.extra["policy_id"] = policy.policy_id
    report.summary = [f"policy {policy.policy_id}"]
    return report


def names(gpus: list[GpuRef]) -> str | None:
    """GPUs as a list; None for none."""
    return ",".join(str(g) for g in gpus) or None


def stamp(seconds: float) -> str:
    """A time for people, in UTC."""
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M:%S}"
