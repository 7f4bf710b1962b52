"""`infer-forge campaign`: the SOTA loop. The commands of plans, doctor and prompts are registered by `cli/campaign_loop.py`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import click

from infer_forge.base.errors import ForgeError, GateRefused, InputUnusable, UsageFault
from infer_forge.base.records import Report
from infer_forge.cli.common import emit, format_options, report_command, value_of, write
from infer_forge.cli.given_path import GivenPath

_FILE = GivenPath(exists=True, path_type=Path, dir_okay=False)
_THERE = GivenPath(exists=True, path_type=Path, file_okay=False)
_RUN = click.option(
    "--run",
    "run_dir",
    type=GivenPath(path_type=Path, file_okay=False),
    help="Run directory. Default: INFER_FORGE_RUN, or the one here.",
)
_SET = click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A field; VALUE may be JSON. Repeat for more."
)


class _Commands(click.Group):
    """Adds the commands of `cli/campaign_loop.py`."""

    def _loop(self) -> dict[str, click.Command]:
        if importlib.util.find_spec("infer_forge.cli.campaign_loop") is None:
            return {}
        found: list[click.Command] = importlib.import_module("infer_forge.cli.campaign_loop").commands
        return {str(c.name): c for c in found}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *self._loop()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or self._loop().get(cmd_name)


@click.group(cls=_Commands)
def command() -> None:
    """The SOTA loop as a campaign: gates that refuse, one ledger, one next step."""


def fields_of(words: tuple[str, ...], file: Path | None = None) -> dict[str, Any]:
    """Fields of a JSON file and of NAME=VALUE words; a value that is JSON is taken as such, digits stay text where they are long."""
    made: dict[str, Any] = {}
    if file is not None:
        from infer_forge.base import jsonio

        data: Any = jsonio.read_json(file)
        if not isinstance(data, dict):
            raise InputUnusable("is no JSON object", where=str(file))
        made |= data  # pyright: ignore[reportUnknownArgumentType]
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise UsageFault(f"--set is written NAME=VALUE, not {word!r}")
        made[name] = value_of(text)
    return made


@command.command()
@click.option("--model", help="Model id or path.")
@click.option(
    "--target-checkout",
    "checkout",
    type=GivenPath(path_type=Path, file_okay=False),
    required=True,
    help="The SGLang checkout to patch.",
)
@click.option(
    "--root",
    type=GivenPath(path_type=Path, file_okay=False),
    required=True,
    help="Artifact root; the run lies in its runs/.",
)
@click.option("--config", type=_FILE, help="Search configuration (YAML) from which inputs are taken.")
@click.option("--gpu", help="GPU type, such as H200; N x TYPE states the count too.")
@click.option("--gpu-count", type=click.IntRange(1), help="GPUs that serve.")
@click.option("--precision", help="Such as bf16, fp8.")
@click.option("--quantization", help="Such as fp8, awq, none.")
@click.option("--tokenizer", help="Tokenizer id or path.")
@click.option("--compare", help="Compare with exactly these, with commas.")
@click.option("--only", help="The same as --compare.")
@click.option("--exclude", help="Compare with every installed one but these.")
@click.option(
    "--mode", type=click.Choice(["rlcr", "goal", "loop"]), default="goal", show_default=True, help="Who keeps the loop."
)
@click.option("--executor", help="Who executes; recorded.")
@click.option("--reviewer", help="Who reviews; never the executor.")
@_SET
@report_command
def init(
    model: str | None, checkout: Path, root: Path, config: Path | None, gpu: str | None, gpu_count: int | None, precision: str | None,
    quantization: str | None, tokenizer: str | None, compare: str | None, only: str | None, exclude: str | None, mode: str,
    executor: str | None, reviewer: str | None, settings: tuple[str, ...],
) -> Report:  # fmt: skip
    """Make the run directory, infer the inputs, list companions. Again with the same root it answers what stands."""
    from infer_forge.campaign import init as library

    count, _, kind = (gpu or "").rpartition("x") if gpu and gpu.split("x")[0].strip().isdigit() else ("", "", gpu or "")
    given: dict[str, Any] = {
        "model": model, "tokenizer": tokenizer, "precision": precision, "quantization": quantization, "gpu_model": kind.strip() or None,
        "gpu_count": gpu_count or (int(count) if count.strip() else None), **fields_of(settings),
    }  # fmt: skip

    def names(text: str | None) -> list[str]:
        return [n.strip() for n in (text or "").split(",") if n.strip()]

    return library(
        given, checkout=checkout, root=root, config=config, compare=names(compare), only=names(only), exclude=names(exclude), mode=mode,
        executor=executor, reviewer=reviewer,
    )  # fmt: skip


@command.command()
@_RUN
@click.option(
    "--config", type=_FILE, help="Search configuration from which the contract is drafted. Default: that of init."
)
@click.option("--contract", type=_FILE, help="The contract (JSON) instead.")
@_SET
@click.option("--baseline", is_flag=True, help="Lock the winner table instead.")
@click.option(
    "--min-launches",
    type=click.IntRange(1),
    help="With --baseline: launches of every winner. Default, and the least: the contract's first look.",
)
@click.option("--accept-by", help="A person accepts a threshold that the noise does not resolve; needs a terminal.")
@click.option("--reason", help="Why, in their words.")
@click.option("--dry-run", is_flag=True, help="Check everything, lock nothing.")
@report_command
def lock(
    run_dir: Path | None, config: Path | None, contract: Path | None, settings: tuple[str, ...], baseline: bool, min_launches: int | None,
    accept_by: str | None, reason: str | None, dry_run: bool,
) -> Report:  # fmt: skip
    """Lock the contract (and the task with it), later the baseline. Each once."""
    from infer_forge import campaign as room

    held = room.open_campaign(run_dir)
    if baseline:
        return room.lock_baseline(held, min_launches=min_launches, dry_run=dry_run)[1]
    if accept_by:
        from infer_forge.base.person import require_person

        require_person("an acceptance", "a person runs this with --accept-by NAME --reason TEXT")
    return room.lock_contract(
        held,
        config=config,
        contract=contract,
        settings=fields_of(settings),
        accepted_by=accept_by,
        reason=reason,
        dry_run=dry_run,
    )[1]


@command.command()
@_RUN
@report_command
def status(run_dir: Path | None) -> Report:
    """Best candidate, failed directions, last NCU result, whether the benchmark is still the locked one, when to stop."""
    from infer_forge import campaign as room

    return room.status_report(room.open_campaign(run_dir))


@command.command("next")
@_RUN
@report_command
def next_(run_dir: Path | None) -> Report:
    """Exactly one next step, with its command."""
    from infer_forge import campaign as room

    return room.next_report(room.open_campaign(run_dir))


@command.command()
@click.argument("kind")
@_RUN
@_SET
@click.option("--json", "file", type=_FILE, help="Fields from a JSON object.")
@report_command
def record(kind: str, run_dir: Path | None, settings: tuple[str, ...], file: Path | None) -> Report:
    """Record something: inputs, companions, history, pr-check, ceiling, plan, round-open, gap, profile, idea, dismissal, ncu,
    attempt, accuracy, soak, mechanism, result, blocker, command, kernel-task, kernel-result, kernel-promotion, cleanup, round-close.
    Refused before its gate. The fields of each: skills/sota-humanize-loop/references/records.md; a wrong one is named."""
    from infer_forge import campaign as room

    return room.record(room.open_campaign(run_dir), kind, fields_of(settings, file))[1]


@command.command()
@_RUN
@click.option("--config", type=_FILE, help="Search configuration. Default: that of init.")
@click.option("--launches", type=click.IntRange(1), help="Launches of each side. Default: the contract's first look.")
@click.option(
    "--label",
    type=click.Choice(["patched", "off", "repeat", "pilot", "baseline"]),
    default="patched",
    show_default=True,
    help="off: the patch is switched off. repeat: the accepted state once more; its launches count with the earlier ones. "
    "pilot, baseline: of result files that are handed in.",
)
@click.option("--no-help-check", is_flag=True, help="Do not ask the programs for their help first.")
@click.option(
    "--results", multiple=True, metavar="SIDE=FILE", help="Diffusion: a launch's result file. Repeat for more."
)
@click.option("--scenario", help="With --results: of the contract. Default: its only one.")
@click.option(
    "--command",
    "commands",
    multiple=True,
    metavar="SIDE=WORDS",
    help="With pilot or baseline: the side's command line.",
)
@click.option("--no-search", "reason", metavar="WORDS", help="With baseline: why no options were searched.")
@click.option("--outputs", type=_THERE, help="With --results: what SGLang generated.")
@click.option("--reference", type=_THERE, help="With --results: what SGLang generated at the baseline.")
@click.option("--contract", type=_FILE, help="With pilot: the drafted contract.")
@report_command
def measure(
    run_dir: Path | None, config: Path | None, launches: int | None, label: str, no_help_check: bool, results: tuple[str, ...],
    scenario: str | None, commands: tuple[str, ...], reason: str | None, outputs: Path | None, reference: Path | None,
    contract: Path | None,
) -> Report:  # fmt: skip
    """Launch the committed checkout and the locked rivals afresh, interleaved, on the locked contract.

    A diffusion benchmark is run by you, the sides in turn, and handed in with --results.
    """
    from infer_forge import campaign as room
    from infer_forge.base.jobs import progress
    from infer_forge.campaign.handed import Given, hand_in
    from infer_forge.campaign.measure import measure as library

    held = room.open_campaign(run_dir)
    if results:
        if config is not None or launches is not None:
            raise UsageFault("--config and --launches are of launches made here", next_step="leave them away")
        files = [(side, Path(file)) for side, file in map(_side, results)]
        given = Given(files, scenario, dict(map(_side, commands)), reason, outputs, reference, contract)
        return hand_in(held, given, label)[1]
    if scenario or commands or reason or outputs or reference or contract:
        raise UsageFault("these options belong to result files that are handed in", next_step="--results SIDE=FILE")

    def told(done: int, total: int, what: str) -> None:
        progress(done, total, what)
        click.echo(f"[{done + 1}/{total}] {what}", err=True)

    return library(held, config=config, launches=launches, label=label, helps=not no_help_check, told=told)[1]


def _side(text: str) -> tuple[str, str]:
    """`SIDE=REST`."""
    from infer_forge.engines.frameworks import canonical

    side, sep, rest = text.partition("=")
    if not sep or not rest:
        raise UsageFault(f"{text!r} is not SIDE=FILE or SIDE=WORDS")
    return canonical(side), rest


@command.command()
@_RUN
@click.option(
    "--phase",
    "phases",
    multiple=True,
    help="init, history, contract, baseline, plan, round, patch, result, final. Repeat for more.",
)
@format_options
def check(run_dir: Path | None, phases: tuple[str, ...], form: str, out: Path | None) -> None:
    """Every gate: rule, pass|fail|unknown|n/a, evidence, fix. Exit 4 on a fail, 3 on an unknown."""
    from infer_forge import campaign as room
    from infer_forge.campaign.gates import PHASES

    wrong = [p for p in phases if p not in PHASES]
    if wrong:
        raise UsageFault(f"no phase is called {wrong[0]!r}", next_step=f"use {', '.join(PHASES)}")
    report = room.check_report(room.open_campaign(run_dir), phases)
    emit(report, form, out)
    verdict = report.extra["verdict"]
    if verdict != "pass":
        raise (GateRefused if verdict == "fail" else InputUnusable)(
            f"the checks end in {verdict}", next_step=report.next_step or None
        )


@command.command()
@_RUN
@click.option("--require", "wanted", help="complete: exit 4 while a row is open.")
@report_command
def coverage(run_dir: Path | None, wanted: str | None) -> Report:
    """Every kernel family and finding of the slow stage, and which idea or dismissal answers it."""
    from infer_forge import campaign as room
    from infer_forge.cli.common import require

    report = room.coverage_report(room.open_campaign(run_dir))
    require(str(report.extra["verdict"]), wanted, known=("open", "complete", "no_profile"), report=report)
    return report


@command.command()
@_RUN
@click.option("--result", "result_id", help="The accepted result that is reviewed.")
@click.option("--reviewer", help="Who reviews; never the executor.")
@click.option("--json", "file", type=_FILE, help="The nine points: name -> {result, evidence}.")
@click.option("--pull-request", is_flag=True, help="Print the text of a pull request instead; nothing is pushed.")
@click.option("--fork", help="With --pull-request: the configured fork.")
@report_command
def review(
    run_dir: Path | None,
    result_id: str | None,
    reviewer: str | None,
    file: Path | None,
    pull_request: bool,
    fork: str | None,
) -> Report:
    """The nine-point review of an accepted result, or the text of a pull request that stands on reviews."""
    from infer_forge import campaign as room
    from infer_forge.campaign.reviewing import review as library

    held = room.open_campaign(run_dir)
    if pull_request:
        return room.pull_request(held, fork)
    if not (result_id and reviewer and file):
        raise UsageFault(
            "a review needs --result, --reviewer and --json", next_step="infer-forge campaign review --help"
        )
    return library(held, result_id, reviewer, fields_of((), file))[1]


@command.command()
@click.argument("kind", type=click.Choice(["fairness", "root-cause", "layer-pipeline", "final", "all"]))
@_RUN
@click.option("--code", help="With final: A150, A151, A152, A153 or blocked.")
@click.option("--evidence", multiple=True, help="With final: ids of records that show the code.")
@click.option("--stage", help="The stage that is meant. Default: the one that loses the most.")
@report_command
def report(kind: str, run_dir: Path | None, code: str | None, evidence: tuple[str, ...], stage: str | None) -> Report:
    """Write a report from the records; words around its generated part are yours and stay."""
    from infer_forge import campaign as room

    return room.write_report(room.open_campaign(run_dir), kind, code=code, evidence=evidence, stage=stage)[1]


@command.command()
@_RUN
@click.option("--code", required=True, help="A150, A151, A152, A153, or blocked for a handoff.")
@click.option("--evidence", multiple=True, help="Ids of records that show it.")
@report_command
def stop(run_dir: Path | None, code: str, evidence: tuple[str, ...]) -> Report:
    """End the campaign: complete with one of four codes and their evidence, else a blocked handoff."""
    from infer_forge import campaign as room

    after = room.stop(room.open_campaign(run_dir), code, evidence)
    return room.status_report(after)


@command.command("stop-check")
@_RUN
@click.option(
    "--hook",
    is_flag=True,
    help="Speak the clients' Stop-hook protocol: standard input is read, a block goes to standard output.",
)
@format_options
@click.pass_context
def stop_check(ctx: click.Context, run_dir: Path | None, hook: bool, form: str, out: Path | None) -> None:
    """May the agent stop now? Exit 0: it may; 4: it must go on; 3: cannot tell."""
    if hook:
        ctx.exit(_hook(run_dir))
    from infer_forge import campaign as room

    held = room.open_campaign(run_dir)
    code, why = room.stop_verdict(held)
    done = held.last("stop")
    verdict = {0: "may_stop", 3: "cannot_tell", 4: "go_on"}[code]
    made = Report(
        "campaign_stop_check",
        summary=[f"{verdict}: {why}"],
        extra={"verdict": verdict, "why": why, "code": done["code"] if done else None},
    )
    emit(made, form, out)
    if code:
        raise (GateRefused if code == 4 else InputUnusable)(why)


def _hook(run_dir: Path | None) -> int:
    """The Stop hook, as `task stop-check --hook`: whatever fails here is told on stderr with exit 2, which blocks in both clients."""
    try:
        from infer_forge import campaign as room
        from infer_forge.campaign.layout import find_run
        from infer_forge.clients.stop import read_stop, stop_answer

        payload = read_stop(sys.stdin.buffer.read())
        if run_dir is None and payload.get("cwd"):
            os.chdir(str(payload["cwd"]))
        try:
            place = find_run(run_dir)
        except InputUnusable as fault:
            if "no campaign lies here" in fault.what:
                return 0  # a session without a campaign may stop
            raise
        try:
            code, why = room.stop_verdict(room.open_campaign(place))
        except ForgeError as fault:
            code, why = 3, f"cannot tell whether the campaign may be left: {fault}".replace("\n", "; ")
        answer = stop_answer(payload, code == 0, f"infer-forge campaign {place.name}: {why}")
        if answer:
            write(answer, None)
    except Exception as exc:
        reason = " ".join(str(exc).split())[:300]
        click.echo(
            f"infer-forge campaign stop-check failed ({type(exc).__name__}: {reason}); a person must look", err=True
        )
        return 2
    return 0
