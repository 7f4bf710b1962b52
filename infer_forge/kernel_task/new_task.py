"""`infer-forge kernel-task new`: a sample folder that runs as it is, to be filled with a real kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.errors import UsageFault
from infer_forge.base.records import Header, InputFile, Report
from infer_forge.base.tables import Table
from infer_forge.kernel_task.folder import TASK

_ADAPTER = '''"""Inputs of a row. Numpy arrays here; return CUDA tensors for a GPU kernel."""

import numpy as np


def make_inputs(params, seed):
    """One matrix of gate and up halves, `m` rows of `2 * n` columns."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((params["m"], 2 * params["n"])).astype(np.float32)]
'''

_REFERENCE = '''"""What the kernel must compute, in the plainest way."""

import numpy as np


def reference(x):
    """silu(gate) * up, computed in float64 and rounded once."""
    n = x.shape[1] // 2
    gate, up = x[:, :n].astype(np.float64), x[:, n:].astype(np.float64)
    with np.errstate(all="ignore"):
        return (gate / (1.0 + np.exp(-gate)) * up).astype(np.float32)
'''

_KERNEL = '''"""{title}"""

import numpy as np


def kernel(x, out):
    """silu(gate) * up into `out`."""
    if x.ndim != 2 or x.shape[1] % 2:
        raise ValueError("x must be a matrix with an even number of columns")
    n = x.shape[1] // 2
    gate, up = x[:, :n], x[:, n:]
    with np.errstate(all="ignore"):
        out[...] = gate / (1.0 + np.exp(-gate)) * up
'''

_README = """# Kernel task: {name}

1. Put the shapes of real model runs into `task.json` (`rows`), neighbours as `regression` rows, bad inputs as `must_reject`.
2. Put the upstream kernel into `baseline.py` (say where it came from in `lineage`), the plain computation into `reference.py`.
3. `infer-forge kernel-task run .` locks all of that and measures. From then on only `candidate.py` and `candidate/` may change.
4. `infer-forge kernel-task audit .` says clean, suspect or void, with a rule id for each finding.

The result is a kernel-task result. It is no end-to-end gain.
"""


def _task(name: str, operation: str) -> dict[str, Any]:
    rows = [
        {"id": "decode-64", "kind": "production", "params": {"m": 64, "n": 512}, "provenance": "sample"},
        {"id": "prefill-512", "kind": "production", "params": {"m": 512, "n": 512}, "provenance": "sample"},
        {"id": "off-by-one", "kind": "regression", "params": {"m": 65, "n": 511}},
        {"id": "single", "kind": "regression", "params": {"m": 1, "n": 1}},
    ]
    return {
        "schema_id": "infer-forge/kernel-task/1", "name": name, "operation": operation, "destination_passing": True, "rows": rows,
        "tolerances": {"atol": 1e-6, "rtol": 1e-5},
        "claim": {"kind": "kernel_task", "text": ""},
    }  # fmt: skip


def new(folder: str | Path, name: str | None = None, operation: str = "silu_and_mul") -> Report:
    """Make a sample task in a folder that does not exist yet or is empty.

    Raises:
        UsageFault: the folder has something in it.
    """
    from infer_forge.kernel_task.model import KernelTask

    place = Path(folder)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise UsageFault("is not an empty folder", where=str(place), next_step="name a new folder")
    title = name or place.resolve().name
    task = KernelTask.model_validate(_task(title, operation))
    files = {
        TASK: jsonio.dumps(task.model_dump(mode="json"), indent=True).decode() + "\n",
        "adapter.py": _ADAPTER,
        "reference.py": _REFERENCE,
        "baseline.py": _KERNEL.format(title="The kernel to beat, as upstream has it."),
        "candidate.py": _KERNEL.format(title="The candidate. It begins as the baseline."),
        "README.md": _README.format(name=title),
    }
    for file, text in files.items():
        jsonio.write_atomic(place / file, text)
    report = Report("kernel_new", header=Header(inputs=[InputFile.of(place / TASK)]))
    report.add(Table("files", ["file"], [(str(place / f),) for f in files]))
    report.summary = [f"kernel task {title!r} in {place}: it runs as it is; put your own kernel in"]
    report.next_step = f"infer-forge kernel-task run {place}"
    return report
