"""JSON in and out, hashes, atomic writes."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_canonical_json_reads_back_and_hashes_alike(value: object) -> None:
    assert jsonio.loads(jsonio.canonical(value)) == value
    assert jsonio.sha256_of(value) == jsonio.sha256_of(jsonio.loads(jsonio.canonical(value)))


def test_the_order_of_keys_does_not_change_a_hash() -> None:
    assert jsonio.sha256_of({"a": 1, "b": [2]}) == jsonio.sha256_of({"b": [2], "a": 1})


def test_a_number_that_is_not_finite_has_no_canonical_form() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        jsonio.canonical({"x": math.inf})


def test_bare_infinity_of_benchmark_tools_is_read() -> None:
    assert jsonio.loads(b'{"request_rate": Infinity}')["request_rate"] == math.inf


def test_text_that_is_no_json_is_refused_with_its_place() -> None:
    with pytest.raises(InputUnusable, match="rows.json: is not valid JSON"):
        jsonio.loads(b"<html>", where="rows.json")


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = jsonio.write_atomic(tmp_path / "f.json", "old")

    def broken(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        jsonio.write_atomic(target, "new")
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["f.json"]


def test_a_device_or_pipe_is_written_into_and_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    jsonio.write_atomic(pipe, "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert pipe.is_fifo()
    if Path("/dev/null").is_char_device():
        jsonio.write_atomic("/dev/null", "gone")
        assert Path("/dev/null").is_char_device()


def test_a_symbolic_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    jsonio.write_atomic(tmp_path / "link", "new")
    assert (tmp_path / "real").read_text() == "new"
    assert (tmp_path / "link").is_symlink()


def test_whole_numbers_beyond_64_bits_are_written_as_floating_point_ones() -> None:
    assert jsonio.loads(jsonio.dumps({"a": [10**30, (-(10**25), 7)], "b": 10**400, "c": 2**64 - 1})) == {
        "a": [1e30, [-1e25, 7]],
        "b": None,
        "c": 2**64 - 1,
    }
