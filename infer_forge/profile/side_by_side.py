"""Two traces side by side: the same tables, aligned by kernel family and source, with the difference in ms per step.

Each side is its busiest rank (or the one asked for). Times are divided by the steps of the stage, so that captures of
different length compare; where a side marks no steps, its whole capture is one step and a finding says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from infer_forge.base.errors import UsageFault
from infer_forge.base.records import Finding, Header, Report
from infer_forge.base.tables import Column, Table
from infer_forge.profile import fuse, gate, header, health, overlap
from infer_forge.profile import thresholds as limits
from infer_forge.profile.empty_steps import empty_steps
from infer_forge.profile.grouping import dominant, group, sums
from infer_forge.profile.host import host_rows
from infer_forge.profile.model import Options
from infer_forge.profile.one_capture import not_one_capture
from infer_forge.profile.read import Input, choose, read
from infer_forge.profile.report import page_of
from infer_forge.profile.scene import Scene, stage_rank
from infer_forge.profile.timeline import Timeline, stage_steps

KERNEL = [
    "stage",
    "family",
    "category",
    "source",
    "a_ms_per_step",
    "b_ms_per_step",
    "diff_ms_per_step",
    "a_launches_per_step",
    "b_launches_per_step",
    "seen",
]
STAGES = [
    "stage",
    "a_steps",
    "b_steps",
    "a_wall_ms_per_step",
    "b_wall_ms_per_step",
    "diff_ms_per_step",
    "a_busy_ms_per_step",
    "b_busy_ms_per_step",
    "a_idle_ms_per_step",
    "b_idle_ms_per_step",
    "a_exposed_comm_ms_per_step",
    "b_exposed_comm_ms_per_step",
]
OVERLAP = [
    "stage",
    "family",
    "a_exclusive_ms_per_step",
    "b_exclusive_ms_per_step",
    "diff_ms_per_step",
    "a_risk",
    "b_risk",
]
FUSE = ["id", "stage", "a_state", "b_state", "a_ms_per_step", "b_ms_per_step", "a_count", "b_count", "source"]
HOST = ["stage", "cause", "a_ms_per_step", "b_ms_per_step", "diff_ms_per_step", "a_verdict", "b_verdict"]


@dataclass
class _Side:
    scene: Scene
    line: Timeline
    steps: dict[str, int]
    """Steps of each stage; 1 where the trace marks none."""
    marked: bool
    foreign: Finding | None
    """Why the traces of this side are not the ranks of one capture."""


_Families = dict[tuple[str, str], dict[str, Any]]


class _Pair(NamedTuple):
    """A family of `a` and the one of `b` that it is held against; `seen` says by what they were aligned."""

    seen: str
    a: tuple[str, str] | None
    b: tuple[str, str] | None

    @property
    def told(self) -> tuple[str, str]:
        """The stage, and the family by the names that the sides give it."""
        keys = [k for k in (self.a, self.b) if k]
        return keys[0][0], " | ".join(dict.fromkeys(k[1] for k in keys))


def compare(first: Sequence[str | Path], second: Sequence[str | Path], options: Options | None = None) -> Report:
    """Two traces side by side; `a` is the first, `b` the second, and a difference is b - a.

    Raises:
        UsageFault: all ranks at once are asked for. InputUnusable, GateRefused: as `triage` (the gate is held to `a`).
    """
    options = options or Options()
    if options.rank == "all":
        raise UsageFault("two traces are compared rank by rank", next_step="name one rank, or leave --rank out")
    a, b = _side(first, options), _side(second, options)
    findings, facts = gate.check([a.scene], options.server_args, options.server_log)
    report = Report("triage-compare", _header(a, b, options))
    report.findings += findings + _warnings(a, b)
    left, right = _families(a), _families(b)
    pairs = _pairs(left, right)
    kernels = _kernels(a, b, pairs, left, right)
    for made in (kernels, _stages(a, b), _overlaps(a, b, pairs), _fusions(a, b, facts), _hosts(a, b)):
        if options.stage is not None:
            made.rows = [r for r in made.rows if r[made.names.index("stage")] == options.stage]
        report.add(made)
    report.header.hidden = {"kernel": _hide(report.tables["kernel"], options.min_share)}
    report.summary = [_legend(a, b), *_summary(report, a, b)]
    report.next_step = (
        "open the family with the largest difference in both traces: infer-forge pipeline, then its source line"
    )
    return page_of(report, options)


def _side(paths: Sequence[str | Path], options: Options) -> _Side:
    found = read(paths, options)
    index = choose(found, options.rank)[0]
    scene = found.scenes[index]
    stages = {int(s): scene.stage_name(int(s)) for d in scene.devices for s in scene.stages_on(d)}
    counted = {name: stage_steps(scene, stage) for stage, name in stages.items()}
    whole = sum(n for n in counted.values() if n) or 1
    # Work outside of the steps is spread over all steps, so that it adds up with them.
    steps = {n: (c or (whole if n == "outside" else 1)) for n, c in counted.items()}
    return _Side(scene, found.lines[index], steps, any(counted.values()), not_one_capture(found.scenes))


def _header(a: _Side, b: _Side, options: Options) -> Header:
    found = Input([a.scene, b.scene], [a.line, b.line])
    return Header(
        inputs=header.inputs(found),
        capture={"a": header.capture(found, [a.scene]), "b": header.capture(found, [b.scene])},
        coverage={"a": header.coverage([a.scene]), "b": header.coverage([b.scene])},
        thresholds={"min_share_pct": options.min_share, **limits.used()},
        more={"ranks": {"a": a.scene.rank, "b": b.scene.rank}, "steps": {"a": a.steps, "b": b.steps}},
    )


_TELL_APART = ("gpu", "framework", "world_size", "stacks", "cuda_graph")
"""Facts of a capture that make a difference of times by themselves."""


def _unlike(a: _Side, b: _Side) -> list[Finding]:
    """What both captures state, and state differently: the figures then compare that as well."""
    one, two = (header.capture(Input([s.scene], [s.line]), [s.scene]) for s in (a, b))
    apart = [k for k in _TELL_APART if None not in (one[k], two[k]) and one[k] != two[k]]
    if not apart:
        return []
    told = "; ".join(f"{k}: a {one[k]}, b {two[k]}" for k in apart)
    step = "do not read the differences as a regression; for one, capture both sides alike"
    return [Finding("CAPTURES_DIFFER", f"the captures are not alike: {told}", "warning", next_step=step)]


def _warnings(a: _Side, b: _Side) -> list[Finding]:
    out: list[Finding] = []
    for name, side in (("a", a), ("b", b)):
        if not side.marked:
            text = f"{name} marks no steps: its whole capture counts as one step"
            out.append(Finding("NO_STEPS", text, "warning", next_step="capture with step annotations"))
        found = [side.foreign] if side.foreign else []
        found += health.health(side.scene, side.line, mapped=False)
        out += [Finding(f.code, f"{name}: {f.message}", f.severity, f.figure, f.threshold, f.next_step) for f in found]
    out += _unlike(a, b)
    only = set(a.steps) ^ set(b.steps)
    if only - {"outside"}:
        text = f"stages that only one side has: {', '.join(sorted(only))}"
        out.append(Finding("STAGES_DIFFER", text, "warning", next_step="compare captures of the same workload"))
    return out


def _ms(ns: float, steps: int) -> float:
    return round(ns / steps / 1e6, 6)


def _diff(a: float | None, b: float | None) -> float:
    return round((b or 0.0) - (a or 0.0), 6)


def _columns(names: list[str]) -> list[Column]:
    return [Column(n, "ms") if n.endswith("ms_per_step") else Column(n) for n in names]


def _stage_order(*sides: _Side) -> list[str]:
    return sorted({name for side in sides for name in side.steps}, key=stage_rank)


def _families(side: _Side) -> _Families:
    """Per (stage, family): device time, launches, category, source."""
    scene = side.scene
    families, work = scene.families, scene.work
    packed = np.maximum(work.stage, 0).astype(np.int64) * max(len(families.texts), 1) + families.ids
    found = group(packed, int(packed.max()) + 1)
    size, count = len(found.keys), found.counts
    time = sums(found.place, size, work.dur_ns)
    sources, _ = dominant(found.place, size, work.source, work.dur_ns)
    out: dict[tuple[str, str], dict[str, Any]] = {}
    for i, at in enumerate(found.first.tolist()):
        key = (scene.stage_name(max(int(work.stage[at]), 0)), families.texts[families.ids[at]])
        category = scene.categories.texts[scene.categories.ids[at]]
        out[key] = {"ns": int(time[i]), "n": int(count[i]), "category": category, "source": scene.text(int(sources[i]))}
    return out


def _pairs(left: _Families, right: _Families) -> list[_Pair]:
    """Families aligned by name; those that only one side has by a source that both share, else stand alone.

    Two names that one stage's source aligned are one kernel to each side, so they are aligned in the other stages too.
    """
    pairs: list[_Pair] = [_Pair("family", key, key) for key in sorted(left.keys() & right.keys())]
    alone = sorted(left.keys() - right.keys(), key=lambda k: (stage_rank(k[0]), -left[k]["ns"], k[1]))
    by_source = {(k[0], v["source"]): k for k, v in right.items() if k not in left and v["source"]}
    matched: dict[tuple[str, str], tuple[str, str]] = {}
    known: dict[str, tuple[str, str]] = {}
    used: set[tuple[str, str]] = set()
    for key in alone:
        other = by_source.get((key[0], left[key]["source"]))
        if other is not None and other not in used and right[other]["category"] == left[key]["category"]:
            used.add(other)
            matched[key] = other
            known.setdefault(key[1], (other[1], key[0]))
    for key in alone:
        if key in matched:
            pairs.append(_Pair("source", key, matched[key]))
            continue
        name, stage = known.get(key[1], ("", ""))
        other = (key[0], name)
        if other in right and other not in left and other not in used:
            used.add(other)
            pairs.append(_Pair(f"as in {stage}", key, other))
        else:
            pairs.append(_Pair("a only", key, None))
    return pairs + [_Pair("b only", None, key) for key in sorted(right.keys() - left.keys() - used)]


def _kernels(a: _Side, b: _Side, pairs: list[_Pair], left: _Families, right: _Families) -> Table:
    rows = [_kernel_row(a, b, pair, left, right) for pair in pairs]
    rows.sort(key=lambda r: (stage_rank(r[0]), -abs(r[6])))
    return Table("kernel", _columns(KERNEL), rows, "Kernel families side by side")


def _kernel_row(a: _Side, b: _Side, pair: _Pair, left: _Families, right: _Families) -> list[Any]:
    x = left[pair.a] if pair.a else None
    y = right[pair.b] if pair.b else None
    stage, name = pair.told
    sa, sb = a.steps.get(stage, 1), b.steps.get(stage, 1)
    ma, mb = _ms(x["ns"], sa) if x else None, _ms(y["ns"], sb) if y else None
    known = [v for v in (x, y) if v]
    source = next((v["source"] for v in known if v["source"]), None)
    launches = [round(x["n"] / sa, 3) if x else None, round(y["n"] / sb, 3) if y else None]
    return [stage, name, known[0]["category"], source, ma, mb, _diff(ma, mb), *launches, pair.seen]


def _stages(a: _Side, b: _Side) -> Table:
    rows: list[list[Any]] = []
    for stage in _stage_order(a, b):
        cells = [_stage_times(side, stage) for side in (a, b)]
        (wa, ba, ia, ea), (wb, bb, ib, eb) = cells
        steps = [side.steps.get(stage) for side in (a, b)]
        rows.append([stage, *steps, wa, wb, _diff(wa, wb), ba, bb, ia, ib, ea, eb])
    return Table("stages", _columns(STAGES), rows, "Stages side by side")


def _stage_times(side: _Side, stage: str) -> list[float | None]:
    parts = [i for i, p in enumerate(side.line.parts) if side.scene.stage_name(p.stage) == stage]
    if not parts:
        return [None] * 4
    line, steps = side.line, side.steps.get(stage, 1)
    busy, idle, exposed = (int(x[parts].sum()) for x in (line.busy_ns, line.idle_ns, line.exposed_ns))
    return [_ms(v, steps) for v in (busy + idle, busy, idle, exposed)]


def _overlaps(a: _Side, b: _Side, pairs: list[_Pair]) -> Table:
    def rows_of(side: _Side) -> dict[tuple[str, str], overlap.Row]:
        return {(side.scene.stage_name(r.stage), r.family): r for r in overlap.overlap(side.scene)}

    left, right = rows_of(a), rows_of(b)
    rows: list[list[Any]] = []
    for pair in pairs:
        stage, family = pair.told
        x, y = (left.get(pair.a) if pair.a else None), (right.get(pair.b) if pair.b else None)
        ma = _ms(x.exclusive_ns, a.steps.get(stage, 1)) if x else None
        mb = _ms(y.exclusive_ns, b.steps.get(stage, 1)) if y else None
        rows.append([stage, family, ma, mb, _diff(ma, mb), x.risk if x else None, y.risk if y else None])
    rows.sort(key=lambda r: (stage_rank(r[0]), -abs(r[4])))
    return Table("overlap", _columns(OVERLAP), rows, "Exclusive time side by side")


def _fusions(a: _Side, b: _Side, facts: dict[str, Any]) -> Table:
    def rows_of(side: _Side) -> dict[tuple[str, str], fuse.Found]:
        found = fuse.fuse(side.scene, fuse.facts_of(side.scene, facts))
        return {(f.id, f.stage): f for f in reversed(found) if f.state != fuse.UNLISTED}

    left, right = rows_of(a), rows_of(b)
    rows: list[list[Any]] = []
    for key in left.keys() | right.keys():
        x, y = left.get(key), right.get(key)
        ma = _ms(x.time_ns, a.steps.get(key[1], 1)) if x else None
        mb = _ms(y.time_ns, b.steps.get(key[1], 1)) if y else None
        states = [x.state if x else None, y.state if y else None]
        counts = [x.count if x else None, y.count if y else None]
        rows.append([*key, *states, ma, mb, *counts, (x or y or left[key]).source])
    rows.sort(key=lambda r: (stage_rank(r[1]), r[2] == r[3], -max(r[4] or 0.0, r[5] or 0.0)))
    return Table("fuse", _columns(FUSE), rows, "Fusions side by side")


def _hosts(a: _Side, b: _Side) -> Table:
    def rows_of(side: _Side) -> dict[str, list[list[Any]]]:
        out: dict[str, list[list[Any]]] = {}
        for row in host_rows(side.scene, side.line):
            out.setdefault(row[2], []).append(row)
        return out

    left, right = rows_of(a), rows_of(b)
    rows: list[list[Any]] = []
    for stage in _stage_order(a, b):
        for at, cause in ((4, "host_late"), (5, "in_flight"), (6, "queued"), (7, "unknown")):
            cells: list[float | None] = []
            for side, table in ((a, left), (b, right)):
                found = table.get(stage)
                total = sum(r[at] for r in found) * 1000 if found else None
                cells.append(None if total is None else _ms(total, side.steps.get(stage, 1)))
            if any(cells):
                verdicts = [
                    ", ".join(dict.fromkeys(r[8] for r in t[stage])) if stage in t else None for t in (left, right)
                ]
                rows.append([stage, cause, *cells, _diff(cells[0], cells[1]), *verdicts])
    return Table("host", _columns(HOST), rows, "Idle by cause side by side")


def _hide(table: Table, min_share: float) -> dict[str, Any]:
    """Families whose times on both sides are below the bar of their stage are summed, not shown."""
    whole: dict[str, float] = {}
    for row in table.rows:
        whole[row[0]] = whole.get(row[0], 0.0) + max(row[4] or 0.0, row[5] or 0.0)
    kept, gone = list[Sequence[Any]](), list[Sequence[Any]]()
    for row in table.rows:
        share = 100.0 * max(row[4] or 0.0, row[5] or 0.0) / whole[row[0]] if whole[row[0]] else 0.0
        (kept if share >= min_share else gone).append(row)
    table.rows = kept
    sums = [round(sum(r[i] or 0.0 for r in gone), 6) for i in (4, 5)]
    return {"rows": len(gone), "a_ms_per_step": sums[0], "b_ms_per_step": sums[1], "diff_ms_per_step": _diff(*sums)}


def _legend(a: _Side, b: _Side) -> str:
    """Which trace is a and which b, by as much of their paths as tells them apart."""
    paths = [side.scene.trace.path for side in (a, b)]
    names = [p.name for p in paths] if paths[0].name != paths[1].name else [str(p) for p in paths]
    one, two = (
        f"{letter} is {name}" + (f" (rank {side.scene.rank})" if isinstance(side.scene.rank, int) else "")
        for letter, name, side in zip("ab", names, (a, b), strict=True)
    )
    return f"{one}; {two}; a difference is b - a"


def _summary(report: Report, a: _Side, b: _Side) -> list[str]:
    out: list[str] = []
    for row in report.tables["stages"].dicts():
        wa, wb = row["a_wall_ms_per_step"], row["b_wall_ms_per_step"]
        if wa is None or wb is None:
            out.append(f"{row['stage']}: only in {'b' if wa is None else 'a'}")
            continue
        line = f"{row['stage']}: a {wa:.3f} ms a step, b {wb:.3f} ms a step ({wb - wa:+.3f} ms)"
        worst = next((k for k in report.tables["kernel"].dicts() if k["stage"] == row["stage"]), None)
        if worst:
            line += f"; largest difference: {worst['family'][:60]} ({worst['diff_ms_per_step']:+.3f} ms)"
        for letter, side in (("a", a), ("b", b)):
            odd = [
                empty_steps(side.scene, side.line, p.stage)
                for p in side.line.parts
                if side.scene.stage_name(p.stage) == row["stage"]
            ]
            line += "".join(f"; {letter} {o.rest_ms:.3f} ms a step without {o.told}" for o in odd[:1] if o)
        out.append(line)
    return out
