"""The search index: SQLite with FTS5, rebuilt from the store whenever it is missing, damaged or of another shape.

It is keyed by the store's tree. What is new since then is found by comparing folders of the tree (git shares unchanged
ones), so that one added record among 100,000 costs a few reads.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TypeVar

from infer_forge.base import jsonio
from infer_forge.base.errors import ForgeError
from infer_forge.base.gitstore import Snapshot, Store
from infer_forge.base.paths import paths
from infer_forge.journal import shipped
from infer_forge.journal.index_helpers import Blob, read_rows
from infer_forge.journal.index_rows import row_of_record
from infer_forge.journal.index_tables import TABLES, insert_rows
from infer_forge.journal.store import REF

T = TypeVar("T")

# Changes whenever the tables, their order or the words of the index change: an index of another number is made anew.
SHAPE = "9"
# From so many new records on the word index is merged into one piece.
_MANY = 2000
_GONE = "/(gone)"
# Bytes of words that FTS5 gathers in memory before it writes a segment: larger segments, fewer merges.
_HASH_BYTES = 32 << 20


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
    try:
        for setting in ("journal_mode=WAL", "synchronous=NORMAL", "mmap_size=2147483648", "cache_size=-131072"):
            connection.execute(f"PRAGMA {setting}")
    except BaseException:
        connection.close()
        raise
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
        _make(file, snapshot)
        return _connect(file)


def _make(file: Path, snapshot: Snapshot) -> None:
    """A new index, made aside and put in place whole: nobody sees half a one, so that it needs no journal of its own."""
    new = file.with_suffix(".new")
    new.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as connection:
        for setting in ("journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE", "cache_size=-131072"):
            connection.execute(f"PRAGMA {setting}")
        connection.executescript(TABLES)
        connection.execute("INSERT INTO fts(fts, rank) VALUES('hashsize', ?)", (_HASH_BYTES,))
        insert_rows(connection, [row_of_record(r, f"shipped/{r.id}") for r in shipped.records().values()])
        connection.execute("INSERT INTO meta VALUES('shape', ?)", (_shape(),))
        _add_new(connection, snapshot)
    with open(new, "rb") as whole:
        os.fsync(whole.fileno())
    os.replace(new, file)


def _add_new(connection: sqlite3.Connection, snapshot: Snapshot) -> bool:
    """Add what the store has more, oldest first; False when the index holds what the store has not (then nothing was changed)."""
    known: dict[str, str] = dict(connection.execute("SELECT path, tree FROM folders"))
    months = {f"records/{m.rstrip('/')}" for m in snapshot.children("records")}
    if {k for k in known if k.count("/") == 1} - months:
        return False
    fresh: dict[str, str] = {}
    blobs: list[Blob] = []
    connection.execute("BEGIN IMMEDIATE")
    try:
        for folder in _changed_folders(snapshot, sorted(months), known, fresh):
            gone, new = _new_files(connection, snapshot, folder)
            if gone or folder.endswith(_GONE):
                connection.execute("ROLLBACK")
                return False
            blobs += new
        blobs.sort(key=lambda blob: blob[0].rpartition("/")[2])  # names begin with the time
        _fill(connection, snapshot.gitdir, blobs)
        connection.executemany("INSERT OR REPLACE INTO folders VALUES(?, ?)", fresh.items())
        connection.execute("INSERT OR REPLACE INTO meta VALUES('tree', ?)", (snapshot.tree or "",))
        connection.execute("COMMIT")
    except ForgeError:
        connection.close()
        raise
    return True


def _fill(connection: sqlite3.Connection, gitdir: Path, blobs: list[Blob]) -> None:
    """Rows of files into the index; many of them without merges on the way, and merged once at the end."""
    many = len(blobs) > _MANY
    if many:
        connection.execute("INSERT INTO fts(fts, rank) VALUES('automerge', 0)")
        connection.execute("INSERT INTO fts(fts, rank) VALUES('crisismerge', 1000)")
    insert_rows(connection, read_rows(gitdir, blobs), len(blobs))
    if many:
        connection.execute("INSERT INTO fts(fts) VALUES('optimize')")
        connection.execute("INSERT INTO fts(fts, rank) VALUES('automerge', 4)")
        connection.execute("INSERT INTO fts(fts, rank) VALUES('crisismerge', 16)")
        _count_common(connection)


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


def _new_files(connection: sqlite3.Connection, snapshot: Snapshot, folder: str) -> tuple[set[str], list[Blob]]:
    """Indexed files of a folder that the store no longer has, and the files that are not indexed yet."""
    span = (f"{folder}/", f"{folder}0")
    there = {r[0] for r in connection.execute("SELECT path FROM records WHERE path BETWEEN ? AND ?", span)}
    there |= {r[0] for r in connection.execute("SELECT path FROM faults WHERE path BETWEEN ? AND ?", span)}
    files = snapshot.files_in(folder)
    return there - {f"{folder}/{n}" for n in files}, [
        (f"{folder}/{n}", sha) for n, sha in files.items() if f"{folder}/{n}" not in there
    ]
