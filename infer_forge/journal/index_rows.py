"""What the index keeps of one file of the store, as plain values: made without the index, so that helpers can make them."""

from __future__ import annotations

import datetime
import hashlib
from pathlib import Path
from typing import Any, NamedTuple

from infer_forge.base.errors import ForgeError, InputUnusable
from infer_forge.journal import markdown, words
from infer_forge.journal.model import Record

COLUMNS = (
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
    "sha256",
)
"""Columns of the table `records` that a row gives."""


class IndexRow(NamedTuple):
    """One file's rows in all tables of the index.

    Attributes:
        fault: why the file is no record; the rest is empty then.
        columns: values of `COLUMNS`. dims: (dimension, value, source). links: (rel, target).
        idea: (repository, path, symbol). texts: (title, symptoms, body, parts of identifiers) as the word index takes them.
    """

    path: str
    fault: str | None
    columns: tuple[Any, ...] = ()
    dims: tuple[tuple[str, str, str], ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    idea: tuple[str, str, str | None] | None = None
    texts: tuple[str, str, str, str] = ("", "", "", "")

    @property
    def id(self) -> str:
        """The record's id; empty for a fault."""
        return self.columns[0] if self.columns else ""


def row_of_file(path: str, content: bytes) -> IndexRow:
    """The row of a file; one that is no record, or not the one that its name says, is a fault."""
    try:
        record = markdown.read(content.decode("utf-8", "replace"), path)
        if not record.id or Path(path).stem != record.id:
            raise InputUnusable(f"its id is {record.id or 'not stated'}, not its file's name", where=path)
    except ForgeError as exc:
        return IndexRow(path, str(exc))
    return row_of_record(record, path, hashlib.sha256(content).hexdigest())


def row_of_record(record: Record, path: str, sha256: str | None = None) -> IndexRow:
    """The row of a record; `sha256` of its file, counted from what the writer writes where there is no file."""
    sha256 = sha256 or hashlib.sha256(markdown.write(record).encode()).hexdigest()
    dims = record.dimensions()
    title, symptoms = record.title, "\n".join(record.symptoms)
    body = f"{record.body}\n{_words_of_fields(record, dims)}"
    humps = words.compounds(f"{title} {symptoms} {body}")
    return IndexRow(
        path,
        None,
        _columns(record, path, sha256),
        tuple(dims),
        tuple((link.rel, link.id) for link in record.links),
        (record.idea.repository, record.idea.path, record.idea.symbol) if record.idea else None,
        (words.spaced(title), words.spaced(symptoms), words.spaced(body), humps),
    )


def _columns(record: Record, path: str, sha256: str) -> tuple[Any, ...]:
    created = record.created.astimezone(datetime.timezone.utc).isoformat()
    named = (record.id, path, record.kind, record.title, created, record.claim, record.metric)
    return (*named, record.value, record.unit, record.verdict, record.contract_sha256, int(record.epoch_fenced), sha256)


def _words_of_fields(record: Record, dims: list[tuple[str, str, str]]) -> str:
    """Front matter that people search for by word: dimension values, the idea's place, artifact names."""
    values = [v for _, v, _ in dims]
    if record.idea is not None:
        values += [record.idea.repository, record.idea.path, record.idea.symbol or ""]
    values += [Path(a.path).name for a in record.artifacts]
    values += [f"{r.tool} {r.first or ''} {r.fixed_in or ''}" for r in record.applies_to]
    return " ".join(values)
