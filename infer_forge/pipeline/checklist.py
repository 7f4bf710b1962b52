"""The nine points of a pipeline report, filled by the report itself; its summary lines and next step."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from infer_forge.base.records import Report
from infer_forge.pipeline import known
from infer_forge.pipeline.clusters import dominance
from infer_forge.pipeline.model import Lane, Pass
from infer_forge.pipeline.model_config import ModelShape
from infer_forge.pipeline.perfetto import origin_ns, seconds
from infer_forge.pipeline.read import Sources
from infer_forge.pipeline.segment import ATTENTION, FFN
from infer_forge.pipeline.tables import View, spans

_UNEVEN = 0.1
"""Share of layers without an FFN half beside others with one; lost kernels make fewer."""


def confidence(lane: Lane, shape: ModelShape | None) -> dict[str, Any]:
    """How sure the layers are: share of layer kernels that match the learnt halves by name, and what is unresolved.

    A single pass whose layer count no config confirms is at most `medium`: nothing says where its stack of layers ends. So are
    layers that a config contradicts: one of the two is wrong. And layers of which only some have an FFN, where no config says
    whether those that follow them are layers of their own.
    """
    inside = lane.layer_of[lane.rows] >= 0
    matched = (lane.place_of[lane.rows] >= 0) & inside
    device = lane.trace.work.dur_ns[lane.rows]
    whole = [p for p in lane.passes if p.layers and not p.partial]
    counts = Counter(len(p.layers) for p in whole)
    share = float(matched.sum()) / max(1, int(inside.sum()))
    agree = max(counts.values(), default=0) / max(1, len(whole))
    level = "high" if share >= 0.97 and agree >= 0.9 else "medium" if share >= 0.85 and agree >= 0.6 else "low"
    if not any(t.kind != FFN for t in lane.templates) and not lane.method.startswith("anchor"):
        level = "low"  # nothing mixes tokens: the blocks may be anything that repeats
    confirmed = shape is not None and {shape.layers, (shape.layers or 0) + shape.drafts} & set(counts)
    if level == "high" and ((len(whole) < 2 and not confirmed) or lane.against):
        level = "medium"
    if level == "high" and not confirmed and _uneven(lane, whole):
        level = "medium"
    if level == "high" and lane.woven:
        level = "medium"  # which of two like kernels in a row is whose stands on their order alone
    if lane.woven == "shifted":
        level = "low"
    kinds = [{layer.templates for layer in p.layers} for p in whole]
    if whole and all(len(k) >= 0.6 * len(p.layers) for k, p in zip(kinds, whole, strict=True)) and len(kinds[0]) > 1:
        level = "low"  # hardly a layer is like another: nothing repeats
    if lane.method.startswith("anchor"):
        share, level = float("nan"), "medium" if agree >= 0.9 else "low"
    if not inside.any():
        level = "none"
    in_pass = lane.pass_of[lane.rows] >= 0
    return {
        "method": lane.method,
        "confidence": level,
        "kernels_matching_pct": None if share != share else round(100 * share, 2),
        "passes_with_the_same_layer_count_pct": round(100 * agree, 2),
        "device_time_in_layers_pct": round(100 * float(device[inside].sum()) / max(1, int(device.sum())), 2),
        "device_time_outside_passes_pct": round(100 * float(device[~in_pass].sum()) / max(1, int(device.sum())), 2),
    }


def _uneven(lane: Lane, whole: list[Pass]) -> bool:
    """Whether more than a few layers lack a half that others have."""
    kinds = Counter(frozenset(lane.templates[t].kind for t in layer.templates) for p in whole for layer in p.layers)
    both = kinds[frozenset((ATTENTION, FFN))]
    return both > 0 and kinds[frozenset((ATTENTION,))] > _UNEVEN * sum(kinds.values())


def fill(
    report: Report,
    found: Sources,
    lane: Lane,
    views: list[View],
    shape: ModelShape | None,
    roof: dict[str, Any],
    triage: dict[str, Any] | None,
) -> dict[str, Any]:
    """The nine points; null where the evidence is missing."""
    counts = sorted({len(p.layers) for p in lane.passes if p.layers and not p.partial})
    chosen = {v.chosen.number for v in views}
    fits = {shape.layers, (shape.layers or 0) + shape.drafts} if shape else set[int | None]()
    part = any(p.given for p in lane.passes) and not fits & set(counts) and not lane.against
    return {
        "1_inputs": {"inputs": [i.to_json() for i in report.header.inputs], "triage": triage, "ranks": [s.rank for s in found.ranks]},
        "2_model": {
            "model_type": shape.model_type if shape else None,
            "layers_in_config": shape.layers if shape else None,
            "drafts_in_config": shape.drafts if shape else None,
            "layers_found": counts or None,
            "agrees": None if shape is None or not counts or part else bool(fits & set(counts)) and not lane.against,
            "disagreements": lane.against or None,
        },
        "3_passes": {
            "found": len(lane.passes),
            "partial": sum(bool(p.partial) for p in lane.passes),
            "cold": [p.number for p in lane.passes if p.temperature == "cold"],
            "warm_up": [p.number for p in lane.passes if p.temperature == "warm-up"],
            "chosen": [{"stage": v.stage, "pass": v.chosen.number, "reason": v.reason} for v in views],
        },
        "4_stage_and_batch": _stages(lane),
        "5_layer_types": {v.stage: _types(v) for v in views},
        "6_representative_layers": [
            {"stage": v.stage, "layer": v.layer.number if v.layer else None, "reason": v.layer_reason or None} for v in views
        ],
        "7_hot_kernels": {v.stage: _hot(v) for v in views if v.rows},
        "8_perfetto_ranges": [
            row for row in report.tables["ranges"].dicts() if row["what"] == "pass" and row["rank"] == lane.rank and row["index"] in chosen
        ],
        "9_method": {
            **confidence(lane, shape), "anchors": [c.to_json() for c in known.check(lane)] or None,
            "roofline_coverage": roof or None, "mapping": report.header.more.get("mapping") or None,
        },
    }  # fmt: skip


def _stages(lane: Lane) -> list[dict[str, Any]]:
    """Whole passes by stage and batch, and what an inferred stage stands on."""
    found: dict[tuple[str, int | None, str, str], dict[str, Any]] = {}
    for p in lane.passes:
        if p.partial or not p.layers:
            continue
        row = found.setdefault(
            (p.stage, p.batch, p.stage_from, p.stage_confidence), {"stage": p.stage, "batch": p.batch, "passes": 0}
        )
        row["passes"] += 1
        row |= {"from": p.stage_from, "confidence": p.stage_confidence or None, "evidence": p.stage_evidence or None}
    return [found[k] for k in sorted(found, key=str)]


def _types(v: View) -> list[dict[str, Any]]:
    whole = sum(c.total_ns for c in v.clusters) or 1.0
    return [
        {
            "cluster": c.number,
            "type": c.label,
            "layers": spans([x.number for x in c.layers]),
            "share_pct": round(100 * c.total_ns / whole, 2),
        }
        for c in v.clusters
    ]


def _hot(v: View) -> list[dict[str, Any]]:
    return [
        {
            "kernel": r.kernel,
            "half": r.half,
            "dur_us": round(r.dur_ns / 1000, 3),
            "share_pct": round(r.share_pct, 2),
            "roofline_pct": r.roofline_pct,
            "source": r.source,
        }
        for r in sorted(v.rows or [], key=lambda r: -r.dur_ns)[:5]
    ]


def summary(lane: Lane, views: list[View], shape: ModelShape | None) -> list[str]:
    """A few lines: passes, layers, and what dominates each stage."""
    sure = confidence(lane, shape)
    partial = sum(bool(p.partial) for p in lane.passes)
    name = f"rank {lane.rank}: " if lane.rank is not None else ""
    config = f" (config: {shape.layers})" if shape else ""
    counts = sorted({len(p.layers) for p in lane.passes if p.layers and not p.partial})
    found = f"{name}{len(lane.passes)} passes, {partial} partial; layers a pass: {', '.join(map(str, counts)) or '-'}{config}"
    match = sure["kernels_matching_pct"]
    why = f"{match:.1f} % of the layers' kernels match" if match is not None else sure["method"]
    lines = [f"{found}; confidence {sure['confidence']} ({why})"]
    origin = origin_ns(lane.trace) if views else 0
    for v in views:
        begin, end = seconds(v.chosen.start_ns, origin), seconds(v.chosen.end_ns, origin)
        batch = f"batch {v.chosen.batch}, " if v.chosen.batch is not None else ""
        wall = f"wall {v.chosen.wall_ns / 1e6:.3f} ms, idle {v.chosen.idle_ns / 1e6:.3f} ms"
        lines.append(
            f"  {v.stage}: pass {v.chosen.number} ({v.reason}), {batch}{wall}, in Perfetto {begin:.6f} to {end:.6f} s"
        )
        words = dominance(v.clusters)
        if words:
            lines.append(f"    {words}")
        if v.layer is not None and v.rows:
            hot = sorted(v.rows, key=lambda r: -r.dur_ns)[:3]
            lines.append(
                f"    layer {v.layer.number} ({v.layer_reason}): "
                + ", ".join(f"{r.kernel[:40]} {r.dur_ns / 1000:.1f} us ({r.share_pct:.0f} %)" for r in hot)
            )
    return lines


def next_step(views: list[View], refused: bool, export: Path | None) -> str:
    """What to do with it."""
    if refused:
        return "run infer-forge triage on this trace, then this again: it picks the layer to look into"
    if not views:
        return "capture at least three whole steps a stage, and name the model's config with --config"
    v = views[0]
    hot = max(v.rows, key=lambda r: r.dur_ns) if v.rows else None
    if hot is None:
        return "look at the clusters table for the layers that dominate"
    source = f" at {hot.source}" if hot.source else ""
    opened = f"; open {export} in Perfetto" if export else ""
    part = f"{hot.share_pct:.0f} % of {v.stage} layer {v.layer.number if v.layer else '-'}"
    return f"take {hot.kernel[:60]}{source} ({part}) to the kernel tables of the triage{opened}"
