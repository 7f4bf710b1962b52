"""D35 to D38: what the reviewer said, what its logs hold, whether the mainline advances, and our own evidence of the round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_forge.base.errors import ForgeError
from infer_forge.campaign.rlcr import findings, pages
from infer_forge.campaign.rlcr.loops import Loop
from infer_forge.campaign.rlcr.model import Case, Rule, Seen, absent, good, rules_data, unclear, wrong

if TYPE_CHECKING:
    from infer_forge.campaign.book import Campaign

OPEN = "infer-forge campaign record round-open --set claim_id=ID --set epoch=N --set query=WORDS"
"""A round of the loop is a round of the campaign."""


def _review_faults(loop: Loop) -> tuple[list[str], list[str]]:
    """(faults, reviews without a result): stale results, missing or double verdicts."""
    faults, waiting = list[str](), list[str]()
    done = loop.build_finish_round
    prompts, results = loop.numbers("review-prompt"), loop.numbers("review-result")
    for number in sorted({*prompts, *results}):
        coding = done is None or number <= done
        if number not in results:
            if coding:
                waiting.append(f"round {number} has no result")
            continue
        result, prompt = loop.file(number, "review-result"), loop.file(number, "review-prompt")
        if number in prompts and result.stat().st_mtime < prompt.stat().st_mtime:
            faults.append(f"the result of round {number} is older than its prompt: the reviewer never wrote it")
        text = loop.text(result.name) or ""
        found = pages.verdicts(text)
        stopped = pages.last_word(text) == "STOP"
        if not text.strip():
            faults.append(f"the result of round {number} is empty")
        elif coding and len(found) != 1 and not (stopped and not found):
            faults.append(f"the result of round {number} carries {len(found)} verdicts")
    return faults, waiting


def d35_review(case: Case) -> Seen:
    """Review results against their prompts."""
    loop = case.loop
    if loop is None:
        return absent("no loop")
    if not loop.numbers("review-prompt"):
        return absent("no review yet")
    faults, waiting = _review_faults(loop)
    if faults:
        return wrong(
            "; ".join(faults[:3]),
            "delete a stale result and end the turn again; a review without a verdict is repeated",
        )
    if waiting:
        return unclear("; ".join(waiting), "read the reviewer's log in the cache folder: did codex run at all?")
    return good(f"{len(loop.numbers('review-result'))} reviews")


def d36_log(case: Case) -> Seen:
    """The reviewer's logs, whole."""
    loop = case.loop
    if loop is None:
        return absent("no loop")
    begun = bool(loop.state and loop.state.flag("review_started")) or loop.build_finish_round is not None
    folder = findings.cache_folder(case.checkout, loop.folder.name, case.environ, case.user_home)
    logs = findings.logs_in(folder) if folder else {}
    if not logs:
        return (
            unclear(
                "no log of a code review is kept",
                "look for it under $XDG_CACHE_HOME/humanize, or review the commits again",
            )
            if begun
            else absent("no code review yet")
        )
    lost = [
        f
        for number, log in logs.items()
        for f in findings.missed(findings.scan(log, number), loop.text(loop.file(number, "review-result").name))
    ]
    if lost:
        told = "; ".join(f"round {f.round}, line {f.line}: {f.text[:80]}" for f in lost[:3])
        unseen = sum(not f.hook_sees for f in lost)
        why = f"{unseen} of them outside of what the hook reads"
        return wrong(
            f"{len(lost)} findings that no result holds ({why}): {told}",
            "answer each of them as if the review had blocked",
        )
    return good(f"{len(logs)} logs read whole")


def d37_mainline(case: Case) -> Seen:
    """Stall counter and drift."""
    loop, data = case.loop, rules_data()
    state = loop.state if loop else None
    if loop is None or state is None:
        return absent("no state file")
    count, drift = state.number("mainline_stall_count"), state.text("drift_status")
    if count is None:
        return unclear("the counter cannot be read", "see D19")
    results = [
        n for n in loop.numbers("review-result") if loop.build_finish_round is None or n <= loop.build_finish_round
    ]
    said = pages.verdicts(loop.text(loop.file(results[-1], "review-result").name) or "") if results else []
    noted = state.text("last_mainline_verdict")
    if len(said) == 1 and said[0].lower() != noted:
        return wrong(
            f"the last review says {said[0].lower()}, the state file {noted}",
            "the state file was edited, or the review is stale; see D35",
        )
    if count >= int(data["stall_replan"]) or drift == "replan_required":
        return wrong(
            f"{count} rounds without progress, {drift}",
            "write another objective and route; the third such round stops the loop",
        )
    return good(f"{noted}, {count} stalled rounds")


def _attempt_faults(case: Case, campaign: Campaign) -> list[tuple[str, str]]:
    """(what, fix) for a change of this round that the ledger does not carry whole."""
    opened = campaign.last("round_open")
    attempts, head = campaign.in_round("attempt"), case.tree.head
    if opened is None:
        return []
    if not attempts and head is not None and head != opened["checkout"]["commit"]:
        return [
            (f"commit {head[:12]} has no recorded attempt", "infer-forge campaign record attempt comes before a change")
        ]
    done = {str(r["attempt"]) for r in campaign.of("result")}
    faults = [
        (f"attempt {a.id} has no result", f"infer-forge campaign record result --set attempt={a.id} ...")
        for a in attempts
        if a.id not in done
    ]
    needed = (
        (("fairness", "fairness"), ("root_cause", "root-cause"), ("layer_pipeline", "layer-pipeline"))
        if attempts
        else ()
    )
    faults += [
        (f"no {word} report of this round", f"infer-forge campaign report {word}")
        for kind, word in needed
        if not campaign.in_round(kind)
    ]
    return faults


def d38_evidence(case: Case) -> Seen:
    """The campaign's own gates of a round (claim, journal, guard, gap, contract), and what a change of this round must have."""
    if case.campaign is None:
        return unclear("no campaign is named", "name its run directory with --run DIR")
    from infer_forge.campaign import gates

    begun, number = len(case.campaign.of("round_open")), case.loop.round if case.loop else None
    if number is not None and begun < number + 1:
        return wrong(f"round {number} of the loop, and {begun} rounds of the campaign were opened", OPEN)
    try:
        made = gates.check(case.campaign, ["contract", "round"])
    except ForgeError as fault:
        return unclear(fault.what, fault.next_step or "")
    bad = [(f"{c.rule}: {c.evidence}", c.fix) for c in made if c.result in ("fail", "unknown")] + _attempt_faults(
        case, case.campaign
    )
    if bad:
        return wrong("; ".join(what for what, _ in bad[:4]), bad[0][1] or "infer-forge campaign check --phase round")
    return good(f"{sum(c.result == 'pass' for c in made)} gates pass")


RULES: dict[str, Rule] = {"D35": d35_review, "D36": d36_log, "D37": d37_mainline, "D38": d38_evidence}
"""Rule id -> what looks."""
