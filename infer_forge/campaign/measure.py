"""Measure the checkout as it stands against the locked rivals: fresh launches, interleaved, same contract.

The candidate of a patched checkout is the locked winner plus the commit in its environment (`INFER_FORGE_SOURCE_COMMIT`),
so that rows of two commits are never pooled.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault
from infer_forge.base.records import Report
from infer_forge.base.tables import Table
from infer_forge.campaign import book, conditions, gates, verdicts

if TYPE_CHECKING:
    from infer_forge.bench.search_config import Candidate
    from infer_forge.bench.session import Launch, Session

LABELS = ("patched", "off", "repeat")
"""The open attempt's commit, its patch switched off, or the accepted state once more (A103)."""
Told = Callable[[int, int, str], None]


def measure(
    campaign: book.Campaign,
    *,
    config: Path | None = None,
    launches: int | None = None,
    label: str = "patched",
    helps: bool = True,
    told: Told | None = None,
) -> tuple[book.Campaign, Report]:
    """Launch target and rivals afresh in ABBA blocks and record the measurement.

    Args:
        config: the search configuration; by default the one that `init` was given.
        launches: of each side; by default what the contract's first look needs.
        label: `patched`; `off` when the patch is switched off (A/B of the mechanism); `repeat` for further launches of the
            accepted state, which count with those it was decided on.

    Raises:
        GateRefused: no baseline, no open round, a lost claim, a dirty checkout, or a commit that no recorded attempt made.
    """
    if label not in LABELS:
        raise UsageFault(f"a measurement is labelled {' or '.join(LABELS)}, not {label!r}")
    gates.require(campaign, "A51", "A100", "chain", "round-claim", what="measure")
    if campaign.diffusion:
        raise GateRefused(
            "A71: a diffusion benchmark is run by you and handed in",
            next_step="infer-forge campaign measure --results SIDE=FILE ...",
        )
    from infer_forge.bench import driver, search
    from infer_forge.bench.prepare import prepare
    from infer_forge.bench.search_config import candidates

    place = config or (Path(campaign.inputs["search_config"]) if campaign.inputs.get("search_config") else None)
    if place is None:
        raise UsageFault("no search configuration is known", next_step="--config FILE")
    head = conditions.head_of(campaign, label)
    try:
        session = prepare(campaign.layout.run, place, "decision", helps=helps)
        assert session.contract is not None
        search.require_same(session.config, session.contract)
    except (GateRefused, InputUnusable) as fault:  # another workload, scenario, model, client or SLA
        raise type(fault)(f"A79: {fault.what}", where=fault.where, next_step=fault.next_step) from None
    count = launches or first_look(session.contract.budgets.max_launches_per_engine)
    again = verdicts.best_measurement(campaign) if label == "repeat" else None
    commit = (str(again["commit"]) if again else None) if label == "repeat" else head
    chosen, table = _chosen(
        campaign, commit, {c.id: c for e in session.config.engines for c in candidates(session.config, e.framework)}
    )
    conditions.require_installed(campaign, session, head)
    conditions.require_same_launch(campaign, session, chosen)
    driver.orphans(session.layout, grace_s=session.grace_s)
    ident = f"m-{secrets.token_hex(4)}"
    made = _launched(campaign, session, chosen, count, ident, told)
    hashes = [
        e.hash for e, r in session.store.entries(purposes=["decision"]) if str(r.block_id or "").startswith(ident)
    ]
    body: dict[str, Any] = {
        "measurement": ident,
        "label": label,
        "of": again.id if again else None,
        "commit": head,
        "launches": count,
        "candidates": table,
        "rows": hashes,
        "failed": [f"{m.candidate.framework}: {m.reason}" for m in made if m.status != "ok"],
        "contract_sha256": session.contract_hash,
    }
    after = book.append(book.read(campaign.layout.run), "measurement", body)
    report = Report("campaign_measure")
    rows = [(m.id, m.candidate.framework, m.candidate.id, m.status, m.reason) for m in made]
    report.add(Table("launches", ["launch", "framework", "candidate", "status", "reason"], rows))
    last = after.records[-1]
    report.extra = {"id": last.id, **body}
    report.summary = [
        f"measurement {last.id} ({label}) of commit {head[:12]}: {len(made)} launches, {len(body['failed'])} failed"
    ]
    report.next_step = "infer-forge campaign record gap" + (
        "" if label == "repeat" else f" --set measurement={last.id}"
    )
    return after, report


def _launched(
    campaign: book.Campaign, session: Session, chosen: list[Candidate], count: int, ident: str, told: Told | None
) -> list[Launch]:
    """`count` launches of each candidate in ABBA order, two turns a block; the checkout stands still meanwhile."""
    from infer_forge.bench import driver

    made: list[Launch] = []
    begun = conditions.clean(campaign).commit
    order = list(enumerate(chosen))
    for turn in range(count):
        for index, candidate in reversed(order) if turn % 2 else order:
            if told:
                told(len(made), count * len(chosen), candidate.id)
            position = 2 * len(chosen) - 1 - index if turn % 2 else index
            made.append(driver.measure(session, candidate, block_id=f"{ident}-{turn // 2}", block_position=position))
            conditions.require_unmoved(campaign, begun)
    return made


def first_look(most: int) -> int:
    """Launches of the first look that a contract's budget allows."""
    from infer_forge.bench.stats import LOOKS

    return next((n for n in LOOKS if n <= most), most)


def _chosen(
    campaign: book.Campaign, head: str | None, known: dict[str, Candidate]
) -> tuple[list[Candidate], dict[str, dict[str, str]]]:
    """The candidates to launch, target first, and scenario -> framework -> candidate id; no commit: the winners as they are."""
    assert campaign.baseline is not None
    table: dict[str, dict[str, str]] = {}
    chosen: dict[str, Candidate] = {}
    winners: list[dict[str, Any]] = sorted(campaign.baseline["winners"], key=lambda w: w["framework"] != "sglang")
    for winner in winners:
        candidate = known.get(winner["candidate_id"])
        if candidate is None:
            raise GateRefused(
                f"the configuration no longer holds the winner {winner['candidate_id']}",
                next_step="use the configuration that was searched",
            )
        if winner["framework"] == "sglang" and head is not None:
            candidate = candidate.model_copy(update={"env": {**candidate.env, conditions.VARIABLE: head[:12]}})
        chosen[candidate.id] = candidate
        table.setdefault(winner["scenario"], {})[winner["framework"]] = candidate.id
    return list(chosen.values()), table
