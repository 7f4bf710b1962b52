"""NAME=VALUE words: JSON is taken as such, and what may be an id stays text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_forge.cli.campaign import fields_of
from infer_forge.cli.common import value_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3), ("0.5", 0.5), ("1e-3", 0.001), ("1e5", 1e5), ("true", True), ("null", None), ('["a"]', ["a"]),
        ("words", "words"), ("137438953472", 137438953472), ("0123", "0123"), ("", ""),
        ("225651604e13", "225651604e13"), ("1234567890123456", "1234567890123456"),
    ],
)  # fmt: skip
def test_a_value_is_json_or_text(text: str, value: Any) -> None:
    assert value_of(text) == value
    assert fields_of((f"name={text}",)) == {"name": value}


@given(st.text("0123456789abcdef", min_size=12, max_size=40))
def test_an_id_names_the_same_record_whatever_its_digits(text: str) -> None:
    assert str(value_of(text)) == text
