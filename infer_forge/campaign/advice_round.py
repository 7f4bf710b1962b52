"""Next steps between and inside rounds, without an attempt under way: claim, explanation, ideas, the way to the next edit."""

from __future__ import annotations

from infer_forge.base import ownership
from infer_forge.base.paths import paths
from infer_forge.campaign import budgets, coverage, gates, obligations, repo, shapes, verdicts
from infer_forge.campaign.book import Campaign
from infer_forge.campaign.steps import Step, command, git, handoff, measure, record, word

_EXPLAIN = (
    ("A105", "campaign report fairness", ""),
    ("A114", "campaign record profile", "--set framework={framework} --set traces=FILE,..."),
    ("A117", "campaign record profile", "--set framework={misshaped} --set traces=FILE,... --set scenario={scenario}"),
    ("A122", "campaign report root-cause", ""),
    ("A126", "campaign report layer-pipeline", ""),
    ("A46", "campaign record history", "--json FILE"),
)
"""Rule -> the command that meets it, in the order of a round."""


def open_round(campaign: Campaign) -> Step:
    """Claim and open; in mode rlcr after the review of the round before."""
    number = campaign.round_number + 1
    back = _back(campaign)
    if back is not None:
        return back
    reviewed = _review_of_loop(campaign)
    if reviewed is not None:
        return reviewed
    if not paths().store("registry").is_dir():
        return Step("infer-forge node init", "rounds hold their GPUs by claims, and there is no node registry yet")
    held = _held(campaign)
    if held is None:
        gpus = ",".join(map(str, campaign.inputs.get("gpu_ids") or [])) or f"0-{int(campaign.inputs['gpu_count']) - 1}"
        owner = f"--task {campaign.task_id} --purpose campaign --run {campaign.records[0]['run_id']}"
        words = f"{word(ownership.node_name())} --gpus {gpus} {owner}"
        return Step(
            f"infer-forge node claim {words}", f"round {number} needs the GPUs: no current claim of ours holds them"
        )
    claim, epoch = held
    words = f"--set claim_id={claim} --set epoch={epoch} --set query=WORDS"
    return record("round-open", campaign, words, f"open round {number}")


def _held(campaign: Campaign) -> tuple[str, int] | None:
    """A current claim of this machine that covers the GPUs in use, the newest first."""
    known = [c for run in ownership.load().runs.values() for c in run.claims if c.get("claim_id")]
    for claim in reversed(known):
        ident, epoch = str(claim["claim_id"]), int(claim.get("epoch") or 0)
        if epoch and obligations.lacking(campaign, obligations.claim_state(ident, epoch)) is None:
            return ident, epoch
    return None


def _review_of_loop(campaign: Campaign) -> Step | None:
    """In mode rlcr the Stop hook reviews each round before the next begins."""
    if campaign.records[0]["mode"] != "rlcr" or not campaign.round_number:
        return None
    from infer_forge.campaign.rlcr.loops import loops_in

    running = [loop for loop in loops_in(campaign.checkout) if loop.active]
    if running and (running[-1].round or 0) < campaign.round_number:
        why = "judge the round; when it passes, end the turn: the Stop hook reviews it before the next round"
        return command("campaign doctor", campaign, "--moment round", why)
    return None


def _back(campaign: Campaign) -> Step | None:
    """The way back to the accepted state, which the next measurement, profile and attempt begin from."""
    wanted, seen = verdicts.accepted_commit(campaign), repo.look(campaign.checkout)
    if seen.dirty:
        return git(campaign, "status --short", f"commit or discard what is left there: {', '.join(seen.dirty[:3])}")
    if repo.same_tree(campaign.checkout, wanted, seen.commit):
        return None
    if not repo.is_ancestor(campaign.checkout, wanted, seen.commit):
        where = str((campaign.last("attempt") or {}).get("branch") or "BRANCH")  # type: ignore[union-attr]
        return git(campaign, f"checkout {word(where)}", f"the accepted state {wanted[:12]} is not below this commit")
    why = f"take back what was not accepted; the accepted state is {wanted[:12]}, and no commit is lost"
    return git(campaign, f"revert --no-edit {wanted[:12]}..HEAD", why)


def in_round(campaign: Campaign) -> Step | None:
    """What an open round still needs before an attempt, or before it closes."""
    fenced = _fenced(campaign)
    if fenced is not None:
        return fenced
    if campaign.in_round("result"):
        return open_rows(campaign)
    gap = verdicts.current(campaign)
    if gap is None or gates.look(campaign, "A102").result == gates.FAIL:
        return record("gap", campaign, "", "decide the gap of the accepted state, in this round")
    if all(s["verdict"] in verdicts.SETTLED for s in gap["scenarios"]):
        return None
    used = budgets.spent(campaign)
    if used is not None:
        return record("round-close", campaign, "", f"{used}: close the round, then hand off")
    step = _back(campaign) or _more(campaign, gap.number) or _explain(campaign)
    return step or open_rows(campaign) or _try(campaign)


def _fenced(campaign: Campaign) -> Step | None:
    claim = gates.look(campaign, "round-claim")
    if claim.result != gates.FAIL:
        return None
    why = f"{claim.evidence}: what was measured under it does not count; close the round as void, then claim again"
    return record("round-close", campaign, "--set void=true", why)


def _more(campaign: Campaign, number: int) -> Step | None:
    """More launches of the accepted state where the verdict waits for them, or a handoff where nothing can be measured."""
    gap = verdicts.current(campaign)
    assert gap is not None
    allowed = gates.look(campaign, "A104")
    waiting = next((s for s in gap["scenarios"] if s["k_more"]), None)
    if waiting is not None and allowed.result != gates.PASS:
        why = f"{waiting['scenario']} is {waiting['verdict']}: {waiting['k_more']} more launches of each side decide it"
        repeats = [m for m in campaign.of("measurement") if m["label"] == "repeat" and m.number > number]
        if repeats:
            return record("gap", campaign, "", f"decide again with the launches of {repeats[-1].id}")
        return measure(campaign, f"--label repeat --launches {waiting['k_more']}", why)
    void = next((s for s in gap["scenarios"] if str(s["verdict"]).startswith("void")), None)
    if void is not None and allowed.result != gates.PASS:
        why = f"{void['scenario']} is {void['verdict']} ({void['reason']}): normalise in a new campaign"
        return handoff(campaign, number, why)
    return None


def _explain(campaign: Campaign) -> Step | None:
    for ident, words, rest in _EXPLAIN:
        answer = gates.look(campaign, ident)
        if answer.result in (gates.FAIL, gates.UNKNOWN):
            if ident == "A105" and campaign.in_round("fairness") and campaign.in_round("fairness")[-1]["blocking"]:
                return _unfair(campaign, answer.evidence)
            return command(words, campaign, _filled(campaign, rest), f"{ident}: {answer.evidence}")
    return None


def _unfair(campaign: Campaign, evidence: str) -> Step:
    """Normalise and measure again, once; what is unfair still is handed off (A112)."""
    pages, gaps = campaign.in_round("fairness"), campaign.in_round("gap")
    repeats = [m for m in campaign.in_round("measurement") if m["label"] == "repeat"]
    if not repeats:
        why = f"{evidence}: normalise what differs outside of the locked commands, then measure both sides again"
        return measure(campaign, "--label repeat", why)
    if gaps[-1].number < repeats[-1].number:
        return record("gap", campaign, "", f"decide again with the launches of {repeats[-1].id}")
    if pages[-1].number < gaps[-1].number:
        return command("campaign report fairness", campaign, "", "look at the sides again")
    return handoff(campaign, pages[-1].number, f"{evidence}, also after measuring again: normalise in a new campaign")


def _filled(campaign: Campaign, rest: str) -> str:
    """The words of a step of `_EXPLAIN`, with what is missing in this round."""
    gone, wrong = verdicts.unprofiled(campaign), shapes.judged(campaign)
    bad = next((j for j in wrong if j.result != gates.PASS), None)
    slow = shapes.slow_scenario(campaign)
    return rest.format(
        framework=gone[0] if gone else "NAME",
        misshaped=bad.framework if bad else "NAME",
        scenario=word(shapes.statements(campaign, slow.name)[-1]) if slow else "NAME",
    )


def open_rows(campaign: Campaign) -> Step | None:
    """The profile's rows that nobody answered."""
    left = [r for r in coverage.rows(campaign) if r["answer"] is None]
    if not left:
        return None
    why = f"{len(left)} rows of the profile have no answer: record an idea or a dismissal for each"
    return command("campaign coverage", campaign, "", why)


def _try(campaign: Campaign) -> Step:
    plateau = gates.look(campaign, "A149")
    if plateau.result == gates.FAIL:
        words = "--set title=WORDS --set repository=NAME --set path=FILE --set symbol=NAME --set provenance=WORDS --set covers=KERNEL"
        return record(
            "idea", campaign, f"{words} --set expected_gain_pct=N", f"A149: {plateau.evidence}: {plateau.fix}"
        )
    untried = [i for i in campaign.of("idea") if not any(a["idea"] == i.id for a in campaign.of("attempt"))]
    if not untried:
        why = "no idea is left to try: widen the search in the next round, or stop with A153 or a blocked handoff"
        return record("round-close", campaign, "", why)
    words = f"--set idea={untried[-1].id} --set title=WORDS --set mechanism=KERNEL"
    return record("attempt", campaign, words, f"try {untried[-1]['title']}")
