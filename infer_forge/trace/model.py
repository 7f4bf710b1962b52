"""The model of a torch-profiler trace: what the reader fills and every table stands on.

One `Trace` is one file (or, after `Trace.split`, one rank of it). Everything that repeats is a numpy column (the tables of
`infer_forge.trace.columns`); every text is an id into `Trace.names`. Times are int64 nanoseconds on the trace's own clock
(`TraceHeader.base_time_ns` + ts is epoch). "Nothing" is -1 in an id column and in an integer that the file did not give; it
is never 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from infer_forge.trace.columns import (
    I32,
    Annotations,
    CallKind,
    Calls,
    DeviceWork,
    Flags,
    Frames,
    Link,
    Ops,
    Syncs,
    Windows,
    WorkKind,
)

__all__ = [
    "Annotations",
    "CallKind",
    "Calls",
    "Collective",
    "Coverage",
    "DeviceWork",
    "EventLayer",
    "Frames",
    "GraphMapping",
    "Link",
    "Loss",
    "Ops",
    "RankGroup",
    "SkippedFile",
    "Syncs",
    "Thread",
    "Trace",
    "TraceHeader",
    "TraceSet",
    "Windows",
    "WorkKind",
]


@dataclass(frozen=True)
class Thread:
    """A host thread. pid and tid are texts, because merged traces write texts."""

    pid: str
    tid: str
    group: int


@dataclass(frozen=True)
class RankGroup:
    """The processes of one rank. In a merged file there are several, and ids are only unique within one."""

    rank: int | None
    """None where neither the file nor its name says it."""
    label: str
    """What the file calls it, such as `TP00` in a merged trace; else the pid."""
    pids: tuple[str, ...] = ()
    rank_from: str = "unknown"
    """distributedInfo, pid label, file name, or unknown."""


@dataclass(frozen=True)
class Collective:
    """Arguments of a collective kernel. Element counts and sizes are None where the trace does not record them."""

    op: str
    group_name: str
    group_desc: str
    group_size: int | None
    ranks: str
    dtype: str
    in_elements: int | None
    out_elements: int | None
    sequence: int | None = None


@dataclass(frozen=True)
class Loss:
    """One place where the file could not be read."""

    offset: int
    """Byte offset in the uncompressed stream."""
    size_bytes: int
    reason: str


@dataclass
class Coverage:
    """What was read, what was not, and how well the links hold. Counts of the whole file, before any split."""

    bytes_read: int = 0
    """Uncompressed bytes seen."""
    events_read: int = 0
    """Events decoded, of every phase and category."""
    events_repaired: int = 0
    """Decoded only after a repair (control character, stray backslash, bare inf or NaN, missing value)."""
    events_doubtful: int = 0
    """Of `events_repaired`: a value was missing where writers leave none out; a cut may have joined two events there."""
    events_lost: int = 0
    """Could not be decoded; at least this many."""
    device_events_lost: int = 0
    """Of `events_lost`: those whose bytes show that they were device work (at least)."""
    bytes_lost: int = 0
    losses: list[Loss] = field(default_factory=list[Loss])
    """The first 50 losses, with their offsets."""
    truncated: str | None = None
    """Why the stream ended early; None when it ended as it should."""
    categories: dict[str, int] = field(default_factory=dict[str, int])
    """Complete (X) events per category, as written."""
    unknown_categories: dict[str, int] = field(default_factory=dict[str, int])
    """Those of the X categories that this reader does not know; "" is an event without one."""
    unknown_phases: dict[str, int] = field(default_factory=dict[str, int])
    device_events_unusable: int = 0
    """Device events without a usable ts or dur (missing, negative, not a number): in no sum, never counted as 0."""
    host_events_unusable: int = 0
    links: dict[str, int] = field(default_factory=dict[str, int])
    """`Link` name in lower case -> device work items."""
    links_time_ns: dict[str, int] = field(default_factory=dict[str, int])
    """The same in device time."""
    with_source: int = 0
    """Device work items with a Python source."""
    without_call: int = 0
    """Device work items without a launch call in the file."""
    launches_without_work: int = 0
    """Launch calls (kernel, graph, memcpy, memset) to whose correlation no device work belongs."""
    external_collisions: int = 0
    """External ids that named an op which cannot be the launcher (another thread or time): not used."""
    synthetic_external: bool = False
    """External id equals correlation throughout: it names no op (facts: no external correlation was recorded)."""
    flows: int = 0
    graph_launches: int = 0
    in_graphs: int = 0
    """Device work items launched by graphs."""

    @property
    def lossy(self) -> bool:
        """Whether anything that could change a sum was lost."""
        return bool(
            self.events_lost
            or self.events_doubtful
            or self.bytes_lost
            or self.truncated
            or self.device_events_unusable
            or self.unknown_categories
            or self.unknown_phases
        )


@dataclass
class TraceHeader:
    """Facts that the file states about itself. None is "the file does not say"."""

    vendor: str = "unknown"
    """nvidia | amd | unknown, from the runtime version fields, else from the API names; never from a compute capability."""
    versions: dict[str, Any] = field(default_factory=dict[str, Any])
    """cuda_runtime_version, cupti_version, hip_runtime_version, roctracer_version, ... as written."""
    devices: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """deviceProperties as written."""
    distributed: dict[str, Any] = field(default_factory=dict[str, Any])
    """distributedInfo as written."""
    base_time_ns: int | None = None
    trace_id: str | None = None
    with_stack: bool | None = None
    record_shapes: bool | None = None
    profile_memory: bool | None = None
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    """The other top-level keys that hold a scalar."""

    @property
    def world_size(self) -> int | None:
        """distributedInfo.world_size where it is a number."""
        value = self.distributed.get("world_size")
        return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass
class GraphMapping:
    """How one captured graph was matched to its replays (`infer_forge.trace.mapping`)."""

    graph: str
    """Name of the graph in the capture trace (its annotation), or its number."""
    level: str
    """`verified by names` | `verified by count and category` | `unverified`."""
    replays: int
    nodes: int
    """Kernels of one replay."""
    matched: int
    """Replayed items that were given an op."""
    note: str = ""


@dataclass
class Trace:
    """One trace file in columns; see the module docstring for units and for what -1 means."""

    path: Path
    size_bytes: int
    sha256: str | None
    """Of the file as it lies on disk; None where it could not be hashed."""
    header: TraceHeader
    coverage: Coverage
    names: list[str]
    stages: list[str]
    """Stage labels by id: 0 is `all` (the rank has no stage windows), 1 `outside` (it has, and the item is in none)."""
    groups: list[RankGroup]
    threads: list[Thread]
    work: DeviceWork
    calls: Calls
    syncs: Syncs
    annotations: Annotations
    windows: Windows
    collectives: list[Collective] = field(default_factory=list[Collective])
    shapes: list[str] = field(default_factory=list[str])
    """`[gx, gy, gz] [bx, by, bz]` as written."""
    mappings: list[GraphMapping] = field(default_factory=list[GraphMapping])
    mapped_shapes: dict[int, tuple[str | None, str | None]] = field(
        default_factory=dict[int, "tuple[str | None, str | None]"]
    )
    """Row of `work` -> input dims and types (JSON texts) of the op that a mapping gave it."""
    hints: dict[str, str] = field(default_factory=dict[str, str])
    """What the path suggests (stage, rank); only a hint, for a finding when it disagrees with the contents."""
    from_cache: bool = False
    load_events: Callable[[], EventLayer] | None = None
    """Reads the `.ev` layer; set by the reader."""
    _events: EventLayer | None = None

    @property
    def rank(self) -> int | None:
        """The rank of a trace with one rank group; None where unknown."""
        return self.groups[0].rank if len(self.groups) == 1 else None

    @property
    def events(self) -> EventLayer:
        """The `.ev` layer (ops, frames), read when first asked for; empty where the trace has none."""
        if self._events is None:
            self._events = self.load_events() if self.load_events else EventLayer(Ops.empty(), Frames.empty(), [])
        return self._events

    def set_events(self, layer: EventLayer) -> None:
        """Give the `.ev` layer that was just read."""
        self._events = layer

    @property
    def ops(self) -> Ops:
        """CPU ops, in file order."""
        return self.events.ops

    @property
    def frames(self) -> Frames:
        """Python frames, in file order."""
        return self.events.frames

    @property
    def op_texts(self) -> list[str]:
        """Interned JSON texts of op shapes and types."""
        return self.events.texts

    @property
    def launches(self) -> Flags:
        """Mask over `calls`: calls that put work on a device (kernel, graph, memcpy, memset)."""
        return np.isin(self.calls.kind, (CallKind.LAUNCH, CallKind.GRAPH_LAUNCH, CallKind.MEMCPY, CallKind.MEMSET))

    def name(self, name_id: int) -> str | None:
        """The text of a name id; None for -1."""
        return self.names[name_id] if name_id >= 0 else None

    def split(self) -> list[Trace]:
        """One trace per rank group; names, threads and coverage are shared, row numbers re-made."""
        if len(self.groups) == 1:
            return [self]
        return [_only(self, g) for g in range(len(self.groups))]


@dataclass
class EventLayer:
    """Host events, the second layer of the cache."""

    ops: Ops
    frames: Frames
    texts: list[str]


@dataclass
class SkippedFile:
    """A file of a directory that was not used, and why."""

    path: Path
    reason: str


@dataclass
class TraceSet:
    """Every rank of what was asked for, one `Trace` a rank and file, ordered by rank; duplicates are in `skipped`.

    A rank occurs more than once where the profiler wrote several files for it (SGLang's profile by stage).
    """

    traces: list[Trace]
    skipped: list[SkippedFile] = field(default_factory=list[SkippedFile])

    @property
    def ranks(self) -> list[int | None]:
        """Rank of each trace, in order."""
        return [t.rank for t in self.traces]


def _rows(mask: Flags) -> I32:
    """Old row number -> new row number (-1 dropped), with one more entry so that -1 maps to -1."""
    renumber = np.full(len(mask) + 1, -1, np.int32)
    renumber[:-1][mask] = np.arange(int(mask.sum()), dtype=np.int32)
    return renumber


def _only(trace: Trace, group: int) -> Trace:
    picks = {k: getattr(trace, k).group == group for k in ("work", "calls", "syncs", "annotations", "windows")}
    tables = {k: getattr(trace, k).take(mask) for k, mask in picks.items()}
    work = tables["work"]
    work.call = _rows(picks["calls"])[work.call]
    work.window = _rows(picks["windows"])[work.window]
    for table in tables.values():
        table.group = np.zeros(len(table), np.int16)
    one = replace(trace, groups=[trace.groups[group]], **tables)
    renumber = _rows(picks["work"])
    one.mapped_shapes = {int(renumber[r]): v for r, v in trace.mapped_shapes.items() if renumber[r] >= 0}
    one._events = None  # pyright: ignore[reportPrivateUsage]
    one.load_events = lambda: trace.events  # op rows keep pointing into the shared layer
    return one
