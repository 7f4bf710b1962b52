"""The digest of one or more reports: kernels with class, limiter, flags and metrics, and exactly one next edit."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infer_forge.base.errors import UsageFault
from infer_forge.base.records import Finding, Header, InputFile, Report
from infer_forge.base.tables import Column, Table
from infer_forge.ncu import dictionary, policy
from infer_forge.ncu.diagnose import Diagnosis, diagnose
from infer_forge.ncu.edit import next_edit
from infer_forge.ncu.flags import Flag, flags
from infer_forge.ncu.model import Launch, NcuReport
from infer_forge.ncu.names import display
from infer_forge.ncu.occupancy import occupancy
from infer_forge.ncu.opinion import second_opinion
from infer_forge.ncu.read import groups, load
from infer_forge.ncu.roofline import pipes, rooflines
from infer_forge.ncu.triage_link import COMMAND, MISSING, SmallKernel, load_triage, small_kernel

HOT_LINES = 12


@dataclass
class Judged:
    """A kernel of a report: all its launches that were read, the one that stands for it, and what was found on that one."""

    report: NcuReport
    launches: list[Launch]
    shown: Launch
    diagnosis: Diagnosis
    flags: list[Flag] = field(default_factory=list[Flag])

    @property
    def total_ns(self) -> float:
        """Time of its launches that were read."""
        return sum(dictionary.number(x, "duration") or 0.0 for x in self.launches)

    @property
    def aside(self) -> bool:
        """Whether it looks like warm-up, initialisation or a cache flush."""
        return bool(policy.not_target().match(self.shown.kernel))


def judge(report: NcuReport) -> list[Judged]:
    """Every kernel of a report, the target first: the most time among kernels that are no warm-up or initialisation."""
    out: list[Judged] = []
    for launches in groups(report).values():
        shown = _middle(launches)
        diagnosis = diagnose(shown)
        out.append(Judged(report, launches, shown, diagnosis, flags(shown, diagnosis)))
    return sorted(out, key=lambda j: (j.aside, -j.total_ns))


def _middle(launches: list[Launch]) -> Launch:
    """The launch with the median duration; the first when durations are missing."""
    timed = sorted((d, i) for i, x in enumerate(launches) if (d := dictionary.number(x, "duration")) is not None)
    return launches[timed[(len(timed) - 1) // 2][1]] if timed else launches[0]


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
    out.extra = {
        "kernels": [_kernel_json(j) for j in judged],
        "next_edit": next_edit(
            target.shown, target.diagnosis, target.flags, target.report.session, str(target.report.path), small
        ),
        "comparison": None,
        "second_opinion": opinion,
    }
    _describe(out, loaded, judged, kernel, small, source=source)
    if baseline is not None:
        from infer_forge.ncu.comparison import add_comparison

        base = load(baseline, kernel=baseline_kernel or kernel, launch=launch)
        add_comparison(out, judge(base), judged, named=bool(kernel or baseline_kernel))
    return out


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


def _kernel_json(judged: Judged) -> dict[str, Any]:
    """One kernel of the JSON: what the issue of the report names, plus occupancy, roofline, pipes and hot lines."""
    launch, diagnosis = judged.shown, judged.diagnosis
    durations = [d for x in judged.launches if (d := dictionary.number(x, "duration")) is not None]
    facts = occupancy(launch)
    return {
        "name": launch.kernel,
        "demangled": launch.demangled,
        "report": judged.report.path,
        "launch": launch.index,
        "launches": [x.index for x in judged.launches],
        "duration_ns": dictionary.number(launch, "duration"),
        "durations_ns": durations,
        "workload": launch.workload,
        "grid": launch.grid,
        "block": launch.block,
        "device": launch.device,
        "cc": launch.cc,
        "class": diagnosis.name,
        "limiter": diagnosis.limiter,
        "co_limiters": diagnosis.co_limiters,
        "character": diagnosis.character,
        "why": diagnosis.why,
        "borderline": diagnosis.borderline,
        "evidence": [e.to_json() for e in diagnosis.evidence],
        "flags": [f.to_json() for f in judged.flags],
        "metrics": metrics_json(launch, diagnosis),
        "units_pct": {x.unit: x.pct for x in diagnosis.loads},
        "pipes_pct": pipes(launch),
        "stalls": _stalls(launch),
        "occupancy": facts.to_json() if facts else None,
        "roofline": [r.to_json() for r in rooflines(launch)],
        "hot": [_hot_json(h) for h in launch.hot],
        "not_target": judged.aside,
        "not_collected": dictionary.missing(launch, _reading(diagnosis)),
    }


def _hot_json(spot: Any) -> dict[str, Any]:
    return {k: getattr(spot, k) for k in ("where", "sass", "samples", "share_pct", "stall", "stall_share_pct")}


def _reading(diagnosis: Diagnosis) -> list[str]:
    """The metrics to read for a kernel of this character (C21), after the ones that are always read."""
    always = ["duration", "sm", "memory", "dram", "waves", "occupancy_theoretical", "occupancy_achieved"]
    return list(dict.fromkeys([*always, *policy.data()["readings"].get(diagnosis.character or "", [])]))


def metrics_json(launch: Launch, diagnosis: Diagnosis) -> dict[str, Any]:
    """`{our name: {value, unit, metric}}`, with the character's readings first; `not_collected` stays out of it."""
    keys = list(dict.fromkeys([*_reading(diagnosis), *dictionary.metrics()]))
    skip = {"grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "cc_major", "cc_minor", "device_name"}
    found = {k: v for k in keys if k not in skip and (v := dictionary.find(launch, k)) is not None}
    return {k: {"value": v.value, "unit": v.unit, "metric": v.name} for k, v in found.items()}


def _stalls(launch: Launch) -> list[dict[str, Any]]:
    """Stall reasons with their share of the cycles between two instructions, largest first."""
    cpi = dictionary.number(launch, "cpi")
    ignored = policy.data()["ignored_stalls"]
    found = [(r, float(v.value)) for r, v in dictionary.family(launch, "stall").items() if r not in ignored]
    found.sort(key=lambda x: -x[1])
    return [{"reason": r, "cycles": v, "share_pct": 100 * v / cpi if cpi else None} for r, v in found[:6] if v > 0]


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


def _describe(
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
    if all(j.aside for j in judged):
        names = ", ".join(dict.fromkeys(j.shown.kernel for j in judged))
        message = f"the report holds only warm-up or initialisation kernels ({names}), not the target"
        step = "collect again with --kernel-name of the target and --launch-skip past the warm-up: infer-forge ncu plan"
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
    for key in _reading(target.diagnosis):
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
