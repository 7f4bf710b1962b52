"""What a campaign may spend and has spent: rounds and minutes of its task, minutes and GPU hours of its contract."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infer_forge.campaign.book import Campaign


def launch_hours(campaign: Campaign) -> float:
    """Hours in which launches of this contract ran, searched and measured, whole and failed.

    A launch that was cut off has no recorded end, so that its time is not in the sum.
    """
    from infer_forge.bench.ledger_rows import RowStore

    if campaign.contract is None or not campaign.layout.bench.rows.exists():
        return 0.0
    ends: list[dict[str, Any]] = RowStore(campaign.layout.bench.rows).events("launch_ends")
    return sum(float(e["seconds"]) for e in ends if e["contract_hash"] == campaign.contract[1]) / 3600


def exhausted(campaign: Campaign) -> str | None:
    """Which budget lets no further round begin, in words; None when none does. What a person added to the task counts."""
    most = campaign.task().most_blocks
    if campaign.round_number >= most:
        return f"the budget of {most} rounds is used up"
    return spent(campaign)


def spent(campaign: Campaign) -> str | None:
    """The same of time alone (minutes of the task, minutes and GPU hours of the contract), which can end inside a round."""
    task = campaign.task()
    age = datetime.now(timezone.utc) - datetime.fromisoformat(task.created_at.replace("Z", "+00:00"))
    if age.total_seconds() / 60 > task.most_minutes:
        return f"the task's budget of {task.most_minutes} minutes is used up"
    return _of_contract(campaign)


def _of_contract(campaign: Campaign) -> str | None:
    if campaign.contract is None:
        return None
    contract, hours = campaign.contract[0], launch_hours(campaign)
    minutes, gpu_hours = contract.budgets.max_minutes, contract.budgets.max_gpu_hours
    if minutes is not None and 60 * hours >= minutes:
        return f"the contract's budget of {minutes:g} minutes of launches is used up ({60 * hours:.1f})"
    gpus = contract.point.accelerator_platform.gpu_count
    if gpu_hours is None or gpus is None:
        return None
    spent = hours * gpus
    return f"the contract's budget of {gpu_hours:g} GPU hours is used up ({spent:.2f})" if spent >= gpu_hours else None
