"""Nsight Compute reports -> metrics -> diagnosis -> digest with exactly one next edit.

`digest` reads one report (`.ncu-rep`, `.ncu-repz`, `ncu --csv`, the text details page) and judges its kernels; `compare`
holds a candidate against a baseline; `plan` says how to collect; `check_log` explains a collection that failed;
`load` gives the launches and metrics alone; `lint_digest` checks a stored digest.
"""

from typing import TYPE_CHECKING

from infer_forge.base.lazy import attach

if TYPE_CHECKING:
    from infer_forge.ncu.checklog import check_log
    from infer_forge.ncu.collection import plan
    from infer_forge.ncu.comparison import compare
    from infer_forge.ncu.lint import lint_digest
    from infer_forge.ncu.read import load
    from infer_forge.ncu.report import digest


__all__ = ["check_log", "compare", "digest", "lint_digest", "load", "plan"]

__getattr__, __dir__ = attach(
    __name__,
    {
        "digest": "report",
        "compare": "comparison",
        "load": "read",
        "plan": "collection",
        "check_log": "checklog",
        "lint_digest": "lint",
    },
)
