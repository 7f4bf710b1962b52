"""A triage from end to end: traces in, one Report out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infer_forge.base import report_store
from infer_forge.base.errors import UsageFault
from infer_forge.base.records import Finding, Header, InputFile, Report
from infer_forge.base.tables import Table
from infer_forge.profile import collectives, fuse, gate, header, health, host, kernels, overlap, summary, timeline
from infer_forge.profile import thresholds as limits
from infer_forge.profile.kernels import stage_sums
from infer_forge.profile.model import Options
from infer_forge.profile.one_capture import not_one_capture
from infer_forge.profile.read import Input, choose, read
from infer_forge.profile.scene import Scene, pct, place, stage_rank, us
from infer_forge.profile.timeline import Timeline

ORDER = ("kernel", "overlap", "fuse", "stages", "host", "collectives", "skew", "launches", "gaps", "bandwidth")
"""Tables of a triage, as they print. The first seven are what a consumer may count on."""


@dataclass
class Hidden:
    """Rows that are left out of a table because they are small, and their sum."""

    rows: int = 0
    time_ns: int = 0
    count: int = 0
    counts: str | None = None
    """What `count` counts: `launches` of kernels, `count` of pattern sites; None where the rows hold no such number."""
    share_pct: float | None = None
    """Of the device time of the ranks shown; None where the rows' times may count a kernel twice."""

    def to_json(self) -> dict[str, Any]:
        """For the header."""
        counted = {self.counts: self.count} if self.counts else {}
        return {"rows": self.rows, "time_us": us(self.time_ns), **counted, "share_pct": self.share_pct}


@dataclass
class Analysis:
    """Everything computed, before it becomes a report; the picture draws from it."""

    found: Input
    chosen: list[int]
    report: Report
    hidden: dict[str, Hidden] = field(default_factory=dict[str, Hidden])

    def pairs(self) -> list[tuple[Scene, Timeline]]:
        """The chosen ranks with their timelines."""
        return [(self.found.scenes[i], self.found.lines[i]) for i in self.chosen]


def triage(paths: Sequence[str | Path], options: Options | None = None) -> Report:
    """The tables of a trace, of several, or of a directory of ranks.

    Raises:
        InputUnusable: there is nothing to tabulate; the message says why.
        GateRefused: the backend gate finds that the profile is not of what the benchmark ran.
        UsageFault: a rank or stage is asked for that does not occur.
    """
    from infer_forge.trace.kernel_sum import is_kernel_sum

    if len(paths) == 1 and Path(paths[0]).is_file() and is_kernel_sum(Path(paths[0])):
        from infer_forge.profile.kernel_sum import summary_report

        return page_of(summary_report(Path(paths[0]), options or Options()), options or Options())
    return page_of(analyse(paths, options or Options()).report, options or Options())


def analyse(paths: Sequence[str | Path], options: Options) -> Analysis:
    """The whole analysis; its report is not cut by `limit`, and kept when the options say so."""
    found = read(paths, options)
    gate_findings, facts = gate.check(found.scenes, options.server_args, options.server_log)
    chosen = choose(found, options.rank)
    analysis = Analysis(found, chosen, Report("triage"))
    report = analysis.report
    scenes = [found.scenes[i] for i in chosen]
    _check_stage(scenes, options.stage)
    report.header = _header(found, scenes, options)
    files = {"server_args": options.server_args, "server_log": options.server_log}
    if facts:
        report.header.more["gate"] = {**{k: str(v) for k, v in files.items() if v}, "facts": facts}
    foreign = not_one_capture(found.scenes)
    report.findings += [foreign] if foreign else []
    _tables(analysis, options, facts, together=foreign is None)
    report.findings += gate_findings
    for scene, line in analysis.pairs():
        report.findings += health.health(scene, line, mapped=options.mapping is not None)
    report.findings += health.skew([line.total_busy_ns for line in found.lines]) if foreign is None else []
    report.findings += health.skipped(found.skipped)
    report.header.hidden = {name: hidden.to_json() for name, hidden in analysis.hidden.items()}
    many, why = len(found.scenes), str(report.header.more["ranks"]["why"])
    read_in_words = "" if many < 2 else f"{many} {'ranks' if foreign is None else 'traces'} read"
    report.summary = summary.lines(analysis.pairs(), report.tables, read_in_words, why)
    if foreign is not None:
        report.summary.insert(0, f"{foreign.message}; what follows is of single traces")
    report.next_step = summary.next_step(report)
    if options.keep:
        _keep(report)
    return analysis


def _keep(report: Report) -> None:
    try:
        report_store.keep(report)
    except OSError as fault:
        text = f"the report could not be kept for later steps: {fault.strerror or fault}"
        report.findings.append(
            Finding("NOT_KEPT", text, "info", next_step="set INFER_FORGE_HOME to a folder that can be written")
        )


def _check_stage(scenes: list[Scene], stage: str | None) -> None:
    have = {s.stage_name(i) for s in scenes for d in s.devices for i in s.stages_on(d)}
    if stage is not None and stage not in have:
        raise UsageFault(f"no stage {stage} in the trace", next_step=f"use one of {', '.join(sorted(have))}")


def _header(found: Input, scenes: list[Scene], options: Options) -> Header:
    ranks = [s.rank for s in scenes]
    why = "asked for" if options.rank is not None else "the most busy time" if len(found.scenes) > 1 else "the only one"
    more: dict[str, Any] = {"ranks": {"shown": ranks, "read": [s.rank for s in found.scenes], "why": why}}
    if found.skipped:
        more["skipped"] = [{"path": str(s.path), "reason": s.reason} for s in found.skipped]
    if found.capture is not None:
        taken = found.capture
        more["mapping_input"] = InputFile(str(taken.path), taken.sha256, taken.size_bytes).to_json()
        more["mapping"] = header.mappings(scenes)
    return Header(
        inputs=header.inputs(found),
        capture=header.capture(found, scenes),
        coverage=header.coverage(scenes),
        thresholds={"min_share_pct": options.min_share, **limits.used()},
        more=more,
    )


def _tables(analysis: Analysis, options: Options, facts: dict[str, Any], *, together: bool) -> None:
    """Compute every table, hide the small rows, filter by stage, add them in reading order.

    Ranks are held against each other only where the traces belong `together`.
    """
    found, pairs = analysis.found, analysis.pairs()
    scenes = [s for s, _ in pairs]
    matched = (collectives.match if together else collectives.listed)(found.scenes)
    analysis.report.findings += matched.findings
    made = {
        "kernel": _kernel(analysis, options),
        "overlap": _overlap(analysis, options),
        "fuse": _fuse(analysis, options, facts),
        "stages": timeline.stage_table([r for s, line in pairs for r in timeline.stage_rows(s, line)]),
        "host": host.host_table([r for s, line in pairs for r in host.host_rows(s, line)]),
        "collectives": collectives.collective_table(matched.rows),
        "skew": collectives.skew_table(collectives.skew_rows(found.pairs())),
        "launches": host.launch_table([r for s in scenes for r in host.launch_rows(s)]),
        "gaps": host.gap_table([r for s, line in pairs for r in host.gap_rows(s, line)]),
        "bandwidth": collectives.bandwidth_table(matched.bandwidth),
    }
    for name in ORDER:
        table = made[name]
        if options.stage is not None and "stage" in table.names:
            at = table.names.index("stage")
            table.rows = [r for r in table.rows if r[at] == options.stage]
        if name != "bandwidth" or table.rows:
            analysis.report.add(table)


def _kernel(analysis: Analysis, options: Options) -> Table:
    rows = [r for s, _ in analysis.pairs() for r in kernels.kernel_rows(s)]
    rows.sort(key=lambda r: (place(r[0]), place(r[1]), stage_rank(r[2]), -r[5]))
    table = kernels.kernel_table(rows)
    time, launches, share = (table.names.index(n) for n in ("time_us", "launches", "share_pct"))
    whole = sum(sum(stage_sums(s).values()) for s, _ in analysis.pairs())

    def spent(row: Sequence[Any]) -> tuple[int, int]:
        return round(row[time] * 1000), row[launches]

    return _hide(analysis, table, options, lambda r: r[share], spent, "launches", whole)


def _overlap(analysis: Analysis, options: Options) -> Table:
    pairs = [(s, r) for s, _ in analysis.pairs() for r in overlap.overlap(s)]
    sums = {id(s): stage_sums(s) for s, _ in analysis.pairs()}
    shares = [pct(r.work_ns, sums[id(s)].get(max(r.stage, 0), 0)) for s, r in pairs]
    keep = [i for i, share in enumerate(shares) if (share or 0.0) >= options.min_share]
    gone = Hidden()
    for i in set(range(len(pairs))) - set(keep):
        gone.rows, gone.time_ns = gone.rows + 1, gone.time_ns + pairs[i][1].work_ns
    whole = sum(sum(x.values()) for x in sums.values())
    gone.share_pct = pct(gone.time_ns, whole)
    analysis.hidden["overlap"] = gone
    keep.sort(
        key=lambda i: (
            place(pairs[i][0].rank),
            pairs[i][1].device,
            stage_rank(pairs[i][0].stage_name(pairs[i][1].stage)),
        )
    )
    return overlap.overlap_table([pairs[i] for i in keep])


def _fuse(analysis: Analysis, options: Options, facts: dict[str, Any]) -> Table:
    pairs: list[tuple[Scene, fuse.Found]] = []
    for scene, _ in analysis.pairs():
        known = fuse.facts_of(scene, facts)
        pairs += [(scene, f) for f in fuse.fuse(scene, known, unverified=options.unverified)]
    table = fuse.fuse_table(pairs)
    share, count, time = (table.names.index(n) for n in ("share_pct", "count", "time_us"))
    analysis.report.extra["fuse_notes"] = fuse.notes([f for _, f in pairs])

    def spent(row: Sequence[Any]) -> tuple[int, int]:
        return round(row[time] * 1000), row[count]

    return _hide(analysis, table, options, lambda r: r[share], spent, "count", None)


def _hide(
    analysis: Analysis,
    table: Table,
    options: Options,
    share: Callable[[Sequence[Any]], float | None],
    spent: Callable[[Sequence[Any]], tuple[int, int]],
    counts: str,
    whole_ns: int | None,
) -> Table:
    """Drop the rows below the bar; their sum goes to the header, never into a row."""
    gone, kept = Hidden(counts=counts), list[Sequence[Any]]()
    for row in table.rows:
        if (share(row) or 0.0) >= options.min_share:
            kept.append(row)
            continue
        time, count = spent(row)
        gone.rows, gone.time_ns, gone.count = gone.rows + 1, gone.time_ns + time, gone.count + count
    gone.share_pct = pct(gone.time_ns, whole_ns) if whole_ns else None
    analysis.hidden[table.name] = gone
    table.rows = kept
    return table


def page_of(report: Report, options: Options) -> Report:
    """The page of every table that `limit` and `cursor` ask for; what is left out stands in the header."""
    if options.limit is None and not options.cursor:
        return report
    omitted: dict[str, int] = {}
    following: dict[str, str] = {}
    for name, table in report.tables.items():
        page, after, left = table.slice(options.limit, options.cursor)
        report.tables[name] = page
        if left:
            omitted[name] = left
        if after is not None:
            following[name] = after
    report.header.more["omitted_rows"] = omitted
    report.header.more["next_cursor"] = following
    return report
