"""Check out what is missing and fetch what is new; never merge, never throw anything away."""

from __future__ import annotations

from infer_forge.base.errors import ForgeError
from infer_forge.base.records import Finding, Header, Report
from infer_forge.base.tables import Column, Table
from infer_forge.workspace import gitcall, states
from infer_forge.workspace.model import Entry, Workspace


def sync_repos(workspace: Workspace, names: tuple[str, ...] = (), *, forward: bool = False) -> Report:
    """Check out absent repositories at their pin and fetch the others.

    Args:
        forward: also move a clean checkout of the default branch forward to its remote, where that loses nothing.
    """
    report = Report("workspace_sync", Header(more={"root": str(workspace.root)}))
    rows: list[list[str]] = []
    for name, entry in sorted(workspace.entries.items()):
        if names and name not in names:
            continue
        try:
            rows.append([name, _sync(workspace, entry, forward)])
        except ForgeError as exc:
            rows.append([name, "failed"])
            report.findings.append(Finding("SYNC_FAILED", f"{name}: {exc.what}", "error"))
    report.add(Table("synced", [Column("repo", "text"), Column("done", "text")], rows))
    report.add(states.table(states.states(workspace, names)))
    failed = sum(1 for r in rows if r[1] == "failed")
    report.extra["failed"] = failed
    report.summary = [f"{len(rows) - failed} of {len(rows)} repositories are synced"]
    return report


def _sync(workspace: Workspace, entry: Entry, forward: bool) -> str:
    folder, local = workspace.folder(entry), gitcall.is_local(entry.url)
    if not (folder / ".git").exists():
        words = ["submodule", "update", "--init", "--quiet", "--", entry.path]
        gitcall.call(workspace.root, *words, local=local, timeout_s=gitcall.NETWORK_S)
        return "checked out at its pin"
    gitcall.call(folder, "fetch", "--quiet", "origin", local=local, timeout_s=gitcall.NETWORK_S)
    if not forward:
        return "fetched"
    state = states.state_in(workspace, entry, states.pins(workspace.root))
    if states.UNREADABLE in state.states:
        return f"fetched; not moved: {state.said[state.states.index(states.UNREADABLE)]}"
    if states.DIRTY in state.states:
        return "fetched; not moved: it has changed files"
    if state.branch != entry.branch:
        return f"fetched; not moved: it is on {state.branch or 'no branch'}, not on {entry.branch}"
    if state.ahead:
        return "fetched; not moved: it has commits that the remote lacks"
    if not state.behind:
        return "fetched; nothing new"
    gitcall.call(folder, "merge", "--ff-only", "--quiet", f"refs/remotes/origin/{entry.branch}")
    return f"moved forward by {state.behind} commits"
