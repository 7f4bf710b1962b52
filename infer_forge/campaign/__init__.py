"""The SOTA loop as a campaign: one run directory, one ledger, gates that refuse.

A campaign is a task, its benchmark contract the task's contract, a round a loop block. Verbs: `init`, `open_campaign`,
`lock_contract`, `lock_baseline`, `record`, `measure`, `write_report`, `review`, `stop`; `check_report`, `status_report`,
`next_report`, `coverage_report`, `pull_request`, `stop_verdict`.
"""

from typing import TYPE_CHECKING

from infer_forge.base.lazy import attach

if TYPE_CHECKING:
    from infer_forge.campaign.advice import next_report
    from infer_forge.campaign.begin import init
    from infer_forge.campaign.book import Campaign, open_campaign
    from infer_forge.campaign.coverage import coverage_report
    from infer_forge.campaign.gates import check_report
    from infer_forge.campaign.locking import lock_baseline, lock_contract
    from infer_forge.campaign.recording import record
    from infer_forge.campaign.reports import write_report
    from infer_forge.campaign.reviewing import pull_request
    from infer_forge.campaign.status import status_report
    from infer_forge.campaign.stopping import stop, stop_verdict

__all__ = [
    "Campaign",
    "check_report",
    "coverage_report",
    "init",
    "lock_baseline",
    "lock_contract",
    "next_report",
    "open_campaign",
    "pull_request",
    "record",
    "status_report",
    "stop",
    "stop_verdict",
    "write_report",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "Campaign": "book",
        "check_report": "gates",
        "coverage_report": "coverage",
        "init": "begin",
        "lock_baseline": "locking",
        "lock_contract": "locking",
        "next_report": "advice",
        "open_campaign": "book",
        "pull_request": "reviewing",
        "record": "recording",
        "status_report": "status",
        "stop": "stopping",
        "stop_verdict": "stopping",
        "write_report": "reports",
    },
)
