"""`infer-forge node`: claims on GPU nodes, observations, fail-closed clean-up. It starts and stops nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from infer_forge.cli.common import report_command

if TYPE_CHECKING:
    from infer_forge.base.records import Report


@click.group("node")
def command() -> None:
    """The node registry: claims on GPU nodes, observations, fail-closed clean-up."""


@command.command("init")
@click.option("--remote", help="The team's hub: file:///path, ssh://host/path, host:path. Remembered.")
@report_command
def init(remote: str | None) -> Report:
    """Make this machine's registry, joined to a hub or alone; again is harmless."""
    from infer_forge.nodes import verbs

    return verbs.init(remote)


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
    from infer_forge.nodes import verbs

    if claim_id:
        if node or gpus or task or purpose:
            raise UsageFault("--claim adds runtimes to a claim: give --runtime and nothing else")
        return verbs.attach(claim_id, runtimes, run_id=run_id)
    if not (node and gpus and task and purpose):
        given = (("NODE", node), ("--gpus", gpus), ("--task", task), ("--purpose", purpose))
        missing = ", ".join(name for name, value in given if not value)
        raise UsageFault(f"a claim needs {missing}", next_step="infer-forge node claim --help")
    return verbs.claim(
        node,
        gpus,
        task=task,
        purpose=purpose,
        run_id=run_id,
        agent=agent,
        runtimes=runtimes,
        hours=hours,
        probe_id=probe_id,
    )


@command.command("release")
@click.argument("claim_id")
@click.option("--reason", default="done", show_default=True, help="Why it ends.")
@click.option("--epoch", type=int, help="Refuse unless the claim has this epoch.")
@click.option("--force", is_flag=True, help="Another's claim; a person at a terminal only.")
@report_command
def release(claim_id: str, reason: str, epoch: int | None, force: bool) -> Report:
    """End a claim of this session. Its GPUs need a live probe (verify) before the next claim."""
    from infer_forge.nodes import verbs

    return verbs.release(claim_id, reason=reason, epoch=epoch, force=force)


@command.command("observe")
@click.argument("node", required=False)
@click.option("--note", help="What the observer wants to say.")
@click.option("--source", default="auto", show_default=True, help="auto, nvml, smi-xml or amd-smi.")
@report_command
def observe(node: str | None, note: str | None, source: str) -> Report:
    """Record one look at this machine: shown, may block a clean-up, never makes one eligible."""
    from infer_forge.nodes import verbs

    return verbs.observe(node, note=note, source=source)


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

    from infer_forge.base.person import require_person
    from infer_forge.nodes import collector as collecting
    from infer_forge.nodes.registry import Registry

    if trust:
        require_person("trusting a collector", "a person runs it once at a terminal")
    stop = threading.Event()

    def end(_signal: int, _frame: object) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    collector = collecting.Collector(
        Registry.open(),
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
    from infer_forge.cli.common import require
    from infer_forge.nodes import verbs

    if (claim_id is None) != (epoch is None):
        raise UsageFault("--claim and --epoch go together")
    if claim_id is None or epoch is None:
        return verbs.read_status(node, offline=offline)
    report = verbs.check_epoch(claim_id, epoch, offline=offline)
    require(report.extra["verdict"], wanted, known=verbs.EPOCH_VERDICTS, report=report)
    return report


@command.command("eligible")
@click.argument("node", required=False)
@click.option("--explain", is_flag=True, help="Every reason, the windows, and the tips that were read.")
@report_command
def eligible(node: str | None, explain: bool) -> Report:
    """Which claims were idle for the policy's whole window, on the hub's newest state."""
    from infer_forge.nodes import verbs

    return verbs.eligible(node, explain=explain)


@command.command("cleanup")
@click.option("--claim", "claim_id", required=True, help="The claim's id.")
@click.option("--epoch", type=int, required=True, help="Its epoch.")
@click.option("--evidence", required=True, help="The evidence that `node eligible` printed (16 characters or more).")
@click.option("--reason", default="idle for the whole window", show_default=True, help="Why; recorded.")
@click.option("--execute", is_flag=True, help="Do it; without this it is a dry run.")
@report_command
def cleanup(claim_id: str, epoch: int, evidence: str, reason: str, execute: bool) -> Report:
    """Remove an idle claim from the registry, and nothing else: no process is stopped, no task is done."""
    from infer_forge.nodes import verbs

    return verbs.cleanup(claim_id, epoch=epoch, evidence=evidence, reason=reason, execute=execute)


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
    from infer_forge.nodes import verbs

    return verbs.verify(node, gpus, source=source, all_visible=True if sees_all_processes else None)


@command.command("mark")
@click.argument("node")
@click.option("--unhealthy", "state", flag_value="unhealthy", help="Nobody may claim it until a person clears it.")
@click.option("--drain", "state", flag_value="drain", help="No new claims; held ones stay.")
@click.option("--clear", "state", flag_value="clear", help="Lift the mark; a person at a terminal only.")
@click.option("--reason", required=True, help="Why; recorded.")
@click.option("--evidence", help="A report, a log, a hash that shows it.")
@report_command
def mark(node: str, state: Literal["unhealthy", "drain", "clear"] | None, reason: str, evidence: str | None) -> Report:
    """Mark a node unhealthy or draining, or lift the mark."""
    from infer_forge.base.errors import UsageFault
    from infer_forge.nodes import verbs

    if state is None:
        raise UsageFault("say --unhealthy, --drain or --clear")
    return verbs.mark(node, state, reason=reason, evidence=evidence)


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
    from infer_forge.nodes.registry import Registry

    if observations:
        if node is None:
            raise UsageFault("--observations needs a NODE")
        return reports.observations(Registry.open(), node, limit=limit, refresh=not offline)
    return reports.history(Registry.open(), node, limit=limit, refresh=not offline)


@command.command("policy")
@click.option("--set", "changes", multiple=True, help="KEY=VALUE; repeat it. A person at a terminal only.")
@click.option("--retire", "retired", help="Let this collector count no more; a person at a terminal only.")
@report_command
def policy(changes: tuple[str, ...], retired: str | None) -> Report:
    """The policy in force and the registered collectors; or change them."""
    from infer_forge.base.errors import UsageFault
    from infer_forge.nodes import verbs

    pairs = dict(text.split("=", 1) for text in changes if "=" in text)
    if len(pairs) != len(changes):
        raise UsageFault("--set wants KEY=VALUE")
    return verbs.policy(pairs, retired)


@command.command("gc")
@click.option("--months", type=click.IntRange(min=1), help="Keep so many months (default: the policy's).")
@click.option("--execute", is_flag=True, help="Do it; without this it is a dry run.")
@report_command
def gc(months: int | None, execute: bool) -> Report:
    """Drop observations of old months, here and on the hub, and pack. Claims are kept for ever."""
    from infer_forge.nodes import verbs

    return verbs.gc(months, execute=execute)
