"""The end of a loop: its terminal name against the campaign's stop code, and what was never reviewed."""

from __future__ import annotations

from infer_forge.campaign.rlcr.model import Case, Rule, Seen, absent, good, unclear, wrong

COMPLETE_CODES = ("A150", "A151", "A152", "A153")
"""Stop codes that count as complete."""

_MEANS = {
    "stop": "the reviewer or the stall counter stopped it",
    "maxiter": "it ran out of rounds, and its last commit was never reviewed",
    "cancel": "somebody cancelled it",
    "unexpected": "its state file could not be read, and the hook let everything pass: an alarm",
}


def end1_name(case: Case) -> Seen:
    """Terminal name."""
    loop = case.loop
    if loop is None:
        return wrong("there is no loop", "start it, or end the campaign as a handoff")
    running = [f"{item.folder.name}/{item.active}" for item in case.loops if item.active]
    if running:
        return wrong(f"still active: {', '.join(running)}", "end the turn and let the hook review")
    if loop.ended_as == "complete" and len(loop.terminals) == 1:
        return good(loop.terminals[0])
    if loop.ended_as is None:
        return wrong("no terminal state file", "a state file was removed by hand: report it")
    if len(loop.terminals) > 1:
        return wrong(f"several ends: {', '.join(loop.terminals)}", "one was made by hand: report it")
    return wrong(
        f"{loop.ended_as}: {_MEANS[loop.ended_as]}", "not complete: hand off with what was tried and what is needed"
    )


def end2_code(case: Case) -> Seen:
    """Stop code against terminal name."""
    loop = case.loop
    if case.campaign is None:
        return unclear("no campaign is named", "name its run directory with --run DIR")
    stop = case.campaign.last("stop")
    ended = loop.ended_as if loop else None
    if stop is None:
        return wrong("the campaign has no stop code", "infer-forge campaign stop-check")
    code = str(stop.get("code"))
    if code in COMPLETE_CODES and ended != "complete":
        return wrong(f"{code} says complete, the loop ended as {ended}", "finish the review, or record the handoff")
    if code not in COMPLETE_CODES:
        return wrong(f"{code}: a blocked handoff, not complete", "report it as such")
    return good(f"{code}, {ended}")


def end3_reviewed(case: Case) -> Seen:
    """Whether anything after the last review is unreviewed."""
    loop = case.loop
    if loop is None or loop.ended_as is None:
        return absent("the loop has not ended")
    if loop.ended_as == "maxiter":
        return wrong(f"round {loop.round} was never reviewed", "review its commits, or leave them out")
    if loop.ended_as == "unexpected":
        return wrong("nothing tells which round was reviewed last", "review every commit since the base")
    if loop.ended_as != "complete":
        return absent(f"it ended as {loop.ended_as}")
    if not loop.numbers("review-prompt"):
        return wrong("there is no review at all", "review every commit since the base")
    return good(f"last review: round {loop.numbers('review-prompt')[-1]}")


RULES: dict[str, Rule] = {"end-1": end1_name, "end-2": end2_code, "end-3": end3_reviewed}
"""Rule id -> what looks."""
