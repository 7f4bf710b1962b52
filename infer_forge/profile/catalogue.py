"""The fuse catalogue as types: `references/fuse_catalogue.yaml`, read once a process."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from infer_forge.base.errors import InputUnusable
from infer_forge.base.resources import load_yaml

FILE = "references/fuse_catalogue.yaml"


@dataclass(frozen=True)
class Element:
    """What a device work item must look like to be this element."""

    name: str
    any: tuple[str, ...] = ()
    all: tuple[str, ...] = ()
    refuse: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    example: str = ""

    def matches(self, lowered: str, category: str) -> bool:
        """Whether a kernel with this lower-cased name and category is the element."""
        if self.category and category not in self.category:
            return False
        if self.any and not any(word in lowered for word in self.any):
            return False
        return all(word in lowered for word in self.all) and not any(word in lowered for word in self.refuse)


@dataclass(frozen=True)
class Pattern:
    """One fusion: how it looks when missing and when active, when it applies, and who has it."""

    id: str
    framework: str
    fuses: str
    unfused: tuple[tuple[str, ...], ...]
    fused: tuple[tuple[str, ...], ...]
    saving: str
    source: dict[str, str]
    when: dict[str, Any] = field(default_factory=dict[str, Any])
    ignore: tuple[str, ...] = ()
    max_gap_us: float = 1000.0
    min_count: int = 4
    status: str = "verified"
    example: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def where(self) -> str:
        """Repository and path of the fused kernel or pass."""
        return f"{self.source['repository']} {self.source['path']}"

    def active(self, lowered: str) -> int:
        """How well a lower-cased kernel name shows the fusion active: the matched length, 0 when it does not."""
        return max((_fit(parts, lowered) for parts in self.fused), default=0)


def _fit(parts: tuple[str, ...], lowered: str) -> int:
    """Length of the parts when all of them fit (`!x` must not occur), else 0."""
    for part in parts:
        if (part[1:] in lowered) if part.startswith("!") else (part not in lowered):
            return 0
    return sum(len(part) for part in parts)


@dataclass(frozen=True)
class Catalogue:
    """All elements and patterns."""

    elements: dict[str, Element]
    patterns: tuple[Pattern, ...]

    def enabled(self, unverified: bool = False) -> tuple[Pattern, ...]:
        """The patterns that are used: verified ones, and the others only when asked for."""
        return tuple(p for p in self.patterns if unverified or p.status == "verified")


def _words(value: Any) -> tuple[str, ...]:
    return tuple(str(v).lower() for v in value or ())


@cache
def catalogue() -> Catalogue:
    """The shipped catalogue."""
    return parse(load_yaml(FILE))


def parse(data: dict[str, Any]) -> Catalogue:
    """Make a catalogue of the YAML's content.

    Raises:
        InputUnusable: a pattern names an element that does not exist, or an id stands twice.
    """
    elements = {
        name: Element(
            name,
            _words(row.get("any")),
            _words(row.get("all")),
            _words(row.get("not")),
            tuple(row.get("category") or ()),
            row.get("example", ""),
        )
        for name, row in cast("dict[str, dict[str, Any]]", data["elements"]).items()
    }
    defaults = cast("dict[str, Any]", data.get("defaults", {}))
    patterns = tuple(_pattern({**defaults, **row}, elements) for row in cast("list[dict[str, Any]]", data["patterns"]))
    ids = [p.id for p in patterns]
    if len(set(ids)) != len(ids):
        raise InputUnusable("an id stands twice in the fuse catalogue", where=FILE)
    return Catalogue(elements, patterns)


def _pattern(row: dict[str, Any], elements: dict[str, Element]) -> Pattern:
    unfused = tuple(tuple(sequence) for sequence in row["unfused"])
    ignore = tuple(row.get("ignore") or ())
    for name in (*(n for sequence in unfused for n in sequence), *ignore):
        if name not in elements:
            raise InputUnusable(f"no element {name!r}", where=f"{FILE}, pattern {row['id']}")
    fused = tuple(_words(parts if isinstance(parts, list) else [parts]) for parts in row["fused"])
    return Pattern(
        id=row["id"],
        framework=row["framework"],
        fuses=row["fuses"],
        unfused=unfused,
        fused=fused,
        saving=row["saving"],
        source={"checked": str(row["checked"]), **{k: str(v) for k, v in row["source"].items()}},
        when=dict(row.get("when") or {}),
        ignore=ignore,
        max_gap_us=float(row["max_gap_us"]),
        min_count=int(row["min_count"]),
        status=row["status"],
        example=dict(row.get("example") or {}),
    )
