"""`infer-forge job`: read, wait for or cancel long work."""

from __future__ import annotations

import click

from infer_forge.base import jobs
from infer_forge.base.records import Report
from infer_forge.cli.common import report_command


@click.group(no_args_is_help=True)
def command() -> None:
    """Read, wait for or cancel long work that a tool started."""


def _report(job: jobs.Job) -> Report:
    report = Report("job", extra={"job": job.to_json()})
    report.summary = [f"job {job.id}: {job.state}"]
    if job.progress:
        report.summary.append(f"progress: {job.progress['what']} {job.progress['done']} of {job.progress['total']}")
    if job.error:
        report.summary.append(job.error)
    if job.result:
        report.summary.append(f"result: {job.result} sha256 {job.result_sha256}")
    return report


@command.command("read")
@click.argument("job_id")
@report_command
def read(job_id: str) -> Report:
    """State, progress and result of a job."""
    return _report(jobs.read(job_id))


@command.command("wait")
@click.argument("job_id")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="How long to wait at the most.")
@report_command
def wait(job_id: str, seconds: float) -> Report:
    """Wait for a job to end."""
    return _report(jobs.wait(job_id, seconds))


@command.command("cancel")
@click.argument("job_id")
@report_command
def cancel(job_id: str) -> Report:
    """End a running job and all that it started."""
    return _report(jobs.cancel(job_id))
