"""The column tables of a trace, and the small vocabularies of their cells. See `infer_forge.trace.model` for units."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
I16 = npt.NDArray[np.int16]
I8 = npt.NDArray[np.int8]
Flags = npt.NDArray[np.bool_]
Picks = npt.NDArray[np.intp] | npt.NDArray[np.bool_] | npt.NDArray[np.int64]

_DTYPES: dict[str, Any] = {"I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "Flags": np.bool_}
C = TypeVar("C", bound="Columns")


class WorkKind(IntEnum):
    """What a device did. Synchronisation is no device work: it stands in `Trace.syncs`."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2


class CallKind(IntEnum):
    """What a CUDA or HIP runtime or driver call of the host does."""

    OTHER = 0
    LAUNCH = 1
    GRAPH_LAUNCH = 2
    MEMCPY = 3
    MEMSET = 4
    SYNC = 5
    """Blocks the calling thread until the device (stream, event, device) is done."""
    EVENT_RECORD = 6
    STREAM_WAIT = 7
    """Makes a stream wait for an event: a dependency between streams, no blocking of the host."""


class Link(IntEnum):
    """How a device work item found its CPU op; tried in this order, and counted in `Coverage.links`."""

    NONE = 0
    EXTERNAL_ID = 1
    """The item's own External id names a CPU op that encloses the launch (or, without a launch, an op before it)."""
    CORRELATION = 2
    """Correlation -> launch call, and the launch call's External id names the op."""
    ENCLOSING = 3
    """Correlation -> launch call -> innermost CPU op around it on the launching thread."""
    FLOW = 4
    """An ac2g flow starts inside an op and ends at the item; no launch call with the correlation exists."""
    GRAPH_NODE = 5
    """Graph id and graph node id name a captured call of the same file."""
    MAPPING = 6
    """Through a capture trace (`infer_forge.trace.mapping`)."""
    GRAPH_REPLAY = 7
    """Unresolved: the item belongs to a graph replay, its op is only the launch of the whole graph."""


class Columns:
    """Base of a table of equally long numpy columns; a subclass is a dataclass whose annotations name the dtypes."""

    def __len__(self) -> int:
        """Rows of the table."""
        return len(getattr(self, fields(self)[0].name))  # pyright: ignore[reportArgumentType]

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """Column name -> numpy dtype, in order."""
        return {f.name: _DTYPES[str(f.type)] for f in fields(cls)}  # pyright: ignore[reportArgumentType]

    @classmethod
    def empty(cls: type[C]) -> C:
        """The table without a row."""
        return cls(**{k: np.empty(0, dtype) for k, dtype in cls.schema().items()})

    @classmethod
    def filled(cls: type[C], rows: int, **columns: Any) -> C:
        """A table of `rows` rows: the given columns (cast), every other one "nothing" (-1, False; 0 in `link`)."""
        made: dict[str, Any] = {}
        for name, dtype in cls.schema().items():
            given = columns.pop(name, None)
            if given is not None:
                made[name] = np.ascontiguousarray(given, dtype)
            else:
                made[name] = np.full(rows, 0 if dtype is np.bool_ or name in ("link", "group") else -1, dtype)
        if columns:
            raise TypeError(f"{cls.__name__} has no column {sorted(columns)}")
        return cls(**made)

    @classmethod
    def joined(cls: type[C], tables: list[C]) -> C:
        """Several tables below one another."""
        return cls(**{k: np.concatenate([getattr(t, k) for t in tables]) for k in cls.schema()})

    def take(self: C, picks: Picks) -> C:
        """The rows of a mask or of row numbers, as a new table."""
        return type(self)(**{f.name: getattr(self, f.name)[picks] for f in fields(self)})  # pyright: ignore[reportArgumentType]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Column name -> array, in order (no copy)."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # pyright: ignore[reportArgumentType]


@dataclass(slots=True)
class DeviceWork(Columns):
    """Kernels, memcpys and memsets, ascending by `ts_ns`. The sum of `dur_ns` is all device work of the trace."""

    ts_ns: I64
    dur_ns: I64
    name: I32
    """Id into `Trace.names`: the full kernel name as written."""
    kind: I8
    """`WorkKind`."""
    device: I32
    """Device number of the trace (args.device, else the event's pid where that is a number); -1 unknown."""
    stream: I64
    """args.stream, never the tid; -1 where the file does not give it."""
    correlation: I64
    external: I64
    """External id as written, any case; -1 none."""
    call: I32
    """Row of `Trace.calls` that launched it; -1 none."""
    op: I32
    """Name id of the CPU op (-1 unresolved). A graph replay's item has one only after a mapping."""
    op_row: I32
    """Row of `Trace.ops` of that op, where it stands in this file (-1 otherwise, as after a mapping)."""
    source: I32
    """Name id of the innermost Python frame of model or engine code around the launch; -1 none."""
    link: I8
    """`Link`."""
    window: I32
    """Row of `Trace.windows`; -1 outside of every stage window."""
    stage: I8
    """Id into `Trace.stages`."""
    graph: Flags
    """Launched by a graph launch."""
    graph_id: I64
    graph_node: I64
    """args `graph id` and `graph node id`; -1 where the file has none (most have none)."""
    graph_pos: I32
    """Order within its graph launch (by start, then stream); -1 outside graphs."""
    group: I16
    """Id into `Trace.groups`: the rank."""
    bytes: I64
    """Bytes of a memcpy or memset; -1 unknown."""
    collective: I32
    """Id into `Trace.collectives`; -1 where the event carries no collective arguments."""
    shape: I32
    """Id into `Trace.shapes` (grid and block); -1 none."""


@dataclass(slots=True)
class Calls(Columns):
    """Runtime and driver calls of the host (CUDA and HIP), ascending by `ts_ns`. Never device time."""

    ts_ns: I64
    dur_ns: I64
    name: I32
    """Name id of the API, such as cudaLaunchKernel."""
    kind: I8
    """`CallKind`."""
    thread: I32
    """Id into `Trace.threads`."""
    correlation: I64
    external: I64
    op: I32
    """Name id of the innermost CPU op around the call on its thread; -1 none."""
    op_row: I32
    source: I32
    """Name id of the innermost Python frame of model or engine code around the call; -1 none."""
    kernel: I32
    """Name id of the kernel that a HIP launch says it launches; -1 none (CUDA never says)."""
    stream: I64
    """args.stream of the call where a number; -1 otherwise."""
    work: I32
    """How many device work items carry this call's correlation."""
    group: I16


@dataclass(slots=True)
class Syncs(Columns):
    """`cuda_sync` events: what a stream, an event or the whole device waited for. Their own class, never device time."""

    ts_ns: I64
    dur_ns: I64
    name: I32
    """Name id, such as `Stream Wait Event`, `Event Sync`, `Stream Sync`, `Context Sync`."""
    device: I32
    stream: I64
    wait_stream: I64
    """The stream whose work is waited for (wait_on_stream); -1 unknown."""
    event: I64
    """wait_on_cuda_event_id; -1 unknown."""
    record_correlation: I64
    """Correlation of the cudaEventRecord that is waited for; -1 unknown."""
    correlation: I64
    group: I16


@dataclass(slots=True)
class Annotations(Columns):
    """`user_annotation` and `gpu_user_annotation` events, ascending by `ts_ns`."""

    ts_ns: I64
    dur_ns: I64
    name: I32
    gpu: Flags
    """From the device's timeline (`gpu_user_annotation`)."""
    device: I32
    stream: I64
    """Of a gpu annotation: its pid and tid where those are numbers."""
    thread: I32
    """Of a host annotation: id into `Trace.threads`."""
    external: I64
    group: I16


@dataclass(slots=True)
class Windows(Columns):
    """Stage windows (one a step and device), ascending by `start_ns`. Counts that the annotation does not give are -1."""

    start_ns: I64
    end_ns: I64
    """On the device: from the gpu annotation, else from the first start to the last end of what the step launched."""
    host_start_ns: I64
    host_end_ns: I64
    """Of the host annotation; -1 where there is none."""
    name: I32
    """Name id of the annotation as written."""
    stage: I8
    """Id into `Trace.stages`."""
    kind: I32
    """Name id of the step's kind (extend, decode, verify, mixed, denoise, profiler step, ...)."""
    level: I8
    """0 a serving step, 1 a denoise step, 2 a profiler step, 3 anything else that was asked for."""
    device: I32
    batch: I64
    tokens: I64
    context_requests: I64
    context_tokens: I64
    generation_requests: I64
    generation_tokens: I64
    from_launches: Flags
    """No gpu annotation exists: the window was made from the device work that the host step launched."""
    step: I32
    """Number of the step on its rank; windows of one host step on several devices share it."""
    group: I16


@dataclass(slots=True)
class Ops(Columns):
    """`cpu_op` events, in the order of the file (the `.ev` layer; read when first asked for)."""

    ts_ns: I64
    dur_ns: I64
    name: I32
    thread: I32
    external: I64
    dims: I32
    """Id into `Trace.op_texts`: the JSON text of `Input Dims`; -1 where shapes were not recorded."""
    types: I32
    """Id into `Trace.op_texts`: the JSON text of `Input type`."""
    group: I16


@dataclass(slots=True)
class Frames(Columns):
    """`python_function` events, in the order of the file (the `.ev` layer)."""

    ts_ns: I64
    dur_ns: I64
    name: I32
    thread: I32
    group: I16
