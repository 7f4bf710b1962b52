"""D26 to D38: what must hold at each round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infer_forge.base import jsonio
from infer_forge.base.errors import ForgeError
from infer_forge.campaign.rlcr import findings, pages
from infer_forge.campaign.rlcr.after import STOP, d23_plan
from infer_forge.campaign.rlcr.loops import Loop
from infer_forge.campaign.rlcr.model import Case, Rule, Seen, absent, good, rules_data, unclear, wrong

if TYPE_CHECKING:
    from infer_forge.campaign.book import Campaign

OPEN = "infer-forge campaign record round-open --set claim_id=ID --set epoch=N --set query=WORDS"
"""A round of the loop is a round of the campaign."""


def _looks(case: Case) -> list[dict[str, Any]]:
    return case.memory.of(case.loop) if case.loop else []


def d26_monotone(case: Case) -> Seen:
    """Round number against earlier looks and against the prompts in the folder."""
    loop = case.loop
    number = loop.round if loop else None
    if loop is None:
        return wrong("there is no loop", STOP)
    if number is None:
        return wrong("the state file tells no round", "do not go on; see D19")
    earlier = [int(look["round"]) for look in _looks(case) if look["round"] is not None]
    if earlier and number < max(earlier):
        return wrong(
            f"it stands at {number}, and stood at {max(earlier)}",
            "somebody edited the state file: end this loop and report it",
        )
    prompts = loop.numbers("prompt")
    gaps = [n for n in range(number + 1) if n not in prompts]
    if gaps:
        return wrong(
            f"round {number}, without the prompt of round {gaps[0]}",
            "the state file was edited, or prompts were removed: report it",
        )
    later = [n for n in prompts if n > number]
    if later:
        return wrong(
            f"the state file says round {number}, and there is a prompt of round {later[-1]}",
            "the state file was edited: report it",
        )
    limit = loop.state.number("max_iterations") if loop.state else None
    return good(f"round {number} of {limit}" + (f"; seen before at {earlier[-1]}" if earlier else ""))


def d27_renames(case: Case) -> Seen:
    """State files against the life of a loop."""
    loop, table = case.loop, rules_data()["renames"]
    if loop is None:
        return absent("no loop")
    if loop.state_file is None:
        return wrong("no state file at all", "a state file was removed by hand: report it")
    names = loop.active_names + loop.terminals
    if len(names) > 1:
        return wrong(f"several state files: {', '.join(names)}", "one was made by hand: report it")
    last = next((look["file"] for look in reversed(_looks(case)) if look["file"]), None)
    now = loop.state_file.name
    if last and now not in table.get(last, [last]):
        return wrong(f"{last} became {now}", "the loop itself never does that: report it")
    return good(f"{last} became {now}" if last and last != now else now)


def d28_branch(case: Case) -> Seen:
    """Branch now against the branch of the start."""
    state = case.loop.state if case.loop else None
    if state is None or not case.tree.is_repository:
        return absent("nothing to compare")
    wanted, now = state.text("start_branch"), case.tree.branch or "HEAD"
    return good(now) if now == wanted else wrong(f"it is {now}, the loop began on {wanted}", f"git switch {wanted}")


def d29_plan(case: Case) -> Seen:
    """Plan against its copy, and the copy against what was first seen."""
    loop = case.loop
    if loop is None:
        return absent("no loop")
    first = next((look["plan_sha256"] for look in _looks(case) if look["plan_sha256"]), None)
    copy = loop.text("plan.md")
    if first and copy is not None and jsonio.sha256_of(copy) != first:
        return wrong("the loop's own copy of the plan was changed", "restore plan.md; the review measures against it")
    if loop.state and loop.state.flag("review_started"):
        return good("the review has begun: the plan is no longer compared")
    return d23_plan(case)


def d30_immutable(case: Case) -> Seen:
    """The immutable section against what was first seen when it was filled in."""
    loop = case.loop
    if loop is None:
        return absent("no loop")
    tracker = pages.parse_tracker(loop.text("goal-tracker.md") or "")
    if tracker.faults:
        return wrong("; ".join(tracker.faults), "restore the goal tracker")
    if tracker.unfilled:
        if loop.round:
            return wrong("the scaffold's words still stand in it after round 0", "fill it in from the plan")
        return unclear("it is not filled in yet", "write goal, criteria and the first tasks before round 0 ends")
    first = next((look["immutable_sha256"] for look in _looks(case) if look["immutable_sha256"]), None)
    if first and first != tracker.sha256:
        return wrong(
            "goal or criteria were changed after round 0", "restore the section; a changed goal is another campaign"
        )
    return good(f"{', '.join(tracker.criteria)}" + ("" if first else "; first look"))


def _page(case: Case, what: str) -> tuple[int, str | None]:
    assert case.loop is not None
    number = case.loop.round or 0
    return number, case.loop.text(case.loop.file(number, what).name)


def d31_contract(case: Case) -> Seen:
    """Contract of the current round."""
    if case.loop is None or case.loop.round is None:
        return absent("no round to read")
    number, text = _page(case, "contract")
    if text is None:
        if case.loop.build_finish_round is not None and number > case.loop.build_finish_round:
            return absent("a review round needs none")
        return wrong(
            f"there is no round-{number}-contract.md",
            "write it before coding: objective, target criteria, what is in and out, success",
        )
    faults = pages.contract_faults(text)
    return (
        wrong(f"round {number}: {'; '.join(faults)}", "write it whole: the hook does not look inside")
        if faults
        else good(f"round {number}")
    )


def d32_summary(case: Case) -> Seen:
    """Summary of the current round."""
    if case.loop is None or case.loop.round is None:
        return absent("no round to read")
    number, text = _page(case, "summary")
    if text is None:
        return wrong(f"there is no round-{number}-summary.md", "write what was done, files, validation, what is left")
    faults = pages.summary_faults(text)
    return (
        wrong(f"round {number}: {faults[0]}", "write it: the hook does not look inside")
        if faults
        else good(f"round {number}")
    )


def d33_commit(case: Case) -> Seen:
    """A commit since the last round, on the base of the loop."""
    loop, tree = case.loop, case.tree
    if loop is None or loop.state is None or tree.head is None:
        return absent("nothing to compare")
    base, number = loop.state.text("base_commit"), loop.round or 0
    if base and not tree.built_on(base):
        return wrong(f"HEAD is not built on the loop's base {base[:12]}", "put the work on its base")
    before = [
        look["head"]
        for look in _looks(case)
        if look["head"] and look["round"] is not None and int(look["round"]) < number
    ]
    mark, name = (before[-1], "the last round") if before else (base, "the base")
    if mark and tree.head == mark:
        return wrong(
            f"no commit since {name} ({mark[:12]})",
            "commit the change of this round; a round without a change is recorded as a failed idea",
        )
    return good(f"{tree.head[:12]} since {name}")


def d34_clean(case: Case) -> Seen:
    """The tree."""
    if not case.tree.is_repository:
        return absent("no repository")
    return (
        wrong(
            f"not clean: {', '.join(case.tree.dirty[:5])}",
            "commit: the hook blocks, and so does a long uncommitted file",
        )
        if case.tree.dirty
        else good("clean")
    )


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


RULES: dict[str, Rule] = {
    "D26": d26_monotone, "D27": d27_renames, "D28": d28_branch, "D29": d29_plan, "D30": d30_immutable, "D31": d31_contract,
    "D32": d32_summary, "D33": d33_commit, "D34": d34_clean, "D35": d35_review, "D36": d36_log, "D37": d37_mainline, "D38": d38_evidence,
}  # fmt: skip
"""Rule id -> what looks."""
