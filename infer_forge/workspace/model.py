"""A workspace's types."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROLES = ("stack", "harness", "builtin")
"""stack: the software that serves; harness: what measures and checks; builtin: what coordinates across repositories (B10)."""


@dataclass(frozen=True)
class Entry:
    """A repository of the workspace. `path` is relative to the root, `branch` its default branch."""

    name: str
    url: str
    branch: str
    role: str
    path: str

    def to_json(self) -> dict[str, str]:
        """All fields."""
        return asdict(self)


@dataclass
class Workspace:
    """A root and its repositories, by name."""

    root: Path
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])

    def folder(self, entry: Entry) -> Path:
        """Where a repository is checked out."""
        return self.root / entry.path


@dataclass
class RepoState:
    """What a repository looks like now. None: not known.

    Attributes:
        pinned: the commit that the root records. ahead, behind: against the default branch of its remote, as last fetched.
        said: one sentence for each state, in the order of `states`.
    """

    name: str
    role: str
    path: str
    present: bool = True
    branch: str | None = None
    commit: str | None = None
    pinned: str | None = None
    default_branch: str | None = None
    remote: str | None = None
    changed: int | None = None
    untracked: int | None = None
    ahead: int | None = None
    behind: int | None = None
    states: list[str] = field(default_factory=list[str])
    said: list[str] = field(default_factory=list[str])

    def tell(self, state: str, sentence: str) -> None:
        """Add a state with its sentence."""
        self.states.append(state)
        self.said.append(sentence)


REMOTE, BUNDLE, LOCAL, MISSING, UNREACHABLE = "remote", "bundle", "local_only", "missing", "unreachable"


@dataclass(frozen=True)
class Proof:
    """Whether a commit can be had again.

    Attributes:
        state: remote (its remote advertises a ref that reaches it), bundle (a kept file holds it, on commits that the
            remote has), local_only, missing, or unreachable (the remote did not answer, and no bundle holds it).
        why: what was seen, for people.
    """

    state: str
    why: str
    bundle: dict[str, Any] | None = None

    @property
    def holds(self) -> bool:
        """Whether it is proved."""
        return self.state in (REMOTE, BUNDLE)
