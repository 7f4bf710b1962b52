"""Traces in: a file or a folder of ranks becomes one lane a rank and device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.trace.model import SkippedFile, Trace


@dataclass
class Source:
    """One rank's trace with its label."""

    trace: Trace
    rank: int | str | None
    devices: list[int]


@dataclass
class Sources:
    """Every rank that was read, and what was left out."""

    ranks: list[Source]
    skipped: list[SkippedFile] = field(default_factory=list[SkippedFile])


def read(paths: Sequence[Path], mapping: Path | None = None, cache: bool = True) -> Sources:
    """Read traces.

    Raises:
        InputUnusable: a file is no trace, or no trace holds device work.
        UsageFault: no path is given.
    """
    from infer_forge import trace as room
    from infer_forge.trace.read import require_device_work

    if not paths:
        raise UsageFault("no trace is named", next_step="infer-forge pipeline TRACE --config config.json")
    for path in [*paths, *([mapping] if mapping else [])]:
        if not path.exists():
            raise InputUnusable("no such file or folder", where=str(path), next_step="check the path")
    skipped: list[SkippedFile] = []
    if len(paths) == 1 and paths[0].is_file():
        traces = room.load(paths[0], cache=cache).split()
    else:
        many = room.load_many(list(paths), cache=cache)
        traces, skipped = many.traces, list(many.skipped)
    working = [t for t in traces if len(t.work)]
    if not working:
        require_device_work(traces[0])
    if mapping is not None:
        capture = room.load(mapping, cache=cache)
        working = [room.apply_mapping(t, capture) for t in working]
    return Sources([Source(t, label, _devices(t)) for t, label in zip(working, _labels(working), strict=True)], skipped)


def _devices(trace: Trace) -> list[int]:
    return [int(d) for d in np.unique(trace.work.device)]


def _labels(traces: list[Trace]) -> list[int | str | None]:
    """The rank's number where it is known and unique, else the name of the group or of the file."""
    ranks = [t.rank for t in traces]
    if len(traces) == 1:
        return [ranks[0]]
    found: list[int | str | None] = []
    for trace, rank in zip(traces, ranks, strict=True):
        if rank is not None and ranks.count(rank) == 1:
            found.append(rank)
        else:
            label = trace.groups[0].label
            name = trace.path.name.split(".json", 1)[0]
            found.append(name if not label or label.isdigit() else f"{name}:{label}")
    return found
