"""`campaign lock`: the contract (which also locks the task) and later the baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from infer_forge.base import contracts, jsonio
from infer_forge.base.errors import GateRefused, InputUnusable
from infer_forge.base.records import Report
from infer_forge.campaign import book, conditions, gates, repo
from infer_forge.campaign.inputs import TARGET


def draft(
    campaign: book.Campaign, config: Path | None, contract: Path | None, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """The contract as data: from a search configuration or a file, with fields set.

    Raises:
        GateRefused: it is about other frameworks or another model than the campaign.
    """
    from infer_forge.bench.contract_lock import set_fields

    if contract is not None:
        raw: Any = jsonio.read_json(contract)
        if not isinstance(raw, dict):
            raise InputUnusable("a contract is a JSON object", where=str(contract))
        data: dict[str, Any] = dict(raw)  # pyright: ignore[reportUnknownArgumentType]
    else:
        from infer_forge.bench.search_config import draft_contract, load_config

        named = config or (
            Path(str(campaign.inputs["search_config"])) if campaign.inputs.get("search_config") else None
        )
        if named is None:
            raise InputUnusable("no contract is named", next_step="--config FILE or --contract FILE")
        data = draft_contract(load_config(named))
    made = set_fields(data, settings)
    typed = contracts.contract_of(made)
    if typed.target != TARGET:
        raise GateRefused(
            f"A19: the target of the contract is {typed.target}, a campaign's is {TARGET}",
            next_step="take `target` out of the contract",
        )
    if typed.grid.kind == "diffusion":
        from infer_forge.campaign.handed import require_contract

        require_contract(typed)
    wanted = {"sglang", *campaign.inputs["frameworks"]["selected"]}
    if {e.framework for e in typed.engines} != wanted:
        raise GateRefused(
            f"A41: the contract has {', '.join(sorted(e.framework for e in typed.engines))}, selected are {', '.join(sorted(wanted))}",
            next_step="take engines out of the configuration that were not selected, or begin with another comparison",
        )
    if typed.point.model.id != campaign.inputs["model"]:
        raise GateRefused(
            f"the contract is about {typed.point.model.id}, the campaign about {campaign.inputs['model']}",
            next_step="correct the configuration",
        )
    return made


def lock_contract(
    campaign: book.Campaign,
    *,
    config: Path | None = None,
    contract: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    accepted_by: str | None = None,
    reason: str | None = None,
    dry_run: bool = False,
) -> tuple[book.Campaign, Report]:
    """Lock the benchmark contract and with it the task.

    Raises:
        GateRefused: the history gate or an input is missing, nothing could be accepted under it, or the bench room refuses
            (second lock, noise, incomplete point).
    """
    gates.require(campaign, "chain", "A12", "A22", "A9", "A43", "A45", "A57", what="the contract lock")
    from infer_forge.bench import contract_lock

    data = draft(campaign, config, contract, settings or {})
    held = campaign.layout.bench.contract.exists()
    if held and campaign.of("contract_lock"):
        _second("B31", lambda: contract_lock.lock_contract(campaign.layout.run, data))
    if held:  # locked a moment ago by a process that was killed before it could record it, or by `bench lock`
        report = Report("bench_lock", summary=["the contract is locked already; it is taken over"])
    else:
        _require_floor(data)
        report = contract_lock.lock_contract(
            campaign.layout.run, data, accepted_by=accepted_by, reason=reason, dry_run=dry_run
        )
    if dry_run:
        return campaign, report
    fresh = book.read(campaign.layout.run)
    assert fresh.contract is not None
    report.extra.setdefault("contract_sha256", fresh.contract[1])
    after = book.append(fresh, "contract_lock", {"sha256": fresh.contract[1], "path": "benchmark/contract.json"})
    lock_task(after)
    gates.require(after, "A43", "A31", what="the campaign")
    return after, report


def _require_floor(data: dict[str, Any]) -> None:
    """C41: without an accuracy floor no change could be accepted, and the contract can be locked only once."""
    typed = contracts.contract_of(data)
    if typed.grid.kind != "diffusion" and not typed.accuracy:
        raise GateRefused(
            "C41: the contract fixes no accuracy floor, so no change could ever be accepted under it",
            next_step='--set accuracy=\'[{"dataset": "gsm8k", "metric": "exact_match", "floor": F, "tolerance": T}]\'',
        )


def _second(rule: str, lock: Callable[[], object]) -> None:
    """Let the bench room refuse a second lock, under the rule's name."""
    try:
        lock()
    except GateRefused as fault:
        raise GateRefused(f"{rule}: {fault.what}", where=fault.where, next_step=fault.next_step) from None
    raise GateRefused(f"{rule}: it is locked already", next_step="a second lock is a new campaign")


def lock_task(campaign: book.Campaign) -> None:
    """Lock and start the campaign's task on its locked contract; again is harmless."""
    from infer_forge.tasks import load, open_store
    from infer_forge.tasks.define import definition_of, edit, lock, start

    assert campaign.contract is not None
    contract, sha256 = campaign.contract
    with open_store() as store:
        task = load(store, campaign.task_id)
        if task.lock is None:
            body = dict(task.definition)
            body["contract"] = {
                **body["contract"],
                "deployment_point": contract.point.model_dump(mode="json", exclude_none=True),
                "may_vary": list(contract.varies),
                "benchmark_contract_sha256": sha256,
            }
            edit(store, campaign.task_id, definition_of(body))
            lock(store, campaign.task_id)
        start(store, campaign.task_id)


def lock_baseline(
    campaign: book.Campaign, *, min_launches: int | None = None, dry_run: bool = False
) -> tuple[book.Campaign, Report]:
    """Lock the winner table; it also writes the locked fairness report and the pages of the benchmark.

    Args:
        min_launches: of every winner; by default, and at the least, what the contract's first look needs.

    Raises:
        GateRefused: the contract is not locked in this campaign, code was changed already, or the bench room refuses.
    """
    gates.require(campaign, "chain", "A43", "A31", "B3", what="the baseline lock")
    from infer_forge.bench import baseline_lock, search
    from infer_forge.campaign.measure import first_look

    if campaign.of("baseline_lock"):
        _second("A51", lambda: baseline_lock.lock_baseline(campaign.layout.run))
    seen, first = conditions.clean(campaign), campaign.inputs["target_checkout"]
    if seen.commit != first["commit"] and not repo.is_ancestor(campaign.checkout, str(first["commit"]), seen.commit):
        raise GateRefused(
            "A76: the checkout was changed before the baseline",
            where=str(seen.path),
            next_step="measure the baseline on a clean checkout",
        )
    assert campaign.contract is not None
    _require_measured_here(campaign, seen.commit)
    least = first_look(campaign.contract[0].budgets.max_launches_per_engine)
    if min_launches is not None and min_launches < least:
        raise GateRefused(
            f"A103: with {min_launches} launches nothing can be decided, the contract's first look is at {least}",
            next_step=f"infer-forge bench search --remeasure --launches {least}, then lock without fewer",
        )
    if not campaign.layout.bench.baseline.exists():
        report = baseline_lock.lock_baseline(campaign.layout.run, min_launches=min_launches or least, dry_run=dry_run)
    else:
        report = Report("bench_lock_baseline", summary=["the baseline is locked already; it is taken over"])
    if dry_run:
        return campaign, report
    fresh = book.read(campaign.layout.run)
    assert fresh.baseline is not None
    assert fresh.contract is not None
    report.extra.setdefault("baseline_sha256", fresh.baseline["baseline_sha256"])
    search.write_pages(fresh.layout.bench, *fresh.contract)
    from infer_forge.campaign.reports import write_locked_fairness

    write_locked_fairness(fresh)
    names = ("benchmark/summary.md", "benchmark/winning-commands.md", "benchmark/fairness/diagnostics.md")
    pages = {n: jsonio.sha256_file(fresh.layout.run / n) for n in names if (fresh.layout.run / n).is_file()}
    body = {
        "sha256": fresh.baseline["baseline_sha256"],
        "path": "benchmark/baseline.json",
        "commit": seen.commit,
        "rows_head": fresh.baseline["rows_head"],
        "pages": pages,
    }
    return book.append(fresh, "baseline_lock", body), report


def _require_measured_here(campaign: book.Campaign, commit: str) -> None:
    """B16: SGLang's launches are of the commit that the baseline names, where the engine told its source.

    Raises:
        GateRefused: one is of another commit, or of files that were changed.
    """
    from infer_forge.bench.ledger_rows import RowStore

    assert campaign.contract is not None
    rows = RowStore(campaign.layout.bench.rows).rows(contract_hash=campaign.contract[1], purposes=["decision"])
    for row in rows:
        why = (
            conditions.other_source(campaign.checkout, commit, row.framework_commit)
            if row.framework == TARGET
            else None
        )
        if why is not None:
            raise GateRefused(
                f"B16: launch {row.launch_id} of {TARGET} is not of the commit {commit[:12]}: {why}",
                where=str(campaign.layout.bench.rows),
                next_step="rows are never removed: begin a new campaign on a clean checkout, with the engine installed from it",
            )
