"""Put skills, server and hooks in place for a client, and take them away again. Both can be repeated at any time."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable
from pathlib import Path

from infer_forge.base.errors import InputUnusable
from infer_forge.base.records import Report
from infer_forge.base.tables import Table
from infer_forge.clients import skills
from infer_forge.clients.model import OUR_PROGRAMS, Change, Hook, client_named, executable


def _report(kind: str, changes: list[Change], notes: Iterable[str], next_step: str) -> Report:
    report = Report(kind, next_step=next_step)
    report.add(Table("changes", ["what", "where", "outcome"], [(c.what, c.where, c.outcome) for c in changes]))
    skipped = sum(c.outcome.startswith("skipped") for c in changes)
    done = "in place" if kind == "install" else "taken away or not there"
    report.summary = [f"{len(changes) - skipped} {done}" + (f", {skipped} skipped: see the table" if skipped else "")]
    report.summary += [f"still to do by a person: {note}" for note in notes]
    return report


def install(
    client: str, *, project: Path | None = None, link: bool = False, hooks: Iterable[Hook] = (), server: bool = True
) -> Report:
    """Put our skills (copied, or linked), the MCP server and the hooks given where `client` looks for them.

    Args:
        project: a project's folder, to install there; None for the user.
        link: link the skills to this installation, so that they follow it.
        hooks: entries of the guard and of the loops (`guard.hook_config`, stop checks).
        server: register the MCP server too.

    Raises:
        InputUnusable: a settings file of the client is no JSON; nothing of it was changed.
        MissingPart: our own program is not installed in this environment.
    """
    found = client_named(client)
    folder = found.skills_folder(project)
    changes = [skills.put(name, folder, link=link) for name in skills.shipped()]
    if server:
        changes.append(found.add_server(project, [executable("infer-forge"), "serve"]))
    added = [found.add_hook(project, hook) for hook in hooks]
    of_it = f" --project {shlex.quote(str(project))}" if project else ""
    notes = found.notes(project, server=server, hooks=bool(added))
    with contextlib.suppress(InputUnusable, OSError):
        if found.plugin(project) and (server or added):
            notes.append(
                f"the plugin is installed too, so hooks run twice: take it away, or infer-forge uninstall --client {client}"
            )
    return _report("install", [*changes, *added], notes, f"infer-forge doctor --client {client}{of_it}")


def uninstall(client: str, *, project: Path | None = None, programs: Iterable[str] = OUR_PROGRAMS) -> Report:
    """Take away our skills, server and hooks; what somebody changed or wrote by hand stays and is said."""
    found = client_named(client)
    folder = found.skills_folder(project)
    changes = [skills.take_away(name, folder) for name in skills.shipped()]
    changes.append(found.remove_server(project))
    changes += found.remove_hooks(project, set(programs))
    return _report("uninstall", changes, [], "restart the client")
