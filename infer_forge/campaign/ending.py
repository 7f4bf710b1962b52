"""The end of the campaign's task: a recorded run of the stop check is its evidence; then a deliverable or a follow-up handoff."""

from __future__ import annotations

import sys

from infer_forge.campaign.book import Campaign


def end_task(campaign: Campaign) -> str:
    """End the task and give its status; a task that has ended stays as it is.

    Raises:
        GateRefused: the task room does not take it for a deliverable; the message says why.
    """
    from infer_forge.tasks import close_block, deliver, handoff, load, open_store, record

    stop = campaign.last("stop")
    assert stop is not None
    run = str(campaign.layout.run)
    told = f"campaign {campaign.layout.run.name} stopped with {stop['code']}: {stop['evidence'][0]}"[:400]
    with open_store() as store:
        task = load(store, campaign.task_id)
        if task.ended:
            return task.status
        if not stop["complete"] or task.lock is None:
            if task.active_block is not None:
                close_block(store, campaign.task_id, "blocked", "stalled", told)
            blocker = campaign.last("blocker")
            needs = blocker["needs"] if blocker else "see the final report"
            entry = f"infer-forge campaign status --run {run}; needed: {needs}"
            questions = [str(blocker["what"])] if blocker else []
            return handoff(store, campaign.task_id, told, entry, open_questions=questions).status
        out = campaign.layout.run / "analysis" / "stop-check.json"
        words = ["campaign", "stop-check", "--run", run, "--format", "json", "--out", str(out)]
        argv = [sys.executable, "-m", "infer_forge", *words]
        record(store, campaign.task_id, argv, label="campaign stop", evidence=[("campaign", out)], cwd=run, again=True)
        return deliver(store, campaign.task_id, told).status
