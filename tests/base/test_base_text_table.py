"""Text tables fit the terminal and say what they leave out; through a pipe they are whole; wide characters keep the columns."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_forge.base.records import Report
from infer_forge.base.tables import Column, Table
from infer_forge.base.text_table import shorten, shown_width, visible

WIDE = Table(
    "kernel",
    [Column("rank", "text"), Column("kernel", "text"), "time_us", "wait_us", Column("op", "text"), Column("source", "text")],
    [
        ("0", "a_kernel_with_a_name_of_quite_some_length_indeed", 12345.6, None, "aten::mm", "python/layers/moe/topk.py(311)"),
        ("0", "norm", 3.0, None, "aten::add", "python/layers/norm.py(17): forward"),
    ],
)  # fmt: skip


def widths(text: str) -> list[int]:
    return [shown_width(line) for line in text.splitlines()]


def test_without_a_width_every_cell_is_whole_and_nothing_is_said() -> None:
    text = WIDE.to_text()
    assert len(text.splitlines()) == 4
    assert "…" not in text
    assert "a_kernel_with_a_name_of_quite_some_length_indeed" in text


def test_a_table_that_fits_is_the_same_with_and_without_a_terminal() -> None:
    assert WIDE.to_text(500) == WIDE.to_text()


@pytest.mark.parametrize("width", [70, 80, 100, 119])
def test_rows_fit_the_terminal(width: int) -> None:
    *lines, told = WIDE.to_text(width).splitlines()
    assert max(map(shown_width, lines)) <= width
    assert told.startswith("(")
    assert told.endswith("--format md has all)")


def test_columns_that_tell_nothing_apart_go_first_and_are_named() -> None:
    text = WIDE.to_text(110)
    assert text.splitlines()[0].split() == ["kernel", "time_us", "op", "source"]
    assert text.splitlines()[-1] == "(in every row: rank 0; no value in: wait_us; --format md has all)"


def test_then_texts_are_cut_then_columns_go_from_the_right_and_numbers_stay_whole() -> None:
    told = WIDE.to_text(80).splitlines()[-1]
    assert "shortened: kernel, source" in told
    assert "left out" not in told
    narrow = WIDE.to_text(44)
    assert "left out: source" in narrow
    assert "12,345.6" in narrow


def test_one_row_keeps_its_columns_though_each_has_one_value() -> None:
    one = Table("t", WIDE.columns, WIDE.rows[:1])
    assert one.to_text(110).splitlines()[0].split() == WIDE.names


def test_a_shortened_path_keeps_its_file_and_line() -> None:
    assert shorten("python/sglang/layers/moe/topk.py(311): forward", 22) == "…topk.py(311): forward"
    assert shorten("a_kernel_with_a_long_name", 10) == "a_kern…ame"


def test_wide_and_combining_characters_keep_the_columns_aligned() -> None:
    table = Table(
        "t", [Column("name", "text"), Column("n", "text")], [("算子融合", "x"), ("e\u0301té", "x"), ("gemm", "x")]
    )
    lines = table.to_text().splitlines()
    assert {shown_width(line.rpartition("x")[0]) for line in lines[2:]} == {10}
    assert lines[1].startswith("-" * 8 + "  ")


@given(st.text(max_size=40), st.integers(min_value=1, max_value=30))
def test_a_shortened_text_never_takes_more_room_than_it_was_given(text: str, width: int) -> None:
    assert shown_width(shorten(text, width)) <= width
    assert shown_width(text) <= width or "…" in shorten(text, width)


@given(st.characters())
def test_the_width_of_a_character_is_that_of_annex_11(character: str) -> None:
    wide = unicodedata.east_asian_width(character) in ("W", "F")
    assert shown_width(character) == (2 if wide else 1) or unicodedata.category(character) in ("Mn", "Me", "Cf")


def test_a_text_of_somebody_moves_no_cursor_and_turns_no_line() -> None:
    hostile = "\x1b[2Jgone\r\u202etxt.exe \x9b31m\tkept\nkept é 語"
    shown = visible(hostile)
    assert shown == "\\x1b[2Jgone\\r\\u202etxt.exe \\x9b31m\tkept\nkept é 語"
    report = Report("task", summary=[hostile], text=None)
    report.add(Table("t", [Column("a", "text")], [[hostile]]))
    for form in ("text", "md"):
        assert not set("\x1b\r\u202e\x9b") & set(report.render(form))
    report.text = hostile
    assert report.render("text") == shown


def test_a_report_that_is_one_text_shows_it_in_markdown_too() -> None:
    report = Report("task_prompt")
    report.text = "/goal do it"
    assert report.render("md") == "/goal do it"
