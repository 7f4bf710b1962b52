"""Find records: filter by dimension first, then BM25 over the words; say why each was found, and nothing when nothing fits."""

from __future__ import annotations

import datetime
import math
import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from infer_forge.base.errors import UsageFault
from infer_forge.base.gitstore import Store
from infer_forge.journal import markdown, shipped, words
from infer_forge.journal.aliases import canonical
from infer_forge.journal.dimensions import FACETS, FILTERS
from infer_forge.journal.index import ask
from infer_forge.journal.index_rows import COLUMNS
from infer_forge.journal.store import REF

# Weights of title, symptoms, body, split identifiers (bm25() of FTS5): a title says most; split parts are the same words again.
_WEIGHTS = "8.0, 6.0, 1.0, 0.6"
# A record that is found by any term must hold so much of the query's weight (inverse document frequency): else it is noise.
LEAST_COVERAGE = 0.5
# ... and two of its telling terms, when it has three or more: one word of many is a coincidence.
_LEAST_HELD, _MANY_TERMS = 2, 3
# A term that no record holds weighs as one that this share of them holds: in a large journal a question would otherwise be
# answered by nothing as soon as it holds one word that nobody wrote down.
_ABSENT_SHARE = 0.01
# Terms in more than this share of all records cannot decide an any-term search, and make it slow.
_COMMON_SHARE = 0.2
_CANDIDATES = 60
_WIDER = 30
# Of terms that stand everywhere so many times the asked number of the newest holders are looked at.
_NEWEST = 12
# One look-up of a record in a term's list costs as much as so many steps along it.
_STEPS_A_LOOK = 40
# A term in more records than this is not ranked by: it costs more than it tells.
_MANY = 2000
_SNIPPET_CHARS = 220
_SPAN = re.compile(r"\d{4}(-\d\d(-\d\d)?)?", re.ASCII)


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
        UsageFault: an unknown dimension, or a date that is no year, month or day.
    """
    unknown = set(filters) - set(FILTERS)
    if unknown:
        raise UsageFault(
            f"no such dimension: {', '.join(sorted(unknown))}", next_step=f"use one of {', '.join(sorted(FILTERS))}"
        )
    checked = {d: [canonical(d, v) for v in values] for d, values in filters.items() if values}
    for text in checked.get("date", ()):
        if not _SPAN.fullmatch(text):
            raise UsageFault(f"{text!r} is no year, month or day", next_step="give it as YYYY, YYYY-MM or YYYY-MM-DD")
    return checked


def condition(filters: Mapping[str, Sequence[str]], since: str | None) -> tuple[str, list[Any]]:
    """SQL condition on `records r` for checked filters (values of one dimension are alternatives) and the earliest date."""
    clauses: list[str] = ["1"]
    values: list[Any] = []
    for dim, wanted in filters.items():
        if dim == "date":  # of any length: the index of dimensions has months only
            clauses.append(f"({' OR '.join(['r.created GLOB ?'] * len(wanted))})")
            values += [f"{span}*" for span in wanted]
            continue
        marks = ",".join("?" * len(wanted))
        clauses.append(f"EXISTS (SELECT 1 FROM dims d WHERE d.dim=? AND d.value IN ({marks}) AND d.rowid=r.rowid)")
        values += [dim, *wanted]
    if since:
        clauses.append("r.created >= ?")
        values.append(_date(since))
    return " AND ".join(clauses), values


def _date(text: str) -> str:
    """A date in the form that the index compares (UTC)."""
    try:
        told = datetime.datetime.fromisoformat(text.strip())
        utc = told.astimezone(datetime.timezone.utc) if told.tzinfo else told
        return utc.strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError):
        raise UsageFault(f"{text!r} is no date", next_step="give it as YYYY-MM-DD") from None


def search(
    store: Store,
    query: str,
    filters: Mapping[str, Sequence[str]] | None = None,
    *,
    since: str | None = None,
    limit: int = 10,
    include_superseded: bool = False,
    any_term: bool = False,
) -> list[Hit]:
    """The best records for a query: those that hold all its terms; when there is none, those that hold most of its weight.

    Args:
        filters: dimension -> alternatives. since: earliest date, ISO form.
        include_superseded: also records that a later one supersedes.
        any_term: also records that hold only some of the terms, though others hold all.
    """
    where, values = condition(check_filters(filters or {}), since)
    if not include_superseded:
        where += " AND r.superseded_by IS NULL"
    terms, apart = words.terms(query), words.terms(query, whole=False)

    def look(db: sqlite3.Connection) -> list[_Found]:
        if not terms:
            sql = f"SELECT {_COLUMNS} FROM records r WHERE {where} ORDER BY r.created DESC, r.rowid DESC LIMIT ?"
            rows = db.execute(sql, [*values, limit]).fetchall()
            return [_Found(dict(zip(_NAMES, row, strict=True)), 0.0, 1.0, []) for row in rows]
        return _ranked(db, terms, where, values, limit, any_term) or (
            _ranked(db, apart, where, values, limit, any_term) if apart != terms else []
        )

    texts = _Texts(store)
    return [_hit(f, texts.of(f.columns) if terms else "") for f in ask(store, look)]


@dataclass
class _Found:
    """A row of the index, how well it fits, and the terms that it holds."""

    columns: dict[str, Any]
    score: float
    coverage: float
    held: list[list[str]]


def _ranked(
    db: sqlite3.Connection, terms: list[list[str]], where: str, values: list[Any], limit: int, any_term: bool
) -> list[_Found]:
    """Records with all terms, best first; when there is none, or `any_term` asks, those that hold most of the query's weight.

    Terms that stand in thousands of records tell little and cost much: records are found and ranked by the others, and then
    held against the common ones.
    """
    counts, total = _counts(db, terms), _size(db)
    weights = {t: _weight(n, total) for t, n in counts.items()}
    telling = [t for t in terms if weights[tuple(t)] > 0]
    cheap = [t for t in telling if counts[tuple(t)] <= _MANY]
    costly = [t for t in terms if t not in cheap]
    if not cheap and min(counts.values()) > _MANY:
        return _newest(db, terms, where, values, limit)
    every: list[tuple[float, dict[str, Any]]] = []
    look_at_all = not (cheap and costly)
    if cheap and costly:
        wide = _match(db, " AND ".join(map(words.phrase, cheap)), where, values, limit * _WIDER)
        holders = _holders(db, costly, counts, [c["rowid"] for _, c in wide])
        every = [(s, c) for s, c in wide if all(c["rowid"] in h for h in holders.values())]
        look_at_all = len(every) < limit and len(wide) == limit * _WIDER  # some that hold all may lie further back
    if look_at_all:
        every = _match(db, " AND ".join(map(words.phrase, terms)), where, values, limit)
    found = [_Found(columns, score, 1.0, terms) for score, columns in every[:limit]]
    if (found and not any_term) or len(found) >= limit or not telling or len(terms) == 1:
        return found
    whole = sum(weights.values())
    seen = {f.columns["rowid"] for f in found}
    candidates = _match(db, " OR ".join(map(words.phrase, _deciding(telling, weights))), where, values, _CANDIDATES)
    least = _LEAST_HELD if len(telling) >= _MANY_TERMS else 1
    rest = [c for c in candidates if c[1]["rowid"] not in seen]
    holders = _holders(db, telling, counts, [c[1]["rowid"] for c in rest])
    for score, columns in rest:
        held = [t for t in telling if columns["rowid"] in holders[tuple(t)]]
        coverage = sum(weights[tuple(t)] for t in held) / whole
        if coverage >= LEAST_COVERAGE and len(held) >= least:
            found.append(_Found(columns, score, coverage, held))
    found.sort(key=lambda f: (f.coverage < 0.999, -f.score * f.coverage, f.columns["id"]))
    return found[:limit]


def _deciding(terms: list[list[str]], weights: dict[tuple[str, ...], float]) -> list[list[str]]:
    """The rarest terms of which a record must hold at least one to reach the least coverage: the others together are too light."""
    ordered = sorted(terms, key=lambda t: -weights[tuple(t)])
    left = sum(weights.values())
    least = left * LEAST_COVERAGE
    taken: list[list[str]] = []
    while ordered and left >= least:
        taken.append(ordered.pop(0))
        left -= weights[tuple(taken[-1])]
    return taken


def _size(db: sqlite3.Connection) -> int:
    return db.execute("SELECT max(rowid) FROM records").fetchone()[0] or 1


def _newest(db: sqlite3.Connection, terms: list[list[str]], where: str, values: list[Any], limit: int) -> list[_Found]:
    """When every term stands in thousands of records: those with the terms in their title first, then the newest, out of the
    newest hundred that hold all."""
    sql = (
        f"SELECT {_COLUMNS} FROM fts JOIN records r ON r.rowid = fts.rowid"
        f" WHERE fts MATCH ? AND {where} ORDER BY fts.rowid DESC LIMIT ?"
    )
    match = " AND ".join(map(words.phrase, terms))
    found = db.execute(sql, [match, *values, limit * _NEWEST])
    rows: list[dict[str, Any]] = [dict(zip(_NAMES, row, strict=True)) for row in found]
    scored = [(sum(bool(_places(c["title"], t)) for t in terms), c) for c in rows]
    scored.sort(key=lambda pair: -pair[0])
    return [_Found(c, float(s), 1.0, terms) for s, c in scored[:limit]]


def _holders(
    db: sqlite3.Connection, terms: list[list[str]], counts: Mapping[tuple[str, ...], int], rowids: list[int]
) -> dict[tuple[str, ...], set[int]]:
    """Which of these records hold each term, as the index sees it."""
    wanted = set(rowids)
    looked = f"SELECT rowid FROM fts WHERE fts MATCH ? AND rowid IN ({','.join('?' * len(rowids))})"
    found: dict[tuple[str, ...], set[int]] = {}
    for term in terms:
        short = counts[tuple(term)] < _STEPS_A_LOOK * len(rowids)
        sql, values = ("SELECT rowid FROM fts WHERE fts MATCH ?", []) if short else (looked, rowids)
        found[tuple(term)] = {r[0] for r in db.execute(sql, [words.phrase(term), *values])} & wanted
    return found


_NAMES = ("rowid", *(c for c in COLUMNS if c != "sha256"))
_COLUMNS = ", ".join(f"r.{n}" for n in _NAMES)


def _match(
    db: sqlite3.Connection, match: str, where: str, values: list[Any], limit: int
) -> list[tuple[float, dict[str, Any]]]:
    """(score, columns) of the best matches, best first."""
    sql = (
        f"SELECT -bm25(fts, {_WEIGHTS}) AS s, {_COLUMNS} FROM fts JOIN records r ON r.rowid = fts.rowid"
        f" WHERE fts MATCH ? AND {where} ORDER BY s DESC LIMIT ?"
    )
    rows = db.execute(sql, [match, *values, limit]).fetchall()
    return [(row[0], dict(zip(_NAMES, row[1:], strict=True))) for row in rows]


def _counts(db: sqlite3.Connection, terms: list[list[str]]) -> dict[tuple[str, ...], int]:
    """In how many records each term stands; counting stops at the share from which a term is common."""
    some = int(_size(db) * _COMMON_SHARE) + 1
    counts: dict[tuple[str, ...], int] = {}
    for term in terms:
        known = db.execute("SELECT docs FROM common WHERE term=?", (" ".join(term),)).fetchone()
        if known is None:
            sql = "SELECT count(*) FROM (SELECT 1 FROM fts WHERE fts MATCH ? LIMIT ?)"
            known = db.execute(sql, (words.phrase(term), some)).fetchone()
        counts[tuple(term)] = known[0]
    return counts


def _weight(count: int, total: int) -> float:
    """Inverse document frequency; 0 for a term so common that it tells nothing."""
    count = count or max(1, int(total * _ABSENT_SHARE))
    if total > 50 and count > total * _COMMON_SHARE:
        return 0.0
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


class _Texts:
    """Texts of found records, from the store (one snapshot) or from what infer-forge ships."""

    def __init__(self, store: Store) -> None:
        self._snapshot = store.read(REF)

    def of(self, columns: dict[str, Any]) -> str:
        built_in = shipped.records().get(columns["id"])
        if built_in is not None:
            return built_in.body
        text = (self._snapshot.get(columns["path"]) or b"").decode("utf-8", "replace")
        return markdown.body_of(text)


def _hit(found: _Found, body: str) -> Hit:
    fields = {k: v for k, v in found.columns.items() if k not in ("rowid", "path")}
    why = "holds " + ", ".join(_as_written(t) for t in found.held[:8]) if found.held else "filters only"
    return Hit(
        found.columns["id"],
        round(found.score, 3),
        round(found.coverage, 3),
        why,
        _snippet(body, found.held) if found.held else "",
        fields,
    )


def _as_written(term: list[str]) -> str:
    """A term for people: CJK characters together again."""
    return "".join(term) if all(len(w) == 1 and not w.isascii() for w in term) else " ".join(term)


def _pattern(term: list[str]) -> re.Pattern[str]:
    """A term as it may stand in text: separators between its words; a joined identifier may hold `_` anywhere."""
    shown = ["_?".join(w) if len(term) == 1 and w.isascii() and len(w) > 5 else re.escape(w) for w in term]
    return re.compile(r"[\W_]*".join(shown), re.IGNORECASE)


def _inflected(term: list[str]) -> re.Pattern[str]:
    """An English word in its other forms, as far as the beginning tells: what the index takes for the same word."""
    return re.compile(rf"\b{re.escape(term[0][: max(3, len(term[0]) - 3)])}[a-z]*", re.IGNORECASE)


def _places(text: str, term: list[str]) -> list[int]:
    """Where a term stands in a text; in another form of the word where it does not stand as it is."""
    found = [m.start() for m in islice(_pattern(term).finditer(text), 20)]
    if found or len(term) > 1 or not (term[0].isascii() and term[0].isalpha()):
        return found
    return [m.start() for m in islice(_inflected(term).finditer(text), 20)]


def _snippet(body: str, held: list[list[str]]) -> str:
    """The place of the body that holds the most terms close together."""
    flat = " ".join(body.split())
    places = sorted(place for t in held for place in _places(flat, t))
    if not places:
        return flat[:_SNIPPET_CHARS] + ("…" if len(flat) > _SNIPPET_CHARS else "")
    best = max(places, key=lambda p: sum(p <= q < p + _SNIPPET_CHARS for q in places))
    start = max(0, best - 40)
    tail = "…" if start + _SNIPPET_CHARS < len(flat) else ""
    return ("…" if start else "") + flat[start : start + _SNIPPET_CHARS] + tail


def ids_beginning(store: Store, start: str, *, most: int = 100) -> tuple[list[str], int]:
    """Ids of records that begin so, the newest first and at the most so many; and how many there are."""

    def look(db: sqlite3.Connection) -> tuple[list[str], int]:
        fit = "FROM records WHERE substr(id, 1, ?) = ?"
        count = db.execute(f"SELECT count(*) {fit}", (len(start), start)).fetchone()[0]
        rows = db.execute(f"SELECT id {fit} ORDER BY created DESC, id DESC LIMIT ?", (len(start), start, most))
        return [row[0] for row in rows], count

    return ask(store, look)


def facets(
    store: Store, filters: Mapping[str, Sequence[str]] | None = None, *, since: str | None = None, most: int = 12
) -> dict[str, Any]:
    """How many records fit the filters, and how they spread over every other dimension: what exists, at a glance.

    Returns:
        `{"count": n, "facets": {dim: [(value, count), ..]}, "hidden": {dim: values beyond `most`}, "ids": [the newest 50]}`.
    """
    where, values = condition(check_filters(filters or {}), since)

    def look(db: sqlite3.Connection) -> dict[str, Any]:
        fit = f"SELECT r.rowid, r.id, r.created FROM records r WHERE {where}"
        db.execute("CREATE TEMP TABLE fit(rowid INTEGER PRIMARY KEY, id TEXT, created TEXT)")
        db.execute("INSERT INTO fit " + fit, values)
        count = db.execute("SELECT count(*) FROM fit").fetchone()[0]
        spread: dict[str, list[tuple[str, int]]] = {}
        hidden: dict[str, int] = {}
        for dim in FACETS:
            sql = (
                "SELECT d.value, count(*) FROM dims d WHERE d.dim=? AND d.rowid IN (SELECT rowid FROM fit)"
                " GROUP BY d.value ORDER BY 2 DESC, 1"
            )
            rows = db.execute(sql, [dim]).fetchall()
            if rows:
                spread[dim] = rows[:most]
            if len(rows) > most:
                hidden[dim] = len(rows) - most
        ids = [r[0] for r in db.execute("SELECT id FROM fit ORDER BY created DESC LIMIT 50")]
        return {"count": count, "facets": spread, "hidden": hidden, "ids": ids}

    return ask(store, look)
