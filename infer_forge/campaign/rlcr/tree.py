"""The checkout as git tells it, with the facts that the set-up script and the Stop hook ask for. Read-only."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from infer_forge.base.errors import InputUnusable
from infer_forge.campaign.repo import git


def ask(checkout: Path, *words: str) -> str | None:
    """Output of a git command; None when git refuses.

    Raises:
        MissingPart: there is no git.
    """
    try:
        return git(checkout, *words)
    except InputUnusable:
        return None


@dataclass(frozen=True)
class Tree:
    """A checkout now. `dirty` leaves out `.humanize` paths that are untracked, as the runtime does."""

    path: Path
    is_repository: bool
    head: str | None
    branch: str | None
    dirty: list[str] = field(default_factory=list[str])
    tracked_state: list[str] = field(default_factory=list[str])
    ignored: bool = False
    branches: list[str] = field(default_factory=list[str])
    remote_default: str | None = None

    def commit_of(self, name: str) -> str | None:
        """Commit of a local branch."""
        found = ask(self.path, "rev-parse", "--verify", "--quiet", f"refs/heads/{name}^{{commit}}")
        return found.strip() if found else None

    def built_on(self, commit: str) -> bool:
        """Whether HEAD is built on a commit."""
        return ask(self.path, "merge-base", "--is-ancestor", commit, "HEAD") is not None


def _status(path: Path) -> list[str]:
    """Changed paths of the whole work tree, quoting undone, renames by their new name."""
    out = ask(path, "-c", "core.quotepath=false", "status", "--porcelain", "-z", "--untracked-files=all") or ""
    words, found, skip = out.split("\0"), list[str](), False
    for word in words:
        if skip or len(word) < 4:
            skip = False
            continue
        code, name = word[:2], word[3:]
        skip = "R" in code or "C" in code
        own = name.split("/")[0]
        if code == "??" and (own == ".humanize" or own.startswith((".humanize-", ".humanize."))):
            continue
        found.append(name)
    return found


def _ignores(path: Path, name: str) -> bool:
    done = subprocess.run(
        ["git", "-C", str(path), "check-ignore", "-q", "--", name],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode == 0


def look(path: Path) -> Tree:
    """Look at a checkout; what is no repository is told so, never raised.

    Raises:
        MissingPart: there is no git.
    """
    place = path.absolute()
    top = ask(place, "rev-parse", "--show-toplevel") if place.is_dir() else None
    if top is None:
        return Tree(place, False, None, None)
    head = ask(place, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    branch = (ask(place, "symbolic-ref", "--quiet", "--short", "HEAD") or "").strip() or None
    names = (ask(place, "for-each-ref", "--format=%(refname:short)", "refs/heads") or "").split("\n")
    remote = (ask(place, "symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD") or "").strip()
    tracked = (ask(place, "ls-files", "--", ".humanize", ".humanize-*") or "").split("\n")
    return Tree(
        place,
        True,
        head.strip() if head else None,
        branch,
        _status(place),
        [t for t in tracked if t],
        all(_ignores(place, n) for n in (".humanize/state", ".humanize/rlcr/x/state.md")),
        [n for n in names if n],
        remote.split("/", 1)[1] if "/" in remote else None,
    )
