"""Kernel tasks: make one, measure it so that tricks show, and audit it (or a serving result) against reward hacking."""

from infer_forge.base.lazy import attach

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
