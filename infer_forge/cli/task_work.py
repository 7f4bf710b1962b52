"""`infer-forge task block open|close`, `record`: the work inside a task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from infer_forge.cli.common import format_options, report_command
from infer_forge.cli.given_path import GivenPath

if TYPE_CHECKING:
    from infer_forge.base.records import Report


@click.group("block")
def block() -> None:
    """Loop blocks: one at a time, the next only after the goal check of the last."""


@block.command("open")
@click.argument("task")
@click.option("--sub-target", required=True, help="What this block is to reach.")
@click.option("--exit", "exit_condition", required=True, help="When it ends.")
@click.option(
    "--uncertainty",
    type=click.Choice(["low", "medium", "high"]),
    default="medium",
    show_default=True,
    help="How hard the reasoning is: proposes the model tier.",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    type=GivenPath(path_type=Path),
    help="What it reads: its size proposes the topology.",
)
@click.option("--tier", type=click.Choice(["lower", "mid", "strongest"]), help="Another tier than the proposed one.")
@click.option("--topology", type=click.Choice(["single", "multi"]), help="Another topology than the proposed one.")
@click.option("--reason", default="", help="Why the choice differs from the proposal.")
@click.option("--fallback", default="", help="What is used because the chosen tier or sub-agents are not to be had.")
@click.option("--executor", help="Who works.")
@click.option("--reviewer", help="Who reviews; never the executor.")
@click.option("--runner", help="What drives it: claude /loop, codex /goal, a person.")
@click.option("--deviates", help="How this departs from the playbook, and why; recorded, not forbidden.")
@report_command
def open_block(
    task: str,
    sub_target: str,
    exit_condition: str,
    uncertainty: str,
    inputs: tuple[Path, ...],
    tier: str | None,
    topology: str | None,
    reason: str,
    fallback: str,
    executor: str | None,
    reviewer: str | None,
    runner: str | None,
    deviates: str | None,
) -> Report:
    """Open the next block of TASK. Proposes tier and topology and records proposal, choice, reason and fallback."""
    from infer_forge.tasks import routing, verbs
    from infer_forge.tasks.blocks import input_bytes

    route = routing(
        uncertainty,
        input_bytes(inputs),
        tier=tier,
        topology=topology,
        reason=reason,
        fallback=fallback,
        executor=executor,
        reviewer=reviewer,
    )
    data = {"deviates": deviates} if deviates else {}
    return verbs.open_block(task, sub_target, exit_condition, route, runner=runner, data=data)


@block.command("close")
@click.argument("task")
@click.option(
    "--outcome",
    type=click.Choice(["confirmed", "rejected", "constraint", "blocked"]),
    required=True,
    help="What the block showed.",
)
@click.option(
    "--progress",
    type=click.Choice(["advanced", "stalled", "regressed"]),
    required=True,
    help="Against the goal, not against activity.",
)
@click.option("--note", default="", help="What was learned.")
@click.option(
    "--handoff", default="", help="State that the next block begins with (a loop-block handoff, inside the task)."
)
@report_command
def close_block(task: str, outcome: str, progress: str, note: str, handoff: str) -> Report:
    """Close the active block of TASK. Too many without progress stop the task for a person."""
    from infer_forge.tasks import verbs

    return verbs.close_block(task, outcome, progress, note, handoff)


@click.command("record", context_settings={"ignore_unknown_options": True})
@click.argument("task")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- COMMAND...")
@click.option("--label", help="Name for acceptance and resume (default: the program).")
@click.option("--evidence", "evidence", multiple=True, help="KIND=FILE that the command writes; repeatable.")
@click.option(
    "--repository",
    multiple=True,
    help="NAME=FOLDER (or commit) of a repository beside the working folder's and the task's worktrees; repeatable.",
)
@click.option("--cwd", type=GivenPath(path_type=Path, file_okay=False, exists=True), help="Where it runs.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds after which it is ended.")
@click.option("--again", is_flag=True, help="Run a command that ran already under this label.")
@click.option("--exit-zero", is_flag=True, help="End with 0 whatever the command's own code, which the answer tells.")
@format_options
@click.pass_context
def record(
    ctx: click.Context,
    task: str,
    argv: tuple[str, ...],
    label: str | None,
    evidence: tuple[str, ...],
    repository: tuple[str, ...],
    cwd: Path | None,
    timeout: float | None,
    again: bool,
    exit_zero: bool,
    form: str,
    out: Path | None,
) -> None:
    """Run a command for TASK and record it: intent, start and result, each before the next. Ends with the command's own code.

    The guard is asked first. A kill at any moment loses nothing: `task resume` finds out what became of it.
    """
    from infer_forge.cli.common import emit
    from infer_forge.cli.task_fields import pairs
    from infer_forge.tasks import verbs

    report = verbs.record(
        task,
        argv,
        label=label,
        evidence=[(k, Path(v)) for k, v in pairs(evidence, "KIND=FILE")],
        further=dict(pairs(repository, "NAME=FOLDER")),
        cwd=str(cwd) if cwd else None,
        timeout_s=timeout,
        again=again,
    )
    emit(report, form, out)
    code = report.extra["exit_code"]
    ctx.exit(0 if exit_zero else 1 if code is None else int(code))


COMMANDS = (block, record)
