"""The patched checkout as git tells it: commit, branch, whether it is clean, what changed. Plain `git`, read-only."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infer_forge.base.errors import InputUnusable, MissingPart


def git(checkout: Path, *words: str) -> str:
    """Output of a git command in the checkout.

    Raises:
        InputUnusable: git refuses. MissingPart: there is no git.
    """
    try:
        done = subprocess.run(
            ["git", "-C", str(checkout), *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )
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
    status = git(place, "status", "--porcelain", "--untracked-files=normal").splitlines()
    dirty = [line[3:] for line in status if not line[3:].startswith((".humanize",))][:10]
    return Checkout(place, commit, branch, dirty)


def changed_files(checkout: Path, base: str, head: str) -> list[str]:
    """Files that differ between two commits."""
    return [line for line in git(checkout, "diff", "--name-only", base, head).splitlines() if line]


def is_ancestor(checkout: Path, older: str, newer: str) -> bool:
    """Whether `newer` is built on `older`."""
    done = subprocess.run(
        ["git", "-C", str(checkout), "merge-base", "--is-ancestor", older, newer], capture_output=True, check=False
    )
    return done.returncode == 0


def same_tree(checkout: Path, wanted: str, commit: str) -> bool:
    """Whether `commit` is `wanted`, or is built on it and holds the same files (a change and its revert)."""
    if commit == wanted:
        return True
    return is_ancestor(checkout, wanted, commit) and not changed_files(checkout, wanted, commit)


def exists(checkout: Path, commit: str) -> bool:
    """Whether a commit is in the checkout (B16)."""
    done = subprocess.run(
        ["git", "-C", str(checkout), "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True, check=False
    )
    return done.returncode == 0


def patch(checkout: Path, base: str, head: str) -> str:
    """The difference as a patch."""
    return git(checkout, "diff", "--no-color", base, head)
