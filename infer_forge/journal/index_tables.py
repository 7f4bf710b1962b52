"""The tables of the search index, and rows into them. Inflections of an English word are one word of the index (Porter's stems)."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from infer_forge.base import jobs
from infer_forge.journal.index_rows import COLUMNS, IndexRow

TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE folders(path TEXT PRIMARY KEY, tree TEXT);
CREATE TABLE records(
  rowid INTEGER PRIMARY KEY, id TEXT UNIQUE, path TEXT UNIQUE, kind TEXT, title TEXT, created TEXT, claim TEXT, metric TEXT,
  value REAL, unit TEXT, verdict TEXT, contract TEXT, fenced INTEGER, superseded_by TEXT, sha256 TEXT);
CREATE INDEX records_by_time ON records(created);
CREATE TABLE dims(dim TEXT, value TEXT COLLATE NOCASE, rowid INTEGER, source TEXT, PRIMARY KEY(dim, value, rowid)) WITHOUT ROWID;
CREATE INDEX dims_by_record ON dims(rowid);
CREATE TABLE ideas(repository TEXT COLLATE NOCASE, path TEXT, symbol TEXT, rowid INTEGER);
CREATE INDEX ideas_by_place ON ideas(path, repository);
CREATE TABLE links(rowid INTEGER, rel TEXT, target TEXT);
CREATE INDEX links_by_target ON links(target);
CREATE TABLE common(term TEXT PRIMARY KEY, docs INTEGER) WITHOUT ROWID;
CREATE TABLE faults(path TEXT PRIMARY KEY, what TEXT);
CREATE VIRTUAL TABLE fts USING fts5(title, symptoms, body, humps, content='', tokenize="porter unicode61 remove_diacritics 2");
"""
BATCH = 500
_INSERT_RECORD = f"INSERT INTO records(rowid, {', '.join(COLUMNS)}) VALUES({','.join('?' * (len(COLUMNS) + 1))})"
# The newest of several that supersede one record, whatever order they came in: ids sort by time.
_SETTLE = (
    "UPDATE records SET superseded_by=(SELECT max(r.id) FROM links l JOIN records r ON r.rowid=l.rowid"
    " WHERE l.target=records.id AND l.rel='supersedes') WHERE id=?"
)


def insert_rows(connection: sqlite3.Connection, rows: Iterable[IndexRow], total: int | None = None) -> int:
    """Rows into all tables, in their order; how many there were. `total` is for the progress that is told."""
    source = iter(rows)
    count = 0
    while batch := list(itertools.islice(source, BATCH)):
        connection.executemany(
            "INSERT OR REPLACE INTO faults VALUES(?, ?)", [(r.path, r.fault) for r in batch if r.fault]
        )
        _insert(connection, _fresh(connection, [r for r in batch if not r.fault]))
        count += len(batch)
        if count % (4 * BATCH) == 0:
            jobs.progress(count, total, "indexing the journal: records")
    return count


def _fresh(connection: sqlite3.Connection, batch: list[IndexRow]) -> list[IndexRow]:
    """The rows that are not in the index; of one that infer-forge ships and the store holds too, the path is the store's."""
    known = set(_known(connection, "SELECT id FROM records WHERE id IN ({})", [r.id for r in batch]))
    fresh: dict[str, IndexRow] = {}
    for row in batch:
        if row.id in known:
            connection.execute("UPDATE records SET path=? WHERE id=?", (row.path, row.id))
        elif row.id in fresh:
            fresh[row.id] = fresh[row.id]._replace(columns=row.columns, path=row.path)
        else:
            fresh[row.id] = row
    return list(fresh.values())


def _known(connection: sqlite3.Connection, sql: str, values: Sequence[str]) -> Iterator[str]:
    if values:
        for (found,) in connection.execute(sql.format(",".join("?" * len(values))), values):
            yield found


def _insert(connection: sqlite3.Connection, batch: list[IndexRow]) -> None:
    (first,) = connection.execute("SELECT coalesce(max(rowid), 0) + 1 FROM records").fetchone()
    numbered = list(enumerate(batch, first))
    connection.executemany(_INSERT_RECORD, [(n, *r.columns) for n, r in numbered])
    dims = [(d, v, n, s) for n, r in numbered for d, v, s in r.dims]
    connection.executemany("INSERT OR IGNORE INTO dims VALUES(?,?,?,?)", dims)
    connection.executemany("INSERT INTO links VALUES(?,?,?)", [(n, *link) for n, r in numbered for link in r.links])
    connection.executemany("INSERT INTO ideas VALUES(?,?,?,?)", [(*r.idea, n) for n, r in numbered if r.idea])
    texts = [(n, *r.texts) for n, r in numbered]
    connection.executemany("INSERT INTO fts(rowid, title, symptoms, body, humps) VALUES(?,?,?,?,?)", texts)
    named = "SELECT target FROM links WHERE rel='supersedes' AND target IN ({})"
    settled = {target for r in batch for rel, target in r.links if rel == "supersedes"}
    settled.update(_known(connection, named, [r.id for r in batch]))
    connection.executemany(_SETTLE, [(one,) for one in sorted(settled)])
