"""The args of events: typed and many at once; one by one, with any types, where a file writes them otherwise."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from infer_forge.trace.decode import NO_RAW, repaired

A = TypeVar("A", bound=msgspec.Struct)
_NONE = -1


class WorkArgs(msgspec.Struct, gc=False):
    """Of device work (NVIDIA and AMD, with the collective arguments of c10d)."""

    external: int = msgspec.field(default=-1, name="External id")
    external_b: int = msgspec.field(default=-1, name="External Id")
    external_c: int = msgspec.field(default=-1, name="external id")
    device: int = -1
    stream: int = -1
    correlation: int = -1
    bytes: int = -1
    graph_id: int = msgspec.field(default=-1, name="graph id")
    graph_node: int = msgspec.field(default=-1, name="graph node id")
    grid: msgspec.Raw = NO_RAW
    block: msgspec.Raw = NO_RAW
    op: Any = msgspec.field(default=None, name="Collective name")
    group: Any = msgspec.field(default=None, name="Process Group Name")
    group_desc: Any = msgspec.field(default=None, name="Process Group Description")
    group_size: Any = msgspec.field(default=None, name="Group size")
    ranks: Any = msgspec.field(default=None, name="Process Group Ranks")
    dtype: Any = None
    inputs: Any = msgspec.field(default=None, name="In msg nelems")
    outputs: Any = msgspec.field(default=None, name="Out msg nelems")
    sequence: Any = msgspec.field(default=None, name="Seq")


class OpArgs(msgspec.Struct, gc=False):
    """Of CPU ops."""

    external: int = msgspec.field(default=-1, name="External id")
    external_b: int = msgspec.field(default=-1, name="External Id")
    external_c: int = msgspec.field(default=-1, name="external id")
    dims: msgspec.Raw = msgspec.field(default=NO_RAW, name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=NO_RAW, name="Input type")


class CallArgs(msgspec.Struct, gc=False):
    """Of runtime and driver calls; HIP launches also say the kernel."""

    external: int = msgspec.field(default=-1, name="External id")
    external_b: int = msgspec.field(default=-1, name="External Id")
    external_c: int = msgspec.field(default=-1, name="external id")
    correlation: int = -1
    stream: Any = None
    kernel: Any = None
    graph_id: Any = msgspec.field(default=None, name="graph id")
    graph_node: Any = msgspec.field(default=None, name="graph node id")


class SyncArgs(msgspec.Struct, gc=False):
    """Of cuda_sync events."""

    device: int = -1
    stream: int = -1
    correlation: int = -1
    wait_stream: int = msgspec.field(default=-1, name="wait_on_stream")
    event: int = msgspec.field(default=-1, name="wait_on_cuda_event_id")
    record: int = msgspec.field(default=-1, name="wait_on_cuda_event_record_corr_id")


class ArgsReader:
    """Decodes the args of events of one class."""

    def __init__(self, form: type[Any]) -> None:
        self._form = form
        many: Any = list.__class_getitem__(form)
        self._many: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(many)
        self._one: msgspec.json.Decoder[Any] = msgspec.json.Decoder(form)
        self._fields = {f.encode_name: (f.name, f.type) for f in msgspec.structs.fields(form)}

    def read(self, raws: list[msgspec.Raw]) -> list[Any]:
        """One struct an event; what cannot be read has the struct's defaults."""
        try:
            joined: bytes = b",".join(raws)  # pyright: ignore[reportArgumentType]
            found = self._many.decode(b"".join((b"[", joined, b"]")))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            found = []
        if len(found) != len(raws):  # also where one event alone has no args
            return [self._single(bytes(r)) for r in raws]
        return found

    def _single(self, text: bytes) -> Any:
        if not text:
            return self._form()
        for attempt in (text, repaired(text)[0]):
            try:
                return self._one.decode(attempt)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                try:
                    return self._loose(msgspec.json.decode(attempt, type=dict[str, msgspec.Raw]))
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    continue
        return self._form()

    def _loose(self, found: dict[str, msgspec.Raw]) -> Any:
        made = self._form()
        for key, raw in found.items():
            name, kind = self._fields.get(key, ("", None))
            if not name:
                continue
            if kind is msgspec.Raw:
                setattr(made, name, raw)
                continue
            try:
                value = msgspec.json.decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            setattr(made, name, whole(value) if kind is int else value)
        return made


def whole(value: Any) -> int:
    """An id of any JSON type as an int; -1 where it is none."""
    if isinstance(value, bool) or value is None:
        return _NONE
    if isinstance(value, int):
        return value if abs(value) < 1 << 62 else _NONE
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 1 << 53 else _NONE
    if isinstance(value, str) and len(value) < 32:
        try:
            return whole(int(value, 0 if value.lower().startswith("0x") else 10))
        except ValueError:
            return _NONE
    return _NONE


def ids(values: list[Any]) -> npt.NDArray[np.int64]:
    """Ids of any JSON type as a column: quickly where all are ints or all are missing."""
    if not values or values.count(None) == len(values):
        return np.full(len(values), _NONE, np.int64)
    if all(type(v) is int for v in values):
        return column(values)
    return np.array([whole(v) for v in values], np.int64)


def column(values: list[int], dtype: Any = np.int64) -> npt.NDArray[Any]:
    """Ints as a column; those that do not fit are -1."""
    try:
        made = np.array(values, np.int64)
    except (OverflowError, TypeError, ValueError):
        made = np.array([whole(v) for v in values], np.int64)
    if dtype is not np.int64:
        top = np.iinfo(dtype).max
        return np.where((made > top) | (made < -top), _NONE, made).astype(dtype)
    return made


def trailing_number(value: Any) -> int:
    """The number of a device or stream in a pid or tid: 3, "3", "[TP00] 3"; -1 where there is none."""
    if isinstance(value, str):
        return whole(value.rpartition(" ")[2])
    return whole(value)
