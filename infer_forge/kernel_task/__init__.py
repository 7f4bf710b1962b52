"""Kernel tasks: make one, measure it so that tricks show, and audit it (or a serving result) against reward hacking."""

from typing import TYPE_CHECKING

from infer_forge.base.lazy import attach

if TYPE_CHECKING:
    from infer_forge.kernel_task.audit_folder import audit
    from infer_forge.kernel_task.harness import compare
    from infer_forge.kernel_task.model import KernelTask, task_schema
    from infer_forge.kernel_task.new_task import new
    from infer_forge.kernel_task.run_task import run


__all__ = ["KernelTask", "audit", "compare", "new", "run", "task_schema"]

__getattr__, __dir__ = attach(
    __name__,
    {
        "new": "new_task",
        "run": "run_task",
        "audit": "audit_folder",
        "compare": "harness",
        "task_schema": "model",
        "KernelTask": "model",
    },
)
