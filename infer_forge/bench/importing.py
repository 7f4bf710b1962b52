"""`bench import`: result files, folders of them, or a ledger of rows become rows and one report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base.errors import InputUnusable
from infer_forge.base.inputs import finite
from infer_forge.base.records import Finding, Header, InputFile, Report
from infer_forge.base.tables import Column, Table
from infer_forge.bench import read

if TYPE_CHECKING:
    from infer_forge.bench.model import Row


@dataclass
class Rows:
    """Rows of several files, the files, and what was refused in folders or lost."""

    rows: list[Row] = field(default_factory=list["Row"])
    files: list[InputFile] = field(default_factory=list[InputFile])
    refused: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    notes: list[str] = field(default_factory=list[str])


def read_rows(paths: Sequence[str | Path], tool: str = "auto", context: Mapping[str, Any] | None = None) -> Rows:
    """Rows of result files, of folders (what is no result there is listed, not fatal), and of row ledgers.

    Raises:
        InputUnusable: a file that was named itself cannot be used, or nothing at all could be read.
    """
    out = Rows()
    seen: set[Path] = set()
    for path, named in read.result_files(paths):
        real = path.resolve()
        if real in seen:
            out.notes.append(f"{path} was given twice and counts once")
            continue
        seen.add(real)
        try:
            _one(out, path, tool, context)
        except InputUnusable as exc:
            if named:
                raise
            out.refused.append((str(path), exc.what))
    if not out.rows:
        raise InputUnusable(
            f"none of the {len(out.refused)} files is a result", where=str(paths[0]) if paths else "input"
        )
    return out


def _one(out: Rows, path: Path, tool: str, context: Mapping[str, Any] | None) -> None:
    if is_ledger(finite(path)):
        out.files.append(InputFile.of(path))
        out.rows += ledger_rows(path)
        return
    got = read.import_file(path, tool, context)
    out.files.append(got.file)
    out.rows += got.rows
    out.notes += [f"{path}: {note}" for note in got.notes]


def is_ledger(path: Path) -> bool:
    """Whether the file is a ledger of rows: its lines begin with a hash."""
    with path.open("rb") as file:
        return file.read(9) == b'{"hash":"'


def ledger_rows(path: Path, contract_hash: str | None = None) -> list[Row]:
    """Rows of a ledger, in the order recorded, each with the accuracy that was recorded for its engine.

    Raises:
        InputUnusable: the chain is broken, an entry is no row, or there is none.
    """
    from infer_forge.bench.ledger_rows import RowStore
    from infer_forge.bench.model import Accuracy

    store = RowStore(path)
    rows = store.rows(contract_hash=contract_hash)
    if not rows:
        raise InputUnusable("the ledger holds no row" + (" of this contract" if contract_hash else ""), where=str(path))
    for event in store.events("accuracy"):
        if contract_hash is not None and event.get("contract_hash") != contract_hash:
            continue
        for row in rows:
            if row.framework == event["framework"]:
                known = [a for a in row.accuracy if a.benchmark != event["dataset"]]
                row.accuracy = [*known, Accuracy(benchmark=event["dataset"], score=event["score"])]
    return rows


def record(rows: Sequence[Row], ledger: Path) -> int:
    """Append rows to a ledger (hash chain, safe under kill -9 and two writers); gives how many."""
    from infer_forge.bench.ledger_rows import RowStore

    RowStore(ledger).add(rows)
    return len(rows)


def ledger_sides(
    path: Path, target: str, others: Sequence[str] = (), contract_hash: str | None = None
) -> dict[str, list[Row]]:
    """Sides of a gap from a ledger: a name is a candidate id or a framework; without others, every other framework.

    Raises:
        InputUnusable: a side has no row, or decision rows of several candidates of one framework in one scenario.
    """
    wanted = [target, *others]
    sides: dict[str, list[Row]] = {}
    for row in ledger_rows(path, contract_hash):
        for name in dict.fromkeys((row.candidate_id, row.framework)):
            if name and (name in wanted or (not others and name == row.framework)):
                sides.setdefault(name, []).append(row)
                break
    for name, rows in sides.items():
        _one_candidate(name, rows, path)
    missing = [name for name in wanted if name not in sides]
    if missing:
        raise InputUnusable(
            f"holds no row of {', '.join(missing)}",
            where=str(path),
            next_step="name frameworks or candidate ids of the ledger",
        )
    return sides


def _one_candidate(name: str, rows: Sequence[Row], path: Path) -> None:
    """A framework may stand for one candidate a scenario only: pooling several would be no system that anybody can run."""
    seen: dict[tuple[str | None, int | None], set[str]] = {}
    for row in rows:
        if row.purpose == "decision" and row.candidate_id:
            seen.setdefault((row.workload.scenario, row.workload.max_concurrency), set()).add(row.candidate_id)
    for (scenario, _), ids in seen.items():
        if len(ids) > 1:
            raise InputUnusable(
                f"{name} has decision rows of several candidates in {scenario or 'one scenario'}: {', '.join(sorted(ids)[:4])}",
                where=str(path),
                next_step="name one candidate id instead of the framework",
            )


_COLUMNS = [
    Column("row", "text"), "tool", "framework", "framework_version", "model", "status", "completed", "failed", "input_len_mean_tokens",
    "output_len_mean_tokens", "request_throughput_per_s", "output_token_throughput_per_s", "p50_ttft_ms", "p50_tpot_ms", "p50_e2e_ms",
    "accept_length",
]  # fmt: skip


def import_report(paths: Sequence[str | Path], tool: str = "auto", context: Mapping[str, Any] | None = None) -> Report:
    """The answer of `bench import`: table `rows` with the main figures, `extra["rows"]` with the whole rows."""
    got = read_rows(paths, tool, context)
    report = Report("bench_import", header=Header(inputs=got.files))
    report.header.coverage = {"files": len(got.files), "rows": len(got.rows), "refused": len(got.refused)}
    table = report.add(Table("rows", _COLUMNS))
    table.rows = [_summary_row(row) for row in got.rows]
    if got.refused:
        report.add(Table("refused", ["file", "reason"], got.refused))
    report.extra["rows"] = [row.model_dump(mode="json") for row in got.rows]
    tools = sorted({row.tool for row in got.rows})
    report.summary = [f"{len(got.rows)} rows from {len(got.files)} files: {', '.join(tools)}"]
    if got.refused:
        report.summary.append(f"{len(got.refused)} files are no results and were left out")
    report.findings = [Finding("IMPORT_LOSS", note) for note in got.notes]
    for row in got.rows:
        report.findings += [Finding("ROW_NOTE", f"{row.label()}: {note}", "info") for note in row.notes[:8]]
    report.next_step = "infer-forge bench check FILE..."
    return report


def _summary_row(row: Row) -> tuple[Any, ...]:
    w, m = row.workload, row.metrics
    e2e = m.e2e_ms.p50 if row.diffusion is None else row.diffusion.end_to_end_ms
    return (
        row.label(), row.tool, row.framework, row.framework_version, row.model, row.status, w.completed_requests, w.failed_requests,
        w.measured_input_len_mean_tokens, w.measured_output_len_mean_tokens, m.request_throughput_per_s,
        m.output_token_throughput_per_s, m.ttft_ms.p50, m.tpot_ms.p50, e2e, row.spec_decode.mean_accept_length,
    )  # fmt: skip
