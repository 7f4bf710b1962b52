"""`infer-forge kernel-task audit`: mechanical checks on a kernel task's folder (or a serving result's): clean, suspect or void.

Every finding has a rule id of `references/kernel_task_rules.yaml`. `void`: the result does not count; `suspect`: a person
must look. A folder without `task.json` is judged as a serving result (`audit_serving`).
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable
from infer_forge.base.records import Finding, Header, InputFile, Report
from infer_forge.base.tables import Column, Table
from infer_forge.kernel_task import sources
from infer_forge.kernel_task.folder import (
    LOCK,
    RESULTS,
    TASK,
    changes,
    harness_sha256,
    hashes,
    read_lock,
    read_task,
    rows_hash,
    work_files,
)
from infer_forge.kernel_task.predicates import holds
from infer_forge.kernel_task.rules import all_rules, severity

if TYPE_CHECKING:
    from infer_forge.kernel_task.model import KernelTask

CLEAN, SUSPECT, VOID = "clean", "suspect", "void"
VERDICTS = (CLEAN, SUSPECT, VOID)

Hit = tuple[str, str, str | None]
"""(rule, evidence, row or file)."""


@dataclass
class Evidence:
    """What the audit of a kernel task looks at. `results` is None when nothing was measured."""

    folder: Path
    task: KernelTask
    lock: dict[str, Any] | None
    results: dict[str, Any] | None
    damaged: str | None = None
    passed: list[str] = field(default_factory=list[str])


def audit(folder: str | Path) -> Report:
    """Audit a kernel task or a serving result.

    Raises:
        InputUnusable: the folder is neither.
    """
    place = Path(folder)
    if not place.is_dir():
        raise InputUnusable(
            "is no folder", where=str(place), next_step="give the folder of a kernel task or of a benchmark run"
        )
    if not (place / TASK).is_file():
        from infer_forge.kernel_task.audit_serving import audit_serving

        return report_of(place, "serving result", *audit_serving(place))
    evidence = _evidence(place)
    hits: list[Hit] = []
    for name, check in {**_CHECKS, "measured": _measured}.items():
        try:
            found = list(check(evidence))
        except (TypeError, KeyError, AttributeError, ValueError, IndexError, OverflowError) as exc:
            found = [("RESULTS_DAMAGED", f"{name} cannot be judged: {type(exc).__name__}: {exc}", None)]
        hits += found
        if not found:
            evidence.passed.append(name)
    return report_of(place, "kernel task", hits, evidence.passed)


def _evidence(folder: Path) -> Evidence:
    task = read_task(folder)
    lock = read_lock(folder) if (folder / LOCK).is_file() else None
    results, damaged = None, None
    if (folder / RESULTS).is_file():
        try:
            raw = jsonio.read_json(folder / RESULTS)
        except InputUnusable as exc:
            raw, damaged = None, exc.what
        if isinstance(raw, dict) and isinstance(cast("dict[str, Any]", raw).get("rows"), list):
            results = cast("dict[str, Any]", raw)
        elif damaged is None:
            damaged = "no table of rows in it"
    return Evidence(folder, task, lock, results, damaged)


def report_of(folder: Path, what: str, hits: list[Hit], passed: list[str]) -> Report:
    """Findings and verdict as a report; `extra["verdict"]`."""
    unique = list(
        dict.fromkeys((_clean(rule), _clean(text), row if row is None else _clean(row)) for rule, text, row in hits)
    )
    levels = {severity(rule) for rule, _, _ in unique}
    verdict = VOID if "void" in levels else SUSPECT if "suspect" in levels else CLEAN
    report = Report("kernel_audit", header=Header(inputs=_inputs(folder)))
    report.extra["verdict"] = verdict
    report.extra["subject"] = what
    report.extra["claim"] = "kernel_task" if what == "kernel task" else "model_e2e"
    order = {"void": 0, "suspect": 1, "note": 2}
    unique.sort(key=lambda h: order[severity(h[0])])
    table = report.add(Table("findings", ["rule", "severity", Column("row", "text"), "evidence", "meaning", "fix"]))
    for rule, evidence, row in unique:
        known = all_rules().get(rule, {"text": "", "fix": ""})
        table.rows.append((rule, severity(rule), row, evidence, known["text"], known["fix"]))
    counts = {level: sum(severity(r) == level for r, _, _ in unique) for level in order}
    report.summary = [
        f"{verdict}: {what} {folder}: {counts['void']} void, {counts['suspect']} suspect, {counts['note']} notes"
    ]
    if passed:
        report.summary.append(f"nothing found by: {', '.join(passed)}")
    word = {"void": "error", "suspect": "warning", "note": "info"}
    report.findings = [
        Finding(
            rule,
            f"{row + ': ' if row else ''}{evidence}",
            word[severity(rule)],
            next_step=all_rules().get(rule, {"fix": ""})["fix"],
        )
        for rule, evidence, row in unique
    ]
    report.next_step = (
        report.findings[0].next_step
        if report.findings
        else "validate it in the real path: infer-forge bench gap --help"
    )
    return report


def _clean(text: object) -> str:
    """Printable UTF-8 of at most 400 characters: evidence may quote a damaged file."""
    return str(text).encode("utf-8", "replace").decode("utf-8")[:400]


def _inputs(folder: Path) -> list[InputFile]:
    return [InputFile.of(folder / name) for name in (TASK, LOCK, RESULTS) if (folder / name).is_file()]


# --- the contract


def _contract(e: Evidence) -> Iterator[Hit]:
    if e.lock is None:
        yield "NO_LOCK", "no lock.json", None
        return
    if e.lock.get("workload_sha256") != rows_hash(e.task):
        yield (
            "WORKLOAD_CHANGED",
            "rows, tolerances, buckets, limits or timing of task.json are not the locked ones",
            TASK,
        )
    for text in changes(e.lock["protected"], hashes(e.folder, e.task.protected)):
        yield "HARNESS_CHANGED", text, None
    locked = str(e.lock.get("locked_at", ""))
    if e.results is not None and str(e.results.get("started_at", "")) < locked:
        yield "LOCKED_AFTER_RESULTS", f"measured at {e.results.get('started_at')}, locked at {locked}", None
    yield from _profiles_before(e, locked)


def _profiles_before(e: Evidence, locked: str) -> Iterator[Hit]:
    from datetime import datetime, timezone

    for file in sorted(e.folder.glob("profiles/**/*")):
        if file.is_file():
            made = datetime.fromtimestamp(file.stat().st_mtime, timezone.utc).isoformat(timespec="microseconds")
            if made < locked:
                yield "LOCKED_AFTER_RESULTS", f"profile of {made}, locked at {locked}", file.name


def _scope(e: Evidence) -> Iterator[Hit]:
    files = e.lock.get("files") if e.lock is not None else None
    if not isinstance(files, dict):
        return
    before = cast("dict[str, str]", files)
    protected = set(before) & set(e.lock["protected"] if e.lock is not None else {})
    for text in changes(before, work_files(e.folder)):
        name = text.rsplit(" ", 1)[0]
        if name not in protected and not any(fnmatch.fnmatch(name, p) for p in e.task.allowed_paths):
            yield "PATH_SCOPE", text, None


def _result_rows(results: dict[str, Any]) -> list[dict[str, Any]]:
    return [cast("dict[str, Any]", r) for r in cast("list[Any]", results["rows"]) if isinstance(r, dict)]


def _rows(e: Evidence) -> Iterator[Hit]:
    if e.results is None:
        return
    wanted = [row.id for row in e.task.rows]
    seen = [str(r.get("id")) for r in _result_rows(e.results)]
    for name in wanted:
        if seen.count(name) != 1:
            yield "ROW_DROPPED", "no result" if name not in seen else f"{seen.count(name)} results", name
    for name in dict.fromkeys(seen):
        if name not in wanted:
            yield "ROW_ADDED", "not in task.json", name
    production = [r for r in e.task.rows if r.kind == "production"]
    if len(production) == 1 and not any(r.kind == "regression" for r in e.task.rows):
        yield "SINGLE_SHAPE", f"only {production[0].id}", production[0].id


def _harness(e: Evidence) -> Iterator[Hit]:
    if e.results is None:
        return
    made_by = e.results.get("harness_sha256")
    if made_by != harness_sha256():
        yield "HARNESS_FOREIGN", f"results by harness {str(made_by)[:12]}, this one is {harness_sha256()[:12]}", None
    before, after = e.results.get("protected_before"), e.results.get("protected_after")
    if not isinstance(before, dict) or not isinstance(after, dict):
        yield "HARNESS_CHANGED", "the hashes before and after the run are not in the results", None
        return
    for text in changes(cast("dict[str, str]", before), cast("dict[str, str]", after)):
        yield "HARNESS_CHANGED", f"{text} while it was measured", None
    if e.lock is not None and before != e.lock["protected"]:
        yield "HARNESS_CHANGED", "the run did not use the locked files", None


def _frozen(e: Evidence) -> Iterator[Hit]:
    if e.results is None:
        return
    frozen = e.results.get("frozen")
    now = {
        p.relative_to(e.folder).as_posix(): jsonio.sha256_file(p)
        for p in sources.source_files(e.folder, e.task.entry.candidate)
    }
    if not isinstance(frozen, dict) or not frozen:
        yield "CANDIDATE_CHANGED", "the results do not say which candidate was measured", None
    else:
        for text in changes(cast("dict[str, str]", frozen), now):
            yield "CANDIDATE_CHANGED", text, None
    if str(e.results.get("seeds_drawn_at", "")) < str(e.results.get("frozen_at", "~")):
        yield (
            "SEED_BEFORE_FREEZE",
            f"drawn at {e.results.get('seeds_drawn_at')}, frozen at {e.results.get('frozen_at')}",
            None,
        )


# --- both sides alike


def _flags(e: Evidence) -> Iterator[Hit]:
    sides = {side: [*e.task.build.get(side, []), entry.partition(":")[0]] for side, entry in _entries(e).items()}
    found = {side: sources.flags_of(e.folder, patterns) for side, patterns in sides.items()}
    bad, other = sources.flag_differences(found["baseline"], found["candidate"])
    if bad:
        yield "COMPILE_FLAGS_DIFFER", ", ".join(bad), None
    if other:
        yield "COMPILE_FLAGS_OTHER", ", ".join(other), None


def _entries(e: Evidence) -> dict[Literal["baseline", "candidate"], str]:
    return {"baseline": e.task.entry.baseline, "candidate": e.task.entry.candidate}


def _texts(e: Evidence) -> dict[Literal["baseline", "candidate"], str]:
    return {side: sources.text_of(sources.source_files(e.folder, entry)) for side, entry in _entries(e).items()}


def _source_patterns(e: Evidence) -> Iterator[Hit]:
    texts = _texts(e)
    for rule, group in (("FAST_INTRINSICS", "fast_intrinsics"), ("PRECISION_DOWNGRADE", "precision_downgrade")):
        mine, theirs = sources.hits(texts["candidate"], group), sources.hits(texts["baseline"], group)
        only = [h for h in mine if h not in theirs]
        if only and not theirs:
            yield rule, f"candidate only: {', '.join(only[:6])}", None
        if theirs and not mine and rule == "FAST_INTRINSICS":
            yield rule, f"baseline only: {', '.join(theirs[:6])}", None
    for rule, group in (
        ("HARNESS_ACCESS", "harness_access"),
        ("POINTER_CACHE", "pointer_cache"),
        ("STREAM_INJECTION", "stream_injection"),
        ("CALLS_BASELINE", "library_baseline"),
    ):
        theirs = sources.hits(texts["baseline"], group)
        only = [h for h in sources.hits(texts["candidate"], group) if h not in theirs]
        if only:
            yield rule, f"in the candidate's source: {', '.join(only[:6])}", None


def _abi(e: Evidence) -> Iterator[Hit]:
    signatures = {side: sources.signature(e.folder, entry) for side, entry in _entries(e).items()}
    base, mine = signatures["baseline"], signatures["candidate"]
    if base is not None and mine is not None and base != mine:
        yield "ABI_DIFFERS", f"baseline({', '.join(base)}), candidate({', '.join(mine)})", None
    if mine is None and base is not None:
        yield "ABI_DIFFERS", f"{e.task.entry.candidate} is no function of that file", None
    texts = _texts(e)
    left, right = sources.exported(texts["baseline"]), sources.exported(texts["candidate"])
    if left and right and left != right:
        yield "ABI_DIFFERS", f"exported: {', '.join(sorted(left ^ right)[:4])} on one side only", None
    guards = ("raise ", "assert ", ".contiguous()", "TORCH_CHECK", "AT_ASSERT")
    lost = [g.strip() for g in guards if g in texts["baseline"] and g not in texts["candidate"]]
    if lost:
        yield "WRAPPER_DIFFERS", f"the baseline has {', '.join(lost)}, the candidate has none", None


# --- dispatch and claims


def _buckets(e: Evidence) -> Iterator[Hit]:
    for bucket in e.task.buckets:
        if not bucket.fallback:
            yield "BUCKET_NO_FALLBACK", f"bucket {bucket.name}", None
        if bucket.no_op and not bucket.evidence:
            yield "NO_OP_WITHOUT_EVIDENCE", f"bucket {bucket.name}", None
    if not e.task.buckets:
        return
    for row in e.task.rows:
        if row.kind == "must_reject":
            continue
        for params in _neighbours(row.params):
            hit = [b.name for b in e.task.buckets if holds(b.predicate, params)]
            shown = ", ".join(f"{k}={v}" for k, v in params.items())
            if len(hit) > 1:
                yield "BUCKET_OVERLAP", f"{shown} is in {', '.join(hit)}", row.id
                break
            if not hit:
                yield "BUCKET_GAP", f"{shown} is in no bucket", row.id
                break


def _neighbours(params: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The row itself and its neighbours: one size one less or one more."""
    yield params
    for key, value in params.items():
        if isinstance(value, int) and not isinstance(value, bool):
            for other in (value - 1, value + 1):
                if other > 0:
                    yield {**params, key: other}


def _claims(e: Evidence) -> Iterator[Hit]:
    import re

    claim = e.task.claim
    sold = re.search(r"end.to.end|\be2e\b|requests?/s|serving throughput|model throughput", claim.text, re.IGNORECASE)
    stated = e.results.get("claim") if e.results is not None else None
    if claim.kind == "kernel_task" and stated in (None, "kernel_task"):
        if sold:
            yield "CLAIM_E2E", f"claim of kind kernel_task says {sold[0]!r}", None
        return
    gone = [
        name
        for name, value in (("gap_report", claim.gap_report), ("kernel_in_trace", claim.kernel_in_trace))
        if not value
    ]
    if gone:
        yield "CLAIM_E2E", f"an end-to-end claim without {' and '.join(gone)}", None
        return
    verdict = _gap_verdict(e.folder / str(claim.gap_report))
    if verdict not in ("ahead", "not_behind", "tie"):
        yield "CLAIM_E2E", f"the gap verdict of {claim.gap_report} is {verdict or 'not readable'}", None


def _gap_verdict(file: Path) -> str | None:
    try:
        raw = jsonio.read_json(file)
    except InputUnusable:
        return None
    overall = cast("dict[str, Any]", raw).get("overall") if isinstance(raw, dict) else None
    return cast("dict[str, Any]", overall).get("verdict") if isinstance(overall, dict) else None


_CHECKS: dict[str, Callable[[Evidence], Iterator[Hit]]] = {
    "contract": _contract, "path scope": _scope, "rows": _rows, "harness": _harness, "frozen candidate": _frozen,
    "compile flags": _flags, "source": _source_patterns, "ABI and wrapper": _abi, "dispatch": _buckets, "claims": _claims,
}  # fmt: skip


def _measured(e: Evidence) -> list[Hit]:
    """What the harness found, and whether its figures follow from its rows."""
    from infer_forge.kernel_task.harness import geomean

    if e.results is None:
        return [("RESULTS_DAMAGED", e.damaged, RESULTS)] if e.damaged else [("NO_RESULTS", "no results.json", None)]
    out: list[Hit] = []
    for item in cast("list[Any]", e.results.get("findings") or []):
        if isinstance(item, dict):
            f = cast("dict[str, Any]", item)
            out.append((str(f.get("rule")), f"{f.get('side') or ''} {f.get('evidence') or ''}".strip(), f.get("row")))
    if e.results.get("interleaving") != "ABBA":
        out.append(("NOT_INTERLEAVED", f"interleaving: {e.results.get('interleaving')}", None))
    timed = [r for r in _result_rows(e.results) if isinstance(r.get("candidate"), dict)]
    short = [str(r.get("id")) for r in timed if (r["candidate"].get("runs") or 0) < 3]
    if short:
        out.append(("FEW_RUNS", f"rows {', '.join(short[:4])}", None))
    try:
        follows = geomean(e.results["rows"], [row.model_dump() for row in e.task.rows])
    except (KeyError, TypeError, ValueError):
        return [*out, ("RESULTS_DAMAGED", "a row of the results is incomplete", RESULTS)]
    return out + _figures(e.results, timed, follows)


def _figures(results: dict[str, Any], timed: list[dict[str, Any]], follows: float | None) -> list[Hit]:
    out: list[Hit] = []
    stated = results.get("geomean_speedup")
    if (stated is None) != (follows is None) or (
        stated is not None and follows is not None and abs(stated - follows) > 1e-6 * follows
    ):
        out.append(("GEOMEAN_WRONG", f"stated {stated}, the rows give {follows}", None))
    for row in timed:
        try:
            own = row["baseline"]["median_ns"] / row["candidate"]["median_ns"]
            wrong = abs(own - row["speedup"]) > 1e-6 * own
        except (KeyError, TypeError, ZeroDivisionError):
            wrong = True
        if wrong:
            out.append(("GEOMEAN_WRONG", "the row's speed-up does not follow from its times", str(row.get("id"))))
    return out
