"""The root holds coordination only: code stays in its repository (B11)."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from infer_forge.base.resources import load_yaml
from infer_forge.workspace import gitcall
from infer_forge.workspace.model import Workspace


def lint_root(workspace: Workspace) -> list[tuple[str, str]]:
    """(path, fault) of each file of the root that belongs elsewhere: source code, large files, repositories that are no submodule."""
    rules: dict[str, Any] = load_yaml("references/workspace_rules.yaml")
    suffixes, free = set(rules["code_suffixes"]), set(rules["coordination_folders"])
    repos = {e.path for e in workspace.entries.values()}
    listed = gitcall.call(workspace.root, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    found: list[tuple[str, str]] = []
    for name in sorted({n for n in listed.split("\0") if n}):
        path = PurePosixPath(name.rstrip("/"))
        full = workspace.root / name
        if str(path) in repos or any(str(p) in repos for p in path.parents):
            continue
        if name.endswith("/") or (full.is_dir() and (full / ".git").exists()):
            found.append((name, "a repository that is no submodule: infer-forge workspace add REPO"))
        elif path.suffix.lower() in suffixes and path.parts[0] not in free:
            found.append((name, "source code in the root: it belongs into one of the repositories"))
        elif full.is_file() and full.stat().st_size > rules["largest_file_bytes"]:
            found.append((name, f"{full.stat().st_size:,} bytes: the root holds coordination, no data"))
    return found
