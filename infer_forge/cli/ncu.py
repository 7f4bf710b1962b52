"""`infer-forge ncu`: digest, compare with a baseline, plan a collection, explain a failed one."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from infer_forge.base import jsonio
from infer_forge.base.errors import UsageFault
from infer_forge.base.records import FORMATS, Report
from infer_forge.cli.common import emit, report_command, require

_OUT = click.option(
    "--out",
    help="Write the answer here. A folder (existing, or with a slash at the end) gets digest.json and digest.md.",
)
_FORMAT = click.option(
    "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="Form of the answer."
)


@click.group()
def command() -> None:
    """Nsight Compute reports become a diagnosis and exactly one next edit."""


@command.command()
@click.argument("reports", nargs=-1, required=True)
@click.option("--baseline", help="Compare REPORT with this report.")
@click.option("--kernel", help="Regular expression that names the kernel; default: the one with the most time.")
@click.option("--baseline-kernel", help="The same for the baseline, when its kernel has another name.")
@click.option("--launch", type=click.IntRange(min=0), help="Only the launch at this place in the report, from 0.")
@click.option("--source", is_flag=True, help="Add the most stalled source lines and SASS instructions (.ncu-rep only).")
@click.option("--triage", help="A stored triage report (JSON): launches, gaps and synchronisation of a small kernel.")
@click.option(
    "--require", "wanted", metavar="V[,V]", help="With --baseline: exit 4 unless the verdict is one of these."
)
@_OUT
@_FORMAT
def digest(reports: tuple[str, ...], form: str, out: str | None, wanted: str | None, **options: Any) -> None:
    """Diagnose the kernels of REPORTS (.ncu-rep, .ncu-repz, ncu --csv, ncu text page).

    JSON keys: kernels, next_edit (exactly one), comparison, second_opinion.
    """
    from infer_forge.ncu.comparison import VERDICTS
    from infer_forge.ncu.report import digest

    report = digest(list(reports), **options)
    deliver(report, form, out)
    if wanted:
        if report.extra["comparison"] is None:
            raise UsageFault(
                "--require needs --baseline: a digest alone gives no verdict", next_step="add --baseline REPORT"
            )
        require(report.extra["comparison"]["verdict"], wanted, known=VERDICTS)


def deliver(report: Report, form: str, out: str | None) -> None:
    """Print a report, write it to a file, or fill a digest folder with both forms."""
    if out is None or not (out.endswith("/") or Path(out).is_dir()):
        emit(report, form, Path(out) if out else None)
        return
    from infer_forge.ncu.lint import BLOCKER_NAME, JSON_NAME, TEXT_NAME

    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if report.kind == "ncu-log":
            jsonio.write_atomic(folder / BLOCKER_NAME, f"{report.extra['blocker'] or report.render('md')}\n")
        else:
            jsonio.write_atomic(folder / JSON_NAME, report.render("json"))
            jsonio.write_atomic(folder / TEXT_NAME, report.render("md") + "\n")
    except OSError as exc:
        raise UsageFault(exc.strerror or str(exc), where=out, next_step="name a folder that can be written") from None
    click.echo(f"written: {folder}", err=True)
    if form == "json":
        emit(report, form, None)


@command.command("check-log")
@click.argument("log")
@_OUT
@_FORMAT
def check_log(log: str, form: str, out: str | None) -> None:
    """Why a collection failed (LOG: the saved output of ncu), and the remedy. --out DIR/ writes blocker.md there."""
    from infer_forge.ncu.checklog import check_log

    deliver(check_log(log), form, out)


@command.command(context_settings={"ignore_unknown_options": True})
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
@click.option("--kernel", help="Regular expression on the kernel's base name; default: every kernel but collectives.")
@click.option(
    "--for",
    "purpose",
    type=click.Choice(["sota", "quick", "source"]),
    default="sota",
    show_default=True,
    help="The question.",
)
@click.option(
    "--launch-skip", "skip", type=click.IntRange(min=0), default=0, show_default=True, help="Launches to pass over."
)
@click.option(
    "--launch-count", "count", type=click.IntRange(min=1), default=5, show_default=True, help="Launches to profile."
)
@click.option("--output", help="Name of the report, without extension.")
@click.option("--nvtx", "nvtx_range", help="Profile only inside this NVTX range.")
@click.option("--graph", is_flag=True, help="The kernel runs inside a CUDA graph: profile graph nodes.")
@report_command
def plan(program: tuple[str, ...], kernel: str | None, **options: Any) -> Report:
    """Print the ncu command for a question, and what must be true first. PROGRAM: the command to profile, after --."""
    from infer_forge.ncu.collection import plan

    return plan(kernel, program=shlex.join(program) if program else None, **options)
