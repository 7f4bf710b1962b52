"""Tables and reports print alike everywhere, and say unknown as unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from infer_forge.base import report_store
from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.jsonio import loads
from infer_forge.base.page import Page
from infer_forge.base.records import Finding, Header, InputFile, Report
from infer_forge.base.tables import Column, Table

TABLE = Table(
    "kernel", [Column("kernel", "text"), "time_us", "launches"], [("gemm|x", 12.3456, 1200), ("norm", None, 3)]
)


def test_json_keeps_full_values_and_null() -> None:
    assert TABLE.to_json() == {
        "columns": ["kernel", "time_us", "launches"],
        "rows": [["gemm|x", 12.3456, 1200], ["norm", None, 3]],
    }


def test_text_rounds_by_unit_and_prints_unknown_as_a_dash() -> None:
    lines = TABLE.to_text().splitlines()
    assert lines[2].split() == ["gemm|x", "12.3", "1,200"]
    assert lines[3].split() == ["norm", "-", "3"]


def test_markdown_escapes_what_would_break_the_row() -> None:
    assert "| gemm\\|x | 12.3 | 1,200 |" in TABLE.to_md()


def test_csv_and_frame_hold_every_row() -> None:
    assert TABLE.to_csv().splitlines()[2] == "norm,,3"
    assert TABLE.to_frame().shape == (2, 3)


def test_a_slice_tells_the_next_cursor_and_what_is_left_out() -> None:
    page, cursor, omitted = TABLE.slice(1)
    assert (len(page), cursor, omitted) == (1, "1", 1)
    page, cursor, omitted = TABLE.slice(1, cursor)
    assert (page.rows[0][0], cursor, omitted) == ("norm", None, 1)


def report_on(path: Path) -> Report:
    header = Header(inputs=[InputFile.of(path)], coverage={"events": 10}, thresholds={"min_share_pct": 1.0})
    made = Report(
        "triage", header, findings=[Finding("LOW_LINKAGE", "few kernels are linked", figure=0.2, threshold=0.5)]
    )
    made.add(TABLE)
    made.summary.append("one line")
    made.next_step = "infer-forge pipeline x"
    return made


@pytest.mark.parametrize("form", ["text", "md"])
def test_a_report_prints_summary_tables_findings_evidence_and_next_step(tmp_path: Path, form: str) -> None:
    (tmp_path / "t.json").write_text("{}")
    shown = report_on(tmp_path / "t.json").render(form)
    for part in (
        "one line",
        "gemm",
        "LOW_LINKAGE",
        "sha256 44136fa355b3678a",
        "events=10",
        "next: infer-forge pipeline x",
    ):
        assert part in shown


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(UsageFault, match="xml"):
        Report("x").render("xml")


def test_a_kept_report_is_found_by_the_hash_of_its_input(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{}")
    made = report_on(tmp_path / "t.json")
    file = report_store.keep(made)
    sha = made.header.inputs[0].sha256
    assert sha is not None
    found = report_store.find("triage", sha)
    assert found is not None
    assert found == (file, loads(made.render("json")))
    assert report_store.find("pipeline", sha) is None


@pytest.mark.parametrize(
    "stored", ["garbage", "[]", "null", '{"header": {"inputs": []}}', '{"header": {"inputs": [7]}}']
)
def test_a_damaged_report_counts_as_none(stored: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFER_FORGE_HOME", str(tmp_path / "home"))
    (tmp_path / "t.json").write_text("{}")
    made = report_on(tmp_path / "t.json")
    file = report_store.keep(made)
    sha = str(made.header.inputs[0].sha256)
    file.write_text(stored)
    assert report_store.find("triage", sha) is None
    index = file.parent / "by-input" / sha
    for name in (b"\xff\xfe", b"../../../t.json", b""):
        index.write_bytes(name)
        assert report_store.find("triage", sha) is None


@pytest.mark.parametrize("cursor", ["\u00b2", "9" * 30, "-1", "x"])
def test_a_cursor_that_no_page_gave_is_refused(cursor: str) -> None:
    with pytest.raises(UsageFault, match="is no row number"):
        TABLE.slice(1, cursor)


def test_a_cursor_behind_the_end_is_an_empty_page_with_every_row_left_out() -> None:
    page, after, left = TABLE.slice(1, "17")
    assert (page.rows, after, left) == ([], None, 2)


def test_a_missing_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputUnusable, match="No such file"):
        InputFile.of(tmp_path / "none")


def test_a_page_escapes_every_text(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{}")
    made = report_on(tmp_path / "t.json")
    made.summary = ["<script>alert(1)</script>"]
    html = Page("<b>").report(made).to_html()
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert" in html
    assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")
