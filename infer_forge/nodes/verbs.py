"""What every door (command line, MCP, skill) calls: a verb of the registry and its report, the guard's context kept in step."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from infer_forge.base.errors import UsageFault
from infer_forge.base.person import require_person
from infer_forge.base.records import Finding, Report
from infer_forge.nodes import claims
from infer_forge.nodes.guarded import confirm, give_clocks_back, tell_guard, untell_guard
from infer_forge.nodes.model import Claim, parse_gpus, parse_runtime
from infer_forge.nodes.registry import ALL, CLAIMS, Registry, holder, node_name

_NAMES_SHOWN = 8
if TYPE_CHECKING:
    from infer_forge.base.machine.clocks import Outcome

EPOCH_VERDICTS = ("current", "fenced", "unknown")


def init(remote: str | None) -> Report:
    """Make this machine's registry, joined to a hub or alone; again is harmless."""
    registry = Registry.open(remote, create=True)
    registry.store.refresh(ALL)
    policy_id = registry.ensure_policy()
    hub = registry.store.remote.url if registry.store.remote else None
    report = Report("node_init")
    report.extra = {"store": str(registry.store.gitdir), "hub": hub, "policy_id": policy_id}
    report.summary = [
        f"registry {registry.store.gitdir}",
        f"hub {hub or 'none: this machine alone'}",
        f"policy {policy_id}",
    ]
    report.next_step = "on each GPU node: infer-forge node collect"
    return report


def claim(
    node: str,
    gpus: str,
    *,
    task: str,
    purpose: str,
    run_id: str | None = None,
    agent: str | None = None,
    runtimes: Sequence[str] = (),
    hours: float | None = None,
    probe_id: str | None = None,
) -> Report:
    """Claim GPUs of a node and tell the guard; see `claims.claim`.

    A node of which the registry knows nothing can be claimed, since a team claims before it has collectors; it is said
    (finding `NODE_UNKNOWN`), with the names that are known.
    """
    registry = Registry.open()
    granted = claims.claim(
        registry,
        node,
        parse_gpus(gpus),
        task=task,
        purpose=purpose,
        run_id=run_id,
        agent=agent,
        runtimes=[parse_runtime(text) for text in runtimes],
        hours=hours,
        probe_id=probe_id,
    )
    tell_guard(granted.claim, registry, run_id=run_id)
    report = _held(granted.claim, granted.commit)
    report.findings = _unknown_node(registry, granted.claim)
    return report


def attach(claim_id: str, runtimes: Sequence[str], *, run_id: str | None = None) -> Report:
    """Name further runtimes of a claim of ours, and tell the guard.

    Raises:
        UsageFault: no runtime.
    """
    if not runtimes:
        raise UsageFault("give at least one runtime", next_step="--runtime pid:N, container:ID, slurm:JOB, k8s:POD-UID")
    registry = Registry.open()
    held = claims.attach(registry, claim_id, [parse_runtime(text) for text in runtimes])
    tell_guard(held, registry, run_id=run_id)
    return _held(held, None)


def _unknown_node(registry: Registry, claim: Claim) -> list[Finding]:
    """A warning when nobody claimed the node before, no collector looks at it, and it is not this machine: a slip of the pen?"""
    watched = {c.node for c in registry.collectors().values()}
    if claim.epoch > 1 or claim.node in {*watched, node_name()}:
        return []
    others = sorted(({r.node for r in registry.nodes([])} | watched) - {claim.node})
    alike = difflib.get_close_matches(claim.node, others, len(others) or 1, 0.0)[:_NAMES_SHOWN]
    return [
        Finding(
            "NODE_UNKNOWN",
            f"nobody claimed {claim.node} before and no collector looks at it; known nodes: {', '.join(alike) or 'none'}",
            figure=claim.node,
            next_step=f"if the name is wrong: infer-forge node release {claim.claim_id}, then claim the right one; "
            f"if it is right: infer-forge node collect on {claim.node}",
        )
    ]


def _held(claim: Claim, commit: str | None) -> Report:
    report = Report("node_claim")
    report.extra = {"claim": msgspec.to_builtins(claim), "commit": commit}
    gpus = ",".join(str(g) for g in claim.gpus)
    report.summary = [
        f"claim {claim.claim_id}",
        f"GPU {gpus} of {claim.node}, epoch {claim.epoch}, task {claim.task_id}",
    ]
    report.next_step = (
        f"carry claim and epoch with everything made under it; end: infer-forge node release {claim.claim_id}"
    )
    return report


def release(claim_id: str, *, reason: str, epoch: int | None = None, force: bool = False) -> Report:
    """End a claim of this session, or (a person at a terminal) another's with `force`."""
    if force:
        require_person("ending another's claim", "its holder releases it, or it becomes eligible for clean-up")
    registry = Registry.open()
    clocks = _clocks_of(registry, claim_id, epoch=epoch, force=force)
    ended = claims.release(registry, claim_id, reason=reason, epoch=epoch, force=force)
    untell_guard(ended.claim_id)
    confirm(registry)
    report = Report("node_release")
    report.extra = {"released": msgspec.to_builtins(ended)}
    report.summary = [f"{ended.how} claim {ended.claim_id} (epoch {ended.epoch}) of task {ended.task_id}"]
    report.next_step = "its GPUs need a live probe before the next claim: infer-forge node verify NODE"
    _say_clocks(report, clocks)
    return report


def _clocks_of(registry: Registry, claim_id: str, *, epoch: int | None, force: bool) -> list[Outcome]:
    """Give the clocks of a claim back, once it is plain that the release itself will not be refused."""
    registry.store.refresh(CLAIMS)
    try:
        record, place = registry.find_claim(claim_id)
    except UsageFault:
        untell_guard(claim_id)  # it ended already: nothing leans on it any more
        raise
    held = record.claims[place]
    if (epoch is not None and held.epoch != epoch) or not (force or claims.mine(held.holder, holder())):
        return []
    return give_clocks_back(held.claim_id, force=force)


def _say_clocks(report: Report, outcomes: list[Outcome]) -> None:
    """Clocks that were given back, and (loudly) those that were not."""
    report.extra["clocks"] = [
        {"id": o.lock.ident, "gpu": o.lock.gpu, "result": o.result, "verified": o.verified, "why": o.why}
        for o in outcomes
    ]
    report.summary += [o.text for o in outcomes]
    step = "infer-forge guard clocks shows what is open; a person decides"
    report.findings += [
        Finding("CLOCK_NOT_RESTORED", o.text, "error" if o.result == "failed" else "warning", next_step=step)
        for o in outcomes
        if o.result != "restored"
    ]


def observe(node: str | None, *, note: str | None, source: str = "auto") -> Report:
    """Record one look at this machine as an agent's observation."""
    from infer_forge.nodes.looking import observe as take
    from infer_forge.nodes.reports import observation_report

    return observation_report(take(Registry.open(), node, note=note, source=source))


def read_status(node: str | None, *, offline: bool = False) -> Report:
    """Nodes and claims; the guard's context learns which of its claims the hub still holds."""
    from infer_forge.nodes.reports import status

    registry = Registry.open()
    report = status(registry, node, refresh=not offline)
    if not any(f.code == "HUB_UNREACHABLE" for f in report.findings):
        fallen = confirm(registry)
        report.extra["fenced"] = fallen
    return report


def check_epoch(claim_id: str, epoch: int, *, offline: bool = False) -> Report:
    """Whether evidence made under (claim, epoch) still stands: verdict `current`, `fenced` or `unknown`."""
    registry = Registry.open()
    if not offline:
        registry.store.refresh(CLAIMS)
        confirm(registry)
    verdict = claims.check_epoch(registry, claim_id, epoch)
    report = Report("node_epoch", summary=[f"claim {claim_id} epoch {epoch}: {verdict}"])
    report.extra = {"claim_id": claim_id, "epoch": epoch, "verdict": verdict}
    return report


def confirm_claims() -> list[str]:
    """Ask the registry whether the claims of this machine's runs still hold, for the guard; ids of those that fell.

    Without a registry or without claims there is nothing to ask.

    Raises:
        HubUnreachable: the hub does not answer; the confirmations on file grow old, and the guard asks.
    """
    from infer_forge.base import ownership

    if not any(run.claims for run in ownership.load().runs.values()):
        return []
    try:
        registry = Registry.open()
    except UsageFault:
        return []
    registry.store.refresh(CLAIMS)
    return confirm(registry)


def eligible(node: str | None, *, explain: bool) -> Report:
    """Which claims were idle for the whole window, with the evidence that a clean-up cites."""
    from infer_forge.nodes.eligibility import eligible as evaluate
    from infer_forge.nodes.reports import eligible_report

    registry = Registry.open()
    return eligible_report(registry, evaluate(registry, node), explain=explain)


def cleanup(claim_id: str, *, epoch: int, evidence: str, reason: str, execute: bool) -> Report:
    """Remove an idle claim from the registry (dry run unless `execute`), and from the guard's context."""
    from infer_forge.nodes.eligibility import cleanup as clean
    from infer_forge.nodes.reports import cleanup_report

    registry = Registry.open()
    clocks = _clocks_before_cleanup(registry, claim_id, epoch=epoch, evidence=evidence, reason=reason, execute=execute)
    done = clean(registry, claim_id, epoch=epoch, evidence=evidence, reason=reason, execute=execute)
    if done.released:
        untell_guard(done.released.claim_id)
        confirm(registry)
    report = cleanup_report(done)
    if clocks:
        _say_clocks(report, clocks)
    return report


def _clocks_before_cleanup(
    registry: Registry, claim_id: str, *, epoch: int, evidence: str, reason: str, execute: bool
) -> list[Outcome]:
    """Give clocks back that this machine locked under the claim, when a dry run says that it would be cleaned up."""
    from infer_forge.base import clocks
    from infer_forge.nodes.eligibility import cleanup as clean

    open_here = clocks.read().open()
    if not execute or not any(str(k.claim_id).startswith(claim_id) for k in open_here):
        return []
    clean(registry, claim_id, epoch=epoch, evidence=evidence, reason=reason, execute=False)
    return give_clocks_back(next(str(k.claim_id) for k in open_here if str(k.claim_id).startswith(claim_id)))


def verify(node: str, gpus: str | None, *, source: str = "auto", all_visible: bool | None = None) -> Report:
    """Probe this machine's freed GPUs; the next claim stands on the probe."""
    from infer_forge.nodes.probing import verify as probe

    made = probe(Registry.open(), node, parse_gpus(gpus) if gpus else None, source=source, all_visible=all_visible)
    report = Report("node_verify")
    report.extra = {"probe": msgspec.to_builtins(made)}
    report.summary = [f"probe {made.probe_id}: GPU {','.join(map(str, made.gpus))} of {node} are idle and healthy"]
    seconds = made.expires_at_wall - made.at_wall
    report.next_step = f"claim within {seconds:.0f} s: infer-forge node claim {node} --gpus .."
    return report


def mark(node: str, state: Literal["unhealthy", "drain", "clear"], *, reason: str, evidence: str | None) -> Report:
    """Mark a node unclaimable; only a person at a terminal lifts a mark."""
    if state == "clear":
        require_person("lifting a mark", f"a person runs: infer-forge node mark {node} --clear --reason ..")
    value = None if state == "clear" else state
    record = claims.mark(Registry.open(), node, value, reason=reason, evidence=evidence)
    report = Report("node_mark", summary=[f"{node}: {state} ({reason}); {len(record.claims)} claims are held on it"])
    report.extra = {"node": node, "mark": value, "claims": [c.claim_id for c in record.claims]}
    return report


def policy(changes: dict[str, str], retire: str | None) -> Report:
    """The policy and the collectors; a person at a terminal changes them."""
    from infer_forge.nodes.registry import POLICY, set_policy
    from infer_forge.nodes.reports import policy_report

    registry = Registry.open()
    if changes or retire:
        require_person("changing the policy", "a person runs it")
    if changes:
        set_policy(registry, changes)
    if retire:
        registry.retire_collector(retire)
    registry.store.refresh(POLICY)
    return policy_report(registry)


def gc(months: int | None, *, execute: bool) -> Report:
    """Drop old months of observations and pack (dry run unless `execute`)."""
    from infer_forge.nodes.retention import gc as collect_garbage

    done = collect_garbage(Registry.open(), months=months, execute=execute)
    report = Report("node_gc")
    report.extra = {"executed": execute, "dropped": done.dropped, "kept": done.kept, "sizes_bytes": done.sizes}
    report.summary = [f"{'dropped' if execute else 'would drop'} {len(done.dropped)} months, {done.kept} stay"]
    report.summary += [f"{place}: {a / 1e6:.2f} -> {b / 1e6:.2f} MB" for place, (a, b) in done.sizes.items()]
    return report
