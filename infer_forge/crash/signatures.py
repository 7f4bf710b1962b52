"""Signatures as data: loaded once, compiled when first needed, matched by the anchors that a line holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, cast

from infer_forge.base.errors import UsageFault
from infer_forge.base.resources import load_yaml

FILE = "references/crash_signatures.yaml"


@dataclass(frozen=True)
class Signature:
    """One entry of the data file; `cls` is the class that it gives (its own id, or the more general one it names)."""

    id: str
    cls: str
    group: str
    anchors: tuple[str, ...]
    source: str
    meaning: str
    step: str
    sticky: bool
    surfaced: bool
    precise: bool
    sync: bool
    collective: bool
    wraps: bool
    death: bool
    example: str
    expression: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Its compiled expression."""
        return re.compile(self.expression)


def data() -> dict[str, Any]:
    """The whole data file."""
    return cast("dict[str, Any]", load_yaml(FILE))


@cache
def signatures() -> tuple[Signature, ...]:
    """All signatures, in the order in which they win."""
    return tuple(
        Signature(
            id=s["id"],
            cls=s.get("class", s["id"]),
            group=s["group"],
            anchors=tuple(s["anchor"]),
            source=s["source"],
            meaning=s["meaning"],
            step=s.get("step", ""),
            sticky=bool(s.get("sticky")),
            surfaced=bool(s.get("surfaced")),
            precise=bool(s.get("precise")),
            sync=bool(s.get("sync")),
            collective=bool(s.get("collective")),
            wraps=bool(s.get("wraps")),
            death=bool(s.get("death")),
            example=s["example"],
            expression=s["pattern"],
        )
        for s in data()["signatures"]
    )


@cache
def by_id() -> dict[str, Signature]:
    """The first signature of each id."""
    found: dict[str, Signature] = {}
    for signature in signatures():
        found.setdefault(signature.id, signature)
    return found


@cache
def anchors() -> tuple[str, ...]:
    """Every literal that makes a line worth a look."""
    return tuple(sorted({a for s in signatures() for a in s.anchors}))


def match(text: str) -> tuple[Signature, re.Match[str]] | None:
    """The first signature that the line fits."""
    for signature in signatures():
        if any(a in text for a in signature.anchors) and (found := signature.pattern.search(text)):
            return signature, found
    return None


def named(name: str) -> list[Signature]:
    """Signatures of an id or class."""
    return [s for s in signatures() if name in (s.id, s.cls)]


def xid(number: int) -> dict[str, Any]:
    """What is known of an Xid number; kind `unknown` for any other: never a guess."""
    found = data()["xids"].get(number) or data()["xids"].get(str(number))
    return (
        cast("dict[str, Any]", found)
        if found
        else {"mnemonic": None, "kind": "unknown", "meaning": "not in this list: look it up in NVIDIA's Xid catalogue"}
    )


def environment(name: str, **words: str) -> dict[str, str]:
    """One named set of environment variables with its placeholders filled.

    Raises:
        UsageFault: there is no such set.
    """
    sets = data()["environments"]
    if name not in sets:
        raise UsageFault(f"no such environment: {name}", next_step=f"use one of {', '.join(sets)}")
    filled = {"out": "crash-evidence", "level": "1", "flashinfer_level": "1", **words}
    found: dict[str, str] = {}
    for key, value in sets[name].items():
        for word, text in filled.items():
            value = value.replace(f"{{{word}}}", text)
        found[key] = value
    return found
