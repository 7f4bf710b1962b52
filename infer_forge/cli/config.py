"""`infer-forge config show`: the settings, and which file each came from."""

from __future__ import annotations

import click

from infer_forge.base.config import KEYS, settings
from infer_forge.base.jsonio import dumps
from infer_forge.base.paths import paths, user_config_file
from infer_forge.base.records import Report
from infer_forge.base.tables import Column, Table
from infer_forge.cli.common import report_command


@click.group(no_args_is_help=True)
def command() -> None:
    """Show the settings and the places that infer-forge uses."""


@command.command("show")
@report_command
def show() -> Report:
    """Every setting with its value, the file that won, and its meaning."""
    found = settings()
    report = Report("config")
    report.summary = [
        f"settings files read: {', '.join(map(str, found.files)) or 'none'}",
        f"user file: {user_config_file()}",
    ]
    rows = [(key, dumps(found.values[key]).decode(), found.origin[key], KEYS[key].help) for key in KEYS]
    report.add(Table("settings", [Column("key", "text"), Column("value", "text"), "from", "meaning"], rows))
    places = paths()
    names = ("state", "cache", "stores", "runs", "jobs", "audit", "reports", "artifacts", "ownership")
    report.add(Table("places", ["place", "path"], [(n, str(getattr(places, n))) for n in names]))
    return report
