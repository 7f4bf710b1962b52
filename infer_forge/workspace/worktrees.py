"""A task's own checkouts: one worktree a repository, on a named branch, for just the repositories that it needs (B12, B15)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from infer_forge.base import jsonio, yamlio
from infer_forge.base.errors import ForgeError, GateRefused, InputUnusable, UsageFault
from infer_forge.base.records import Finding
from infer_forge.engines import runner
from infer_forge.workspace import gitcall, layout, states
from infer_forge.workspace.model import RepoState, Workspace
from infer_forge.workspace.proofs import prove_commit

_TASK = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")
BASES = ("pin", "default")


def branch_of(task: str) -> str:
    """The branch that a task works on, in each of its repositories."""
    return f"task/{task}"


def _require_id(task: str) -> None:
    if not _TASK.match(task) or ".." in task or task.endswith((".lock", ".")):
        raise UsageFault(f"{task!r} is no task id", next_step="infer-forge task list shows them")


def task_worktrees(
    workspace: Workspace, task: str, names: tuple[str, ...], *, base: str = "pin", environment: str | None = None
) -> dict[str, Any]:
    """Give a task a worktree of each named repository, on the branch `task/TASK`; one that is there stays as it is.

    Args:
        base: where a new branch starts: the root's `pin`, or the remote's `default` branch as last fetched.
        environment: the place that the task works in, as `engine env --place` takes it; None: the one said before, if any.

    Returns:
        The task's manifest: `{task, branch, environment, records, repositories: {name: {base, path}}}`, written to
        `tasks/TASK.yaml` of the root. `records` is the ref of the task store, `environment` null while nobody said it.

    Raises:
        GateRefused: a repository is absent, lacks the base, or the branch is checked out elsewhere; nothing is left then.
    """
    _require_id(task)
    if base not in BASES:
        raise UsageFault(f"a base is one of {', '.join(BASES)}")
    unknown = [n for n in names if n not in workspace.entries]
    if unknown:
        raise InputUnusable(
            f"not in the workspace: {', '.join(unknown)}", next_step="infer-forge workspace add REPO --role ROLE"
        )
    kept = manifest_of(workspace, task) or {"repositories": {}}
    if environment is not None:
        runner.place(environment)  # refuses what is no place
    manifest: dict[str, Any] = {
        "task": task,
        "branch": branch_of(task),
        "environment": environment or kept.get("environment"),
        "records": f"refs/tasks/{task}",
        "repositories": kept["repositories"],
    }
    wanted = names or tuple(manifest["repositories"])
    if not wanted:
        raise UsageFault("no repository is named", next_step="--repo NAME, or `repositories` in the task's definition")
    pinned, made = states.pins(workspace.root), list[str]()
    try:
        for name in dict.fromkeys(wanted):
            entry = _add(workspace, task, name, base, pinned, made)
            manifest["repositories"].setdefault(name, entry)
    except ForgeError:
        for name in made:
            _remove(workspace, task, name, branch=True)
        raise
    _write(workspace, task, manifest)
    return manifest


def _place(workspace: Workspace, task: str, name: str) -> Path:
    return workspace.root / layout.WORKTREES / task / name


def _add(
    workspace: Workspace, task: str, name: str, base: str, pinned: dict[str, str], made: list[str]
) -> dict[str, str]:
    entry, place = workspace.entries[name], _place(workspace, task, name)
    folder, branch = workspace.folder(entry), branch_of(task)
    told = {"path": str(place.relative_to(workspace.root))}
    if (place / ".git").exists():
        return {"base": gitcall.call(place, "rev-parse", "HEAD").strip(), **told}
    if not (folder / ".git").exists():
        raise GateRefused(f"{name} is not checked out", next_step="infer-forge workspace sync")
    wanted = pinned.get(entry.path) if base == "pin" else f"refs/remotes/origin/{entry.branch}"
    start = gitcall.ask(folder, "rev-parse", "--verify", "--quiet", f"{wanted}^{{commit}}") if wanted else None
    if start is None:
        raise GateRefused(
            f"{name} does not have its {base} {wanted or ''}".rstrip(), next_step="infer-forge workspace sync"
        )
    there = gitcall.ask(folder, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}") is not None
    gitcall.call(folder, "worktree", "prune")
    words = [
        "worktree",
        "add",
        "--quiet",
        *([] if there else ["-b", branch]),
        str(place),
        branch if there else start.strip(),
    ]
    try:
        gitcall.call(folder, *words, timeout_s=gitcall.NETWORK_S)
    except gitcall.GitFailed as exc:
        raise GateRefused(f"{name}: {exc.said}", where=str(place)) from None
    if not there:
        made.append(name)
    return {"base": start.strip(), **told}


def _remove(workspace: Workspace, task: str, name: str, *, branch: bool) -> None:
    folder = workspace.folder(workspace.entries[name])
    gitcall.call(folder, "worktree", "remove", str(_place(workspace, task, name)))
    if branch:
        gitcall.run(folder, "branch", "--quiet", "-D", branch_of(task))


def manifest_of(workspace: Workspace, task: str) -> dict[str, Any] | None:
    """A task's manifest, None when it has none."""
    _require_id(task)
    file = _file(workspace, task)
    if not os.path.lexists(file):
        return None
    restored = f"git -C {workspace.root} restore {layout.TASKS}/{file.name}"
    try:
        data: Any = yamlio.read_yaml(file)
    except InputUnusable as exc:
        raise InputUnusable(exc.what, where=str(file), next_step=restored) from None
    if not isinstance(data, dict) or not isinstance(cast("dict[str, Any]", data).get("repositories"), dict):
        raise InputUnusable("is no manifest of a task's repositories", where=str(file), next_step=restored)
    return cast("dict[str, Any]", data)


def _file(workspace: Workspace, task: str) -> Path:
    return workspace.root / layout.TASKS / f"{task}.yaml"


def _write(workspace: Workspace, task: str, manifest: dict[str, Any]) -> None:
    file = _file(workspace, task)
    jsonio.write_atomic(file, layout.yaml_text(manifest))
    gitcall.commit_all(workspace.root, f"Repositories of {task}", str(file.relative_to(workspace.root)))


def folders_of(workspace: Workspace, task: str) -> dict[str, Path]:
    """Name -> worktree of a task's repositories.

    Raises:
        InputUnusable: the task has none here.
    """
    manifest = manifest_of(workspace, task)
    if manifest is None:
        raise InputUnusable(
            f"the task {task} has no worktrees here", next_step=f"infer-forge workspace task {task} --repo NAME"
        )
    return {name: _place(workspace, task, name) for name in manifest["repositories"] if name in workspace.entries}


def worktree_states(workspace: Workspace, names: tuple[str, ...] = ()) -> tuple[list[RepoState], list[Finding]]:
    """The state of every task's worktrees, and what is wrong with the manifests that name them.

    Worktrees that stand in a task's folder are looked at whether or not its manifest names them, or can be read.
    """
    found: list[RepoState] = []
    faults: list[Finding] = []
    for task, standing in _standing(workspace).items():
        named, said = _named(workspace, task, standing)
        faults += said
        for name, folder in sorted({**standing, **named}.items()):
            if folder.is_dir() and (not names or name in names):
                entry = workspace.entries[name]
                found.append(states.state_of(folder, name=f"{task}/{name}", role=entry.role, branch=entry.branch))
    return found, faults


def _standing(workspace: Workspace) -> dict[str, dict[str, Path]]:
    """Task -> its worktrees as the folders show them; every task with a manifest or a folder, in order."""
    tasks = {file.stem for file in (workspace.root / layout.TASKS).glob("*.yaml")}
    made = {f.name: f for f in (workspace.root / layout.WORKTREES).glob("*") if f.is_dir()}
    names = workspace.entries
    return {
        task: {f.name: f for f in made[task].iterdir() if f.name in names and f.is_dir()} if task in made else {}
        for task in sorted(tasks | {task for task, folder in made.items() if any(folder.iterdir())})
    }


def _named(workspace: Workspace, task: str, standing: Mapping[str, Path]) -> tuple[dict[str, Path], list[Finding]]:
    """The worktrees that a task's manifest names, and where it, the folders and the workspace do not agree."""
    again = f"infer-forge workspace task {task} --repo NAME"
    try:
        manifest = manifest_of(workspace, task)
    except ForgeError as exc:
        said = f"{task}: its manifest: {exc.what}; what stands in its folder is shown"
        return {}, [Finding("MANIFEST_UNREADABLE", said, "warning", next_step=exc.next_step or again)]
    if manifest is None:
        return {}, [Finding("MANIFEST_MISSING", f"{task}: worktrees without a manifest", "warning", next_step=again)]
    named: set[str] = set(manifest["repositories"])
    strange, more = sorted(named - set(workspace.entries)), sorted(set(standing) - named)
    told = [f"names {', '.join(strange)}, which the workspace does not have"] if strange else []
    told += [f"does not name its worktrees of {', '.join(more)}"] if more else []
    found = {name: _place(workspace, task, name) for name in named if name in workspace.entries}
    return found, [
        Finding("MANIFEST_INCOMPLETE", f"{task}: its manifest {t}", "warning", next_step=again) for t in told
    ]


def close_worktrees(workspace: Workspace, task: str) -> list[str]:
    """Remove a task's worktrees; the branches stay. Manifest and captured commits stay too.

    Raises:
        GateRefused: a worktree has changed files, or commits that its remote does not have and no bundle keeps.
    """
    folders = {n: f for n, f in folders_of(workspace, task).items() if f.is_dir()}
    bundles = _bundles(workspace, task)
    faults: list[str] = []
    for name, folder in folders.items():
        state = states.state_of(folder, name=name)
        if states.UNREADABLE in state.states:
            faults.append(f"{name}: {state.said[state.states.index(states.UNREADABLE)]}")
        elif state.changed or state.untracked:
            faults.append(f"{name} has changed files")
        elif state.commit and not (proof := prove_commit(folder, state.commit, bundles=bundles)).holds:
            faults.append(f"{name}: {proof.why}")
    if faults:
        raise GateRefused(
            "; ".join(faults), next_step=f"push them, or infer-forge workspace verify --task {task} --bundle"
        )
    for name in folders:
        _remove(workspace, task, name, branch=False)
    return list(folders)


def _bundles(workspace: Workspace, task: str) -> tuple[dict[str, Any], ...]:
    """The bundles that the task's last capture names."""
    file = workspace.root / layout.TASKS / f"{task}.commits.json"
    if not file.is_file():
        return ()
    repositories: dict[str, Any] = jsonio.read_json(file)["repositories"]
    return tuple(r["bundle"] for r in repositories.values() if r.get("bundle"))
