"""Front matter in the plain form that `markdown.write` gives, read without a YAML parser (in a third of its time).

Read are block mappings and lists of one-line scalars, as PyYAML's emitter indents them. Of everything else (anchors, tags,
flow collections, text over several lines, escapes, comments, dates, ...) nothing is guessed: `plain` then gives None, and the
YAML parser decides. What a plain scalar means is looked up in PyYAML's own table of implicit types.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

# What YAML does not print as it is (YAML 1.1, 5.1: c-printable), and its line breaks other than LF, tabs, the byte order mark.
_UNUSUAL = re.compile("[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_LINE = re.compile(r"( *)(- )?(?:([A-Za-z_]\w{0,100}):(?: |$))?(.*)", re.ASCII)
_SINGLE = re.compile(r"'((?:[^']|'')*)'")
_DOUBLE = re.compile(r'"([^"\\]*)"')
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)", re.ASCII)
_DECIMAL = re.compile(r"-?[0-9]+\.[0-9]+", re.ASCII)
_WORDS: dict[str, Any] = {"null": None, "true": True, "false": False}


class _Unclear(Exception):
    """Something that only the YAML parser may judge."""


_Line = tuple[int, bool, "str | None", str]


def plain(text: str) -> dict[str, Any] | None:
    """The mapping in a front matter of the plain form; None where the YAML parser must look. Never another answer than its."""
    if _UNUSUAL.search(text):
        return None
    try:
        lines = [_line(line) for line in text.split("\n")]
        found, end = _mapping(lines, 0, 0)
    except (_Unclear, IndexError, RecursionError):
        return None
    return found if end == len(lines) else None


def _line(text: str) -> _Line:
    indent, dash, key, value = _LINE.match(text).groups()  # pyright: ignore[reportOptionalMemberAccess] # it matches anything
    return len(indent), dash is not None, key, value


def _mapping(lines: list[_Line], at: int, indent: int, first: bool = False) -> tuple[dict[str, Any], int]:
    """The mapping whose keys stand at `indent`, and the line after it; `first`: its first key stands behind a dash."""
    found: dict[str, Any] = {}
    while at < len(lines):
        place, dash, key, value = lines[at]
        if dash != first or place + 2 * first != indent:
            break
        if key is None or key in found or not _is_text(key):
            raise _Unclear
        first = False
        if value:
            found[key], at = _scalar(value), at + 1
        else:
            found[key], at = _below(lines, at + 1, indent)
    if not found:
        raise _Unclear
    return found, at


def _below(lines: list[_Line], at: int, indent: int) -> tuple[Any, int]:
    """What stands below a key: a list at the key's own indent, or a mapping two further in."""
    place, dash, _, _ = lines[at]
    if dash and place == indent:
        return _list(lines, at, indent)
    if not dash and place == indent + 2:
        return _mapping(lines, at, indent + 2)
    raise _Unclear


def _list(lines: list[_Line], at: int, indent: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    while at < len(lines) and lines[at][0] == indent and lines[at][1]:
        _, _, key, value = lines[at]
        if key is not None:
            item, at = _mapping(lines, at, indent + 2, first=True)
            found.append(item)
        else:
            found.append(_scalar(value))
            at += 1
    return found, at


def _scalar(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text in ("[]", "{}"):
        return [] if text == "[]" else {}
    if text[0] == "'" and (quoted := _SINGLE.fullmatch(text)):
        return quoted[1].replace("''", "'")
    if text[0] == '"' and (quoted := _DOUBLE.fullmatch(text)):
        return quoted[1]
    if not (text[0].isalnum() or text[0] in "/_(-") or ": " in text or " #" in text or text[-1] in ": ":
        raise _Unclear
    if _is_text(text) and text[0] != "-":
        return text
    if _INTEGER.fullmatch(text) and len(text) < 30:
        return int(text)
    if _DECIMAL.fullmatch(text):
        return float(text)
    raise _Unclear


@cache
def _types() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    import yaml

    table: Any = yaml.SafeLoader.yaml_implicit_resolvers  # pyright: ignore[reportUnknownMemberType]
    return table


@lru_cache(maxsize=4096)
def _is_text(plain: str) -> bool:
    """Whether YAML takes a plain scalar for text, and not for a number, a date, a truth value or nothing."""
    return not any(pattern.match(plain) for _, pattern in _types().get(plain[0], ()))
