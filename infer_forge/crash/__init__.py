"""Logs, dumps and coredumps become one verdict; the recorder.

`recorder.record` is a decorator for code of one's own; everything else here is a verb of `infer-forge crash`.
"""

from typing import TYPE_CHECKING

from infer_forge.base.lazy import attach

if TYPE_CHECKING:
    from infer_forge.crash.collecting import collect, resend
    from infer_forge.crash.explaining import explain
    from infer_forge.crash.model import CERTAINTIES, Context
    from infer_forge.crash.page import write_page
    from infer_forge.crash.planning import plan_runs
    from infer_forge.crash.recording import run_recorded
    from infer_forge.crash.replaying import replay
    from infer_forge.crash.triaging import triage
    from infer_forge.crash.verifying import verify

__all__ = [
    "CERTAINTIES",
    "Context",
    "collect",
    "explain",
    "plan_runs",
    "replay",
    "resend",
    "run_recorded",
    "triage",
    "verify",
    "write_page",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "triage": "triaging",
        "run_recorded": "recording",
        "replay": "replaying",
        "plan_runs": "planning",
        "verify": "verifying",
        "collect": "collecting",
        "resend": "collecting",
        "explain": "explaining",
        "write_page": "page",
        "Context": "model",
        "CERTAINTIES": "model",
    },
)
