"""Rules from `init` to the locked baseline and the plan (A12 to A90)."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from infer_forge.base import contracts, jsonio
from infer_forge.campaign import book, repo
from infer_forge.campaign.book import Campaign
from infer_forge.campaign.gates import Answer, bad, not_yet, ok, rule, unseen
from infer_forge.campaign.inputs import ASKED, Inputs
from infer_forge.campaign.layout import FILES

RECHECK_DAYS = 7
"""Open pull requests are looked at again before a long run when the last look is older (A57)."""

READ_FIRST = {"benchmark": "benchmark", "profile": "profil", "pipeline": "pipeline", "history": "history"}
"""What is read before the baseline (A9) -> the stem that must stand in the path of a companion that was read for it."""


@rule("chain", "init", "the ledger is whole: nothing was edited, removed or cut off (A65)")
def _chain(campaign: Campaign) -> Answer:
    result, seen = book.verify(campaign)
    return result, seen, "" if result == "pass" else "restore the ledger from a copy; a changed ledger proves nothing"


@rule(
    "A12", "init", "model, GPU environment and precision or quantization are known; nothing else is asked of a person"
)
def _inputs(campaign: Campaign) -> Answer:
    lacking = Inputs(campaign.inputs).missing()
    if lacking:
        return bad(
            f"not known: {', '.join(lacking)}",
            "ask for these alone: infer-forge campaign record inputs --set NAME=VALUE",
        )
    return ok(f"{len(ASKED)} of {len(ASKED)} known")


@rule("A19", "init", "the target framework is sglang")
def _target(campaign: Campaign) -> Answer:
    target = campaign.inputs["frameworks"]["target"]
    return ok(target) if target == "sglang" else bad(f"the target is {target}", "begin a new campaign")


@rule("A22", "init", "the artifact root lies outside the checkout, the run is named by date and model (A23)")
def _root(campaign: Campaign) -> Answer:
    run = campaign.layout.run
    if campaign.checkout in (run, *run.parents):
        return bad(f"{run} lies in {campaign.checkout}", "begin a new campaign with another --root")
    named = re.fullmatch(r"\d{8}_[a-z0-9_]+_sota_humanize", run.name)
    return ok(str(run)) if named else bad(f"{run.name} is no run name", "begin a new campaign: init names the folder")


@rule("A24", "init", "every file that the state reached asks for stands and is not empty (A24 to A36, A71 to A75)")
def _files(campaign: Campaign) -> Answer:
    wanted = [f for state, names in FILES.items() if campaign.reached(state) for f in names]
    gone = [
        f for f in wanted if not (campaign.layout.run / f).is_file() or not (campaign.layout.run / f).stat().st_size
    ]
    if gone:
        return bad(f"missing or empty: {', '.join(gone)}", "infer-forge campaign report all")
    return ok(f"{len(wanted)} files")


@rule("A37", "init", "no secret stands in an artifact")
def _secrets(campaign: Campaign) -> Answer:
    from infer_forge.guard import scan

    found = scan([campaign.layout.run])
    if found.found:
        first = found.found[0]
        return bad(f"{len(found.found)} secrets, the first in {first.path}", "infer-forge guard scan RUN --redact")
    if found.unreadable:
        return unseen(
            f"{len(found.unreadable)} files could not be read, the first {found.unreadable[0][0]}", "look at them"
        )
    return ok(f"{found.files} files")


@rule(
    "A41",
    "init",
    "selected and excluded frameworks agree in inputs, contract, manifest and fairness report; others are not touched (A38 to A42)",
)
def _frameworks(campaign: Campaign) -> Answer:
    chosen = campaign.inputs["frameworks"]
    wanted = {"sglang", *chosen["selected"]}
    if campaign.contract is not None:
        engines = {e.framework for e in campaign.contract[0].engines}
        if engines != wanted:
            return bad(
                f"the contract has {', '.join(sorted(engines))}, selected are {', '.join(sorted(wanted))}",
                "a new contract is a new campaign",
            )
    pages = [p for p in (campaign.layout.manifest, campaign.layout.fairness_locked) if p.is_file()]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        gone = [n for n in (*wanted, *chosen["excluded"]) if n not in text]
        if gone:
            return bad(f"{page.name} does not name {', '.join(gone)}", "infer-forge campaign report all")
    if campaign.layout.bench.rows.exists():
        from infer_forge.bench.ledger_rows import RowStore

        launched = {str(e["framework"]) for e in RowStore(campaign.layout.bench.rows).events("launch_begins")}
        if launched - wanted:
            return bad(
                f"launched although not selected: {', '.join(sorted(launched - wanted))}", "begin a new campaign"
            )
    return ok(f"{', '.join(sorted(wanted))} in {len(pages)} pages")


def unread(campaign: Campaign) -> list[str]:
    """What of `READ_FIRST` neither a companion that was read nor a blocker names."""
    names = " ".join(str(f["path"]).lower() for r in campaign.of("companions") for f in r["read"])
    told = {str(b["what"]) for b in campaign.of("blocker")}
    return [n for n, stem in READ_FIRST.items() if stem not in names and not any(stem in t for t in told)]


@rule("A9", "history", "the companion skills were read before the baseline")
def _read(campaign: Campaign) -> Answer:
    gone = unread(campaign)
    if gone:
        return bad(
            f"not read: {', '.join(gone)}",
            "read them, then infer-forge campaign record companions --set read=SKILL.md,...",
        )
    return ok("read, with hashes")


@rule(
    "A43",
    "history",
    "pull-request history was read (or its absence recorded) before the contract and before any patch (A44 to A50)",
)
def _history(campaign: Campaign) -> Answer:
    first = next(iter(campaign.of("history")), None)
    if first is None:
        return bad(
            "no history notes and no blocker", "infer-forge journal history, then infer-forge campaign record history"
        )
    locked = next(iter(campaign.of("contract_lock", "baseline_lock", "attempt")), None)
    if locked is not None and locked.number < first.number:
        return bad("the contract was locked before the history was read", "begin a new campaign")
    if campaign.contract is not None:
        at = contracts.read_lock(campaign.layout.bench.contract).locked_at
        if at < first.at[:19]:
            return bad(f"the contract was locked at {at}, the history read at {first.at}", "begin a new campaign")
    items = [i for r in campaign.of("history") for i in r.get("items", [])]
    return ok(f"{len(items)} notes" if items else f"blocker: {first.get('blocker')}")


@rule(
    "A45",
    "history",
    "where SGLang's history of the family exists it was read",
)
def _sglang_history(campaign: Campaign) -> Answer:
    records = campaign.of("history")
    if not records:
        return not_yet("no history yet")
    if any(r.get("blocker") for r in records):
        return ok(f"blocker: {next(r['blocker'] for r in records if r.get('blocker'))}")
    read = {str(i["framework"]) for r in records for i in r.get("items", [])}
    if "sglang" not in read:
        return bad(f"read: {', '.join(sorted(read)) or 'nothing'}", "read SGLang's history of the family and record it")
    return ok(", ".join(sorted(read)))


@rule("A57", "history", "open pull requests of upstream and fork were looked at, not long ago (C39)")
def _open_prs(campaign: Campaign) -> Answer:
    seen = campaign.last("pr_check")
    if seen is None:
        return bad(
            "nobody looked", "infer-forge campaign record pr-check --set upstream=.. --set fork=.. --set open=N,N"
        )
    days = (datetime.now(timezone.utc) - datetime.fromisoformat(seen.at.replace("Z", "+00:00"))).days
    if days > RECHECK_DAYS and not campaign.reached("final"):
        return bad(f"looked at {days} days ago", "look again and record it")
    return ok(f"{seen.at[:10]}: {len(seen['open'])} open")


@rule("A31", "contract", "the contract is locked once, unchanged since, before any result or profile (B31, C62)")
def _contract(campaign: Campaign) -> Answer:
    locked = campaign.last("contract_lock")
    if locked is None or campaign.contract is None:
        return bad("no contract is locked", "infer-forge campaign lock --config FILE")
    if campaign.contract[1] != locked["sha256"]:
        return bad(
            f"the contract's hash is {campaign.contract[1][:12]}, recorded was {str(locked['sha256'])[:12]}",
            "restore the file; another contract is another campaign",
        )
    early = [r for r in campaign.of("profile", "gap", "measurement") if r.number < locked.number]
    if early:
        return bad(f"{early[0].kind} {early[0].id} is older than the contract", "begin a new campaign")
    task = campaign.task()
    if task.typed.contract.benchmark_contract_sha256 not in (None, locked["sha256"]):
        return bad("the task cites another contract", "begin a new campaign")
    return ok(f"{str(locked['sha256'])[:12]}, locked {locked.at}")


@rule("B3", "contract", "the deployment point of the contract is complete, goal and workload are named (C61)")
def _point(campaign: Campaign) -> Answer:
    if campaign.contract is None:
        return not_yet("no contract yet")
    contract = campaign.contract[0]
    lacking = contracts.missing(contract.point, varying=contract.varies)
    return (
        bad(f"not stated: {', '.join(lacking)}", "begin a new campaign with them") if lacking else ok("all five layers")
    )


@rule("A51", "baseline", "the winner table is locked once, cites the contract, and is unchanged (A76)")
def _baseline(campaign: Campaign) -> Answer:
    locked = campaign.last("baseline_lock")
    if locked is None or campaign.baseline is None:
        return bad("no baseline is locked", "infer-forge campaign lock --baseline")
    if campaign.baseline["baseline_sha256"] != locked["sha256"]:
        return bad("the baseline is not the one that was recorded", "restore benchmark/baseline.json")
    return ok(f"{str(locked['sha256'])[:12]}, {len(campaign.baseline['winners'])} winners")


@rule("A65", "baseline", "no candidate row was ever removed or changed; failed ones stay")
def _rows(campaign: Campaign) -> Answer:
    from infer_forge.base.ledger import Ledger

    if campaign.baseline is None:
        return not_yet("no baseline yet")
    seen = Ledger(campaign.layout.bench.rows).verify(must_contain=campaign.baseline["rows_head"])
    if not seen.ok:
        return bad(f"candidates.jsonl line {seen.fault_line}: {seen.fault}", "restore the file")
    return ok(f"{seen.entries} entries")


@rule("A56", "baseline", "help snapshots of every selected framework are kept (A63, A75)")
def _help(campaign: Campaign) -> Answer:
    if campaign.baseline is None:
        return not_yet("no baseline yet")
    names = {p.name for p in campaign.layout.bench.help.glob("*")}
    engines = sorted({str(w["framework"]) for w in campaign.baseline["winners"]})
    gone = [e for e in engines if not any(n.startswith(e) for n in names)]
    if gone:
        return bad(
            f"no help snapshot of {', '.join(gone)}",
            f"infer-forge engine help-snapshot --folder {campaign.layout.bench.help}",
        )
    return ok(f"{len(names)} files")


@rule(
    "A55", "baseline", "the baseline's verdict stands: parity, tokens, speculation and cache are known equal (A27, A54)"
)
def _parity(campaign: Campaign) -> Answer:
    first = next((g for g in campaign.of("gap") if g["measurement"] is None), None)
    if first is None:
        return (
            bad("no gap verdict of the baseline", "infer-forge campaign record gap")
            if campaign.baseline
            else not_yet("no baseline yet")
        )
    void = [s for s in first["scenarios"] if str(s["verdict"]).startswith("void")]
    if void:
        return bad(
            f"{void[0]['scenario']}: {void[0]['verdict']}: {void[0]['reason']}",
            "normalise and measure in a new campaign",
        )
    loose = [s for s in first["scenarios"] if not s["decides"] and s["verdict"] != "inconclusive"]
    if loose:
        return unseen(
            f"{loose[0]['scenario']}: {loose[0]['verdict']} does not decide", "infer-forge bench fairness shows why"
        )
    return ok(f"gap {first.id}")


@rule("B16", "baseline", "the commits that were measured exist in the checkout")
def _commits(campaign: Campaign) -> Answer:
    named = [str(r["commit"]) for r in campaign.of("baseline_lock", "measurement", "result") if r.get("commit")]
    gone = [c[:12] for c in dict.fromkeys(named) if not repo.exists(campaign.checkout, c)]
    return (
        bad(f"not in the checkout: {', '.join(gone)}", "fetch them back") if gone else ok(f"{len(set(named))} commits")
    )


@rule("A77", "plan", "the plan is recorded, stands where it was, and is unchanged")
def _plan(campaign: Campaign) -> Answer:
    plan = campaign.last("plan")
    if plan is None:
        return bad("no plan", "infer-forge campaign record plan --set path=FILE")
    place = Path(str(plan["path"]))
    if not place.is_file():
        return bad(f"{place} is gone", "restore it")
    if jsonio.sha256_file(place) != plan["sha256"]:
        return bad(
            f"{place.name} was changed after it was recorded", "restore it, or record the new plan before a round"
        )
    return ok(f"{place}, mode {plan['mode']}")


@rule("ceiling", "plan", "the floor of the deployment point was computed before round 1, or why not is recorded")
def _ceiling(campaign: Campaign) -> Answer:
    found = campaign.last("ceiling")
    if found is None:
        return bad("no ceiling", "infer-forge campaign record ceiling")
    first: Any = next(iter(campaign.of("round_open")), None)
    if first is not None and campaign.of("ceiling")[0].number > first.number:
        return bad("the ceiling came after round 1", "begin a new campaign")
    return ok(str(found.get("blocker") or found.get("summary")))
