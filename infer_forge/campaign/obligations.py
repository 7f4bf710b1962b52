"""What every round begins and ends with: a claim check, a journal search or record, a renewal of what the guard counts as owned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from infer_forge.base import ownership
from infer_forge.base.errors import ForgeError, GateRefused, UsageFault
from infer_forge.campaign import book, gates, repo, verdicts


def claim_state(claim_id: str, epoch: int) -> dict[str, Any]:
    """Whether (claim, epoch) holds: `current`, `fenced` or `unknown`, and the GPUs that this machine knows of it."""
    from infer_forge.nodes import verbs

    held: list[str] = []
    try:
        for run in ownership.load().runs.values():
            for claim in run.claims:
                named: list[Any] = claim.get("gpus") or []
                held += [str(g) for g in named if str(claim.get("claim_id", "")).startswith(claim_id)]
        verdict = str(verbs.check_epoch(claim_id, epoch).extra["verdict"])
        why = None
    except ForgeError as fault:
        verdict, why = "unknown", fault.what
    return {"claim_id": claim_id, "epoch": epoch, "verdict": verdict, "gpus": sorted(set(map(str, held))), "why": why}


def lacking(campaign: book.Campaign, state: Mapping[str, Any]) -> str | None:
    """Why the claim does not cover the GPUs in use; None when it does."""
    if state["verdict"] != "current":
        return f"claim {state['claim_id']} epoch {state['epoch']} is {state['verdict']}" + (
            f": {state['why']}" if state["why"] else ""
        )
    named: list[Any] = campaign.inputs.get("gpu_ids") or []
    wanted = [str(g) for g in named]
    gone = [g for g in wanted if g not in state["gpus"]]
    if gone:
        return f"the claim does not hold GPU {', '.join(gone)}"
    count = int(campaign.inputs["gpu_count"])
    return None if len(state["gpus"]) >= count else f"the claim holds {len(state['gpus'])} of {count} GPUs"


def search_journal(campaign: book.Campaign, query: str) -> dict[str, Any]:
    """Search the journal for the deployment point and the idea; query and hits as recorded, also when nothing was found."""
    from infer_forge.journal import open_store, search_report, surface_records

    point = campaign.contract[0].point if campaign.contract else None
    with open_store() as store:
        hits = search_report(store, query, {}).tables["hits"].dicts()
        surfaced = surface_records(store, point=point).tables["surfaced"].dicts()
    shown = [{"id": h["id"], "title": h["title"], "kind": h["kind"]} for h in hits[:10]]
    more = [{"id": s["id"], "title": s["title"], "kind": s["why"]} for s in surfaced[:10]]
    return {"query": query, "hits": shown + more, "at": _now()}


def renew_ownership(campaign: book.Campaign) -> list[list[str]]:
    """Prove again what the run owns; what no longer holds is dropped."""
    from infer_forge.guard import refresh

    return [list(outcome) for outcome in refresh(str(campaign.records[0]["run_id"]))]


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def open_round(campaign: book.Campaign, data: Mapping[str, Any]) -> book.Campaign:
    """Begin a round: obligations, the task's loop block, and a fresh gap verdict of the accepted state.

    Args:
        data: claim_id, epoch, query; sub_target (words) is optional.

    Raises:
        GateRefused: a round is open, the claim does not hold the GPUs, or an earlier gate fails.
    """
    reconcile(campaign)
    if campaign.round is not None:
        raise GateRefused(
            f"round {campaign.round_number} is open",
            where=campaign.layout.run.name,
            next_step="infer-forge campaign record round-close",
        )
    for name in ("claim_id", "epoch", "query"):
        if not data.get(name):
            raise UsageFault(f"round-open needs {name}", next_step="--set claim_id=ID --set epoch=N --set query=WORDS")
    gates.require(campaign, "chain", "A31", "A51", "A65", "A77", "ceiling", what="a round")
    if campaign.of("stop"):
        raise GateRefused("the campaign has stopped", next_step="infer-forge campaign status")
    claim = claim_state(str(data["claim_id"]), int(data["epoch"]))
    why = lacking(campaign, claim)
    if why:
        raise GateRefused(
            f"round-claim: {why}", next_step="infer-forge node claim NODE --gpus .. --task .. --purpose .."
        )
    number = campaign.round_number + 1
    target = str(data.get("sub_target") or f"round {number}: close the gap of {_losing(campaign)}")
    body = {
        "round": number,
        "claim": claim,
        "journal": search_journal(campaign, str(data["query"])),
        "ownership": renew_ownership(campaign),
        "checkout": repo.look(campaign.checkout).to_json(),
        "sub_target": target,
        "contract_sha256": campaign.contract[1] if campaign.contract else None,
    }
    _open_block(campaign, number, target)
    after = book.append(campaign, "round_open", body)
    from infer_forge.campaign.recording import record_gap

    return record_gap(after, {})


def _losing(campaign: book.Campaign) -> str:
    gap = verdicts.current(campaign)
    loser = verdicts.worst(gap) if gap else None
    return str(loser["scenario"]) if loser else "the locked scenarios"


def _open_block(campaign: book.Campaign, number: int, target: str) -> None:
    from infer_forge.tasks import open_block, open_store, routing

    first = campaign.records[0]
    route = routing("high", 0, executor=first.get("executor"), reviewer=first.get("reviewer"))
    with open_store() as store:
        open_block(
            store,
            campaign.task_id,
            target,
            "every attempt has a result, every coverage row an answer, the records of claim, journal and guard stand",
            route,
            runner=str(first["mode"]),
            data={"round": number, "ledger_head": campaign.head},
        )


def reconcile(campaign: book.Campaign) -> None:
    """Bring the task's blocks in step with the ledger after a kill between the two: the ledger is the truth."""
    from infer_forge.tasks import close_block, goal_met, open_store
    from infer_forge.tasks.state import DEFINED

    task = campaign.task()
    if campaign.of("contract_lock") and task.status == DEFINED:
        from infer_forge.campaign.locking import lock_task

        lock_task(campaign)
        task = campaign.task()
    block = task.active_block
    if block is None:
        if task.blocks and not any(g["seq"] > task.blocks[-1].closed_seq for g in task.goal_checks) and not task.ended:
            with open_store() as store:
                goal_met(store, task.id)
        return
    if campaign.round is not None and int(campaign.round["round"]) == int(block.data.get("round", -1)):
        return
    with open_store() as store:
        done = campaign.last("round_close")
        same = done is not None and int(done["round"]) == int(block.data.get("round", -1))
        outcome, progress = (
            (str(done["outcome"]), str(done["progress"])) if done is not None and same else ("rejected", "stalled")
        )
        close_block(
            store, task.id, outcome, progress, "closed after an interruption", data={"ledger_head": campaign.head}
        )
        goal_met(store, task.id)


def close_round(campaign: book.Campaign, data: Mapping[str, Any]) -> book.Campaign:
    """End a round: every attempt has a result, coverage is answered, and the records for all three obligations are written.

    Raises:
        GateRefused: something is open; the message says what.
    """
    from infer_forge.tasks import close_block, goal_met, open_store

    opened = campaign.round
    if opened is None:
        raise GateRefused("no round is open", next_step="infer-forge campaign record round-open")
    running = gates.open_attempt(campaign)
    if running is not None:
        raise GateRefused(
            f"attempt {running.id} has no result",
            next_step=f"infer-forge campaign record result --set attempt={running.id} ...",
        )
    wanted = ["chain", "A31", "A51", "A65", "A102", "round-journal", "round-guard"]
    gates.require(campaign, *wanted, *(["coverage"] if campaign.in_round("profile") else []), what="closing the round")
    claim = claim_state(str(opened["claim"]["claim_id"]), int(opened["claim"]["epoch"]))
    results = campaign.in_round("result")
    kept = [r for r in results if r["outcome"] == "accepted"]
    void = _void(campaign, claim, bool(data.get("void")), accepted=bool(kept))
    gain = _gain(campaign)
    outcome = "confirmed" if kept else "rejected" if results else "constraint"
    body = {
        "round": int(opened["round"]),
        "claim": claim,
        "journal_records": write_journal(campaign, results),
        "ownership": renew_ownership(campaign),
        "gain_pct": gain,
        "outcome": outcome,
        "progress": "advanced" if kept else "stalled",
        "void": void,
        "note": str(data.get("note") or ""),
    }
    after = book.append(campaign, "round_close", body)
    with open_store() as store:
        close_block(
            store, campaign.task_id, outcome, str(body["progress"]), str(body["note"]), data={"ledger_head": after.head}
        )
        goal_met(store, campaign.task_id)
    return after


def _void(campaign: book.Campaign, claim: Mapping[str, Any], wanted: bool, *, accepted: bool) -> str | None:
    """Why the round counts for nothing: its claim was lost. None when the claim holds, or cannot be asked.

    Raises:
        GateRefused: the claim was lost, and the round is not closed as void, or something of it was accepted.
    """
    why = lacking(campaign, claim)
    if claim["verdict"] != "fenced" or why is None:
        if wanted:
            raise GateRefused(f"the claim is {claim['verdict']}: the round is not void", next_step="leave void away")
        return None
    if not wanted or accepted:
        raise GateRefused(
            f"round-claim: {why}: what was measured under it does not count",
            next_step="a person looks: something was accepted in this round"
            if accepted
            else "record its results as rejected, close the round with --set void=true, claim again and measure again",
        )
    return why


def _gain(campaign: book.Campaign) -> float:
    """Geometric mean of the accepted gains of this round, per cent over the prior best."""
    product = math.prod(
        1 + float(r["gain_pct"] or 0) / 100 for r in campaign.in_round("result") if r["outcome"] == "accepted"
    )
    return round(100 * (product - 1), 4)


def write_journal(campaign: book.Campaign, results: list[book.Record]) -> list[str]:
    """Write the round's results into the journal, the rejected ones too; gives the ids."""
    from infer_forge.journal import Record, add, open_store

    point = campaign.contract[0].point.model_dump(mode="json", exclude_none=True) if campaign.contract else None
    made: list[Record] = []
    for r in results:
        attempt = campaign.need(str(r["attempt"]), "attempt")
        idea = campaign.find(str(attempt["idea"]))
        good = r["outcome"] == "accepted"
        fields: dict[str, Any] = {
            "kind": "result" if good else "rejection",
            "title": f"{attempt['title']}: {r['outcome']}"[:300],
            "created": r.at,
            "task_id": campaign.task_id,
            "claim": "model_e2e",
            "deployment_point": point,
            "contract_sha256": campaign.contract[1] if campaign.contract else None,
            "verdict": r["outcome"],
            "extra": {"campaign": campaign.layout.run.name, "record": r.id, "reason": r["reason"]},
        }
        if good:
            # Over the prior best, so the figure belongs to its commit: that of the next one contradicts it in nothing.
            fields |= {
                "metric": f"{campaign.contract[0].metric.name}_gain" if campaign.contract else None,
                "value": r["gain_pct"],
                "unit": "pct",
                "higher_is_better": True,
                "dims": {"framework_rev": [str(r["commit"])]},
            }
        if idea is not None:
            fields["idea"] = {"repository": idea["repository"], "path": idea["path"], "symbol": idea.get("symbol")}
        made.append(Record.model_validate(fields))
    if not made:
        note = {
            "kind": "note",
            "title": f"round {campaign.round_number} of {campaign.layout.run.name}: no attempt",
            "created": _now(),
        }
        made.append(Record.model_validate({**note, "task_id": campaign.task_id, "deployment_point": point}))
    with open_store() as store:
        return add(store, made)
