"""The cards of pull requests: a SQLite file in the cache, made from checkouts (and saved API output) and rebuildable from them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import sqlite3
from collections.abc import Generator, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from infer_forge.base.paths import paths
from infer_forge.journal import words
from infer_forge.journal.families import Families
from infer_forge.journal.gitlog import FileChange, LoggedCommit
from infer_forge.journal.pr_numbers import number_of, reverts_of, title_of

SHAPE = "2"
_TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE repos(id INTEGER PRIMARY KEY, name TEXT UNIQUE, path TEXT, framework TEXT, tip TEXT, families TEXT, commits INTEGER);
CREATE TABLE cards(
  id INTEGER PRIMARY KEY, repo INTEGER, pos INTEGER, number INTEGER, state TEXT, sha TEXT, head_sha TEXT, time TEXT,
  title TEXT, body TEXT, added INTEGER, removed INTEGER, symbols TEXT, topics TEXT, reverts TEXT, reverted_by TEXT,
  in_source INTEGER, source TEXT);
CREATE UNIQUE INDEX cards_by_sha ON cards(repo, sha) WHERE sha IS NOT NULL;
CREATE INDEX cards_by_number ON cards(repo, number);
CREATE TABLE files(card INTEGER, path TEXT, added INTEGER, removed INTEGER, renamed_from TEXT);
CREATE INDEX files_by_card ON files(card);
CREATE INDEX files_by_path ON files(path);
CREATE TABLE families(card INTEGER, family TEXT, share REAL, PRIMARY KEY(family, card)) WITHOUT ROWID;
CREATE VIRTUAL TABLE fts USING fts5(title, symbols, files, body, humps, tokenize="unicode61 remove_diacritics 2");
"""


def history_file() -> Path:
    """Where the cards lie."""
    return paths().cache / "journal" / "pr-history.sqlite"


@contextlib.contextmanager
def opened(*, write: bool = False) -> Generator[sqlite3.Connection]:
    """The cards' file, made when it is missing, damaged or of another shape. Writers take turns."""
    file = history_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        if write or not _right(file):
            lock = stack.enter_context(open(file.with_suffix(".lock"), "w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not _right(file):
            for old in (file, file.with_name(file.name + "-wal"), file.with_name(file.name + "-shm")):
                old.unlink(missing_ok=True)
            _make(file)
        connection = sqlite3.connect(file, timeout=60, isolation_level=None)
        stack.callback(connection.close)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        yield connection


def _right(file: Path) -> bool:
    if not file.is_file():
        return False
    with contextlib.closing(sqlite3.connect(file, timeout=60)) as connection:
        try:
            row = connection.execute("SELECT value FROM meta WHERE key='shape'").fetchone()
            return row is not None and row[0] == SHAPE
        except sqlite3.DatabaseError:
            return False


def _make(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file, timeout=60, isolation_level=None)) as connection:
        connection.executescript(_TABLES)
        connection.execute("INSERT INTO meta VALUES('shape', ?)", (SHAPE,))


def insert_commit(db: sqlite3.Connection, repo: int, pos: int, commit: LoggedCommit, families: Families) -> bool:
    """The card of a commit; False when it is neither a pull request nor takes one back."""
    number = number_of(commit.subject, commit.body)
    numbers, shas = reverts_of(commit.subject, commit.body)
    if number is None and not (numbers or shas):
        return False
    fields = {
        "repo": repo,
        "pos": pos,
        "number": number,
        "state": "merged",
        "sha": commit.sha,
        "time": commit.time,
        "title": title_of(commit.subject, commit.body),
        "body": commit.body,
        "reverts": json.dumps([*sorted(numbers), *sorted(shas)]) if numbers or shas else None,
        "in_source": 1,
        "source": "git_log",
    }
    insert_card(db, fields, commit.files, commit.symbols, families)
    return True


def insert_card(
    db: sqlite3.Connection, fields: dict[str, Any], files: list[FileChange], symbols: list[str], families: Families
) -> None:
    """One card into all tables. `fields` are columns of `cards`; lines, symbols, topics and families are added here."""
    text = f"{fields['title']} {' '.join(f.path for f in files[:50])} {' '.join(symbols)}"
    more = {
        "added": sum(f.added for f in files),
        "removed": sum(f.removed for f in files),
        "symbols": json.dumps(symbols),
        "topics": json.dumps(families.topics_of(text.lower())),
    }
    row = fields | more
    card = db.execute(
        f"INSERT INTO cards({', '.join(row)}) VALUES({', '.join('?' * len(row))})", list(row.values())
    ).lastrowid
    assert card is not None
    db.executemany(
        "INSERT INTO files VALUES(?,?,?,?,?)", [(card, f.path, f.added, f.removed, f.renamed_from) for f in files]
    )
    db.executemany(
        "INSERT OR IGNORE INTO families VALUES(?,?,?)", family_rows(card, fields["title"], files, symbols, families)
    )
    index_words(db, card, str(fields["title"]), str(fields.get("body") or ""), [f.path for f in files], symbols)


def family_rows(
    card: int, title: str, files: Iterable[FileChange], symbols: Iterable[str], families: Families
) -> list[tuple[int, str, float]]:
    """(card, family, share of its files) of the families that files, symbols or title name."""
    counts: dict[str, int] = {}
    total = 0
    for file in files:
        total += 1
        for family in families.of_path(file.path):
            counts[family] = counts.get(family, 0) + 1
    for family in families.of_text(f"{title} {' '.join(symbols)}"):
        counts.setdefault(family, 0)
    return [(card, family, count / max(total, 1)) for family, count in counts.items()]


def index_words(db: sqlite3.Connection, card: int, title: str, body: str, files: list[str], symbols: list[str]) -> None:
    """A card's words into the search table."""
    shown = " ".join(files[:100])
    named = " ".join(symbols)
    values = (
        card,
        words.spaced(title),
        named,
        shown,
        words.spaced(body),
        _names_in(title, body, files[:100], symbols),
    )
    db.execute("INSERT INTO fts(rowid, title, symbols, files, body, humps) VALUES(?,?,?,?,?,?)", values)


_compounds = lru_cache(maxsize=100_000)(words.compounds)


def _names_in(title: str, body: str, files: list[str], symbols: list[str]) -> str:
    """What is indexed for the identifiers of a card; paths and symbols come again and again, so theirs are kept."""
    return " ".join([words.compounds(f"{title} {body}"), *map(_compounds, files), *map(_compounds, symbols)])


def drop_cards(db: sqlite3.Connection, ids: list[int]) -> None:
    """Take cards out of all tables."""
    for card in ids:
        for table, column in (("files", "card"), ("families", "card"), ("fts", "rowid"), ("cards", "id")):
            db.execute(f"DELETE FROM {table} WHERE {column}=?", (card,))
