"""The index is the same however it came to be: by helpers or without, at once or record by record."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infer_forge.base import workers
from infer_forge.base.errors import InputUnusable
from infer_forge.base.gitstore import Changes, Store
from infer_forge.journal import add, index_helpers, markdown, words
from infer_forge.journal.index import ask, index_file
from infer_forge.journal.model import Record, new_id
from infer_forge.journal.search import search
from infer_forge.journal.store import REF, record_path

OTHER_VERSION = "from infer_forge.journal import index_helpers as h; h.COLUMNS = ('id',); h.serve()"


def note(number: int, **more: Any) -> Record:
    fields = {
        "kind": "note",
        "title": f"note {number}",
        "created": f"2026-11-{1 + number % 28:02}T{number % 24:02}:00:00Z",
    }
    return markdown.make(fields | {"body": f"text of fused_moe_kernel {number} 激活", "dims": {"gpu": ["H200"]}} | more)


def filled(store: Store, count: int) -> list[tuple[str, str]]:
    """Records and one file that is none; (path, sha) of each."""
    put: dict[str, bytes | str] = {"records/202611/zz/broken.md": "no front matter"}
    for number in range(count):
        record = note(number)
        record.id = new_id(record)
        put[record_path(record.id)] = markdown.write(record)
    store.update(REF, lambda _: Changes(put=put), "fill")
    return list(store.read(REF).entries("records/").items())


def content(store: Store) -> dict[str, list[Any]]:
    """What the index holds, by record id, in no order."""

    def look(db: Any) -> dict[str, list[Any]]:
        db.execute("CREATE VIRTUAL TABLE temp.v USING fts5vocab(main, fts, instance)")
        questions = {
            "records": "SELECT id, path, kind, title, created, superseded_by FROM records",
            "dims": "SELECT r.id, d.dim, d.value, d.source FROM dims d JOIN records r USING(rowid)",
            "links": "SELECT r.id, l.rel, l.target FROM links l JOIN records r ON r.rowid=l.rowid",
            "words": "SELECT r.id, v.term, v.col, v.offset FROM temp.v JOIN records r ON r.rowid=v.doc",
            "faults": "SELECT path, what FROM faults",
            "folders": "SELECT path, tree FROM folders",
        }
        return {name: sorted(db.execute(sql).fetchall(), key=repr) for name, sql in questions.items()}

    return ask(store, look)


def test_helpers_give_the_rows_that_one_process_gives_in_the_same_order(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = filled(store, 450)
    alone = list(index_helpers.read_rows(store.gitdir, blobs))
    monkeypatch.setattr(index_helpers, "MANY", 10)
    monkeypatch.setattr(workers, "cores", lambda: 3)
    assert list(index_helpers.read_rows(store.gitdir, blobs)) == alone
    assert sum(row.fault is not None for row in alone) == 1


def test_few_records_start_no_helper(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a helper was started")

    monkeypatch.setattr(workers, "start", refuse)
    assert len(list(index_helpers.read_rows(store.gitdir, filled(store, 20)))) == 21


@pytest.mark.parametrize(
    "program", ["raise SystemExit(3)", "import sys; sys.stdin.buffer.read(9); print('x' * 4)", OTHER_VERSION]
)
def test_what_a_helper_fails_on_is_read_without_it(store: Store, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    blobs = filled(store, 450)
    alone = list(index_helpers.read_rows(store.gitdir, blobs))
    monkeypatch.setattr(index_helpers, "MANY", 10)
    monkeypatch.setattr(workers, "cores", lambda: 2)
    monkeypatch.setattr(index_helpers, "_PROGRAM", program)
    assert list(index_helpers.read_rows(store.gitdir, blobs)) == alone


def test_a_damaged_object_is_told_whoever_meets_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = filled(store, 450)
    sha = blobs[300][1]
    file = store.gitdir / "objects" / sha[:2] / sha[2:]
    file.chmod(0o644)
    file.write_bytes(zlib.compress(b"blob 1\0x"))
    monkeypatch.setattr(index_helpers, "MANY", 10)
    monkeypatch.setattr(workers, "cores", lambda: 2)
    with pytest.raises(InputUnusable, match="content is not what its name says"):
        list(index_helpers.read_rows(store.gitdir, blobs))
    with pytest.raises(InputUnusable):
        search(store, "text")


def test_an_index_made_at_once_equals_one_made_record_by_record(store: Store, seeded: random.Random) -> None:
    ids: list[str] = []
    for number in range(40):
        links = [{"rel": "supersedes", "id": seeded.choice(ids)}] if ids and number % 3 == 0 else []
        ids += add(store, [note(seeded.randrange(10_000), links=links)])
        search(store, "text")
    step_by_step = content(store)
    index_file(store).unlink()
    assert content(store) == step_by_step


def test_the_newest_of_several_successors_is_named_whichever_came_first(store: Store) -> None:
    (old,) = add(store, [note(1)])
    successors = [note(n, links=[{"rel": "supersedes", "id": old}]) for n in (9, 20, 4)]
    for successor in successors:
        add(store, [successor])
        search(store, "text")
    sql = "SELECT superseded_by FROM records WHERE id=?"
    assert ask(store, lambda db: db.execute(sql, (old,)).fetchone()) == (new_id(successors[1]),)


def test_an_index_made_at_once_numbers_records_by_time(store: Store) -> None:
    filled(store, 60)
    rows = ask(store, lambda db: db.execute("SELECT created FROM records WHERE kind='note' ORDER BY rowid").fetchall())
    assert rows == sorted(rows)


_NAME = re.compile(r"[A-Za-z0-9_]{3,}")


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("abZ_09 .<é中"), max_size=40) | st.text(max_size=40))
def test_parts_of_identifiers_are_those_of_every_name_in_the_text(text: str) -> None:
    runs: Callable[[str], str] = words._runs  # pyright: ignore[reportPrivateUsage]
    names = dict.fromkeys(_NAME.findall(text))
    assert words.compounds(text) == " ".join(filter(None, map(runs, names)))


def test_an_index_of_many_records_is_merged_into_one_piece(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from infer_forge.journal import index

    monkeypatch.setattr(index, "_MANY", 100)
    filled(store, 300)
    assert len(search(store, "fused_moe_kernel", limit=500)) == 300
    config = dict(ask(store, lambda db: db.execute("SELECT k, v FROM fts_config").fetchall()))
    assert (config["automerge"], config["crisismerge"]) == (4, 16)
    assert ask(store, lambda db: db.execute("SELECT count(DISTINCT segid) FROM fts_idx").fetchone()) == (1,)
