"""One Table for every report: columns with units, rows, and its print forms."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from infer_forge.base.errors import UsageFault
from infer_forge.base.text_table import UNKNOWN, text_table

if TYPE_CHECKING:
    import pandas as pd

# How many digits a unit prints with in text and Markdown; JSON keeps the full value.
_DIGITS = {"us": 1, "ms": 3, "s": 3, "seconds": 6, "pct": 1, "ratio": 3}


@dataclass(frozen=True)
class Column:
    """A column: its name (units in the name: `_us`, `_pct`, ...) and the unit that decides the print form.

    Attributes:
        name: as it stands in JSON.
        unit: `text`, `int`, `us`, `ms`, `s`, `seconds`, `ns`, `bytes`, `pct`, `ratio` or `number`; empty: taken
            from the name's ending.
        help: one line for the reader; shown on HTML pages.
    """

    name: str
    unit: str = ""
    help: str = ""

    @property
    def kind(self) -> str:
        """The unit, or the one that the name's ending tells."""
        if self.unit:
            return self.unit
        ending = self.name.rsplit("_", 1)[-1]
        return ending if ending in (*_DIGITS, "ns", "bytes") else "number"


def row_number(cursor: str | None) -> int:
    """The row that a cursor names; 0 without one.

    Raises:
        UsageFault: it is no cursor that a page gave.
    """
    if not cursor:
        return 0
    if len(cursor) > 18 or not (cursor.isascii() and cursor.isdigit()):
        raise UsageFault(
            f"cursor {cursor[:40]!r} is no row number", next_step="pass the next_cursor of the last answer"
        )
    return int(cursor)


def cell_text(value: Any, kind: str) -> str:
    """Print form of one cell. None prints as `-`: not measured is not 0."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(cell_text(v, kind) for v in value)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, float):
        if kind == "number" and 0 < abs(value) < 0.01:
            return f"{value:.3g}"
        return f"{value:,.{_DIGITS.get(kind, 2)}f}"
    if isinstance(value, int) and kind != "text":
        return f"{value:,}"
    return " ".join(str(value).split())


def _column(column: Column | str) -> Column:
    return column if isinstance(column, Column) else Column(column)


@dataclass
class Table:
    """Columns and rows. Rows are sequences in the order of the columns."""

    name: str
    columns: list[Column]
    rows: list[Sequence[Any]] = field(default_factory=list[Sequence[Any]])
    title: str = ""

    def __init__(
        self, name: str, columns: Iterable[Column | str], rows: Iterable[Sequence[Any]] = (), title: str = ""
    ) -> None:
        """Make a table; a plain string among the columns is a column whose unit its name tells."""
        self.name = name
        self.columns = [_column(c) for c in columns]
        self.rows = list(rows)
        self.title = title or name

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def names(self) -> list[str]:
        """Column names, in order."""
        return [c.name for c in self.columns]

    def dicts(self) -> list[dict[str, Any]]:
        """Rows as dictionaries."""
        names = self.names
        return [dict(zip(names, row, strict=True)) for row in self.rows]

    def slice(self, limit: int | None, cursor: str | None = None) -> tuple[Table, str | None, int]:
        """A page of rows: the page, the cursor of the next one (None at the end), and how many rows are left out in all.

        `cursor` is the row number that the page begins with, as text.
        """
        start = min(row_number(cursor), len(self.rows))
        stop = len(self.rows) if limit is None else min(len(self.rows), start + max(0, limit))
        page = Table(self.name, self.columns, self.rows[start:stop], self.title)
        return page, (str(stop) if stop < len(self.rows) else None), len(self.rows) - (stop - start)

    def to_json(self) -> dict[str, Any]:
        """`{"columns": [..], "rows": [[..]]}`: the form of every door."""
        return {"columns": self.names, "rows": [list(row) for row in self.rows]}

    def _texts(self) -> list[list[str]]:
        kinds = [c.kind for c in self.columns]
        return [[cell_text(v, k) for v, k in zip(row, kinds, strict=True)] for row in self.rows]

    def to_text(self, width: int = 0) -> str:
        """Aligned plain text, fitted to `width` columns of a terminal; 0, as for pipes and files: whole (see `text_table`)."""
        texts = self._texts()
        return text_table(self.names, texts, self._right(), width) if texts else "(no rows)"

    def _right(self) -> list[bool]:
        """Which columns hold numbers and align right."""
        return [c.kind != "text" and not _wordy(self.rows, i) for i, c in enumerate(self.columns)]

    def to_md(self) -> str:
        """A GitHub-flavoured Markdown table."""
        if not self.rows:
            return "(no rows)"
        rule = "|".join("---:" if r else "---" for r in self._right())
        head = ["| " + " | ".join(self.names) + " |", f"|{rule}|"]
        return "\n".join(head + ["| " + " | ".join(t.replace("|", "\\|") for t in row) + " |" for row in self._texts()])

    def to_csv(self) -> str:
        """RFC 4180 CSV with full values; None is an empty field."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.names)
        writer.writerows(["" if v is None else v for v in row] for row in self.rows)
        return out.getvalue()

    def to_frame(self) -> pd.DataFrame:
        """The table as a pandas DataFrame (pandas is imported here, not before)."""
        import pandas

        return pandas.DataFrame([list(row) for row in self.rows], columns=pandas.Index(self.names))


def _wordy(rows: Sequence[Sequence[Any]], index: int) -> bool:
    """Whether a column's first cells are words, so that it aligns left."""
    return any(isinstance(row[index], str) for row in rows[:50])
