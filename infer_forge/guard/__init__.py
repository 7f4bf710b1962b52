"""Safety guard: decides on commands before they run, scans artifacts for secrets, and keeps grants to people.

It is no sandbox: see docs/guard.md.
"""

from infer_forge.base.lazy import attach

__getattr__, __dir__ = attach(
    __name__,
    {
        "check": "judge",
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
