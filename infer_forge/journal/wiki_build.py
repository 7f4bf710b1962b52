"""Build the wiki: every page that is not what it was made from is written, one after the other; the rest is left as it is."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from infer_forge.base import jobs, jsonio
from infer_forge.base.errors import UsageFault
from infer_forge.base.gitstore import Store
from infer_forge.base.records import Header, Report
from infer_forge.base.tables import Table
from infer_forge.journal import markdown, shipped
from infer_forge.journal.index import ask
from infer_forge.journal.model import Record
from infer_forge.journal.store import REF
from infer_forge.journal.wiki_pages import Subject, WikiPage, index_page, record_page, subject_page, subjects
from infer_forge.journal.wiki_site import MANIFEST, STYLE, search_script, search_text, to_html, to_markdown, wiki_folder

# Changes when pages look different: all are written anew.
_FORM = 4
# What the search box's script may hold of texts: a browser loads it whole.
_SEARCH_CHARS = 24_000_000
_SEARCH_CHARS_A_RECORD = 1500
_Stamp = tuple[int, int, str]


def build_wiki(store: Store, out: Path | None = None, *, html_site: bool = False) -> Report:
    """Write the pages that changed; pages of an earlier build that no longer belong go, other files are left alone.

    Raises:
        UsageFault: the folder holds other things and no wiki.
    """
    folder = out or wiki_folder(html_site)
    if folder.exists() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        raise UsageFault(
            "holds files and is no wiki", where=str(folder), next_step="name an empty folder with --folder"
        )
    return ask(store, lambda db: _Build(store, db, folder, html_site).report())


def records_of(store: Store, db: sqlite3.Connection) -> Iterator[tuple[Record, str]]:
    """(record, sha256 of its file) of all records in the index, oldest first, read one at a time."""
    snapshot = store.read(REF)
    for record_id, path, sha in db.execute("SELECT id, path, sha256 FROM records ORDER BY id"):
        yield _record(snapshot.get(path), record_id, path), sha


def _record(content: bytes | None, record_id: str, path: str) -> Record:
    if content is None:
        return shipped.records()[record_id]
    return markdown.read(content.decode("utf-8", "replace"), path)


def linked(db: sqlite3.Connection) -> dict[str, str]:
    """id -> hash of the links that a record's page shows, of records that have some."""
    found: dict[str, Any] = {}
    sql = (
        "SELECT a.id, a.title, l.rel, b.id, b.title FROM links l JOIN records a ON a.rowid=l.rowid"
        " JOIN records b ON b.id=l.target ORDER BY a.id, l.rel, b.id"
    )
    for row in db.execute(sql):
        for record in {row[0], row[3]}:
            found.setdefault(record, hashlib.sha256()).update(repr(row).encode())
    return {record: digest.hexdigest()[:16] for record, digest in found.items()}


class _Build:
    """One build: `files` says of each file what it was made from, and how it lies there (size, time of its last change)."""

    def __init__(self, store: Store, db: sqlite3.Connection, folder: Path, html_site: bool) -> None:
        self.store, self.db, self.folder, self.html_site = store, db, folder, html_site
        self.ending = "html" if html_site else "md"
        self.files: dict[str, _Stamp] = {}
        self.changed = 0
        self.old_names, self.old = self._manifest()

    def _manifest(self) -> tuple[set[str], dict[str, Any]]:
        """(names that an earlier build wrote, what is known of them where it made them in the same form)."""
        file = self.folder / MANIFEST
        read: Any = jsonio.read_json(file) if file.is_file() else {}
        names: set[str] = set(read.get("files", ()))
        same = (read.get("form"), read.get("html")) == (_FORM, self.html_site)
        return names, read["files"] if same else {}

    def report(self) -> Report:
        """Build, and say what was done."""
        every = subjects(self.db)
        for path, subject in every.items():
            self._page(path, subject.made_from, lambda subject=subject: subject_page(self.db, subject))
        records = self._records()
        self._page("index", "", lambda: index_page(self.db, every.values()), always=True)
        searched = self._site_files(every.values(), records) if self.html_site else None
        for name in self.old_names - set(self.files):
            (self.folder / name).unlink(missing_ok=True)
        manifest = {"form": _FORM, "tree": self.store.read(REF).tree, "html": self.html_site, "files": self.files}
        jsonio.write_atomic(self.folder / MANIFEST, jsonio.dumps(manifest))
        return self._told(every.values(), records, manifest["tree"], searched)

    def _told(self, every: Iterable[Subject], records: int, tree: Any, searched: int | None) -> Report:
        report = Report("journal_wiki", Header())
        report.header.coverage = {"records": records, "tree": tree}
        kinds: dict[str, int] = {"index": 1, "records": records}
        for subject in every:
            name = subject.path.split("/")[0]
            kinds[name] = kinds.get(name, 0) + 1
        report.add(Table("pages", ["folder", "pages"], sorted(kinds.items())))
        faults = self.db.execute("SELECT path, what FROM faults ORDER BY path").fetchall()
        report.add(Table("no_records", ["path", "why"], faults))
        report.extra = {"folder": str(self.folder), "written": self.changed}
        pages = sum(kinds.values())
        report.summary = [f"{pages} pages from {records} records in {self.folder}; {self.changed} files changed"]
        if searched is not None and searched < _SEARCH_CHARS_A_RECORD:
            report.summary.append(f"the search box knows the first {searched} characters of each record's text")
        report.next_step = f"open {self.folder / 'index'}.{self.ending}; infer-forge journal wiki lint"
        return report

    def _page(self, path: str, made_from: str, make: Callable[[], WikiPage], *, always: bool = False) -> None:
        name = f"{path}.{self.ending}"
        if always or not self._as_it_was(name, made_from):
            page = make()
            self._write(name, made_from, [to_html(page) if self.html_site else to_markdown(page)])

    def _as_it_was(self, name: str, made_from: str) -> bool:
        """Whether a file was made from the same, and nobody touched it since."""
        known = self.old.get(name)
        if known is None or known[2] != made_from:
            return False
        try:
            stat = os.stat(self.folder / name)
        except OSError:
            return False
        if (stat.st_size, stat.st_mtime_ns) != (known[0], known[1]):
            return False
        self.files[name] = (known[0], known[1], made_from)
        return True

    def _write(self, name: str, made_from: str, pieces: Iterable[str]) -> None:
        """Write a file unless it holds the same. Not flushed to the disk: what a crash leaves unwhole is written again."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(f".{file.name}.new")
        with open(new, "wb") as target:
            for piece in pieces:
                target.write(piece.encode("utf-8", "replace"))
        if file.is_file() and _equal(file, new):
            new.unlink()
        else:
            os.replace(new, file)
            self.changed += 1
        stat = file.stat()
        self.files[name] = (stat.st_size, stat.st_mtime_ns, made_from)

    def _records(self) -> int:
        """The pages of records; only those that must be written are read."""
        links, snapshot = linked(self.db), self.store.read(REF)
        rows = self.db.execute("SELECT id, path, sha256 FROM records ORDER BY id")
        count = 0
        for count, (record_id, path, sha) in enumerate(rows, 1):
            made_from = f"{sha[:16]}{links.get(record_id, '')}"

            def make(record_id: str = record_id, path: str = path, sha: str = sha) -> WikiPage:
                return record_page(self.db, _record(snapshot.get(path), record_id, path), sha)

            self._page(f"records/{record_id}", made_from, make)
            if count % 1000 == 0:
                jobs.progress(count, None, "wiki: records")
        return count

    def _site_files(self, every: Iterable[Subject], records: int) -> int:
        """Style and search of the site; how many characters of each record's text can be searched."""
        self._write("style.css", "", [STYLE])
        most = min(_SEARCH_CHARS_A_RECORD, _SEARCH_CHARS // max(records, 1))
        digest = hashlib.sha256(repr(sorted((n, f[2]) for n, f in self.files.items())).encode()).hexdigest()

        def rows() -> Iterator[tuple[str, str, str]]:
            for subject in every:
                yield subject.path, subject.values[0], ""
            for record, sha in records_of(self.store, self.db):
                yield f"records/{record.id}", record.title, search_text(record_page(self.db, record, sha), most)

        if not self._as_it_was("search.js", digest):
            self._write("search.js", digest, search_script(rows()))
        return most


def _equal(first: Path, second: Path) -> bool:
    return first.stat().st_size == second.stat().st_size and first.read_bytes() == second.read_bytes()
