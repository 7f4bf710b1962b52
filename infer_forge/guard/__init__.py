"""Safety guard: decides on commands before they run, scans artifacts for secrets, and leaves grants to people.

`check` decides on a shell text, `check_with` with a policy at hand, `check_to_run` for who runs it at once; `scan` and
`redact_file` look through artifacts; `prove` and `refresh` establish what a run owns; `status` and `explain` tell people;
`compile_policy` makes what the hook reads; `hook_entries` and `canary` are for install and doctor; `review_allowed` says
whether a model may review another's work. It is no sandbox: see docs/guard.md.
"""

from typing import TYPE_CHECKING

from infer_forge.base.lazy import attach

if TYPE_CHECKING:
    from infer_forge.guard.artifacts import redact_file, scan
    from infer_forge.guard.catalogue import explain, review_allowed, status
    from infer_forge.guard.context import Context
    from infer_forge.guard.decide import check_with
    from infer_forge.guard.hook_config import canary, hook_entries
    from infer_forge.guard.judge import check, check_to_run
    from infer_forge.guard.model import Verdict
    from infer_forge.guard.policy import compile_policy
    from infer_forge.guard.proofs import prove, refresh


__all__ = [
    "Context",
    "Verdict",
    "canary",
    "check",
    "check_to_run",
    "check_with",
    "compile_policy",
    "explain",
    "hook_entries",
    "prove",
    "redact_file",
    "refresh",
    "review_allowed",
    "scan",
    "status",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "check": "judge",
        "check_to_run": "judge",
        "check_with": "decide",
        "Verdict": "model",
        "Context": "context",
        "scan": "artifacts",
        "redact_file": "artifacts",
        "prove": "proofs",
        "refresh": "proofs",
        "explain": "catalogue",
        "status": "catalogue",
        "compile_policy": "policy",
        "hook_entries": "hook_config",
        "canary": "hook_config",
        "review_allowed": "catalogue",
    },
)
