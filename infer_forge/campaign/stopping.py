"""Stop codes (A150 to A154; C43): what counts as complete, with its evidence; anything else is a blocked handoff."""

from __future__ import annotations

from collections.abc import Sequence

from infer_forge.base import jsonio
from infer_forge.base.errors import GateRefused, UsageFault
from infer_forge.campaign import book, coverage, gates, verdicts
from infer_forge.campaign.book import Campaign

CODES = {
    "A150": "SGLang beats the best SLA-passing selected result on the locked workload",
    "A151": "a tie within the threshold, or not behind, after repeats",
    "A152": "the remaining gap is proven external",
    "A153": "the hot path is near its limit and no viable low-risk patch is left",
    "blocked": "a blocked handoff: resources, evidence, budget, or no defensible next patch",
}
"""Code -> meaning. The first four count as complete."""

COMPLETE = ("A150", "A151", "A152", "A153")


def judge(campaign: Campaign, code: str, evidence: Sequence[str] = ()) -> gates.Answer:
    """Whether a stop code is met now, with the evidence that shows it.

    Raises:
        UsageFault: no such code.
    """
    if code not in CODES:
        raise UsageFault(f"{code!r} is no stop code", next_step=f"use one of {', '.join(CODES)}")
    gap = verdicts.current(campaign)
    if code == "blocked":
        return _blocked(campaign)
    if gap is None:
        return gates.bad("no gap verdict", "infer-forge campaign record gap")
    loose = [s for s in gap["scenarios"] if not s["decides"] and s["verdict"] in verdicts.SETTLED]
    if loose:
        return gates.unseen(
            f"{loose[0]['scenario']}: {loose[0]['verdict']} does not decide", "infer-forge bench fairness"
        )
    words = [str(s["verdict"]) for s in gap["scenarios"]]
    told = f"gap {gap.id}: " + "; ".join(f"{s['scenario']} {s['verdict']}" for s in gap["scenarios"])
    if code == "A150":
        good = (
            all(w in verdicts.SETTLED for w in words) and "ahead" in words and all(w in ("ahead", "tie") for w in words)
        )
        return gates.ok(told) if good else gates.bad(told, "infer-forge campaign next")
    if code == "A151":
        return (
            gates.ok(told)
            if all(w in verdicts.SETTLED for w in words)
            else gates.bad(told, "infer-forge campaign next")
        )
    return _external(campaign, evidence) if code == "A152" else _limit(campaign)


def _blocked(campaign: Campaign) -> gates.Answer:
    found = campaign.last("blocker")
    if found is None:
        return gates.bad(
            "no blocker is recorded", "infer-forge campaign record blocker --set what=.. --set tried=.. --set needs=.."
        )
    gap = verdicts.current(campaign)
    noisy = [s for s in gap["scenarios"] if s["verdict"] == "inconclusive"] if gap else []
    if noisy and "noise" not in f"{found['what']} {found['needs']}".lower():
        return gates.bad(
            "the verdict is inconclusive and the blocker does not name the noise", "record a blocker that does"
        )
    return gates.ok(f"{found.id}: {found['what']}; needs {found['needs']}")


def _external(campaign: Campaign, evidence: Sequence[str]) -> gates.Answer:
    found = [r for e in evidence if (r := campaign.find(e)) is not None and r.kind in ("blocker", "dismissal")]
    reasons = list(campaign.inputs["frameworks"]["unsupported"].values())
    fix = "record blocker with its tried paths and --set evidence=FILE (a log, a failed launch), and cite it with --evidence ID"
    if not found:
        return gates.bad("no cited record shows what is external", fix)
    bare = next((r for r in found if not r.get("evidence")), None)
    if bare is not None:
        return gates.bad(f"{bare.id} cites no file and no record: words prove nothing", fix)
    return gates.ok(
        "; ".join(f"{r.id} {r.get('what') or r.get('reason')}" for r in found) + (f"; {reasons[0]}" if reasons else "")
    )


def _limit(campaign: Campaign) -> gates.Answer:
    kept = [r for r in campaign.of("result") if r["outcome"] == "accepted"]
    since = kept[-1].number if kept else 0
    if not any(p["framework"] == "sglang" and p.number > since for p in campaign.of("profile")):
        return gates.bad("the accepted state was not profiled", "infer-forge capture, then record profile")
    ceiling = campaign.last("ceiling")
    if ceiling is None or ceiling.get("blocker"):
        return gates.bad("no ceiling to hold the hot path against", "infer-forge campaign record ceiling")
    left = [r for r in coverage.rows(campaign) if r["answer"] is None]
    if left:
        return gates.bad(f"{len(left)} rows of the coverage have no answer", "infer-forge campaign coverage")
    untried = [i for i in campaign.of("idea") if not any(a["idea"] == i.id for a in campaign.of("attempt"))]
    if untried:
        return gates.bad(
            f"{len(untried)} ideas were not tried: {untried[0]['title']}", "infer-forge campaign record attempt"
        )
    return gates.ok(
        f"ceiling {ceiling.id}, every row answered, {len(campaign.of('dismissal'))} dismissed with evidence"
    )


def stop(campaign: Campaign, code: str, evidence: Sequence[str] = ()) -> Campaign:
    """Stop the campaign: complete with one of four codes, else as a blocked handoff; the task ends with it.

    Raises:
        GateRefused: the code is not met, the final report does not stand on the present verdict, or a final rule fails.
    """
    from infer_forge.campaign.ending import end_task
    from infer_forge.campaign.views import write_views

    done = campaign.last("stop")
    if done is not None:
        if done["code"] != code:
            raise GateRefused(f"it stopped with {done['code']}", next_step="infer-forge campaign status")
        write_views(campaign)  # a kill between the stop, its views and the end of its task, which looks at the views
        end_task(campaign)
        return campaign
    result, seen, fix = judge(campaign, code, evidence)
    if result != gates.PASS:
        raise GateRefused(f"{code} is not met: {seen}", where=campaign.layout.run.name, next_step=fix or None)
    last = campaign.last("final")
    gap = verdicts.current(campaign)
    if last is None or last["code"] != code or last["gap"] != (gap.id if gap else None):
        raise GateRefused(
            "no final report of this code and verdict", next_step=f"infer-forge campaign report final --code {code}"
        )
    if gates.open_attempt(campaign) is not None or (campaign.round is not None and code in COMPLETE):
        raise GateRefused("a round or an attempt is open", next_step="infer-forge campaign next")
    wanted = (
        ["chain", "A24", "A37", "A31", "A51", "A65", "A155", "numbers", "A69"]
        if campaign.baseline
        else ["chain", "A155", "numbers"]
    )
    if code in COMPLETE:
        wanted += ["A41", "B16", "C64", "rounds", *(["coverage"] if campaign.of("round_open") else [])]
    gates.require(campaign, *wanted, what="stopping")
    body = {
        "code": code,
        "complete": code in COMPLETE,
        "evidence": [seen, *evidence],
        "gap": gap.id if gap else None,
        "final_report": jsonio.sha256_file(campaign.layout.final_report),
    }
    after = book.append(campaign, "stop", body)
    end_task(after)
    return after


def stop_verdict(campaign: Campaign) -> tuple[int, str]:
    """May the agent stop now? 0 it may, 4 it must go on, 3 cannot tell; deterministic (see `tasks.goal.stop_verdict`)."""
    chain = gates.look(campaign, "chain")
    if chain.result == gates.UNKNOWN:
        return 3, chain.evidence
    done = campaign.last("stop")
    if chain.result == gates.FAIL:
        return 4, f"the ledger cannot be trusted: {chain.evidence}"
    if done is None:
        from infer_forge.campaign.advice import next_step

        step = next_step(campaign)
        return 4, f"the campaign is in state {campaign.state}: {step.why}. next: {step.command}"
    broken = [c for c in (gates.look(campaign, i) for i in ("A155", "numbers")) if c.result == gates.FAIL]
    if broken:
        return 4, f"{broken[0].rule}: {broken[0].evidence}"
    return 0, f"stopped with {done['code']}: {CODES[str(done['code'])]}"
