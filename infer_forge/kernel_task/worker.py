"""Measures one kernel task in a process of its own: `python -m infer_forge.kernel_task.worker DIR OUT`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.errors import ForgeError, InputUnusable
from infer_forge.kernel_task.folder import read_task
from infer_forge.kernel_task.harness import compare
from infer_forge.kernel_task.sources import source_files


def load(folder: Path, entry: str) -> Any:
    """The object that `file.py:name` names.

    Raises:
        InputUnusable: the file or the name is not there, or importing it raises.
    """
    name, _, attribute = entry.partition(":")
    file = folder / name
    if not file.is_file() or not attribute:
        raise InputUnusable(f"entry {entry!r} is not `file.py:name` of a file here", where=str(folder))
    spec = importlib.util.spec_from_file_location(f"kernel_task_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise InputUnusable("cannot be imported", where=str(file))
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as exc:  # whatever a task's own code raises
        raise InputUnusable(f"importing it raised {type(exc).__name__}: {exc}", where=str(file)) from None
    found = getattr(module, attribute, None)
    if not callable(found):
        raise InputUnusable(f"has no callable {attribute!r}", where=str(file))
    return found


def measure(folder: Path) -> dict[str, Any]:
    """Run the harness on the folder's task."""
    task = read_task(folder)
    entry = task.entry
    sys.path.insert(0, str(folder))
    frozen = source_files(folder, entry.candidate)
    outcome = compare(
        load(folder, entry.baseline),
        load(folder, entry.candidate),
        [row.model_dump() for row in task.rows],
        load(folder, entry.adapter),
        reference=load(folder, entry.reference),
        destination_passing=task.destination_passing,
        atol=task.tolerances.atol,
        rtol=task.tolerances.rtol,
        buckets=[b.model_dump() for b in task.buckets],
        blocks=task.timing.blocks,
        runs=task.timing.runs,
        min_sample_ms=task.timing.min_sample_ms,
        warmup=task.timing.warmup,
        peak_bytes_per_s=task.limits.peak_bytes_per_s,
        peak_flops_per_s=task.limits.peak_flops_per_s,
        implausible_speedup=task.limits.implausible_speedup,
        frozen=frozen,
    )
    outcome["frozen"] = {Path(p).relative_to(folder).as_posix(): sha for p, sha in outcome["frozen"].items()}
    return outcome


def main() -> int:
    """Entry point; 3 and one line on stderr when the task cannot be run."""
    folder, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    try:
        jsonio.write_atomic(out, jsonio.dumps(measure(folder)))
    except ForgeError as exc:
        sys.stderr.write(f"{exc}\n")
        return exc.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
