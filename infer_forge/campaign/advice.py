"""`campaign next`: exactly one next step, computed from what is recorded, with the command that does it."""

from __future__ import annotations

from infer_forge.base.records import Report
from infer_forge.campaign import advice_attempt, advice_round, advice_start, budgets, gates, verdicts
from infer_forge.campaign.book import Campaign
from infer_forge.campaign.steps import Step, command, handoff, record

__all__ = ["Step", "next_report", "next_step"]


def next_step(campaign: Campaign) -> Step:
    """The one next step."""
    chain = gates.look(campaign, "chain")
    if chain.result == "fail":
        return command("campaign check", campaign, "", f"the ledger cannot be trusted: {chain.evidence}")
    for find in (
        _stopped,
        advice_start.before_contract,
        advice_start.before_baseline,
        _settled_at_once,
        advice_start.before_loop,
        _between_rounds,
        advice_attempt.in_attempt,
        advice_round.in_round,
    ):
        step = find(campaign)
        if step is not None:
            return step
    return record("round-close", campaign, "", "everything of this round is recorded")


def _stopped(campaign: Campaign) -> Step | None:
    stop = campaign.last("stop")
    if stop is None:
        return None
    if not campaign.task().ended:
        why = "it stopped, and its task has not ended yet: the same stop again ends it"
        return command("campaign stop", campaign, f"--code {stop['code']}", why)
    return _end_of_loop(campaign) or command(
        "campaign status", campaign, "", f"stopped with {stop['code']}: nothing is left to do"
    )


def _end_of_loop(campaign: Campaign) -> Step | None:
    """In mode rlcr the review loop ends by itself, and its end is judged once."""
    from infer_forge.campaign.rlcr.loops import loops_in
    from infer_forge.campaign.rlcr.memory import Memory, place_of

    loops = loops_in(campaign.checkout) if campaign.records[0]["mode"] == "rlcr" else []
    if not loops:
        return None
    last, looks = loops[-1], Memory(place_of(campaign.checkout, campaign)).of(loops[-1])
    if last.active is None and looks and last.state_file is not None and looks[-1]["file"] == last.state_file.name:
        return None
    why = "end the turn so that the Stop hook completes the review loop, then judge its end"
    return command("campaign doctor", campaign, "--moment end", why)


def _settled_at_once(campaign: Campaign) -> Step | None:
    """The baseline's verdict may be the end already."""
    return _final(campaign) if not campaign.of("plan") else None


def _final(campaign: Campaign) -> Step | None:
    from infer_forge.campaign.stopping import judge

    for code in ("A150", "A151"):
        if judge(campaign, code)[0] != "pass":
            continue
        unreviewed = _unreviewed(campaign)
        if unreviewed:
            words = f"--result {unreviewed} --reviewer NAME --json FILE"
            return command("campaign review", campaign, words, "an accepted change needs its nine-point review")
        if gates.look(campaign, "A69").result == "fail":
            return record(
                "cleanup", campaign, "", "stop what this run started, with the machine's state before and after"
            )
        last = campaign.last("final")
        gap = verdicts.current(campaign)
        if last is None or last["code"] != code or (gap is not None and last["gap"] != gap.id):
            return command(
                "campaign report final", campaign, f"--code {code}", f"{code} is met: write the final report"
            )
        return command("campaign stop", campaign, f"--code {code}", "the final report stands: stop")
    return None


def _unreviewed(campaign: Campaign) -> str | None:
    done = {str(r["result"]) for r in campaign.of("review") if r["verdict"] == "pass"}
    return next((r.id for r in campaign.of("result") if r["outcome"] == "accepted" and r.id not in done), None)


def _between_rounds(campaign: Campaign) -> Step | None:
    if campaign.round is not None:
        return None
    done = _final(campaign)
    if done is not None:
        return done
    used, last = budgets.exhausted(campaign), campaign.last("round_close", "plan", "baseline_lock")
    if used is not None:
        return handoff(campaign, last.number if last else 0, used)
    return advice_round.open_round(campaign)


def next_report(campaign: Campaign) -> Report:
    """The answer of `campaign next`."""
    step = next_step(campaign)
    report = Report("campaign_next", summary=[step.why], next_step=step.command)
    report.extra = {"command": step.command, "why": step.why, "state": campaign.state}
    report.text = f"{step.why}\n{step.command}"
    return report
