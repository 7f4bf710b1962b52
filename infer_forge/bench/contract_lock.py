"""The first lock: what a result will mean, fixed before the first result or profile exists.

Locked once, as canonical JSON with its hash, in `RUN/benchmark/contract.json`. Refused are: an incomplete deployment
point, a workload that is not the one on disk, a second lock, results or profiles that are already there, and, unless a
person accepts it, a threshold that the pilot's noise does not let the budget resolve, or one above the default that the
noise does not ask for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from infer_forge.base import contracts, jsonio
from infer_forge.base.errors import GateRefused, UsageFault
from infer_forge.base.ledger import Ledger
from infer_forge.base.records import Finding, Header, InputFile, Report
from infer_forge.base.tables import Column, Table
from infer_forge.bench import pilot, workload
from infer_forge.bench.ledger_rows import RowStore
from infer_forge.bench.run_layout import Layout, layout

if TYPE_CHECKING:
    from infer_forge.base.contract_model import BenchmarkContract

KIND = "benchmark_contract"
_TRACES = ("*.trace.json", "*.trace.json.gz", "*.pt.trace.json.gz", "*.nsys-rep", "*.ncu-rep")


def read_contract(run: str | Path) -> tuple[BenchmarkContract, str]:
    """The locked contract of a run directory and its hash.

    Raises:
        GateRefused: none is locked. InputUnusable: it was edited.
    """
    place = layout(run).contract
    if not place.exists():
        raise GateRefused(
            "no benchmark contract is locked",
            where=str(place),
            next_step="infer-forge bench lock --run DIR --contract FILE",
        )
    lock = contracts.read_lock(place, KIND)
    return contracts.contract_of(lock.contract, where=str(place)), lock.sha256


def missing(contract: BenchmarkContract) -> list[str]:
    """What a contract must still state before it can be locked, by name."""
    lacking = [f"point.{name}" for name in contracts.missing(contract.point, varying=contract.varies)]
    if not contract.client.name:
        lacking.append("client.name")
    if not (contract.client.version or contract.client.sha256):
        lacking.append("client.version|sha256")
    if contract.lane == "native_agentic" and not contract.lane_chosen_by:
        lacking.append("lane_chosen_by")
    if contract.lane == "native_agentic" and len(contract.engines) > 1 and not contract.grid.dataset_sha256:
        lacking.append("grid.dataset_sha256")
    return lacking


def complete(run: str | Path, data: Mapping[str, Any]) -> BenchmarkContract:
    """The contract with what the run directory knows filled in: workload hashes, client version and hash, pilot.

    What is stated already and differs is refused, not replaced; a pilot and an acceptance are never stated: the one is
    measured here, the other given by a person. Raises `GateRefused`, `InputUnusable`.
    """
    place = layout(run)
    contract = contracts.contract_of({k: v for k, v in data.items() if k not in ("pilot", "accepted")})
    if (place.workload / workload.MANIFEST).exists():
        found = workload.verify_workload(place.workload, expected_sha256=contract.grid.workload_sha256)
        contract = contract.model_copy(update={"grid": workload.fill_grid(contract.grid, found)})
    elif contract.grid.workload_sha256:
        raise GateRefused(
            "the contract names a workload that is not in the run directory",
            where=str(place.workload),
            next_step="infer-forge bench workload --run DIR",
        )
    if contract.client.name and not (contract.client.version or contract.client.sha256):
        from infer_forge.bench.session import client_identity

        seen = client_identity(contract.client.name)
        filled = contract.client.model_copy(update={"version": seen.version, "sha256": seen.sha256})
        contract = contract.model_copy(update={"client": filled})
    if place.pilot.exists():
        rows = RowStore(place.pilot).rows(purposes=["pilot"])
        measured = pilot.estimate_noise(
            rows,
            metric=contract.metric.name,
            threshold=contract.threshold,
            max_launches=contract.budgets.max_launches_per_engine,
        )
        contract = contract.model_copy(update={"pilot": pilot.evidence(measured, Ledger(place.pilot).head())})
    return contract


def lock_contract(
    run: str | Path,
    data: Mapping[str, Any],
    *,
    accepted_by: str | None = None,
    reason: str | None = None,
    dry_run: bool = False,
) -> Report:
    """Lock the contract of a run directory; the answer names the hash and what was filled in.

    Args:
        data: the contract as JSON.
        accepted_by, reason: the person who accepts a threshold that the budget cannot resolve (or a lock without a
            pilot), and why. The door must have made sure that a person said so.
        dry_run: check everything, lock nothing.

    Raises:
        GateRefused: see the module's text.
    """
    place = layout(run)
    contract = complete(run, data)
    lacking = missing(contract)
    if lacking:
        raise GateRefused(
            f"the contract is incomplete: {', '.join(lacking)}",
            where=contract.name,
            next_step="state these fields; nothing was locked",
        )
    if place.contract.exists():
        contracts.lock_once(place.contract, KIND, contract)  # refuses, and says what is locked
    refuse_early_results(place)
    contract = _resolvable(contract, accepted_by, reason)
    if dry_run:
        return _report(contract, contracts.contract_sha256(contract), None, place)
    made = contracts.lock_once(place.contract, KIND, contract)
    return _report(contract, made.sha256, made.locked_at, place)


def refuse_early_results(place: Layout) -> None:
    """Refuse when a result or a profile exists already (A76, C62): the contract must come first."""
    early = [r for r in RowStore(place.rows).rows() if r.purpose not in ("pilot", "flow_check")]
    if early:
        raise GateRefused(
            f"{len(early)} results are recorded already",
            where=str(place.rows),
            next_step="use a new run directory: the contract comes before any result",
        )
    seen = next((p for p in _profiles(place.run)), None)
    if seen is not None:
        raise GateRefused(
            "a profile exists already",
            where=str(seen),
            next_step="use a new run directory: the contract comes before any profile",
        )


def _profiles(run: Path) -> Iterable[Path]:
    if run.exists():
        for pattern in _TRACES:
            yield from run.rglob(pattern)


def most_threshold(resolvable: float) -> float:
    """The largest threshold that needs no acceptance (a ratio): the default, or what the noise resolves, to a tenth of a per cent."""
    from infer_forge.base.contract_model import BenchmarkContract

    default = float(BenchmarkContract.model_fields["threshold"].default)
    return max(default, math.ceil(resolvable * 1000 - 1e-9) / 1000)


def _resolvable(contract: BenchmarkContract, accepted_by: str | None, reason: str | None) -> BenchmarkContract:
    able = contract.pilot.resolvable_threshold if contract.pilot else None
    lax = able is not None and contract.threshold > most_threshold(able)
    if able is not None and able <= contract.threshold and not lax:
        return contract
    if accepted_by:
        if not reason:
            raise UsageFault("an acceptance needs a reason")
        from infer_forge.base.contract_model import Acceptance

        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        return contract.model_copy(update={"accepted": Acceptance(by=accepted_by, at=now, reason=reason)})
    if contract.pilot is None or able is None:
        raise GateRefused(
            "no pilot measured the noise",
            where=contract.name,
            next_step="infer-forge bench pilot --run DIR; or a person accepts at a terminal",
        )
    if lax:
        raise GateRefused(
            f"A103: a threshold of {100 * contract.threshold:.3g} % calls a tie what the noise would tell apart: "
            f"{100 * most_threshold(able):.3g} % is enough",
            where=contract.name,
            next_step=f"lock a threshold of {100 * most_threshold(able):.3g} % at the most, or let a person accept at a terminal",
        )
    launches = contract.budgets.max_launches_per_engine
    noise = f"noise {100 * contract.pilot.noise_cv:.2f} % resolves {100 * able:.3g} % in {launches} launches"
    raise GateRefused(
        f"a threshold of {100 * contract.threshold:.3g} % cannot be resolved: {noise}",
        where=contract.name,
        next_step=f"lower the noise, lock a threshold of at least {100 * able:.3g} %, or let a person accept at a terminal",
    )


def _report(contract: BenchmarkContract, sha256: str, locked_at: str | None, place: Layout) -> Report:
    table = Table(
        "scenarios",
        [
            Column("scenario", "text"),
            "input_len",
            "output_len",
            "num_prompts",
            Column("concurrencies", "text"),
            Column("prompts_sha256", "text"),
        ],
    )
    for s in contract.grid.scenarios:
        loads = ", ".join("all" if c is None else str(c) for c in s.concurrencies)
        table.rows.append([s.name, s.input_len, s.output_len, s.num_prompts, loads, s.prompts_sha256])
    report = Report(
        "bench_lock",
        header=Header(inputs=[InputFile.of(place.contract)] if locked_at else []),
        tables={"scenarios": table},
    )
    report.extra = {
        "contract_sha256": sha256,
        "locked_at": locked_at,
        "path": str(place.contract),
        "contract": contracts.normal(contract),
    }
    did = f"locked at {locked_at}" if locked_at else "would be locked (dry run)"
    pilot_text = f"noise {100 * contract.pilot.noise_cv:.2f} %" if contract.pilot else "no pilot"
    names = ", ".join(e.framework for e in contract.engines)
    report.summary = [
        f"contract {sha256} {did}",
        f"{contract.metric.name}, threshold {100 * contract.threshold:.3g} %, {pilot_text}, engines {names}",
    ]
    if contract.grid.workload_sha256 is None:
        report.findings.append(
            Finding(
                "WORKLOAD_UNFIXED",
                "no prompt file is locked: each engine's client samples its own",
                next_step="infer-forge bench workload --run DIR before the lock",
            )
        )
    budgets = {(e.max_runs, e.max_minutes) for e in contract.engines}
    if len(budgets) > 1:
        report.findings.append(
            Finding(
                "BUDGETS_DIFFER",
                "the engines have unequal search budgets",
                next_step="give every engine the same budget",
            )
        )
    if contract.accepted:
        report.findings.append(
            Finding("ACCEPTED", f"{contract.accepted.by} accepted: {contract.accepted.reason}", "info")
        )
    report.next_step = "infer-forge bench search --run DIR --config FILE"
    return report


def set_fields(data: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """A contract draft with dotted fields set (`point.model.revision`). Raises `UsageFault` for a path through no object."""
    made = cast("dict[str, Any]", jsonio.loads(jsonio.dumps(dict(data))))
    for dotted, value in settings.items():
        at: Any = made
        *parents, last = dotted.split(".")
        for name in parents:
            if not isinstance(at, dict):
                raise UsageFault(f"{dotted} goes through {name}, which is no object")
            at = cast("dict[str, Any]", at).setdefault(name, {})
        if not isinstance(at, dict):
            raise UsageFault(f"{dotted} goes through something that is no object")
        at[last] = value
    return made
