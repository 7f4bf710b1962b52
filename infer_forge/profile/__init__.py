"""The profile room: a torch-profiler trace becomes the kernel, overlap and fuse tables, and says why the device was idle.

Verbs: `triage(paths, options) -> Report`, `compare(a, b, options) -> Report`, `write_page(report, path)`.
"""

from typing import TYPE_CHECKING

from infer_forge.base.lazy import attach

if TYPE_CHECKING:
    from infer_forge.profile.model import Options
    from infer_forge.profile.picture import write_page
    from infer_forge.profile.report import triage
    from infer_forge.profile.side_by_side import compare


__all__ = ["Options", "compare", "triage", "write_page"]

__getattr__, __dir__ = attach(
    __name__,
    {"Options": "model", "triage": "report", "compare": "side_by_side", "write_page": "picture"},
)
