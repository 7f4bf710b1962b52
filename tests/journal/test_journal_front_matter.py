"""The quick reader of front matter never says anything else than the YAML parser."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from infer_forge.base.errors import InputUnusable
from infer_forge.journal import front_matter, markdown

ODD = """yes|No|off|null|~|1_000|0x1f|010|1:30|2026-11-01|1e5|1.5|-3|.inf|a: b|a #b|key:|- x|'q'|"d"|[]|{}|[a]|=|<<|!t|&a|*a|>-
%|@|`|?|A/B|中文|nvidia:h200|(x)|_y|+1|1.|5.10.2|v1.0|é|,x|:x|x:y|#c""".replace("\n", "|").split("|")
LONG = ["x" * 2000, "word " * 40, "|", "\u2028", "a\u2028b", "a\tb", " x", "x ", "\ufeff", "\x85", "a\x7f"]
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=40) | st.sampled_from([*ODD, *LONG])
VALUE = TEXT | st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False)
TREE = st.recursive(VALUE, lambda v: st.lists(v, max_size=3) | st.dictionaries(TEXT, v, max_size=3), max_leaves=8)
ARTIFACT = st.fixed_dictionaries({"path": TEXT, "sha256": st.just("1" * 64), "size_bytes": st.integers(0, 9**15)})
LINES = """a: 1|b:|- x|- k: v|  k: w|  - y|  c:|    d: 'e'|a: b: c|- |#c|| z: 1|-|k|l: >|  text|- 'it''s'|q: "x"|q: "\\n"|t: 2026-11-01
n: ~|e: {}|f: [1]|d: a:b|g: ,x|k: v\t|\tk: v|h: a\u2028b|i: -1.50|j: 007|m: 1_0|yes: 1|- - x|  - k: v|    w: v|...|o: 'a|r: "b"
s: 'x'y|u:  v|v: w |x: -|w: - x|y: ''|'z': 1|? a|c: !t x|k:|- k:|- []|  - {}|aa: -0|bb: +1|cc: 1.|dd: .5|ee: 1e3|ff: 1.5e+3""".replace(
    "\n", "|"
).split("|")


def head_of(text: str) -> str:
    match = re.match(r"---\n(.*?)\n---", text, re.DOTALL)
    assert match is not None
    return match[1]


def keyed(text: str) -> str:
    return f"p: {text}"


def same(first: Any, second: Any) -> bool:
    """Equal, with equal types all through (`1 == True == 1.0` is not enough) and keys in one order."""
    return repr(first) == repr(second)


@settings(max_examples=200, deadline=None)
@given(
    title=TEXT.filter(lambda t: 2 < len(t) <= 300),
    symptoms=st.lists(TEXT, max_size=3),
    dims=st.dictionaries(st.sampled_from(["model", "gpu", "topic", "author"]), st.lists(TEXT, max_size=2)),
    extra=st.dictionaries(TEXT, TREE, max_size=3),
    artifacts=st.lists(ARTIFACT, max_size=2),
    value=st.none() | st.floats(allow_nan=False, allow_infinity=False),
)
def test_records_read_quickly_equal_records_read_by_yaml(title: str, value: float | None, **more: Any) -> None:
    made = markdown.make({"kind": "note", "title": title, "created": "2026-11-01", "value": value, **more})
    head = head_of(markdown.write(made))
    quick = front_matter.plain(head)
    assert quick is None or same(quick, markdown.by_yaml(head, "x"))


@settings(max_examples=1500, deadline=None)
@given(st.lists(st.sampled_from(LINES) | TEXT.map(keyed), min_size=1, max_size=7))
@example(["a: b", "  c: d"])
@example(["b:", "- k: v", "  k: w"])
@example(["a: 1", "a: 2"])
@example(["c:" + " " * 3])
def test_any_text_is_read_as_yaml_reads_it_or_left_to_yaml(lines: list[str]) -> None:
    head = "\n".join(lines)
    quick = front_matter.plain(head)
    if quick is not None:
        assert same(quick, markdown.by_yaml(head, "x"))


def test_what_the_writer_writes_is_read_quickly() -> None:
    point = {"model": {"id": "Qwen/Qwen3-8B"}, "accelerator_platform": {"gpu_model": "H200", "gpu_count": 8}}
    fields: dict[str, Any] = {
        "kind": "result",
        "title": "moe: 12.5 us",
        "created": "2026-11-01",
        "claim": "kernel_task",
    }
    fields |= {"value": 12.5, "deployment_point": point, "dims": {"gpu": ["H200"], "topic": ["a", "b"]}}
    fields |= {"links": [{"rel": "supports", "id": "x"}, {"rel": "about", "id": "#12"}], "extra": {"n": [1, None]}}
    head = head_of(markdown.write(markdown.make(fields)))
    assert front_matter.plain(head) is not None
    assert same(front_matter.plain(head), markdown.by_yaml(head, "x"))


@pytest.mark.parametrize("head", ["created: 2026-13-01", "a: [", "a: " + "[" * 20_000 + "]" * 20_000])
def test_front_matter_that_is_no_yaml_is_an_unusable_input(head: str) -> None:
    with pytest.raises(InputUnusable, match="no YAML"):
        markdown.split(f"---\n{head}\n---\n", "x")
