"""The run-time half of the audit: two callables, fixed rows, and figures that a trick would spoil.

    from infer_forge.kernel_task.harness import compare

    outcome = compare(baseline, candidate, rows, make_inputs, reference=reference, atol=1e-5)
    outcome["verdict"], outcome["geomean_speedup"], outcome["findings"]

`make_inputs(params, seed)` gives the inputs of a row (numpy arrays, or PyTorch tensors on any device). Kernels are
called as `kernel(*inputs)`, or `kernel(*inputs, out=...)` under destination passing. Rows are dictionaries with `id`,
`kind` (production, regression, must_reject), `params` and `weight`. Seeds are drawn after the files named in `frozen`
were hashed. A candidate whose dispatch has several paths sets `kernel.last_path` to the one it took.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio
from infer_forge.kernel_task import arrays, environment, timing
from infer_forge.kernel_task.correctness import Case, Finding, Kernel, as_tuple, check, check_rejects
from infer_forge.kernel_task.predicates import holds

RowLike = Mapping[str, Any]

_EVENT_SHARE = 0.5
"""Below this share of the wall time, CUDA events on the caller's stream do not see where the work ran."""


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


def compare(
    baseline: Kernel,
    candidate: Kernel,
    rows: Sequence[RowLike],
    make_inputs: Callable[[Mapping[str, Any], int], Sequence[Any]],
    *,
    reference: Kernel | None = None,
    destination_passing: bool = False,
    atol: float = 0.0,
    rtol: float = 0.0,
    buckets: Sequence[Mapping[str, Any]] = (),
    blocks: int = 5,
    runs: int = 3,
    min_sample_ms: float = 1.0,
    warmup: int = 3,
    peak_bytes_per_s: float | None = None,
    peak_flops_per_s: float | None = None,
    implausible_speedup: float = 10.0,
    frozen: Sequence[str | Path] = (),
) -> dict[str, Any]:
    """Check and time a candidate against a baseline on every row.

    Returns:
        `{verdict, rows, buckets, geomean_speedup, findings, environment, seeds_drawn_at, frozen, ...}`: `verdict` is
        clean, suspect or void by the rules; times are nanoseconds a call; what was not measured is null.
    """
    frozen_at, before = _now(), {str(p): jsonio.sha256_file(p) for p in frozen}
    seeds = [int.from_bytes(os.urandom(4), "big") for _ in range(4)]
    drawn_at = _now()
    kernels = {"baseline": baseline, "candidate": candidate}
    findings: list[Finding] = []
    table: list[dict[str, Any]] = []
    paths: set[str] = set()
    started_at = _now()
    options = {"blocks": blocks, "runs": runs, "min_sample_ms": min_sample_ms, "warmup": warmup}
    for row in rows:
        case = Case(
            row=str(row["id"]), params=row.get("params", {}), make_inputs=make_inputs, reference=reference or baseline,
            destination_passing=destination_passing, atol=atol, rtol=rtol, seeds=seeds,
        )  # fmt: skip
        result = _row(case, row, kernels, options)
        limit = _limit_ns(row, case, peak_bytes_per_s, peak_flops_per_s) if result["speedup"] is not None else None
        _judge_times(case, result, limit, implausible_speedup)
        result["status"] = _status(case)
        findings += case.findings
        paths |= case.paths
        table.append(result)
    _timer(findings)
    after = {str(p): jsonio.sha256_file(p) if Path(p).exists() else "gone" for p in frozen}
    if after != before:
        changed = ", ".join(Path(p).name for p in before if before[p] != after[p])
        findings.append(_finding("CANDIDATE_CHANGED", f"changed while it was measured: {changed}"))
    bucket_table = bucket_results(rows, table, buckets, paths, findings)
    return {
        "verdict": verdict_of(findings),
        "claim": "kernel_task",
        "started_at": started_at,
        "finished_at": _now(),
        "frozen_at": frozen_at,
        "seeds_drawn_at": drawn_at,
        "seeds": seeds,
        "frozen": before,
        "rows": table,
        "buckets": bucket_table,
        "paths_seen": sorted(paths),
        "geomean_speedup": geomean(table, rows),
        "findings": findings,
        "interleaving": "ABBA",
        "l2": "hot, the same on both sides",
        "environment": environment.versions(),
    }


def _finding(rule: str, evidence: str, row: str | None = None, side: str | None = "candidate") -> Finding:
    return {"rule": rule, "row": row, "side": side, "evidence": evidence}


def verdict_of(findings: Sequence[Finding]) -> str:
    """`void` when a rule of that severity fired, `suspect` for the next, else `clean`."""
    from infer_forge.kernel_task.rules import severity

    seen = {severity(f["rule"]) for f in findings}
    return "void" if "void" in seen else "suspect" if "suspect" in seen else "clean"


def _row(case: Case, row: RowLike, kernels: Mapping[str, Kernel], options: Mapping[str, Any]) -> dict[str, Any]:
    kind = row.get("kind", "production")
    result: dict[str, Any] = {
        "id": case.row,
        "kind": kind,
        "status": None,
        "baseline": None,
        "candidate": None,
        "speedup": None,
    }
    good = True
    for side, kernel in kernels.items():
        before = environment.snapshot()
        judge = check_rejects if kind == "must_reject" else check
        good = judge(case, side, kernel) and good
        _environment(case, side, before)
    if kind == "production" and good:
        before = environment.snapshot()
        samples = timing.measure(case, dict(kernels), **options)
        _environment(case, "candidate", before)
        for side, value in samples.items():
            result[side] = value.summary()
        result["speedup"] = result["baseline"]["median_ns"] / result["candidate"]["median_ns"]
        _samples(case, samples, options["min_sample_ms"])
    result["errors"] = dict(case.worst)
    return result


def _environment(case: Case, side: str, before: dict[str, Any]) -> None:
    names = environment.moved(before, environment.snapshot())
    if names:
        case.findings.append(
            _finding("ENVIRONMENT_ONE_SIDED", f"the call changed: {', '.join(names[:4])}", case.row, side)
        )


def _samples(case: Case, samples: Mapping[str, timing.Samples], min_ms: float) -> None:
    for side, value in samples.items():
        summary = value.summary()
        if summary["sample_ms"] < 0.5 * min_ms:
            text = f"a sample took {summary['sample_ms']:.3f} ms, wanted {min_ms:g} ms"
            case.findings.append(_finding("SHORT_SAMPLES", text, case.row, side))
        share = summary["event_share_of_wall"]
        if share is not None and share < _EVENT_SHARE:
            text = f"events on the stream saw {100 * share:.0f} % of the wall time: work ran on another stream, or the host was slow"
            case.findings.append(_finding("TIMING_MISMATCH", text, case.row, side))


def _limit_ns(row: RowLike, case: Case, peak_bytes: float | None, peak_flops: float | None) -> float | None:
    """The least time that the physics of the device allows for this row."""
    limits: list[float] = []
    if peak_bytes is not None:
        moved = row.get("bytes_moved")
        if moved is None:
            inputs = case.make_inputs(case.params, case.seeds[0])
            outputs = as_tuple(case.reference(*inputs))
            moved = sum(arrays.byte_size(v) for v in (*inputs, *outputs) if arrays.is_array(v))
        limits.append(1e9 * float(moved) / peak_bytes)
    if peak_flops is not None and row.get("flops") is not None:
        limits.append(1e9 * float(row["flops"]) / peak_flops)
    return max(limits, default=None)


def _judge_times(case: Case, result: dict[str, Any], limit_ns: float | None, implausible: float) -> None:
    result["limit_ns"] = limit_ns
    if result["speedup"] is None:
        return
    for side in ("baseline", "candidate"):
        fastest = result[side]["min_ns"]
        if limit_ns is not None and fastest < limit_ns:
            text = f"{fastest:.0f} ns, the device needs {limit_ns:.0f} ns to move the data"
            case.findings.append(_finding("FASTER_THAN_LIMIT", text, case.row, side))
    if result["speedup"] > implausible:
        text = f"{result['speedup']:.1f} times faster, above {implausible:g}: a person must look"
        case.findings.append(_finding("IMPLAUSIBLE_SPEEDUP", text, case.row))


_STATUS = {
    "WRONG_SHAPE": "INCORRECT_SHAPE", "WRONG_DTYPE": "INCORRECT_DTYPE", "RUNTIME_ERROR": "RUNTIME_ERROR",
    "INCORRECT": "INCORRECT_NUMERICAL", "ACCEPTED_BAD_INPUT": "ACCEPTED_BAD_INPUT",
}  # fmt: skip


def _status(case: Case) -> str:
    own = [f["rule"] for f in case.findings if f["side"] == "candidate"]
    if not own:
        return "PASSED"
    return next((_STATUS[r] for r in own if r in _STATUS), "INTEGRITY")


def _timer(findings: list[Finding]) -> None:
    if not environment.snapshot()["clock"]:
        findings.append(_finding("TIMER_PATCHED", "time.perf_counter_ns is not the function that it was at the start"))


def geomean(table: Sequence[Mapping[str, Any]], rows: Sequence[RowLike]) -> float | None:
    """Weighted geometric mean of the speed-ups of the production rows; None when any of them has none."""
    weights = {str(r["id"]): float(r.get("weight", 1.0)) for r in rows}
    wanted = [r for r in table if r["kind"] == "production"]
    if not wanted or any(r["speedup"] is None for r in wanted):
        return None
    total = sum(weights[r["id"]] for r in wanted)
    return math.exp(sum(weights[r["id"]] * math.log(r["speedup"]) for r in wanted) / total)


def bucket_results(
    rows: Sequence[RowLike],
    table: Sequence[Mapping[str, Any]],
    buckets: Sequence[Mapping[str, Any]],
    paths: set[str],
    findings: list[Finding],
) -> list[dict[str, Any]]:
    """Per bucket: condition, path, rows, latency of both sides, geometric mean, fallback; faults of the dispatch as findings."""
    times = {r["id"]: r for r in table}
    members: dict[str, list[RowLike]] = {str(b["name"]): [] for b in buckets}
    for row in rows:
        if row.get("kind") == "must_reject" or not buckets:
            continue
        hit = [str(b["name"]) for b in buckets if holds(b["predicate"], row.get("params", {}))]
        for name in hit:
            members[name].append(row)
        if len(hit) != 1:
            rule, text = ("BUCKET_OVERLAP", f"in {', '.join(hit)}") if hit else ("BUCKET_GAP", "in no bucket")
            findings.append(_finding(rule, f"row {row['id']} is {text}", str(row["id"])))
    out: list[dict[str, Any]] = []
    for bucket in buckets:
        own = [times[str(r["id"])] for r in members[str(bucket["name"])]]
        _fallback(bucket, paths, findings)
        out.append(
            {
                "name": bucket["name"], "predicate": bucket["predicate"], "path": bucket["path"], "fallback": bucket.get("fallback"),
                "rows": [r["id"] for r in own], "path_seen": bucket["path"] in paths if paths else None, "no_op": bool(bucket.get("no_op")),
                "baseline_median_ns": _median(own, "baseline"), "candidate_median_ns": _median(own, "candidate"),
                "geomean_speedup": geomean(own, rows),
            }
        )  # fmt: skip
    return out


def _median(rows: Sequence[Mapping[str, Any]], side: str) -> float | None:
    import statistics

    values = [r[side]["median_ns"] for r in rows if r[side] is not None]
    return statistics.median(values) if values else None


def _fallback(bucket: Mapping[str, Any], paths: set[str], findings: list[Finding]) -> None:
    name, fallback = bucket["name"], bucket.get("fallback")
    if not fallback:
        findings.append(_finding("BUCKET_NO_FALLBACK", f"bucket {name} names no fallback"))
    elif paths and fallback not in paths:
        findings.append(_finding("FALLBACK_NOT_RUN", f"the fallback {fallback} of bucket {name} never ran"))
    elif not paths:
        findings.append(
            _finding(
                "PATH_UNKNOWN", f"bucket {name}: the candidate does not tell which path it took (kernel.last_path)"
            )
        )
