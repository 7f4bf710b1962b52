"""The second lock: the winner table, after the winners were measured again, citing the contract (A51, A53, A54, A76)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from infer_forge.base import contracts
from infer_forge.base.errors import GateRefused, InputUnusable
from infer_forge.base.records import Finding, Header, InputFile, Report
from infer_forge.base.tables import Column, Table
from infer_forge.bench import contract_lock
from infer_forge.bench.ledger_rows import RowStore
from infer_forge.bench.run_layout import Layout, layout
from infer_forge.bench.search import Winner, belongs, winners

if TYPE_CHECKING:
    from infer_forge.base.contract_model import BenchmarkContract
    from infer_forge.base.ledger import Entry
    from infer_forge.bench.model import Row

KIND = "benchmark_baseline"
_BLOCKING = ("refuse",)


def read_baseline(run: str | Path) -> dict[str, Any]:
    """The locked winner table of a run directory.

    Raises:
        GateRefused: none is locked, or it cites another contract. InputUnusable: it was edited.
    """
    place = layout(run)
    if not place.baseline.exists():
        raise GateRefused(
            "no baseline is locked", where=str(place.baseline), next_step="infer-forge bench lock --run DIR --baseline"
        )
    held = contracts.read_lock(place.baseline, KIND)
    _, sha256 = contract_lock.read_contract(run)
    if held.contract.get("contract_sha256") != sha256:
        raise GateRefused(
            "the baseline cites another contract", where=str(place.baseline), next_step="restore the run directory"
        )
    return {**held.contract, "baseline_sha256": held.sha256, "locked_at": held.locked_at}


def record_accuracy(run: str | Path, framework: str, dataset: str, score: float, evidence: str) -> None:
    """Record a measured accuracy of an engine's baseline (0 to 1), with the file that shows it, hashed."""
    if not 0 <= score <= 1:
        raise InputUnusable(f"an accuracy lies between 0 and 1, not {score:g}", where=dataset)
    _, sha256 = contract_lock.read_contract(run)
    RowStore(layout(run).rows).event(
        "accuracy",
        framework=framework,
        dataset=dataset,
        score=score,
        evidence=InputFile.of(evidence).to_json(),
        contract_hash=sha256,
    )


def _accuracy_faults(
    contract: BenchmarkContract, store: RowStore, rows: Sequence[Row], contract_hash: str
) -> tuple[list[str], list[dict[str, Any]]]:
    found: list[dict[str, Any]] = [e for e in store.events("accuracy") if e["contract_hash"] == contract_hash]
    for row in rows:
        found += [
            {"framework": row.framework, "dataset": a.benchmark, "score": a.score}
            for a in row.accuracy
            if a.score is not None
        ]
    faults: list[str] = []
    for floor in contract.accuracy:
        for engine in contract.engines:
            scores = [f["score"] for f in found if f["framework"] == engine.framework and f["dataset"] == floor.dataset]
            if not scores:
                faults.append(f"{engine.framework} has no {floor.dataset} accuracy")
            elif scores[-1] < floor.floor:
                faults.append(
                    f"{engine.framework} reaches {scores[-1]:.4g} on {floor.dataset}, the floor is {floor.floor:.4g}"
                )
    return faults, found


def _search_faults(contract: BenchmarkContract, store: RowStore, contract_hash: str) -> list[str]:
    """A53, A54: every engine has a candidate beside its default, or a recorded reason."""
    faults: list[str] = []
    begun = [
        e for e in store.events("launch_begins") if e["contract_hash"] == contract_hash and e["purpose"] == "search"
    ]
    excused = {
        e["framework"]
        for e in store.events("not_run")
        if e["contract_hash"] == contract_hash and e["reason"] != "the budget is used up"
    }
    unsearched = {e["framework"] for e in store.events("no_search") if e["contract_hash"] == contract_hash}
    for engine in contract.engines:
        if engine.framework in unsearched:
            continue
        tried = {e["candidate_id"] for e in begun if e["framework"] == engine.framework}
        tuned = {e["candidate_id"] for e in begun if e["framework"] == engine.framework and e["candidate"] != "base"}
        if engine.framework in excused:
            continue
        if not tried:
            faults.append(f"A53: {engine.framework} was not searched, and no reason is recorded")
        elif not tuned:
            faults.append(
                f"A54: {engine.framework} has only its default candidate: tuned against default is no comparison"
            )
    return faults


def _row_faults(contract: BenchmarkContract, rows: Sequence[Row], contract_hash: str) -> list[str]:
    from infer_forge.bench.checks import check_rows

    faults = [
        f"{f.rule}: {f.label}: {f.evidence}"
        for f in check_rows(rows, contract, contract_hash)
        if f.severity in _BLOCKING and rows[f.row].status == "ok"
    ]
    return list(dict.fromkeys(faults))[:6]


def _table(
    contract: BenchmarkContract, chosen: Sequence[Winner], entries: Sequence[tuple[Entry, Row]]
) -> list[dict[str, Any]]:
    from infer_forge.bench.metrics import metric_of

    figure = metric_of(contract.metric.name)
    made: list[dict[str, Any]] = []
    for winner in chosen:
        mine = [
            (e, r)
            for e, r in entries
            if r.candidate_id == winner.candidate_id and belongs(r, winner.scenario) and r.status == "ok"
        ]
        values = [v for _, r in mine if (v := figure.of(r)) is not None]
        if not mine or not values:
            continue
        last = mine[-1][1]
        made.append(
            {
                "scenario": winner.scenario,
                "framework": winner.framework,
                "candidate_id": winner.candidate_id,
                "launches": len({r.launch_id for _, r in mine}),
                "metric": contract.metric.name,
                "mean": statistics.fmean(values),
                "cv": statistics.stdev(values) / statistics.fmean(values) if len(values) > 1 else None,
                "server_command": last.server_command,
                "server_env": last.server_env,
                "benchmark_command": last.benchmark_command,
                "deployment_point_hash": last.deployment_point_hash,
                "rows": [e.hash for e, _ in mine],
            }
        )
    return made


def lock_baseline(run: str | Path, *, min_launches: int = 1, dry_run: bool = False) -> Report:
    """Lock the winner table of a run directory from its re-measured (decision) rows.

    Raises:
        GateRefused: no contract; no winner was measured again; an engine was not searched, or only with its default; a
            row is impossible or not the contract's workload; an accuracy floor is unknown or missed; a lock is there.
    """
    place = layout(run)
    contract, sha256 = contract_lock.read_contract(run)
    store = RowStore(place.rows)
    entries = store.entries(contract_hash=sha256, purposes=["decision"])
    rows = [r for _, r in entries]
    if place.baseline.exists():
        contracts.lock_once(place.baseline, KIND, {})  # refuses, and says what is locked
    if not rows:
        raise GateRefused(
            "no winner was measured again",
            where=str(place.rows),
            next_step="infer-forge bench search --run DIR --config FILE --remeasure",
        )
    chosen = winners(rows, contract, sha256)
    table = _table(contract, chosen, entries)
    faults = _search_faults(contract, store, sha256) + _row_faults(contract, rows, sha256)
    accuracy_faults, accuracy = _accuracy_faults(contract, store, rows, sha256)
    faults += accuracy_faults + _coverage_faults(contract, store, table, sha256, min_launches)
    if faults:
        raise GateRefused(
            f"the baseline cannot be locked: {'; '.join(faults[:6])}"
            + (f"; and {len(faults) - 6} more" if len(faults) > 6 else ""),
            where=str(place.rows),
            next_step="mend these, then lock",
        )
    content = {
        "contract_sha256": sha256,
        "metric": contract.metric.name,
        "winners": table,
        "accuracy": accuracy,
        "rows_head": store.ledger.head(),
        "launches_tried": len(store.events("launch_begins")),
    }
    if dry_run:
        return _report(contract, content, contracts.contract_sha256(content), None, place)
    made = contracts.lock_once(place.baseline, KIND, content)
    return _report(contract, content, made.sha256, made.locked_at, place)


def _coverage_faults(
    contract: BenchmarkContract,
    store: RowStore,
    table: Sequence[Mapping[str, Any]],
    contract_hash: str,
    min_launches: int,
) -> list[str]:
    excused = {
        e["framework"]
        for e in store.events("not_run")
        if e["contract_hash"] == contract_hash and e["reason"] != "the budget is used up"
    }
    points = sum(len(s.concurrencies) for s in contract.grid.scenarios)
    faults: list[str] = []
    for engine in contract.engines:
        mine = [w for w in table if w["framework"] == engine.framework]
        if len(mine) < points and engine.framework not in excused:
            faults.append(f"{engine.framework} has a re-measured winner in {len(mine)} of {points} scenarios")
        faults += [
            f"{engine.framework} {w['scenario']} has {w['launches']} launches of {min_launches}"
            for w in mine
            if w["launches"] < min_launches
        ]
    if not any(w["framework"] == contract.target for w in table):
        faults.append(f"the target {contract.target} has no winner")
    return faults


def _report(
    contract: BenchmarkContract, content: Mapping[str, Any], sha256: str, locked_at: str | None, place: Layout
) -> Report:
    table = Table(
        "winners",
        [
            Column("scenario", "text"),
            Column("framework", "text"),
            Column("candidate", "text"),
            "launches",
            "mean",
            "cv_pct",
            Column("server_command", "text"),
        ],
    )
    for w in cast("list[dict[str, Any]]", content["winners"]):
        cv = w["cv"]
        table.rows.append(
            [
                w["scenario"],
                w["framework"],
                w["candidate_id"],
                w["launches"],
                w["mean"],
                None if cv is None else 100 * cv,
                w["server_command"],
            ]
        )
    report = Report("bench_lock_baseline", header=Header(inputs=[InputFile.of(place.rows)]), tables={"winners": table})
    report.extra = {
        "baseline_sha256": sha256,
        "contract_sha256": content["contract_sha256"],
        "locked_at": locked_at,
        "path": str(place.baseline),
        "winners": content["winners"],
    }
    did = f"locked at {locked_at}" if locked_at else "would be locked (dry run)"
    report.summary = [f"baseline {sha256} {did}, on contract {str(content['contract_sha256'])[:12]}"]
    if not contract.accuracy:
        report.findings.append(
            Finding("NO_ACCURACY_FLOOR", "the contract fixes no accuracy floor: speed alone is compared")
        )
    report.next_step = f"infer-forge bench gap --rows {place.rows} --contract {place.contract}"
    return report
