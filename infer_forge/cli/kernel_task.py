"""`infer-forge kernel-task new|run|audit`."""

from __future__ import annotations

from pathlib import Path

import click

from infer_forge.base.errors import UsageFault
from infer_forge.base.records import Report
from infer_forge.cli.common import Finite, emit, format_options, report_command, require
from infer_forge.cli.given_path import GivenPath

_FOLDER = GivenPath(path_type=Path)


@click.group()
def command() -> None:
    """Kernel tasks: make, measure, and audit against reward hacking."""


@command.command()
@click.argument("folder", type=_FOLDER)
@click.option("--name", help="Name of the task (default: the folder's).")
@click.option("--operation", default="silu_and_mul", show_default=True, help="What the kernel computes.")
@click.option(
    "--campaign", type=GivenPath(path_type=Path, file_okay=False), help="Run directory: a task of that campaign."
)
@click.option("--kernel", help="With --campaign: the kernel, as this round's layer-pipeline report names it.")
@click.option("--idea", help="With --campaign: id of the idea that it belongs to.")
@click.option(
    "--rows",
    type=GivenPath(exists=True, dir_okay=False),
    help="With --campaign: shapes (JSON), where no trace recorded them.",
)
@click.option(
    "--source", "sources", multiple=True, help="With --campaign: file of the checkout that the baseline comes from."
)
@report_command
def new(
    folder: Path, name: str | None, operation: str, campaign: Path | None, kernel: str | None, idea: str | None, rows: str | None,
    sources: tuple[str, ...],
) -> Report:  # fmt: skip
    """Make a sample kernel task that runs as it is, or (--campaign) one whose rows come from the campaign's traces."""
    if campaign is not None:
        if not (kernel and idea):
            raise UsageFault("--campaign needs --kernel and --idea")
        from infer_forge.campaign import open_campaign, record

        wanted = {"kernel": kernel, "idea": idea, "folder": str(folder), "rows": rows, "sources": list(sources)}
        return record(open_campaign(campaign), "kernel_task", {k: v for k, v in wanted.items() if v})[1]
    from infer_forge.kernel_task.new_task import new as library

    return library(folder, name, operation)


@command.command()
@click.argument("folder", type=_FOLDER)
@click.option(
    "--timeout",
    default=3600.0,
    show_default=True,
    type=Finite(1.0),
    help="Seconds before measuring is given up.",
)
@click.option("--require", "wanted", help="Exit 4 unless the verdict is one of these: clean, suspect, void.")
@format_options
def run(folder: Path, timeout: float, wanted: str | None, form: str, out: Path | None) -> None:
    """Lock the task (once), then check and time candidate against baseline; writes results.json."""
    from infer_forge.kernel_task.run_task import run as library

    report = library(folder, timeout)
    emit(report, form, out)
    require(report.extra["verdict"], wanted, known=("clean", "suspect", "void"))


@command.command()
@click.argument("folder", type=_FOLDER)
@click.option("--require", "wanted", help="Exit 4 unless the verdict is one of these: clean, suspect, void.")
@format_options
def audit(folder: Path, wanted: str | None, form: str, out: Path | None) -> None:
    """Audit a kernel task or a serving result: clean, suspect or void, each finding with a rule id."""
    from infer_forge.kernel_task.audit_folder import VERDICTS
    from infer_forge.kernel_task.audit_folder import audit as library

    report = library(folder)
    emit(report, form, out)
    require(report.extra["verdict"], wanted, known=VERDICTS)
