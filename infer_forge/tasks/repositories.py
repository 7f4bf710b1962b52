"""The repositories that a recorded run stands on: the working folder's, the task's worktrees, and those that the caller names.

Every one is captured with the run (B16, B44); what a commit does not tell (changed files, a branch that is none, a worktree
that is gone) is said with the record, so that nobody takes the commit for the whole truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infer_forge.base.errors import InputUnusable
from infer_forge.tasks import binding, surroundings

_MOST_NAMED = 3


def standing_on(task_id: str, cwd: str, folder: Path, given: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Facts of every repository of a run, each once (by its folder).

    Args:
        cwd: the working folder, whose repository counts. folder: where patches of uncommitted changes are kept.
        given: name -> folder (or commit) of further repositories.

    Returns:
        What `surroundings.repository` tells, with `name`; a repository without a commit has `commit` null and `missing`.
    """
    found: list[dict[str, Any]] = []
    here = surroundings.repository(cwd, folder / "working-folder.patch")
    if here is not None:
        found.append({"name": Path(here["path"]).name, **here})
    for name, place in _worktrees(task_id, cwd).items():
        _take(found, name, place, folder, whole=True)
    for name, value in (given or {}).items():
        if Path(value).is_dir():
            _take(found, name, Path(value), folder)
        else:
            found.append({"name": name, "path": None, "commit": value})
    return found


def _take(found: list[dict[str, Any]], name: str, place: Path, folder: Path, *, whole: bool = False) -> None:
    """Add one repository. `whole`: the folder is a checkout itself; where its `.git` is damaged git would answer for the one around."""
    facts = surroundings.repository(place, folder / f"{len(found)}.patch") if place.is_dir() else None
    strange = whole and facts is not None and Path(facts["path"]).resolve() != place.resolve()
    if facts is None or strange:
        why = "it has no commit" if place.is_dir() else "its worktree is not there: infer-forge workspace task TASK"
        why = "its .git is gone or damaged: infer-forge workspace status" if strange else why
        found.append({"name": name, "path": str(place), "commit": None, "missing": why})
        return
    same = next((f for f in found if f["path"] == facts["path"]), None)
    if same is not None:
        same["name"] = name
    else:
        found.append({"name": name, **facts})


def _worktrees(task_id: str, cwd: str) -> dict[str, Path]:
    """Name -> worktree of the task: of the workspace around the working folder, else of the one that made them."""
    from infer_forge.workspace import find_root

    try:
        here: Path | None = find_root(Path(cwd))
    except InputUnusable:
        here = None
    made = binding.workspace_of(task_id)
    for root in dict.fromkeys(r for r in (here, made) if r is not None):
        trees = _trees(root, task_id)
        if trees is not None:
            return trees
    return {} if made is None else {"workspace": made}


def _trees(root: Path, task_id: str) -> dict[str, Path] | None:
    """The task's worktrees in one workspace; None when it has none there."""
    from infer_forge.workspace import layout, worktrees

    if not (root / layout.TASKS / f"{task_id}.yaml").is_file():
        return None
    return worktrees.folders_of(layout.read(root), task_id)


def told(repository: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(what, sentence) of everything that the commit of a run's repository does not tell: missing, dirty, untracked, detached."""
    name = repository["name"]
    if repository.get("missing"):
        return [("missing", f"{name} ({repository['path']}): {repository['missing']}")]
    said: list[tuple[str, str]] = []
    if repository.get("unseen"):
        said.append(("unseen", f"{name}: what was changed is not known ({repository['unseen']})"))
    if repository.get("changed"):
        kept = "kept as a patch" if repository.get("patch") else "of which no patch could be kept"
        said.append(("dirty", f"{name}: {repository['changed']} changed files, {kept}"))
    names: list[str] = list(repository.get("untracked") or [])
    if names:
        first = ", ".join(names[:_MOST_NAMED])
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        said.append(("untracked", f"{name}: {first}{more} in no commit and in no patch"))
    if repository.get("path") and repository.get("branch") is None:
        said.append(("detached", f"{name}: {str(repository['commit'])[:12]} is on no branch"))
    return said
