"""A record as a Markdown file: YAML front matter between `---` lines, then the text."""

from __future__ import annotations

import re
from typing import Any, cast

from infer_forge.base.errors import InputUnusable
from infer_forge.journal import front_matter
from infer_forge.journal.model import Record

_SHAPE = re.compile(r"\A---\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n(.*))?\Z", re.DOTALL)


def write(record: Record) -> str:
    """The file of a record; reading it back gives an equal record."""
    import yaml

    head = record.model_dump(mode="json", exclude_defaults=True)
    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(head, Dumper=dumper, sort_keys=False, allow_unicode=True, width=10_000)  # pyright: ignore[reportUnknownMemberType]
    return f"---\n{text}---\n{record.body}"


def split(text: str, where: str) -> tuple[dict[str, Any], str]:
    """Front matter and body of a Markdown text.

    Raises:
        InputUnusable: there is no front matter, or it is no YAML mapping.
    """
    match = _SHAPE.match(text)
    if not match:
        raise InputUnusable(
            "has no front matter between --- lines",
            where=where,
            next_step="infer-forge journal add --help shows the form",
        )
    plain = front_matter.plain(match.group(1))
    head: Any = plain if plain is not None else by_yaml(match.group(1), where)
    if not isinstance(head, dict):
        raise InputUnusable("front matter is no mapping", where=where)
    return head, match.group(2) or ""  # pyright: ignore[reportUnknownVariableType]


def by_yaml(head: str, where: str) -> Any:
    """A front matter's value by the YAML parser.

    Raises:
        InputUnusable: it is no YAML.
    """
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        found: Any = yaml.load(head, Loader=loader)
    except (yaml.YAMLError, ValueError, RecursionError) as exc:  # ValueError: a date that is none, such as 2026-13-01
        raise InputUnusable(f"front matter is no YAML ({' '.join(str(exc).split())[:120]})", where=where) from None
    if _parts_beyond(found, len(head) + 1):
        raise InputUnusable("front matter refers to itself, or to so much that it grows", where=where)
    return found


def _parts_beyond(value: Any, most: int) -> bool:
    """Whether a value has more parts than characters that it was read from: only anchors that repeat or hold themselves do that."""
    open_parts: list[Any] = [value]
    seen = 0
    while open_parts:
        part = open_parts.pop()
        seen += 1
        if seen > most:
            return True
        if isinstance(part, dict):
            open_parts += cast("dict[Any, Any]", part).values()
        elif isinstance(part, list):
            open_parts += cast("list[Any]", part)
    return False


def body_of(text: str) -> str:
    """The text after the front matter; a text without front matter is all body."""
    match = _SHAPE.match(text)
    return (match.group(2) or "") if match else text


def read(text: str, where: str = "record") -> Record:
    """The record in a Markdown text.

    Raises:
        InputUnusable: it is none; the first field that is wrong is named.
    """
    head, body = split(text, where)
    return make(head | {"body": body}, where)


def make(fields: dict[str, Any], where: str = "record") -> Record:
    """A record from plain fields.

    Raises:
        InputUnusable: a field is missing, unknown or wrong.
    """
    from pydantic import ValidationError

    try:
        return Record.model_validate(fields)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        field = ".".join(str(p) for p in first["loc"]) or "record"
        raise InputUnusable(f"{field}: {first['msg'].removeprefix('Value error, ')}", where=where) from None
