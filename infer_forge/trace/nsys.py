"""A second source: SQLite exports of Nsight Systems (schemas of 2022 to 2026) into the same columns.

Tables exist only when they are not empty, and columns came and went between versions, so every table is asked for its columns.
Times are nanoseconds since the session began. Kernel and API names are ids into StringIds. A global id packs the process:
`(id >> 24) & 0xFFFFFF` is the pid, `id & 0xFFFFFF` the tid. NVTX ranges become annotations; those that PyTorch wrote for its
operators (`torch.autograd.profiler.emit_nvtx`) become CPU ops.
Source: Nsight Systems user guide, "SQLite Schema Reference".
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from infer_forge.base.errors import InputUnusable
from infer_forge.engines.sources import USER
from infer_forge.trace import groups as grouping
from infer_forge.trace.columns import I64, Annotations, CallKind, Calls, DeviceWork, Frames, Link, Ops, Syncs, WorkKind
from infer_forge.trace.foreign import SQLITE
from infer_forge.trace.link import Flows, Tables, link_group
from infer_forge.trace.model import Coverage, EventLayer, RankGroup, Thread, Trace, TraceHeader
from infer_forge.trace.source import Hasher
from infer_forge.trace.stages import Stages
from infer_forge.trace.vocabulary import call_kind

RECORDINGS = (b"NVIDIA Tegra Pro", b"QDSTRM", b"NSYS")
"""First bytes of `.nsys-rep` and `.qdstrm` files."""
_COPY = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH", 10: "PtoP",
         11: "UVM HtoD", 12: "UVM DtoH", 13: "UVM DtoD"}  # fmt: skip
_MEMORY = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static", 6: "Managed Static"}
_SYNC = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
_NONE = 0xFFFFFFFF
_MOST_NS = 1 << 58
"""No kernel runs nine years: a longer one has a damaged end, and sums of such ones would overflow."""
_VERSIONED = re.compile(r"_v\d+$")
_OP = re.compile(
    r"^((?:aten|c10d|sgl_kernel|_C|_C_cache_ops|vllm|sglang|torch)::\w+)(?:, seq = -?\d+)?(?:, op_id = \d+)?(?:, sizes = (\[.*\]))?$"
)
_RANGES = (59, 60, 70, 71)
"""NVTX_EVENTS.eventType: NvtxPushPopRange, NvtxStartEndRange, and the same two imported from NVTXT (ENUM_NSYS_EVENT_TYPE; the same
numbers in the exports of 2022.4 and 2023.2 that were looked at)."""
_LAUNCHING = (CallKind.LAUNCH, CallKind.GRAPH_LAUNCH, CallKind.MEMCPY, CallKind.MEMSET)


def is_export(head: bytes) -> bool:
    """Whether a file's first bytes are those of an SQLite database."""
    return head.startswith(SQLITE)


def refuse_recording(path: Path, head: bytes) -> None:
    """Refuse a recording that must be exported first, with the one line that does it.

    Raises:
        InputUnusable: the file is a `.nsys-rep`.
    """
    if head.startswith(RECORDINGS) or path.suffix in (".nsys-rep", ".qdstrm"):
        target = path.with_suffix(".sqlite").name
        raise InputUnusable(
            "is an Nsight Systems recording, which only nsys can read",
            where=str(path),
            next_step=f"nsys export --type sqlite --output {target} {path.name}, then use {target}",
        )


def parse_export(path: Path) -> Trace:
    """Read an SQLite export.

    Raises:
        InputUnusable: it is no export of Nsight Systems, is damaged, or holds no device work.
    """
    hasher = Hasher(path)
    try:
        with _Database(path) as data:
            reader = _Reader(data, path)
            return reader.trace(path.stat().st_size, hasher)
    except (sqlite3.Error, ValueError, TypeError, OverflowError) as fault:
        raise InputUnusable(
            f"is a damaged SQLite database ({fault})",
            where=str(path),
            next_step="export it again with nsys export --type sqlite",
        ) from None


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


class _Database:
    """The database, opened so that nothing is ever written to it."""

    def __init__(self, path: Path) -> None:
        self._link = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        self._link.text_factory = _text
        try:
            listed = self._link.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
        except BaseException:
            self._link.close()
            raise
        self.tables = {row[0] for row in listed}

    def __enter__(self) -> _Database:
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()

    def columns(self, table: str) -> set[str]:
        return {row[1] for row in self._link.execute(f'PRAGMA table_info("{table}")')}

    def rows(self, table: str, names: Iterable[str], where: str = "") -> list[tuple[Any, ...]]:
        """Rows of a table; a column that this version lacks is NULL; nothing where the table is not there."""
        if table not in self.tables:
            return []
        has = self.columns(table)
        listed = ", ".join(f'"{n}"' if n in has else "NULL" for n in names)
        return self._link.execute(f'SELECT {listed} FROM "{table}"{f" WHERE {where}" if where else ""}').fetchall()


def _numbers(values: Iterable[Any]) -> I64:
    """A column of whole numbers, -1 for NULL."""
    return np.array([-1 if v is None else int(v) for v in values], np.int64)


class _Reader:
    """Turns a database into a trace. Used once."""

    def __init__(self, data: _Database, path: Path) -> None:
        self._data, self._path = data, path
        if "StringIds" not in data.tables and not any(t.startswith("CUPTI_") for t in data.tables):
            raise InputUnusable(
                "is an SQLite database, but no export of Nsight Systems",
                where=str(path),
                next_step="nsys export --type sqlite FILE.nsys-rep",
            )
        self._strings: dict[int, str] = dict(data.rows("StringIds", ("id", "value")))
        self.names: list[str] = []
        self._ids: dict[str, int] = {}
        self._threads: dict[int, int] = {}
        self._texts: dict[str, int] = {}
        self._shapes: dict[str, int] = {}

    def _name(self, text: str) -> int:
        found = self._ids.get(text)
        if found is None:
            found = self._ids[text] = len(self.names)
            self.names.append(text)
        return found

    def _thread(self, global_id: Any) -> int:
        return self._threads.setdefault(int(global_id or 0), len(self._threads))

    def trace(self, size_bytes: int, hasher: Hasher) -> Trace:
        """The whole trace."""
        coverage = Coverage(bytes_read=size_bytes)
        work, pids = self._work(coverage)
        if not len(work):
            have = sorted(t for t in self._data.tables if t.startswith(("CUPTI_", "NVTX")))
            raise InputUnusable(
                "the Nsight Systems export has no GPU work: it has no kernel, memcpy or memset table"
                f" (those exist only when not empty); it has {', '.join(have) or 'no CUPTI table at all'}",
                where=str(self._path),
                next_step="record with nsys profile --trace cuda,nvtx while the server works",
            )
        calls = self._calls(coverage)
        marks, ops = self._ranges(coverage)
        syncs = self._syncs(coverage)
        keys = list(self._threads)
        pairs = [(str((k >> 24) & 0xFFFFFF), str(k & 0xFFFFFF)) for k in keys]
        groups, of_pid = self._groups(pids, pairs)
        of_thread = np.array([of_pid.get(p, 0) for p, _ in pairs], np.int16)
        work.group[:] = [of_pid[p] for p in pids]
        for table in (calls, marks, ops):
            table.group[:] = of_thread[table.thread] if len(table) else 0
        header = self._header()
        none = np.empty(0, np.int64)
        ranks = np.full(len(self.names) + 1, -1, np.int8)
        stages = Stages(self.names, self._name)
        frames = Frames.empty()
        call_graph = (np.full(len(calls), -1, np.int64), np.full(len(calls), -1, np.int64))
        for k in range(len(groups)):
            rows = [np.flatnonzero(t.group == k) for t in (work, calls, ops)]
            flows = Flows(none, none, np.empty(0, np.int32), none, none)
            link_group(
                Tables(work, calls, ops, frames, ranks, rows[0], rows[1], rows[2], flows, call_graph), coverage, USER
            )
            stages.add_group(k, marks, work, rows[0], calls)
        windows = stages.finish(work)
        self._count(coverage, work, calls)
        threads = [Thread(pid, tid, int(of_thread[i])) for i, (pid, tid) in enumerate(pairs)]
        trace = Trace(
            self._path, size_bytes, hasher.result(), header, coverage, self.names, stages.stages, groups, threads, work, calls,
            syncs, marks, windows, [], list(self._shapes),
        )  # fmt: skip
        trace.set_events(EventLayer(ops, frames, list(self._texts)))
        return trace

    def _work(self, coverage: Coverage) -> tuple[DeviceWork, list[str]]:
        """Kernels, memcpys, memsets and whole graphs (where only those were traced), ascending by start; and each one's pid."""
        parts = [self._kernels(), self._copies(), self._sets(), self._graphs()]
        pids = [p for _, owners in parts for p in owners]
        work = DeviceWork.joined([table for table, _ in parts])
        good = (work.dur_ns >= 0) & (work.ts_ns >= 0) & (work.dur_ns < _MOST_NS)
        coverage.device_events_unusable = int((~good).sum())
        coverage.events_read += len(work)
        order = np.flatnonzero(good)
        order = order[np.lexsort((work.stream[order], work.device[order], work.ts_ns[order]))]
        for kind, label in (
            (WorkKind.KERNEL, "kernel"),
            (WorkKind.MEMCPY, "gpu_memcpy"),
            (WorkKind.MEMSET, "gpu_memset"),
        ):
            count = int((work.kind == kind).sum())
            if count:
                coverage.categories[label] = count
        return work.take(order), [pids[k] for k in order.tolist()]

    def _filled(
        self, rows: list[tuple[Any, ...]], names: list[int], kind: WorkKind, **more: Any
    ) -> tuple[DeviceWork, list[str]]:
        """Rows begin with start, end, device, stream, correlation, global pid, graph node id."""
        columns = list(zip(*rows, strict=True)) if rows else [()] * 7
        start, end = _numbers(columns[0]), _numbers(columns[1])
        table = DeviceWork.filled(
            len(rows), ts_ns=start, dur_ns=np.where(end >= start, end - start, -1), name=np.array(names, np.int32),
            kind=np.full(len(rows), kind), device=_numbers(columns[2]), stream=_numbers(columns[3]),
            correlation=_numbers(columns[4]), graph_node=_numbers(columns[6]), **more,
        )  # fmt: skip
        return table, [str((int(p or 0) >> 24) & 0xFFFFFF) for p in columns[5]]

    def _kernels(self) -> tuple[DeviceWork, list[str]]:
        wanted = (
            "start", "end", "deviceId", "streamId", "correlationId", "globalPid", "graphNodeId", "demangledName", "shortName",
            "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
        )  # fmt: skip
        rows = self._data.rows("CUPTI_ACTIVITY_KIND_KERNEL", wanted)
        cache: dict[Any, int] = {}
        names: list[int] = []
        shapes: list[int] = []
        for row in rows:
            key = row[7] if row[7] is not None else row[8]
            if key not in cache:
                cache[key] = self._name(self._strings.get(key, f"kernel {key}"))
            names.append(cache[key])
            shapes.append(
                self._shapes.setdefault(f"{list(row[9:12])} {list(row[12:15])}", len(self._shapes))
                if row[9] is not None
                else -1
            )
        return self._filled(rows, names, WorkKind.KERNEL, shape=np.array(shapes, np.int32))

    def _copies(self) -> tuple[DeviceWork, list[str]]:
        wanted = (
            "start",
            "end",
            "deviceId",
            "streamId",
            "correlationId",
            "globalPid",
            "graphNodeId",
            "bytes",
            "copyKind",
            "srcKind",
            "dstKind",
        )
        rows = self._data.rows("CUPTI_ACTIVITY_KIND_MEMCPY", wanted)
        names = [
            self._name(
                f"Memcpy {_COPY.get(r[8], 'unknown')} ({_MEMORY.get(r[9], 'unknown')} -> {_MEMORY.get(r[10], 'unknown')})"
            )
            for r in rows
        ]
        return self._filled(rows, names, WorkKind.MEMCPY, bytes=_numbers(r[7] for r in rows))

    def _sets(self) -> tuple[DeviceWork, list[str]]:
        wanted = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "graphNodeId", "bytes")
        rows = self._data.rows("CUPTI_ACTIVITY_KIND_MEMSET", wanted)
        return self._filled(
            rows, [self._name("Memset (Device)")] * len(rows), WorkKind.MEMSET, bytes=_numbers(r[7] for r in rows)
        )

    def _graphs(self) -> tuple[DeviceWork, list[str]]:
        """Whole graph launches, recorded with --cuda-graph-trace=graph instead of their nodes."""
        wanted = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "none", "graphId")
        rows = self._data.rows("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", wanted)
        return self._filled(
            rows,
            [self._name(f"CUDA graph {r[7]}") for r in rows],
            WorkKind.KERNEL,
            graph_id=_numbers(r[7] for r in rows),
        )

    def _calls(self, coverage: Coverage) -> Calls:
        rows = self._data.rows("CUPTI_ACTIVITY_KIND_RUNTIME", ("start", "end", "globalTid", "correlationId", "nameId"))
        rows = [r for r in rows if r[0] is not None and r[1] is not None and r[1] >= r[0]]
        cache: dict[Any, tuple[int, int]] = {}
        names, kinds = np.empty(len(rows), np.int32), np.empty(len(rows), np.int8)
        for k, row in enumerate(rows):
            if row[4] not in cache:
                text = _VERSIONED.sub("", self._strings.get(row[4], f"call {row[4]}"))
                cache[row[4]] = (self._name(text), int(call_kind(text)))
            names[k], kinds[k] = cache[row[4]]
        start = _numbers(r[0] for r in rows)
        made = Calls.filled(
            len(rows), ts_ns=start, dur_ns=_numbers(r[1] for r in rows) - start, name=names, kind=kinds,
            thread=np.array([self._thread(r[2]) for r in rows], np.int32), correlation=_numbers(r[3] for r in rows),
        )  # fmt: skip
        coverage.events_read += len(rows)
        coverage.categories["cuda_runtime"] = len(rows)
        return made.take(np.argsort(start, kind="stable"))

    def _ranges(self, coverage: Coverage) -> tuple[Annotations, Ops]:
        """NVTX ranges: annotations, or CPU ops where PyTorch wrote them for its operators."""
        listed = ", ".join(map(str, _RANGES))
        rows = self._data.rows(
            "NVTX_EVENTS", ("start", "end", "text", "textId", "globalTid"), f'"eventType" IN ({listed})'
        )
        marks: list[tuple[int, int, int, int]] = []
        ops: list[tuple[int, int, int, int, int]] = []
        for start, end, text, text_id, thread in rows:
            words = text if text is not None else self._strings.get(text_id)
            if start is None or end is None or end < start or words is None:
                coverage.host_events_unusable += 1
                continue
            op = _OP.match(words)
            if op is None:
                marks.append((start, end - start, self._name(words), self._thread(thread)))
                continue
            dims = self._texts.setdefault(op[2], len(self._texts)) if op[2] else -1
            ops.append((start, end - start, self._name(op[1]), self._thread(thread), dims))
        coverage.events_read += len(rows)
        if marks:
            coverage.categories["user_annotation"] = len(marks)
        if ops:
            coverage.categories["cpu_op"] = len(ops)
        marks.sort()
        columns = [np.array(c, np.int64) for c in zip(*marks, strict=True)] if marks else [np.empty(0, np.int64)] * 4
        found = Annotations.filled(len(marks), ts_ns=columns[0], dur_ns=columns[1], name=columns[2], thread=columns[3])
        parts = [np.array(c, np.int64) for c in zip(*ops, strict=True)] if ops else [np.empty(0, np.int64)] * 5
        return found, Ops.filled(
            len(ops), ts_ns=parts[0], dur_ns=parts[1], name=parts[2], thread=parts[3], dims=parts[4]
        )

    def _syncs(self, coverage: Coverage) -> Syncs:
        wanted = ("start", "end", "deviceId", "streamId", "correlationId", "syncType", "eventId")
        rows = [
            r
            for r in self._data.rows("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", wanted)
            if r[0] is not None and r[1] is not None
        ]
        rows.sort(key=lambda r: r[0])
        coverage.events_read += len(rows)
        start = _numbers(r[0] for r in rows)
        stream, event = _numbers(r[3] for r in rows), _numbers(r[6] for r in rows)
        return Syncs.filled(
            len(rows), ts_ns=start, dur_ns=np.maximum(_numbers(r[1] for r in rows) - start, 0), device=_numbers(r[2] for r in rows),
            name=np.array([self._name(_SYNC.get(r[5], f"Sync {r[5]}")) for r in rows], np.int32), correlation=_numbers(r[4] for r in rows),
            stream=np.where(stream == _NONE, -1, stream), event=np.where(event == _NONE, -1, event),
        )  # fmt: skip

    def _groups(self, pids: list[str], pairs: list[tuple[str, str]]) -> tuple[list[RankGroup], dict[str, int]]:
        """One group a process that has device work; the number of its only device is its rank where all have one of their own."""
        owners = sorted(set(pids), key=lambda p: (len(p), p))
        number = {pid: k for k, pid in enumerate(owners)}
        if len(owners) <= 1:
            everyone = tuple(sorted({p for p, _ in pairs} | set(owners)))
            return [RankGroup(None, owners[0] if owners else "", everyone)], dict.fromkeys(everyone, 0)
        devices: dict[str, set[int]] = {}
        for pid, row in zip(pids, self._devices_of(), strict=True):
            devices.setdefault(pid, set()).add(row)
        groups = [RankGroup(None, pid, (pid,)) for pid in owners]
        return grouping.with_ranks(groups, [devices[p] for p in owners]), number

    def _devices_of(self) -> list[int]:
        work, _ = self._work(Coverage())
        return work.device.tolist()

    def _header(self) -> TraceHeader:
        facts: dict[str, Any] = {}
        for table in ("EXPORT_META_DATA", "META_DATA_EXPORT", "META_DATA_CAPTURE"):
            for name, value in self._data.rows(table, ("name", "value")):
                facts[str(name)] = value
        wanted = ("id", "name", "computeMajor", "computeMinor", "smCount", "totalMemory")
        devices = [
            {
                "id": r[0],
                "name": r[1],
                "computeMajor": r[2],
                "computeMinor": r[3],
                "numSms": r[4],
                "totalGlobalMem": r[5],
            }
            for r in self._data.rows("TARGET_INFO_GPU", wanted)
        ]
        began = self._data.rows("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))
        kept = {
            k: v
            for k, v in facts.items()
            if k
            in (
                "EXPORT_SCHEMA_VERSION",
                "EXPORT_PRODUCT_VERSION",
                "EXPORT_SCHEMA_VERSION_MAJOR",
                "EXPORT_SCHEMA_VERSION_MINOR",
            )
        }
        return TraceHeader(
            vendor="nvidia", devices=devices, base_time_ns=int(began[0][0]) if began and began[0][0] is not None else None,
            with_stack=False, extra={"source": "Nsight Systems", **kept},
        )  # fmt: skip

    @staticmethod
    def _count(coverage: Coverage, work: DeviceWork, calls: Calls) -> None:
        for link in Link:
            mine = work.link == link
            if mine.any():
                coverage.links[link.name.lower()] = int(mine.sum())
                coverage.links_time_ns[link.name.lower()] = int(work.dur_ns[mine].sum())
        coverage.without_call = int((work.call < 0).sum())
        launching = np.isin(calls.kind, _LAUNCHING)
        coverage.launches_without_work = int((launching & (calls.work == 0)).sum())
        coverage.graph_launches = int((calls.kind == CallKind.GRAPH_LAUNCH).sum())
        coverage.in_graphs = int(work.graph.sum())
