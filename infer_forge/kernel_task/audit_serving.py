"""The audit of a serving result: locked contract, ledger of rows and result files in one folder must agree with each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from infer_forge.base import contracts, jsonio
from infer_forge.base.errors import InputUnusable
from infer_forge.base.ledger import Entry, Ledger
from infer_forge.base.resources import load_yaml

Hit = tuple[str, str, str | None]

_LEDGER_START = b'{"hash":"'


def audit_serving(folder: Path) -> tuple[list[Hit], list[str]]:
    """Findings, and the names of the checks that found nothing.

    Raises:
        InputUnusable: neither a locked contract nor a ledger of rows is in the folder.
    """
    hits: list[Hit] = []
    lock = _contract(folder, hits)
    ledgers = [p for p in sorted(folder.rglob("*.jsonl")) if _is_ledger(p)]
    if lock is None and not ledgers and not hits:
        raise InputUnusable(
            "holds neither a kernel task (task.json) nor a benchmark run (locked contract, ledger of rows)",
            where=str(folder),
            next_step="infer-forge kernel-task new DIR, or infer-forge bench --help",
        )
    if lock is None and not hits:
        hits.append(("NO_CONTRACT", "no locked contract in the folder", None))
    rows: list[Entry] = []
    for file in ledgers:
        seen = Ledger(file).verify()
        if not seen.ok:
            hits.append(("LEDGER_BROKEN", f"entry {seen.fault_line}: {seen.fault}", file.name))
            continue
        rows += [entry for entry in Ledger(file).entries() if entry.kind == "row"]
    passed: list[str] = []
    checks = {"scenarios": _scenarios(rows, lock), "row by row": _each(rows, lock, folder)}
    for name, found in checks.items():
        listed = list(found)
        hits += listed
        if not listed:
            passed.append(name)
    return hits, passed


def _is_ledger(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(_LEDGER_START)) == _LEDGER_START


def _contract(folder: Path, hits: list[Hit]) -> contracts.Lock | None:
    """The benchmark contract that lies in the folder (its `contract` has a grid); an edited one is a finding."""
    for file in sorted(folder.rglob("*.json")):
        try:
            raw = jsonio.read_json(file)
        except InputUnusable:
            continue
        inner = cast("dict[str, Any]", raw).get("contract") if isinstance(raw, dict) else None
        if not isinstance(inner, dict) or "grid" not in inner:
            continue
        try:
            return contracts.read_lock(file)
        except InputUnusable as exc:
            hits.append(("WORKLOAD_CHANGED", exc.what, file.name))
    return None


def _of(body: Any, *keys: str) -> Any:
    current: Any = body
    for key in keys:
        current = cast("dict[str, Any]", current).get(key) if isinstance(current, dict) else None
    return current


def _scenarios(rows: list[Entry], lock: contracts.Lock | None) -> Iterator[Hit]:
    if lock is None:
        return
    named = [str(_of(s, "name")) for s in cast("list[Any]", _of(lock.contract, "grid", "scenarios") or [])]
    decided = {str(_of(r.body, "workload", "scenario")) for r in rows if r.body.get("purpose") == "decision"}
    for name in named:
        if name not in decided:
            yield "SCENARIO_DROPPED", "no decision row", name
    for name in sorted(decided - set(named)):
        yield "SCENARIO_ADDED", "not in the contract", name


def _each(rows: list[Entry], lock: contracts.Lock | None, folder: Path) -> Iterator[Hit]:
    pretended = load_yaml("references/bench_rules.yaml")["simulated_acceptance_variables"]
    for entry in rows:
        body, label = entry.body, f"row {entry.seq}"
        if lock is not None and body.get("purpose") == "decision":
            if body.get("contract_hash") != lock.sha256:
                yield (
                    "FOREIGN_CONTRACT",
                    f"contract {str(body.get('contract_hash'))[:12]}, locked is {lock.sha256[:12]}",
                    label,
                )
            started = str(body.get("started_at") or "")
            if (
                started.endswith(("Z", "+00:00")) and started[:19] < lock.locked_at[:19]
            ):  # a time without a zone tells nothing
                yield "LOCKED_AFTER_RESULTS", f"measured at {started}, locked at {lock.locked_at}", label
        yield from _source(body, folder, label)
        yield from _figures(body, label)
        variables = body.get("server_env")
        if _of(body, "spec_decode", "simulated") or (
            isinstance(variables, dict) and any(v in variables for v in pretended)
        ):
            yield "ACCEPTANCE_SIMULATED", "speculative acceptance was pretended", label


def _source(body: dict[str, Any], folder: Path, label: str) -> Iterator[Hit]:
    """The result file that the row was read from, if it is still there."""
    path, sha = _of(body, "source", "path"), _of(body, "source", "sha256")
    if not isinstance(path, str) or not isinstance(sha, str):
        return
    places = [p for p in (Path(path), folder / path, folder / Path(path).name) if p.is_file()]
    if not places:
        yield "RESULT_GONE", path, label
    elif all(jsonio.sha256_file(p) != sha for p in places):
        yield "RESULT_EDITED", f"{places[0].name} is not the file that was recorded", label


def _figures(body: dict[str, Any], label: str) -> Iterator[Hit]:
    seconds, tokens = _of(body, "metrics", "duration_s"), _of(body, "workload", "measured_output_tokens")
    rate = _of(body, "metrics", "output_token_throughput_per_s")
    if all(isinstance(v, (int, float)) and v > 0 for v in (seconds, tokens, rate)):
        follows = tokens / seconds
        if abs(rate - follows) > 0.02 * follows:
            yield (
                "FIGURES_DISAGREE",
                f"{rate:.2f} output tokens/s stated, {follows:.2f} follows from {tokens} in {seconds:.2f} s",
                label,
            )
