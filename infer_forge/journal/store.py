"""The journal's git store: records go in once and stay as they are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from infer_forge.base import redact
from infer_forge.base.config import settings
from infer_forge.base.errors import InputUnusable
from infer_forge.base.gitstore import Changes, Refuse, Snapshot, Store
from infer_forge.base.paths import paths
from infer_forge.journal import markdown
from infer_forge.journal.model import Record, new_id

REF = "refs/journal/records"


def open_store(path: Path | None = None) -> Store:
    """The journal's repository: this machine's, following the team's hub when the settings name one."""
    return Store.open(path or paths().store("journal"), settings().get("remotes.journal"))


def record_path(record_id: str) -> str:
    """Where a record lies: by month and two digits of its hash, so that no folder grows large."""
    return f"records/{record_id[:6]}/{record_id[-2:]}/{record_id}.md"


def add(store: Store, records: Iterable[Record]) -> list[str]:
    """Write records; gives their ids. The same record again changes nothing.

    Secrets are replaced by a mark before anything is written. An artifact hash or id never changes afterwards: a correction
    is a new record that supersedes.

    Raises:
        Refused: another record has this id.
    """
    files: dict[str, str] = {}
    ids: list[str] = []
    for record in records:
        clean = markdown.read(redact.redact(markdown.write(record)))
        clean.id = new_id(clean)
        ids.append(clean.id)
        files[record_path(clean.id)] = markdown.write(clean)

    def decide(now: Snapshot) -> Changes | Refuse:
        new: dict[str, bytes | str] = {}
        for path, text in files.items():
            there = now.get(path)
            if there is None:
                new[path] = text
            elif there != text.encode():
                return Refuse(
                    f"another record lies at {path}", "archived records never change: add one that supersedes it"
                )
        return Changes(put=new)

    if files:
        title = f"record {ids[0]}" if len(ids) == 1 else f"record {len(ids)} records"
        store.update(REF, decide, title)
    return ids


def get(store: Store, record_id: str) -> Record:
    """One record.

    Raises:
        InputUnusable: no record has this id.
    """
    text = store.read(REF).get(record_path(record_id)) if len(record_id) > 8 else None
    if text is None:
        raise InputUnusable(f"no record has the id {record_id!r}", next_step="infer-forge journal search finds ids")
    return markdown.read(text.decode(), record_id)
