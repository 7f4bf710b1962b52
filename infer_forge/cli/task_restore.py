"""`infer-forge task restore`: refs of the task store that cannot be read, and putting one back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from infer_forge.base.errors import UsageFault
from infer_forge.cli.common import report_command

if TYPE_CHECKING:
    from infer_forge.base.records import Report


@click.command("restore")
@click.argument("ref", required=False)
@click.option("--commit", help="Put REF back to this commit, one of those that are listed (asks for a terminal).")
@click.option("--person", help="Who puts it back (default: the setting identity.user, else the account).")
@report_command
def restore(ref: str | None, commit: str | None, person: str | None) -> Report:
    """Tasks, graphs and proposals whose records cannot be read, with the last good commit of each.

    REF is refs/tasks/TASK or refs/graphs/PROJECT. With --commit a person puts it back; what stood there is kept, and a
    record that can be read is never moved. Events after that commit are lost: `task verify` shows what the copies say.
    """
    from infer_forge.cli.task_fields import person_at_terminal
    from infer_forge.tasks import restoring
    from infer_forge.tasks.events import open_store

    if commit is None:
        with open_store() as store:
            return restoring.listed(store, ref)
    if ref is None:
        raise UsageFault("say which ref is put back", next_step="infer-forge task restore lists damaged ones")
    who = person_at_terminal("putting back a damaged record", person)
    with open_store() as store:
        return restoring.restore(store, ref, commit, who)


COMMANDS = (restore,)
