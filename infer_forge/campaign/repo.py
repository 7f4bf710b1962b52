"""The patched checkout as git tells it: commit, branch, whether it is clean, what changed. Plain `git`, read-only."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infer_forge.base.errors import InputUnusable, MissingPart

_STATUS = ("status", "--porcelain", "--untracked-files=normal")
_ELSEWHERE = ("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE")
"""Variables that would make git look at another repository than the checkout."""


def git(checkout: Path, *words: str, env: Mapping[str, str] | None = None) -> str:
    """Output of a git command in the checkout.

    Args:
        env: variables beside those of this process.

    Raises:
        InputUnusable: git refuses. MissingPart: there is no git.
    """
    argv = ["git", "-C", str(checkout), *words]
    own = {k: v for k, v in os.environ.items() if k not in _ELSEWHERE} | {"GIT_NO_REPLACE_OBJECTS": "1", **(env or {})}
    try:
        done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, env=own)
    except FileNotFoundError:
        raise MissingPart("git is not installed", next_step="install git") from None
    if done.returncode:
        said = (done.stderr.strip() or "it said nothing").splitlines()[-1]
        raise InputUnusable(f"git {words[0]}: {said}", where=str(checkout), next_step="name a git checkout")
    return done.stdout


@dataclass(frozen=True)
class Checkout:
    """A checkout as it stands now. `dirty` names changed or untracked files (without `.humanize`), at most ten."""

    path: Path
    commit: str
    branch: str
    dirty: list[str]

    def to_json(self) -> dict[str, Any]:
        """For records."""
        return {"path": str(self.path), "commit": self.commit, "branch": self.branch, "dirty": self.dirty}


def look(path: str | Path) -> Checkout:
    """Look at a checkout.

    Raises:
        InputUnusable: it is no git checkout with a commit.
    """
    place = Path(path).absolute()
    if not place.is_dir():
        raise InputUnusable("no such folder", where=str(place), next_step="name the checkout that will be patched")
    commit = git(place, "rev-parse", "HEAD").strip()
    branch = git(place, "rev-parse", "--abbrev-ref", "HEAD").strip()
    status = git(place, *_STATUS).splitlines()
    dirty = [line[3:] for line in status if not line[3:].startswith((".humanize",))][:10]
    return Checkout(place, commit, branch, dirty)


def unseen_changes(checkout: Path) -> list[str]:
    """What `git status` could have been told not to see, at most ten: every tracked file is read and held against the commit.

    A fresh index knows no `assume-unchanged`, no `skip-worktree` and no file times that were put back. Filters other than Git
    LFS's, which may answer with other bytes than the file's, are left out; a working tree that lies elsewhere is named.
    """
    top = Path(git(checkout, "rev-parse", "--show-toplevel").strip()).resolve()
    if top not in (checkout.resolve(), *checkout.resolve().parents):
        return [f"the working tree is {top}"]
    settings = git(checkout, "config", "--list", "--name-only").split()
    filters = [n for n in settings if re.fullmatch(r"filter\.(?!lfs\.).*\.(clean|process|required)", n)]
    off = [w for n in filters for w in ("-c", f"{n}={'false' if n.endswith('required') else ''}")]
    with tempfile.TemporaryDirectory(prefix="infer-forge-") as folder:
        fresh = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        git(checkout, "read-tree", "HEAD", env=fresh)
        seen = git(checkout, *off, *_STATUS, "--ignore-submodules=untracked", env=fresh).splitlines()
    sparse = "core.sparsecheckout" in settings
    told = [line[3:] for line in seen if not (sparse and line[1] == "D")]
    return [name for name in told if not name.startswith(".humanize")][:10]


def changed_files(checkout: Path, base: str, head: str) -> list[str]:
    """Files that differ between two commits."""
    return [line for line in git(checkout, "diff", "--name-only", base, head).splitlines() if line]


def is_ancestor(checkout: Path, older: str, newer: str) -> bool:
    """Whether `newer` is built on `older`."""
    done = subprocess.run(
        ["git", "-C", str(checkout), "merge-base", "--is-ancestor", older, newer], capture_output=True, check=False
    )
    return done.returncode == 0


def same_files(checkout: Path, one: str, other: str) -> bool:
    """Whether two commits hold the same files, whatever their history."""
    return one == other or not changed_files(checkout, one, other)


def same_tree(checkout: Path, wanted: str, commit: str) -> bool:
    """Whether `commit` is `wanted`, or is built on it and holds the same files (a change and its revert)."""
    return commit == wanted or (is_ancestor(checkout, wanted, commit) and same_files(checkout, wanted, commit))


def exists(checkout: Path, commit: str) -> bool:
    """Whether a commit is in the checkout (B16)."""
    done = subprocess.run(
        ["git", "-C", str(checkout), "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True, check=False
    )
    return done.returncode == 0


def patch(checkout: Path, base: str, head: str) -> str:
    """The difference as a patch."""
    return git(checkout, "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--binary", base, head)
