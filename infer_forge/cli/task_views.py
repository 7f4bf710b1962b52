"""`infer-forge task baseline|status|goal-met|verify|list|inflight|inbox|prompt|stop-check|wake`: what stands, and what waits."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from infer_forge.base.errors import ForgeError, UsageFault
from infer_forge.base.text_table import one_line, visible
from infer_forge.cli.common import emit, format_options, report_command, write

if TYPE_CHECKING:
    from pathlib import Path

    from infer_forge.base.records import Report

_CODES = {"met": 0, "pass": 0, "continue": 4, "fail": 4, "cannot_tell": 3, "unknown": 3}


@click.command("status")
@click.argument("task")
@report_command
def status(task: str) -> Report:
    """TASK: contract, acceptance, blocks, executions, evidence, and the next command."""
    from infer_forge.tasks import verbs

    return verbs.status(task)


@click.command("goal-met")
@click.argument("task")
@format_options
@click.pass_context
def goal_met(ctx: click.Context, task: str, form: str, out: Path | None) -> None:
    """Evaluate the acceptance of TASK on recorded evidence. Exit 0 met, 4 not met, 3 nothing to be seen."""
    from infer_forge.tasks import verbs

    report = verbs.goal_met(task)
    emit(report, form, out)
    ctx.exit(_CODES[report.extra["verdict"]])


@click.command("verify")
@click.argument("task")
@format_options
@click.pass_context
def verify(ctx: click.Context, task: str, form: str, out: Path | None) -> None:
    """Compare every copy of the lock of TASK, its chain of events, its files and its journal record. Exit 0, 4 or 3."""
    from infer_forge.tasks import verbs

    report = verbs.verify(task)
    emit(report, form, out)
    ctx.exit(_CODES[report.extra["verdict"]])


@click.command("list")
@click.option("--all", "ended", is_flag=True, help="Also tasks that have ended.")
@click.option("--type", "kind", help="Only this type.")
@report_command
def list_tasks(ended: bool, kind: str | None) -> Report:
    """Tasks, each with its status and next command."""
    from infer_forge.tasks import verbs

    return verbs.listed(ended=ended, kind=kind)


@click.command("inflight")
@report_command
def inflight() -> Report:
    """How many tasks are under way at once: now, at the peak, by day; lifetimes by type."""
    from infer_forge.tasks import verbs

    return verbs.inflight()


@click.command("inbox")
@report_command
def inbox() -> Report:
    """What waits for a person, oldest first, each with the one command that answers it.

    It looks whether the runtime of this machine changed since the last look, and then proposes a task.
    """
    from infer_forge.tasks import verbs

    return verbs.inbox(look=True)


@click.command("prompt")
@click.argument("task")
@click.option("--client", type=click.Choice(["claude", "codex"]), required=True, help="Whose prompt.")
@click.option(
    "--as", "form_of", type=click.Choice(["loop", "goal"]), help="Default: loop for Claude Code, goal for Codex."
)
@report_command
def prompt(task: str, client: str, form_of: str | None) -> Report:
    """Print the /loop or /goal text of TASK: limits as parsed, stop conditions, the command that proves the end."""
    from infer_forge.tasks import verbs

    return verbs.prompt(task, client, form_of)


@click.command("stop-check")
@click.argument("task", required=False)
@click.option("--hook", is_flag=True, help="Speak the Stop protocol of Claude Code and Codex on stdin and stdout.")
@click.pass_context
def stop_check(ctx: click.Context, task: str | None, hook: bool) -> None:
    """May an agent stop now? Exit 0 it may, 4 it must go on, 3 cannot tell. It records nothing.

    Without TASK: the one of INFER_FORGE_TASK, else the one that was started or resumed in this folder. As a hook it lets
    sessions without a task stop, holds each stop back once at the most, and ends with 2 when it fails itself.
    """
    if hook:
        ctx.exit(_hook(task))
    from infer_forge.tasks import binding, verbs
    from infer_forge.tasks.prompt import CANNOT_TELL, MAY_STOP, MUST_GO_ON

    chosen = task or binding.bound()
    if chosen is None:
        raise UsageFault("no task is bound to this folder", next_step="infer-forge task stop-check TASK")
    try:
        code, why = verbs.stop_check(chosen)
    except ForgeError as exc:
        code, why = 3, str(exc).replace("\n", "; ")
    write(visible(one_line(f"{ {0: MAY_STOP, 4: MUST_GO_ON, 3: CANNOT_TELL}[code] }: {chosen}: {why}")), None)
    ctx.exit(code)


def _hook(task: str | None) -> int:
    """The Stop hook: whatever fails here is told on stderr with exit 2, which blocks in both clients."""
    try:
        from infer_forge.clients.stop import read_stop, stop_answer
        from infer_forge.tasks import binding, verbs

        payload = read_stop(sys.stdin.buffer.read())
        chosen = task or binding.bound(payload.get("cwd") or None)
        if chosen is None:
            return 0
        try:
            code, why = verbs.stop_check(chosen)
        except ForgeError as exc:
            code, why = 3, f"cannot tell whether the task may be left: {exc}".replace("\n", "; ")
        answer = stop_answer(payload, code == 0, f"infer-forge task {chosen}: {why}")
        if answer:
            write(answer, None)
    except Exception as exc:
        reason = " ".join(str(exc).split())[:300]
        click.echo(f"infer-forge task stop-check failed ({type(exc).__name__}: {reason}); a person must look", err=True)
        return 2
    return 0


@click.command("wake")
@click.option(
    "--on", type=click.Choice(["journal", "schedule", "runtime"]), help="Look for this cause alone (default: for each)."
)
@click.option(
    "--what",
    default="",
    help="With runtime: somebody's word for what changed, 'sglang 0.5.10 -> 0.5.11' (default: look).",
)
@click.option(
    "--place", "places", multiple=True, help="Look at the runtimes there too (docker:NAME, ssh:HOST); repeatable."
)
@click.option(
    "--every-days", type=click.IntRange(1, 366), default=30, show_default=True, help="How often schedule is a cause."
)
@click.option("--dismiss", help="Answer this proposal (p-..) with no.")
@format_options
@click.pass_context
def wake(
    ctx: click.Context,
    on: str | None,
    what: str,
    places: tuple[str, ...],
    every_days: int,
    dismiss: str | None,
    form: str,
    out: Path | None,
) -> None:
    """Propose a capability task when something calls for one. It never starts anything; a cause proposes once.

    Nothing runs by itself: let a timer run it, one line of a crontab being enough: 17 * * * * /PATH/infer-forge task wake
    Exit 3 when a cause could not be looked for; the others were.

    For the cause runtime the environments here and of recorded engines (packages and commits, driver, CUDA, image, models
    with the hash of their config) are held against the last look. What cannot be seen is told, never taken for unchanged.
    """
    from infer_forge.tasks import waking

    if what and on != "runtime":
        raise UsageFault("--what goes with --on runtime")
    if places and on not in (None, "runtime"):
        raise UsageFault("--place goes with the cause runtime")
    if dismiss:
        report = waking.dismiss(dismiss)
    else:
        report = waking.looked_for_all(every_days, places) if on is None else waking.woken(on, what, every_days, places)
    emit(report, form, out)
    ctx.exit(3 if report.extra.get("unseen") else 0)


@click.command("baseline")
@click.argument("task", required=False)
@report_command
def baseline(task: str | None) -> Report:
    """The capability baseline in force: files and tools by hash, and the check suite with how to run it.

    With TASK: what changed since its lock, and what the check suite of a capability task still lacks.
    """
    from infer_forge.cli.task_fields import tool_definitions
    from infer_forge.tasks import baseline_view

    return baseline_view.shown(task, tool_definitions())


COMMANDS = (baseline, status, goal_met, verify, list_tasks, inflight, inbox, prompt, stop_check, wake)
