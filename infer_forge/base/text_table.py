"""A table as aligned plain text, fitted to a terminal. `base.tables` is the door.

What does not fit is taken away in this order, and a last line names it: columns without any value; columns with one value
in every row; the middles of long texts; columns from the right. Without a width nothing is taken away, so that what goes
through a pipe or into a file is whole and the same on every terminal.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

UNKNOWN = "-"
_GAP = "  "
_FLOOR = 16  # a text that is cut shorter tells nothing any more
_LEAST_COLUMNS = 2
_WIDE = ("W", "F")  # Unicode Standard Annex 11: two cells of a terminal


_UNSEEN = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069]")


def visible(text: str) -> str:
    """The text with every control character but tab and line end written out (`\\x1b`), also those that turn the direction.

    What somebody wrote into a record may then not move the cursor, colour or hide other lines of a terminal.
    """
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    """The text with each run of white space as one space: it cannot pass for another line of an answer."""
    return " ".join(text.split())


def shown_width(text: str) -> int:
    """Cells of a terminal that a text takes: two for a wide East Asian character, none for a combining one."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1


def shorten(text: str, width: int) -> str:
    """Cut the middle out of a text; where it begins with a path, the beginning, since that ends with file and line."""
    whole = shown_width(text)
    if whole <= width:
        return text
    path = "/" in text.partition(" ")[0]
    head = 0 if path else (width - 1) * 2 // 3
    kept = _first(text, head)
    tail = _first(text[::-1], width - 1 - shown_width(kept))[::-1]
    return f"{kept}…{tail}"


def _first(text: str, width: int) -> str:
    """As many of the first characters as fit."""
    used = 0
    for place, character in enumerate(text):
        used += _cells(character)
        if used > width:
            return text[:place]
    return text


@dataclass
class _Fit:
    """Which columns are shown, how wide, and what was taken away on the way there."""

    natural: list[int]
    least: list[int]
    shown: list[int]
    empty: list[int] = field(default_factory=list[int])
    same: list[int] = field(default_factory=list[int])
    dropped: list[int] = field(default_factory=list[int])

    def total(self, widths: Sequence[int]) -> int:
        return sum(widths[c] for c in self.shown) + len(_GAP) * (len(self.shown) - 1)

    def capped(self, cap: int) -> list[int]:
        return [min(natural, max(cap, least)) for natural, least in zip(self.natural, self.least, strict=True)]


def _fold(fit: _Fit, rows: Sequence[Sequence[str]], width: int) -> None:
    """Take away columns that tell nothing apart, until the rest fits."""
    alike = [c for c in fit.shown if len({row[c] for row in rows}) == 1] if len(rows) > 1 else []
    empty = [c for c in alike if rows[0][c] == UNKNOWN]
    for column in [*reversed(empty), *reversed([c for c in alike if c not in empty])]:
        if fit.total(fit.natural) <= width or len(fit.shown) <= _LEAST_COLUMNS:
            return
        fit.shown.remove(column)
        (fit.empty if column in empty else fit.same).insert(0, column)


def _fitted(natural: list[int], least: list[int], rows: Sequence[Sequence[str]], width: int) -> tuple[_Fit, list[int]]:
    fit = _Fit(natural, least, list(range(len(natural))))
    if not width or fit.total(natural) <= width:
        return fit, natural
    _fold(fit, rows, width)
    while fit.total(least) > width and len(fit.shown) > _LEAST_COLUMNS:
        fit.dropped.insert(0, fit.shown.pop())
    cap = next((c for c in range(max(natural), 0, -1) if fit.total(fit.capped(c)) <= width), 0)
    return fit, fit.capped(cap)


def text_table(names: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], width: int = 0) -> str:
    """Header, rule and rows, each column as wide as it needs, or as `width` columns of a terminal allow (0: no limit).

    Args:
        right: which columns align right; these hold numbers, and are never cut.
    """
    natural = [max(shown_width(n), *(shown_width(row[i]) for row in rows)) for i, n in enumerate(names)]
    least = [w if r else max(shown_width(n), min(w, _FLOOR)) for w, r, n in zip(natural, right, names, strict=True)]
    fit, widths = _fitted(natural, least, rows, width)

    def line(cells: Sequence[str]) -> str:
        parts: list[str] = []
        for c in fit.shown:
            text = shorten(cells[c], widths[c])
            space = " " * (widths[c] - shown_width(text))
            parts.append(space + text if right[c] else text + space)
        return _GAP.join(parts).rstrip()

    told = _taken_away(fit, widths, names, rows)
    return "\n".join([line(names), line(["-" * w for w in widths]), *map(line, rows), *([told] if told else [])])


def _taken_away(fit: _Fit, widths: list[int], names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """One line on what the terminal has no room for; empty when it has room for all."""
    short = [c for c in fit.shown if widths[c] < fit.natural[c]]
    said = {
        "in every row": [f"{names[c]} {shorten(rows[0][c], 2 * _FLOOR)}" for c in fit.same],
        "no value in": [names[c] for c in fit.empty],
        "shortened": [names[c] for c in short],
        "left out": [names[c] for c in fit.dropped],
    }
    parts = [f"{what}: {', '.join(which)}" for what, which in said.items() if which]
    return f"({'; '.join(parts)}; --format md has all)" if parts else ""
