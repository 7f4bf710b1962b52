"""The page of a triage: a stage timeline, the overlap picture, and every table sortable. Self-contained, no network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from infer_forge.base.page import Page, svg_element, svg_picture
from infer_forge.base.records import Report
from infer_forge.profile import intervals
from infer_forge.profile.model import Options
from infer_forge.profile.report import analyse, page_of
from infer_forge.profile.scene import Scene, stage_rank
from infer_forge.profile.timeline import Timeline
from infer_forge.trace.columns import I64

WIDTH, LEFT, ROW = 1200.0, 150.0, 22.0
BINS = 600

_COLOURS = {
    "attention": "#4e79a7",
    "mla": "#4e79a7",
    "moe": "#f28e2b",
    "gemm": "#e8b04a",
    "communication": "#e15759",
    "norm": "#76b7b2",
    "rope": "#59a14f",
    "activation": "#8cd17d",
    "quantization": "#b07aa1",
    "kv_cache": "#9c755f",
    "linear_attention": "#499894",
    "sampling": "#d37295",
    "memory": "#79706e",
    "copy": "#bab0ac",
}
_STAGES = {"prefill": "#4e79a7", "decode": "#59a14f", "mixed": "#b07aa1", "denoise": "#f28e2b", "all": "#76b7b2"}
_OTHER = "#a0a7b4"
_LANES = ("compute", "communication", "copies", "idle")


def write_page(paths: Sequence[str | Path], options: Options, path: str | Path) -> Report:
    """Run a triage, write its page, and give the report.

    Raises:
        OSError: the page cannot be written; else as `triage`.
    """
    analysis = analyse(paths, options)
    names = ", ".join(dict.fromkeys(Path(i.path).name for i in analysis.report.header.inputs[:3]))
    page = Page("infer-forge triage", names)
    for scene, line in analysis.pairs():
        label = "" if scene.rank is None else f" of rank {scene.rank}"
        page.heading(f"Stage timeline{label}").svg(stage_picture(scene, line))
        page.heading(f"Overlap{label}").prose(
            "Share of each slice of time in which compute, communication and copies ran, and in which nothing did.",
            dim=True,
        )
        page.svg(overlap_picture(scene))
    page.report(analysis.report)
    page.write(path)
    return page_of(analysis.report, options)


def _span(scene: Scene) -> tuple[int, int]:
    return int(scene.work.ts_ns.min()), int(scene.end_ns.max())


def _edges(low: int, high: int) -> I64:
    return np.linspace(low, max(high, low + 1), BINS + 1).astype(np.int64)


def _filled(scene: Scene, items: I64, edges: I64) -> np.ndarray:
    """Share of each slice of time in which any of the items runs."""
    spans = intervals.merge(scene.work.ts_ns[items], scene.end_ns[items])
    return intervals.covered(spans, edges[:-1], edges[1:]) / np.maximum(np.diff(edges), 1)


def _label(text: str, y: float) -> str:
    return svg_element("text", {"x": LEFT - 8, "y": y, "text-anchor": "end"}, text=text)


def _bars(share: np.ndarray, y: float, height: float, colour: str) -> list[str]:
    """One bar a slice, opaque as the share; runs of equal shade are one bar."""
    step = (WIDTH - LEFT) / len(share)
    shade = np.round(share * 20).astype(int)
    cuts = np.flatnonzero(np.diff(shade)) + 1
    starts, ends = np.concatenate(([0], cuts)), np.concatenate((cuts, [len(shade)]))
    out: list[str] = []
    for a, b in zip(starts, ends, strict=True):
        if shade[a]:
            box = {
                "x": f"{LEFT + a * step:.2f}",
                "y": f"{y:.1f}",
                "width": f"{(b - a) * step:.2f}",
                "height": f"{height:.1f}",
            }
            out.append(svg_element("rect", {**box, "fill": colour, "fill-opacity": f"{shade[a] / 20:.2f}"}))
    return out


def _axis(low: int, high: int, y: float) -> list[str]:
    out: list[str] = []
    for k in range(6):
        x = LEFT + (WIDTH - LEFT) * k / 5
        anchor = "start" if k == 0 else "end" if k == 5 else "middle"
        text = f"{(high - low) * k / 5 / 1e6:,.3f} ms"
        out.append(svg_element("text", {"x": f"{x:.1f}", "y": y, "text-anchor": anchor}, text=text))
    return out


def stage_picture(scene: Scene, line: Timeline) -> str:
    """Stages on top, below them the categories with the most time, over the whole capture."""
    low, high = _span(scene)
    edges = _edges(low, high)
    rows: list[str] = []
    y = 6.0
    stages = sorted({p.stage for p in line.parts}, key=lambda s: stage_rank(scene.stage_name(s)))
    for stage in stages:
        name = scene.stage_name(stage)
        items = np.flatnonzero(np.maximum(scene.work.stage, 0) == stage)
        rows.append(_label(name, y + 14))
        rows += _bars(_filled(scene, items, edges), y, ROW - 4, _STAGES.get(name, _OTHER))
        y += ROW
    y += 8
    sums = np.zeros(len(scene.categories.texts), np.int64)
    np.add.at(sums, scene.categories.ids, scene.work.dur_ns)
    for category in np.argsort(-sums, kind="stable")[:12]:
        name = scene.categories.texts[int(category)]
        items = np.flatnonzero(scene.categories.ids == category)
        rows.append(_label(name, y + 14))
        rows += _bars(_filled(scene, items, edges), y, ROW - 4, _COLOURS.get(name, _OTHER))
        y += ROW
    rows += _axis(low, high, y + 14)
    return svg_picture(WIDTH, y + 22, rows)


def overlap_picture(scene: Scene) -> str:
    """Compute, communication, copies and idle side by side, over the whole capture."""
    low, high = _span(scene)
    edges = _edges(low, high)
    compute, comm = np.flatnonzero(scene.compute), np.flatnonzero(scene.communication)
    copies = np.flatnonzero(~scene.compute & ~scene.communication)
    shares = [_filled(scene, items, edges) for items in (compute, comm, copies)]
    shares.append(1 - _filled(scene, np.arange(len(scene.work)), edges))
    rows: list[str] = []
    y = 6.0
    for name, share, colour in zip(_LANES, shares, ("#4e79a7", "#e15759", "#79706e", "#d9a441"), strict=True):
        rows.append(_label(name, y + 14))
        rows += _bars(share, y, ROW - 4, colour)
        y += ROW
    rows += _axis(low, high, y + 14)
    return svg_picture(WIDTH, y + 22, rows)
