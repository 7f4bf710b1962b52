"""The header of a triage: inputs, how the capture was made, what was seen of it."""

from __future__ import annotations

from typing import Any

from infer_forge.base.records import InputFile
from infer_forge.profile.fuse import framework_of
from infer_forge.profile.host import coverage_by_graph
from infer_forge.profile.read import Input
from infer_forge.profile.scene import Scene, pct
from infer_forge.trace.model import Trace


def inputs(found: Input) -> list[InputFile]:
    """Every file that was read, once."""
    seen = {s.trace.path: s.trace for s in found.scenes}
    return [InputFile(str(p), t.sha256, t.size_bytes) for p, t in seen.items()]


def capture(found: Input, chosen: list[Scene]) -> dict[str, Any]:
    """Capture mode; null is unknown."""
    first = chosen[0].trace.header
    shares = [coverage_by_graph(s)["time_pct"] or 0.0 for s in chosen]
    share = max(shares, default=0.0)
    names = [d.get("name") for d in first.devices if d.get("name")]
    return {
        "cuda_graph": "off" if not share else "on" if share > 50 else "partly",
        "graph_time_pct": share,
        "stacks": _known([s.trace.header.with_stack for s in chosen], any(_frames(s.trace) for s in chosen)),
        "shapes": _known([s.trace.header.record_shapes for s in chosen], False),
        "ranks": [s.rank for s in found.scenes],
        "world_size": first.world_size,
        "vendor": first.vendor,
        "gpu": names[0] if names else None,
        "framework": framework_of(chosen[0]),
    }


def _frames(trace: Trace) -> bool:
    return trace.coverage.categories.get("python_function", 0) > 0


def _known(values: list[bool | None], seen: bool) -> bool | None:
    told = [v for v in values if v is not None]
    return True if seen or any(told) else False if told else None


def coverage(chosen: list[Scene]) -> dict[str, Any]:
    """What was read of the files behind the chosen ranks, and how well their device work is linked."""
    files = {s.trace.path: s.trace.coverage for s in chosen}.values()

    def total(name: str) -> int:
        return sum(int(getattr(c, name)) for c in files)

    items = sum(len(s.work) for s in chosen)
    time = sum(int(s.work.dur_ns.sum()) for s in chosen)
    links: dict[str, int] = {}
    for c in files:
        for name, count in c.links.items():
            links[name] = links.get(name, 0) + count
    return {
        "events_read": total("events_read"),
        "events_repaired": total("events_repaired"),
        "events_lost": total("events_lost"),
        "bytes_lost": total("bytes_lost"),
        "losses": [f"byte {x.offset}: {x.reason}" for c in files for x in c.losses[:3]][:6],
        "truncated": next((c.truncated for c in files if c.truncated), None),
        "device_items": items,
        "device_time_ns": time,
        "with_op_pct": pct(sum(int((s.work.op >= 0).sum()) for s in chosen), items),
        "with_source_pct": pct(sum(int((s.work.source >= 0).sum()) for s in chosen), items),
        "without_call": sum(int((s.work.call < 0).sum()) for s in chosen),
        "launches_without_work": total("launches_without_work"),
        "links": links,
        "unknown_categories": {k: v for c in files for k, v in c.unknown_categories.items()},
    }


def mappings(chosen: list[Scene]) -> list[dict[str, Any]]:
    """How each captured graph was matched to its replays."""
    return [
        {
            "graph": m.graph,
            "level": m.level,
            "replays": m.replays,
            "nodes": m.nodes,
            "matched": m.matched,
            "note": m.note,
        }
        for s in chosen
        for m in s.trace.mappings
    ]
