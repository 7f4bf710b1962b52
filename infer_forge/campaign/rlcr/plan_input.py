"""What Humanize's set-up script demands of a plan file: its path, its place, its tracking, its length."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from infer_forge.campaign.rlcr.loops import text_of
from infer_forge.campaign.rlcr.model import rules_data

if TYPE_CHECKING:
    from infer_forge.campaign.rlcr.tree import Tree


def path_faults(name: str, root: Path) -> list[str]:
    """Faults of the path as written and of what stands there; at most the first kind when it cannot be looked up."""
    rules = rules_data()["plan"]
    if name.startswith("/"):
        return ["the path is absolute; it must be relative to the checkout"]
    if any(c.isspace() for c in name):
        return ["the path contains blanks"]
    bad = sorted({c for c in name if c in rules["metacharacters"]})
    if bad:
        return [f"the path contains {' '.join(bad)}"]
    place = root / name
    for part in [place, *place.parents]:
        if part == root:
            break
        if part.is_symlink():
            return [f"{part.relative_to(root)} is a symbolic link"]
    if not place.parent.is_dir():
        return [f"its folder does not exist in {root}"]
    if not place.is_file():
        return ["the file does not exist"]
    try:
        place.resolve().relative_to(root.resolve())
    except ValueError:
        return ["it lies outside of the checkout"]
    inner = next((p for p in place.parents if p != root and root in p.parents and (p / ".git").exists()), None)
    return [f"it lies in the submodule {inner.relative_to(root)}"] if inner else []


def content_faults(text: str | None) -> list[str]:
    """Faults of its length: lines, and lines that are neither blank nor begin with `#`."""
    if text is None:
        return ["it cannot be read"]
    rules = rules_data()["plan"]
    lines = text.split("\n")[:-1] if text.endswith("\n") else text.split("\n")
    if len(lines) < rules["min_lines"]:
        return [f"{len(lines)} lines, {rules['min_lines']} are needed"]
    content = sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in lines)
    if content < rules["min_content_lines"]:
        return [f"{content} lines that are no heading, {rules['min_content_lines']} are needed"]
    return []


def input_faults(name: str, root: Path, tree: Tree | None, *, tracked: bool = False) -> list[str]:
    """Everything for which the set-up script refuses a plan (A90).

    Args:
        root: project root as the script sees it.
        tree: git facts of that root; None leaves git's part out.
        tracked: whether `--track-plan-file` is given.
    """
    faults = path_faults(name, root) or content_faults(text_of(root / name))
    if faults or tree is None or not tree.is_repository:
        return faults
    from infer_forge.campaign.rlcr.tree import ask

    listed = bool((ask(root, "ls-files", "--", name) or "").strip())
    if tracked:
        if not listed:
            return ["--track-plan-file is given and git does not track it"]
        return ["it has uncommitted changes"] if name in tree.dirty else []
    return ["git tracks it; without --track-plan-file it must be ignored"] if listed else []
