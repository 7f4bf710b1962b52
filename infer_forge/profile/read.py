"""Traces in: files, several files or a directory become one prepared scene a rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.profile.model import Options
from infer_forge.profile.scene import RankLabel, Scene
from infer_forge.profile.timeline import Timeline, build
from infer_forge.trace.model import SkippedFile, Trace


@dataclass
class Input:
    """Every rank that was read, and what was left out."""

    scenes: list[Scene]
    lines: list[Timeline]
    skipped: list[SkippedFile] = field(default_factory=list[SkippedFile])
    capture: Trace | None = None
    """The capture trace of `--mapping`."""

    def pairs(self) -> list[tuple[Scene, Timeline]]:
        """Each rank with its timeline."""
        return list(zip(self.scenes, self.lines, strict=True))


def read(paths: Sequence[str | Path], options: Options) -> Input:
    """Read the traces of a triage, one scene a rank with device work.

    Raises:
        InputUnusable: no trace has device work (the message says why), or a file is no trace.
        UsageFault: no path is given.
    """
    if not paths:
        raise UsageFault("no trace is named", next_step="infer-forge triage TRACE...")
    traces, skipped = _load([Path(p) for p in paths], options.cache, options.cluster)
    traces = [one for trace in traces for one in trace.split()]
    working = [t for t in traces if len(t.work)]
    if not working:
        from infer_forge.trace.read import require_device_work

        require_device_work(traces[0])
    for idle in traces:
        if not len(idle.work):
            skipped.append(SkippedFile(idle.path, "no device work"))
    capture = _capture(options.mapping, options.cache) if options.mapping is not None else None
    if capture is not None:
        from infer_forge.trace import apply_mapping

        working = [apply_mapping(t, capture) for t in working]
    scenes = [Scene(t, label) for t, label in zip(working, labels(working), strict=True)]
    return Input(scenes, [build(s) for s in scenes], skipped, capture)


def _load(paths: list[Path], cache: bool, cluster: str | None = None) -> tuple[list[Trace], list[SkippedFile]]:
    from infer_forge import trace as room

    if cluster is not None:
        found = room.load_on_cluster(paths, cluster)
        return found.traces, list(found.skipped)
    for path in paths:
        if not path.exists():
            raise InputUnusable("no such file or folder", where=str(path), next_step="check the path")
    if len(paths) == 1 and paths[0].is_file():
        return [room.load(paths[0], cache=cache)], []
    many = room.load_many(paths, cache=cache)
    if not many.traces:
        reasons = "; ".join(f"{s.path.name}: {s.reason}" for s in many.skipped[:3])
        raise InputUnusable(
            f"no usable trace in it{f' ({reasons})' if reasons else ''}",
            where=str(paths[0]),
            next_step="name a torch-profiler trace, or a folder of them",
        )
    return many.traces, list(many.skipped)


def _capture(path: Path, cache: bool) -> Trace:
    from infer_forge import trace as room

    if not path.exists():
        raise InputUnusable("no such capture trace", where=str(path), next_step="check the path after --mapping")
    return room.load(path, cache=cache)


def labels(traces: Sequence[Trace]) -> list[RankLabel]:
    """A label for each: the rank's number where it is known and unique, else the name in the file, else the file's name."""
    ranks = [t.rank for t in traces]
    if len(traces) == 1:
        return [ranks[0]]
    out: list[RankLabel] = []
    for trace, rank in zip(traces, ranks, strict=True):
        if rank is not None and ranks.count(rank) == 1:
            out.append(rank)
            continue
        name = trace.path.name.split(".json", 1)[0]
        label = trace.groups[0].label if len(trace.groups) == 1 else ""
        text = name if not label or label.isdigit() else f"{name}:{label}"
        out.append(f"{text}#{sum(str(x).split('#')[0] == text for x in out) + 1}" if text in out else text)
    return out


def choose(found: Input, wanted: int | str | None) -> list[int]:
    """Indices of the ranks whose tables are asked for.

    Raises:
        UsageFault: a rank is asked for that was not read.
    """
    everyone = range(len(found.scenes))
    if wanted == "all":
        return list(everyone)
    if wanted is None:
        busiest = max(everyone, key=lambda i: (found.lines[i].total_busy_ns, -i))
        return [busiest]
    hits = [i for i in everyone if str(found.scenes[i].rank) == str(wanted)]
    if not hits:
        have = ", ".join(str(s.rank) for s in found.scenes if s.rank is not None)
        step = f"use one of {have}, or all" if have else "the trace names no rank: leave --rank out"
        raise UsageFault(f"no rank {wanted} among the traces", next_step=step)
    return hits
