"""Records in from a team's old notes (Markdown, JSON or JSONL, with a mapping), and out as JSONL."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Any, cast

from infer_forge.base import jsonio
from infer_forge.base.errors import ForgeError, InputUnusable
from infer_forge.base.gitstore import Store
from infer_forge.base.inputs import finite
from infer_forge.base.records import Header, Report
from infer_forge.base.tables import Table
from infer_forge.base.yamlio import read_yaml
from infer_forge.journal import imported, markdown, shipped
from infer_forge.journal.model import DEEPEST, DIMENSIONS, KINDS, Record, deeper_than, new_id
from infer_forge.journal.store import ID, REF, as_kept, put

_FIELDS = set(Record.model_fields) - {"id"}
_MOST_BYTES = 4 << 20
_TOO_LARGE = f"larger than {_MOST_BYTES >> 20} MiB"
_NO_TEXT = "is no UTF-8 text: save it as UTF-8"


def read_mapping(path: Path | None) -> dict[str, Any]:
    """`{"fields": {theirs: ours}, "dims": {theirs: dimension}, "defaults": {ours: value}}` from a YAML or JSON file.

    Raises:
        InputUnusable: it is no mapping, or names a field or dimension that records do not have.
    """
    if path is None:
        return {"fields": {}, "dims": {}, "defaults": {}}
    data = read_yaml(path)
    known = ("fields", "dims", "defaults")
    given = cast("dict[str, dict[str, Any] | None]", data) if isinstance(data, dict) else {"": None}
    if set(given) - set(known):
        raise InputUnusable("must be a mapping with fields, dims and defaults", where=str(path))
    mapping: dict[str, dict[str, Any]] = {k: given.get(k) or {} for k in known}
    parts: dict[str, Any] = {**mapping}
    defaults = parts["defaults"]
    if isinstance(defaults, dict):
        told = cast("dict[str, Any]", defaults)
        parts |= {f"defaults.{k}": told.get(k, {}) for k in ("dims", "extra")}
    for name, part in parts.items():
        if not isinstance(part, dict):
            raise InputUnusable(f"{name} is no mapping", where=str(path))
    unknown = {str(v) for v in (*mapping["fields"].values(), *mapping["defaults"])} - _FIELDS - {"dims"}
    unknown |= {str(v) for v in mapping["dims"].values()} - set(DIMENSIONS)
    if unknown:
        raise InputUnusable(f"records have no {', '.join(sorted(unknown))}", where=str(path))
    return mapping


_Source = tuple[str, dict[str, Any], str, float]


def _files(folder: Path) -> list[Path]:
    """Every file below a folder but those in hidden folders such as `.git`; or the one file.

    Raises:
        InputUnusable: the one is a pipe or a device.
    """
    if not folder.is_dir():
        return [finite(folder)]
    found = (p for p in folder.rglob("*") if not any(n.startswith(".") for n in p.relative_to(folder).parts))
    return sorted(p for p in found if p.is_file())


def _sources(files: list[Path], faults: list[tuple[str, str]], others: list[Path]) -> Iterator[_Source]:
    """(place, their fields, body, mtime) of every Markdown file, JSON object and JSONL line; `others` gets the rest."""
    for file in files:
        kind = file.suffix.lower()
        if kind in (".md", ".markdown"):
            if file.stat().st_size > _MOST_BYTES:
                faults.append((str(file), _TOO_LARGE))
                continue
            try:
                text = _text(file.read_bytes(), str(file))
                head, body = markdown.split(text, str(file)) if text.startswith("---") else ({}, text)
            except ForgeError as exc:
                faults.append((str(file), exc.what))
                continue
            yield str(file), head, body if _has_our_id(head) else body.replace("\r\n", "\n"), file.stat().st_mtime
        elif kind in (".jsonl", ".ndjson"):
            yield from _lines(file, faults)
        elif kind == ".json":
            yield from _objects(file, faults)
        else:
            others.append(file)


def _text(data: bytes, place: str) -> str:
    """What stands in a file, without its byte order mark. Nothing is guessed: a record never changes afterwards.

    Raises:
        InputUnusable: it is no UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputUnusable(_NO_TEXT, where=place) from None


def _objects(file: Path, faults: list[tuple[str, str]]) -> Iterator[_Source]:
    """One object, or a list of them; each is a record."""
    if file.stat().st_size > _MOST_BYTES:
        faults.append((str(file), _TOO_LARGE))
        return
    try:
        data: Any = jsonio.loads(file.read_bytes(), where=str(file))
    except ForgeError as exc:
        faults.append((str(file), exc.what))
        return
    rows = cast("list[Any]", data) if isinstance(data, list) else [data]
    for number, row in enumerate(rows):
        yield _of_json(f"{file}#{number}" if len(rows) > 1 else str(file), row, file.stat().st_mtime)


def _of_json(place: str, data: Any, mtime: float) -> _Source:
    plain: dict[str, Any] = {"body": json.dumps(data)}
    row = cast("dict[str, Any]", data) if isinstance(data, dict) else plain
    body = row.pop("body", None)
    return place, row, str(body if body is not None else row.pop("text", "")), mtime


def _lines(file: Path, faults: list[tuple[str, str]]) -> Iterator[_Source]:
    mtime = file.stat().st_mtime
    with open(file, "rb") as lines:
        number, whole = 0, True
        while line := lines.readline(_MOST_BYTES):
            begins, whole = whole, line.endswith(b"\n") or len(line) < _MOST_BYTES
            if not begins:  # the rest of one that was told
                continue
            number += 1
            place = f"{file}:{number}"
            try:
                if not whole:
                    raise InputUnusable(_TOO_LARGE, where=place)
                text = _text(line, place)
                fields: Any = jsonio.loads(text, where=place) if text.strip() else None
            except ForgeError as exc:
                faults.append((place, exc.what))
                continue
            if text.strip():
                yield _of_json(place, fields, mtime)


def _has_our_id(theirs: dict[str, Any]) -> bool:
    told = theirs.get("id")
    return isinstance(told, str) and ID.fullmatch(told) is not None


def _unchanged(place: str, theirs: dict[str, Any], body: str) -> Record | None:
    """The record that was exported or shown, line for line: its id is made of its content. None where somebody edited it.

    A door ends what it shows with a line end, so the text may have one more than the record has.
    """
    for text in (body, body.removesuffix("\n")):
        try:
            record = markdown.make({**theirs, "body": text}, place)
        except ForgeError:
            return None
        if new_id(record) == theirs["id"]:
            return record
    return None


def _record(
    place: str, theirs: dict[str, Any], body: str, mtime: float, mapping: dict[str, Any], strange: set[str]
) -> Record:
    """The record of one note; `strange` gets the fields that neither records nor the mapping know."""
    if _has_our_id(theirs):
        same = None if any(mapping.values()) else _unchanged(place, theirs, body)
        if same is not None:
            return same
        theirs = {"source": None, **theirs}
        del theirs["id"]  # what was edited is another record
    if not theirs and not body.strip():
        raise InputUnusable("is empty", where=place)
    fields: dict[str, Any] = dict(mapping["defaults"])
    dims: dict[str, Any] = dict(fields.pop("dims", {}))
    extra: dict[str, Any] = dict(fields.pop("extra", {}))
    for key, value in theirs.items():
        name = mapping["fields"].get(str(key), key)
        if name in ("dims", "extra") and isinstance(value, dict):  # as in a record of ours
            (dims if name == "dims" else extra).update(cast("dict[str, Any]", value))
        elif str(key) in mapping["dims"] or (key in DIMENSIONS and key not in _FIELDS):
            dims[mapping["dims"].get(str(key), key)] = value
        elif name in _FIELDS - {"dims", "extra"}:
            fields[name] = value
        elif deeper_than(value, DEEPEST):
            raise InputUnusable(f"{key}: is nested more than {DEEPEST} deep", where=place)
        else:
            strange |= set() if str(key) in mapping["fields"] else {str(key)}
            extra[str(key)] = (
                jsonio.loads(jsonio.dumps(value)) if not isinstance(value, (datetime.date,)) else value.isoformat()
            )
    if "body" in fields:  # by the mapping
        body = "\n\n".join(str(part) for part in (fields.pop("body"), body) if part)
    first = next((line.strip("# \t") for line in body.splitlines() if line.strip("# \t")), "")
    fields.setdefault("title", next((t for t in (first[:300], Path(place).stem) if len(t) >= 3), Path(place).name))
    fields.setdefault("kind", "note")
    fields.setdefault("created", _time(mtime))
    fields.setdefault("source", place)
    return markdown.make({**fields, "dims": dims, "extra": extra, "body": body}, place)


def _time(mtime: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(mtime, datetime.timezone.utc)


def import_notes(store: Store, folder: Path, mapping: dict[str, Any], *, dry_run: bool = False) -> Report:
    """Bring notes in; what cannot be read is told with its place, the rest goes in. Repeating it adds nothing twice.

    Told beside it: how many were new, fields that nobody understood, and notes that came in before in another form.
    Files of other kinds (and hidden folders) are left out; the table `other_files` counts them by ending.
    """
    good: list[Record] = []
    faults: list[tuple[str, str]] = []
    others: list[Path] = []
    unknown, places, times = Counter[str](), set[str](), set[str]()
    for place, theirs, body, mtime in _sources(_files(folder), faults, others):
        strange = set[str]()
        try:
            good.append(_record(place, theirs, body, mtime, mapping, strange))
        except ForgeError as exc:
            faults.append((place, exc.what))
            continue
        unknown.update(sorted(strange))
        places.add(place)
        times |= {_time(mtime).isoformat(), good[-1].created.astimezone(datetime.timezone.utc).isoformat()}
    if not good and not faults:
        raise InputUnusable(
            "holds no Markdown, JSON or JSONL", where=str(folder), next_step="name a folder of notes, or convert them"
        )
    report = _imported(store, good, faults, dry_run, places, sorted(times))
    imported.tell_unknown(report, unknown, any(mapping.values()))
    return _told_of(others, report)


def _told_of(others: list[Path], report: Report) -> Report:
    """Say what was not looked at: silence would read as "all imported"."""
    if not others:
        return report
    by_ending: dict[str, list[Path]] = {}
    for file in others:
        by_ending.setdefault(file.suffix.lower() or "(none)", []).append(file)
    rows = [(ending, len(files), str(files[0])) for ending, files in sorted(by_ending.items())]
    report.add(Table("other_files", ["ending", "files", "first"], rows))
    report.summary.append(f"{len(others)} files left out: neither Markdown nor JSON nor JSONL")
    return report


def import_pitfalls(store: Store, *, dry_run: bool = False) -> Report:
    """Write the shipped measurement pitfalls into the store, under the ids that they have anyway."""
    return _imported(store, list(shipped.records().values()), [], dry_run)


def _imported(
    store: Store,
    good: list[Record],
    faults: list[tuple[str, str]],
    dry_run: bool,
    places: Set[str] = frozenset(),
    times: Sequence[str] = (),
) -> Report:
    kept = as_kept(good)
    here = imported.known(store, {r.id for r in kept})
    new = {r.id: r for r in kept if r.id not in here}
    before = imported.otherwise(store, list(new.values()), places, times)
    ids = [] if dry_run else put(store, kept)
    report = Report("journal_import", Header(more={"dry_run": dry_run}))
    kinds = {k: (sum(r.kind == k for r in good), sum(r.kind == k for r in new.values())) for k in KINDS}
    report.add(Table("imported", ["kind", "records", "new"], [(k, *n) for k, n in kinds.items() if n[0]]))
    report.add(Table("refused", ["place", "why"], faults))
    report.extra = {"ids": ids, "new": len(new), "known": len(kept) - len(new)}
    verb = "would be imported" if dry_run else "imported"
    there = f", {len(kept) - len(new)} known already" if len(kept) > len(new) else ""
    report.summary = [f"{len(new)} records {verb}{there}, {len(faults)} refused"]
    imported.tell_otherwise(report, before)
    report.next_step = "the same command without --dry-run" if dry_run else "infer-forge journal filter"
    if faults and not good:
        report.next_step = "mend what was refused, and import it again"
    return report


def export(store: Store, faults: list[tuple[str, str]] | None = None) -> Iterator[bytes]:
    """Every record of the store as one JSON line (fields and body), oldest folder first; streamed.

    `faults` gets (path, why) of files that are no record; without it the first one raises.
    """
    for path, content in store.read(REF).items("records/"):
        try:
            record = markdown.read(content.decode("utf-8", "replace"), path)
        except ForgeError as exc:
            if faults is None:
                raise
            faults.append((path, exc.what))
            continue
        yield jsonio.dumps(record.model_dump(mode="json", exclude_defaults=True) | {"body": record.body}) + b"\n"
