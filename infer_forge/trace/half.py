"""One big file with two processes: both walk the whole stream, each decodes every second block.

Gunzip is so cheap that doing it twice costs less than shipping blocks. The helper sends its columns through a pipe once it is
done; the parent puts the blocks back into the order of the file.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from infer_forge.base import workers
from infer_forge.trace.gather import Gatherer, Interned
from infer_forge.trace.model import Collective, Coverage, Loss

PLAIN_BYTES, PACKED_BYTES = 100 << 20, 8 << 20
"""Files below these sizes (uncompressed; compressed) are read alone: a helper takes longer to start."""
_PROGRAM = "from infer_forge.trace.half import serve; serve()"


class _Column(msgspec.Struct, array_like=True):
    """One column of one class of events: its bytes follow in this order."""

    code: str
    name: str
    dtype: str
    blocks: list[tuple[int, int]]
    """(block number, rows)."""


class _Sent(msgspec.Struct):
    """What the helper sends before its columns."""

    columns: list[_Column]
    heads: list[list[Any]]
    counts: list[int]
    names: list[str]
    texts: list[bytes]
    shapes: list[bytes]
    collectives: list[Collective]
    repaired: int
    doubtful: int
    lost: int
    device_lost: int
    bytes_lost: int
    losses: list[Loss]
    device_unusable: int
    host_unusable: int
    read: int


def worth_it(path: Path, packed: bool) -> bool:
    """Whether a file is big enough, and a helper may be started."""
    return (
        path.stat().st_size >= (PACKED_BYTES if packed else PLAIN_BYTES) and workers.may_start() and workers.idle_core()
    )


def start(path: Path) -> subprocess.Popen[bytes]:
    """Start the helper on the odd blocks of a file."""
    helper = workers.start(_PROGRAM)
    assert helper.stdin is not None
    with contextlib.suppress(OSError):  # a helper that died at once: `join` tells
        helper.stdin.write(os.fsencode(path))
    with contextlib.suppress(OSError):
        helper.stdin.close()
    return helper


def serve() -> None:
    """The helper: the path on standard input, header and columns on standard output."""
    from infer_forge.trace.read import gather

    path = Path(os.fsdecode(sys.stdin.buffer.read()))
    coverage = Coverage()
    gathered = gather(path, coverage, parity=1)[0]
    out = sys.stdout.buffer
    columns, arrays = _packed(gathered)
    heads = gathered.heads
    sent = _Sent(
        columns=columns,
        heads=[list(k) for k in heads],
        counts=heads.counts[: len(heads)].tolist(),
        names=list(heads.names),
        texts=list(gathered.texts),
        shapes=list(gathered.shapes),
        collectives=list(gathered.collectives),
        repaired=coverage.events_repaired,
        doubtful=coverage.events_doubtful,
        lost=coverage.events_lost,
        device_lost=coverage.device_events_lost,
        bytes_lost=coverage.bytes_lost,
        losses=coverage.losses,
        device_unusable=coverage.device_events_unusable,
        host_unusable=coverage.host_events_unusable,
        read=coverage.events_read,
    )
    head = msgspec.msgpack.encode(sent)
    out.write(len(head).to_bytes(8, "little"))
    out.write(head)
    for array in arrays:
        out.write(memoryview(array).cast("B"))
    out.flush()
    os._exit(0)  # the parent waits for this end: to free a million objects one by one would cost it time


def _packed(gathered: Gatherer) -> tuple[list[_Column], list[Any]]:
    columns: list[_Column] = []
    arrays: list[Any] = []
    for code, parts in gathered.parts.items():
        for name in parts[0][1]:
            blocks = [(number, len(block["head"])) for number, block in parts]
            arrays.append(np.concatenate([block[name] for _, block in parts]))
            columns.append(_Column(code, name, str(arrays[-1].dtype), blocks))
    return columns, [a for a in arrays if len(a)]


def join(helper: subprocess.Popen[bytes], into: Gatherer, coverage: Coverage) -> bool:
    """Take the helper's columns into what this process gathered.

    Returns:
        False where the helper failed: the file must be read alone.
    """
    assert helper.stdout is not None
    with helper:
        data = helper.stdout.read()
    if helper.returncode or len(data) < 8:
        return False
    size = int.from_bytes(data[:8], "little")
    try:
        sent = msgspec.msgpack.decode(data[8 : 8 + size], type=_Sent)
    except msgspec.DecodeError:
        return False
    _merge(sent, memoryview(data)[8 + size :], into)
    coverage.events_read += sent.read
    coverage.events_repaired += sent.repaired
    coverage.events_doubtful += sent.doubtful
    coverage.events_lost += sent.lost
    coverage.device_events_lost += sent.device_lost
    coverage.bytes_lost += sent.bytes_lost
    coverage.device_events_unusable += sent.device_unusable
    coverage.host_events_unusable += sent.host_unusable
    coverage.losses = sorted([*coverage.losses, *sent.losses], key=lambda loss: loss.offset)[:50]
    return True


def _merge(sent: _Sent, data: memoryview, into: Gatherer) -> None:
    heads = into.heads
    names = _renumbered(sent.names, heads.names)
    head = np.array([heads[tuple(k)] for k in sent.heads], np.int32)
    np.add.at(heads.counts, head, np.array(sent.counts, np.int64))
    maps: dict[str, Any] = {
        "head": head,
        "kernel": names,
        "dims": _renumbered(sent.texts, into.texts),
        "shape": _renumbered(sent.shapes, into.shapes),
        "collective": np.array(
            [into.collectives.setdefault(c, len(into.collectives)) for c in sent.collectives] + [-1], np.int32
        ),
    }
    maps["types"] = maps["dims"]
    at = 0
    made: dict[str, dict[int, dict[str, Any]]] = {}
    for column in sent.columns:
        rows = sum(n for _, n in column.blocks)
        dtype = np.dtype(column.dtype)
        values = np.frombuffer(data, dtype, rows, at) if rows else np.empty(0, dtype)
        at += values.nbytes
        if column.name in maps:
            values = maps[column.name][values]
        start = 0
        for number, count in column.blocks:
            made.setdefault(column.code, {}).setdefault(number, {})[column.name] = values[start : start + count]
            start += count
    for code, blocks in made.items():
        into.parts.setdefault(code, []).extend(blocks.items())
        into.parts[code].sort(key=lambda part: part[0])


def _renumbered(values: list[Any], into: Interned) -> Any:
    """Old id -> new id; the last entry keeps -1."""
    return np.array([*(into[v] for v in values), -1], np.int32)
