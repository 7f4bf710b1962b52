"""What belongs to a record or to work that is about to start: pitfalls by tool version, rejections of the same idea, best results."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping, Sequence

from infer_forge.base.contract_model import DeploymentPoint
from infer_forge.base.errors import InputUnusable
from infer_forge.base.gitstore import Store
from infer_forge.base.records import Header, Report
from infer_forge.base.tables import Table
from infer_forge.journal.aliases import canonical
from infer_forge.journal.index import ask
from infer_forge.journal.model import Idea, Record, VersionRange, point_dimensions
from infer_forge.journal.search import condition, search
from infer_forge.journal.store import get
from infer_forge.journal.versions import in_range


def pitfalls(store: Store, tools: Mapping[str, str | None]) -> list[tuple[Record, str, bool | None]]:
    """Pitfalls that concern these tools: (record, tool, whether the version lies in its range; None where unknown).

    Those whose range surely does not hold the version are left out; surely affected ones come first.
    """
    wanted = {canonical("framework", name).lower(): version for name, version in tools.items()}
    if not wanted:
        return []
    rows = ask(
        store,
        lambda db: db.execute(
            "SELECT r.id FROM dims d JOIN records r ON r.rowid=d.rowid"
            " WHERE d.dim='kind' AND d.value='pitfall' AND r.superseded_by IS NULL ORDER BY r.created DESC, r.title"
        ).fetchall(),
    )
    found: list[tuple[Record, str, bool | None]] = []
    for (record_id,) in rows:
        record = get(store, record_id)
        matched = [m for span in record.applies_to for m in _matched(span, wanted)]
        best = next((m for m in matched if m[1]), None) or next(iter(matched), None)
        if best is not None:
            found.append((record, *best))
    return sorted(found, key=lambda f: f[2] is None)


def _matched(span: VersionRange, wanted: Mapping[str, str | None]) -> list[tuple[str, bool | None]]:
    """(tool, whether its version is affected) of the tools in use that a range may hold for."""
    name = canonical("framework", span.tool).lower()
    if name == "any":
        return [("any tool", True)]
    holds = in_range(wanted[name], span) if name in wanted else False
    return [] if holds is False else [(span.tool, holds)]


def same_idea(store: Store, idea: Idea) -> list[Record]:
    """Records about the same (repository, path, symbol), newest first; one without a symbol is about the whole file (A144)."""

    def look(db: sqlite3.Connection) -> list[tuple[str]]:
        sql = (
            "SELECT r.id FROM ideas i JOIN records r ON r.rowid=i.rowid WHERE i.path=? AND i.repository=?"
            " AND (i.symbol IS NULL OR ? IS NULL OR i.symbol=?) ORDER BY r.created DESC"
        )
        return db.execute(sql, (idea.path, idea.repository, idea.symbol, idea.symbol)).fetchall()

    return [get(store, r[0]) for r in ask(store, look)]


def best_known(store: Store, point: DeploymentPoint, metric: str | None = None) -> list[Record]:
    """Results at the same deployment point (all that it states but the framework's revision), the best of each metric first.

    Superseded and fenced ones are left out, and so are those without a figure.
    """
    filters = {d: [v] for d, v in point_dimensions(point) if d != "framework_rev"}
    if not filters:
        return []
    where, values = condition(filters | {"kind": ["result"]} | ({"metric": [metric]} if metric else {}), None)
    rows = ask(
        store,
        lambda db: db.execute(
            f"SELECT r.id FROM records r WHERE {where} AND r.superseded_by IS NULL AND NOT r.fenced"
            " AND r.value IS NOT NULL",
            values,
        ).fetchall(),
    )
    groups: dict[tuple[str | None, ...], list[Record]] = {}
    for record in (get(store, r[0]) for r in rows):
        groups.setdefault((record.claim, record.metric, record.unit, record.contract_sha256), []).append(record)
    best = [sorted(g, key=_goodness) for g in groups.values()]
    longest = max(map(len, best), default=0)
    return [g[place] for place in range(longest) for g in best if place < len(g)]


def _goodness(record: Record) -> float:
    value = record.value or 0.0
    return value if record.higher_is_better is False else -value


def surface_records(
    store: Store,
    *,
    point: DeploymentPoint | None = None,
    tools: Mapping[str, str | None] | None = None,
    ideas: Sequence[Idea] = (),
    query: str = "",
    limit: int = 5,
) -> Report:
    """What a task should see unasked when it starts: pitfalls, earlier rejections, the best known result, and what the query finds.

    `limit` holds for each reason; the header's `hidden` and the summary say how many more there are of each.
    """
    found: dict[str, dict[str, tuple[str, str, str]]] = {"pitfall": {}, "same idea": {}, "best known": {}, "found": {}}
    for record, tool, holds in pitfalls(store, tools or {}):
        told = "its version is affected" if holds else "version unknown: check"
        found["pitfall"][record.id] = (record.id, record.title, f"{tool}: {told}")
    for idea in ideas:
        for record in same_idea(store, idea):
            told = f"{record.kind} {record.verdict or ''}".strip()
            found["same idea"][record.id] = (record.id, record.title, told)
    for record in best_known(store, point) if point is not None else ():
        told = f"{record.metric} {record.value} {record.unit or ''}".strip()
        found["best known"][record.id] = (record.id, record.title, told)
    for hit in search(store, query, limit=limit) if query else ():
        found["found"][hit.id] = (hit.id, hit.fields["title"], hit.why)
    rows = [(why, *row) for why, records in found.items() for row in list(records.values())[:limit]]
    hidden = {why: len(records) - limit for why, records in found.items() if len(records) > limit}
    report = Report("journal_surface", Header(more={"query": query, "tools": dict(tools or {})}, hidden=hidden))
    report.add(Table("surfaced", ["why", "id", "title", "note"], rows))
    report.summary = [
        f"{len(rows) + sum(hidden.values())} records of the journal concern this work"
        if rows
        else "the journal holds nothing on this work"
    ]
    report.summary += [f"{count} more of {why} are not shown: --limit {count + limit}" for why, count in hidden.items()]
    report.next_step = (
        "infer-forge journal show ID, before work on what it names"
        if rows
        else "record what you find: infer-forge journal add FILE"
    )
    return report


def related_records(store: Store, record_id: str, limit: int = 10) -> Report:
    """Records linked with one, of the same idea, task or contract, and the closest by words."""
    record = get(store, record_id)
    rows: dict[str, tuple[str, str, str]] = {}

    def add(found: Record, why: str) -> None:
        if found.id != record.id:
            rows.setdefault(found.id, (found.id, found.title, why))

    back = ask(
        store,
        lambda db: db.execute(
            "SELECT r.id, l.rel FROM links l JOIN records r ON r.rowid=l.rowid WHERE l.target=?", (record_id,)
        ).fetchall(),
    )
    for link in record.links:
        with contextlib.suppress(InputUnusable):  # a link may name something outside the journal
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
