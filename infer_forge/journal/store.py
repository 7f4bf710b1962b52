"""The journal's git store: records go in once and stay as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from infer_forge.base import redact
from infer_forge.base.config import settings
from infer_forge.base.errors import InputUnusable
from infer_forge.base.gitstore import Changes, HubUnreachable, Refuse, Snapshot, Store
from infer_forge.base.gitstore.remote import tracking
from infer_forge.base.paths import paths
from infer_forge.base.records import Header, Report
from infer_forge.journal import markdown, shipped
from infer_forge.journal.model import Record, new_id

REF = "refs/journal/records"
ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{10}")
"""The shape of a record's id (`model.new_id`)."""


def open_store(path: Path | None = None) -> Store:
    """The journal's repository: this machine's, following the team's hub when the settings name one."""
    return Store.open(path or paths().store("journal"), settings().get("remotes.journal"))


def record_path(record_id: str) -> str:
    """Where a record lies: by month and two digits of its hash, so that no folder grows large."""
    return f"records/{record_id[:6]}/{record_id[-2:]}/{record_id}.md"


def add(store: Store, records: Iterable[Record]) -> list[str]:
    """Write records; gives their ids. The same record again changes nothing.

    Secrets are replaced by a mark before anything is written. An archived record never changes afterwards: a correction
    is a new record that supersedes. Where the team's hub does not answer they are kept here (see `unsent`) and sent later.

    Raises:
        Refused: another record has this id. HubUnreachable: it cannot be told whether the hub has them: add them again.
    """
    return put(store, as_kept(records))


def put(store: Store, kept: Sequence[Record]) -> list[str]:
    """Write records as `as_kept` gives them; see `add`."""
    ids = [record.id for record in kept]
    files = {record_path(record.id): markdown.write(record) for record in kept}

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
        try:
            store.update(REF, decide, title)
        except HubUnreachable as exc:
            if exc.outcome_unknown:
                raise
            store.update(REF, decide, title, local=True)  # new files alone: they reach the hub with the next update
    return ids


def as_kept(records: Iterable[Record]) -> list[Record]:
    """Records as `add` writes them: secrets replaced by a mark, under their ids."""
    secrets = redact.environment_secrets()
    kept = [without_secrets(record, secrets) for record in records]
    for record in kept:
        record.id = new_id(record)
    return kept


def unsent(store: Store) -> bool:
    """Whether records lie here that the team's hub has not yet."""
    mine = store.tips(REF).get(REF)
    return store.remote is not None and mine is not None and store.tips(tracking(REF)).get(tracking(REF)) != mine


def sync_report(store: Store) -> Report:
    """Bring records that wait here to the team's hub, and the team's here.

    Raises:
        HubUnreachable: the hub does not answer; nothing is lost.
    """
    done = store.sync(REF)
    report = Report("journal_sync", Header())
    sent, got = bool(done.pushed or done.replayed), bool(done.pulled)
    report.extra = {"remote": store.remote.url if store.remote else None, "sent": sent, "received": got}
    if store.remote is None:
        report.summary = ["no hub is named in the settings (remotes.journal): the journal is of this machine alone"]
    else:
        report.summary = [f"records {'sent' if sent else 'none to send'}, {'received' if got else 'none to receive'}"]
    report.next_step = "infer-forge journal filter"
    return report


def without_secrets(record: Record, known: dict[str, str]) -> Record:
    """The record with each secret replaced by a mark: known formats, and the values of secret variables (`known`)."""
    fields = record.model_dump(mode="json", exclude_defaults=True) | {"body": record.body}
    clean = _masked(fields, known)
    return record.model_copy(deep=True) if clean == fields else markdown.make(clean)


def _masked(value: Any, known: dict[str, str]) -> Any:
    if isinstance(value, str):
        return redact.redact(value, known)
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {redact.redact(k, known): _masked(v, known) for k, v in items}
    if isinstance(value, list):
        return [_masked(v, known) for v in cast("list[Any]", value)]
    return value


def get(store: Store, record_id: str) -> Record:
    """One record, of the store or one that infer-forge ships.

    Raises:
        InputUnusable: no record has this id.
    """
    if ID.fullmatch(record_id):
        path = record_path(record_id)
        text = store.read(REF).get(path)
        if text is not None:
            return markdown.read(text.decode("utf-8", "replace"), path)
        built_in = shipped.records().get(record_id)
        if built_in is not None:
            return built_in.model_copy(deep=True)
    raise InputUnusable(f"no record has the id {record_id!r}", next_step="infer-forge journal search WORDS finds ids")
