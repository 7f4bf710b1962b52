"""The profile room: a torch-profiler trace becomes the kernel, overlap and fuse tables, and says why the device was idle.

Verbs: `triage(paths, options) -> Report`, `compare(a, b, options) -> Report`, `write_page(report, path)`.
"""

from infer_forge.base.lazy import attach

__getattr__, __dir__ = attach(
    __name__,
    {"Options": "model", "triage": "report", "compare": "side_by_side", "write_page": "picture"},
)
