"""Command line, MCP server, import, export and schema: the journal's doors give what the library gives."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import anyio
import jsonschema
import pytest
from mcp.client import Client
from mcp_types import ResourceTemplateReference

from infer_forge.base.errors import InputUnusable
from infer_forge.base.gitstore import Changes, Store
from infer_forge.cli.main import main
from infer_forge.journal import add, exchange, get, markdown, open_store
from infer_forge.journal.exchange import export, import_notes, import_pitfalls, read_mapping
from infer_forge.journal.families import read_families
from infer_forge.journal.search import search
from infer_forge.journal.shipped import records
from infer_forge.journal.store import REF
from infer_forge_mcp.server import make_server
from tests.journal.journal_records import WHEN, note


@dataclass
class Done:
    """What a command left."""

    returncode: int
    stdout: str
    stderr: str


def cli(*words: str, given: str | None = None) -> Done:
    """Run a command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.StringIO(given or ""))
        with pytest.raises(SystemExit) as ended:
            main(["journal", *words])
    return Done(cast("int", ended.value.code or 0), out.getvalue(), err.getvalue())


def answer(*words: str) -> dict[str, Any]:
    done = cli(*words, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def call(name: str, arguments: dict[str, Any]) -> Any:
    async def ask() -> Any:
        async with Client(make_server(("journal",))) as client:
            return await client.call_tool(name, arguments)

    return anyio.run(ask)


# The command line


def test_a_record_goes_in_and_out_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text("{}")
    words = ["add", "--kind", "rejection", "--title", "wider tiles lost", "--body", "fused_moe\n", "--dim", "gpu=H200"]
    (one,) = answer(*words, "--artifact", str(tmp_path / "trace.json"))["ids"]
    assert answer("search", "fused_moe", "--gpu", "h200")["tables"]["hits"]["rows"][0][0] == one
    assert answer("show", one)["tables"]["artifacts"]["rows"][0][2] == "same"
    assert answer("filter", "--kind", "rejection")["count"] == 1
    text = cli("show", one).stdout
    assert text.startswith("---\nid: " + one)
    again = cli("add", "-", "--format", "json", given=text.split("\n[", 1)[0])
    assert json.loads(again.stdout)["ids"] == [one]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["add"], 2),
        (["add", "--kind", "note", "--title", "abc", "--dim", "colour"], 2),
        (["add", "--kind", "poem", "--title", "abc"], 3),
        (["add", "--kind", "result", "--title", "abc"], 3),
        (["show", "nothing"], 3),
        (["compare", "one"], 2),
        (["compare"], 2),
        (["compare", "--vary", "gpu"], 2),
        (["compare", "one", "two", "--gpu", "H200"], 2),
        (["compare", "--group-by", "gpu", "--vary", "gpu"], 2),
        (["compare", "--group-by", "gpu"], 3),
        (["search", "x", "--since", "yesterday"], 2),
        (["import"], 2),
        (["history", "query", "qwen3"], 3),
        (["history", "show", "sglang"], 2),
        (["wiki", "lint"], 2),
    ],
)
def test_a_mistake_gets_its_exit_code_and_no_traceback(words: list[str], code: int) -> None:
    done = cli(*words)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_lint_of_contradicting_records_exits_with_4(store: Store) -> None:
    fields: dict[str, Any] = {
        "kind": "result",
        "created": WHEN,
        "claim": "kernel_task",
        "metric": "t",
        "dims": {"gpu": ["H200"]},
    }
    add(store, [markdown.make({**fields, "title": f"value {v}", "value": v}) for v in (1.0, 9.0)])
    assert cli("wiki", "build").returncode == 0
    done = cli("wiki", "lint")
    assert done.returncode == 4
    assert "CONTRADICTION" in done.stdout


# Import and export


def test_a_team_s_notes_come_in_by_a_mapping_and_faults_are_told(tmp_path: Path, store: Store) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("---\nmachine: H200\nsubject: old finding\n---\nmoe is slow\n")
    (notes / "b.md").write_text("# A heading\n\nplain text\n")
    (notes / "c.jsonl").write_text('{"subject": "from lines", "text": "x"}\n{broken\n[1]\n')
    (notes / "d.md").write_text("---\n: [\n---\n")
    (notes / "e.bin").write_bytes(b"\xff")
    (notes / "f.json").write_text('[{"subject": "first of two"}, {"subject": "second of two"}]')
    (notes / "g.json").write_text("{broken")
    (notes / ".git").mkdir()
    (notes / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    mapping = tmp_path / "map.yaml"
    mapping.write_text("fields: {subject: title}\ndims: {machine: gpu}\ndefaults: {kind: note}\n")
    first = import_notes(store, notes, read_mapping(mapping))
    again = import_notes(store, notes, read_mapping(mapping))
    assert again.extra["ids"] == first.extra["ids"]
    assert len(first.extra["ids"]) == 6
    assert sorted(Path(r[0]).name for r in first.tables["refused"].rows) == ["c.jsonl:2", "d.md", "g.json"]
    assert [(*r[:2], Path(r[2]).name) for r in first.tables["other_files"].rows] == [(".bin", 1, "e.bin")]
    assert [h.fields["title"] for h in search(store, "moe", {"gpu": ["NVIDIA H200"]})] == ["old finding"]


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_an_import_of_which_nothing_can_be_read_fails_and_says_what_was_refused(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("---\n: [\n---\n")
    (notes / "b.jsonl").write_text("{broken\n")
    done = cli("import", str(notes), *words, "--format", "json")
    assert done.returncode == 3
    assert [Path(r[0]).name for r in json.loads(done.stdout)["tables"]["refused"]["rows"]] == ["a.md", "b.jsonl:1"]
    assert "nothing could be imported: 2 refused, the first: " in done.stderr
    (notes / "c.md").write_text("# one that can be read\n")
    assert cli("import", str(notes), *words).returncode == 0


def test_a_note_in_another_encoding_is_refused_and_not_kept_garbled(tmp_path: Path, store: Store) -> None:
    (tmp_path / "a.md").write_bytes("# 激活量化\n".encode("gb18030"))
    (tmp_path / "b.md").write_bytes("# from windows\n".encode("utf-16"))
    (tmp_path / "c.jsonl").write_bytes(b'\xef\xbb\xbf{"title": "behind a mark"}\n{"title": "\xb5"}\n')
    report = import_notes(store, tmp_path, read_mapping(None))
    assert [get(store, i).title for i in report.extra["ids"]] == ["behind a mark"]
    assert [Path(r[0]).name for r in report.tables["refused"].rows] == ["a.md", "b.md", "c.jsonl:2"]
    assert all("UTF-8" in r[1] for r in report.tables["refused"].rows)


def test_a_line_that_is_too_long_is_told_and_those_behind_it_come_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    monkeypatch.setattr(exchange, "_MOST_BYTES", 100)
    long = json.dumps({"title": "long " * 100})
    (tmp_path / "a.jsonl").write_text(f'{{"title": "first"}}\n{long}\n\n{{"title": "last"}}\n{long}')
    report = import_notes(store, tmp_path, read_mapping(None))
    assert [get(store, i).title for i in report.extra["ids"]] == ["first", "last"]
    assert [Path(r[0]).name for r in report.tables["refused"].rows] == ["a.jsonl:2", "a.jsonl:5"]


def test_an_empty_note_is_told_as_empty_and_a_short_one_is_named_by_its_file(tmp_path: Path, store: Store) -> None:
    (tmp_path / "a.md").write_text("\n")
    (tmp_path / "b.jsonl").write_text("{}\n")
    (tmp_path / "c.md").write_text("ok")
    report = import_notes(store, tmp_path, read_mapping(None))
    assert [get(store, i).title for i in report.extra["ids"]] == ["c.md"]
    assert [(Path(r[0]).name, r[1]) for r in report.tables["refused"].rows] == [
        ("a.md", "is empty"),
        ("b.jsonl:1", "is empty"),
    ]


def test_a_pipe_is_refused_wherever_a_file_is_named(tmp_path: Path) -> None:
    pipe, notes = tmp_path / "p.md", tmp_path / "notes"
    os.mkfifo(pipe)
    notes.mkdir()
    for words in (
        ["add", str(pipe)],
        ["import", str(pipe)],
        ["import", str(notes), "--mapping", str(pipe)],
        ["history", "check-notes", str(pipe)],
    ):
        done = cli(*words)
        assert done.returncode == 3, words
        assert "is a named pipe" in done.stderr
    with pytest.raises(InputUnusable, match="is a named pipe"):
        read_families(pipe)


def test_the_answer_of_an_import_never_overwrites_a_note(tmp_path: Path) -> None:
    note = tmp_path / "notes" / "a.md"
    note.parent.mkdir()
    note.write_text("# a note\n")
    assert cli("import", str(note.parent), "--out", str(note)).returncode == 2
    assert note.read_text() == "# a note\n"


def test_an_export_read_into_another_journal_gives_the_same_records(tmp_path: Path, store: Store) -> None:
    file = tmp_path / "all.jsonl"
    ids = add(
        store,
        [
            note(f"n {i}", "b\n", dims={"gpu": ["H200"], "model": ["Qwen3-8B", "GLM-4.6"]}, extra={"ticket": f"T-{i}"})
            for i in range(3)
        ],
    )
    file.write_bytes(b"".join(export(store)))
    with open_store(tmp_path / "other.git") as other:
        assert sorted(import_notes(other, file, read_mapping(None)).extra["ids"]) == sorted(ids)


@pytest.mark.parametrize("body", ["b\n", "no line end", "b\n\n", "---\nx\n", ""])
def test_a_record_shown_as_markdown_comes_back_as_the_same_record(body: str, tmp_path: Path, store: Store) -> None:
    fields = {"kind": "note", "title": "n: 1", "created": WHEN, "body": body, "extra": {"ticket": "T-1"}}
    lost = {"path": str(tmp_path / "lost\nkind: result"), "sha256": "a" * 64}
    (one,) = add(store, [markdown.make({**fields, "artifacts": [lost]})])
    file = tmp_path / "shown.md"
    assert cli("show", one, "--format", "md", "--out", str(file)).returncode == 0
    assert "# [warning] ARTIFACT_GONE: " in file.read_text()
    with open_store(tmp_path / "other.git") as other:
        assert import_notes(other, file, read_mapping(None)).extra["ids"] == [one]
        assert get(other, one).body == body


def test_a_file_of_the_store_comes_in_as_the_same_record_and_an_edited_one_as_another(
    tmp_path: Path, store: Store
) -> None:
    file = tmp_path / "notes" / "one.md"
    file.parent.mkdir()
    record = note("n 1", "two\r\nlines\r\n")
    (one,) = add(store, [record])
    file.write_bytes(markdown.write(get(store, one)).encode())
    assert import_notes(store, file.parent, read_mapping(None)).extra["ids"] == [one]
    file.write_bytes(file.read_bytes() + b"and more\n")
    (edited,) = import_notes(store, file.parent, read_mapping(None)).extra["ids"]
    assert edited != one
    assert get(store, edited).extra == {}
    assert get(store, edited).source is None


def test_an_id_of_a_team_s_own_kind_is_kept_and_a_byte_order_mark_is_no_text(tmp_path: Path, store: Store) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "OPS-17", "title": "from lines", "text": "x"}\n')
    (tmp_path / "b.md").write_bytes(b"\xef\xbb\xbf---\r\ntitle: from windows\r\nid: OPS-18\r\n---\r\nx\r\n")
    found = [get(store, i) for i in import_notes(store, tmp_path, read_mapping(None)).extra["ids"]]
    assert [(r.title, r.extra) for r in found] == [("from lines", {"id": "OPS-17"}), ("from windows", {"id": "OPS-18"})]
    assert found[1].body == "x\n"


def test_a_broken_file_in_the_store_hides_no_other(tmp_path: Path, store: Store) -> None:
    (one,) = add(store, [note("a whole one")])
    broken: dict[str, bytes | str] = {"records/202601/aa/broken.md": "no front matter"}
    store.update(REF, lambda _: Changes(put=broken), "by hand")
    assert [h.id for h in search(store, "whole")] == [one]
    faults: list[tuple[str, str]] = []
    assert len(list(export(store, faults))) == 1
    assert [p for p, _ in faults] == ["records/202601/aa/broken.md"]
    assert answer("wiki", "build")["tables"]["no_records"]["rows"][0][0] == "records/202601/aa/broken.md"


def test_the_shipped_pitfalls_are_the_same_records_in_the_store(store: Store) -> None:
    assert len(search(store, "", {"kind": ["pitfall"]}, limit=50)) == 11
    assert set(import_pitfalls(store).extra["ids"]) == set(records())
    hits = search(store, "", {"kind": ["pitfall"]}, limit=50)
    assert len(hits) == 11
    assert get(store, hits[0].id).applies_to


def test_a_mapping_with_unknown_names_is_refused(tmp_path: Path) -> None:
    mapping = tmp_path / "map.yaml"
    mapping.write_text("dims: {x: colour}\n")
    with pytest.raises(InputUnusable, match="colour"):
        read_mapping(mapping)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("fields: [a]", "fields is no mapping"),
        ("defaults: 3", "defaults is no mapping"),
        ("defaults: {dims: 3}", "defaults.dims is no mapping"),
        ("defaults: {extra: x}", "defaults.extra is no mapping"),
        ("fields: {a: [title]}", "records have no"),
        ("dims: {a: [gpu]}", "records have no"),
    ],
)
def test_a_mapping_of_another_shape_is_refused(text: str, why: str, tmp_path: Path) -> None:
    mapping = tmp_path / "map.yaml"
    mapping.write_text(text)
    with pytest.raises(InputUnusable, match=why):
        read_mapping(mapping)


def test_a_mapping_may_name_the_text_and_what_has_another_shape_than_ours_is_kept(tmp_path: Path, store: Store) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"title": "one", "content": "told", "dims": [1], "extra": "more", "tags": {"gpu": "H200"}}\n'
    )
    mapping = tmp_path / "map.yaml"
    mapping.write_text("fields: {content: body, tags: dims}\ndefaults: {extra: {team: x}}\n")
    (one,) = import_notes(store, tmp_path / "a.jsonl", read_mapping(mapping)).extra["ids"]
    record = get(store, one)
    assert record.body == "told"
    assert record.extra == {"team": "x", "dims": [1], "extra": "more"}
    assert record.dims == {"gpu": ["NVIDIA H200"]}


@pytest.mark.parametrize(
    ("head", "why"),
    [
        ("extra: &x {a: *x}", "refers to itself"),
        ("a: &x [*x]", "refers to itself"),
        ("a: &a [x, x, x, x]\nb: &b [*a, *a, *a, *a]\nc: &c [*b, *b, *b, *b]\nd: [*c, *c, *c, *c]", "refers to itself"),
        (f"extra: {{a: {'[' * 200}{']' * 200}}}", "nested more than"),
        (f"other: {'[' * 200}{']' * 200}", "nested more than"),
        ("value: .nan", "finite"),
        ("value: -.inf", "finite"),
        ("created: 0001-01-01T00:00:00+14:00", "no date"),
        ("created: '0900-01-01T00:00:00Z'", "no date"),
    ],
)
def test_one_note_that_cannot_be_a_record_is_told_and_stops_no_other(
    head: str, why: str, tmp_path: Path, store: Store
) -> None:
    (tmp_path / "a.md").write_text(f"---\ntitle: bad one\n{head}\n---\n")
    (tmp_path / "b.md").write_text("---\ntitle: good one\n---\n")
    report = import_notes(store, tmp_path, read_mapping(None))
    assert len(report.extra["ids"]) == 1
    ((place, told),) = report.tables["refused"].rows
    assert Path(place).name == "a.md"
    assert why in told


@pytest.mark.parametrize("number", ["9" * 19, "9" * 5000, "\u0663", "-1", ""])
def test_a_number_that_no_pull_request_has_is_wrong_usage(number: str) -> None:
    done = cli("history", "show", f"sglang#{number}")
    assert done.returncode == 2
    assert "is no REPOSITORY#NUMBER" in done.stderr


# The schema


def test_the_shipped_schema_is_the_type_s_and_accepts_records(
    project_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(project_root / "scripts"), *sys.path])
    from chores.journal_schema import FILE, schema

    shipped = json.loads((project_root / FILE).read_text())
    assert shipped == schema()
    for record in records().values():
        jsonschema.validate(record.model_dump(mode="json", exclude_defaults=True), shipped)


# The server


def test_tools_record_find_read_and_filter() -> None:
    fields = {"idea": {"repository": "a/b", "path": "x.py"}}
    made = call(
        "record_journal",
        {"kind": "rejection", "title": "tile of 64 lost", "body": "moe", "dims": {"gpu": ["H200"]}, "fields": fields},
    )
    one = made.structured_content["data"]["ids"][0]
    found = call("search_journal", {"query": "tile", "filters": {"gpu": ["h200"]}}).structured_content
    assert found["tables"]["hits"]["rows"][0][0] == one
    read = call("read_record", {"record_id": one}).structured_content
    assert read["data"]["record"]["idea"]["path"] == "x.py"
    assert call("filter_journal", {"filters": {"kind": ["rejection"]}}).structured_content["data"]["count"] == 1


def test_a_wrong_record_is_told_to_the_model() -> None:
    done = call("record_journal", {"kind": "result", "title": "fast", "body": "x"})
    assert done.is_error
    assert "kernel_task or a model_e2e" in done.content[0].text
    assert call("search_pr_history", {"model": "qwen3"}).is_error


def test_a_record_is_a_resource(store: Store) -> None:
    (one,) = add(store, [note("as a resource")])

    async def read() -> Any:
        async with Client(make_server()) as client:
            return await client.read_resource(f"journal://{one}")

    contents = cast("list[Any]", anyio.run(read).contents)
    assert "title: as a resource" in contents[0].text


@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_a_client_can_have_the_id_of_a_record_completed(era: Literal["legacy", "auto"], store: Store) -> None:
    made = add(store, [note(f"n {i}") for i in range(3)])

    async def ask(uri: str, start: str) -> list[str]:
        async with Client(make_server(), mode=era) as client:
            ref = ResourceTemplateReference(uri=uri)
            return (await client.complete(ref, {"name": "record_id", "value": start})).completion.values

    assert set(made) <= set(anyio.run(ask, "journal://{record_id}", ""))
    assert anyio.run(ask, "journal://{record_id}", made[1]) == [made[1]]
    assert anyio.run(ask, "journal://{record_id}", made[1] + "%") == []
    assert anyio.run(ask, "other://{record_id}", "") == []
