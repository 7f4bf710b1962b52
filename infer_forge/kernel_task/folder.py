"""A kernel task's folder: read it, hash what is protected, lock it once before the first measurement."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base import jsonio
from infer_forge.base.errors import GateRefused, InputUnusable

if TYPE_CHECKING:
    from infer_forge.kernel_task.model import KernelTask

TASK, LOCK, RESULTS = "task.json", "lock.json", "results.json"


def now() -> str:
    """UTC, ISO, with microseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


def read_task(folder: Path) -> KernelTask:
    """The task of a folder.

    Raises:
        InputUnusable: no task.json, or it does not follow the schema; the message names the first bad field.
    """
    from pydantic import ValidationError

    from infer_forge.kernel_task.model import KernelTask

    file = folder / TASK
    if not file.is_file():
        raise InputUnusable(
            "has no task.json", where=str(folder), next_step="infer-forge kernel-task new DIR makes a sample"
        )
    try:
        return KernelTask.model_validate(jsonio.read_json(file))
    except ValidationError as exc:
        first = exc.errors()[0]
        name = ".".join(map(str, first["loc"])) or "task"
        raise InputUnusable(
            f"{name}: {first['msg']}", where=str(file), next_step="see references/schemas/kernel_task.json"
        ) from None


def files_of(folder: Path, patterns: Iterable[str]) -> list[Path]:
    """Files of the folder that match the globs, sorted."""
    found: set[Path] = set()
    for pattern in patterns:
        if pattern.startswith("/") or ".." in Path(pattern).parts:
            raise InputUnusable(f"pattern {pattern!r} leaves the folder", where=str(folder / TASK))
        wanted = f"{pattern}/*" if pattern.endswith("**") else pattern  # pathlib's `**` alone matches folders only
        found |= {p for p in folder.glob(wanted) if p.is_file() and "__pycache__" not in p.parts}
    return sorted(found)


def hashes(folder: Path, patterns: Iterable[str]) -> dict[str, str]:
    """Relative name -> sha256 of every file that matches."""
    return {p.relative_to(folder).as_posix(): jsonio.sha256_file(p) for p in files_of(folder, patterns)}


_MADE = (LOCK, RESULTS, "report.md", "build/", "profiles/", ".git/")


def work_files(folder: Path) -> dict[str, str]:
    """Hashes of all files but those that measuring and building make."""
    return {name: sha for name, sha in hashes(folder, ["**/*"]).items() if not name.startswith(_MADE)}


def rows_hash(task: KernelTask) -> str:
    """Hash of the workload: rows, tolerances, buckets, timing."""
    part = task.model_dump(
        mode="json", include={"rows", "tolerances", "buckets", "timing", "destination_passing", "limits"}
    )
    return jsonio.sha256_of(part)


def harness_sha256() -> str:
    """Hash of the harness that measures: its modules' bytes."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for name in ("arrays.py", "correctness.py", "environment.py", "harness.py", "timing.py", "worker.py"):
        digest.update((here / name).read_bytes())
    return digest.hexdigest()


def lock(folder: Path, task: KernelTask) -> dict[str, Any]:
    """The folder's lock; made now when there is none, so that it is older than every result.

    Raises:
        GateRefused: it is locked, and a protected file or the workload has changed since.
    """
    file = folder / LOCK
    if not file.exists():
        made = {
            "kind": "kernel_task_lock", "locked_at": now(), "workload_sha256": rows_hash(task),
            "protected": hashes(folder, task.protected), "files": work_files(folder), "harness_sha256": harness_sha256(),
        }  # fmt: skip
        if (folder / RESULTS).exists():
            raise GateRefused(
                "there are results but no lock: the workload was not fixed before measuring",
                where=str(folder),
                next_step="remove results.json and measure both sides again",
            )
        jsonio.write_atomic(file, jsonio.dumps(made, indent=True) + b"\n")
        return made
    found = read_lock(folder)
    changed = changes(found.get("protected", {}), hashes(folder, task.protected))
    if changed or found.get("workload_sha256") != rows_hash(task):
        raise GateRefused(
            f"locked and changed since: {', '.join(changed) or 'the workload'}",
            where=str(folder),
            next_step="put it back, or make a new task: another workload is another task",
        )
    return found


def read_lock(folder: Path) -> dict[str, Any]:
    """The lock as written.

    Raises:
        InputUnusable: it is missing or damaged.
    """
    found = jsonio.read_json(folder / LOCK)
    if not isinstance(found, dict) or not isinstance(found.get("protected"), dict):  # pyright: ignore[reportUnknownMemberType]
        raise InputUnusable("is no lock of a kernel task", where=str(folder / LOCK))
    return found  # pyright: ignore[reportUnknownVariableType]


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Files that were changed, removed or added between two sets of hashes."""
    out = [f"{n} changed" for n in before if n in after and before[n] != after[n]]
    out += [f"{n} removed" for n in before if n not in after]
    return out + [f"{n} added" for n in after if n not in before]
