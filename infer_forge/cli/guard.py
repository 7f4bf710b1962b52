"""`infer-forge guard`: check commands, scan artifacts, own and grant, explain. The hook itself is `infer-forge-guard`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from infer_forge.cli.given_path import GivenPath

if TYPE_CHECKING:
    from infer_forge.base.records import Report

CODES = {"allow": 0, "deny": 4, "ask": 6}
_KINDS = ("pid", "pgid", "path", "container", "job", "k8s", "port", "cluster")


@click.group()
def command() -> None:
    """The safety guard: check commands before they run, scan artifacts, prove ownership. It is no sandbox."""


def _format(function: Any) -> Any:
    # cli.common costs more to import than a check does, so `check` and its neighbours come to it when they print.
    out = click.option(
        "--out", type=GivenPath(path_type=Path, dir_okay=False), help="Write the answer to this file, not to stdout."
    )
    form = click.option(
        "--format",
        "form",
        type=click.Choice(("text", "md", "json")),
        default="text",
        show_default=True,
        help="Form of the answer.",
    )
    return form(out(function))


def _emit(report: Report, form: str, out: Path | None) -> None:
    from infer_forge.cli.common import emit

    emit(report, form, out)


def _print(text: str, out: Path | None) -> None:
    if out is None:
        sys.stdout.write(text + "\n")
        return
    from infer_forge.cli.common import write

    write(text, out)


@command.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--context",
    "context_file",
    type=GivenPath(path_type=Path, dir_okay=False),
    help="A context as JSON; it counts as proved (tests, dry runs).",
)
@click.option("--cwd", help="Folder in which the command would run. Default: the context's, or this one.")
@_format
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED)
def check(context_file: Path | None, cwd: str | None, form: str, out: Path | None, words: tuple[str, ...]) -> None:
    """Say whether COMMAND may run: exit 0 allow, 4 deny, 6 ask. Nothing is run.

    One word is taken as shell text; several are quoted and joined.
    """
    from infer_forge.guard.judge import check as decide

    text = words[0] if len(words) == 1 else _joined(words)
    verdict = decide(text, _context(context_file), cwd=cwd)
    data = verdict.to_json()
    if form == "json":
        _print(json.dumps({"command_bytes": len(text.encode("utf-8", "replace")), **data}), out)
    else:
        _print(_lines(data, form), out)
    _exit(CODES[verdict.verdict])


def _exit(code: int) -> None:
    """End with the verdict's code; the group's own exit would be taken as done."""
    sys.stdout.flush()
    if code:
        sys.exit(code)


def _joined(words: tuple[str, ...]) -> str:
    import shlex

    return shlex.join(words)


def _context(file: Path | None) -> dict[str, Any] | None:
    if file is None:
        return None
    from infer_forge.base.errors import InputUnusable

    try:
        data: Any = json.loads(file.read_bytes())
    except (OSError, ValueError) as exc:
        raise InputUnusable(
            f"is no context ({exc})", where=str(file), next_step="give a JSON object, or leave --context out"
        ) from None
    if not isinstance(data, dict):
        raise InputUnusable("a context is a JSON object", where=str(file))
    return data  # pyright: ignore[reportUnknownVariableType]


def _lines(data: dict[str, Any], form: str) -> str:
    lead = "- " if form == "md" else ""
    lines = [f"{lead}{data['verdict']}" + (f" [{data['rule_id']}]" if data["rule_id"] else "") + f": {data['why']}"]
    if data["argv"]:
        lines.append(f"{lead}decided by: {' '.join(data['argv'])[:300]}")
    if data["safer"]:
        lines.append(f"{lead}instead: {data['safer']}")
    if data["coverage"] != "full":
        lines.append(f"{lead}a part of it could not be seen")
    return "\n".join(lines)


@command.command()
@click.argument("paths", nargs=-1, required=True)
@click.option("--redact", "redact_files", is_flag=True, help="Replace each secret in place.")
@_format
def scan(paths: tuple[str, ...], redact_files: bool, form: str, out: Path | None) -> None:
    """Look for secrets in files and folders: text, gzip, sqlite, Nsight reports. Exit 4 when any is left, 3 when a file cannot be read."""
    from infer_forge.guard.catalogue import scan_report

    report, code = scan_report(paths, redact_files=redact_files)
    _emit(report, form, out)
    _exit(code)


def _target_options(function: Any) -> Any:
    helps = {
        "pid": "A process that a launcher of this run started, or a child of one.",
        "pgid": "A process group led by such a process.",
        "path": "A path in the run's folder, or one that does not exist yet.",
        "container": "A container that carries the run's label.",
        "job": "A Slurm job whose comment names the run.",
        "k8s": "A pod as NAMESPACE/NAME with the run's label.",
        "port": "A TCP port on which a process of the run listens.",
        "cluster": "A cloud cluster or release (a person vouches).",
    }
    for kind in reversed(_KINDS):
        function = click.option(f"--{kind}", multiple=True, help=helps[kind])(function)
    return click.option("--run-id", help="The run. Default: INFER_FORGE_RUN_ID, or the run whose folder this is.")(
        function
    )


def _targets(values: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    from infer_forge.base.errors import UsageFault

    found = [(kind, target) for kind in _KINDS for target in values[kind]]
    if not found:
        raise UsageFault(
            "nothing is named", next_step="name it with --pid, --path, --container, --job, --k8s, --port or --cluster"
        )
    return found


@command.command()
@_target_options
@click.option("--root", help="Begin the run with this folder; what lies in it is the run's.")
@click.option("--force", is_flag=True, help="A person vouches for it, at a terminal.")
@_format
def own(
    run_id: str | None, root: str | None, force: bool, form: str, out: Path | None, **values: tuple[str, ...]
) -> None:
    """Record that the run owns something, when that can be proved."""
    from infer_forge.base import ownership
    from infer_forge.base.errors import UsageFault
    from infer_forge.guard import catalogue, proofs

    if root is not None:
        if not run_id:
            raise UsageFault("--root needs --run-id", next_step="infer-forge guard own --run-id NAME --root FOLDER")
        _new_root(root, run_id)
        ownership.begin_run(run_id, root)
    person = _person(f"vouch for {', '.join(t for _, t in _targets(values))}") if force else None
    for kind, target in _targets(values) if root is None or any(values.values()) else []:
        proofs.prove(kind, target, run_id=run_id, person=person)
    _emit(catalogue.status(run_id), form, out)


def _new_root(root: str, run_id: str) -> None:
    """A run's folder is new or empty, or the run has it already; otherwise a person says so."""
    import os

    from infer_forge.base import ownership

    run = ownership.load().runs.get(run_id)
    real = os.path.realpath(os.path.expanduser(root))
    if (run is not None and run.root == real) or not os.path.isdir(real) or not os.listdir(real):
        return
    _person(f"make {real}, which holds files already, the folder of run {run_id}")


@command.command()
@_target_options
@_format
def disown(run_id: str | None, form: str, out: Path | None, **values: tuple[str, ...]) -> None:
    """Take something off the run's list; the thing itself is left alone."""
    from infer_forge.base import ownership
    from infer_forge.guard import catalogue

    for kind, target in _targets(values):
        if not ownership.disown(kind, target, run_id=run_id):
            click.echo(f"not on the list: {kind} {target}", err=True)
    _emit(catalogue.status(run_id), form, out)


@command.command()
@click.option("--action", required=True, help="The rule that the grant lifts, or CONSTRAINT.* for a whole constraint.")
@click.option(
    "--target", default="*", show_default=True, help="The exact word of the command that it covers; * for all."
)
@click.option("--for", "duration", default="30m", show_default=True, help="How long: 90s, 30m, 2h; at most 24h.")
@click.option("--reason", default="", help="Why.")
@click.option("--run-id", help="The run. Default: the caller's.")
@_format
def grant(
    action: str, target: str, duration: str, reason: str, run_id: str | None, form: str, out: Path | None
) -> None:
    """A person's leave to do one thing for a time. Needs a terminal."""
    from infer_forge.guard import catalogue

    seconds = _seconds(duration)
    catalogue.grantable(action)
    by = _person(f"allow {action} on {target} for {duration}")
    if action == "gpu.clock_lock":
        from infer_forge.guard import proofs

        seen = proofs.record_clocks(target)
        reason = f"{reason} (clocks before: {seen})".strip()
        click.echo(f"clocks before: {seen}; the end of the claim gives them back (infer-forge guard clocks)", err=True)
    catalogue.give(action, target, seconds, by, reason, run_id)
    _emit(catalogue.status(run_id), form, out)


def _seconds(text: str) -> float:
    from infer_forge.base.errors import UsageFault

    match = re.fullmatch(r"(\d+)\s*([smh])", text.strip())
    seconds = int(match.group(1)) * {"s": 1, "m": 60, "h": 3600}[match.group(2)] if match else 0
    if not 0 < seconds <= 86400:
        raise UsageFault(f"{text!r} is no time between 1s and 24h", next_step="write it as 30m or 2h")
    return float(seconds)


def _person(what: str) -> str:
    """A person at a terminal says yes; returns who they are.

    Raises:
        HumanNeeded: no terminal is attached, or they said no.
    """
    import getpass

    from infer_forge.base.errors import HumanNeeded
    from infer_forge.base.person import require_person

    require_person(what, "run the same command in a terminal of your own")
    if not click.confirm(f"You, a person: {what}?", err=True):
        raise HumanNeeded("not granted")
    return getpass.getuser()


@command.command()
@click.option("--gpus", help="Which: 0,1 or 0-3. For --record and --standing.")
@click.option(
    "--record", "record_now", is_flag=True, help="Write down what the clocks are, before a lock is asked for."
)
@click.option("--restore", "restore_now", is_flag=True, help="Give locked clocks back, of one claim or of all.")
@click.option("--claim", "claim_id", help="The claim whose locks go. Default: every open lock of this machine.")
@click.option(
    "--standing", help="A person at a terminal: the lock that these GPUs always have, MIN,MAX in MHz, or none."
)
@click.option(
    "--drop", "dropped", help="A person at a terminal: the lock with this id is given back already, or is not ours."
)
@click.option(
    "--force", is_flag=True, help="With --restore, a person at a terminal: also what the clock speaks against."
)
@_format
def clocks(
    gpus: str | None,
    record_now: bool,
    restore_now: bool,
    claim_id: str | None,
    standing: str | None,
    dropped: str | None,
    force: bool,
    form: str,
    out: Path | None,
) -> None:
    """GPU clocks that were locked under a claim: which are open, and give them back. Exit 4 while one is open after --restore."""
    from infer_forge.guard import clockbook

    if record_now:
        clockbook.record(gpus)
    if standing is not None:
        clockbook.declare(gpus, standing, _person(f"declare {standing} the standing clock lock of GPU {gpus}"))
    if dropped is not None:
        clockbook.drop(dropped, _person(f"take the clock lock {dropped} off the record"))
    if force:
        _person("give clocks back even where somebody else may have locked them since")
    done = clockbook.restore(claim_id, force=force) if restore_now else None
    report = clockbook.report(done)
    _emit(report, form, out)
    _exit(4 if done is not None and any(o.result in ("failed", "unsure") for o in done) else 0)


@command.command()
@click.option("--run-id", help="The run. Default: the caller's.")
@click.option("--refresh", is_flag=True, help="Prove again what ages: containers, jobs, objects, ports.")
@click.option(
    "--compile", "compile_now", is_flag=True, help="Compile a changed guard.yaml (looser ones need a terminal)."
)
@click.option(
    "--log", default=0, show_default=True, type=click.IntRange(0, 1000), help="Show the last decisions of the hook."
)
@_format
def status(run_id: str | None, refresh: bool, compile_now: bool, log: int, form: str, out: Path | None) -> None:
    """What the run owns with which proof, its claims and grants, and whether the policy is compiled."""
    from infer_forge.guard import catalogue, policy, proofs

    if compile_now:
        policy.compile_policy()
    if refresh:
        for kind, target, outcome in proofs.refresh(run_id):
            click.echo(f"{kind} {target}: {outcome}", err=True)
    _emit(catalogue.status(run_id, log=log), form, out)


@command.command()
@click.argument("rule", required=False)
@_format
def explain(rule: str | None, form: str, out: Path | None) -> None:
    """What a rule stops and why, what to run instead, and whether a grant lifts it; without RULE, all of them."""
    from infer_forge.guard import catalogue

    _emit(catalogue.explain(rule), form, out)
