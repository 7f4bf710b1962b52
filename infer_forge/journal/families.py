"""Which model family a path, an architecture or a model id belongs to; topics of a change. All of it by a data file."""

from __future__ import annotations

import difflib
import fnmatch
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from infer_forge.base import jsonio, yamlio
from infer_forge.base.errors import InputUnusable
from infer_forge.base.inputs import finite
from infer_forge.base.resources import data_path
from infer_forge.journal.aliases import canonical

DEFAULT = "references/model_families.yaml"
_SEPARATORS = re.compile(r"[^a-z0-9\u3400-\u9fff]+")


@dataclass
class Families:
    """The families of one file.

    Attributes:
        sha256: of the file; cards know by it whether they were sorted with these rules.
    """

    sha256: str
    globs: dict[str, re.Pattern[str]]
    architectures: dict[str, str]
    ids: list[tuple[str, str]]
    topics: dict[str, tuple[str, ...]]
    frameworks: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    _kept: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def of_path(self, path: str) -> tuple[str, ...]:
        """Families whose globs match a path."""
        known = self._kept.get(path)
        if known is None:
            known = self._kept[path] = tuple(f for f, g in self.globs.items() if g.match(path))
        return known

    def of_text(self, text: str) -> set[str]:
        """Families whose architecture names stand in a text."""
        return {f for a, f in self.architectures.items() if a in text}

    def topics_of(self, text: str) -> list[str]:
        """Topics of which a text holds a word (or a word that begins with it)."""
        flat = f" {_SEPARATORS.sub(' ', text)}"
        return [t for t, words in self.topics.items() if any(w in flat for w in words)]

    def framework_of(self, paths: list[str]) -> str | None:
        """The framework whose folders hold most of these paths."""
        counts = {f: sum(p.startswith(heads) for p in paths) for f, heads in self.frameworks.items()}
        best = max(counts, key=lambda f: counts[f], default=None)
        return best if best and counts[best] else None


@dataclass(frozen=True)
class Match:
    """The family that a name leads to, and what the choice stands on; `family` None: nothing is close."""

    family: str | None
    evidence: str
    certain: bool


def read_families(path: Path | None = None) -> Families:
    """Read a families file (YAML); the shipped one without a path.

    Raises:
        InputUnusable: it cannot be read, or is not of the shape that `references/model_families.yaml` shows.
    """
    file = path or data_path(DEFAULT)
    try:
        text = finite(file).read_text(encoding="utf-8")
        data: Any = yamlio.parse(text, where=str(file))
        families = cast("dict[str, dict[str, list[str]]]", data["families"])
        topics = cast("dict[str, list[str]]", data.get("topics") or {})
        folders = cast("dict[str, list[str]]", data.get("frameworks") or {})
        return Families(
            jsonio.sha256_of(text),
            {f: _any_glob(rows["globs"]) for f, rows in families.items() if rows.get("globs")},
            {a: f for f, rows in families.items() for a in rows.get("architectures") or ()},
            sorted(
                ((key(i), f) for f, rows in families.items() for i in (*(rows.get("ids") or ()), f)),
                key=lambda p: -len(p[0]),
            ),
            {t: tuple(f" {_SEPARATORS.sub(' ', w.lower())}" for w in words) for t, words in topics.items()},
            {f: tuple(heads) for f, heads in folders.items()},
        )
    except (OSError, UnicodeDecodeError) as exc:
        raise InputUnusable(f"cannot be read ({' '.join(str(exc).split())[:120]})", where=str(file)) from None
    except (TypeError, KeyError, AttributeError) as exc:
        raise InputUnusable(
            f"is no families file ({exc})", where=str(file), next_step=f"give it the shape of {DEFAULT}"
        ) from None


def _any_glob(globs: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(g) for g in globs), re.IGNORECASE)


def key(name: str) -> str:
    """A name without case and separators."""
    return _SEPARATORS.sub("", name.casefold())


def family_of(name: str, families: Families) -> Match:
    """The family of a model id, an architecture or a family's own name; else the closest one, and why (A44)."""
    if name in families.architectures:
        return Match(families.architectures[name], f"architecture {name}", True)
    wanted, model = key(name), key(canonical("model", name))
    for known, family in families.ids:
        if wanted == known:
            return Match(family, f"{name!r} is a name of the family", True)
    for text, said in ((wanted, name), (model, canonical("model", name))):
        for known, family in families.ids:
            if known and known in text:
                if _another_generation(known, family, said, families):
                    return Match(family, f"{said!r} holds {known!r}, but with a number that no family has", False)
                return Match(family, f"{said!r} holds {known!r}", True)
    tail = re.split(r"[/]", name)[-1]
    heads = dict(families.ids)
    close = difflib.get_close_matches(re.split(r"[-_ ]|\d", tail.casefold())[0], list(heads), n=1, cutoff=0.6)
    if close:
        share = difflib.SequenceMatcher(None, re.split(r"[-_ ]|\d", tail.casefold())[0], close[0]).ratio()
        return Match(heads[close[0]], f"closest by spelling to {close[0]!r} ({share:.2f})", False)
    return Match(None, "no family has a name like it", False)


def _another_generation(known: str, family: str, name: str, families: Families) -> bool:
    """Whether a name goes on with a number where families are told apart by one: `qwen4`, where `qwen3` is a family of its own.

    Behind a separator a number is a size: `Qwen-7B`.
    """
    numbered = re.compile(rf"{re.escape(known)}\d")
    return bool(numbered.search(name.casefold())) and any(f != family and numbered.match(i) for i, f in families.ids)
