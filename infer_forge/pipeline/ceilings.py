"""The floor of a prefill and of a decode step on a deployment point, family by family, and how near a trace comes to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from infer_forge.base import contracts, jsonio
from infer_forge.base.errors import InputUnusable
from infer_forge.base.kernels import GpuPeaks, gpu_names, gpu_peaks
from infer_forge.base.records import Finding, Header, InputFile, Report
from infer_forge.base.tables import Column, Table
from infer_forge.pipeline.cost import Cost, Load, Split, head_costs, is_whole, layer_costs
from infer_forge.pipeline.model import Lane, Options, of_step
from infer_forge.pipeline.model_config import ModelShape, config_findings, read_config
from infer_forge.pipeline.read import read

_KV = {
    "fp8": 1.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
    "int8": 1.0,
    "bf16": 2.0,
    "bfloat16": 2.0,
    "fp16": 2.0,
    "float16": 2.0,
    "auto": 2.0,
}
_FAMILIES = {
    "gemm": ("gemm",),
    "attention": ("attention", "mla", "indexer", "softmax"),
    "mla": ("attention", "mla", "indexer", "softmax"),
    "linear_attention": ("linear_attention",),
    "moe": ("moe",),
    "communication": ("communication",),
    "norm": ("norm",),
    "activation": ("activation",),
    "rope": ("rope",),
    "kv_cache": ("kv_cache",),
    "embedding": ("embedding",),
}
"""Operator family -> categories of kernels that are measured against it."""


def step_ceiling(
    config: Path,
    point: Path,
    *,
    input_len: int | None = None,
    output_len: int | None = None,
    batch: int | None = None,
    trace: Path | None = None,
    cache: bool = True,
) -> Report:
    """Floors of a prefill and a decode step, and the headroom of a trace above them.

    Args:
        point: deployment point (JSON): topology and platform are read from it; a contract that holds one does too.
        input_len, output_len, batch: the step; prefill has one request of `input_len`, decode `batch` requests in the middle of
            their output. Without them the first scenario of a contract's grid, else 1024, 1024 and 16.
        trace: a trace of that point; its own steps' tokens are used then.

    Raises:
        InputUnusable: a file is unusable, or the point's GPU is not among those whose peaks are known.
    """
    shape = read_config(config)
    data = jsonio.read_json(point)
    facts = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    body = cast("dict[str, Any]", facts.get("deployment_point", facts))
    where = contracts.point_of(body, where=str(point))
    peaks = _peaks(where, point)
    topology = where.serving_topology
    layers_here = _stage_layers(shape, topology.pp or 1)
    split = Split(tp=topology.tp or 1, ep=topology.ep or 1, pp=topology.pp or 1, kv_bytes=_kv_bytes(where))
    scenario = _scenario(facts)
    prompt = input_len or scenario.get("input_len") or 1024
    answer = output_len or scenario.get("output_len") or 1024
    requests = batch or scenario.get("batch") or 16
    loads: dict[str, tuple[Load, str | None]] = {
        "prefill": (Load(prompt, 1, prompt * (prompt + 1) / 2, float(prompt)), None),
        "decode": (_decode(requests, prompt + answer // 2), None),
    }
    measured: dict[str, dict[str, float]] = {}
    walls: dict[str, float] = {}
    report = Report("ceiling")
    report.findings += config_findings(shape)
    inputs = [InputFile.of(config), InputFile.of(point)]
    if trace is not None:
        lane, sha = _measure(trace, shape, cache, measured, walls, loads, prompt, answer, report)
        inputs.append(sha)
        report.header.more["rank"] = lane.rank
        report.findings += _strangers(lane, peaks, split)
    floors, families, steps = _tables()
    for stage, (load, note) in loads.items():
        _stage(
            stage,
            load,
            shape,
            layers_here,
            split,
            peaks,
            floors,
            families,
            steps,
            measured.get(stage),
            walls.get(stage),
        )
        if note:
            report.findings.append(Finding("LOAD", note, "info"))
    report.header = Header(
        inputs=inputs,
        capture={"gpu": peaks.name, "tp": split.tp, "ep": split.ep, "pp": split.pp, "kv_bytes": split.kv_bytes},
        thresholds={"peaks": peaks.source},
        more=report.header.more,
    )
    for table in (steps, families, floors):
        report.add(table)
    report.extra["load"] = {"input_len": prompt, "output_len": answer, "batch": requests}
    _tell(report, steps, families)
    return report


def _strangers(lane: Lane, peaks: GpuPeaks, split: Split) -> list[Finding]:
    """How the trace shows that it is not of this point: what is measured of it then tells nothing about its floors."""
    header, apart = lane.trace.header, list[str]()
    names = sorted({str(d["name"]) for d in header.devices if d.get("name")})
    known = [(n, gpu_peaks(n)) for n in names]
    apart += [
        f"it ran on {n}, the point is of {peaks.name}" for n, found in known if found and found.name != peaks.name
    ]
    world = split.tp * split.pp
    if header.world_size is not None and header.world_size % world:
        apart.append(f"it is of {header.world_size} ranks, the point's tp x pp is {world}")
    apart += lane.against
    step = "give the trace, the config and the point of one deployment"
    return [
        Finding("OTHER_DEPLOYMENT", f"the trace is not of this point: {a}", "warning", next_step=step) for a in apart
    ]


def _tell(report: Report, steps: Table, families: Table) -> None:
    """Note, summary and next step of the finished tables."""
    report.extra["note"] = (
        "A floor: weights, caches and activations move once at the vendor's peak; families one after the other. "
        "An idea gains at most its family's headroom."
    )
    for row in steps.dicts():
        seen = (
            f"; measured {row['measured_ms']:.3f} ms"
            + (f", {row['of_floor_pct']:.0f} % of it reached" if row["of_floor_pct"] is not None else "")
            if row["measured_ms"]
            else ""
        )
        what = f"{row['stage']}: {row['tokens']} tokens of {row['requests']} requests"
        floor = f"{row['floor_ms']:.3f} ms" if row["floor_ms"] is not None else "unknown"
        report.summary.append(f"{what}: floor {floor}{seen} ({row['complete']})")
    best = max((r for r in families.dicts() if r["headroom_us"]), key=lambda r: r["headroom_us"], default=None)
    report.next_step = (
        f"the most headroom is in {best['family']} of {best['stage']}: {best['headroom_us']:.0f} us a step"
        if best
        else "give a trace (--trace) that holds a whole prefill or decode pass to see the headroom of each family"
    )


def _tables() -> tuple[Table, Table, Table]:
    """Empty tables `floors`, `families`, `steps`."""
    floors = Table(
        "floors",
        [
            Column("stage", "text"),
            Column("family", "text"),
            Column("operator", "text"),
            Column("layers", "int"),
            "flops",
            "bytes",
            "link_bytes",
            "floor_us",
            Column("bound", "text"),
        ],
        title="Least time of every operator, one GPU",
    )
    families = Table(
        "families",
        [
            Column("stage", "text"),
            Column("family", "text"),
            "floor_us",
            Column("share_pct", "pct"),
            "measured_us",
            Column("of_floor_pct", "pct"),
            "headroom_us",
        ],
        title="Operator families: floor, measured, headroom",
    )
    steps = Table(
        "steps",
        [
            Column("stage", "text"),
            Column("tokens", "int"),
            Column("requests", "int"),
            "weights_gb",
            "kv_gb",
            "activations_gb",
            "link_gb",
            "tflop",
            "floor_ms",
            "measured_ms",
            Column("of_floor_pct", "pct"),
            Column("complete", "text"),
        ],
        title="Step floors",
    )
    return floors, families, steps


def _peaks(where: Any, file: Path) -> GpuPeaks:
    model = where.accelerator_platform.gpu_model
    found = gpu_peaks(model) if model else None
    if found is None:
        raise InputUnusable(
            f"names no GPU whose peaks are known (accelerator_platform.gpu_model is {model!r})",
            where=str(file),
            next_step=f"use one of {', '.join(gpu_names())}",
        )
    return found


def _kv_bytes(where: Any) -> float:
    engine = cast("dict[str, Any]", where.runtime_profile.engine_config or {})
    for key in ("kv_cache_dtype", "kv-cache-dtype", "--kv-cache-dtype"):
        if key in engine:
            return _KV.get(str(engine[key]).lower(), 2.0)
    return 2.0


def _scenario(facts: dict[str, Any]) -> dict[str, int | None]:
    """Input, output and batch of a contract's first scenario."""
    grid = cast("dict[str, Any]", facts.get("workload_grid") or facts.get("grid") or {})
    rows = cast("list[dict[str, Any]]", grid.get("scenarios") or [])
    if not rows:
        return {}
    first = rows[0]
    levels = cast("list[int | None]", first.get("concurrencies") or [])
    return {
        "input_len": first.get("input_len"),
        "output_len": first.get("output_len"),
        "batch": next((c for c in levels if c), None),
    }


def _decode(batch: int, context: int) -> Load:
    return Load(batch, batch, float(batch * context), float(batch * context))


def _stage_layers(shape: ModelShape, pp: int) -> list[int]:
    """Layers of one pipeline stage: the first of equal parts (the largest one)."""
    return list(range(-(-len(shape.types) // pp)))


def _measure(
    trace: Path, shape: ModelShape, cache: bool, measured: dict[str, dict[str, float]], walls: dict[str, float],
    loads: dict[str, tuple[Load, str | None]], input_len: int, output_len: int, report: Report,
) -> tuple[Lane, InputFile]:  # fmt: skip
    """Device time by family and wall of the representative pass of each stage; the loads become those of the passes."""
    from infer_forge.base.kernels import classify
    from infer_forge.pipeline import steady
    from infer_forge.pipeline.report import build_lanes
    from infer_forge.pipeline.roofline import load_of

    found = read([trace], None, cache)
    lane = build_lanes(found, shape, Options())[0]
    one = found.ranks[0].trace
    for stage in ("prefill", "decode"):
        choice = steady.representative(lane, stage)
        if choice is None:
            report.findings.append(
                Finding("NO_PASS", f"the trace holds no whole {stage} pass: its floor is of the given lengths", "info")
            )
            continue
        p, work = choice.chosen, one.work
        parts = of_step(lane, p)
        by: dict[str, float] = {}
        for part in parts:
            for n, d in zip(work.name[part.rows].tolist(), work.dur_ns[part.rows].tolist(), strict=True):
                category = classify(one.names[int(n)])
                by[category] = by.get(category, 0.0) + d
        measured[stage], walls[stage] = by, float(max(q.end_ns for q in parts) - min(q.start_ns for q in parts))
        load = load_of(p, lane)
        if load is None:
            continue
        note = None
        if load.pairs is None:
            each = load.tokens / max(1, load.requests)
            context = each if stage == "prefill" else input_len + output_len / 2
            pairs = load.requests * each * (each + 1) / 2 if stage == "prefill" else load.tokens * context
            cached = load.requests * context
            note = f"{stage}: the annotation has no context lengths; attention is of {context:.0f} tokens a request"
            load = Load(load.tokens, load.requests, pairs, cached)
        loads[stage] = (load, note)
    return lane, InputFile(str(trace), one.sha256, one.size_bytes)


def _stage(
    stage: str, load: Load, shape: ModelShape, layers: list[int], split: Split, peaks: GpuPeaks, floors: Table,
    families: Table, steps: Table, measured: dict[str, float] | None, wall: float | None,
) -> None:  # fmt: skip
    rows: dict[tuple[str, str], tuple[Cost, int, float, str]] = {}
    total = 0.0
    sums = {"weight": 0.0, "kv": 0.0, "act": 0.0, "link": 0.0, "flops": 0.0}
    parts = [(layer_costs(shape, shape.types[i], load, split)) for i in layers] + [head_costs(shape, load, split)]
    known = all(is_whole(shape, kind, load, split) for kind in {shape.types[i] for i in layers})
    for costs in parts:
        known = known and bool(costs)
        for cost in costs:
            floor, bound = cost.floor_s(peaks)
            if floor is None:
                known = False
                continue
            first, count, spent, _ = rows.get((cost.family, cost.operator), (cost, 0, 0.0, bound))
            rows[cost.family, cost.operator] = (first, count + 1, spent + floor, bound)
            total += floor
            sums["weight"] += cost.weight_bytes
            sums["kv"] += cost.kv_bytes
            sums["act"] += cost.activation_bytes
            sums["link"] += cost.link_bytes
            sums["flops"] += cost.flops
    by: dict[str, float] = {}
    for (family, operator), (cost, count, spent, bound) in rows.items():
        floors.rows.append(
            [stage, family, operator, count, cost.flops, cost.bytes, cost.link_bytes, round(spent * 1e6, 3), bound]
        )
        by[family] = by.get(family, 0.0) + spent
    for family, spent in sorted(by.items(), key=lambda x: -x[1]):
        seen = sum(measured.get(c, 0.0) for c in _FAMILIES.get(family, (family,))) / 1e9 if measured else None
        families.rows.append(
            [
                stage,
                family,
                round(spent * 1e6, 3),
                round(100 * spent / total, 2) if total else None,
                round(seen * 1e6, 3) if seen else None,
                round(100 * spent / seen, 2) if seen else None,
                round((seen - spent) * 1e6, 3) if seen else None,
            ]
        )
    mixers = {"attention", "mla", "linear_attention"} & {f for f, _ in rows}
    complete = "every operator" if known and mixers else "some operators are unknown: the true floor is higher"
    if not rows:
        complete = "no operator is known: the config names no sizes"
    steps.rows.append(
        [
            stage,
            load.tokens,
            load.requests,
            *(round(sums[k] / 1e9, 6) if rows else None for k in ("weight", "kv", "act", "link")),
            round(sums["flops"] / 1e12, 6) if rows else None,
            round(total * 1e3, 6) if rows else None,
            round(wall / 1e6, 6) if wall else None,
            round(100 * total * 1e9 / wall, 2) if wall and rows else None,
            complete,
        ]
    )
