"""`campaign status`: the five questions that must survive a lost chat, in under 1,200 characters (C37)."""

from __future__ import annotations

from infer_forge.base.records import Report
from infer_forge.campaign import gates, verdicts
from infer_forge.campaign.advice import next_step
from infer_forge.campaign.book import Campaign

MOST = 1200
LONGEST_COMMAND = 500
"""A longer next command is not shown whole: half a command that looks whole would be run."""


def _best(campaign: Campaign) -> str:
    gap, best = verdicts.current(campaign), verdicts.best_measurement(campaign)
    what = (
        f"commit {str(best['commit'])[:12]} ({best.id})"
        if best
        else "the baseline winner"
        if campaign.baseline
        else "none yet"
    )
    if gap is None:
        return what
    shown = [
        f"{s['scenario']} {s['verdict']}"
        + (f" {s['mean_pct']:+.1f} % vs {s['against']}" if s["mean_pct"] is not None else "")
        for s in gap["scenarios"]
    ]
    more = f", and {len(shown) - 3} more" if len(shown) > 3 else ""
    return f"{what}; {'; '.join(shown[:3])}{more}"


def _failed(campaign: Campaign) -> str:
    gone = [r for r in campaign.of("result") if r["outcome"] != "accepted"]
    told = [f"{_title(campaign, str(r['attempt']))[:40]}: {str(r['reason'])[:50]}" for r in gone[-3:]]
    dismissed = len(campaign.of("dismissal"))
    return (
        ("; ".join(told) or "none")
        + (f"; {len(gone) - 3} older" if len(gone) > 3 else "")
        + (f"; {dismissed} dismissed" if dismissed else "")
    )


def _title(campaign: Campaign, attempt: str) -> str:
    found = campaign.find(attempt)
    return str(found["title"]) if found else attempt


def _ncu(campaign: Campaign) -> str:
    last = campaign.last("ncu")
    if last is None:
        return "none"
    return f"{str(last['kernel'])[:60]} ({last['share_pct']:.1f} % of the stage), {'blocked' if last['blocked'] else 'digest'} {last.id}"


def _fixed(campaign: Campaign) -> str:
    answers = [gates.look(campaign, i) for i in ("chain", "A31", "A51", "A65")]
    wrong = [c for c in answers if c.result == "fail"]
    if wrong:
        return f"NO: {wrong[0].rule} {wrong[0].evidence}"[:200]
    return f"yes, contract {campaign.contract[1][:12]}" if campaign.contract and campaign.baseline else "not locked yet"


def _stop(campaign: Campaign) -> str:
    stop = campaign.last("stop")
    if stop is not None:
        return f"stopped: {stop['code']}"
    if campaign.baseline is None:
        return "ahead (A150), stable tie (A151), external limit (A152), near the limit (A153); else a blocked handoff"
    from infer_forge.campaign.stopping import judge

    met = [c for c in ("A150", "A151", "A153") if judge(campaign, c)[0] == "pass"]
    return f"now, with {met[0]}" if met else "not yet: A150 to A153 none met; else a blocked handoff"


def status_report(campaign: Campaign) -> Report:
    """The answer of `campaign status`."""
    step = next_step(campaign)
    answers = {
        "best candidate": _best(campaign),
        "failed directions": _failed(campaign),
        "last NCU result": _ncu(campaign),
        "benchmark matches the baseline": _fixed(campaign),
        "stop when": _stop(campaign),
    }
    head = f"{campaign.layout.run.name}: {campaign.state}, round {campaign.round_number}{' open' if campaign.round else ''}"
    whole = len(step.command) <= LONGEST_COMMAND
    told = step.command if whole else f"{step.command[:LONGEST_COMMAND]}… (whole: infer-forge campaign next)"
    lines = [head, *(f"{q}: {a}" for q, a in answers.items()), f"next: {told}"]
    while sum(map(len, lines)) + len(lines) > MOST:
        longest = max(range(len(lines) - 1), key=lambda i: len(lines[i]))
        lines[longest] = lines[longest][: len(lines[longest]) * 3 // 4 - 1] + "…"
    report = Report("campaign_status", summary=lines[:-1])
    report.text = "\n".join(lines)
    report.extra = {
        "state": campaign.state,
        "round": campaign.round_number,
        "round_open": campaign.round is not None,
        "answers": answers,
        "run": str(campaign.layout.run),
        "task": campaign.task_id,
    }
    report.next_step = step.command
    return report
