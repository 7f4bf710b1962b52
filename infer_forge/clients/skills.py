"""Skills as folders: which we ship, putting them in place as copies or links, and telling whether a copy is still ours."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from infer_forge.base import jsonio
from infer_forge.base.resources import data_path
from infer_forge.clients.model import Change

MARKER = ".infer-forge.json"  # in each copy: what was installed, so that upgrade and uninstall touch nothing of others


def shipped() -> dict[str, Path]:
    """Name -> folder of every skill of this installation."""
    return {p.name: p for p in sorted(data_path("skills").iterdir()) if (p / "SKILL.md").is_file()}


def digest(folder: Path) -> str:
    """sha256 over the names and contents of a skill's files (the marker and bytecode aside)."""
    files = (p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != MARKER and "__pycache__" not in p.parts)
    return jsonio.sha256_of({str(p.relative_to(folder)): jsonio.sha256_file(p) for p in files})


def state(name: str, target: Path) -> str:
    """How a skill stands at a place: `linked`, `current`, `outdated` (another version), `changed` (edited), `foreign`, `absent`."""
    source = shipped()[name]
    if target.is_symlink():
        return "linked" if target.resolve() == source.resolve() else "foreign"
    if not target.exists():
        return "absent"
    marker = target / MARKER
    if not marker.is_file():
        return "current" if target.is_dir() and digest(target) == digest(source) else "foreign"
    now, installed = digest(target), jsonio.read_json(marker).get("digest")
    if now != installed:
        return "changed"
    return "current" if now == digest(source) else "outdated"


def put(name: str, folder: Path, *, link: bool) -> Change:
    """Put one skill into a client's skills folder; what is not ours, or was edited, is left alone and said."""
    source, target = shipped()[name], folder / name
    now = state(name, target)
    if now in ("foreign", "changed"):
        reason = (
            "a folder of that name is there and is not ours"
            if now == "foreign"
            else "it was edited after it was installed"
        )
        return Change(f"skill {name}", str(target), f"skipped: {reason}; move it away and install again")
    if now == ("linked" if link else "current") and (link or (target / MARKER).is_file()):
        return Change(f"skill {name}", str(target), "unchanged")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}.") as work:
        fresh = Path(work) / name
        if link:
            fresh.symlink_to(source.resolve(), target_is_directory=True)
        else:
            shutil.copytree(source, fresh, ignore=shutil.ignore_patterns("__pycache__"))
            jsonio.write_atomic(fresh / MARKER, jsonio.dumps({"skill": name, "digest": digest(fresh)}))
        if target.is_symlink() or target.exists():
            os.rename(target, Path(work) / "old")
        os.rename(fresh, target)
    return Change(f"skill {name}", str(target), "added" if now == "absent" else "updated")


def take_away(name: str, folder: Path) -> Change:
    """Remove one skill from a client's folder when it is ours and unedited."""
    target = folder / name
    now = state(name, target)
    if now in ("absent",):
        return Change(f"skill {name}", str(target), "absent")
    if now in ("foreign", "changed"):
        return Change(f"skill {name}", str(target), "skipped: it is not as we installed it; remove it by hand")
    if target.is_symlink():
        target.unlink()
    else:
        shutil.rmtree(target)
    return Change(f"skill {name}", str(target), "removed")
