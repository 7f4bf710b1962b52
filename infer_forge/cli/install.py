"""`infer-forge install`: put skills, hook and server in place for a client."""

from __future__ import annotations

from pathlib import Path

import click

from infer_forge.base.records import Report
from infer_forge.cli.common import report_command
from infer_forge.cli.given_path import GivenPath

CLIENT = click.option("--client", required=True, type=click.Choice(["claude", "codex"]), help="Claude Code or Codex.")
PROJECT = click.option(
    "--project",
    type=GivenPath(path_type=Path, file_okay=False, exists=True),
    help="The settings of this project, not the user's.",
)
# Time that a client gives a Stop hook; the check itself answers in well under a second.
_STOP_TIMEOUT_S = 30


@click.command()
@CLIENT
@PROJECT
@click.option("--link", is_flag=True, help="Link the skills to this installation instead of copying them.")
@click.option("--hook/--no-hook", default=True, show_default=True, help="Register the safety guard's hook.")
@click.option("--server/--no-server", default=True, show_default=True, help="Register the MCP server.")
@click.option(
    "--stop-hook", type=click.Choice(["task", "campaign"]), help="Also register the Stop hook of tasks or campaigns."
)
@report_command
def command(client: str, project: Path | None, link: bool, hook: bool, server: bool, stop_hook: str | None) -> Report:
    """Put skills, safety guard and MCP server where a client looks for them. Repeat it at any time: it upgrades.

    What is not ours, or was edited, is left alone and said.
    """
    from infer_forge.clients import Hook, install
    from infer_forge.clients.model import executable
    from infer_forge.guard import hook_config, policy

    hooks: list[Hook] = []
    if hook:
        policy.compile_policy(
            str(project) if project else None
        )  # the hook reads the compiled form only, and blocks without it
        hooks.append(Hook("PreToolUse", hook_config.MATCHER, hook_config.hook_command(client), hook_config.TIMEOUT_S))
        after = hook_config.after_command(client)
        hooks += [
            Hook(event, hook_config.AFTER_MATCHER, after, hook_config.AFTER_TIMEOUT_S)
            for event in hook_config.events(client)
        ]
    if stop_hook:
        hooks.append(Hook("Stop", "", f"{executable('infer-forge')} {stop_hook} stop-check --hook", _STOP_TIMEOUT_S))
    return install(client, project=project, link=link, hooks=hooks, server=server)
