"""The end of the campaign's task: its stop code becomes evidence, then a deliverable or a follow-up handoff."""

from __future__ import annotations

from infer_forge.base import jsonio
from infer_forge.base.errors import GateRefused
from infer_forge.campaign.book import Campaign


def deliver_or_hand_off(campaign: Campaign) -> tuple[str, str]:
    """End the task: (status, why). A stop that the task room does not take as a deliverable leaves the task open, and says why."""
    from infer_forge.tasks import add_evidence, deliver, handoff, load, open_store

    stop = campaign.last("stop")
    assert stop is not None
    place = campaign.layout.final_report
    data = {"code": stop["code"], "complete": stop["complete"], "record": stop.id}
    fact = {
        "kind": "campaign_stop",
        "path": str(place),
        "sha256": jsonio.sha256_file(place),
        "trust": "observed",
        "data": data,
    }
    with open_store() as store:
        task = load(store, campaign.task_id)
        if task.ended:
            return task.status, "it had ended"
        if not any(e.kind == "campaign_stop" for e in task.evidence):
            add_evidence(store, campaign.task_id, fact, label="campaign stop")
        told = f"campaign {campaign.layout.run.name} stopped with {stop['code']}: {stop['evidence'][0]}"[:400]
        if stop["complete"] and task.lock is not None:
            try:
                return deliver(store, campaign.task_id, told).status, told
            except GateRefused as fault:
                return "open", f"{fault.what}"
        blocker = campaign.last("blocker")
        needs = blocker["needs"] if blocker else "see the final report"
        entry = f"infer-forge campaign status --run {campaign.layout.run}; needed: {needs}"
        ended = handoff(store, campaign.task_id, told, entry, open_questions=[str(blocker["what"])] if blocker else [])
        return ended.status, told
