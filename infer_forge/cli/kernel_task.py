"""`infer-forge kernel-task new|run|audit`."""

from __future__ import annotations

from pathlib import Path

import click

from infer_forge.base.records import Report
from infer_forge.cli.common import emit, format_options, report_command, require

_FOLDER = click.Path(path_type=Path)


@click.group()
def command() -> None:
    """Kernel tasks: make, measure, and audit against reward hacking."""


@command.command()
@click.argument("folder", type=_FOLDER)
@click.option("--name", help="Name of the task (default: the folder's).")
@click.option("--operation", default="silu_and_mul", show_default=True, help="What the kernel computes.")
@report_command
def new(folder: Path, name: str | None, operation: str) -> Report:
    """Make a sample kernel task that runs as it is."""
    from infer_forge.kernel_task.new_task import new as library

    return library(folder, name, operation)


@command.command()
@click.argument("folder", type=_FOLDER)
@click.option(
    "--timeout",
    default=3600.0,
    show_default=True,
    type=click.FloatRange(1.0),
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
