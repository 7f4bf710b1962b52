"""`infer-forge kernel-task run`: lock, measure in a process of its own, check the protected files before and after, write the results."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.errors import ForgeError, InputUnusable
from infer_forge.base.records import Finding, Header, InputFile, Report
from infer_forge.base.tables import Table
from infer_forge.kernel_task.folder import LOCK, RESULTS, TASK, harness_sha256, hashes, lock, read_task

_ROW_COLUMNS = ["row", "kind", "status", "baseline_median_ns", "candidate_median_ns", "speedup", "limit_ns"]


def run(folder: str | Path, timeout_s: float = 3600.0) -> Report:
    """Measure the folder's task and write `results.json`.

    Raises:
        InputUnusable: the task or one of its files cannot be used.
        GateRefused: a protected file changed since the lock.
        ForgeError: measuring took too long or died.
    """
    place = Path(folder).resolve()
    task = read_task(place)
    held = lock(place, task)
    before = hashes(place, task.protected)
    results = _measure(place, timeout_s)
    results["protected_before"], results["protected_after"] = before, hashes(place, task.protected)
    results["harness_sha256"] = harness_sha256()
    results["locked_at"] = held["locked_at"]
    jsonio.write_atomic(place / RESULTS, jsonio.dumps(results, indent=True) + b"\n")
    return _report(place, results)


def _measure(place: Path, timeout_s: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "outcome.json"
        argv = [sys.executable, "-m", "infer_forge.kernel_task.worker", str(place), str(out)]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired:
            raise ForgeError(
                f"measuring took longer than {timeout_s:g} s",
                where=str(place),
                next_step="give fewer rows, or raise --timeout",
            ) from None
        if done.returncode == InputUnusable.exit_code:
            what, _, step = done.stderr.strip().partition("\nnext: ")
            raise InputUnusable(what or "cannot be measured", next_step=step or None)
        if done.returncode or not out.is_file():
            last = (done.stderr.strip().splitlines() or ["no output"])[-1]
            raise ForgeError(f"the measuring process ended with {done.returncode}: {last[:200]}", where=str(place))
        return jsonio.read_json(out)


def _report(place: Path, results: dict[str, Any]) -> Report:
    report = Report("kernel_run", header=Header(inputs=[InputFile.of(place / n) for n in (TASK, LOCK, RESULTS)]))
    report.extra["verdict"] = results["verdict"]
    report.extra["geomean_speedup"] = results["geomean_speedup"]
    report.extra["claim"] = "kernel_task"
    rows = report.add(Table("rows", _ROW_COLUMNS))
    for r in results["rows"]:
        base: dict[str, Any] = r["baseline"] or {}
        mine: dict[str, Any] = r["candidate"] or {}
        rows.rows.append(
            (
                r["id"],
                r["kind"],
                r["status"],
                base.get("median_ns"),
                mine.get("median_ns"),
                r["speedup"],
                r.get("limit_ns"),
            )
        )
    if results["buckets"]:
        names = [
            "name",
            "predicate",
            "path",
            "fallback",
            "baseline_median_ns",
            "candidate_median_ns",
            "geomean_speedup",
        ]
        report.add(Table("buckets", names, [[b[n] for n in names] for b in results["buckets"]]))
    report.findings = [
        Finding(f["rule"], f"{f['row'] or ''} {f['side'] or ''}: {f['evidence']}".strip(), "warning")
        for f in results["findings"]
    ]
    speed = results["geomean_speedup"]
    shown = "not measured (a row failed)" if speed is None else f"{speed:.3f}"
    report.summary = [f"{results['verdict']}: geometric mean speed-up {shown}; claim kernel_task, no end-to-end gain"]
    report.next_step = f"infer-forge kernel-task audit {place}"
    return report
