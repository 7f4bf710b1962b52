"""Rules of results and of the end (A65 to A70, A140 to A155, C41, C64): what stands, resolves, and was reviewed."""

from __future__ import annotations

from infer_forge.campaign import pages, verdicts, views
from infer_forge.campaign.book import Campaign
from infer_forge.campaign.gates import Answer, bad, not_yet, ok, rule, unseen

SECTIONS = (
    "Fixed benchmark", "Post-patch benchmark", "Winning commands", "History", "Profiles", "Layer pipeline", "NCU digests",
    "Changed files", "Tests", "Remaining gap", "Reviews", "SOTA reached in this environment?",
)  # fmt: skip
"""Sections of the final report (A155)."""


@rule(
    "numbers",
    "result",
    "figures come from records: no generated part was edited, no figure in the words around stands nowhere",
)
def _numbers(campaign: Campaign) -> Answer:
    wrong = [f"{name}: not what the ledger says" for name in views.edited(campaign)]
    wrong += [f"{name}: not the file that was recorded" for name in views.altered(campaign)]
    for record in (campaign.last(k) for k in ("fairness", "root_cause", "layer_pipeline", "final")):
        if record is None:
            continue
        place = campaign.layout.run / str(record["path"])
        if pages.part_sha256(place) != record["part_sha256"]:
            wrong.append(f"{record['path']}: its generated part was edited")
        wrong += [f"{record['path']}: {figure} stands in no record" for figure in pages.stray_figures(place)[:2]]
    locked = campaign.last("baseline_lock")
    locked_pages: dict[str, str] = locked["pages"] if locked else {}
    for name, sha in locked_pages.items():
        from infer_forge.base import jsonio

        place = campaign.layout.run / name
        if not place.is_file() or jsonio.sha256_file(place) != sha:
            wrong.append(f"{name}: changed after the lock")
    if wrong:
        return bad("; ".join(wrong[:3]), "infer-forge campaign report all, and cite records for what you add")
    return ok("every generated part is what was recorded")


@rule(
    "A140",
    "result",
    "the checkpoint was written after the last accepted result and alone lets a new session go on (A141)",
)
def _checkpoint(campaign: Campaign) -> Answer:
    place = campaign.layout.checkpoint
    if not place.is_file():
        return bad("no checkpoint", "infer-forge campaign report all")
    if not pages.same_as(place, views.checkpoint(campaign)):
        return bad("the checkpoint is not of the present state", "infer-forge campaign report all")
    return ok(campaign.layout.relative(place))


@rule("A143", "result", "every accepted result cites five kinds of evidence and a measured gain")
def _accepted(campaign: Campaign) -> Answer:
    from infer_forge.campaign.accepting import EVIDENCE

    kept = [r for r in campaign.of("result") if r["outcome"] == "accepted"]
    if not kept:
        return not_yet("nothing was accepted")
    for r in kept:
        cited: dict[str, str] = r.get("evidence") or {}
        gone = [e for e in EVIDENCE if campaign.find(str(cited.get(e))) is None]
        if gone:
            return bad(f"{r.id} cites no {', '.join(gone)}", "record the evidence")
    return ok(f"{len(kept)} results")


@rule("gains", "result", "gains of single changes are summed against the verified total, and the difference is told")
def _gains(campaign: Campaign) -> Answer:
    from infer_forge.campaign.mechanism import sum_of_gains

    single, total = sum_of_gains(campaign)
    if total is None:
        return not_yet("nothing was accepted")
    return ok(f"sum of single gains {single:+.2f} %, verified total {total:+.2f} %, difference {total - single:+.2f} %")


@rule(
    "profile-accepted",
    "result",
    "after every accepted change the real model was measured again, and profiled when the loop goes on (A87)",
)
def _after(campaign: Campaign) -> Answer:
    kept = [r for r in campaign.of("result") if r["outcome"] == "accepted"]
    if not kept:
        return not_yet("nothing was accepted")
    gap = verdicts.current(campaign)
    if gap is None or gap["measurement"] != kept[-1]["measurement"]:
        return bad("no gap verdict of the accepted state", "infer-forge campaign record gap")
    seen = [m for m in campaign.of("mechanism") if m["attempt"] == kept[-1]["attempt"] and m["verdict"] == "seen"]
    return (
        ok(f"gap {gap.id}, mechanism {seen[-1].id}")
        if seen
        else bad("the mechanism was not seen", "infer-forge campaign record mechanism")
    )


@rule(
    "C64",
    "final",
    "every accepted result has a nine-point review by somebody else than its executor, without a failed point",
)
def _review(campaign: Campaign) -> Answer:
    kept = [r for r in campaign.of("result") if r["outcome"] == "accepted"]
    if not kept:
        return not_yet("nothing was accepted")
    for r in kept:
        mine = [v for v in campaign.of("review") if v["result"] == r.id]
        if not mine:
            return bad(
                f"result {r.id} has no review",
                f"infer-forge campaign review --result {r.id} --reviewer NAME --json FILE",
            )
        if mine[-1]["verdict"] != "pass":
            return bad(f"the review of {r.id} failed at {', '.join(mine[-1]['failed'])}", "mend it and review again")
    return ok(f"{len(kept)} reviews")


@rule(
    "A69",
    "final",
    "what this run started was stopped, with the state of processes and GPUs before and after (A67 to A70)",
)
def _cleanup(campaign: Campaign) -> Answer:
    done = campaign.last("cleanup")
    measured = campaign.last("measurement", "baseline_lock")
    if measured is None:
        return not_yet("nothing was started")
    if done is None or done.number < measured.number:
        return bad("no cleanup after the last launch", "infer-forge campaign record cleanup")
    if done["left"]:
        return bad(
            f"processes of this run live: {', '.join(map(str, done['left'][:4]))}",
            "end them by their pid, then record cleanup again",
        )
    if done["before"].get("gpus") is None:
        return ok(f"{done.id}: {len(done['stopped'])} engines stopped; GPUs could not be seen here")
    return ok(f"{done.id}: {len(done['stopped'])} engines stopped")


@rule("A155", "final", "the final report has every section, every path in it resolves, and it answers yes or no")
def _final(campaign: Campaign) -> Answer:
    record, place = campaign.last("final"), campaign.layout.final_report
    if record is None:
        return bad("no final report", "infer-forge campaign report final --code CODE")
    part = pages.generated(place)
    if part is None:
        return bad("final_report.md is gone or lost its marks", "infer-forge campaign report final --code CODE")
    gone = [s for s in SECTIONS if f"## {s}" not in part]
    if gone:
        return bad(f"sections missing: {', '.join(gone)}", "infer-forge campaign report final --code CODE")
    run = campaign.layout.run
    lost = [
        link
        for link in pages.links(place.read_text(encoding="utf-8"))
        if not (run / link).exists() and not (campaign.checkout / link).exists()
    ]
    if lost:
        return bad(f"paths that lead nowhere: {', '.join(lost[:3])}", "correct them")
    answer = part.split("## SOTA reached in this environment?", 1)[1].strip().lower()
    return (
        ok(record.id)
        if answer.startswith(("yes", "no"))
        else unseen("it answers neither yes nor no", "report final again")
    )


@rule("A3", "final", "all evidence carries the one loop id (A139: no second loop)")
def _loop(campaign: Campaign) -> Answer:
    other = [r.id for r in campaign.records if r.get("loop_id") != campaign.loop_id]
    return (
        bad(f"of another loop: {', '.join(other[:3])}", "records of another loop do not count")
        if other
        else ok(campaign.loop_id)
    )


@rule(
    "rounds",
    "final",
    "every head of the ledger that the task recorded with its rounds stands in the ledger: one that was written anew does not",
)
def _rounds(campaign: Campaign) -> Answer:
    blocks = campaign.task().blocks
    if not blocks:
        return not_yet("no round yet")
    known = {r.sha256 for r in campaign.records}
    lost = [b.number for b in blocks if b.data.get("ledger_head") not in (None, *known)]
    if lost:
        return bad(f"the ledger of the task's block {lost[0]} is not this one", "restore the ledger from a copy")
    return ok(f"{len(blocks)} rounds")


@rule("stop", "final", "the campaign ended with a stop code and its evidence (A150 to A154)")
def _stop(campaign: Campaign) -> Answer:
    done = campaign.last("stop")
    if done is None:
        return not_yet("it goes on")
    task = campaign.task()
    if task.ended:
        return ok(f"{done['code']}, the task is {task.status}")
    return unseen(
        "the task goes on although the campaign stopped", f"infer-forge campaign stop --code {done['code']} ends it"
    )
