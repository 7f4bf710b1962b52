"""The append-only store of candidate rows: failed, skipped and slow ones stay (A65); events of a search stand between them.

Entry kinds: `row` (a canonical row), and the events `search_begins`, `launch_begins`, `launch_ends`, `not_run` (a
candidate that the budget or an earlier failure left out, with the reason), `no_search` (why a framework's options were not
searched), `accuracy` (a measured score of an engine).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base.errors import InputUnusable
from infer_forge.base.ledger import Entry, Ledger

if TYPE_CHECKING:
    from infer_forge.bench.model import Row

ROW = "row"
EVENTS = ("search_begins", "launch_begins", "launch_ends", "not_run", "no_search", "accuracy")


class RowStore:
    """Rows and events of one ledger file."""

    def __init__(self, path: str | Path) -> None:
        self.ledger = Ledger(path)

    @property
    def path(self) -> Path:
        """The file."""
        return self.ledger.path

    def add(self, rows: Sequence[Row]) -> list[Entry]:
        """Append rows; when this returns they are on disk."""
        return self.ledger.append_all([(ROW, row.model_dump(mode="json")) for row in rows]) if rows else []

    def event(self, kind: str, **body: Any) -> Entry:
        """Append an event."""
        if kind not in EVENTS:
            raise ValueError(f"no event is called {kind}")
        return self.ledger.append(kind, body)

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Bodies of the events of a kind, oldest first."""
        return [e.body for e in self.ledger.entries(kind)]

    def rows(
        self,
        *,
        contract_hash: str | None = None,
        purposes: Iterable[str] | None = None,
        frameworks: Iterable[str] | None = None,
    ) -> list[Row]:
        """Rows in the order recorded, of one contract, of some purposes, of some frameworks.

        Raises:
            InputUnusable: the chain is broken, or an entry is no row.
        """
        return [row for _, row in self.entries(contract_hash=contract_hash, purposes=purposes, frameworks=frameworks)]

    def entries(
        self,
        *,
        contract_hash: str | None = None,
        purposes: Iterable[str] | None = None,
        frameworks: Iterable[str] | None = None,
    ) -> list[tuple[Entry, Row]]:
        """The same with the ledger entry of each row, whose hash is its evidence id."""
        from pydantic import ValidationError

        from infer_forge.bench.model import Row

        wanted = set(purposes) if purposes is not None else None
        names = set(frameworks) if frameworks is not None else None
        found: list[tuple[Entry, Row]] = []
        for entry in self.ledger.entries(ROW):
            body = entry.body
            if contract_hash is not None and body.get("contract_hash") != contract_hash:
                continue
            if (wanted is not None and body.get("purpose") not in wanted) or (
                names is not None and body.get("framework") not in names
            ):
                continue
            try:
                found.append((entry, Row.model_validate(body)))
            except ValidationError as fault:
                first = fault.errors()[0]
                name = ".".join(map(str, first["loc"]))
                raise InputUnusable(
                    f"entry {entry.seq} is no row: {name} {first['msg']}", where=str(self.path)
                ) from None
        return found
