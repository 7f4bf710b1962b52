"""Walks along first parents."""

from __future__ import annotations

from collections.abc import Iterator

from infer_forge.base.gitstore.model import Commit
from infer_forge.base.gitstore.objects import Objects


def chain(objects: Objects, tip: str | None) -> Iterator[Commit]:
    """Commits from `tip` back to the first."""
    while tip is not None:
        commit = objects.commit(tip)
        yield commit
        tip = commit.parent


def meeting_point(objects: Objects, one: str | None, other: str | None) -> str | None:
    """The newest commit that both chains hold; costs what the distance is, not what the history is."""
    seen: tuple[set[str], set[str]] = (set(), set())
    heads = [one, other]
    while heads[0] is not None or heads[1] is not None:
        for side in (0, 1):
            head = heads[side]
            if head is None:
                continue
            if head in seen[1 - side]:
                return head
            seen[side].add(head)
            heads[side] = objects.commit(head).parent
    return None


def is_ancestor(objects: Objects, old: str | None, new: str | None) -> bool:
    """Whether `new` continues `old` (or is it); nothing is an ancestor of everything."""
    if old is None or old == new:
        return True
    return new is not None and meeting_point(objects, old, new) == old


def since(objects: Objects, tip: str | None, base: str | None) -> list[Commit]:
    """Commits after `base` up to `tip`, oldest first."""
    found: list[Commit] = []
    for commit in chain(objects, tip):
        if commit.id == base:
            break
        found.append(commit)
    return found[::-1]
