"""D17 to D25: what must hold right after the set-up script."""

from __future__ import annotations

from infer_forge.campaign.rlcr.loops import State, text_of
from infer_forge.campaign.rlcr.model import Case, Rule, Seen, absent, good, rules_data, unclear, wrong
from infer_forge.campaign.rlcr.pages import parse_tracker

STOP = "stop and report that the loop did not start; patch nothing outside of it"
CANCEL = "cancel the loop with Humanize's own cancel command and start it again"


def _state(case: Case) -> State | None:
    return case.loop.state if case.loop else None


def d17_code(case: Case) -> Seen:
    """Exit code of the script, where it was told."""
    if case.setup_rc is None:
        return (
            unclear("the exit code was not told", "--setup-rc N")
            if case.loop is None
            else good("a loop folder was made")
        )
    return good("0") if case.setup_rc == 0 else wrong(f"it ended with {case.setup_rc}", STOP)


def d18_one(case: Case) -> Seen:
    """Exactly one active loop."""
    active = [item for item in case.loops if item.active]
    if len(active) == 1 and len(active[0].active_names) == 1:
        return good(f"{active[0].folder.name}/{active[0].active}")
    if not active:
        return wrong("no state file under any of the three names", STOP)
    told = ", ".join(f"{item.folder.name}/{n}" for item in active for n in item.active_names)
    return wrong(f"several: {told}", "end the older ones with Humanize's own cancel command")


def d19_fields(case: Case) -> Seen:
    """The fields of the state file."""
    state = _state(case)
    if state is None:
        return absent("no state file")
    if state.faults:
        more = f"; and {len(state.faults) - 3} more" if len(state.faults) > 3 else ""
        return wrong(
            "; ".join(state.faults[:3]) + more,
            "do not go on: the hook ends a loop whose state it cannot read, and lets everything pass",
        )
    extra = f"; also {', '.join(state.extra)}" if state.extra else ""
    return good(f"{len(rules_data()['state_fields'])} fields{extra}")


def d20_round(case: Case) -> Seen:
    """Round 0."""
    state = _state(case)
    number = state.number("current_round") if state else None
    if state is None or number is None:
        return absent("no round to read")
    return (
        good("0")
        if number == 0
        else wrong(f"it stands at round {number}", "look at it as a running loop: --moment round")
    )


def d21_flags(case: Case) -> Seen:
    """Flags against fields."""
    state = _state(case)
    if state is None:
        return absent("no state file")
    if not case.words:
        return unclear("the words of the start are not known", "-- WORDS of the start behind the options")
    off = [f"{k} is {state.raw.get(k)!r}, not {v!r}" for k, v in case.args.expected().items() if state.raw.get(k) != v]
    return wrong("; ".join(off[:3]), CANCEL) if off else good(" ".join(case.words))


def d22_base(case: Case) -> Seen:
    """Base commit."""
    state, tree = _state(case), case.tree
    if state is None or not state.text("base_commit"):
        return absent("no base commit to read")
    if not tree.is_repository:
        return unclear("it is no git repository", "look in the checkout of the loop")
    commit, branch = state.text("base_commit"), state.text("base_branch")
    if not tree.built_on(commit):
        return wrong(f"HEAD is not built on {commit[:12]}", "the review would compare with something else: " + CANCEL)
    tip = tree.commit_of(branch)
    if tip is None:
        return wrong(f"the base branch {branch} is gone", "restore it")
    return (
        good(f"{branch} at {commit[:12]}")
        if tip == commit
        else wrong(f"{branch} stands at {tip[:12]}, the loop at {commit[:12]}", CANCEL)
    )


def d23_plan(case: Case) -> Seen:
    """The copy of the plan."""
    loop, state = case.loop, _state(case)
    if loop is None or state is None:
        return absent("no loop")
    copy, name = loop.text("plan.md"), state.text("plan_file")
    if copy is None:
        return wrong("the loop has no plan.md", CANCEL)
    plan = text_of(case.checkout / name)
    if plan is None:
        return wrong(f"{name} is gone", "restore it from the loop's plan.md")
    return (
        good(name)
        if plan == copy
        else wrong(f"{name} is not what the loop copied", "restore it from the loop's plan.md")
    )


def d24_prompt(case: Case) -> Seen:
    """The prompt of round 0."""
    loop = case.loop
    if loop is None:
        return absent("no loop")
    text = loop.text("round-0-prompt.md")
    if text is None:
        return wrong("there is no round-0-prompt.md", STOP)
    if rules_data()["prompt_marker"] in text:
        return good("it does")
    why = "a loop that only reviews (--skip-impl)" if loop.build_finish_round == 0 else "it does not"
    return wrong(why, CANCEL)


def d25_tracker(case: Case) -> Seen:
    """Goal tracker and session."""
    loop, state = case.loop, _state(case)
    if loop is None or state is None:
        return absent("no loop")
    tracker = parse_tracker(loop.text("goal-tracker.md") or "")
    if tracker.faults:
        return wrong("; ".join(tracker.faults), "write goal and criteria from the plan before round 0 ends")
    criteria = ", ".join(tracker.criteria) or "criteria without ids"
    if state.text("session_id"):
        return good(f"{criteria}; session {state.text('session_id')[:12]}")
    waiting = (case.checkout / ".humanize" / ".pending-session-id").is_file()
    why = ".pending-session-id still waits" if waiting else "no session took it"
    return good(
        f"{criteria}; no session owns the loop ({why}): any session of this checkout adopts it, so run no other one here"
    )


RULES: dict[str, Rule] = {
    "D17": d17_code, "D18": d18_one, "D19": d19_fields, "D20": d20_round, "D21": d21_flags, "D22": d22_base, "D23": d23_plan,
    "D24": d24_prompt, "D25": d25_tracker,
}  # fmt: skip
"""Rule id -> what looks."""
