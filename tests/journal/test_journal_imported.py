"""What an import tells beside what it refused: new and known, fields that nobody understood, notes that came in before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.gitstore import Store
from infer_forge.base.records import Report
from infer_forge.journal.exchange import import_notes, import_pitfalls, read_mapping
from infer_forge.journal.search import search

MAPPING = "fields: {summary: title, date: created}\ndims: {card: gpu}\n"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("---\nsummary: old finding\ndate: 2026-01-02\ncard: H200\n---\nmoe is slow\n")
    (folder / "b.md").write_text("---\ntitle: another one\ncard: H100\nextra: {ticket: T-1}\n---\nfine\n")
    return folder


def imported(store: Store, notes: Path, mapping: str | None = None, **more: Any) -> Report:
    file = None
    if mapping is not None:
        file = notes.parent / "map.yaml"
        file.write_text(mapping)
    return import_notes(store, notes, read_mapping(file), **more)


def codes(report: Report) -> list[str]:
    return [f.code for f in report.findings]


def test_fields_that_nobody_understands_are_told_with_how_to_map_them(store: Store, notes: Path) -> None:
    report = imported(store, notes, dry_run=True)
    assert report.summary == ["2 records would be imported, 0 refused"]
    assert report.tables["unknown_fields"].rows == [("card", 2), ("date", 1), ("summary", 1)]
    (found,) = report.findings
    assert found.code == "FIELDS_NOT_UNDERSTOOD"
    assert "card (2), date (1), summary (1)" in found.message
    assert str(found.next_step).startswith("give --mapping FILE, YAML: `dims: {card: DIMENSION}`")
    assert "framework" in str(found.next_step)


def test_what_is_mapped_or_kept_on_purpose_is_understood(store: Store, notes: Path) -> None:
    assert codes(imported(store, notes, MAPPING)) == []
    some = imported(store, notes, "fields: {summary: title, date: extra}\n", dry_run=True)
    assert some.tables["unknown_fields"].rows == [("card", 2)]
    assert str(some.findings[-1].next_step).startswith("add to the mapping: ")


def test_a_field_of_a_note_that_is_refused_is_not_told_as_kept(store: Store, notes: Path) -> None:
    (notes / "c.md").write_text("---\ntitle: bad one\nplace: there\nvalue: .nan\n---\n")
    report = imported(store, notes, MAPPING)
    assert len(report.tables["refused"].rows) == 1
    assert codes(report) == []


def test_an_import_that_is_repeated_counts_what_is_new_and_what_was_known(store: Store, notes: Path) -> None:
    imported(store, notes, MAPPING)
    (notes / "c.md").write_text("---\ntitle: a third one\n---\n")
    again = imported(store, notes, MAPPING)
    assert again.summary == ["1 records imported, 2 known already, 0 refused"]
    assert again.tables["imported"].rows == [("note", 3, 1)]
    assert (again.extra["new"], again.extra["known"], len(again.extra["ids"])) == (1, 2, 3)
    whole = imported(store, notes, MAPPING, dry_run=True)
    assert whole.summary == ["0 records would be imported, 3 known already, 0 refused"]
    first, second = import_pitfalls(store), import_pitfalls(store)
    assert (first.extra["known"], second.extra["new"]) == (0, 0)


def test_a_note_twice_in_one_import_is_one_new_record(store: Store, tmp_path: Path) -> None:
    line = '{"title": "the same", "source": "s", "created": "2026-01-02T00:00:00Z"}\n'
    (tmp_path / "a.jsonl").write_text(line + line)
    report = import_notes(store, tmp_path / "a.jsonl", read_mapping(None))
    assert report.summary == ["1 records imported, 1 known already, 0 refused"]


def test_notes_that_name_one_source_are_not_taken_for_one_note(store: Store, tmp_path: Path) -> None:
    head = '{"source": "team wiki", "created": "2026-01-02T00:00:00Z", "title": '
    for title in ("first one", "second one"):
        (tmp_path / "a.jsonl").write_text(f'{head}"{title}"}}\n')
        assert codes(import_notes(store, tmp_path / "a.jsonl", read_mapping(None))) == []


def test_notes_that_came_in_before_without_the_mapping_are_told_and_one_can_replace_the_other(
    store: Store, notes: Path
) -> None:
    first = imported(store, notes).extra["ids"]
    foretold = imported(store, notes, MAPPING, dry_run=True)
    report = imported(store, notes, MAPPING)
    assert codes(foretold) == codes(report) == ["HERE_OTHERWISE"]
    rows = report.tables["here_otherwise"].rows
    assert foretold.tables["here_otherwise"].rows == rows
    assert [(Path(p).name, new, old) for p, new, old in rows] == [
        (name, new, old) for name, new, old in zip(("a.md", "b.md"), report.extra["ids"], first, strict=True)
    ]
    assert codes(imported(store, notes, MAPPING)) == []  # nothing new
    told = str(report.findings[0].next_step)
    assert f"`links: [{{rel: supersedes, id: {first[0]}}}]`" in told
    (notes / "a.md").write_text(
        (notes / "a.md").read_text().replace("card:", f"links: [{{rel: supersedes, id: {first[0]}}}]\ncard:")
    )
    last = imported(store, notes, MAPPING)
    assert [row[2] for row in last.tables["here_otherwise"].rows] == [report.extra["ids"][0]]
    assert first[0] not in [h.id for h in search(store, "moe", {})]
