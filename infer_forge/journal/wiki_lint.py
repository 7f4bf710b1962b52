"""Lint of the wiki, by rules alone: stale pages, unsourced claims, orphans, metrics that contradict each other at one point."""

from __future__ import annotations

import posixpath
import re
import sqlite3
from collections import defaultdict
from pathlib import Path
from typing import Any

from infer_forge.base import contracts, jsonio
from infer_forge.base.errors import ForgeError, UsageFault
from infer_forge.base.gitstore import Store
from infer_forge.base.records import Finding, Header, Report
from infer_forge.base.tables import Table
from infer_forge.journal import markdown
from infer_forge.journal.answers import artifact_state
from infer_forge.journal.compare import plain_point
from infer_forge.journal.index import ask
from infer_forge.journal.model import Record
from infer_forge.journal.wiki_build import records_of
from infer_forge.journal.wiki_pages import (
    LOOSE,
    SECTIONS,
    SUPERSEDED,
    WikiPage,
    index_page,
    loose_records,
    record_page,
    subject_page,
    subjects,
)
from infer_forge.journal.wiki_site import MANIFEST, to_markdown, wiki_folder

# Two current figures of one metric at one deployment point and contract may differ by run-to-run noise; more contradicts.
CONTRADICTION_PCT = 5.0
_CLAIM = re.compile(r"^- (?P<text>.*?)(?: \[(?P<id>[\w-]+)\]\([^)]*\) `sha256:(?P<sha>[0-9a-f]+)`)?$")
_CLAIMS = {*SECTIONS.values(), SUPERSEDED, LOOSE}
_LINK = re.compile(r"\]\(([^)\s]+\.md)\)")
_SERIOUS = ("STALE", "UNSOURCED", "ORPHAN_PAGE", "CONTRADICTION", "NO_RECORD")
_NEXT = {
    "STALE": "infer-forge journal wiki build",
    "UNSOURCED": "record it: infer-forge journal add FILE, then build the wiki; pages are not written by hand",
    "ORPHAN_PAGE": "infer-forge journal wiki build",
    "ORPHAN_RECORD": "give its successor a model, GPU, kernel family or framework",
    "CONTRADICTION": "measure again under the contract, and let the new record supersede the wrong one",
    "ARTIFACT_CHANGED": "restore the file, or measure again",
    "ARTIFACT_GONE": "restore the file, or measure again",
    "NO_RECORD": "look at the file with git show; archived records are not edited",
}


def lint_wiki(store: Store, folder: Path | None = None) -> Report:
    """Hold a built Markdown wiki against the records. `extra["ok"]`: nothing serious was found.

    Raises:
        UsageFault: no Markdown wiki lies there.
    """
    place = folder or wiki_folder()
    manifest: Any = jsonio.read_json(place / MANIFEST) if (place / MANIFEST).is_file() else None
    if not manifest or manifest.get("html"):
        raise UsageFault("no Markdown wiki lies here", where=str(place), next_step="infer-forge journal wiki build")
    return ask(store, lambda db: _Lint(store, db, place).report())


class _Lint:
    """One look at a wiki: every page that the records give is made and held against its file, one after the other."""

    def __init__(self, store: Store, db: sqlite3.Connection, place: Path) -> None:
        self.store, self.db, self.place = store, db, place
        self.rows: list[tuple[str, str, str]] = []
        self.linked: set[str] = {"index"}
        self.unseen = {p.relative_to(place).as_posix()[:-3] for p in place.rglob("*.md")}
        self.found = len(self.unseen)
        self.every = set(self.unseen)

    def report(self) -> Report:
        """What is wrong, rule by rule."""
        self.rows += [("NO_RECORD", *row) for row in self.db.execute("SELECT path, what FROM faults ORDER BY path")]
        every = subjects(self.db)
        for subject in every.values():
            self._hold(subject_page(self.db, subject))
        self._hold(index_page(self.db, every.values()))
        records = self._records()
        for path in sorted(self.unseen):
            text = self._text(path)
            self.rows += self._unsourced(path, text)
            self.rows.append(("STALE", path, "no record gives this page"))
        self.rows += [("ORPHAN_PAGE", p, "nothing links to it") for p in sorted(self.every - self.linked)]
        self.rows += [("ORPHAN_RECORD", r, "belongs to no page") for r in loose_records(self.db)]
        return _report(self.place, self.rows, len(every) + records + 1)

    def _records(self) -> int:
        gone = {r[0] for r in self.db.execute("SELECT id FROM records WHERE superseded_by IS NOT NULL")}
        groups: dict[tuple[Any, ...], list[tuple[float, str]]] = defaultdict(list)
        artifacts: list[tuple[str, str, str]] = []
        count = 0
        for record, sha in records_of(self.store, self.db):
            count += 1
            self._hold(record_page(self.db, record, sha))
            if record.id in gone:
                continue
            if record.kind == "result" and record.value is not None and not record.epoch_fenced:
                groups[_same_work(record)].append((record.value, record.id))
            states = ((a.path, artifact_state(a)) for a in record.artifacts)
            artifacts += [(f"ARTIFACT_{s.upper()}", record.id, path) for path, s in states if s != "same"]
        self.rows += _contradictions(groups) + artifacts
        return count

    def _text(self, path: str) -> str:
        """A page's text; what it links to is noted."""
        text = (self.place / f"{path}.md").read_bytes().decode("utf-8", "replace")  # line ends as they are
        folder = posixpath.dirname(path)
        self.linked |= {posixpath.normpath(posixpath.join(folder, t))[:-3] for t in _LINK.findall(text)}
        return text

    def _hold(self, page: WikiPage) -> None:
        """A page against its file."""
        if page.path not in self.unseen:
            self.rows.append(("STALE", page.path, "is missing"))
            return
        self.unseen.discard(page.path)
        text = self._text(page.path)
        if text != to_markdown(page):
            self.rows += self._unsourced(page.path, text)
            self.rows.append(("STALE", page.path, "is not what the records give now"))

    def _unsourced(self, path: str, text: str) -> list[tuple[str, str, str]]:
        """Claim lines without a record, with an unknown one, or with a hash that is not the record's."""
        try:
            body = markdown.split(text, path)[1]
        except ForgeError:
            return [("UNSOURCED", path, "has no front matter that names its sources")]
        rows: list[tuple[str, str, str]] = []
        heading = ""
        for line in body.splitlines():
            heading = line[3:] if line.startswith("## ") else heading
            if heading not in _CLAIMS or not line.strip() or line.startswith("## "):
                continue
            match = _CLAIM.match(line)
            if match is None or match["id"] is None:
                rows.append(("UNSOURCED", path, f"no record is named: {line[:120]}"))
                continue
            known = self.db.execute("SELECT sha256 FROM records WHERE id=?", (match["id"],)).fetchone()
            if known is None:
                rows.append(("UNSOURCED", path, f"no such record: {match['id']}"))
            elif not known[0].startswith(match["sha"]):
                rows.append(("STALE", path, f"{match['id']} has another hash"))
        return rows


def _report(place: Path, rows: list[tuple[str, str, str]], pages: int) -> Report:
    report = Report("journal_wiki_lint", Header(thresholds={"contradiction_pct": CONTRADICTION_PCT}))
    report.add(Table("faults", ["rule", "where", "what"], rows))
    counts: dict[str, int] = defaultdict(int)
    for rule, _, _ in rows:
        counts[rule] += 1
    report.findings = [
        Finding(r, f"{n} found", "error" if r in _SERIOUS else "warning", figure=n, next_step=_NEXT[r])
        for r, n in sorted(counts.items())
    ]
    ok = not any(r in _SERIOUS for r in counts)
    report.extra = {"ok": ok, "counts": dict(counts)}
    report.summary = [f"{pages} pages in {place}: {len(rows)} faults" + ("" if ok else ", some of them serious")]
    report.next_step = (
        report.findings[0].next_step if report.findings else "read it, or serve it: infer-forge journal wiki serve"
    )
    return report


def _same_work(record: Record) -> tuple[Any, ...]:
    """Two figures of equal keys state the same: one claim, deployment point, contract, metric, unit and scenario."""
    point = contracts.point_sha256(plain_point(record.deployment_point)) if record.deployment_point else None
    named = tuple(
        (d, tuple(sorted(v))) for d, v in sorted(record.dims.items()) if d not in ("topic", "author", "verdict")
    )
    return record.claim, point, record.contract_sha256, record.metric, record.unit, named


def _contradictions(groups: dict[tuple[Any, ...], list[tuple[float, str]]]) -> list[tuple[str, str, str]]:
    """Groups of current results whose figures differ by more than noise."""
    rows: list[tuple[str, str, str]] = []
    for key, members in groups.items():
        (low, first), (high, second) = min(members), max(members)
        if low != high and (high - low) > CONTRADICTION_PCT / 100 * max(abs(low), abs(high)):
            told = f"{key[3]}: {low:g} and {high:g} at one point"
            rows.append(("CONTRADICTION", f"{first} {second}", told))
    return rows
