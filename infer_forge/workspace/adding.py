"""Add a repository to the workspace, as a submodule with a role."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from infer_forge.base.errors import GateRefused, UsageFault
from infer_forge.workspace import gitcall, layout
from infer_forge.workspace.model import ROLES, Entry, Workspace

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,60}$")


def add_repo(
    workspace: Workspace,
    repo: str,
    role: str | None = None,
    *,
    name: str | None = None,
    branch: str | None = None,
    depth: int | None = None,
) -> Entry:
    """Add a repository by its name in the stack map or by its address, and commit that to the root.

    Args:
        branch: its default branch; asked from the remote when neither this nor the map names one.
        depth: clone only so many commits; `status` then says that it is shallow.

    Raises:
        GateRefused: it is there already. UsageFault: no address, role or branch. GitFailed: the remote refused.
    """
    known = layout.known_repos().get(repo.lower())
    url = gitcall.checked_url(known["url"] if known else repo)
    chosen_role = role or (known["role"] if known else None)
    if chosen_role not in ROLES:
        raise UsageFault(f"a repository has a role: {', '.join(ROLES)}", next_step="--role ROLE")
    called = name or (
        repo.lower() if known else re.sub(r"\.git$", "", url.rstrip("/").rpartition("/")[2].rpartition(":")[2])
    )
    if not _NAME.match(called) or called.endswith(".lock"):
        raise UsageFault(f"{called!r} is no name", next_step="--name NAME")
    if called in workspace.entries:
        raise GateRefused(f"{called} is in the workspace", where=workspace.entries[called].path)
    local = gitcall.is_local(url)
    default = branch or (known["branch"] if known else None) or remote_default(workspace.root, url)
    entry = Entry(called, url, default, chosen_role, f"{chosen_role}/{called}")
    if workspace.folder(entry).exists():
        raise GateRefused("something stands there already", where=str(workspace.folder(entry)), next_step="--name NAME")
    words = ["submodule", "add", "--quiet", "--name", called, "-b", default]
    words += ["--depth", str(depth)] if depth else []
    try:
        gitcall.call(workspace.root, *words, "--", url, entry.path, local=local, timeout_s=gitcall.NETWORK_S)
    except gitcall.GitFailed:
        _take_back(workspace, entry)
        raise
    workspace.entries[called] = entry
    layout.write(workspace)
    gitcall.commit_all(workspace.root, f"Add {called} ({chosen_role})", layout.DESCRIPTOR, ".gitmodules", entry.path)
    return entry


def remote_default(root: Path, url: str) -> str:
    """The branch that a remote's HEAD names.

    Raises:
        UsageFault: it names none. GitFailed: it does not answer.
    """
    out = gitcall.call(root, "ls-remote", "--symref", "--", url, "HEAD", local=gitcall.is_local(url), timeout_s=120)
    found = re.search(r"^ref: refs/heads/(\S+)\s+HEAD", out, re.MULTILINE)
    if not found:
        raise UsageFault("the remote names no default branch", where=url, next_step="--branch BRANCH")
    return found.group(1)


def _take_back(workspace: Workspace, entry: Entry) -> None:
    """Remove what a failed `submodule add` left of this entry, so that it can be tried again."""
    root = workspace.root
    gitcall.run(root, "rm", "--cached", "--quiet", "-r", "--ignore-unmatch", "--", entry.path)
    gitcall.run(root, "config", "-f", ".gitmodules", "--remove-section", f"submodule.{entry.name}")
    gitcall.run(root, "config", "--remove-section", f"submodule.{entry.name}")
    modules = root / ".gitmodules"
    if modules.is_file() and not modules.read_text().strip():
        gitcall.run(root, "rm", "--cached", "--quiet", "--ignore-unmatch", "--", ".gitmodules")
        modules.unlink()
    elif modules.is_file():
        gitcall.run(root, "add", "--", ".gitmodules")
    for place in (workspace.folder(entry), root / ".git" / "modules" / entry.name):
        shutil.rmtree(place, ignore_errors=True)
