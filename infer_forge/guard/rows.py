"""Secrets in the rows of a SQLite file, read through SQL: in the file itself the columns of a row stand without anything between them.

File format: sqlite.org/fileformat2, "Record Format".
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

from infer_forge.base import redact

MAGIC = b"SQLite format 3\0"
_BLOCK = 4 * 1024 * 1024


def secrets_of(path: Path) -> dict[bytes, str]:
    """The bytes of every secret that stands in a row -> its kind; empty where the file is no SQLite file or has none.

    Raises:
        ValueError: its tables cannot be read.
    """
    with open(path, "rb") as file:
        if file.read(len(MAGIC)) != MAGIC or not _may_hold(file):
            return {}
    found: dict[bytes, str] = {}
    try:
        db = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True)
    except sqlite3.Error as exc:
        raise ValueError(f"its tables cannot be read: {exc}") from None
    try:
        db.text_factory = bytes
        utf16 = b"16" in db.execute("pragma encoding").fetchone()[0]
        names = [n for (n,) in db.execute("select name from sqlite_master where type = 'table' and sql is not null")]
        for name in names:
            _rows(db, name, utf16, found)
    except sqlite3.Error as exc:
        raise ValueError(f"its tables cannot be read: {exc}") from None
    finally:
        db.close()
    return found


def _may_hold(file: Any) -> bool:
    """Whether the raw bytes show a beginning of a secret at all: reading every row of a large export takes minutes."""
    file.seek(0)
    keep = b""
    while block := file.read(_BLOCK):
        if redact.may_hold(keep + block) or redact.may_hold((keep + block).replace(b"\0", b"")):
            return True
        keep = block[-64:]
    return False


def _quoted(name: bytes) -> str:
    return '"{}"'.format(name.decode("utf-8", "replace").replace('"', '""'))


def _rows(db: sqlite3.Connection, name: bytes, utf16: bool, found: dict[bytes, str]) -> None:
    table = _quoted(name)
    try:
        columns = [_quoted(row[1]) for row in db.execute(f"pragma table_info({table})")]
        wordy = " or ".join(f"typeof({c}) in ('text', 'blob')" for c in columns)  # rows of numbers never reach Python
        rows = db.execute(f"select * from {table} where {wordy}")
    except sqlite3.OperationalError as exc:
        if "no such module" in str(exc):  # a virtual table; its contents lie in ordinary tables beside it
            return
        raise
    for row in rows:
        for value in row:
            if isinstance(value, bytes) and redact.may_hold(value):
                text = value.decode("utf-8", "surrogateescape")
                for hit in redact.find(text):
                    secret = text[hit.start : hit.end]
                    found[secret.encode("utf-16-le" if utf16 else "utf-8", "surrogateescape")] = hit.kind
