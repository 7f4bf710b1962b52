"""The answer in a few lines: one for the capture, one a stage, and the next step."""

from __future__ import annotations

from infer_forge.base.records import Report
from infer_forge.base.tables import Table
from infer_forge.profile.empty_steps import empty_steps
from infer_forge.profile.scene import Scene, stage_rank, told
from infer_forge.profile.timeline import Timeline, stage_steps


def lines(pairs: list[tuple[Scene, Timeline]], tables: dict[str, Table], read: str, why: str) -> list[str]:
    """Summary lines of a triage.

    Args:
        pairs: the ranks shown. tables: of the report.
        read: how many ranks or traces were read, in words; empty for a single one. why: those shown were chosen.
    """
    out: list[str] = []
    for scene, line in pairs:
        work = scene.work
        name = f"{told(scene.rank)}: " if scene.rank is not None else ""
        of = f" ({read}; shown: {why}{_waiting(scene, tables)})" if read else ""
        time = int(work.dur_ns.sum()) / 1e6
        out.append(
            f"{name}{len(work):,} device items, {time:,.3f} ms device time, busy {line.total_busy_ns / 1e6:,.3f} ms{of}"
        )
        out += _stages(scene, line, tables)
    return out


def _waiting(scene: Scene, tables: dict[str, Table]) -> str:
    """How much of a rank's time is spent waiting for others in collectives, where that could be matched."""
    waits = [r["wait_us"] for r in tables["collectives"].dicts() if r["rank"] == scene.rank]
    waited = sum(w for w in waits if w is not None) / 1000
    return f"; {waited:,.3f} ms of its device time waits for other ranks in collectives" if waited else ""


def _stages(scene: Scene, line: Timeline, tables: dict[str, Table]) -> list[str]:
    out: list[str] = []
    stages = {p.stage for p in line.parts}
    for stage in sorted(stages, key=lambda s: stage_rank(scene.stage_name(s))):
        parts = [i for i, p in enumerate(line.parts) if p.stage == stage]
        busy, idle = int(line.busy_ns[parts].sum()), int(line.idle_ns[parts].sum())
        exposed, wall = int(line.exposed_ns[parts].sum()), busy + idle
        name = scene.stage_name(stage)
        steps = stage_steps(scene, stage)
        odd = empty_steps(scene, line, stage) if steps else None
        without = f"; {odd.rest_ms:,.3f} ms each without {odd.told}" if odd else ""
        per = f" in {steps} steps ({wall / steps / 1e6:,.3f} ms each{without})" if steps else ""
        shares = f"busy {_part(busy, wall)}, idle {_part(idle, wall)}, exposed communication {_part(exposed, wall)}"
        top = _top(scene, name, tables["kernel"])
        out.append(f"  {name}: wall {wall / 1e6:,.3f} ms{per}, {shares}{top}{_verdict(scene, name, tables['host'])}")
    return out


def _part(part: int, whole: int) -> str:
    return f"{100.0 * part / whole:.1f} %" if whole else "-"


def _top(scene: Scene, stage: str, table: Table) -> str:
    rows = [r for r in table.dicts() if r["stage"] == stage and r["rank"] == scene.rank]
    if not rows:
        return ""
    best = max(rows, key=lambda r: r["time_us"])
    share = "" if best["share_pct"] is None else f" ({best['share_pct']:.1f} %)"
    return f"; most time: {best['kernel'][:60]}{share}"


def _verdict(scene: Scene, stage: str, table: Table) -> str:
    found = [r["verdict"] for r in table.dicts() if r["stage"] == stage and r["rank"] == scene.rank]
    return f"; {', '.join(dict.fromkeys(found))}" if found else ""


def next_step(report: Report) -> str:
    """What to do after a triage: mend the capture when it hides things, else look at one steady pass."""
    codes = {f.code for f in report.findings}
    for code in ("NOT_ONE_CAPTURE", "IDLE_CAPTURE", "GRAPH_HIDES_OPS", "MIXED_WINDOWS"):
        if code in codes:
            return next(f.next_step for f in report.findings if f.code == code)
    return "infer-forge pipeline TRACE --config config.json: one steady pass, its layers, before anything is called the bottleneck"
