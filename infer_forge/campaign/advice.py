"""`campaign next`: exactly one next step, computed from what is recorded, with the command that does it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from infer_forge.base.errors import ForgeError
from infer_forge.base.records import Report
from infer_forge.campaign import coverage, gates, repo, verdicts
from infer_forge.campaign.book import Campaign
from infer_forge.campaign.companions import pages_to_read
from infer_forge.campaign.inputs import Inputs
from infer_forge.campaign.rules_start import unread


@dataclass(frozen=True)
class Step:
    """One step: the command, and why now."""

    command: str
    why: str


def next_step(campaign: Campaign) -> Step:
    """The one next step."""
    run = f"--run {campaign.layout.run}"
    chain = gates.look(campaign, "chain")
    if chain.result == "fail":
        return Step(f"infer-forge campaign check {run}", f"the ledger cannot be trusted: {chain.evidence}")
    for find in (_stopped, _before_contract, _before_baseline, _before_loop, _between_rounds, _in_attempt, _in_round):
        step = find(campaign, run)
        if step is not None:
            return step
    return Step(f"infer-forge campaign record round-close {run}", "everything of this round is recorded")


def _record(kind: str, run: str, rest: str, why: str) -> Step:
    return Step(f"infer-forge campaign record {kind} {run} {rest}".rstrip(), why)


def _stopped(campaign: Campaign, run: str) -> Step | None:
    stop = campaign.last("stop")
    if stop is None:
        return None
    if not any(c.number > stop.number for c in campaign.of("cleanup")) and not campaign.of("cleanup"):
        return Step(f"infer-forge campaign status {run}", f"stopped with {stop['code']}: tell the user")
    return Step(f"infer-forge campaign status {run}", f"stopped with {stop['code']}: nothing is left to do")


def _before_contract(campaign: Campaign, run: str) -> Step | None:
    lacking = Inputs(campaign.inputs).missing()
    if lacking:
        fields = {"gpu": "gpu_model=TYPE --set gpu_count=N", "precision_or_quantization": "precision=VALUE"}
        words = " ".join(f"--set {fields[n]}" for n in lacking if n in fields)
        return _record("inputs", run, words, f"ask the user for: {', '.join(lacking)}")
    if gates.look(campaign, "A9").result == "fail":
        return _companions(campaign, run)
    if not campaign.of("history"):
        why = "read the pull-request history (infer-forge journal history) before anything is measured (A43)"
        return _record("history", run, "--json FILE", f"{why}; where nothing can be read: --set blocker=WHY")
    if not campaign.of("pr_check"):
        return _record(
            "pr-check",
            run,
            "--set upstream=REPO --set open=N,N",
            "look at open pull requests of upstream and fork (C39)",
        )
    if not campaign.of("contract_lock"):
        config = campaign.inputs.get("search_config")
        words = f"--config {shlex.quote(str(config))}" if config else "--config FILE"
        why = "lock the contract before any result" + ("" if config else "; references/search has files to copy")
        return Step(f"infer-forge campaign lock {run} {words}", why)
    return None


def _companions(campaign: Campaign, run: str) -> Step:
    gone = unread(campaign)
    pages = pages_to_read(gone, campaign.checkout)
    read = ",".join(shlex.quote(str(p)) for p in pages) or "SKILL.md,..."
    why = f"read the companion skills first, then record that they were read (A9); not read: {', '.join(gone)}"
    return _record("companions", run, f"--set read={read}", why)


def _before_baseline(campaign: Campaign, run: str) -> Step | None:
    if not campaign.of("baseline_lock"):
        from infer_forge.bench.ledger_rows import RowStore

        config = campaign.inputs.get("search_config") or "FILE"
        begun = {str(e["purpose"]) for e in RowStore(campaign.layout.bench.rows).events("launch_begins")}
        if "search" not in begun:
            return Step(
                f"infer-forge bench search {run} --config {config}", "search every selected framework within its budget"
            )
        if "decision" not in begun:
            return Step(f"infer-forge bench search {run} --config {config} --remeasure", "measure the winners afresh")
        return Step(f"infer-forge campaign lock {run} --baseline", "lock the winner table")
    if not campaign.of("gap"):
        return _record("gap", run, "", "decide the gap of the baseline")
    return None


def _before_loop(campaign: Campaign, run: str) -> Step | None:
    if not campaign.of("ceiling"):
        return _record("ceiling", run, "", "the floor of the deployment point comes before round 1")
    if not campaign.of("plan"):
        first = campaign.of("gap")[0]
        if all(s["verdict"] in verdicts.SETTLED and s["decides"] for s in first["scenarios"]):
            return _final(campaign, run)
        return _record(
            "plan",
            run,
            "--set path=FILE",
            "start the loop: infer-forge campaign plan (rlcr) or campaign prompt (goal, loop) renders it; record the file",
        )
    return None


def _final(campaign: Campaign, run: str) -> Step | None:
    from infer_forge.campaign.stopping import judge

    for code in ("A150", "A151"):
        if judge(campaign, code)[0] != "pass":
            continue
        unreviewed = _unreviewed(campaign)
        if unreviewed:
            return Step(
                f"infer-forge campaign review {run} --result {unreviewed} --reviewer NAME --json FILE",
                "an accepted change needs its nine-point review",
            )
        if not campaign.of("cleanup"):
            return _record("cleanup", run, "", "stop what this run started, with the machine's state before and after")
        last = campaign.last("final")
        gap = verdicts.current(campaign)
        if last is None or last["code"] != code or (gap is not None and last["gap"] != gap.id):
            return Step(
                f"infer-forge campaign report final {run} --code {code}", f"{code} is met: write the final report"
            )
        return Step(f"infer-forge campaign stop {run} --code {code}", "the final report stands: stop")
    return None


def _unreviewed(campaign: Campaign) -> str | None:
    done = {str(r["result"]) for r in campaign.of("review")}
    return next((r.id for r in campaign.of("result") if r["outcome"] == "accepted" and r.id not in done), None)


def _between_rounds(campaign: Campaign, run: str) -> Step | None:
    if campaign.round is not None:
        return None
    done = _final(campaign, run)
    return done or _record(
        "round-open",
        run,
        "--set claim_id=ID --set epoch=N --set query=WORDS",
        f"open round {campaign.round_number + 1}",
    )


def _in_attempt(campaign: Campaign, run: str) -> Step | None:
    attempt = gates.open_attempt(campaign)
    if attempt is None:
        return None
    ident = attempt.id
    try:
        seen = repo.look(campaign.checkout)
    except ForgeError as fault:
        return Step(f"infer-forge campaign check {run}", fault.what)
    measured = [m for m in campaign.of("measurement") if m.number > attempt.number]
    patched = [m for m in measured if m["label"] == "patched"]
    if not patched:
        if seen.dirty or seen.commit == attempt["base_commit"]:
            return Step(f"git -C {campaign.checkout} commit", f"make the change of attempt {ident} and commit it")
        return Step(f"infer-forge campaign measure {run}", f"measure attempt {ident}")
    last = patched[-1]
    if not any(g["measurement"] == last.id for g in campaign.of("gap")):
        return _record("gap", run, f"--set measurement={last.id}", "decide the gap with the patch")
    if (
        campaign.contract
        and campaign.contract[0].accuracy
        and attempt["alters_numerics"]
        and not _of(campaign, "accuracy", ident)
    ):
        return _record("accuracy", run, f"--set attempt={ident} --set file=FILE", "the change can alter numerics")
    if not _of(campaign, "soak", ident):
        return _record(
            "soak", run, f"--set attempt={ident} --set file=FILE", "memory and stability of the patched engine"
        )
    if not any(m["label"] == "off" for m in measured):
        return Step(
            f"infer-forge campaign measure {run} --label off",
            "switch the patch off (check out the base) and measure, then put it back",
        )
    if not _of(campaign, "mechanism", ident):
        off = next(m for m in reversed(measured) if m["label"] == "off")
        return _record(
            "mechanism",
            run,
            f"--set attempt={ident} --set files=TRACE,LOG --set off={off.id}",
            "show the mechanism at work",
        )
    return _record(
        "result",
        run,
        f"--set attempt={ident} --set outcome=accepted|rejected|partial --set reason=WORDS",
        "end the attempt",
    )


def _of(campaign: Campaign, kind: str, attempt: str) -> bool:
    return any(r["attempt"] == attempt for r in campaign.of(kind))


def _in_round(campaign: Campaign, run: str) -> Step | None:
    if campaign.in_round("result"):
        return _open_rows(campaign, run)
    gap = verdicts.current(campaign)
    if gap is None:
        return _record("gap", run, "", "decide the gap of the accepted state")
    if all(s["verdict"] in verdicts.SETTLED for s in gap["scenarios"]):
        return None
    allowed = gates.look(campaign, "A104")
    more = next((s for s in gap["scenarios"] if s["verdict"] == "inconclusive" and s["k_more"]), None)
    if more is not None and allowed.result != "pass":
        return Step(
            f"infer-forge campaign measure {run} --launches N",
            f"{more['scenario']} is inconclusive: {more['k_more']} more launches",
        )
    steps = (
        ("A105", f"infer-forge campaign report fairness {run}"),
        ("A114", f"infer-forge campaign record profile {run} --set framework=NAME --set traces=FILE,..."),
        ("A122", f"infer-forge campaign report root-cause {run}"),
        ("A126", f"infer-forge campaign report layer-pipeline {run}"),
        ("A46", f"infer-forge campaign record history {run} --json FILE"),
    )
    for ident, command in steps:
        answer = gates.look(campaign, ident)
        if answer.result in ("fail", "unknown"):
            return Step(command, f"{ident}: {answer.evidence}")
    step = _open_rows(campaign, run)
    if step is not None:
        return step
    untried = [i for i in campaign.of("idea") if not any(a["idea"] == i.id for a in campaign.of("attempt"))]
    if not untried:
        return Step(
            f"infer-forge campaign record round-close {run}",
            "no idea is left to try: widen the search in the next round, or stop with A153 or a blocked handoff",
        )
    return _record(
        "attempt",
        run,
        f"--set idea={untried[-1].id} --set title=WORDS --set mechanism=KERNEL",
        f"try {untried[-1]['title']}",
    )


def _open_rows(campaign: Campaign, run: str) -> Step | None:
    left = [r for r in coverage.rows(campaign) if r["answer"] is None]
    if not left:
        return None
    return Step(
        f"infer-forge campaign coverage {run}",
        f"{len(left)} rows of the profile have no answer: record an idea or a dismissal for each",
    )


def next_report(campaign: Campaign) -> Report:
    """The answer of `campaign next`."""
    step = next_step(campaign)
    report = Report("campaign_next", summary=[step.why], next_step=step.command)
    report.extra = {"command": step.command, "why": step.why, "state": campaign.state}
    report.text = f"{step.why}\n{step.command}"
    return report
