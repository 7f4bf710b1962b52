"""How many tasks there were, how long they lived, how many at once (B81)."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

from infer_forge.base.records import Finding, Report
from infer_forge.base.tables import Column, Table
from infer_forge.tasks.graph.answers import begin, chosen
from infer_forge.tasks.graph.model import JUDGEMENTS, TASK, Node
from infer_forge.tasks.graph.view import View

Span = tuple[float, float]


def _seconds(text: str) -> float:
    found = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (found if found.tzinfo else found.replace(tzinfo=datetime.timezone.utc)).timestamp()


def _iso(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat(timespec="minutes")


def peak(spans: Iterable[Span]) -> tuple[int, float | None]:
    """Most spans open at once, and when that was first so; one that ends as another begins does not meet it."""
    marks = sorted(mark for begun, over in spans for mark in ((begun, 1), (over, -1)))
    now = most = 0
    when = None
    for at, step in marks:
        now += step
        if now > most:
            most, when = now, at
    return most, when


def stats(view: View, goal: str | None = None, workstream: str | None = None, *, now: float | None = None) -> Report:
    """Created, archived, in flight now and at the peak, median lifetime; by type, by workstream and by month of the end.

    A lifetime runs from creation to the end. In flight is from start to end (from creation where no start is recorded). A
    lifetime that ends before it begins is left out and named.
    """
    at = now if now is not None else datetime.datetime.now(datetime.timezone.utc).timestamp()
    nodes = [n for n in chosen(view, goal, workstream) if n.kind == TASK]
    report = begin("graph_stats", view)
    bad = [n.id for n in nodes if (life := _life(view, n)) is not None and life < 0]
    if bad:
        report.findings.append(
            Finding("LIFETIME_EXCLUDED", f"ended before they were created: {', '.join(bad[:5])}", figure=len(bad))
        )
    whole = _row("all", view, nodes, at)
    report.add(Table("by_type", _columns("type"), [*_groups(view, nodes, at, lambda n: n.type), whole]))
    report.add(Table("by_workstream", _columns("workstream"), _groups(view, nodes, at, lambda n: n.workstream)))
    report.add(Table("by_month", _columns("ended_in"), _groups(view, nodes, at, lambda n: _month(view, n))))
    together = _together(view, nodes, at)
    report.extra["totals"] = dict(zip([c.name for c in _columns("all")], whole, strict=True)) | {
        "excluded_lifetimes": len(bad),
        "overlapping_share_pct": together,
    }
    report.summary = [
        f"{whole[1]} tasks created, {whole[2]} archived, {whole[3]} in flight, at most {whole[4]} at once"
        + (f" ({_iso(when)})" if (when := _peak(view, nodes, at)[1]) is not None else ""),
        f"median lifetime {'-' if whole[5] is None else f'{whole[5]:.1f} h'}; unreleased, rejected or superseded: {whole[6]}",
    ]
    return report


def _columns(first: str) -> list[Column]:
    counts = [Column(c, "int") for c in ("created", "archived", "in_flight", "peak_in_flight")]
    return [Column(first, "text"), *counts, Column("median_lifetime_h", "number"), Column("not_taken", "int")]


def _row(name: str, view: View, nodes: list[Node], at: float) -> list[Any]:
    lives = [life / 3600 for n in nodes if (life := _life(view, n)) is not None and life >= 0]
    return [
        name,
        len(nodes),
        sum(1 for n in nodes if view.times(n)[2]),
        sum(1 for n in nodes if _open(view, n)),
        _peak(view, nodes, at)[0],
        median(lives) if lives else None,
        sum(1 for n in nodes if n.judgement in JUDGEMENTS),
    ]


def _groups(view: View, nodes: list[Node], at: float, key: Callable[[Node], str | None]) -> list[list[Any]]:
    groups: dict[str, list[Node]] = {}
    for node in nodes:
        groups.setdefault(key(node) or "-", []).append(node)
    return [_row(name, view, found, at) for name, found in sorted(groups.items())]


def _life(view: View, node: Node) -> float | None:
    created, _, ended = view.times(node)
    return _seconds(ended) - _seconds(created) if ended else None


def _open(view: View, node: Node) -> bool:
    return view.lifecycle(node) in ("active", "blocked", "budget_exhausted") and node.judgement is None


def _spans(view: View, nodes: list[Node], at: float) -> list[Span]:
    found = list[Span]()
    for node in nodes:
        created, started, ended = view.times(node)
        if ended is None and not _open(view, node):
            continue
        begun, over = _seconds(started or created), _seconds(ended) if ended else at
        if over > begun:
            found.append((begun, over))
    return found


def _peak(view: View, nodes: list[Node], at: float) -> tuple[int, float | None]:
    return peak(_spans(view, nodes, at))


def _together(view: View, nodes: list[Node], at: float) -> float | None:
    """Share of tasks that were in flight with another one, in percent."""
    spans = sorted(_spans(view, nodes, at))
    if not spans:
        return None
    met, latest = [False] * len(spans), (0.0, -1)
    for i, (begun, over) in enumerate(spans):
        if latest[1] >= 0 and begun < latest[0]:
            met[i] = met[latest[1]] = True
        if over > latest[0]:
            latest = (over, i)
    return 100.0 * sum(met) / len(met)


def _month(view: View, node: Node) -> str:
    ended = view.times(node)[2]
    return ended[:7] if ended else "open"
