"""What a triage is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """Choices of a triage.

    Attributes:
        rank: a rank number, `all`, or None for the rank with the most busy time (ties: the lowest).
        stage: only this stage (`prefill`, `decode`, ...), or None for all.
        min_share: rows below this per cent of their stage's device time are hidden and summed in the header.
        mapping: capture trace through which graph replays are resolved.
        server_args: the server arguments of the benchmark. server_log: the log of the profiled server. Both for the gate.
        limit: rows per table at the most, None for all. cursor: row number, as text, at which every table begins.
        cache: use and fill the column cache.
        cluster: scheduler of a Dask cluster that reads the traces; None: this machine does.
        unverified: also use catalogue patterns whose source nobody has checked.
        keep: store the report by the hash of its traces, so that later steps find it.
    """

    rank: int | str | None = None
    stage: str | None = None
    min_share: float = 1.0
    mapping: Path | None = None
    server_args: Path | None = None
    server_log: Path | None = None
    limit: int | None = None
    cursor: str | None = None
    cache: bool = True
    cluster: str | None = None
    unverified: bool = False
    keep: bool = True
