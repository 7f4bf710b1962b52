"""A digest for people: tables, findings and summary lines."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from infer_forge.base.records import Finding, Report
from infer_forge.base.tables import Column, Table
from infer_forge.ncu import dictionary
from infer_forge.ncu.judged import Judged, no_target, reading
from infer_forge.ncu.model import NcuReport
from infer_forge.ncu.names import display
from infer_forge.ncu.occupancy import occupancy
from infer_forge.ncu.roofline import rooflines
from infer_forge.ncu.triage_link import COMMAND, MISSING, SmallKernel


def describe(
    out: Report,
    loaded: list[NcuReport],
    judged: list[Judged],
    kernel: str | None,
    small: SmallKernel | None,
    *,
    source: bool,
) -> None:
    """Tables, findings and summary lines."""
    target = judged[0]
    out.add(kernel_table(judged))
    out.add(_evidence_table(target))
    if target.shown.hot:
        out.add(_hot_table(target))
    elif source:
        out.findings.append(_no_source(target))
    out.findings += [f for r in loaded for f in _findings_of(r)]
    if elsewhere := no_target(judged, kernel):
        names = ", ".join(elsewhere)
        message = f"the report holds only warm-up or initialisation kernels ({names}), not the target"
        step = (
            "collect again with the command of the next edit, which leaves these out, or with --kernel-name of the target "
            "and --launch-skip past the warm-up: infer-forge ncu plan; name one with --kernel if it is the target"
        )
        out.findings.append(Finding("NO_TARGET_KERNEL", message, "warning", next_step=step))
    if len(judged) > 1 and not kernel:
        out.findings.append(_assumed(judged))
    if target.diagnosis.character == "small":
        _small(out, small)
    for j in judged:
        if j.diagnosis.borderline:
            names = ", ".join(j.diagnosis.borderline)
            message = f"{j.shown.kernel}: {names} is printed too coarsely to tell its side of the threshold"
            out.findings.append(
                Finding("BORDERLINE", message, "info", next_step="digest the .ncu-rep or the raw CSV page")
            )
    _summary(out, target)


def kernel_table(judged: list[Judged]) -> Table:
    """One row a kernel."""
    columns = [
        Column("kernel", "text"), Column("launch", "int"), Column("launches", "int"), Column("duration_ns", "ns"),
        Column("class", "text"), Column("limiter", "text"), Column("sm_pct"), Column("memory_pct"), Column("dram_pct"),
        Column("waves"), Column("occupancy_pct"), Column("flags", "text"), Column("report", "text"),
    ]  # fmt: skip
    rows: list[list[Any]] = []
    for j in judged:
        x, number = j.shown, dictionary.number
        named = display(x.kernel, x.demangled) + (" [warm-up or init]" if j.aside else "")
        figures = [number(x, k) for k in ("sm", "memory", "dram", "waves", "occupancy_achieved")]
        codes = ", ".join(dict.fromkeys(f.code for f in j.flags)) or None
        file = Path(j.report.path).name
        row = [named, x.index, len(j.launches), number(x, "duration"), j.diagnosis.name, j.diagnosis.limiter]
        rows.append([*row, *figures, codes, file])
    return Table("kernels", columns, rows)


def _assumed(judged: list[Judged]) -> Finding:
    target = judged[0].shown.kernel
    skipped = [j.shown.kernel for j in judged if j.aside and j.total_ns > judged[0].total_ns]
    passed = f"; longer but warm-up or initialisation: {', '.join(skipped)}" if skipped and not judged[0].aside else ""
    return Finding(
        "KERNEL_ASSUMED",
        f"{len(judged)} kernels in the report; the next edit is for {target}, which took the most time{passed}",
        "info",
        next_step="name the kernel with --kernel",
    )


def _small(out: Report, small: SmallKernel | None) -> None:
    if small is not None:
        out.extra["small_kernel"] = small.to_json()
        lacking = small.missing
    else:
        out.extra["small_kernel"] = {"source": None, "launches": None, "missing": list(MISSING)}
        lacking = MISSING
    if lacking:
        message = f"a small kernel: {', '.join(lacking)} decide as much as its own time, and no NCU report holds them"
        out.findings.append(Finding("SMALL_KERNEL_CONTEXT", message, "info", next_step=COMMAND))


def _no_source(target: Judged) -> Finding:
    if target.report.form != "ncu-rep":
        return Finding(
            "NO_SOURCE_DATA", "a CSV or text page holds no per-instruction data", next_step="digest the .ncu-rep"
        )
    return Finding(
        "NO_SOURCE_DATA",
        "the report holds no stall samples per instruction",
        next_step="collect with infer-forge ncu plan --for source",
    )


def _findings_of(report: NcuReport) -> list[Finding]:
    out: list[Finding] = []
    if report.capped:
        out.append(Finding("CAPPED", report.capped, "warning", len(report.launches), report.in_file))
    out += [Finding("INCOMPLETE", text, "warning") for text in report.lost]
    others = {x.workload for x in report.launches} - {"kernel"}
    if others:
        message = f"results of kind {', '.join(sorted(others))}: their metrics are of the whole range or graph, not of one kernel"
        out.append(Finding("NOT_A_KERNEL", message, "warning"))
    absent = sorted({lost for x in report.launches for lost in x.lost})
    if absent:
        shown = "; ".join(absent[:6]) + (f"; and {len(absent) - 6} more" if len(absent) > 6 else "")
        out.append(Finding("NOT_COLLECTED", shown, "info"))
    return out


def _evidence_table(target: Judged) -> Table:
    columns = [Column(c, "text" if c in ("what", "metric", "unit", "source") else "") for c in
               ("what", "metric", "value", "unit", "threshold", "source")]  # fmt: skip
    rows: list[list[Any]] = [
        ["class" + (" (borderline)" if e.borderline else ""), e.metric, e.value, e.unit, e.threshold, e.source]
        for e in target.diagnosis.evidence
    ]
    rows += [[f.code, f.metric, f.value, f.unit, f.threshold, f.source] for f in target.flags]
    shown = {r[1] for r in rows}
    for key in reading(target.diagnosis):
        value = dictionary.find(target.shown, key)
        entry = dictionary.metrics()[key]
        if value is None:
            rows.append([key, "not_collected", None, entry.unit, None, f"section {entry.section}"])
        elif value.name not in shown:
            rows.append([key, value.name, value.value, value.unit, None, entry.means])
    return Table("evidence", columns, rows, title=f"evidence: {target.shown.kernel}")


def _hot_table(target: Judged) -> Table:
    columns = [
        Column("share_pct"),
        Column("stall", "text"),
        Column("sass", "text"),
        Column("where", "text"),
        Column("samples", "int"),
    ]
    rows = [[h.share_pct, h.stall, h.sass, h.where or None, h.samples] for h in target.shown.hot]
    return Table("hot", columns, rows, title=f"most stalled instructions: {target.shown.kernel}")


def _summary(out: Report, target: Judged) -> None:
    launch, diagnosis = target.shown, target.diagnosis
    durations = [d for x in target.launches if (d := dictionary.number(x, "duration")) is not None]
    time = f"{statistics.median(durations) / 1000:,.1f} us" if durations else "duration not collected"
    spread = (
        f" ({min(durations) / 1000:,.1f} to {max(durations) / 1000:,.1f} over {len(durations)} launches)"
        if len(durations) > 1
        else ""
    )
    facts = occupancy(launch)
    edit = out.extra["next_edit"]
    out.summary = [
        f"kernel: {display(launch.kernel, launch.demangled)}, launch {launch.index}, {time}{spread}",
        f"class: {diagnosis.name}: {diagnosis.why}",
        *(f"flag {f.code}: {f.message}" for f in target.flags),
    ]
    if facts and facts.lift:
        out.summary.append(f"occupancy: limited by {', '.join(facts.limited_by)}; {facts.lift}")
    if roofs := rooflines(launch):
        out.summary.append(_roof_line(roofs[0]))
    out.summary.append(f"second opinion: {out.extra['second_opinion']['note']}")
    out.summary += edit_lines(edit)
    out.next_step = edit["verify_command"] if edit["kind"] == "collect" else edit["edit"]


def _roof_line(roof: Any) -> str:
    intensity = f", {roof.intensity:.3g} FLOP/byte" if roof.intensity is not None else ""
    attained = f", {roof.attained_pct:.0f} % of the {roof.side} roof there" if roof.attained_pct is not None else ""
    return f"roofline {roof.precision}: {roof.flops_per_s / 1e12:.3g} of {roof.peak_flops_per_s / 1e12:.3g} TFLOP/s{intensity}{attained}"


def edit_lines(edit: dict[str, Any]) -> list[str]:
    """The next edit for people; exactly one line begins with `Next edit:`."""
    lines = [f"Next edit: {edit['edit']}", f"  why: {edit['why']}"]
    metric = edit.get("metric")
    if metric:
        aim = f" to {metric['to']:,.4g}" if metric["to"] is not None else ""
        now = f"{metric['from']:,.4g}" if metric["from"] is not None else "not collected"
        lines.append(f"  must move: {metric['name']} from {now}{aim} {metric['unit']}".rstrip())
    if edit["upper_bound_pct"] is not None:
        lines.append(f"  at most {edit['upper_bound_pct']:.0f} % of the kernel's time ({edit['bound_reason']})")
    label = "collect" if edit["kind"] == "collect" else "verify"
    return [*lines, f"  {label}: {edit['verify_command']}", f"  stop if: {edit['stop_if']}"]
