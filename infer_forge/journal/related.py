"""What belongs to a record or to work that is about to start: pitfalls by tool version, rejections of the same idea, best results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from infer_forge.base.contract_model import DeploymentPoint
from infer_forge.base.gitstore import Store
from infer_forge.base.records import Header, Report
from infer_forge.base.tables import Table
from infer_forge.journal import words
from infer_forge.journal.index import opened
from infer_forge.journal.model import Idea, Record, VersionRange, point_dimensions
from infer_forge.journal.search import search
from infer_forge.journal.store import get

_NUMBERS = re.compile(r"\d+")


def version_key(version: str) -> tuple[int, ...]:
    """Numbers of a version, for ordering: `v0.5.10.post2` -> (0, 5, 10, 2); a pre-release counts as its release."""
    return tuple(int(n) for n in _NUMBERS.findall(version)[:6])


def in_range(version: str | None, span: VersionRange) -> bool | None:
    """Whether a version lies in `[first, fixed_in)`; None when the version is not known."""
    if version is None:
        return None
    key = version_key(version)
    after = span.first is None or key >= version_key(span.first)
    before = span.fixed_in is None or key < version_key(span.fixed_in)
    return after and before


def pitfalls(store: Store, tools: Mapping[str, str | None]) -> list[tuple[Record, str, bool | None]]:
    """Pitfalls that concern these tools: (record, tool, whether the version lies in its range; None where unknown).

    Those whose range surely does not hold the version are left out.
    """
    wanted = {name.lower(): version for name, version in tools.items()}
    with opened(store) as db:
        rows = db.execute(
            "SELECT id FROM records WHERE kind='pitfall' AND superseded_by IS NULL ORDER BY created DESC"
        ).fetchall()
    found: list[tuple[Record, str, bool | None]] = []
    for (record_id,) in rows:
        record = get(store, record_id)
        for span in record.applies_to:
            if span.tool.lower() in wanted:
                holds = in_range(wanted[span.tool.lower()], span)
                if holds is not False:
                    found.append((record, span.tool, holds))
                    break
    return found


def same_idea(store: Store, idea: Idea) -> list[Record]:
    """Records about the same (repository, path, symbol); a record without a symbol is about the whole file."""
    with opened(store) as db:
        match = words.phrase(words.parts(idea.path))
        rows = db.execute(
            "SELECT r.id FROM fts JOIN records r ON r.rowid=fts.rowid WHERE fts MATCH ? ORDER BY r.created DESC LIMIT 200",
            (match,),
        ).fetchall()
    records = [get(store, r[0]) for r in rows]
    return [r for r in records if r.idea is not None and _same(r.idea, idea)]


def _same(first: Idea, second: Idea) -> bool:
    if (first.repository.lower(), first.path) != (second.repository.lower(), second.path):
        return False
    return first.symbol is None or second.symbol is None or first.symbol == second.symbol


def best_known(store: Store, point: DeploymentPoint, metric: str | None = None) -> list[Record]:
    """Results at the same deployment point (all that it states), best first; superseded and fenced ones are left out."""
    filters = {d: [v] for d, v in point_dimensions(point) if d not in ("framework_rev",)}
    hits = search(store, "", filters | {"kind": ["result"]} | ({"metric": [metric]} if metric else {}), limit=200)
    records = [r for r in (get(store, h.id) for h in hits) if not r.epoch_fenced and r.value is not None]
    return sorted(records, key=lambda r: -(r.value or 0) if r.higher_is_better is not False else (r.value or 0))


def surface_records(
    store: Store,
    *,
    point: DeploymentPoint | None = None,
    tools: Mapping[str, str | None] | None = None,
    ideas: Sequence[Idea] = (),
    query: str = "",
    limit: int = 5,
) -> Report:
    """What a task should see unasked when it starts: pitfalls, earlier rejections, the best known result, and what the query finds."""
    rows: list[tuple[Any, ...]] = []
    for record, tool, holds in pitfalls(store, tools or {})[:limit]:
        rows.append(
            (
                "pitfall",
                record.id,
                record.title,
                f"{tool}: " + ("its version is affected" if holds else "version unknown: check"),
            )
        )
    for idea in ideas:
        for record in same_idea(store, idea)[:limit]:
            rows.append(("same idea", record.id, record.title, f"{record.kind} {record.verdict or ''}".strip()))
    if point is not None:
        for record in best_known(store, point)[:limit]:
            rows.append(
                ("best known", record.id, record.title, f"{record.metric} {record.value} {record.unit or ''}".strip())
            )
    if query:
        for hit in search(store, query, limit=limit):
            rows.append(("found", hit.id, hit.fields["title"], hit.why))
    report = Report("journal_surface", Header(more={"query": query, "tools": dict(tools or {})}))
    unique = {(r[0], r[1]): r for r in rows}
    report.add(Table("surfaced", ["why", "id", "title", "note"], unique.values()))
    report.summary = [
        f"{len(unique)} records of the journal concern this work"
        if unique
        else "the journal holds nothing on this work"
    ]
    report.next_step = (
        "infer-forge journal show ID, before work on what it names"
        if unique
        else "record what you find: infer-forge journal add"
    )
    return report


def related_records(store: Store, record_id: str, limit: int = 10) -> Report:
    """Records linked with one, of the same idea, task or contract, and the closest by words."""
    record = get(store, record_id)
    rows: dict[str, tuple[str, str, str]] = {}

    def add(found: Record, why: str) -> None:
        if found.id != record.id:
            rows.setdefault(found.id, (found.id, found.title, why))

    with opened(store) as db:
        back = db.execute(
            "SELECT r.id, l.rel FROM links l JOIN records r ON r.rowid=l.rowid WHERE l.target=?", (record_id,)
        ).fetchall()
        known = {r[0] for r in db.execute("SELECT id FROM records")} if record.links else set[str]()
    for link in record.links:
        if link.id in known:
            add(get(store, link.id), f"this {link.rel} it")
    for other, rel in back:
        add(get(store, other), f"it {rel} this")
    for found in same_idea(store, record.idea) if record.idea else ():
        add(found, "same idea")
    for dim, value in (("task", record.task_id), ("contract", record.contract_sha256)):
        for hit in search(store, "", {dim: [value]}, limit=limit) if value else ():
            add(get(store, hit.id), f"same {dim}")
    for hit in search(store, record.title, limit=limit):
        add(get(store, hit.id), f"alike in words: {hit.why}")
    report = Report("journal_related", Header(more={"record": record_id}))
    report.add(Table("related", ["id", "title", "why"], list(rows.values())[: max(limit, 1) * 3]))
    report.summary = [f"{len(rows)} records belong to {record_id}"]
    report.next_step = "infer-forge journal show ID"
    return report
