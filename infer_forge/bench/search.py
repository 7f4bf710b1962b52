"""The bounded search over every engine's launch configurations, and the winners measured again.

Resumable: what is recorded under the same contract is not run again, what an earlier, killed command left running is
stopped first (by its record, never by name). Failures are kept and count against the budget. Engines take turns, so that
a search that is cut short stays fair. Selection picks the best of noisy runs; its rows carry `purpose: search` and never
decide: `remeasure` launches the winners afresh, interleaved in ABBA blocks, with `purpose: decision`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from infer_forge.base import contracts, jsonio
from infer_forge.base.errors import GateRefused
from infer_forge.base.records import Finding, Report
from infer_forge.base.redact import redact_arguments
from infer_forge.base.tables import Column, Table
from infer_forge.bench import driver
from infer_forge.bench.ledger_rows import RowStore
from infer_forge.bench.run_layout import Layout
from infer_forge.bench.search_config import Candidate, SearchConfig, candidates, draft_contract
from infer_forge.bench.session import Launch, Session
from infer_forge.engines import frameworks

if TYPE_CHECKING:
    from infer_forge.base.contract_model import BenchmarkContract
    from infer_forge.bench.model import Row

TODO, DONE, OVER, REFUSED = "todo", "done", "over_budget", "unsupported"
Told = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Planned:
    """One candidate and where it stands: `todo`, `done`, `over_budget` or `unsupported`."""

    candidate: Candidate
    state: str
    launches: int
    status: str | None
    note: str = ""


@dataclass(frozen=True)
class Spent:
    """What a framework has used of its budget."""

    runs: int
    minutes: float


def require_same(config: SearchConfig, contract: BenchmarkContract) -> None:
    """Refuse a configuration that is not the contract's. Raises `GateRefused` naming the differing fields."""
    draft = contracts.contract_of(draft_contract(config))
    differ: list[str] = []
    if draft.point.model.id != contract.point.model.id:
        differ.append("model")
    pairs: list[tuple[str, Any, Any]] = [
        ("grid", _grid(draft), _grid(contract)),
        ("sla", draft.sla, contract.sla),
        ("client", draft.client.name, contract.client.name),
        ("endpoint", draft.client.endpoint, contract.client.endpoint),
        ("seeds", draft.seeds, contract.seeds),
        ("topology", draft.point.serving_topology, contract.point.serving_topology),
        ("engines", _engines(draft), _engines(contract)),
    ]
    differ += [name for name, a, b in pairs if a != b]
    if differ:
        raise GateRefused(
            f"the configuration is not the locked contract's: {', '.join(differ)}",
            where=config.name,
            next_step="use the locked conditions; a new contract is a new task",
        )


def _grid(contract: BenchmarkContract) -> list[Any]:
    return [
        (s.name, s.input_len, s.output_len, s.num_prompts, s.concurrencies, s.request_rate)
        for s in contract.grid.scenarios
    ]


def _engines(contract: BenchmarkContract) -> list[Any]:
    return sorted((e.framework, e.max_runs, e.max_minutes) for e in contract.engines)


def spent(store: RowStore, framework: str, contract_hash: str | None) -> Spent:
    """Launches begun for the search (a killed one counts) and minutes of those that ended."""
    begun = [e for e in store.events("launch_begins") if _ours(e, framework, contract_hash)]
    ended = [e for e in store.events("launch_ends") if _ours(e, framework, contract_hash)]
    return Spent(len(begun), sum(float(e["seconds"]) for e in ended) / 60)


def _ours(event: dict[str, Any], framework: str, contract_hash: str | None) -> bool:
    return event["framework"] == framework and event["purpose"] == "search" and event["contract_hash"] == contract_hash


def plan(
    config: SearchConfig,
    store: RowStore,
    contract_hash: str | None,
    only: Iterable[str] = (),
    *,
    retry_failed: bool = False,
) -> list[Planned]:
    """Every candidate of every framework in turn, with what is done, what is left, and what the budget leaves out."""
    wanted = [frameworks.canonical(f) for f in only] or [e.framework for e in config.engines]
    ended = [e for e in store.events("launch_ends") if e["purpose"] == "search" and e["contract_hash"] == contract_hash]
    columns: list[list[Planned]] = []
    for name in wanted:
        entry = config.engine(name)
        used = spent(store, name, contract_hash)
        left = config.budget.runs - used.runs
        column: list[Planned] = []
        absent = next(
            (
                str(e["reason"])
                for e in ended
                if e["framework"] == name and e["candidate"] == "base" and e.get("absent")
            ),
            None,
        )
        for candidate in candidates(config, name):
            past = [e for e in ended if e["candidate_id"] == candidate.id]
            status = str(past[-1]["status"]) if past else None
            if entry.unsupported:
                column.append(Planned(candidate, REFUSED, 0, None, entry.unsupported))
            elif past and past[-1]["complete"] and not (retry_failed and status != "ok"):
                column.append(Planned(candidate, DONE, len(past), status))
            elif absent and not retry_failed:
                column.append(
                    Planned(candidate, REFUSED, len(past), status, f"the engine is not installed here: {absent}"[:300])
                )
            elif left > 0 and used.minutes < config.budget.minutes:
                left -= 1
                column.append(Planned(candidate, TODO, len(past), status))
            else:
                column.append(Planned(candidate, OVER, len(past), status, "the budget is used up"))
        columns.append(column)
    return [p for turn in zip_longest(*columns) for p in turn if p is not None]


def run_search(
    session: Session,
    only: Iterable[str] = (),
    *,
    max_launches: int | None = None,
    retry_failed: bool = False,
    told: Told | None = None,
) -> list[Launch]:
    """Run what the plan leaves to do. Each launch is on disk before the next begins.

    Raises:
        GateRefused: the baseline is locked already (a new search is a new task).
    """
    if session.layout.baseline.exists():
        raise GateRefused(
            "the baseline is locked",
            where=str(session.layout.baseline),
            next_step="a new search is a new task: use a new run directory",
        )
    driver.orphans(session.layout, grace_s=session.grace_s)
    session.store.event(
        "search_begins",
        config=session.config.name,
        config_sha256=driver.plan_hash(session.config),
        contract_hash=session.contract_hash,
    )
    made: list[Launch] = []
    names = list(only)
    while max_launches is None or len(made) < max_launches:
        planned = plan(session.config, session.store, session.contract_hash, names, retry_failed=retry_failed)
        todo = [p for p in planned if p.state == TODO and p.candidate.id not in {m.candidate.id for m in made}]
        if not todo:
            break
        if told:
            told(len(made), len(made) + len(todo), todo[0].candidate.id)
        made.append(driver.measure(session, todo[0].candidate))
    if max_launches is None:
        _note_left_out(session, names)
    return made


def _note_left_out(session: Session, only: Sequence[str]) -> None:
    known = {(e["candidate_id"], e["reason"]) for e in session.store.events("not_run")}
    for item in plan(session.config, session.store, session.contract_hash, only):
        if item.state in (OVER, REFUSED) and (item.candidate.id, item.note) not in known:
            session.store.event(
                "not_run", candidate_id=item.candidate.id, candidate=item.candidate.name, framework=item.candidate.framework,
                contract_hash=session.contract_hash, reason=item.note,
            )  # fmt: skip


@dataclass(frozen=True)
class Winner:
    """The first of a framework in a scenario, by the ranking of the rows."""

    scenario: str
    framework: str
    candidate_id: str


def winners(rows: Sequence[Row], contract: BenchmarkContract, contract_hash: str) -> list[Winner]:
    """Per scenario and framework the best candidate that ran, is possible, and keeps the SLA (ranking of the result schema)."""
    from infer_forge.bench.rank import rank_report

    if not rows:
        return []
    table = rank_report(rows, contract=contract, contract_hash=contract_hash).tables.get("ranking")
    best: dict[tuple[str, str], Winner] = {}
    for line in table.dicts() if table else []:
        if line["rank"] is None or line["sla"] == "fail":
            continue
        key = (str(line["scenario"]), str(line["framework"]))
        best.setdefault(key, Winner(key[0], key[1], str(line["candidate"])))
    return list(best.values())


def belongs(row: Row, scenario: str) -> bool:
    """Whether a row belongs to a scenario as the ranking names it (`chat`, or `chat c16` with its concurrency)."""
    name, load = row.workload.scenario or "", row.workload.max_concurrency
    return scenario == (name if load is None else f"{name} c{load}") or (scenario == name and load is None)


def finalists(session: Session) -> list[Candidate]:
    """The distinct winning candidates, target first: what is measured again.

    Raises:
        GateRefused: a framework of the contract has no candidate that may win.
    """
    assert session.contract is not None
    assert session.contract_hash is not None
    rows = session.store.rows(contract_hash=session.contract_hash, purposes=["search"])
    found = winners(rows, session.contract, session.contract_hash)
    ids = {w.candidate_id for w in found}
    lost = [e.framework for e in session.contract.engines if e.framework not in {w.framework for w in found}]
    if session.contract.target in lost:
        raise GateRefused(
            f"the target {session.contract.target} has no candidate that may win",
            next_step="infer-forge bench rank FILE; correct the search",
        )
    order = [
        session.contract.target,
        *(e.framework for e in session.contract.engines if e.framework != session.contract.target),
    ]
    return [c for name in order for c in candidates(session.config, name) if c.id in ids]


def remeasure(
    session: Session, chosen: Sequence[Candidate], launches: int, *, told: Told | None = None
) -> list[Launch]:
    """Launch each candidate afresh until it has so many complete decision launches, interleaved A B .. B A in blocks."""
    assert session.contract is not None
    limit = session.contract.budgets.max_launches_per_engine
    if launches > limit:
        raise GateRefused(
            f"{launches} launches are more than the contract's {limit} an engine",
            next_step="measure within the locked budget",
        )
    driver.orphans(session.layout, grace_s=session.grace_s)
    ends = [
        e
        for e in session.store.events("launch_ends")
        if e["purpose"] == "decision" and e["contract_hash"] == session.contract_hash
    ]
    done = {c.id: sum(1 for e in ends if e["candidate_id"] == c.id and e["complete"]) for c in chosen}
    made: list[Launch] = []
    for turn in range(launches):
        order = list(enumerate(chosen))
        backward = turn % 2 == 1
        for index, candidate in reversed(order) if backward else order:
            if done[candidate.id] > turn:
                continue
            position = 2 * len(chosen) - 1 - index if backward else index
            if told:
                told(len(made), launches * len(chosen), candidate.id)
            block = f"{str(session.contract_hash)[:8]}-{jsonio.sha256_of([c.id for c in chosen])[:6]}-{turn // 2}"
            made.append(driver.measure(session, candidate, block_id=block, block_position=position))
    return made


def plan_report(config: SearchConfig, planned: Sequence[Planned], store: RowStore, contract_hash: str | None) -> Report:
    """The answer of `bench search --dry-run`: every candidate with its exact command and state."""
    names = ("framework", "candidate", "name", "state", "status", "launches", "command", "note")
    table = Table("candidates", [Column(n, "int" if n == "launches" else "text") for n in names])
    for p in planned:
        line = shlex.join(redact_arguments(p.candidate.command(config, 0)))
        table.rows.append(
            [p.candidate.framework, p.candidate.id, p.candidate.name, p.state, p.status, p.launches, line, p.note]
        )
    report = Report("bench_search", tables={"candidates": table})
    budget = Table("budget", [Column("framework", "text"), "runs_used", "runs", "minutes_used", "minutes", "todo"])
    for name in dict.fromkeys(p.candidate.framework for p in planned):
        used = spent(store, name, contract_hash)
        todo = sum(1 for p in planned if p.candidate.framework == name and p.state == TODO)
        budget.rows.append([name, used.runs, config.budget.runs, used.minutes, config.budget.minutes, todo])
    report.add(budget)
    counts = {s: sum(p.state == s for p in planned) for s in (TODO, DONE, OVER, REFUSED)}
    report.summary = [f"{config.name}: " + ", ".join(f"{n} {s}" for s, n in counts.items() if n)]
    over = counts[OVER]
    if over:
        report.findings.append(
            Finding("OVER_BUDGET", f"{over} candidates lie beyond the budget and are recorded as not run", "info")
        )
    return report


def result_report(session: Session, made: Sequence[Launch], planned: Sequence[Planned]) -> Report:
    """The answer of a search that ran: the plan as it now stands, and what each launch gave."""
    report = plan_report(session.config, planned, session.store, session.contract_hash)
    table = Table(
        "launches",
        [Column(n, "text") for n in ("launch", "candidate", "status", "reason")]
        + [Column("rows", "int"), Column("seconds", "s")],
    )
    for launch in made:
        table.rows.append(
            [launch.id, launch.candidate.id, launch.status, launch.reason, len(launch.rows), launch.seconds]
        )
    report.tables = {"launches": table, **report.tables}
    failed = sum(launch.status != "ok" for launch in made)
    report.summary.insert(0, f"{len(made)} launches, {failed} of them failed (kept); rows in {session.store.path}")
    report.next_step = (
        "infer-forge bench search --run DIR --config FILE --remeasure"
        if not any(p.state == TODO for p in planned)
        else "run it again: it goes on where it stopped"
    )
    return report


def write_pages(place: Layout, contract: BenchmarkContract, contract_hash: str) -> None:
    """`summary.md` and `winning-commands.md` (A72, A73), made anew from the rows."""
    store = RowStore(place.rows)
    rows = store.rows(contract_hash=contract_hash)
    if not rows:
        return
    from infer_forge.bench.rank import rank_report

    ranked = rank_report(rows, contract=contract, contract_hash=contract_hash)
    jsonio.write_atomic(place.summary, f"# {contract.name}\n\ncontract {contract_hash}\n\n{ranked.render('md')}\n")
    lines = [f"# Winning commands of {contract.name}", "", f"contract {contract_hash}", ""]
    decided = [r for r in rows if r.purpose == "decision"] or [r for r in rows if r.purpose == "search"]
    for winner in winners(decided, contract, contract_hash):
        mine = [
            r
            for r in decided
            if r.candidate_id == winner.candidate_id and r.status == "ok" and belongs(r, winner.scenario)
        ]
        if mine:
            last = mine[-1]
            lines += [
                f"## {winner.framework}, {winner.scenario}",
                "",
                f"candidate {winner.candidate_id}, {len(mine)} runs",
                "",
                "```",
                str(last.server_command),
                str(last.benchmark_command),
                "```",
                "",
            ]
    jsonio.write_atomic(place.winners, "\n".join(lines))
