"""What an import has to tell: what was new, which fields it did not understand, and what was there before in other words."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence, Set

from infer_forge.base.gitstore import Store
from infer_forge.base.records import Finding, Report
from infer_forge.base.tables import Column, Table
from infer_forge.journal.dimensions import DIMENSIONS
from infer_forge.journal.index import ask
from infer_forge.journal.model import Record
from infer_forge.journal.store import REF, get, record_path

_NAMED = 8


def known(store: Store, ids: Iterable[str]) -> set[str]:
    """Those of the ids under which the store holds a record."""
    now = store.read(REF)
    return {one for one in ids if now.get(record_path(one)) is not None}


def otherwise(
    store: Store, new: Sequence[Record], places: Set[str], times: Sequence[str]
) -> list[tuple[str, str, str]]:
    """(place, the new record's id, the older one's) of notes that an earlier import took from the same place in another form.

    Args:
        places: of the notes; one that names a source of its own is not looked for, since others may have it too.
        times: `created` of the records to look among, ISO in UTC: the notes' own, and those that their files give them.
    """
    wanted = {str(r.source) for r in new} & places
    by_source: dict[str, list[str]] = {}
    for one in _made_at(store, sorted(set(times))) if wanted else ():
        source = str(get(store, one).source)
        if source in wanted:
            by_source.setdefault(source, []).append(one)
    return [
        (str(r.source), r.id, old) for r in new for old in by_source.get(str(r.source), ()) if old not in _replaced(r)
    ]


def _replaced(record: Record) -> set[str]:
    return {record.id} | {link.id for link in record.links if link.rel == "supersedes"}


def _made_at(store: Store, times: Sequence[str]) -> list[str]:
    """Ids of the store's records of these times that no later one supersedes."""

    def look(db: sqlite3.Connection) -> list[str]:
        query = "SELECT id FROM records WHERE created=? AND superseded_by IS NULL AND path LIKE 'records/%'"
        return [one for time in times for (one,) in db.execute(query, (time,))]

    return ask(store, look)


def tell_unknown(report: Report, fields: Counter[str], mapping_given: bool) -> None:
    """Say which fields are no field or dimension of a record: they stand in `extra`, which no filter and no comparison sees."""
    if not fields:
        return
    report.add(Table("unknown_fields", [Column("field", "text"), "records"], fields.most_common()))
    named = ", ".join(f"{name} ({count})" for name, count in fields.most_common(_NAMED))
    more = f" and {len(fields) - _NAMED} more" if len(fields) > _NAMED else ""
    first = fields.most_common(1)[0][0]
    file = "add to the mapping" if mapping_given else "give --mapping FILE, YAML"
    step = f"{file}: `dims: {{{first}: DIMENSION}}` or `fields: {{{first}: FIELD}}` (`extra` keeps it as it is); "
    report.findings.append(
        Finding(
            "FIELDS_NOT_UNDERSTOOD",
            f"kept in extra, where no filter finds them: {named}{more}",
            next_step=f"{step}dimensions: {', '.join(DIMENSIONS)}",
        )
    )


def tell_otherwise(report: Report, found: list[tuple[str, str, str]]) -> None:
    """Say which notes are here twice now: a record never changes, so that another mapping makes another record."""
    if not found:
        return
    report.add(Table("here_otherwise", [Column(n, "text") for n in ("place", "record", "older")], found))
    place, _, older = found[0]
    count = len({new for _, new, _ in found})
    report.findings.append(
        Finding(
            "HERE_OTHERWISE",
            f"{count} of these notes came in before in another form, and both records stay: the first is {place}",
            next_step=f"where the new one is to replace it, the note says so: `links: [{{rel: supersedes, id: {older}}}]`",
        )
    )
