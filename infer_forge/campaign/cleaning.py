"""End what this run started, by record and proof, with the machine's state before and after (A67 to A70)."""

from __future__ import annotations

from typing import Any

from infer_forge.base import ownership
from infer_forge.base.machine import compare, snapshot
from infer_forge.campaign.book import Campaign


def clean(campaign: Campaign) -> dict[str, Any]:
    """Stop the engines that this run's records prove, nothing else; what else is owned and still lives is only named.

    Gives the state of processes and GPUs before and after, what was stopped, and what changed.
    """
    from infer_forge.bench.driver import orphans

    before = snapshot()
    stopped = orphans(campaign.layout.bench)
    after = snapshot()
    run = ownership.load().runs.get(str(campaign.records[0]["run_id"]))
    left = [o.target for o in run.owned if o.kind == "pid" and o.holds()] if run else []
    return {
        "stopped": stopped,
        "left": left,
        "before": before.to_json(),
        "after": after.to_json(),
        "changes": compare(before, after),
    }
