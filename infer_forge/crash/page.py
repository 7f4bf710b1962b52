"""The timeline page: verdict, a lane a rank with causes and consequences, and the tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infer_forge.base.page import Page, svg_element, svg_picture
from infer_forge.base.records import Report

_COLOURS = {"first": "#c62828", "candidate": "#ef6c00", "cascade": "#8d99ae", "info": "#90caf9"}
_LANE = 22
_WIDTH = 1100
_LEFT = 170
_MOST_LANES = 128


def write_page(report: Report, path: Path) -> Path:
    """Write a triage as one self-contained HTML page.

    Raises:
        OSError: the file cannot be written.
    """
    from infer_forge.base import jsonio

    extra = report.extra
    page = Page(f"Crash triage: {extra['class']} ({extra['certainty']})", str(extra["meaning"]))
    page.prose(*report.summary[1:])
    page.heading("Next").pre(_command(extra["next"]))
    page.heading("Timeline by rank").svg(lanes(report.tables["timeline"].dicts()))
    page.prose("red: first event; orange: other possible causes; grey: consequences; blue: facts", dim=True)
    for table in report.tables.values():
        page.table(table, table.title)
    page.heading("Evidence").pre(jsonio.dumps(report.header.to_json(), indent=True).decode())
    return jsonio.write_atomic(path, page.to_html())


def _command(step: dict[str, Any]) -> str:
    env = "\n".join(f"export {k}='{v}'" for k, v in step["env"].items())
    return f"{env}\n{step['command']}\n# expect: {step['expected_line']}".strip()


def lanes(rows: list[dict[str, Any]]) -> str:
    """One lane a process; events in the order of the timeline, so that files without clocks still show their order."""
    names: dict[str, int] = {}
    marks: list[str] = []
    for place, row in enumerate(rows):
        name = _lane(row)
        if name not in names:
            if len(names) >= _MOST_LANES:
                continue
            names[name] = len(names)
        x = _LEFT + 12 + place * (_WIDTH - _LEFT - 24) / max(1, len(rows) - 1)
        y = 14 + names[name] * _LANE
        title = svg_element(
            "title", {}, [], f"{row['time'] or ''} {row['signature']} x{row['count']} {row['line']}: {row['text']}"
        )
        size = 7 if row["role"] == "first" else 5
        marks.append(
            svg_element(
                "circle", {"cx": f"{x:.1f}", "cy": str(y), "r": str(size), "fill": _COLOURS[row["role"]]}, [title]
            )
        )
    labels = [svg_element("text", {"x": "4", "y": str(18 + i * _LANE)}, [], n[:26]) for n, i in names.items()]
    lines = [
        svg_element(
            "line",
            {
                "x1": str(_LEFT),
                "x2": str(_WIDTH),
                "y1": str(14 + i * _LANE),
                "y2": str(14 + i * _LANE),
                "stroke": "#d5dae4",
            },
        )
        for i in names.values()
    ]
    return svg_picture(_WIDTH, 28 + _LANE * max(1, len(names)), [*lines, *labels, *marks])


def _lane(row: dict[str, Any]) -> str:
    parts = [p for p in (row["host"], f"rank {row['rank']}" if row["rank"] is not None else None) if p]
    if row["rank"] is None:
        parts.append(
            f"pid {row['pid']}" if row["pid"] is not None else str(row["line"]).rsplit(":", 1)[0].rsplit("/", 1)[-1]
        )
    return " ".join(parts)
