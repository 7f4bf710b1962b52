"""Where the files of one benchmark stand inside its run directory. Every command and the campaign use this one layout."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """Places under `RUN/benchmark/`. Nothing is made here; whoever writes makes the folder."""

    run: Path

    @property
    def root(self) -> Path:
        """`RUN/benchmark`."""
        return self.run / "benchmark"

    @property
    def contract(self) -> Path:
        """The contract lock."""
        return self.root / "contract.json"

    @property
    def baseline(self) -> Path:
        """The baseline lock: the winner table."""
        return self.root / "baseline.json"

    @property
    def rows(self) -> Path:
        """Every candidate row, whatever became of it (A65, A71): a ledger that only grows."""
        return self.root / "candidates.jsonl"

    @property
    def pilot(self) -> Path:
        """Rows of the pilot, which may precede the contract and never become results."""
        return self.root / "pilot.jsonl"

    @property
    def workload(self) -> Path:
        """The exact prompts."""
        return self.root / "workload"

    @property
    def help(self) -> Path:
        """Help snapshots (A75)."""
        return self.run / "help"

    @property
    def engines(self) -> Path:
        """Records and logs of every engine started."""
        return self.root / "engines"

    @property
    def results(self) -> Path:
        """Result files as the load generator wrote them."""
        return self.root / "results"

    @property
    def summary(self) -> Path:
        """`summary.md` (A72)."""
        return self.root / "summary.md"

    @property
    def winners(self) -> Path:
        """`winning-commands.md` (A73)."""
        return self.root / "winning-commands.md"


def layout(run: str | os.PathLike[str]) -> Layout:
    """The layout of a run directory."""
    return Layout(Path(run).absolute())
