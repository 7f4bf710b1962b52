"""One trace file -> `Trace`: the reader's main line. Steps and figures behind them: `docs` of each module used here."""

from __future__ import annotations

import gc
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base.errors import InputUnusable
from infer_forge.base.inputs import finite
from infer_forge.trace import cache as caching
from infer_forge.trace.model import Coverage, Trace

if TYPE_CHECKING:
    from infer_forge.trace.gather import Gatherer

_FRACTION = re.compile(rb'"ts"\s*:\s*-?\d{13,}\.\d*[1-9]')


def load(path: str | Path, cache: bool = True) -> Trace:
    """Read a trace file into columns, or take them from the cache.

    Args:
        path: `.json`, gzip or zstd of it, told by content. A merged file gives one trace with several `groups`.
        cache: use and fill the column cache (keyed by path, size, mtime and reader version).

    Returns:
        The trace. It may have no device work: `require_device_work` refuses that with the reason.

    Raises:
        InputUnusable: the file cannot be opened or is no torch-profiler trace; the message says what it seems to be.
        MissingPart: it is zstd and no zstd library is installed.
    """
    path = Path(path)
    key = caching.key_of(path)
    if cache:
        found = caching.find(path, key)
        if found is not None:
            return found
    trace = parse(path)
    if cache and caching.key_of(path) == key:
        caching.keep(trace, key)
    return trace


def parse(path: Path) -> Trace:
    """Read the file itself, without the cache; a big one with the help of a second process.

    Raises:
        InputUnusable: as `load`.
    """
    other = _nsight(path)
    if other is not None:
        return other
    # Imported here: a trace that comes from the cache needs neither decoder nor gunzip.
    from infer_forge.trace import half
    from infer_forge.trace.build import Builder
    from infer_forge.trace.hints import path_hints, with_path_rank
    from infer_forge.trace.layout import refuse_empty
    from infer_forge.trace.source import ByteSource, Hasher

    coverage = Coverage()
    helper = half.start(path) if half.worth_it(path, ByteSource(path).kind != "plain") else None
    hasher = Hasher(path)
    with _no_collector():
        try:
            gathered, keys = gather(path, coverage, parity=None if helper is None else 0)
        except BaseException:
            if helper is not None:
                helper.kill()
                helper.communicate()
            raise
        if helper is not None and not half.join(helper, gathered, coverage):
            coverage = Coverage()
            gathered, keys = gather(path, coverage)
        if not coverage.events_read:
            raise refuse_empty(path, coverage)
        gathered.finish()
        trace = Builder(gathered, keys, coverage).build(path, path.stat().st_size, hasher.result())
    trace.hints = path_hints(path)
    with_path_rank(trace)
    return trace


def gather(path: Path, coverage: Coverage, parity: int | None = None) -> tuple[Gatherer, dict[str, Any]]:
    """Walk a file and collect its columns.

    Args:
        path: the file.
        coverage: counts are added to it.
        parity: 0 decodes the even blocks and the end, 1 only the odd blocks (two processes share a file); None everything.

    Returns:
        The columns, and the top-level keys around the events.
    """
    from infer_forge.trace.gather import Gatherer
    from infer_forge.trace.layout import EventArray
    from infer_forge.trace.source import ByteSource

    gathered = Gatherer(coverage)
    with _no_collector():
        array = EventArray(ByteSource(path), path, coverage)
        if parity == 1:  # what stands before the events is counted by the other process
            coverage.events_lost, coverage.bytes_lost, coverage.losses = 0, 0, []
        for number, (parts, offset) in enumerate(array.blocks()):
            if parity is not None and number % 2 != parity:
                continue
            gathered.block = number
            events, clean = array.decoder.block(parts, offset)
            if not gathered.add(events, clean):
                array.decoder.exact = _FRACTION.search(b"".join(parts)) is not None
                events, clean = array.decoder.block(parts, offset)
                gathered.add(events, clean, sure=True)
        if parity == 1:
            return gathered, {}
        gathered.block += 2
        array.decoder.exact = True  # few events are left: their digits cost nothing
        gathered.add(*array.finish(), sure=True)
    return gathered, array.keys


def _nsight(path: Path) -> Trace | None:
    """The trace of an Nsight Systems export; None for every other file.

    Raises:
        InputUnusable: an export without device work, or a recording that must be exported first.
    """
    from infer_forge.trace import nsys
    from infer_forge.trace.hints import path_hints, with_path_rank

    try:
        with open(finite(path), "rb") as file:
            head = file.read(16)
    except OSError:
        return None  # the reader of torch traces says it
    nsys.refuse_recording(path, head)
    if not nsys.is_export(head):
        return None
    trace = nsys.parse_export(path)
    trace.hints = path_hints(path)
    with_path_rank(trace)
    return trace


def require_device_work(trace: Trace) -> None:
    """Refuse a trace that nothing can be tabulated of.

    Raises:
        InputUnusable: no device work; the message says why that may be.
    """
    if len(trace.work):
        return
    c = trace.coverage
    step = "profile with ProfilerActivity.CUDA while the server works, in the process that launches the kernels"
    if c.truncated or c.device_events_lost or c.device_events_unusable:
        step = "copy the whole file again, or record the trace again"
    raise InputUnusable(f"the trace has no GPU events: {no_work_reason(trace)}", where=str(trace.path), next_step=step)


def no_work_reason(trace: Trace) -> str:
    """Why a trace may be without device work."""
    from infer_forge.trace.vocabulary import OTHER_DEVICES

    c = trace.coverage
    if c.device_events_unusable or c.device_events_lost:
        return f"{c.device_events_unusable + c.device_events_lost} device events were damaged beyond use"
    others = sorted(k for k in c.categories if k in OTHER_DEVICES)
    if others:
        return f"an accelerator of another kind did the work ({', '.join(others)})"
    if any("mtia" in str(d).lower() for d in (*trace.header.devices, trace.header.extra)):
        return "an accelerator of another kind did the work"
    launches = int(trace.launches.sum())
    if launches:
        return f"{launches} launches but no kernel (CUPTI range profiler, or kernel activity was not recorded)"
    if c.truncated:
        return f"the file is cut off before any ({c.truncated})"
    if c.unknown_categories:
        return f"unknown categories {sorted(c.unknown_categories)[:5]}"
    if len(trace.ops):
        return "CPU activity only (ProfilerActivity.CUDA was not asked for, or nothing ran on a GPU in this process)"
    return "neither device work nor CPU ops"


@contextmanager
def _no_collector() -> Generator[None]:
    """Garbage collection off while millions of short-lived objects are made; they hold no cycles."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
