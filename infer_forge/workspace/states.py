"""What each repository looks like now, told plainly."""

from __future__ import annotations

from pathlib import Path

from infer_forge.base import redact
from infer_forge.base.records import Finding, Header, Report
from infer_forge.base.tables import Column, Table
from infer_forge.workspace import gitcall
from infer_forge.workspace.model import Entry, RepoState, Workspace

OK, ABSENT, EMPTY, DIRTY, DETACHED, SHALLOW = "ok", "absent", "empty", "dirty", "detached", "shallow"
MISSING_COMMIT, DIVERGED, AHEAD, BEHIND, OFF_PIN = "missing_commit", "diverged", "ahead", "behind", "off_pin"
UNDECIDED, OTHER_ADDRESS, UNREADABLE = "history_unknown", "other_address", "unreadable"


def state_of(
    folder: Path, *, name: str = "", role: str = "", branch: str | None = None, pinned: str | None = None
) -> RepoState:
    """Look at one checkout.

    Args:
        branch: the default branch that ahead and behind are counted against. pinned: the commit that the root records.
    """
    state = RepoState(name or folder.name, role, str(folder), pinned=pinned, default_branch=branch)
    if not (folder / ".git").exists():
        state.present = False
        state.tell(ABSENT, "it is not checked out: infer-forge workspace sync")
        return state
    try:
        _look(state, folder)
    except gitcall.GitFailed as exc:
        state.tell(UNREADABLE, f"git cannot read it ({exc.said}); what stands here is not known: git -C {folder} fsck")
    if not state.states:
        state.states, state.said = [OK], ["clean, on its pin or ahead of nothing"]
    return state


def _look(state: RepoState, folder: Path) -> None:
    """Fill in what git says of a checkout that has a git folder.

    Raises:
        GitFailed: it cannot be read.
    """
    top = gitcall.call(folder, "rev-parse", "--show-toplevel").strip()
    if Path(top).resolve() != folder.resolve():
        state.tell(UNREADABLE, f"its own .git is damaged, and git takes the repository {top} for it: make it anew")
        return
    commit = gitcall.ask(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    state.commit = commit.strip() if commit else None
    remote = gitcall.ask(folder, "remote", "get-url", "origin")
    state.remote = redact.redact(remote.strip()) if remote else None
    named = gitcall.ask(folder, "symbolic-ref", "--short", "--quiet", "HEAD")
    state.branch = named.strip() if named else None
    if state.commit is None:
        state.tell(*_without_commit(state, folder))
        return
    _look_at_files(state, folder)
    _look_at_history(state, folder)


def _without_commit(state: RepoState, folder: Path) -> tuple[str, str]:
    """Why HEAD gives no commit: none was made yet, or the one that it names cannot be read."""
    named = gitcall.ask(folder, "rev-parse", "--verify", "--quiet", "HEAD")
    file = gitcall.ask(folder, "rev-parse", "--git-path", f"refs/heads/{state.branch}") if state.branch else None
    if named is None and file is not None and not (folder / file.strip()).exists():
        return EMPTY, "it has no commit to stand on"
    what = f"the commit {named.strip()[:12]}" if named else f"the ref of {state.branch or 'HEAD'}"
    return UNREADABLE, f"{what} cannot be read: git -C {folder} fsck, or clone it anew"


def _look_at_files(state: RepoState, folder: Path) -> None:
    lines = gitcall.call(folder, "status", "--porcelain", "--untracked-files=normal", "-z").split("\0")
    entries = [x for x in lines if len(x) > 3 and x[2] == " "]
    state.untracked = sum(1 for x in entries if x.startswith("??"))
    state.changed = len(entries) - state.untracked
    if state.changed or state.untracked:
        state.tell(
            DIRTY,
            f"{state.changed} changed and {state.untracked} untracked files: a result here has no commit that tells it",
        )
    if state.branch is None:
        state.tell(DETACHED, f"no branch: new commits at {(state.commit or '')[:12]} would belong to none")


def _look_at_history(state: RepoState, folder: Path) -> None:
    shallow = (gitcall.ask(folder, "rev-parse", "--is-shallow-repository") or "").strip() == "true"
    if shallow:
        state.tell(SHALLOW, "history is cut off: older commits are not here, and what contains what may be unknown")
    if state.pinned and gitcall.ask(folder, "cat-file", "-e", f"{state.pinned}^{{commit}}") is None:
        state.tell(
            MISSING_COMMIT, f"the pinned commit {state.pinned[:12]} is not in this repository: fetch it, or pin another"
        )
    elif state.pinned and state.pinned != state.commit:
        state.tell(OFF_PIN, f"it stands on {(state.commit or '')[:12]}, the root pins {state.pinned[:12]}")
    upstream = f"refs/remotes/origin/{state.default_branch}"
    if not state.default_branch or gitcall.ask(folder, "rev-parse", "--verify", "--quiet", upstream) is None:
        state.tell(UNDECIDED, f"origin has no branch {state.default_branch} here: ahead and behind are not known")
        return
    if shallow and gitcall.ask(folder, "merge-base", "HEAD", upstream) is None:
        return  # said already: the cut hides where they part
    counts = gitcall.call(folder, "rev-list", "--left-right", "--count", f"HEAD...{upstream}").split()
    state.ahead, state.behind = int(counts[0]), int(counts[1])
    if state.ahead and state.behind:
        state.tell(
            DIVERGED,
            f"{state.ahead} commits that origin/{state.default_branch} lacks, {state.behind} that are missing here",
        )
    elif state.ahead:
        state.tell(AHEAD, f"{state.ahead} commits that origin/{state.default_branch} lacks: nobody else has them")
    elif state.behind:
        state.tell(BEHIND, f"{state.behind} commits behind origin/{state.default_branch}, as last fetched")


def pins(root: Path) -> dict[str, str]:
    """Path -> commit of each submodule, as the root's last commit records it."""
    out = gitcall.ask(root, "ls-tree", "-r", "-z", "HEAD") or ""
    found: dict[str, str] = {}
    for line in out.split("\0"):
        head, _, path = line.partition("\t")
        if head.startswith("160000 "):
            found[path] = head.split()[2]
    return found


def states(workspace: Workspace, names: tuple[str, ...] = ()) -> list[RepoState]:
    """The state of the named repositories, or of all."""
    pinned = pins(workspace.root)
    return [state_in(workspace, e, pinned) for n, e in sorted(workspace.entries.items()) if not names or n in names]


def state_in(workspace: Workspace, entry: Entry, pinned: dict[str, str]) -> RepoState:
    """The state of one repository of the workspace."""
    folder = workspace.folder(entry)
    state = state_of(folder, name=entry.name, role=entry.role, branch=entry.branch, pinned=pinned.get(entry.path))
    elsewhere = _other_addresses(workspace, entry) if state.present else []
    if elsewhere:
        state.states, state.said = ([], []) if state.states == [OK] else (state.states, state.said)
        state.tell(OTHER_ADDRESS, f"the workspace has it at {redact.redact(entry.url)}; {'; '.join(elsewhere)}")
    return state


def _other_addresses(workspace: Workspace, entry: Entry) -> list[str]:
    """Where another address stands than the workspace's: a commit that this checkout's remote has may not be had by others."""
    config = gitcall.ask(workspace.folder(entry), "config", "--get", "remote.origin.url")
    modules = gitcall.ask(workspace.root, "config", "-f", ".gitmodules", "--get", f"submodule.{entry.name}.url")
    places = {"the checkout asks": config, ".gitmodules says": modules}
    return [
        f"{what} {redact.redact(url.strip())}"
        for what, url in places.items()
        if url is not None and _plain(url) != _plain(entry.url)
    ]


def _plain(url: str) -> str:
    return url.strip().rstrip("/").removesuffix(".git")


def table(found: list[RepoState], title: str = "repositories") -> Table:
    """States as a table."""
    columns = [
        *(Column(c, "text") for c in ("repo", "role", "state", "branch", "commit", "pinned")),
        *(Column(c, "int") for c in ("changed", "untracked", "ahead", "behind")),
    ]
    rows = [
        [
            s.name,
            s.role,
            s.states,
            s.branch,
            _short(s.commit),
            _short(s.pinned),
            s.changed,
            s.untracked,
            s.ahead,
            s.behind,
        ]
        for s in found
    ]
    return Table(title, columns, rows)


def _short(commit: str | None) -> str | None:
    return commit[:12] if commit else None


# What keeps a result from being told by a commit; the other states are only worth knowing.
TROUBLE = (ABSENT, EMPTY, UNREADABLE, DIRTY, MISSING_COMMIT, DIVERGED)


def status(workspace: Workspace, names: tuple[str, ...] = ()) -> Report:
    """Every repository, and every task's worktree, with what is unusual about it."""
    from infer_forge.workspace.worktrees import worktree_states

    report = Report(
        "workspace_status",
        Header(coverage={"repositories": len(workspace.entries)}, more={"root": str(workspace.root)}),
    )
    found = states(workspace, names)
    trees, faults = worktree_states(workspace, names)
    report.add(table(found))
    if trees:
        report.add(table(trees, "worktrees"))
    report.findings += faults
    for state in (*found, *trees):
        for code, sentence in zip(state.states, state.said, strict=True):
            if code != OK:
                severity = "warning" if code in TROUBLE else "info"
                report.findings.append(Finding(code.upper(), f"{state.name}: {sentence}", severity))
    odd = sum(1 for s in (*found, *trees) if set(s.states) & set(TROUBLE))
    odd += len(faults)
    report.summary = [f"{workspace.root}: {len(found)} repositories, {len(trees)} worktrees, {odd} need attention"]
    return report
