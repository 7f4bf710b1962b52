"""A pipeline analysis from end to end: traces and a config in, one Report out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from infer_forge.base import jsonio, report_store
from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault
from infer_forge.base.inputs import apart
from infer_forge.base.records import Finding, Header, InputFile, Report
from infer_forge.pipeline import (
    against_config,
    checklist,
    clusters,
    flow,
    known,
    modules,
    perfetto,
    roofline,
    stage,
    steady,
    structure,
    tables,
)
from infer_forge.pipeline.anchor import by_anchor
from infer_forge.pipeline.cost import Split
from infer_forge.pipeline.model import Lane, Options, Pass, of_step
from infer_forge.pipeline.model_config import ModelShape, config_findings, read_config
from infer_forge.pipeline.read import Sources, read
from infer_forge.pipeline.tables import View
from infer_forge.trace.columns import WorkKind

_STAGES = ("prefill", "decode", "mixed", "denoise", "step", stage.UNKNOWN, "all")


def analyse_pipeline(paths: Sequence[str | Path], options: Options | None = None) -> Report:
    """Passes, layers, clusters, compute flow and Perfetto ranges.

    Args:
        paths: a trace, several, or a folder of ranks.

    Raises:
        InputUnusable: a file is no trace, holds no device work, or the config is none.
        UsageFault: a rank, pass, layer or stage is asked for that was not found.
        GateRefused: a layer is asked for and no triage report of this trace exists.
    """
    options = options or Options()
    _consistent(options)
    shape = read_config(options.config) if options.config else None
    found = read([Path(p) for p in paths], options.mapping, options.cache)
    if options.export is not None:
        others = (options.config, options.mapping, options.triage)
        apart(options.export, [*(s.trace.path for s in found.ranks), *paths, *(p for p in others if p)])
    triage, refusal = _triage(found, options)
    if refusal and (options.layer is not None or options.compare_layer is not None):
        raise GateRefused(
            refusal,
            where=str(found.ranks[0].trace.path),
            next_step="infer-forge triage TRACE (or --triage FILE, or --no-triage)",
        )
    lanes = build_lanes(found, shape, options)
    origins = [perfetto.origin_ns(lane.trace) for lane in lanes]
    chosen = _lane(lanes, options.rank)
    report = Report("pipeline")
    views = _views(chosen, shape, options)
    coverage = _flows(chosen, views, shape, options, report, bool(refusal))
    report.header = _header(found, shape, triage, chosen, options)
    report.header.coverage |= {"roofline": coverage}
    _fill(report, lanes, origins, views, options)
    _remarks(report, lanes, chosen, views, refusal, found, shape)
    if options.compare_layer is not None:
        _compare(report, views, options)
    if options.export is not None:
        report.extra["export"] = _export(lanes, chosen, views, options)
    report.extra["checklist"] = checklist.fill(report, found, chosen, views, shape, coverage, triage)
    report.summary = checklist.summary(chosen, views, shape)
    report.next_step = checklist.next_step(views, bool(refusal), options.export)
    if options.keep:
        _keep(report)
    return _page(report, options.limit)


def _consistent(options: Options) -> None:
    """Refuse options that would be dropped in silence.

    Raises:
        UsageFault: they contradict each other, or belong to one that is not given.
    """
    if options.no_triage and options.triage is not None:
        raise UsageFault("--triage FILE and --no-triage contradict each other", next_step="leave one of them out")
    if options.export is None and (options.export_layers or options.export_ranks):
        raise UsageFault("there is no file to export to", next_step="add --export FILE (.json or .json.gz)")
    if options.export is not None and not options.export.name.endswith((".json", ".json.gz")):
        raise UsageFault(
            "a trace ends in .json or .json.gz", where=str(options.export), next_step="name the file so: --export FILE"
        )


def build_lanes(found: Sources, shape: ModelShape | None, options: Options) -> list[Lane]:
    """Passes and layers of every rank and device."""
    lanes: list[Lane] = []
    for source in found.ranks:
        for device in source.devices:
            layers, drafts = (shape.layers, shape.drafts) if shape else (None, 0)
            one_half = shape is not None and shape.one_half
            lane = structure.build(source.trace, source.rank, device, layers, drafts, one_half)
            if options.anchor is not None:
                by_anchor(lane, options.anchor, shape.layers if shape else None)
            else:
                known.take_over(lane, shape.layers if shape else None)
            stage.infer(lane)
            steady.temper(lane)
            lane.against += against_config.disagreements(lane, shape) if shape else []
            lanes.append(lane)
    return lanes


def _triage(found: Sources, options: Options) -> tuple[dict[str, Any] | None, str]:
    """The triage report that this stands on, and why there is none."""
    if options.no_triage:
        return {"report": None, "note": "told to do without (--no-triage)"}, ""
    hashes = {s.trace.sha256 for s in found.ranks if s.trace.sha256}
    if options.triage is not None:
        read_in = jsonio.read_json(options.triage)
        data = cast("dict[str, Any]", read_in) if isinstance(read_in, dict) else {}
        if data.get("kind") != "triage":
            raise InputUnusable(
                "is no triage report",
                where=str(options.triage),
                next_step="infer-forge triage TRACE --format json --out FILE",
            )
        of = {i.get("sha256") for i in cast("list[dict[str, Any]]", data.get("header", {}).get("inputs", []))}
        if not of & hashes:
            raise GateRefused(
                "the triage report is of another trace",
                where=str(options.triage),
                next_step="infer-forge triage TRACE --format json --out FILE",
            )
        return {"report": str(options.triage), "sha256": jsonio.sha256_file(options.triage)}, ""
    for sha in sorted(hashes):
        kept = report_store.find("triage", sha)
        if kept is not None:
            return {"report": str(kept[0]), "sha256": jsonio.sha256_file(kept[0])}, ""
    return None, "no triage report of this trace exists: global triage comes before a layer is picked"


def _lane(lanes: list[Lane], rank: int | str | None) -> Lane:
    if rank is None or rank == "all":
        return max(lanes, key=lambda lane: (bool(lane.passes), -lanes.index(lane)))
    hits = [lane for lane in lanes if str(lane.rank) == str(rank)]
    if not hits:
        have = ", ".join(str(lane.rank) for lane in lanes if lane.rank is not None)
        step = f"use one of {have}" if have else "the trace names no rank: leave --rank out"
        raise UsageFault(f"no rank {rank} among the traces", next_step=step)
    return hits[0]


def _views(lane: Lane, shape: ModelShape | None, options: Options) -> list[View]:
    """One view a stage with a whole pass; of one pass when it is asked for."""
    if options.pass_number is not None:
        hits = [p for p in lane.passes if p.number == options.pass_number]
        if not hits:
            raise UsageFault(f"no pass {options.pass_number}", next_step=f"use 0 to {len(lane.passes) - 1}")
        if options.stage not in (None, hits[0].stage):
            raise UsageFault(
                f"pass {options.pass_number} is of stage {hits[0].stage}, not {options.stage}",
                next_step="leave --stage or --pass out",
            )
        choices = [(hits[0], "asked for", [hits[0]])]
    else:
        stages = sorted({p.stage for p in lane.passes}, key=lambda s: (_STAGES.index(s) if s in _STAGES else 9, s))
        if options.stage is not None and options.stage not in stages:
            raise UsageFault(
                f"no stage {options.stage} in the trace", next_step=f"use one of {', '.join(stages) or 'none'}"
            )
        picked = [(steady.representative(lane, s)) for s in stages if options.stage in (None, s)]
        choices = [(c.chosen, c.reason, steady.alike(lane, c.chosen)) for c in picked if c is not None]
    views: list[View] = []
    for p, reason, fellows in choices:
        times = clusters.layer_times(lane, fellows, shape)
        views.append(View(lane, p.stage, p, reason, times, clusters.cluster(times, lane.templates, shape)))
    return views


def _flows(
    lane: Lane, views: list[View], shape: ModelShape | None, options: Options, report: Report, refused: bool
) -> dict[str, Any]:
    """Pick the layer of each view and fill its flow with roofline and modules; nothing is picked without a triage."""
    cover: dict[str, Any] = {}
    if refused:
        return cover
    world = lane.trace.header.world_size
    for v in views:
        if not v.clusters:
            continue
        if options.layer is not None:
            hits = [layer for layer in v.chosen.layers if layer.number == options.layer]
            if not hits:
                raise UsageFault(
                    f"pass {v.chosen.number} has no layer {options.layer}",
                    next_step=f"use {v.chosen.layers[0].number} to {v.chosen.layers[-1].number}",
                )
            v.layer, v.layer_reason = hits[0], "asked for"
        else:
            v.layer, v.layer_reason = flow.representative_layer(v.clusters[0], v.chosen)
        home = next(c for c in v.clusters if any(x.number == v.layer.number for x in c.layers))
        members = {x.number for x in home.layers}
        fellows = [
            layer
            for p in steady.alike(lane, v.chosen)
            for layer in p.layers
            if layer.number in members and not layer.cut
        ]
        v.rows = flow.flow(lane, v.layer, fellows or [v.layer])
        modules.fill(v.rows, lane)
        left_out = "layers are counted from the first one seen" if v.chosen.relative else "; ".join(lane.against)
        known_as = None if left_out else shape
        seen = roofline.assess(v.rows, lane, v.chosen, v.layer.number, known_as, Split(tp=world or 1))
        cover[v.stage] = seen.to_json() | ({"config_left_out": left_out} if shape and left_out else {})
        if seen.above:
            report.findings.append(
                Finding(
                    "ABOVE_PEAK",
                    f"{v.stage}: above 100 % of peak, so the model of bytes is wrong for them: {'; '.join(seen.above[:4])}",
                    "info",
                )
            )
    return cover


def _header(
    found: Sources, shape: ModelShape | None, triage: dict[str, Any] | None, lane: Lane, options: Options
) -> Header:
    seen = {s.trace.path: s.trace for s in found.ranks}
    inputs = [InputFile(str(p), t.sha256, t.size_bytes) for p, t in seen.items()]
    if shape is not None and shape.source is not None:
        inputs.append(shape.source)
    trace, coverage = lane.trace, lane.trace.coverage
    graph = float(trace.work.dur_ns[trace.work.graph].sum()) / max(1, int(trace.work.dur_ns.sum()))
    mapped = [
        {
            "graph": m.graph,
            "level": m.level,
            "replays": m.replays,
            "nodes": m.nodes,
            "matched": m.matched,
            "note": m.note,
        }
        for m in trace.mappings
    ]
    limits = {"cold_ratio": steady.COLD_RATIO, "outlier_pct": clusters.OUTLIER_PCT, "anchor": options.anchor}
    return Header(
        inputs=inputs,
        capture={
            "cuda_graph_time_pct": round(100 * graph, 2),
            "stacks": trace.header.with_stack,
            "shapes": trace.header.record_shapes,
            "ranks": [s.rank for s in found.ranks],
            "world_size": trace.header.world_size,
            "vendor": trace.header.vendor,
        },
        coverage={
            "events_read": coverage.events_read,
            "events_lost": coverage.events_lost,
            "truncated": coverage.truncated,
            "device_items": len(trace.work),
            "with_op_time_pct": _share(trace.work.dur_ns[trace.work.op >= 0].sum(), trace.work.dur_ns.sum()),
            "with_source_time_pct": _share(trace.work.dur_ns[trace.work.source >= 0].sum(), trace.work.dur_ns.sum()),
        },
        thresholds=limits,
        more={
            "triage": triage,
            "rank": lane.rank,
            "device": lane.device if lane.device >= 0 else None,
            "mapping": mapped,
            "skipped": [{"path": str(s.path), "reason": s.reason} for s in found.skipped],
        },
    )


def _share(part: Any, whole: Any) -> float | None:
    return round(100.0 * float(part) / float(whole), 2) if whole else None


def _fill(report: Report, lanes: list[Lane], origins: list[int], views: list[View], options: Options) -> None:
    report.add(tables.passes(lanes, origins))
    report.add(tables.clusters(views))
    report.add(tables.flow(views, options.sort == "duration"))
    report.add(tables.layers(views))
    report.add(tables.ranges(lanes, origins, views))


def _remarks(
    report: Report,
    lanes: list[Lane],
    lane: Lane,
    views: list[View],
    refusal: str,
    found: Sources,
    shape: ModelShape | None,
) -> None:
    if refusal:
        report.findings.append(
            Finding(
                "NO_TRIAGE",
                f"{refusal}; the compute flow is withheld",
                "warning",
                next_step="infer-forge triage TRACE, then this again (or --no-triage)",
            )
        )
    report.findings += _reading(found)
    for one in lanes:
        where = f"rank {one.rank}: " if len(lanes) > 1 else ""
        report.findings += [Finding("STRUCTURE", where + text, "warning") for text in one.notes]
        report.findings += _against(one, where)
    if not bool((lane.trace.work.kind == WorkKind.KERNEL).any()):
        report.findings.append(
            Finding(
                "NO_KERNELS",
                "the trace holds no kernel, only copies and memsets",
                "warning",
                next_step="record while the server works, with kernels traced (ProfilerActivity.CUDA, nsys --trace cuda)",
            )
        )
    elif not any(p.layers for p in lane.passes):
        report.findings.append(
            Finding(
                "NO_LAYERS",
                "no repeating layers were found in the kernels of this device",
                "warning",
                next_step="name a kernel that stands once in every layer: --anchor NAME",
            )
        )
    elif not views:
        report.findings.append(
            Finding(
                "NO_WHOLE_PASS",
                "every pass was cut off by the capture; nothing is averaged",
                "warning",
                next_step="capture at least three whole steps",
            )
        )
    report.findings += config_findings(shape) if shape else []
    report.findings += stage.findings(lane)
    report.findings += known.findings(known.check(lane))
    for v in views:
        words = clusters.dominance(v.clusters)
        if words:
            report.extra.setdefault("dominant", {})[v.stage] = words
    for skipped in found.skipped[:5]:
        report.findings.append(Finding("SKIPPED", f"{skipped.path.name}: {skipped.reason}", "info"))


def _against(lane: Lane, where: str) -> list[Finding]:
    """What of the config the kernels contradict; the first one says what follows from it."""
    step = "give the deployed model's config.json; layer types and roofline are of the kernels alone here"
    return [
        Finding(
            "LAYER_COUNT" if text.startswith("the kernels show") else "CONFIG_DISAGREES",
            where + text,
            "warning",
            next_step=step,
        )
        for text in lane.against
    ]


def _reading(found: Sources) -> list[Finding]:
    """What of the files could not be read: it is in no pass and no sum."""
    said: list[Finding] = []
    for trace in {s.trace.path: s.trace for s in found.ranks}.values():
        c, name = trace.coverage, trace.path.name
        if c.truncated or c.events_lost or c.bytes_lost:
            text = f"{name} is damaged: {c.events_lost} events and {c.bytes_lost} bytes lost"
            text += f", {c.truncated}" if c.truncated else ""
            step = "passes and layers are of what could be read; capture again"
            said.append(Finding("DAMAGED_FILE", text, "warning", c.events_lost, 0, step))
        if c.device_events_unusable:
            text = f"{name}: {c.device_events_unusable} device events without a usable time are in no pass and no sum"
            said.append(Finding("UNUSABLE_EVENTS", text, "warning", c.device_events_unusable, 0, "capture again"))
    return said


def _compare(report: Report, views: list[View], options: Options) -> None:
    view = next((v for v in views if v.layer is not None), None)
    if view is None or view.layer is None:
        raise UsageFault("there is no layer to compare with", next_step="name a pass with layers: --pass N")
    other = next((x for x in view.chosen.layers if x.number == options.compare_layer), None)
    if other is None:
        raise UsageFault(
            f"pass {view.chosen.number} has no layer {options.compare_layer}",
            next_step=f"use {view.chosen.layers[0].number} to {view.chosen.layers[-1].number}",
        )
    report.add(tables.comparison(flow.compare(view.lane, view.layer, other), view.layer.number, other.number))


def _export(lanes: list[Lane], lane: Lane, views: list[View], options: Options) -> dict[str, Any]:
    """Write the trimmed trace: the chosen pass (of the first view), or some of its layers; on every rank when asked."""
    import numpy as np

    if not views or options.export is None:
        raise UsageFault("there is no whole pass to export", next_step="name one: --pass N")
    wanted = views[0].chosen
    parts: list[tuple[Lane, Any]] = []
    for one in lanes if options.export_ranks else [lane]:
        p: Pass | None = wanted if one is lane else next((x for x in one.passes if x.number == wanted.number), None)
        if p is None:
            continue
        rows = np.sort(np.concatenate([q.rows for q in of_step(one, p)]))
        if options.export_layers:
            rows = rows[np.isin(one.layer_of[rows], options.export_layers)]
        if len(rows):
            parts.append((one, rows))
    if not parts:
        raise UsageFault(
            "nothing of the pass matches",
            next_step=f"use layers {wanted.layers[0].number} to {wanted.layers[-1].number}"
            if wanted.layers
            else "name another pass",
        )
    return {
        **perfetto.write(options.export, parts),
        "pass": wanted.number,
        "layers": list(options.export_layers) or None,
        "ranks": [one.rank for one, _ in parts],
    }


def _keep(report: Report) -> None:
    try:
        report_store.keep(report)
    except OSError as fault:
        report.findings.append(
            Finding("NOT_KEPT", f"the report could not be kept for later steps: {fault.strerror or fault}", "info")
        )


def _page(report: Report, limit: int | None) -> Report:
    if limit is None:
        return report
    left: dict[str, int] = {}
    for name, table in report.tables.items():
        page, _, omitted = table.slice(limit)
        report.tables[name] = page
        if omitted:
            left[name] = omitted
    report.header.hidden = {"omitted_rows": left}
    return report
