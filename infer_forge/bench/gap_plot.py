"""The gap as a picture: every pair of launches, the intervals, and the threshold band, one row a scenario. SVG without scripts."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base import jsonio
from infer_forge.base.page import Page, svg_element, svg_picture

if TYPE_CHECKING:
    from infer_forge.base.records import Report
    from infer_forge.bench.gap import Gap
    from infer_forge.bench.gap_pair import Decision

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 900, 260, 40, 46, 56
_BAD, _GOOD, _OPEN, _INK = "#b3261e", "#1b6e3c", "#6b6b6b", "#444444"
_COLOURS = {"behind": _BAD, "sla_fail": _BAD, "ahead": _GOOD, "tie": _GOOD, "not_behind": _GOOD}
_FARTHEST_PCT = 60.0


def _limit(decisions: list[Decision], threshold_pct: float) -> float:
    """Half width of the axis in percent; a very wide interval is cut at the border."""
    values = [threshold_pct * 2.0]
    for d in decisions:
        values += [abs(100.0 * math.expm1(v)) for v in d.logs]
        if d.ci is not None:
            values += [min(abs(v), _FARTHEST_PCT) for v in (d.ci.low_pct, d.ci.high_pct) if math.isfinite(v)]
    return min(max(values) * 1.1, 100.0)


def svg(gap: Gap) -> str:
    """The picture as one SVG element; positive is better for the target."""
    plan = gap.request.plan
    rows = [*gap.decisions, *gap.others]
    limit = _limit(rows, plan.threshold_pct)
    height = _TOP + _ROW * max(1, len(rows)) + 50

    def x(pct: float) -> float:
        inside = max(-limit, min(limit, pct))
        return round(_LEFT + (inside + limit) / (2 * limit) * (_WIDTH - _LEFT - _RIGHT), 1)

    bottom, top = height - 44, _TOP - 12
    left, right = x(-plan.threshold_pct), x(plan.threshold_pct)
    title = f"{gap.request.target} against its competitors, {gap.metric.name}: positive is better"
    parts = [
        svg_element("rect", {"width": _WIDTH, "height": height, "fill": "#ffffff"}),
        svg_element("text", {"x": 12, "y": 22, "font-size": 15}, text=title),
        svg_element("rect", {"x": left, "y": top, "width": right - left, "height": bottom - top, "fill": "#e6eef7"}),
        svg_element("line", {"x1": x(0), "x2": x(0), "y1": top, "y2": bottom, "stroke": "#9a9a9a"}),
        *(_row(d, _TOP + i * _ROW + 14, x) for i, d in enumerate(rows)),
        *_axis(limit, bottom, x, plan.threshold_pct),
    ]
    return svg_picture(_WIDTH, height, parts)


def _row(d: Decision, y: int, x: Callable[[float], float]) -> str:
    colour = _COLOURS.get(d.verdict, _OPEN)
    name = d.scenario.name if len(d.scenario.name) <= 34 else f"{d.scenario.name[:33]}…"
    parts = [
        svg_element("title", {}, text=f"{d.scenario.name}: {d.verdict}. {d.reason}"),
        svg_element("text", {"x": 12, "y": y}, text=name),
        svg_element(
            "text", {"x": 12, "y": y + 14, "fill": colour}, text=f"{d.verdict} vs {d.against.name}, n={d.all_pairs}"
        ),
    ]
    dot: dict[str, Any] = {"r": 3, "fill": colour, "fill-opacity": 0.35}
    parts += [svg_element("circle", {"cx": x(100.0 * math.expm1(v)), "cy": y + 10, **dot}) for v in d.logs]
    if d.ci is not None and math.isfinite(d.ci.low) and math.isfinite(d.ci.high):
        ends = {"x1": x(d.ci.low_pct), "x2": x(d.ci.high_pct), "y1": y, "y2": y}
        parts.append(svg_element("line", {**ends, "stroke": colour, "stroke-width": 3}))
        box = {"x": x(d.ci.mean_pct) - 3, "y": y - 5, "width": 6, "height": 10}
        parts.append(svg_element("rect", {**box, "fill": colour}))
    return svg_element("g", {}, parts)


def _axis(limit: float, y: int, x: Callable[[float], float], threshold: float) -> list[str]:
    step = 10.0 ** math.floor(math.log10(limit))
    while limit / step < 3:
        step /= 2
    reach = int(limit / step)
    ticks = [i * step for i in range(-reach, reach + 1)]
    style = {"fill": _INK}
    out = [
        svg_element("text", {"x": x(t), "y": y + 16, "text-anchor": "middle", **style}, text=f"{t:g} %") for t in ticks
    ]
    legend = f"shaded: within the threshold of {threshold:g} %; dots: pairs of launches; bars: intervals"
    return [*out, svg_element("text", {"x": _LEFT, "y": y + 34, **style}, text=legend)]


def write_svg(gap: Gap, path: Path) -> None:
    """Write the picture alone."""
    jsonio.write_atomic(path, svg(gap) + "\n")


def write_html(gap: Gap, report: Report, path: Path) -> None:
    """Write a page with the picture, the tables and the findings."""
    Page(f"Gap decision: {gap.request.target}", report.next_step).svg(svg(gap)).report(report).write(path)
