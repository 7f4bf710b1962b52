"""D26 to D34: what must hold at each round, in the loop's files and in the checkout."""

from __future__ import annotations

from typing import Any

from infer_forge.base import jsonio
from infer_forge.campaign.rlcr import pages
from infer_forge.campaign.rlcr.after import STOP, d23_plan
from infer_forge.campaign.rlcr.model import Case, Rule, Seen, absent, good, rules_data, unclear, wrong


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


RULES: dict[str, Rule] = {
    "D26": d26_monotone, "D27": d27_renames, "D28": d28_branch, "D29": d29_plan, "D30": d30_immutable, "D31": d31_contract,
    "D32": d32_summary, "D33": d33_commit, "D34": d34_clean,
}  # fmt: skip
"""Rule id -> what looks."""
