"""The search index: SQLite with FTS5, rebuilt from the store whenever it is missing, damaged or of another shape.

It is keyed by the store's tree. What is new since then is found by comparing folders of the tree (git shares unchanged
ones), so that one added record among 100,000 costs a few reads.
"""

from __future__ import annotations

import contextlib
import fcntl
import sqlite3
from collections.abc import Generator, Iterator
from pathlib import Path

from infer_forge.base import jobs, jsonio
from infer_forge.base.errors import ForgeError
from infer_forge.base.gitstore import Snapshot, Store
from infer_forge.base.paths import paths
from infer_forge.journal import markdown, words
from infer_forge.journal.model import Record
from infer_forge.journal.store import REF

# Changes whenever the tables or the words of the index change: an index of another number is made anew.
SHAPE = "1"
_TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE folders(path TEXT PRIMARY KEY, tree TEXT);
CREATE TABLE records(
  rowid INTEGER PRIMARY KEY, id TEXT UNIQUE, path TEXT, kind TEXT, title TEXT, created TEXT, claim TEXT, metric TEXT,
  value REAL, unit TEXT, verdict TEXT, contract TEXT, fenced INTEGER, superseded_by TEXT, summary TEXT);
CREATE TABLE dims(dim TEXT, value TEXT, rowid INTEGER, source TEXT, PRIMARY KEY(dim, value, rowid)) WITHOUT ROWID;
CREATE INDEX dims_by_record ON dims(rowid);
CREATE TABLE links(rowid INTEGER, rel TEXT, target TEXT);
CREATE INDEX links_by_target ON links(target);
CREATE TABLE faults(path TEXT PRIMARY KEY, what TEXT);
CREATE VIRTUAL TABLE fts USING fts5(title, symptoms, body, humps, content='', tokenize="unicode61 remove_diacritics 2");
"""
_BATCH = 2000
_SUMMARY_CHARS = 240


def index_file(store: Store) -> Path:
    """Where the index of a store lies: in the cache, deletable at any time."""
    return paths().cache / "journal" / f"{jsonio.sha256_of(str(store.gitdir.absolute()))[:24]}.sqlite"


@contextlib.contextmanager
def opened(store: Store) -> Generator[sqlite3.Connection]:
    """The index, brought up to the store's tip; made anew without a word when it cannot be used."""
    file = index_file(store)
    file.parent.mkdir(parents=True, exist_ok=True)
    snapshot = store.read(REF)
    connection = _usable(file)
    try:
        if connection is None or _meta(connection, "tree") != (snapshot.tree or ""):
            if connection is not None:
                connection.close()
            connection = _brought_up(file, snapshot)
        yield connection
    finally:
        if connection is not None:
            connection.close()


def _connect(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=30, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA mmap_size=1073741824")
    return connection


def _usable(file: Path) -> sqlite3.Connection | None:
    """The index when it is whole and of this shape."""
    if not file.is_file():
        return None
    connection = None
    try:
        connection = _connect(file)
        if _meta(connection, "shape") == SHAPE:
            return connection
    except sqlite3.DatabaseError:
        pass
    if connection is not None:
        connection.close()
    return None


def _meta(connection: sqlite3.Connection, key: str) -> str | None:
    row = connection.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
    return row[0] if row else None


def _brought_up(file: Path, snapshot: Snapshot) -> sqlite3.Connection:
    """Add what is new; of several processes one works and the others wait for it."""
    with open(file.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        connection = _usable(file)
        if connection is None:
            for old in (file, file.with_name(file.name + "-wal"), file.with_name(file.name + "-shm")):
                old.unlink(missing_ok=True)
            connection = _connect(file)
            connection.executescript(_TABLES)
            connection.execute("INSERT INTO meta VALUES('shape', ?)", (SHAPE,))
        try:
            if _meta(connection, "tree") != (snapshot.tree or ""):
                _add_new(connection, snapshot)
        except sqlite3.DatabaseError as exc:
            connection.close()
            file.unlink(missing_ok=True)
            raise ForgeError(
                f"the journal's index broke while it was written ({exc})", next_step="run it again"
            ) from None
        return connection


def _add_new(connection: sqlite3.Connection, snapshot: Snapshot) -> None:
    known: dict[str, str] = dict(connection.execute("SELECT path, tree FROM folders"))
    fresh: dict[str, str] = {}
    connection.execute("BEGIN IMMEDIATE")
    count = 0
    for path, text in _new_files(connection, snapshot, known, fresh):
        _insert(connection, path, text)
        count += 1
        if count % _BATCH == 0:
            jobs.progress(count, None, "indexing the journal: records")
    connection.executemany("INSERT OR REPLACE INTO folders VALUES(?, ?)", fresh.items())
    connection.execute("INSERT OR REPLACE INTO meta VALUES('tree', ?)", (snapshot.tree or "",))
    connection.execute("INSERT OR REPLACE INTO meta VALUES('tip', ?)", (snapshot.tip or "",))
    if count > _BATCH:
        connection.execute("INSERT INTO fts(fts) VALUES('optimize')")
    connection.execute("COMMIT")


def _new_files(
    connection: sqlite3.Connection, snapshot: Snapshot, known: dict[str, str], fresh: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """Files in folders that changed and are not indexed yet; `fresh` gets the changed folders' trees."""
    for month in snapshot.children("records"):
        month_path = f"records/{month.rstrip('/')}"
        month_tree = snapshot.folder_id(month_path)
        if month_tree is None or known.get(month_path) == month_tree:
            continue
        for digits in snapshot.children(month_path):
            folder = f"{month_path}/{digits.rstrip('/')}"
            tree = snapshot.folder_id(folder)
            if tree is None or known.get(folder) == tree:
                continue
            there = {
                r[0]
                for r in connection.execute(
                    "SELECT path FROM records WHERE path BETWEEN ? AND ?", (f"{folder}/", f"{folder}0")
                )
            }
            for path, content in snapshot.items(f"{folder}/"):
                if path not in there:
                    yield path, content.decode("utf-8", "replace")
            fresh[folder] = tree
        fresh[month_path] = month_tree


def _insert(connection: sqlite3.Connection, path: str, text: str) -> None:
    """One record into all tables; a file that is none is kept as a fault, which `lint` tells."""
    try:
        record = markdown.read(text, path)
    except ForgeError as exc:
        connection.execute("INSERT OR REPLACE INTO faults VALUES(?, ?)", (path, str(exc)))
        return
    row = connection.execute(
        "INSERT INTO records(id, path, kind, title, created, claim, metric, value, unit, verdict, contract, fenced, summary)"
        " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)",
        _columns(record, path),
    ).lastrowid
    dims = [(d, v, row, s) for d, v, s in record.dimensions()]
    connection.executemany("INSERT OR IGNORE INTO dims VALUES(?,?,?,?)", dims)
    connection.executemany("INSERT INTO links VALUES(?,?,?)", [(row, link.rel, link.id) for link in record.links])
    superseded = [(record.id, link.id) for link in record.links if link.rel == "supersedes"]
    connection.executemany("UPDATE records SET superseded_by=? WHERE id=?", superseded)
    later = connection.execute(
        "SELECT r.id FROM links l JOIN records r ON r.rowid=l.rowid WHERE l.target=? AND l.rel='supersedes'",
        (record.id,),
    ).fetchone()
    if later:
        connection.execute("UPDATE records SET superseded_by=? WHERE rowid=?", (later[0], row))
    title, symptoms, body = record.title, "\n".join(record.symptoms), f"{record.body}\n{_words_of_fields(record)}"
    humps = words.humps(f"{title} {symptoms} {body}")
    values = (row, words.spaced(title), words.spaced(symptoms), words.spaced(body), humps)
    connection.execute("INSERT INTO fts(rowid, title, symptoms, body, humps) VALUES(?,?,?,?,?)", values)


def _columns(record: Record, path: str) -> tuple[object, ...]:
    summary = " ".join(record.body.split())[:_SUMMARY_CHARS]
    fields = (record.id, path, record.kind, record.title, record.created.isoformat(), record.claim, record.metric)
    return (
        *fields,
        record.value,
        record.unit,
        record.verdict,
        record.contract_sha256,
        int(record.epoch_fenced),
        summary,
    )


def _words_of_fields(record: Record) -> str:
    """Front matter that people search for by word: dimension values, the idea's place, artifact names."""
    values = [v for _, v, _ in record.dimensions()]
    if record.idea is not None:
        values += [record.idea.repository, record.idea.path, record.idea.symbol or ""]
    values += [Path(a.path).name for a in record.artifacts] + [
        f"{r.tool} {r.first or ''} {r.fixed_in or ''}" for r in record.applies_to
    ]
    return " ".join(values)
