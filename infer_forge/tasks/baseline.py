"""The capability baseline: which skills, references, tools and check suite were in force, by version and hash (B67).

Every task records the digest of the manifest at its lock; the manifest itself is kept once, under its digest. Only a
delivered capability task (or another version of the pack) changes what is in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infer_forge import __version__
from infer_forge.base import jsonio
from infer_forge.base.config import settings
from infer_forge.base.errors import InputUnusable
from infer_forge.base.gitstore import Changes, Snapshot, Store
from infer_forge.base.resources import data_path
from infer_forge.tasks import check_suite

REF = "refs/baselines/manifests"
OUTCOMES = ("add", "update", "merge", "retire", "no_change")
_FOLDERS = ("skills", "references", "playbooks", "prompts")


def manifest(tools: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The capability baseline in force now.

    Args:
        tools: tool name -> its definition (description and schemas); a door that knows the server gives them. None:
            not known here, which is recorded as null.
    """
    files = in_force()
    schemas = None if tools is None else {name: jsonio.sha256_of(tools[name]) for name in sorted(tools)}
    body = {"pack_version": __version__, "files": files, "tools": schemas, "check_suite": check_suite.suite()}
    return {"digest": jsonio.sha256_of(body), **body, "files_sha256": jsonio.sha256_of(files)}


def in_force() -> dict[str, str]:
    """Name -> sha256 of every file of skills, references, playbooks and prompts, and of a team's own skills."""
    files: dict[str, str] = {}
    for folder in _FOLDERS:
        root = data_path(folder)
        files |= {f"{folder}/{name}": sha for name, sha in _hashes(root).items()}
    for place in settings().get("skills"):
        files |= {f"team:{Path(place).name}/{name}": sha for name, sha in _hashes(Path(place).expanduser()).items()}
    return files


def _hashes(root: Path) -> dict[str, str]:
    if not root.is_dir():
        raise InputUnusable("this folder of skills is not there", where=str(root), next_step="infer-forge config show")
    found = (p for p in sorted(root.rglob("*")) if p.is_file() and "__pycache__" not in p.parts)
    return {str(p.relative_to(root)): jsonio.sha256_file(p) for p in found}


def keep(store: Store, made: dict[str, Any]) -> dict[str, Any]:
    """Keep a manifest under its digest; gives what a task records of it."""
    path = f"{made['digest'][:2]}/{made['digest']}.json"

    def decide(snapshot: Snapshot) -> Changes | None:
        return None if snapshot.get(path) else Changes(put={path: jsonio.dumps(made)})

    store.update(REF, decide, f"baseline {made['digest'][:12]} of {made['pack_version']}")
    return {
        "digest": made["digest"],
        "pack_version": made["pack_version"],
        "files": len(made["files"]),
        "tools": None if made["tools"] is None else len(made["tools"]),
        "check_suite": {"commands": made["check_suite"]["commands"], "sha256": made["check_suite"]["sha256"]},
    }


def kept(store: Store, digest: str) -> dict[str, Any]:
    """A manifest by its digest.

    Raises:
        InputUnusable: it is not kept here.
    """
    text = store.read(REF).get(f"{digest[:2]}/{digest}.json")
    if text is None:
        raise InputUnusable(f"no baseline has the digest {digest[:12]}", next_step="bring the task store up to date")
    return jsonio.loads(text)


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, list[str]]:
    """Names that were added, removed and changed from one manifest to another; tools count where both sides know them."""
    one, two = dict(old["files"]), dict(new["files"])
    for names, side in ((one, old), (two, new)):
        if side.get("check_suite"):
            names["check_suite"] = side["check_suite"]["sha256"]
    if old["tools"] is not None and new["tools"] is not None:
        one |= {f"tool:{k}": v for k, v in old["tools"].items()}
        two |= {f"tool:{k}": v for k, v in new["tools"].items()}
    return {
        "added": sorted(set(two) - set(one)),
        "removed": sorted(set(one) - set(two)),
        "changed": sorted(k for k in set(one) & set(two) if one[k] != two[k]),
    }


def contradiction(outcome: str, found: Mapping[str, list[str]]) -> str | None:
    """Why an outcome does not fit what happened to the baseline; None when it does."""
    added, removed, changed = bool(found["added"]), bool(found["removed"]), bool(found["changed"])
    lacking = {
        "add": None if added else "nothing was added",
        "update": None if changed else "nothing that stood there was changed",
        "merge": None if removed and (changed or added) else "a merge removes one and changes what takes it in",
        "retire": None if removed else "nothing was removed",
        "no_change": "the baseline is not the one of the lock" if added or removed or changed else None,
    }
    return lacking[outcome]
