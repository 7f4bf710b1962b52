"""Node registry: provable claims on GPU nodes in a git-backed ledger, observations, fail-closed clean-up.

It is no scheduler: it starts nothing and stops nothing. A claim says who holds which GPUs of a node for which task, with
an epoch that grows by one at each claim of that node and is never used again; order is commit ancestry alone. Collectors
record what runs. A claim becomes eligible for clean-up only when fresh, gap-free observations by a registered collector
show runtime and GPUs idle for the policy's whole window; clean-up is a separate, explicit act that removes the claim and
nothing else; and freed GPUs must be probed again before the next claim.
"""

from typing import TYPE_CHECKING

from infer_forge.base.lazy import attach

if TYPE_CHECKING:
    from infer_forge.nodes.claims import check_epoch, claim, mark, release
    from infer_forge.nodes.collector import collect
    from infer_forge.nodes.eligibility import cleanup, eligible
    from infer_forge.nodes.looking import observe
    from infer_forge.nodes.probing import verify
    from infer_forge.nodes.registry import Registry, set_policy
    from infer_forge.nodes.reports import history, policy_report, status
    from infer_forge.nodes.retention import gc
    from infer_forge.nodes.states import evaluate


__all__ = [
    "Registry",
    "check_epoch",
    "claim",
    "cleanup",
    "collect",
    "eligible",
    "evaluate",
    "gc",
    "history",
    "mark",
    "observe",
    "policy_report",
    "release",
    "set_policy",
    "status",
    "verify",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "Registry": "registry",
        "claim": "claims",
        "release": "claims",
        "mark": "claims",
        "check_epoch": "claims",
        "eligible": "eligibility",
        "cleanup": "eligibility",
        "verify": "probing",
        "observe": "looking",
        "collect": "collector",
        "status": "reports",
        "history": "reports",
        "policy_report": "reports",
        "set_policy": "registry",
        "gc": "retention",
        "evaluate": "states",
    },
)
