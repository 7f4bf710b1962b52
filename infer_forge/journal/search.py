"""Find records: filter by dimension first, then BM25 over the words; say why each was found, and nothing when nothing fits."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from infer_forge.base.errors import UsageFault
from infer_forge.base.gitstore import Store
from infer_forge.journal import markdown, words
from infer_forge.journal.aliases import canonical
from infer_forge.journal.index import opened
from infer_forge.journal.store import REF

# Weights of title, symptoms, body, split identifiers (bm25() of FTS5): a title says most; split parts are the same words again.
_WEIGHTS = "8.0, 6.0, 1.0, 0.6"
# A record that is found by any term must hold so much of the query's weight (inverse document frequency): else it is noise.
LEAST_COVERAGE = 0.5
# Terms in more than this share of all records cannot decide an any-term search, and make it slow.
_COMMON_SHARE = 0.2
_CANDIDATES = 60
_SNIPPET_CHARS = 220
FACET_DIMS = (
    "kind",
    "model",
    "gpu",
    "framework",
    "task_type",
    "precision",
    "topology",
    "scenario",
    "metric",
    "verdict",
    "kernel_family",
)


@dataclass
class Hit:
    """One found record.

    Attributes:
        score: higher is better; comparable inside one answer only. coverage: share of the query's weight that it holds.
        why: which terms were found where. fields: the index's columns.
    """

    id: str
    score: float
    coverage: float
    why: str
    snippet: str
    fields: dict[str, Any] = field(default_factory=dict[str, Any])


def check_filters(filters: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Filters with canonical values.

    Raises:
        UsageFault: an unknown dimension.
    """
    from infer_forge.journal.model import DIMENSIONS

    known = {*DIMENSIONS, "kind", "task", "contract", "date", "epoch", "gpu_count"}
    unknown = set(filters) - known
    if unknown:
        raise UsageFault(
            f"no such dimension: {', '.join(sorted(unknown))}", next_step=f"use one of {', '.join(sorted(known))}"
        )
    return {d: [canonical(d, v) for v in values] for d, values in filters.items() if values}


def _where(filters: Mapping[str, Sequence[str]], since: str | None) -> tuple[str, list[Any]]:
    """SQL condition on `records.rowid` for filters (values of one dimension are alternatives) and the earliest date."""
    clauses: list[str] = ["1"]
    values: list[Any] = []
    for dim, wanted in filters.items():
        marks = ",".join("?" * len(wanted))
        clauses.append(f"r.rowid IN (SELECT rowid FROM dims WHERE dim=? AND value COLLATE NOCASE IN ({marks}))")
        values += [dim, *wanted]
    if since:
        clauses.append("r.created >= ?")
        values.append(since)
    return " AND ".join(clauses), values


def search(
    store: Store,
    query: str,
    filters: Mapping[str, Sequence[str]] | None = None,
    *,
    since: str | None = None,
    limit: int = 10,
    include_superseded: bool = False,
) -> list[Hit]:
    """The best records for a query: those that hold all its terms first, then those that hold most of its weight.

    Args:
        filters: dimension -> alternatives. since: earliest date, ISO form.
        include_superseded: also records that a later one supersedes.
    """
    where, values = _where(check_filters(filters or {}), since)
    if not include_superseded:
        where += " AND r.superseded_by IS NULL"
    terms = words.terms(query)
    with opened(store) as db:
        if not terms:
            rows = db.execute(
                f"SELECT {_COLUMNS} FROM records r WHERE {where} ORDER BY r.created DESC LIMIT ?", [*values, limit]
            )
            return [_hit(dict(zip(_NAMES, row, strict=True)), 0.0, 1.0, "filters only", "") for row in rows.fetchall()]
        found = _match(db, " AND ".join(map(words.phrase, terms)), where, values, limit)
        if len(found) < limit and len(terms) > 1:
            weights = _weights(db, terms)
            telling = [t for t in terms if weights[tuple(t)] > 0]
            rest = _match(db, " OR ".join(map(words.phrase, telling)), where, values, _CANDIDATES) if telling else {}
            found |= {k: v for k, v in rest.items() if k not in found}
        else:
            weights = {tuple(t): 1.0 for t in terms}
    return _judged(store, terms, weights, found)[:limit]


_NAMES = (
    "rowid",
    "id",
    "path",
    "kind",
    "title",
    "created",
    "claim",
    "metric",
    "value",
    "unit",
    "verdict",
    "contract",
    "fenced",
)
_COLUMNS = ", ".join(f"r.{n}" for n in _NAMES)


def _match(
    db: sqlite3.Connection, match: str, where: str, values: list[Any], limit: int
) -> dict[int, tuple[float, dict[str, Any]]]:
    """rowid -> (score, columns) of the best matches."""
    sql = (
        f"SELECT -bm25(fts, {_WEIGHTS}) AS s, {_COLUMNS} FROM fts JOIN records r ON r.rowid = fts.rowid"
        f" WHERE fts MATCH ? AND {where} ORDER BY s DESC LIMIT ?"
    )
    rows = db.execute(sql, [match, *values, limit]).fetchall()
    return {row[1]: (row[0], dict(zip(_NAMES, row[1:], strict=True))) for row in rows}


def _weights(db: sqlite3.Connection, terms: list[list[str]]) -> dict[tuple[str, ...], float]:
    """Inverse document frequency of each term; 0 for terms so common that they tell nothing."""
    total = db.execute("SELECT count(*) FROM records").fetchone()[0] or 1
    weights: dict[tuple[str, ...], float] = {}
    for term in terms:
        some = int(total * _COMMON_SHARE) + 1
        counted = db.execute(
            "SELECT count(*) FROM (SELECT 1 FROM fts WHERE fts MATCH ? LIMIT ?)", (words.phrase(term), some)
        ).fetchone()[0]
        common = total > 50 and counted >= some
        weights[tuple(term)] = 0.0 if common else math.log(1 + (total - counted + 0.5) / (counted + 0.5))
    return weights


def _judged(
    store: Store,
    terms: list[list[str]],
    weights: dict[tuple[str, ...], float],
    found: dict[int, tuple[float, dict[str, Any]]],
) -> list[Hit]:
    """Hits with coverage and snippet, the thin ones left out; full coverage first, then by score."""
    snapshot = store.read(REF)
    whole = sum(weights.values()) or 1.0
    hits: list[Hit] = []
    for score, columns in found.values():
        text = (snapshot.get(columns["path"]) or b"").decode("utf-8", "replace")
        held = [t for t in terms if _holds(text, t)]
        coverage = sum(weights[tuple(t)] for t in held) / whole
        if coverage >= LEAST_COVERAGE:
            why = "holds " + ", ".join(" ".join(t) for t in held[:8])
            hits.append(_hit(columns, score, coverage, why, _snippet(text, held)))
    return sorted(hits, key=lambda h: (-(h.coverage > 0.999), -h.score * h.coverage, h.id))


def _hit(columns: dict[str, Any], score: float, coverage: float, why: str, snippet: str) -> Hit:
    fields = {k: v for k, v in columns.items() if k not in ("rowid", "path")}
    return Hit(columns["id"], round(score, 3), round(coverage, 3), why, snippet, fields)


def _pattern(term: list[str]) -> re.Pattern[str]:
    """A term as it may stand in text: its words with nothing, or no more than separators, between them."""
    return re.compile(r"[\W_]*".join(map(re.escape, term)), re.IGNORECASE)


def _holds(text: str, term: list[str]) -> bool:
    return bool(_pattern(term).search(text))


def _snippet(text: str, held: list[list[str]]) -> str:
    """The place of the body that holds the most terms close together."""
    body = markdown.split(text, "record")[1] if text.startswith("---") else text
    flat = " ".join(body.split())
    places = sorted(m.start() for t in held for m in list(_pattern(t).finditer(flat))[:20])
    if not places:
        return flat[:_SNIPPET_CHARS]
    best = max(places, key=lambda p: sum(p <= q < p + _SNIPPET_CHARS for q in places))
    start = max(0, best - 40)
    return (
        ("…" if start else "")
        + flat[start : start + _SNIPPET_CHARS]
        + ("…" if start + _SNIPPET_CHARS < len(flat) else "")
    )


def facets(
    store: Store, filters: Mapping[str, Sequence[str]] | None = None, *, since: str | None = None, most: int = 12
) -> dict[str, Any]:
    """How many records fit the filters, and how they spread over every other dimension: what exists, at a glance.

    Returns:
        `{"count": n, "facets": {dim: [(value, count), ..]}, "ids": [the newest 50]}`.
    """
    where, values = _where(check_filters(filters or {}), since)
    with opened(store) as db:
        count = db.execute(f"SELECT count(*) FROM records r WHERE {where}", values).fetchone()[0]
        spread: dict[str, list[tuple[str, int]]] = {}
        for dim in FACET_DIMS:
            sql = (
                f"SELECT d.value, count(*) FROM dims d JOIN records r ON r.rowid=d.rowid WHERE d.dim=? AND {where}"
                " GROUP BY d.value ORDER BY 2 DESC, 1 LIMIT ?"
            )
            rows = db.execute(sql, [dim, *values, most]).fetchall()
            if rows:
                spread[dim] = rows
        ids = [
            r[0]
            for r in db.execute(f"SELECT r.id FROM records r WHERE {where} ORDER BY r.created DESC LIMIT 50", values)
        ]
    return {"count": count, "facets": spread, "ids": ids}
