"""Microseconds to nanoseconds, exactly."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from infer_forge.trace import times


@given(st.integers(0, (1 << 43) - 1), st.integers(0, 999))
def test_three_decimals_are_exact_up_to_two_to_the_43_microseconds(whole: int, nano: int) -> None:
    assert times.from_floats([float(f"{whole}.{nano:03d}")])[0] == whole * 1000 + nano


@given(st.integers(0, (1 << 52)))
def test_whole_microseconds_are_exact_up_to_two_to_the_52(whole: int) -> None:
    assert times.from_floats([float(whole)])[0] == whole * 1000


@given(st.integers(-(10**15), 10**15), st.integers(0, 999))
def test_digits_are_read_as_they_stand_at_any_size(whole: int, nano: int) -> None:
    text = f"{whole}.{nano:03d}"
    assert times.from_digits([text.encode()])[0] == int(Decimal(text) * 1000)
    assert times.from_any(text) == int(Decimal(text) * 1000)


def test_what_is_no_time_is_unusable_and_never_zero() -> None:
    values: tuple[Any, ...] = (
        None,
        True,
        False,
        "",
        "x",
        [1],
        {},
        float("nan"),
        float("inf"),
        1e300,
        1 << 80,
        "1e999999999",
    )
    for value in values:
        assert times.from_any(value) == times.UNUSABLE, value
    assert times.from_floats([float("nan"), float("-inf"), 1e300]).tolist() == [times.UNUSABLE] * 3
    assert times.from_digits([b"null", b'"y"', b"1e400", b"[1]"]).tolist() == [times.UNUSABLE] * 4
