"""The digest of one or more reports: kernels with class, limiter, flags and metrics, and exactly one next edit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from infer_forge.base import report_store
from infer_forge.base.errors import UsageFault
from infer_forge.base.records import Finding, Header, InputFile, Report
from infer_forge.ncu import policy
from infer_forge.ncu.edit import collect_target, next_edit
from infer_forge.ncu.judged import Judged, judge, kernel_json, no_target
from infer_forge.ncu.model import NcuReport
from infer_forge.ncu.opinion import second_opinion
from infer_forge.ncu.present import describe
from infer_forge.ncu.read import load
from infer_forge.ncu.triage_link import load_triage, small_kernel

HOT_LINES = 12


def digest(
    reports: Sequence[str | Path],
    *,
    baseline: str | Path | None = None,
    kernel: str | None = None,
    baseline_kernel: str | None = None,
    launch: int | None = None,
    source: bool = False,
    triage: str | Path | None = None,
) -> Report:
    """Diagnose the kernels of one or more reports, or compare one with a baseline.

    JSON keys besides the tables: `kernels` (target first), `next_edit` (one object), `comparison` (None without a
    baseline), `second_opinion` (of the target).

    Args:
        reports: files of Nsight Compute. baseline: the report to compare with (then exactly one in `reports`).
        kernel: regular expression that names the kernel; baseline_kernel: the same for the baseline when its name differs.
        launch: only this launch of each report. source: bring the most sampled instructions.
        triage: a stored triage report (JSON) for launches, gaps and synchronisation of small kernels.

    Raises:
        UsageFault, InputUnusable, MissingPart: as `load`.
    """
    if not reports:
        raise UsageFault("no report was given", next_step="infer-forge ncu digest REPORT")
    if baseline is not None and len(reports) != 1:
        raise UsageFault("a comparison takes one report and one baseline", next_step="digest one report at a time")
    tables = load_triage(triage) if triage is not None else None
    loaded = [load(p, kernel=kernel, launch=launch, hot=HOT_LINES if source else 0) for p in reports]
    judged = [j for r in loaded for j in judge(r)]
    judged.sort(key=lambda j: (j.aside, -j.total_ns))
    target = judged[0]
    small = small_kernel(tables, target.shown.kernel, str(triage)) if tables is not None else None
    inputs = [InputFile.of(p) for p in [*reports, *([baseline] if baseline else []), *([triage] if triage else [])]]
    out = Report("ncu", _header(loaded, inputs, target))
    opinion = second_opinion(target.shown, target.diagnosis)
    elsewhere = no_target(judged, kernel)
    if elsewhere:
        edit = collect_target(target.shown, target.diagnosis, elsewhere, target.report.session)
    else:
        edit = next_edit(
            target.shown, target.diagnosis, target.flags, target.report.session, str(target.report.path), small
        )
    out.extra = {
        "kernels": [kernel_json(j) for j in judged],
        "next_edit": edit,
        "comparison": None,
        "second_opinion": opinion,
    }
    describe(out, loaded, judged, kernel, small, source=source)
    if baseline is not None:
        from infer_forge.ncu.comparison import add_comparison

        base = load(baseline, kernel=baseline_kernel or kernel, launch=launch)
        add_comparison(out, judge(base), judged, named=bool(kernel or baseline_kernel))
    _keep(out)
    return out


def _keep(report: Report) -> None:
    """Keep the digest by the hash of its inputs, so that a later step can name it."""
    try:
        report_store.keep(report)
    except OSError as fault:
        text = f"the digest could not be kept for later steps: {fault.strerror or fault}"
        step = "set INFER_FORGE_HOME to a folder that can be written"
        report.findings.append(Finding("NOT_KEPT", text, "info", next_step=step))


def _header(loaded: list[NcuReport], inputs: list[InputFile], target: Judged) -> Header:
    used = {e.source for e in target.diagnosis.evidence}
    used |= {f.source for f in target.flags}
    names = [n for n in policy.data()["thresholds"] if policy.threshold(n).source in used]
    return Header(
        inputs=inputs,
        capture={"form": [r.form for r in loaded], "session": [r.session.to_json() for r in loaded]},
        coverage={
            "launches_in_file": sum(r.in_file for r in loaded),
            "launches_read": sum(len(r.launches) for r in loaded),
            "capped": [r.capped for r in loaded if r.capped],
            "lost": [x for r in loaded for x in r.lost],
            "kernels_in_file": {n: c for r in loaded for n, c in r.names.items()},
        },
        thresholds={n: {"value": policy.limit(n), "source": policy.threshold(n).source} for n in names},
    )
