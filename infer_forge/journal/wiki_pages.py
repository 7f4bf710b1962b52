"""The wiki's pages, computed from records and from nothing else: one a model, GPU, kernel family and framework, one a record.

Every claim line names the record it stands on and that record's sha256, so that a reader and `wiki lint` can check it. Pages
are made one at a time from the index, so that a journal of any size needs the memory of its largest page.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from infer_forge.journal.model import Record

# Dimension -> folder of its pages, and the heading over its links on other pages.
SUBJECTS = {
    "model": ("models", "Models"),
    "gpu": ("gpus", "GPUs"),
    "kernel_family": ("kernels", "Kernel families"),
    "framework": ("frameworks", "Frameworks"),
}
# Kinds in the order in which a page shows them.
SECTIONS = {
    "result": "Results",
    "rejection": "Rejected",
    "pitfall": "Measurement pitfalls",
    "crash_case": "Crashes",
    "profile_digest": "Profiles",
    "ncu_digest": "Nsight Compute digests",
    "pr_card": "Pull requests",
    "task_record": "Tasks",
    "handoff": "Handoffs",
    "note": "Notes",
}
LOOSE = "Without a page of their own"
SUPERSEDED = "Superseded"
_DIMS = ",".join(f"'{d}'" for d in SUBJECTS)
_UNSAFE = re.compile(r"[^a-z0-9.+]+")
_FIGURES = "r.id, r.kind, r.title, r.created, r.claim, r.metric, r.value, r.unit, r.verdict, r.fenced, r.superseded_by, r.sha256"
_NO_SUBJECT = f"NOT EXISTS (SELECT 1 FROM dims d WHERE d.rowid=r.rowid AND d.dim IN ({_DIMS}))"


class Claim(NamedTuple):
    """One line: what a record says, in its own figures and title, and the record it stands on."""

    text: str
    id: str
    sha256: str


@dataclass
class WikiPage:
    """One page.

    Attributes:
        path: below the wiki's folder, without ending: `models/deepseek-v3`.
        sections: heading -> claims. links: heading -> (title, path) of other pages. body: a record's own text.
        sources: (id, sha256) of the records that it stands on.
    """

    path: str
    title: str
    sections: dict[str, list[Claim]] = field(default_factory=dict[str, list[Claim]])
    links: dict[str, list[tuple[str, str]]] = field(default_factory=dict[str, list[tuple[str, str]]])
    body: str = ""
    facts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    sources: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def slug(value: str) -> str:
    """A file name for a value; values that differ get names that differ, but for case, spaces and dashes."""
    plain = _UNSAFE.sub("-", value.casefold()).strip("-.")
    if not plain or len(plain) > 80 or re.search(r"[^a-z0-9. -]", value.casefold()):
        plain = f"{plain[:60]}-{hashlib.sha256(value.encode()).hexdigest()[:8]}".strip("-")
    return plain


def subject_path(dim: str, value: str) -> str:
    """Path of the page of a value."""
    return f"{SUBJECTS[dim][0]}/{slug(value)}"


def subjects_of(record: Record) -> list[tuple[str, str]]:
    """(dimension, value) of the pages that a record belongs to."""
    return list(dict.fromkeys((d, v) for d, v, _ in record.dimensions() if d in SUBJECTS))


@dataclass
class Subject:
    """A page of a value: the values that share it (they differ in case or separators), and a hash of what it is made from."""

    dim: str
    values: list[str]
    made_from: str

    @property
    def path(self) -> str:
        """Of its page."""
        return subject_path(self.dim, self.values[0])


def subjects(db: sqlite3.Connection) -> dict[str, Subject]:
    """path -> page of every value of the records, in order."""
    values: dict[str, tuple[str, dict[str, None]]] = {}
    hashes: dict[str, Any] = {}
    sql = (
        "SELECT d.dim, d.value, r.id, r.sha256, r.superseded_by IS NOT NULL FROM dims d JOIN records r ON r.rowid=d.rowid"
        f" WHERE d.dim IN ({_DIMS}) ORDER BY r.id, d.dim, d.value"
    )
    paths: dict[tuple[str, str], str] = {}
    for dim, value, record, sha, gone in db.execute(sql):
        path = paths.get((dim, value)) or paths.setdefault((dim, value), subject_path(dim, value))
        values.setdefault(path, (dim, {}))[1][value] = None
        hashes.setdefault(path, hashlib.sha256()).update(f"{value}\0{record}\0{sha}\0{gone}\n".encode())
    return {p: Subject(dim, list(found), hashes[p].hexdigest()) for p, (dim, found) in sorted(values.items())}


def subject_page(db: sqlite3.Connection, subject: Subject) -> WikiPage:
    """The page of a value: claims by kind, the newest first, and the pages beside it."""
    page = WikiPage(subject.path, subject.values[0])
    held = f"d.dim=? AND d.value IN ({','.join('?' * len(subject.values))})"
    values = [subject.dim, *subject.values]
    sql = (
        f"SELECT DISTINCT {_FIGURES} FROM dims d JOIN records r ON r.rowid=d.rowid WHERE {held}"
        " ORDER BY r.created DESC, r.id DESC"
    )
    found: dict[str, list[Claim]] = {}
    for row in db.execute(sql, values):
        heading = SUPERSEDED if row[10] else SECTIONS[row[1]]
        found.setdefault(heading, []).append(_claim(row))
    page.sections = {h: found[h] for h in (*SECTIONS.values(), SUPERSEDED) if h in found}
    page.sources = sorted((c.id, c.sha256) for claims in found.values() for c in claims)
    sql = (
        f"SELECT DISTINCT o.dim, o.value FROM dims d JOIN dims o ON o.rowid=d.rowid WHERE {held} AND o.dim IN ({_DIMS})"
    )
    for dim, value in sorted(db.execute(sql, values)):
        path = subject_path(dim, value)
        if path != page.path:
            page.links.setdefault(SUBJECTS[dim][1], []).append((value, path))
    page.links = dict(sorted(page.links.items()))
    return page


def _claim(row: tuple[Any, ...]) -> Claim:
    """A record in one line, in nothing but its own words and figures, each with the kind of claim that it is (C68);
    `row`: the columns `_FIGURES`."""
    record, _, title, created, claim, metric, value, unit, verdict, fenced, _, sha = row
    figure = f"{metric or 'value'} {value:g}{' ' + unit if unit else ''}" if value is not None else ""
    marks = [claim or "", figure, verdict or "", "fenced: superseded claim epoch" if fenced else ""]
    told = "; ".join(m for m in marks if m)
    return Claim(f"{created[:10]}: {title}" + (f" ({told})" if told else ""), record, sha)


def record_page(db: sqlite3.Connection, record: Record, sha256: str) -> WikiPage:
    """A record's own page: its facts, the pages it belongs to, records linked with it both ways, and its text."""
    page = WikiPage(f"records/{record.id}", record.title, body=record.body, sources=[(record.id, sha256)])
    page.facts = _facts(record, sha256)
    belongs = subjects_of(record)
    if belongs:
        page.links["Pages"] = [(v, subject_path(d, v)) for d, v in belongs]
    linked: list[tuple[str, str]] = []
    for link in record.links:
        named = db.execute("SELECT title FROM records WHERE id=?", (link.id,)).fetchone()
        if named:
            linked.append((f"{named[0]} (this {link.rel} it)", f"records/{link.id}"))
    sql = "SELECT r.title, l.rel, r.id FROM links l JOIN records r ON r.rowid=l.rowid WHERE l.target=? ORDER BY r.id"
    linked += [(f"{title} ({rel} this)", f"records/{other}") for title, rel, other in db.execute(sql, (record.id,))]
    if linked:
        page.links["Records"] = linked
    return page


def _facts(record: Record, sha256: str) -> list[tuple[str, str]]:
    facts = [("kind", record.kind), ("created", record.created.isoformat()), ("sha256", sha256)]
    facts += [(d, v) for d, v, _ in record.dimensions() if d not in ("kind", "date")]
    if record.value is not None:
        facts.append((record.metric or "value", f"{record.value:g} {record.unit or ''}".strip()))
    if record.idea is not None:
        facts.append(("idea", " ".join(p for p in (record.idea.repository, record.idea.path, record.idea.symbol) if p)))
    facts += [("artifact", f"{a.path} sha256 {a.sha256}") for a in record.artifacts]
    return facts + [("symptom", s) for s in record.symptoms]


def index_page(db: sqlite3.Connection, every: Iterable[Subject]) -> WikiPage:
    """The first page: links to all values, and the records that have no page but their own, the newest first."""
    index = WikiPage("index", "Journal")
    by_dim: dict[str, list[tuple[str, str]]] = {}
    count = 0
    for subject in every:
        by_dim.setdefault(subject.dim, []).append((subject.values[0], subject.path))
        count += 1
    for dim, (_, heading) in SUBJECTS.items():
        if dim in by_dim:
            index.links[heading] = sorted(by_dim[dim])
    sql = f"SELECT {_FIGURES} FROM records r WHERE {_NO_SUBJECT} ORDER BY r.id DESC"
    loose = [_claim(row) for row in db.execute(sql)]
    if loose:
        index.sections[LOOSE] = loose
        index.sources = sorted((c.id, c.sha256) for c in loose)
    records = db.execute("SELECT count(*) FROM records").fetchone()[0]
    index.facts = [("records", str(records)), ("pages", str(records + count))]
    return index


def loose_records(db: sqlite3.Connection) -> list[str]:
    """Ids of the store's records that belong to no page of a value (of those that infer-forge ships nobody here can say more)."""
    sql = f"SELECT r.id FROM records r WHERE {_NO_SUBJECT} AND r.path NOT LIKE 'shipped/%' ORDER BY r.id"
    return [r[0] for r in db.execute(sql)]
