"""Several trace files, or a directory of them -> one trace a rank, each read once, copies not counted twice."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path

from infer_forge.base import workers as processes
from infer_forge.base.errors import InputUnusable
from infer_forge.base.inputs import files_in
from infer_forge.trace import cache as caching
from infer_forge.trace import workers
from infer_forge.trace.columns import Frames, Ops
from infer_forge.trace.foreign import SQLITE, seems
from infer_forge.trace.model import EventLayer, SkippedFile, Trace, TraceSet
from infer_forge.trace.read import load
from infer_forge.trace.source import ByteSource

SUFFIXES = (".json", ".json.gz", ".json.zst", ".trace", ".trace.gz", ".gz", ".zst", ".sqlite")
"""Endings of files in a folder that may be traces."""
_POOL_BYTES = 2 << 20
"""Files that together are smaller are read one after another: a worker takes longer to start."""
_SNIFF = 1 << 20


def load_many(paths: str | Path | Iterable[str | Path], cache: bool = True) -> TraceSet:
    """Read files and directories.

    Args:
        paths: trace files and directories (searched to any depth). A file named by itself must be a trace; a directory's
            other files are skipped, with what they seem to be.
        cache: use and fill the column cache.

    Returns:
        One trace a rank and file, ordered by rank (unknown ones last) and path; merged files are split by rank. A rank
        occurs twice where the profiler wrote several files for it (by stage); copies are in `skipped`.

    Raises:
        InputUnusable: a named file is no trace, or a directory holds none (the message says what there is) or is too
            large to search.
    """
    asked = [Path(paths)] if isinstance(paths, (str, Path)) else [Path(p) for p in paths]
    skipped: list[SkippedFile] = []
    files: dict[Path, bool] = {}
    for path in asked:
        if path.is_dir():
            for file in _discover(path, skipped):
                files.setdefault(file, False)
        else:
            files[path] = True
    chosen = without_copies_by_name(list(files), skipped)
    if not chosen:
        raise _nothing(asked, skipped)
    place = _read_ahead(chosen, cache)
    whole: list[Trace] = []
    for path in chosen:
        try:
            whole.append(_load(path, cache, place))
        except InputUnusable as exc:
            if files[path]:
                raise
            skipped.append(SkippedFile(path, exc.what))
    return one_a_rank(whole, skipped, asked)


def one_a_rank(whole: list[Trace], skipped: list[SkippedFile], asked: list[Path]) -> TraceSet:
    """Traces of files -> one a rank and file, copies left out, in order.

    Raises:
        InputUnusable: none is left; the message says what there was.
    """
    traces = _without_copies([t for w in whole for t in w.split()], skipped)
    if not traces:
        raise _nothing(asked, skipped)
    traces.sort(key=lambda t: (t.rank is None, t.rank or 0, str(t.path)))
    return TraceSet(traces, skipped)


def _discover(folder: Path, skipped: list[SkippedFile]) -> list[Path]:
    found: list[Path] = []
    for path in files_in(folder, endings=SUFFIXES):
        what = _foreign(path)
        if what is None:
            found.append(path)
        else:
            skipped.append(SkippedFile(path, f"seems to be {what}"))
    return found


def _foreign(path: Path) -> str | None:
    """What a file of a directory is, if its first bytes show that it is no trace."""
    try:
        source = ByteSource(path)
        head = b""
        for block in source:
            head += block
            if head.startswith(SQLITE):
                return None  # an Nsight Systems export, or refused with its reason when read
            if b'"traceEvents"' in head or (head.lstrip()[:1] == b"[" and b'"ph"' in head):
                return None
            if len(head) >= _SNIFF or head.lstrip()[:1] not in (b"{", b"[", b""):
                break
    except InputUnusable as exc:
        return f"unreadable ({exc.what})"
    return None if b'"ph"' in head else seems(head)[0]


def without_copies_by_name(files: list[Path], skipped: list[SkippedFile]) -> list[Path]:
    """SGLang writes `merged-ID` beside the rank files `ID-TP-0`, and `perfetto-compatible-NAME` beside NAME: not read at all."""
    names: dict[Path, set[str]] = {}
    real: set[Path] = set()
    chosen: list[Path] = []
    for file in files:
        names.setdefault(file.parent, set()).add(file.name)
    for file in files:
        here = names[file.parent]
        merged = file.name.removeprefix("merged-").partition(".")[0] if file.name.startswith("merged-") else None
        original = file.name.removeprefix("perfetto-compatible-")
        target = file.resolve()
        if target in real:
            skipped.append(SkippedFile(file, "the same file as another one"))
        elif merged is not None and any(n.startswith(f"{merged}-") for n in here):
            skipped.append(SkippedFile(file, "a merged copy of the rank files beside it"))
        elif original != file.name and original in here:
            skipped.append(SkippedFile(file, f"a copy of {original} with other thread ids"))
        else:
            chosen.append(file)
        real.add(target)
    return chosen


def _read_ahead(files: list[Path], cache: bool) -> PrivatePlace | None:
    """Fill the cache in parallel where that pays; without a cache, a private one that goes when the process does."""
    todo = [f for f in files if not cache or caching.find(f, caching.key_of(f)) is None] if len(files) > 1 else []
    sizes = {f: f.stat().st_size for f in todo if f.exists()}
    if len(sizes) < 2 or sum(sizes.values()) < _POOL_BYTES or not processes.may_start():
        return None
    place = None if cache else PrivatePlace()
    workers.fill_cache(sorted(sizes, key=lambda f: -sizes[f]), place.path if place else None)
    return place


def _load(path: Path, cache: bool, place: PrivatePlace | None) -> Trace:
    if place is None:
        return load(path, cache)
    found = caching.find(path, caching.key_of(path), place.path / "traces")
    if found is None:
        return load(path, cache)
    found.from_cache = False
    read = found.load_events
    found.load_events = lambda: place.keep(read)
    return found


class PrivatePlace:
    """A private cache folder that goes when the last trace that was read through it does."""

    def adopt(self, path: Path, columns: bytes) -> Trace:
        """A trace whose columns were made elsewhere (`cache.as_bytes`); its CPU events stayed there."""
        folder = self.path / "traces"
        folder.mkdir(exist_ok=True)
        key = f"adopted-{len(os.listdir(folder))}"
        (folder / f"{key}.kt").write_bytes(columns)
        found = caching.find(path, key, folder)
        if found is None:
            raise InputUnusable("its columns came damaged from the worker", where=str(path), next_step="run it again")
        found.path, found.from_cache = path, False
        found.load_events = lambda: self.keep(None)
        return found

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="infer-forge-trace-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def keep(self, read: Callable[[], EventLayer] | None) -> EventLayer:
        """Read the event layer; that this object is named here keeps the folder."""
        return read() if read else EventLayer(Ops.empty(), Frames.empty(), [])


def _without_copies(traces: list[Trace], skipped: list[SkippedFile]) -> list[Trace]:
    """Traces of one rank whose device work is the same to the nanosecond are copies; the rank file stays, not the merged one.

    Ranks that are known and differ are never copies, however alike their times: generated and idle ranks can be.
    """
    chosen: list[Trace] = []
    seen: dict[tuple[object, ...], list[Trace]] = {}
    for trace in sorted(traces, key=lambda t: t.groups[0].rank_from == "pid label"):
        w = trace.work
        mark = (len(w), int(w.dur_ns.sum()), int(w.ts_ns[0]), int(w.ts_ns[-1]), int(w.device[0])) if len(w) else ()
        twin = next((t for t in seen.get(mark, ()) if t.rank == trace.rank or None in (t.rank, trace.rank)), None)
        if mark and twin is not None:
            skipped.append(SkippedFile(trace.path, f"a copy of {twin.path.name}: the same device work"))
            continue
        if mark:
            seen.setdefault(mark, []).append(trace)
        chosen.append(trace)
    return chosen


def _nothing(asked: list[Path], skipped: list[SkippedFile]) -> InputUnusable:
    reasons = "; ".join(f"{s.path.name}: {s.reason}" for s in skipped[:5])
    more = f"; and {len(skipped) - 5} more" if len(skipped) > 5 else ""
    return InputUnusable(
        "holds no torch-profiler trace" + (f" ({reasons}{more})" if reasons else ""),
        where=", ".join(str(p) for p in asked),
        next_step="give the folder that torch.profiler (or the engine's profile endpoint) wrote to",
    )
