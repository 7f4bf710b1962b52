"""`infer-forge workspace`: repositories with roles, a task's worktrees, commits that can be had again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from infer_forge.cli.common import emit, format_options, report_command
from infer_forge.cli.given_path import GivenPath

if TYPE_CHECKING:
    from infer_forge.base.records import Report
    from infer_forge.workspace.model import Workspace

_ROOT = click.option(
    "--root", type=GivenPath(path_type=Path, file_okay=False), help="The workspace (default: here or above)."
)
_ROLES = click.Choice(["stack", "harness", "builtin"])


@click.group("workspace")
def command() -> None:
    """The multi-repository workspace: submodules with roles under one root that holds coordination only."""


def _open(root: Path | None) -> Workspace:
    from infer_forge.workspace import layout

    return layout.read(layout.find_root(root))


@command.command("init")
@click.argument("folder", type=GivenPath(path_type=Path, file_okay=False), default=Path())
@report_command
def init(folder: Path) -> Report:
    """Make a workspace in FOLDER (new or empty); again is harmless."""
    from infer_forge.workspace import init_workspace, status

    report = status(init_workspace(folder))
    report.next_step = (
        "infer-forge workspace add sglang (infer-forge workspace known lists the map), or add URL --role ROLE"
    )
    return report


@command.command("known")
@report_command
def known() -> Report:
    """The map of the inference stack: names that `add` knows, their address and default branch."""
    from infer_forge.base.records import Report
    from infer_forge.base.tables import Column, Table
    from infer_forge.workspace import known_repos

    columns = [Column(c, "text") for c in ("name", "role", "branch", "verified", "url", "what")]
    rows = [[n, r["role"], r["branch"], r["verified"], r["url"], r["what"]] for n, r in sorted(known_repos().items())]
    report = Report("workspace_known")
    report.add(Table("repositories", columns, rows))
    return report


@command.command("add")
@click.argument("repo")
@click.option("--role", type=_ROLES, help="Its role; the map knows it for the repositories that it names.")
@click.option("--name", help="What it is called here (default: its own name).")
@click.option("--branch", help="Its default branch (default: the map's, else what the remote says).")
@click.option("--depth", type=click.IntRange(min=1), help="Clone only so many commits.")
@_ROOT
@report_command
def add(
    repo: str, role: str | None, name: str | None, branch: str | None, depth: int | None, root: Path | None
) -> Report:
    """Add REPO, a name of the stack map or an address, as a submodule."""
    from infer_forge.workspace import add_repo, status

    workspace = _open(root)
    entry = add_repo(workspace, repo, role, name=name, branch=branch, depth=depth)
    return status(workspace, (entry.name,))


@command.command("sync")
@click.argument("repos", nargs=-1)
@click.option(
    "--forward", is_flag=True, help="Move clean checkouts of the default branch forward, where nothing is lost."
)
@_ROOT
@format_options
@click.pass_context
def sync(
    ctx: click.Context, repos: tuple[str, ...], forward: bool, root: Path | None, form: str, out: Path | None
) -> None:
    """Check out what is absent and fetch the rest; nothing is merged or thrown away. Exit 3 when a repository failed."""
    from infer_forge.workspace import sync_repos

    report = sync_repos(_open(root), repos, forward=forward)
    emit(report, form, out)
    ctx.exit(3 if report.extra["failed"] else 0)


@command.command("status")
@click.argument("repos", nargs=-1)
@_ROOT
@report_command
def status_(repos: tuple[str, ...], root: Path | None) -> Report:
    """Every repository and worktree: dirty, detached, shallow, missing commit, diverged, ahead, behind, off its pin."""
    from infer_forge.workspace import status

    return status(_open(root), repos)


@command.command("pin")
@click.argument("repos", nargs=-1)
@_ROOT
@report_command
def pin_(repos: tuple[str, ...], root: Path | None) -> Report:
    """Record the commits that REPOS (default: all) stand on in the root; refused unless their remotes have them."""
    from infer_forge.workspace import pin, status

    workspace = _open(root)
    pin(workspace, repos)
    return status(workspace, repos)


@command.command("verify")
@click.option("--task", help="Capture and prove the commits of this task's worktrees; kept as tasks/TASK.commits.json.")
@click.option(
    "--record", type=GivenPath(path_type=Path, dir_okay=False), help="Prove the commits of an earlier capture again."
)
@click.option("--bundle", is_flag=True, help="With --task: keep commits that no remote has as bundles.")
@_ROOT
@format_options
@click.pass_context
def verify_(
    ctx: click.Context,
    task: str | None,
    record: Path | None,
    bundle: bool,
    root: Path | None,
    form: str,
    out: Path | None,
) -> None:
    """Prove that commits can be had again, from the remote asked now or from a kept bundle; without options the root's
    pins, and that the root holds coordination only. Exit 0 pass, 4 fail, 3 a remote is silent or a repository is not here.
    """
    from infer_forge.base.errors import UsageFault
    from infer_forge.workspace import verify

    if task and record:
        raise UsageFault("--task captures, --record proves an earlier capture: give one")
    if bundle and not task:
        raise UsageFault("--bundle goes with --task")
    report = verify(_open(root), record, task=task, bundle=bundle)
    emit(report, form, out)
    ctx.exit({"pass": 0, "fail": 4}.get(report.extra["verdict"], 3))


@command.command("task")
@click.argument("task")
@click.option(
    "--repo", "repos", multiple=True, help="A repository that it needs; repeat it (default: its definition's)."
)
@click.option(
    "--base", type=click.Choice(["pin", "default"]), default="pin", show_default=True, help="Where its branch starts."
)
@click.option(
    "--environment", help="Place that it works in: local, docker:NAME, ssh:HOST, or a name of the setting hosts."
)
@click.option("--close", is_flag=True, help="Remove its worktrees; refused while work would be lost. Branches stay.")
@_ROOT
@report_command
def task_(
    task: str, repos: tuple[str, ...], base: str, environment: str | None, close: bool, root: Path | None
) -> Report:
    """Give TASK a worktree of just its repositories, each on the branch task/TASK.

    `tasks/TASK.yaml` of the root then names repositories, branch, environment, and where its records are.
    """
    from infer_forge.base.records import Header, Report
    from infer_forge.tasks import binding
    from infer_forge.workspace import close_worktrees, states, task_worktrees, worktrees

    workspace = _open(root)
    report = Report("workspace_task", Header(more={"root": str(workspace.root)}))
    if close:
        report.summary = [
            f"{task}: removed the worktrees of {', '.join(close_worktrees(workspace, task)) or 'nothing'}"
        ]
        return report
    manifest = task_worktrees(workspace, task, repos or _defined(task), base=base, environment=environment)
    binding.bind_workspace(task, workspace.root)
    found = [s for s in worktrees.worktree_states(workspace)[0] if s.name.startswith(f"{task}/")]
    report.add(states.table(found, "worktrees"))
    report.extra["manifest"] = manifest
    report.summary = [
        f"{n}: {workspace.root / r['path']} on {manifest['branch']}" for n, r in manifest["repositories"].items()
    ]
    told = manifest["environment"] or "not said (--environment PLACE)"
    report.summary.append(f"environment: {told}; records: {manifest['records']} of the task store")
    report.next_step = f"infer-forge workspace verify --task {task}, with each result"
    return report


def _defined(task: str) -> tuple[str, ...]:
    """The repositories that the task's definition names, when the task store has it."""
    from infer_forge.base.errors import InputUnusable
    from infer_forge.tasks import load, open_store

    try:
        return tuple(load(open_store(), task).typed.repositories)
    except InputUnusable:
        return ()
