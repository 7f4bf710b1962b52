"""Whether several traces are the ranks of one capture, by what they say of themselves.

Only what a trace states counts, and only what ranks of one capture cannot differ in: the GPU model, the size of the
job, a rank's number (twice in one stage), and the time. A fact that a trace does not state is held against nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from infer_forge.base.records import Finding
from infer_forge.profile.scene import Scene
from infer_forge.profile.thresholds import thresholds

_EPOCH_NS = 10**18
"""A time stamp beyond this (September 2001) counts from 1970, where the file states no base time."""
_NAMED = 4


def not_one_capture(scenes: list[Scene]) -> Finding | None:
    """A finding with the evidence that these traces do not belong together; None where nothing says so."""
    if len(scenes) < 2:
        return None
    proofs = [p for p in (_gpus(scenes), _sizes(scenes), _twice(scenes), _times(scenes)) if p]
    if not proofs:
        return None
    text = f"the {len(scenes)} traces are not the ranks of one capture: {'; '.join(proofs)}; ranks are not compared"
    return Finding(
        "NOT_ONE_CAPTURE", text, "warning", next_step="run infer-forge triage on the traces of one capture at a time"
    )


def _listed(values: Iterable[object]) -> str:
    texts = sorted({str(v) for v in values})
    return ", ".join(texts[:_NAMED]) + (f" and {len(texts) - _NAMED} more" if len(texts) > _NAMED else "")


def _gpus(scenes: list[Scene]) -> str | None:
    """GPU models, or else vendors, that differ. A file lists every GPU that its process sees."""
    seen = {tuple(sorted({str(d["name"]) for d in s.trace.header.devices if d.get("name")})) for s in scenes} - {()}
    if len(seen) > 1:
        return f"GPU models {_listed(' and '.join(names) for names in seen)}"
    vendors = {s.trace.header.vendor for s in scenes} - {"unknown"}
    return f"GPUs of {_listed(vendors)}" if len(vendors) > 1 else None


def _sizes(scenes: list[Scene]) -> str | None:
    sizes = {s.trace.header.world_size for s in scenes} - {None}
    return f"world sizes {', '.join(map(str, sorted(n for n in sizes if n)))}" if len(sizes) > 1 else None


def _stages(scene: Scene) -> set[str]:
    """What a file was taken of: profilers that write a file a stage put it into the name."""
    hint = scene.trace.hints.get("stage")
    return {hint} if hint else {scene.stage_name(s) for d in scene.devices for s in scene.stages_on(d)} - {"outside"}


def _twice(scenes: list[Scene]) -> str | None:
    """A rank records a stage once in a capture."""
    found = Counter((s.trace.rank, stage) for s in scenes if s.trace.rank is not None for stage in _stages(s))
    (rank, stage), count = max(found.items(), key=lambda x: x[1], default=((None, ""), 0))
    what = "" if stage == "all" else f" {stage}"
    return f"rank {rank} records{what} in {count} files" if count > 1 else None


def _times(scenes: list[Scene]) -> str | None:
    """Captures of the same stage that lie far apart, by the clocks of their hosts."""
    limit = thresholds("health")["apart_s"]
    spans: dict[str, list[tuple[int, int]]] = {}
    for scene in scenes:
        base, work = scene.trace.header.base_time_ns, scene.work
        begin, end = int(work.ts_ns[0]) + (base or 0), int(scene.end_ns.max()) + (base or 0)
        if begin > _EPOCH_NS:
            for stage in _stages(scene):
                spans.setdefault(stage, []).append((begin, end))
    far = max((max(b for b, _ in s) - min(e for _, e in s) for s in spans.values()), default=0) / 1e9
    return f"recorded up to {_long(far)} apart" if far > limit else None


def _long(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours / 24:,.0f} days" if hours >= 48 else f"{hours:,.1f} hours" if hours >= 2 else f"{seconds:,.0f} s"
