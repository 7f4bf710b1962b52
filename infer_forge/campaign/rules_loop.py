"""Rules of a round and of a patch (A14, A99 to A138, A149; C40): what must be known before code is touched."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from infer_forge.campaign import coverage, repo, shapes, verdicts
from infer_forge.campaign.book import Campaign
from infer_forge.campaign.gates import FAIL, UNKNOWN, Answer, bad, not_yet, ok, open_attempt, rule, unseen

PLATEAU_PCT = 1.0
"""Two rounds in a row below this geometric-mean gain over the prior best are a plateau (A149)."""


@rule("A100", "round", "a round is open: no patching outside of the loop")
def _open(campaign: Campaign) -> Answer:
    if campaign.round is None:
        return bad(
            "no round is open",
            "infer-forge campaign record round-open --set claim_id=ID --set epoch=N --set query=WORDS",
        )
    return ok(f"round {campaign.round_number}")


@rule("round-claim", "round", "the GPUs in use are held by a current claim (claim id and epoch), at the start and now")
def _claim(campaign: Campaign) -> Answer:
    opened = campaign.last("round_open")
    if opened is None:
        return not_yet("no round yet")
    fix = "claim again: infer-forge node claim NODE --gpus .., then measure again under the new epoch"
    if opened["claim"]["verdict"] != "current":
        return bad(f"at the start: {opened['claim']['verdict']}", fix)
    closed = campaign.last("round_close")
    if closed is not None and closed.number > opened.number:
        state = str(closed["claim"]["verdict"])
        return (
            ok(f"current at start and end of round {opened['round']}")
            if state == "current"
            else bad(f"at the end: {state}", fix)
        )
    from infer_forge.campaign.obligations import claim_state

    now = claim_state(str(opened["claim"]["claim_id"]), int(opened["claim"]["epoch"]))
    if now["verdict"] == "fenced":
        return bad(f"claim {now['claim_id']} epoch {now['epoch']} is fenced", fix)
    return (
        ok(f"claim {now['claim_id']} epoch {now['epoch']}")
        if now["verdict"] == "current"
        else unseen(f"the claim is {now['verdict']}", fix)
    )


@rule(
    "round-journal",
    "round",
    "the journal was searched for this deployment point and idea; query and hits are recorded, also when empty",
)
def _journal(campaign: Campaign) -> Answer:
    opened = campaign.last("round_open")
    if opened is None:
        return not_yet("no round yet")
    search: dict[str, Any] = opened.get("journal") or {}
    if not search.get("query"):
        return bad("no search is recorded", "close the round and open one with --set query=WORDS")
    return ok(f"{search['query']!r}: {len(search['hits'])} hits")


@rule("round-guard", "round", "what the guard counts as owned was renewed, and no command ran that it denied")
def _guard(campaign: Campaign) -> Answer:
    opened = campaign.last("round_open")
    if opened is None:
        return not_yet("no round yet")
    if opened.get("ownership") is None:
        return bad("ownership was not renewed", "open the round again")
    from infer_forge.guard import audit

    denied = {
        str(e.get("command"))
        for e in audit.tail(5000)
        if e.get("verdict") == "deny" and str(e.get("at")) >= opened.at[:19]
    }
    ran = [
        shlex.join(e.argv) for e in campaign.task().executions.values() if str(e.intent.get("at", "")) >= opened.at[:19]
    ]
    ran += [str(c["command"]) for c in campaign.in_round("command")]
    broken = [c for c in ran if c in denied]
    if broken:
        return bad(
            f"the guard denied it, and it ran: {broken[0][:120]}", "a person looks at what it did; record a blocker"
        )
    return ok(f"{len(opened['ownership'])} proofs renewed, {len(denied)} commands denied, none of them ran")


@rule("A102", "round", "the gap was decided in this round, per locked scenario, against the best rival (A14)")
def _gap(campaign: Campaign) -> Answer:
    if campaign.last("round_open") is None:
        return not_yet("no round yet")
    found = campaign.in_round("gap")
    if not found:
        return bad("no gap verdict of this round", "infer-forge campaign record gap")
    return ok(f"{found[0].id}: {found[0]['overall']}")


@rule(
    "A104",
    "patch",
    "a patch needs behind or sla_fail, or a final inconclusive with a profiled bottleneck; not_behind ends the loop",
)
def _allowed(campaign: Campaign) -> Answer:
    gap = verdicts.current(campaign)
    if gap is None:
        return bad("no gap verdict", "infer-forge campaign record gap")
    words = {str(s["verdict"]) for s in gap["scenarios"]}
    if words & set(verdicts.PATCHABLE):
        loser = verdicts.worst(gap)
        return ok(
            f"{loser['scenario']}: {loser['verdict']} {loser['mean_pct']:.2f} %"
            if loser and loser["mean_pct"] is not None
            else str(words)
        )
    if words <= set(verdicts.SETTLED):
        return bad(f"the verdict is {gap['overall']}: nothing is to be patched", "infer-forge campaign report final")
    if "inconclusive" in words and all(
        s["k_more"] is None or not s["k_more"] for s in gap["scenarios"] if s["verdict"] == "inconclusive"
    ):
        caused = [c for c in campaign.of("root_cause") if c["gap"] == gap.id]
        return (
            ok(f"inconclusive at the last look, bottleneck in {caused[-1].id}")
            if caused
            else bad(
                "inconclusive and no profiled bottleneck", "profile both sides, or hand off: the noise hides the gap"
            )
        )
    return bad(f"the verdict is {', '.join(sorted(words))}", "measure more, or normalise: infer-forge campaign next")


@rule(
    "A105", "patch", "the fairness report of this round stands on the current gap and is no longer void (A106 to A112)"
)
def _fair(campaign: Campaign) -> Answer:
    gap, page = verdicts.current(campaign), campaign.last("fairness")
    if page is None or gap is None or page["gap"] != gap.id or not campaign.in_round("fairness"):
        return bad("no fairness report of the current gap in this round", "infer-forge campaign report fairness")
    if page["blocking"]:
        return bad(
            f"fairness fails: {page['blocking'][0]}",
            "normalise and measure again; no code change before fairness passes",
        )
    return ok(page.id)


@rule(
    "A114",
    "patch",
    "SGLang and every rival that is ahead were profiled in this round, in their current state (A115, C40), or a blocker says why not",
)
def _profiled(campaign: Campaign) -> Answer:
    gap = verdicts.current(campaign)
    loser = verdicts.worst(gap) if gap else None
    if loser is None:
        return not_yet("nobody is ahead")
    gone = verdicts.unprofiled(campaign)
    if gone:
        fix = (
            f"infer-forge capture ..., then infer-forge campaign record profile --set framework={gone[0]} --set traces=FILE; "
            f"where no trace can be had: record blocker --set 'what=profile {gone[0]}: WHY'"
        )
        return bad(f"not profiled in this round: {', '.join(gone)}", fix)
    return ok(", ".join(sorted({str(p["framework"]) for p in campaign.in_round("profile")})))


@rule(
    "A117",
    "patch",
    "profiles of this round were taken at the lengths of the slow scenario, of mixed data at its recorded p50 or p95 (A118)",
)
def _shapes(campaign: Campaign) -> Answer:
    if campaign.diffusion:
        return not_yet("pictures have no token lengths: what is generated is held by the contract's scenario")
    found = shapes.judged(campaign)
    if not found:
        return not_yet("nobody is ahead, or nothing was profiled in this round")
    wrong = next((j for r in (FAIL, UNKNOWN) for j in found if j.result == r), None)
    if wrong is None:
        return ok("; ".join(f"{j.framework}: {j.why}" for j in found))
    fix = f"infer-forge capture --campaign {shlex.quote(str(campaign.layout.run))} ..., then record the profile again"
    return (bad if wrong.result == FAIL else unseen)(f"{wrong.framework}: {wrong.why}", fix)


@rule("A122", "patch", "the root-cause report is of the current gap (A121)")
def _cause(campaign: Campaign) -> Answer:
    gap, cause = verdicts.current(campaign), campaign.last("root_cause")
    if cause is None or gap is None or cause["gap"] != gap.id or not campaign.in_round("root_cause"):
        return bad("no root-cause report of the current gap", "infer-forge campaign report root-cause")
    return ok(cause.id)


@rule("A126", "patch", "the layer-pipeline report is of this round and came after the triage (A123 to A125, C18)")
def _layers(campaign: Campaign) -> Answer:
    pages, profiles = campaign.in_round("layer_pipeline"), campaign.in_round("profile")
    if not pages:
        return bad("no layer-pipeline report of this round", "infer-forge campaign report layer-pipeline")
    if not profiles or pages[-1].number < profiles[0].number:
        return bad("it came before the triage", "infer-forge campaign report layer-pipeline")
    return ok(pages[-1].id)


@rule("A46", "patch", "the history of every rival that leads a lost scenario was read, or its absence is recorded")
def _rival_history(campaign: Campaign) -> Answer:
    gap = verdicts.current(campaign)
    rivals = verdicts.leaders(gap) if gap else []
    if not rivals:
        return not_yet("nobody is ahead")
    notes: list[dict[str, Any]] = []
    for record in campaign.of("history"):
        notes += record.get("items") or []
    read = {str(i["framework"]) for i in notes}
    blocked = [str(r["blocker"]) for r in campaign.of("history") if r.get("blocker")]
    gone = [r for r in rivals if r not in read and not any(r in b or "knowledge base" in b for b in blocked)]
    if gone:
        fix = "infer-forge campaign record history, or a blocker that names it"
        return bad(f"no history of {', '.join(gone)} was read", fix)
    return ok(f"read or blocked: {', '.join(rivals)}")


@rule(
    "A149", "patch", "after two rounds below 1 % gain, a new source idea with code provenance came before the next edit"
)
def _plateau(campaign: Campaign) -> Answer:
    closed = campaign.of("round_close")[-2:]
    if len(closed) < 2 or not all(float(c["gain_pct"] or 0) < PLATEAU_PCT for c in closed):
        return ok("no plateau") if len(closed) >= 2 else not_yet(f"{len(closed)} rounds closed")
    fresh = [i for i in campaign.of("idea") if i.number > closed[-1].number and i.get("provenance")]
    if fresh:
        return ok(f"new idea {fresh[-1].id}")
    return bad(
        f"gains of {closed[0]['gain_pct'] or 0:.2f} and {closed[1]['gain_pct'] or 0:.2f} %",
        "widen the search in code first: infer-forge campaign record idea with provenance",
    )


@rule("one-attempt", "patch", "one attempt at a time, from the accepted state, with a clean checkout")
def _one(campaign: Campaign) -> Answer:
    running = open_attempt(campaign)
    if running is not None:
        return bad(
            f"attempt {running.id} has no result", f"infer-forge campaign record result --set attempt={running.id} ..."
        )
    seen, wanted = repo.look(campaign.checkout), verdicts.accepted_commit(campaign)
    if seen.dirty:
        return bad(
            f"uncommitted: {', '.join(seen.dirty[:3])}", "commit or discard it: the attempt begins from a known state"
        )
    if not repo.same_tree(campaign.checkout, wanted, seen.commit):
        return bad(
            f"the checkout is at {seen.commit[:12]}, the accepted state is {wanted[:12]}: code was changed outside of an attempt",
            f"git -C {campaign.checkout} revert --no-edit {wanted[:12]}..HEAD, then record the attempt before the change",
        )
    return ok(wanted[:12])


@rule(
    "A133",
    "patch",
    "every Nsight Compute digest compares and ends in exactly one next edit; where NCU could not run, a blocker stands there (A138)",
)
def _digests(campaign: Campaign) -> Answer:
    from infer_forge.ncu import lint_digest

    folders = [Path(str(r["digest"])) for r in campaign.of("ncu")]
    wrong = [f"{f.name}: {p}" for f in folders for p in lint_digest(f)]
    if not folders:
        return not_yet("no digest")
    return (
        bad(wrong[0], "infer-forge ncu digest REPORT --baseline REPORT --out DIR/")
        if wrong
        else ok(f"{len(folders)} digests")
    )


@rule(
    "coverage",
    "final",
    "every kernel family of the slow stage (0.5 % and more, until 95 %) and every finding is answered by an idea or a dismissal",
)
def _coverage(campaign: Campaign) -> Answer:
    rows = coverage.rows(campaign)
    if not rows:
        return not_yet("no profile of a slow stage")
    left = [r for r in rows if r["answer"] is None]
    if left:
        return bad(
            f"{len(left)} of {len(rows)} rows are open, the first is {left[0]['kind']} {left[0]['name']}",
            "infer-forge campaign coverage, then record idea or dismissal for each",
        )
    return ok(f"{len(rows)} rows answered")
