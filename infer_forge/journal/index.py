"""The search index: SQLite with FTS5, rebuilt from the store whenever it is missing, damaged or of another shape.

It is keyed by the store's tree. What is new since then is found by comparing folders of the tree (git shares unchanged
ones), so that one added record among 100,000 costs a few reads.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import sqlite3
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TypeVar

from infer_forge.base import jobs, jsonio
from infer_forge.base.errors import ForgeError, InputUnusable
from infer_forge.base.gitstore import Snapshot, Store
from infer_forge.base.paths import paths
from infer_forge.journal import markdown, shipped, words
from infer_forge.journal.model import Record
from infer_forge.journal.store import REF

T = TypeVar("T")

# Changes whenever the tables or the words of the index change: an index of another number is made anew.
SHAPE = "5"
_TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE folders(path TEXT PRIMARY KEY, tree TEXT);
CREATE TABLE records(
  rowid INTEGER PRIMARY KEY, id TEXT UNIQUE, path TEXT UNIQUE, kind TEXT, title TEXT, created TEXT, claim TEXT, metric TEXT,
  value REAL, unit TEXT, verdict TEXT, contract TEXT, fenced INTEGER, superseded_by TEXT, summary TEXT);
CREATE INDEX records_by_time ON records(created);
CREATE TABLE dims(dim TEXT, value TEXT COLLATE NOCASE, rowid INTEGER, source TEXT, PRIMARY KEY(dim, value, rowid)) WITHOUT ROWID;
CREATE INDEX dims_by_record ON dims(rowid);
CREATE TABLE ideas(repository TEXT COLLATE NOCASE, path TEXT, symbol TEXT, rowid INTEGER);
CREATE INDEX ideas_by_place ON ideas(path, repository);
CREATE TABLE links(rowid INTEGER, rel TEXT, target TEXT);
CREATE INDEX links_by_target ON links(target);
CREATE TABLE common(term TEXT PRIMARY KEY, docs INTEGER) WITHOUT ROWID;
CREATE TABLE faults(path TEXT PRIMARY KEY, what TEXT);
CREATE VIRTUAL TABLE fts USING fts5(title, symptoms, body, humps, content='', tokenize="unicode61 remove_diacritics 2");
"""
_BATCH = 2000
_GONE = "/(gone)"
# Words that FTS5 gathers in memory before it writes a segment: larger segments, fewer merges.
_HASH_BYTES = 32 << 20
_SUMMARY_CHARS = 240


def index_file(store: Store) -> Path:
    """Where the index of a store lies: in the cache, deletable at any time."""
    return paths().cache / "journal" / f"{jsonio.sha256_of(str(store.gitdir.absolute()))[:24]}.sqlite"


def ask(store: Store, work: Callable[[sqlite3.Connection], T]) -> T:
    """Run `work` on the index, brought up to the store's tip.

    An index that is missing, old, damaged (even where only the query finds that out) or of another store at the same place
    is made anew without a word: it is a cache, and the store is the truth. `work` may run twice.
    """
    file = index_file(store)
    try:
        return _asked(file, store, work)
    except sqlite3.DatabaseError:
        with _one_writer(file):
            _drop(file)
    return _asked(file, store, work)


def _asked(file: Path, store: Store, work: Callable[[sqlite3.Connection], T]) -> T:
    snapshot = store.read(REF)
    with contextlib.ExitStack() as stack:
        connection = _usable(file, snapshot)
        if connection is None:
            connection = _brought_up(file, snapshot)
        stack.callback(connection.close)
        return work(connection)


def _connect(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=30, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA mmap_size=2147483648")
    connection.execute("PRAGMA cache_size=-131072")
    return connection


def _shape() -> str:
    """What an index must say of itself to be used: its tables, and the shipped records that it holds."""
    return f"{SHAPE} {jsonio.sha256_of(sorted(shipped.records()))[:16]}"


def _usable(file: Path, snapshot: Snapshot | None = None) -> sqlite3.Connection | None:
    """The index when it is whole, of this shape and (with a snapshot) of its tree."""
    if not file.is_file():
        return None
    connection = None
    try:
        connection = _connect(file)
        right = _meta(connection, "shape") == _shape()
        if right and (snapshot is None or _meta(connection, "tree") == (snapshot.tree or "")):
            return connection
    except sqlite3.DatabaseError:
        pass
    if connection is not None:
        connection.close()
    return None


def _meta(connection: sqlite3.Connection, key: str) -> str | None:
    row = connection.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
    return row[0] if row else None


@contextlib.contextmanager
def _one_writer(file: Path) -> Generator[None]:
    """Of several processes one works on the index and the others wait for it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _drop(file: Path) -> None:
    for old in (file, file.with_name(file.name + "-wal"), file.with_name(file.name + "-shm")):
        old.unlink(missing_ok=True)


def _brought_up(file: Path, snapshot: Snapshot) -> sqlite3.Connection:
    """The index with what is new added, made anew where adding is not enough."""
    with _one_writer(file):
        connection = _usable(file)
        if connection is not None:
            try:
                if _meta(connection, "tree") == (snapshot.tree or "") or _add_new(connection, snapshot):
                    return connection
            except sqlite3.DatabaseError:
                pass
            connection.close()
        _drop(file)
        connection = _connect(file)
        connection.executescript(_TABLES)
        connection.execute("INSERT INTO fts(fts, rank) VALUES('hashsize', ?)", (_HASH_BYTES,))
        for record in shipped.records().values():
            _insert_record(connection, record, f"shipped/{record.id}")
        connection.execute("INSERT INTO meta VALUES('shape', ?)", (_shape(),))
        _add_new(connection, snapshot)
        return connection


def _add_new(connection: sqlite3.Connection, snapshot: Snapshot) -> bool:
    """Add what the store has more; False when the index holds what the store has not (then nothing was changed)."""
    known: dict[str, str] = dict(connection.execute("SELECT path, tree FROM folders"))
    months = {f"records/{m.rstrip('/')}" for m in snapshot.children("records")}
    if {k for k in known if k.count("/") == 1} - months:
        return False
    fresh: dict[str, str] = {}
    count = 0
    connection.execute("BEGIN IMMEDIATE")
    for folder in _changed_folders(snapshot, sorted(months), known, fresh):
        gone, texts = _new_files(connection, snapshot, folder)
        if gone or folder.endswith(_GONE):
            connection.execute("ROLLBACK")
            return False
        for path, text in texts:
            _insert(connection, path, text)
            count += 1
            if count % _BATCH == 0:
                jobs.progress(count, None, "indexing the journal: records")
    connection.executemany("INSERT OR REPLACE INTO folders VALUES(?, ?)", fresh.items())
    connection.execute("INSERT OR REPLACE INTO meta VALUES('tree', ?)", (snapshot.tree or "",))
    if count > _BATCH:
        connection.execute("INSERT INTO fts(fts) VALUES('optimize')")
        _count_common(connection)
    connection.execute("COMMIT")
    return True


def _count_common(connection: sqlite3.Connection) -> None:
    """Remember which words stand in more than 2 % of the records, so that a search need not count them."""
    connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, fts, row)")
    connection.execute("DELETE FROM common")
    least = connection.execute("SELECT count(*) / 50 FROM records").fetchone()[0]
    connection.execute("INSERT INTO common SELECT term, doc FROM temp.vocabulary WHERE doc > ?", (least,))


def _changed_folders(
    snapshot: Snapshot, months: list[str], known: dict[str, str], fresh: dict[str, str]
) -> Iterator[str]:
    """Folders whose tree is not the indexed one; `fresh` gets their trees, to be kept once their files are in.

    A month that lost a folder gives a name that ends in `_GONE`.
    """
    for month in months:
        tree = snapshot.folder_id(month)
        if tree is None or known.get(month) == tree:
            continue
        folders = [f"{month}/{digits.rstrip('/')}" for digits in snapshot.children(month)]
        if {k for k in known if k.startswith(f"{month}/")} - set(folders):
            yield month + _GONE
        for folder in folders:
            inner = snapshot.folder_id(folder)
            if inner is not None and known.get(folder) != inner:
                yield folder
                fresh[folder] = inner
        fresh[month] = tree


def _new_files(
    connection: sqlite3.Connection, snapshot: Snapshot, folder: str
) -> tuple[set[str], Iterator[tuple[str, str]]]:
    """Indexed files of a folder that the store no longer has, and (path, text) of those that are not indexed yet."""
    span = (f"{folder}/", f"{folder}0")
    there = {r[0] for r in connection.execute("SELECT path FROM records WHERE path BETWEEN ? AND ?", span)}
    there |= {r[0] for r in connection.execute("SELECT path FROM faults WHERE path BETWEEN ? AND ?", span)}
    names = [f"{folder}/{n}" for n in snapshot.children(folder)]
    fresh = [n for n in names if n not in there and not n.endswith("/")]
    texts = ((n, (snapshot.get(n) or b"").decode("utf-8", "replace")) for n in fresh)
    return there - set(names), texts


def _insert(connection: sqlite3.Connection, path: str, text: str) -> None:
    """One file into the index; one that is no record is kept as a fault, which `lint` tells."""
    try:
        record = markdown.read(text, path)
        if not record.id or Path(path).stem != record.id:
            raise InputUnusable(f"its id is {record.id or 'not stated'}, not its file's name", where=path)
    except ForgeError as exc:
        connection.execute("INSERT OR REPLACE INTO faults VALUES(?, ?)", (path, str(exc)))
        return
    _insert_record(connection, record, path)


def _insert_record(connection: sqlite3.Connection, record: Record, path: str) -> None:
    """One record into all tables; one that infer-forge ships and the store holds too stands once."""
    if connection.execute("UPDATE records SET path=? WHERE id=?", (path, record.id)).rowcount:
        return
    row = connection.execute(
        "INSERT INTO records(id, path, kind, title, created, claim, metric, value, unit, verdict, contract, fenced, summary)"
        " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)",
        _columns(record, path),
    ).lastrowid
    dims = [(d, v, row, s) for d, v, s in record.dimensions()]
    connection.executemany("INSERT OR IGNORE INTO dims VALUES(?,?,?,?)", dims)
    connection.executemany("INSERT INTO links VALUES(?,?,?)", [(row, link.rel, link.id) for link in record.links])
    if record.idea is not None:
        place = (record.idea.repository, record.idea.path, record.idea.symbol, row)
        connection.execute("INSERT INTO ideas VALUES(?,?,?,?)", place)
    superseded = [(record.id, link.id) for link in record.links if link.rel == "supersedes"]
    connection.executemany("UPDATE records SET superseded_by=? WHERE id=?", superseded)
    later = connection.execute(
        "SELECT r.id FROM links l JOIN records r ON r.rowid=l.rowid WHERE l.target=? AND l.rel='supersedes'",
        (record.id,),
    ).fetchone()
    if later:
        connection.execute("UPDATE records SET superseded_by=? WHERE rowid=?", (later[0], row))
    title, symptoms, body = record.title, "\n".join(record.symptoms), f"{record.body}\n{_words_of_fields(record)}"
    humps = words.compounds(f"{title} {symptoms} {body}")
    values = (row, words.spaced(title), words.spaced(symptoms), words.spaced(body), humps)
    connection.execute("INSERT INTO fts(rowid, title, symptoms, body, humps) VALUES(?,?,?,?,?)", values)


def _columns(record: Record, path: str) -> tuple[object, ...]:
    summary = " ".join(record.body.split())[:_SUMMARY_CHARS]
    fields = (
        record.id,
        path,
        record.kind,
        record.title,
        record.created.astimezone(datetime.timezone.utc).isoformat(),
        record.claim,
        record.metric,
    )
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
