"""YAML that people write: plain data, or a refusal that names the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from infer_forge.base.errors import InputUnusable
from infer_forge.base.yamlio import parse, read_yaml


def test_yaml_becomes_what_json_can_say() -> None:
    text = "on: 2026-11-30\n7: [a, ~, 0.5]\nnested: {x: &x [1], y: *x}\n"
    assert parse(text, where="f") == {"true": "2026-11-30", "7": ["a", None, 0.5], "nested": {"x": [1], "y": [1]}}


@pytest.mark.parametrize(
    "text",
    [
        "a: [1",
        "a: 2026-99-99",
        "a: &a [*a]",
        "a: !!binary aGk=",
        "a: !!python/object/apply:os.getcwd []",
        "a: " + "[" * 3000 + "]" * 3000,
        "[1]: {{x: 1}: 2}",
    ],
)
def test_what_is_no_plain_data_is_refused_with_the_place(text: str) -> None:
    with pytest.raises(InputUnusable, match="cannot be read as YAML") as refused:
        parse(text, where="there.yaml")
    assert refused.value.where == "there.yaml"


def test_aliases_that_stand_for_more_than_memory_holds_are_refused() -> None:
    levels = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    with pytest.raises(InputUnusable, match="aliases stand for more than"):
        parse("\n".join(["a0: &a0 [x]", *levels]), where="f")


def test_files_that_are_missing_or_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"\xff\xfe")
    for name, why in (("none", "No such file"), ("latin", "no UTF-8"), (".", "directory")):
        with pytest.raises(InputUnusable, match=why):
            read_yaml(tmp_path / name)
