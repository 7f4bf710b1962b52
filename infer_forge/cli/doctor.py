"""`infer-forge doctor`: what a client will see of us, and what is missing."""

from __future__ import annotations

from pathlib import Path

import click

from infer_forge.cli.common import emit, format_options
from infer_forge.cli.install import CLIENT, PROJECT

_EXIT = {"pass": 0, "fail": 4, "unknown": 3}


@click.command()
@CLIENT
@PROJECT
@format_options
def command(client: str, project: Path | None, form: str, out: Path | None) -> None:
    """Check skills, server, hook and the hook's trust; a canary runs through the installed hook.

    Exit 0 when all checks pass, 4 when one fails, 3 when one could not be looked at. A server that starts slowly is said
    and fails nothing.
    """
    from infer_forge.clients import examine
    from infer_forge.guard import hook_config

    def canary(hook_command: str) -> tuple[bool, str]:
        cases = hook_config.canary(client, hook_command)
        wrong = [c for c in cases if not c["ok"]]
        if wrong:
            return False, "; ".join(f"{c['name']}: it {c['got']} ({c['reason']})" for c in wrong)
        return True, f"{len(cases)} canary inputs were judged right"

    def after(before: str, later: str) -> tuple[bool, str]:
        return hook_config.after_canary(client, before, later)

    report = examine(client, project=project, canary=canary, after_canary=after)
    emit(report, form, out)
    raise SystemExit(_EXIT[report.extra["outcome"]])
