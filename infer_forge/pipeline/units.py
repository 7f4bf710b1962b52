"""What a device did, cut into units (annotated steps, and the runs between them) and those into pieces without a breaker.

A step in which two micro-batches run side by side makes two units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from infer_forge.pipeline import microbatch
from infer_forge.pipeline.align import Parse
from infer_forge.pipeline.microbatch import Mask
from infer_forge.pipeline.roles import Role
from infer_forge.pipeline.segment import Names
from infer_forge.trace.columns import I64
from infer_forge.trace.model import Trace

_MAIN_SHARE = 0.6
"""A stream that holds at least this share of a unit's kernels is its main stream; without one all streams count, by time."""


@dataclass
class Piece:
    """A run of work without a breaker (host copy, embedding, sampling) in it."""

    rows: I64
    ids: np.ndarray[Any, np.dtype[np.int32]]
    parse: Parse | None = None
    follows: bool = False
    """Another pass ends right before it: nothing there is its head."""

    @property
    def halves(self) -> int:
        """Halves found in it."""
        return len(self.parse.templates) if self.parse else 0


@dataclass
class Unit:
    """An annotated step (window >= 0) or a run of work between steps."""

    window: int
    rows: I64
    side: I64
    pieces: list[Piece] = field(default_factory=list[Piece])
    first: bool = False
    last: bool = False
    micro: int = -1
    """Number of the micro-batch where two run side by side; -1 otherwise."""
    woven: bool = False
    """It shares its stream with the other micro-batch."""
    breaks: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    """Starts of the other micro-batch's head, tail and copies: they part the passes of this one too."""


def units_of(trace: Trace, rows: I64, names: Names) -> list[Unit]:
    """Annotated steps and the runs between them, in order of time. Profiler steps are units too."""
    work, windows = trace.work, trace.windows
    window = work.window[rows]
    starts = np.sort(windows.start_ns) if len(windows) else np.empty(0, np.int64)
    run = np.searchsorted(starts, work.ts_ns[rows], side="right")
    key = np.where(window >= 0, window, -1 - run)
    order = np.argsort(key, kind="stable")
    bounds = np.flatnonzero(np.r_[True, np.diff(key[order]) != 0]) if len(rows) else np.empty(0, np.int64)
    units: list[Unit] = []
    for some in np.split(rows[order], bounds[1:]):
        if not len(some):
            continue
        units += _strands(trace, np.sort(some), int(work.window[some[0]]), names)
    units.sort(key=lambda u: int(work.ts_ns[u.rows[0]]))
    return units


def _strands(trace: Trace, rows: I64, window: int, names: Names) -> list[Unit]:
    """The units of a step: one, or one a micro-batch where several have a stream of their own."""
    streams = microbatch.streams_of(trace, rows, names)
    if not streams:
        main = _main(trace, rows)
        return [Unit(window, rows[main], rows[~main])]
    own = [rows[trace.work.stream[rows] == s] for s in streams]
    side = rows[~np.isin(trace.work.stream[rows], streams)]
    beside = microbatch.by_launch(trace, own, side)
    made = [Unit(window, mine, beside[k], micro=k) for k, mine in enumerate(own)]
    ids = trace.work.name[own[0]].tolist()
    breaks = trace.work.ts_ns[own[0]][np.array([names.role(int(n)) is Role.BREAKER for n in ids], bool)]
    for unit in made[1:]:
        unit.breaks = breaks
    return made


def _main(trace: Trace, rows: I64) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which rows are the main stream's (all of them where no stream dominates)."""
    streams = trace.work.stream[rows]
    values, counts = np.unique(streams, return_counts=True)
    best = int(counts.argmax())
    if len(values) == 1 or counts[best] < _MAIN_SHARE * len(rows):
        return np.ones(len(rows), bool)
    return streams == values[best]


def split(unit: Unit, trace: Trace, names: Names) -> None:
    """Cut a unit's main stream at its breakers; what lies between becomes its pieces."""
    ids = trace.work.name[unit.rows]
    table = {int(n): names.role(int(n)) is Role.BREAKER for n in np.unique(ids)}
    breaks = np.array([table[int(n)] for n in ids.tolist()], bool)
    parted = np.searchsorted(unit.breaks, trace.work.ts_ns[unit.rows])
    edges = np.flatnonzero(np.r_[True, (breaks[1:] != breaks[:-1]) | (parted[1:] != parted[:-1])])
    edges = edges if len(ids) else np.empty(0, np.int64)
    for begin, end in zip(edges.tolist(), [*edges.tolist()[1:], len(ids)], strict=True):
        if not breaks[begin]:
            unit.pieces.append(Piece(unit.rows[begin:end], np.ascontiguousarray(ids[begin:end], np.int32)))


def ends(units: list[Unit]) -> None:
    """Mark the first and the last unit of the device: of each micro-batch, where several share the step."""
    if not units:
        return
    for edge, near in ((units[0], units[:3]), (units[-1], units[-3:])):
        for unit in near:
            if unit is edge or (
                unit.micro != edge.micro and min(unit.micro, edge.micro) >= 0 and unit.window == edge.window
            ):
                unit.first, unit.last = unit.first or edge is units[0], unit.last or edge is units[-1]


def unweave(units: list[Unit], second: Callable[[Piece, bool], Mask | None], trace: Trace) -> list[Unit]:
    """Units with the second micro-batch of each taken out of the stream that it shares with the first.

    Args:
        second: which kernels of a piece are the second micro-batch's; None where it is one batch. Asked again, with True, for the
            further pieces of a step in which another one holds two.
    """
    found: list[Unit] = []
    for unit in units:
        found.append(unit)
        masks = [(p, second(p, False)) for p in unit.pieces] if unit.micro < 0 else []
        if not any(m is not None for _, m in masks):
            continue
        masks = [(p, m if m is not None else second(p, True)) for p, m in masks]
        other = Unit(unit.window, unit.rows[:0], unit.side[:0], micro=1)
        unit.micro = 0
        for k, (piece, mask) in enumerate(masks):
            if mask is not None:
                unit.pieces[k] = Piece(piece.rows[~mask], piece.ids[~mask])
                other.pieces.append(Piece(piece.rows[mask], piece.ids[mask]))
        other.rows = np.concatenate([p.rows for p in other.pieces])
        unit.rows = np.setdiff1d(unit.rows, other.rows, assume_unique=True)
        unit.woven = other.woven = True
        unit.side, other.side = microbatch.by_launch(trace, [unit.rows, other.rows], unit.side)
        found.append(other)
    return found
