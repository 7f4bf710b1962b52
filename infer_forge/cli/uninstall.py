"""`infer-forge uninstall`: take away what install put in place."""

from __future__ import annotations

from pathlib import Path

import click

from infer_forge.base.records import Report
from infer_forge.cli.common import report_command
from infer_forge.cli.install import CLIENT, PROJECT


@click.command()
@CLIENT
@PROJECT
@report_command
def command(client: str, project: Path | None) -> Report:
    """Take away our skills, server and hooks; what was edited or written by hand stays and is said."""
    from infer_forge.clients import uninstall

    return uninstall(client, project=project)
