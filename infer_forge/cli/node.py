"""`infer-forge node`: claims on GPU nodes, observations, fail-closed clean-up. It starts and stops nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from infer_forge.cli.common import report_command

if TYPE_CHECKING:
    from infer_forge.base.records import Report
    from infer_forge.nodes.registry import Registry


@click.group("node")
def command() -> None:
    """The node registry: claims on GPU nodes, observations, fail-closed clean-up."""


def _registry() -> Registry:
    from infer_forge.nodes.registry import Registry

    return Registry.open(_configured())


def _configured() -> str | None:
    """The hub that the settings name, when there are settings."""
    from infer_forge.base.config import project_config_file
    from infer_forge.base.paths import user_config_file

    if not user_config_file().is_file() and project_config_file() is None:
        return None
    from infer_forge.base.config import settings

    return settings().get("remotes.registry")


@command.command("init")
@click.option("--remote", help="The team's hub: file:///path, ssh://host/path, host:path. Remembered.")
@report_command
def init(remote: str | None) -> Report:
    """Make this machine's registry, joined to a hub or alone; again is harmless."""
    from infer_forge.base.records import Report
    from infer_forge.nodes.registry import ALL, Registry

    registry = Registry.open(remote or _configured(), create=True)
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


@command.command("claim")
@click.argument("node", required=False)
@click.option("--gpus", help="0,1 or 0-3, or UUIDs (GPU-.., MIG-..).")
@click.option("--task", help="The task that they are for.")
@click.option("--purpose", help="What will run, in a few words; shown to whoever is refused.")
@click.option("--run", "run_id", help="The run that owns the claim in the guard's context.")
@click.option("--agent", help="Which agent holds it (default: the client that runs this).")
@click.option("--runtime", "runtimes", multiple=True, help="pid:N, container:ID, slurm:JOB, k8s:POD-UID; repeat it.")
@click.option("--hours", type=click.FloatRange(min=0, min_open=True), help="When others may ask; frees nothing.")
@click.option("--probe", "probe_id", help="The live probe that the claim stands on (default: the node's newest).")
@click.option("--claim", "claim_id", help="Add --runtime to this claim of ours, and nothing else.")
@report_command
def claim(
    node: str | None,
    gpus: str | None,
    task: str | None,
    purpose: str | None,
    run_id: str | None,
    agent: str | None,
    runtimes: tuple[str, ...],
    hours: float | None,
    probe_id: str | None,
    claim_id: str | None,
) -> Report:
    """Claim GPUs of NODE. Of several who try at once exactly one gets them; the others exit with 4."""
    from infer_forge.base.errors import UsageFault
    from infer_forge.nodes import claims
    from infer_forge.nodes.guarded import tell_guard
    from infer_forge.nodes.model import parse_gpus, parse_runtime

    named = [parse_runtime(text) for text in runtimes]
    if claim_id:
        if not named or node or gpus:
            raise UsageFault("--claim adds runtimes to a claim: give --runtime, and neither NODE nor --gpus")
        held = claims.attach(_registry(), claim_id, named)
        commit = None
    else:
        missing = [n for n, v in (("NODE", node), ("--gpus", gpus), ("--task", task), ("--purpose", purpose)) if not v]
        if missing or not (node and gpus and task and purpose):
            raise UsageFault(f"a claim needs {', '.join(missing)}", next_step="infer-forge node claim --help")
        granted = claims.claim(
            _registry(),
            node,
            parse_gpus(gpus),
            task=task,
            purpose=purpose,
            run_id=run_id,
            agent=agent,
            runtimes=named,
            hours=hours,
            probe_id=probe_id,
        )
        held, commit = granted.claim, granted.commit
    tell_guard(held, run_id=run_id)
    return _claim_report(held, commit)


def _claim_report(held: object, commit: str | None) -> Report:
    import msgspec

    from infer_forge.base.records import Report
    from infer_forge.nodes.model import Claim

    claim = msgspec.convert(held, Claim, from_attributes=True)
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


@command.command("release")
@click.argument("claim_id")
@click.option("--reason", default="done", show_default=True, help="Why it ends.")
@click.option("--epoch", type=int, help="Refuse unless the claim has this epoch.")
@click.option("--force", is_flag=True, help="Another's claim; a person at a terminal only.")
@report_command
def release(claim_id: str, reason: str, epoch: int | None, force: bool) -> Report:
    """End a claim of this session. Its GPUs need a live probe (verify) before the next claim."""
    from infer_forge.base.records import Report
    from infer_forge.nodes import claims
    from infer_forge.nodes.guarded import untell_guard
    from infer_forge.nodes.registry import require_person

    if force:
        require_person("ending another's claim", "its holder releases it, or it becomes eligible for clean-up")
    ended = claims.release(_registry(), claim_id, reason=reason, epoch=epoch, force=force)
    untell_guard(ended.claim_id)
    import msgspec

    report = Report("node_release")
    report.extra = {"released": msgspec.to_builtins(ended)}
    report.summary = [f"{ended.how} claim {ended.claim_id} (epoch {ended.epoch}) of task {ended.task_id}"]
    return report


@command.command("observe")
@click.argument("node", required=False)
@click.option("--note", help="What the observer wants to say.")
@click.option("--source", default="auto", show_default=True, help="auto, nvml, smi-xml or amd-smi.")
@report_command
def observe(node: str | None, note: str | None, source: str) -> Report:
    """Record one look at this machine: shown, may block a clean-up, never makes one eligible."""
    from infer_forge.nodes.looking import observe as take
    from infer_forge.nodes.reports import observation_report

    return observation_report(take(_registry(), node, note=note, source=source))


@command.command("collect")
@click.option(
    "--interval",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds between samples (default: the policy's cadence).",
)
@click.option("--samples", type=click.IntRange(min=1), help="Stop after so many (default: run on).")
@click.option("--collector", "collector_id", help="Name of this collector (default: the node's name).")
@click.option("--source", default="auto", show_default=True, help="auto, nvml, smi-xml or amd-smi.")
@click.option(
    "--sees-all-processes",
    is_flag=True,
    help="Your word that no process hidden from here uses a GPU of this node; recorded.",
)
@click.option(
    "--trust", is_flag=True, help="Register a second collector of a node, or a new key; a person at a terminal."
)
def collect(
    interval: float | None,
    samples: int | None,
    collector_id: str | None,
    source: str,
    sees_all_processes: bool,
    trust: bool,
) -> None:
    """Observe this node until stopped: a sample a minute, a sealed segment every ten. Survives a lost network."""
    import signal
    import threading

    from infer_forge.nodes import collector as collecting
    from infer_forge.nodes.registry import require_person

    if trust:
        require_person("trusting a collector", "a person runs it once at a terminal")
    stop = threading.Event()

    def end(_signal: int, _frame: object) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    collector = collecting.Collector(
        _registry(),
        collector_id=collector_id,
        interval_s=interval,
        source=source,
        all_visible=True if sees_all_processes else None,
        trusted=trust,
    )
    click.echo(f"collector {collector.id} of {collector.node}, every {collector.interval_s:g} s", err=True)
    last: list[str | None] = [None]

    def tell(_: object, problem: str | None) -> None:
        if problem != last[0]:
            click.echo(f"hub: {problem}" if problem else "hub: reached again", err=True)
            last[0] = problem

    taken = collecting.collect(collector, samples=samples, stop=stop, tell=tell)
    click.echo(f"{taken} samples taken", err=True)


@command.command("status")
@click.argument("node", required=False)
@click.option("--offline", is_flag=True, help="Ask no hub; show what is known here.")
@click.option("--claim", "claim_id", help="With --epoch: whether evidence made under them still stands.")
@click.option("--epoch", type=int, help="The epoch that the evidence carries.")
@click.option("--require", "wanted", help="Exit 4 unless the epoch is one of: current, fenced, unknown.")
@report_command
def status(node: str | None, offline: bool, claim_id: str | None, epoch: int | None, wanted: str | None) -> Report:
    """Nodes and claims, each with its state and why."""
    from infer_forge.base.errors import UsageFault
    from infer_forge.base.records import Report
    from infer_forge.cli.common import require
    from infer_forge.nodes import claims, reports
    from infer_forge.nodes.guarded import refresh_guard
    from infer_forge.nodes.registry import CLAIMS

    registry = _registry()
    if (claim_id is None) != (epoch is None):
        raise UsageFault("--claim and --epoch go together")
    if claim_id is not None and epoch is not None:
        if not offline:
            registry.store.refresh(CLAIMS)
        verdict = claims.check_epoch(registry, claim_id, epoch)
        require(verdict, wanted, known=("current", "fenced", "unknown"))
        answer = Report("node_epoch", summary=[f"claim {claim_id} epoch {epoch}: {verdict}"])
        answer.extra = {"claim_id": claim_id, "epoch": epoch, "verdict": verdict}
        return answer
    report = reports.status(registry, node, refresh=not offline)
    if node is None and not any(f.code == "HUB_UNREACHABLE" for f in report.findings):
        refresh_guard({c.claim_id: c.epoch for r in registry.nodes() for c in r.claims})
    return report


@command.command("eligible")
@click.argument("node", required=False)
@click.option("--explain", is_flag=True, help="Every reason, the windows, and the tips that were read.")
@report_command
def eligible(node: str | None, explain: bool) -> Report:
    """Which claims were idle for the policy's whole window, on the hub's newest state."""
    from infer_forge.nodes import eligibility as cleaning
    from infer_forge.nodes.reports import eligible_report

    registry = _registry()
    return eligible_report(registry, cleaning.eligible(registry, node), explain=explain)


@command.command("cleanup")
@click.option("--claim", "claim_id", required=True, help="The claim's id.")
@click.option("--epoch", type=int, required=True, help="Its epoch.")
@click.option("--evidence", required=True, help="The evidence that `node eligible` printed (16 characters or more).")
@click.option("--reason", default="idle for the whole window", show_default=True, help="Why; recorded.")
@click.option("--execute", is_flag=True, help="Do it; without this it is a dry run.")
@report_command
def cleanup(claim_id: str, epoch: int, evidence: str, reason: str, execute: bool) -> Report:
    """Remove an idle claim from the registry, and nothing else: no process is stopped, no task is done."""
    from infer_forge.nodes import eligibility as cleaning
    from infer_forge.nodes.guarded import untell_guard
    from infer_forge.nodes.reports import cleanup_report

    done = cleaning.cleanup(_registry(), claim_id, epoch=epoch, evidence=evidence, reason=reason, execute=execute)
    if done.released:
        untell_guard(done.released.claim_id)
    return cleanup_report(done)


@command.command("verify")
@click.argument("node")
@click.option("--gpus", help="Which (default: all that were held and not probed since).")
@click.option("--source", default="auto", show_default=True, help="auto, nvml, smi-xml or amd-smi.")
@click.option(
    "--sees-all-processes",
    is_flag=True,
    help="Your word that no process hidden from here uses a GPU of this node; recorded.",
)
@report_command
def verify(node: str, gpus: str | None, source: str, sees_all_processes: bool) -> Report:
    """Probe this machine's freed GPUs now; the next claim stands on the probe for a short time."""
    import msgspec

    from infer_forge.base.records import Report
    from infer_forge.nodes.model import parse_gpus
    from infer_forge.nodes.probing import verify as probe

    visible = True if sees_all_processes else None
    made = probe(_registry(), node, parse_gpus(gpus) if gpus else None, source=source, all_visible=visible)
    report = Report("node_verify")
    report.extra = {"probe": msgspec.to_builtins(made)}
    report.summary = [f"probe {made.probe_id}: GPU {','.join(map(str, made.gpus))} of {node} are idle and healthy"]
    report.next_step = (
        f"claim within {made.expires_at_wall - made.at_wall:.0f} s: infer-forge node claim {node} --gpus .."
    )
    return report


@command.command("mark")
@click.argument("node")
@click.option("--unhealthy", "state", flag_value="unhealthy", help="Nobody may claim it until a person clears it.")
@click.option("--drain", "state", flag_value="drain", help="No new claims; held ones stay.")
@click.option("--clear", "state", flag_value="clear", help="Lift the mark; a person at a terminal only.")
@click.option("--reason", required=True, help="Why; recorded.")
@click.option("--evidence", help="A report, a log, a hash that shows it.")
@report_command
def mark(node: str, state: str | None, reason: str, evidence: str | None) -> Report:
    """Mark a node unhealthy or draining, or lift the mark."""
    from infer_forge.base.errors import UsageFault
    from infer_forge.base.records import Report
    from infer_forge.nodes import claims
    from infer_forge.nodes.registry import require_person

    if state is None:
        raise UsageFault("say --unhealthy, --drain or --clear")
    if state == "clear":
        require_person("lifting a mark", f"a person runs: infer-forge node mark {node} --clear --reason ..")
    value = None if state == "clear" else state
    record = claims.mark(_registry(), node, value, reason=reason, evidence=evidence)  # pyright: ignore[reportArgumentType]
    report = Report("node_mark", summary=[f"{node}: {state} ({reason}); {len(record.claims)} claims are held on it"])
    report.extra = {"node": node, "mark": value, "claims": [c.claim_id for c in record.claims]}
    return report


@command.command("history")
@click.argument("node", required=False)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="So many rows.")
@click.option("--observations", is_flag=True, help="Samples instead of claims; needs NODE.")
@click.option("--offline", is_flag=True, help="Ask no hub.")
@report_command
def history(node: str | None, limit: int, observations: bool, offline: bool) -> Report:
    """Claims, releases, clean-ups, marks and probes, or the samples of a node; newest first."""
    from infer_forge.base.errors import UsageFault
    from infer_forge.nodes import reports

    if observations:
        if node is None:
            raise UsageFault("--observations needs a NODE")
        return reports.observations(_registry(), node, limit=limit, refresh=not offline)
    return reports.history(_registry(), node, limit=limit, refresh=not offline)


@command.command("policy")
@click.option("--set", "changes", multiple=True, help="KEY=VALUE; repeat it. A person at a terminal only.")
@click.option("--retire", "retired", help="Let this collector count no more; a person at a terminal only.")
@report_command
def policy(changes: tuple[str, ...], retired: str | None) -> Report:
    """The policy in force and the registered collectors; or change them."""
    from infer_forge.base.errors import UsageFault
    from infer_forge.nodes import registry as registries
    from infer_forge.nodes.registry import POLICY, require_person
    from infer_forge.nodes.reports import policy_report

    registry = _registry()
    if changes or retired:
        require_person("changing the policy", "a person runs it")
    if changes:
        pairs = dict(text.split("=", 1) for text in changes if "=" in text)
        if len(pairs) != len(changes):
            raise UsageFault("--set wants KEY=VALUE")
        registries.set_policy(registry, pairs)
    if retired:
        registry.retire_collector(retired)
    registry.store.refresh(POLICY)
    return policy_report(registry)


@command.command("gc")
@click.option("--months", type=click.IntRange(min=1), help="Keep so many months (default: the policy's).")
@click.option("--execute", is_flag=True, help="Do it; without this it is a dry run.")
@report_command
def gc(months: int | None, execute: bool) -> Report:
    """Drop observations of old months, here and on the hub, and pack. Claims are kept for ever."""
    from infer_forge.base.records import Report
    from infer_forge.nodes.retention import gc as collect_garbage

    done = collect_garbage(_registry(), months=months, execute=execute)
    report = Report("node_gc")
    report.extra = {"executed": execute, "dropped": done.dropped, "kept": done.kept, "sizes_bytes": done.sizes}
    report.summary = [f"{'dropped' if execute else 'would drop'} {len(done.dropped)} months, {done.kept} stay"]
    report.summary += [f"{place}: {a / 1e6:.2f} -> {b / 1e6:.2f} MB" for place, (a, b) in done.sizes.items()]
    return report
