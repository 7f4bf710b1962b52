"""The end of the campaign's task: a recorded run of the stop check is its evidence; then a deliverable or a follow-up handoff."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base.errors import MissingPart
from infer_forge.campaign.book import Campaign

if TYPE_CHECKING:
    from infer_forge.tasks.state import Task

LABEL = "campaign stop"
"""Label of the recorded run that a deliverable stands on."""


def stop_argv(run: Path) -> list[str]:
    """The one command whose recorded run shows that a campaign stopped, with the file that it writes as its last word."""
    words = ["campaign", "stop-check", "--run", str(run), "--format", "json"]
    return [sys.executable, "-m", "infer_forge", *words, "--out", str(run / "analysis" / "stop-check.json")]


def acceptance(run: Path) -> list[dict[str, Any]]:
    """What a deliverable of the campaign's task needs: that command, run by us, ended with 0 and told one of four codes.

    The command is pinned, so that no other file of the same kind and no other command under the same label is taken for it.
    """
    command = shlex.join(stop_argv(run))
    told = {"selector": {"evidence": "campaign", "command": command}, "field": "code", "minimum_trust": "observed"}
    return [
        {"kind": "verdict_is", **told, "value": ["A150", "A151", "A152", "A153"]},
        {"kind": "exit_is", "selector": {"label": LABEL, "command": command}, "value": 0},
    ]


def _pinned(task: Task, run: Path) -> list[str]:
    """The command as the task's lock has it: the run may have been opened under another name of its folder."""
    lines = (p.selector.command for p in task.typed.contract.acceptance)
    return next((shlex.split(line) for line in lines if line), stop_argv(run))


def end_task(campaign: Campaign) -> str:
    """End the task and give its status; a task that has ended stays as it is.

    Raises:
        GateRefused: the task room does not take it for a deliverable; the message says why.
        MissingPart: the Python that the task's lock names is not here any more.
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
        argv = _pinned(task, campaign.layout.run)
        if not os.access(argv[0], os.X_OK):
            raise MissingPart(
                f"{argv[0]} is not here, and the task is locked to it: infer-forge ran there when the campaign began",
                where=campaign.task_id,
                next_step="install infer-forge there again and repeat this stop, or end its task with "
                f"infer-forge task handoff {campaign.task_id} --done TEXT --next TEXT",
            )
        out = Path(argv[-1])
        record(store, campaign.task_id, argv, label=LABEL, evidence=[("campaign", out)], cwd=run, again=True)
        return deliver(store, campaign.task_id, told).status
