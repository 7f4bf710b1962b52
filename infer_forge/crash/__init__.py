"""Logs, dumps and coredumps become one verdict; the recorder."""

from typing import TYPE_CHECKING

from infer_forge.base.lazy import attach

if TYPE_CHECKING:
    from infer_forge.crash.model import CERTAINTIES, Context
    from infer_forge.crash.page import write_page
    from infer_forge.crash.triaging import triage

__all__ = ["CERTAINTIES", "Context", "triage", "write_page"]

__getattr__, __dir__ = attach(
    __name__,
    {"triage": "triaging", "write_page": "page", "Context": "model", "CERTAINTIES": "model"},
)
