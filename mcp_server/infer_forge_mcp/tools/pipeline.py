"""Tools of the pipeline room: passes, layers, compute flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from infer_forge.base.errors import InputUnusable
from infer_forge_mcp.results import capped, keep_artifact
from infer_forge_mcp.toolkit import Answer, run_command, tool

Trace = Annotated[
    str, Field(description="Path of a torch-profiler trace, an Nsight Systems SQLite export, or a folder of ranks.")
]
Config = Annotated[
    str | None, Field(description="Path of the deployed model's config.json; the layers found are held against it.")
]
Rank = Annotated[str | None, Field(description="A rank number. Default: the lowest.")]
Stage = Annotated[
    str | None, Field(description="Only this stage: prefill, decode, mixed or denoise. Default: every stage.")
]
Pass = Annotated[
    int | None, Field(ge=0, description="Number of the pass, from 0. Default: the representative one of each stage.")
]
Anchor = Annotated[
    str | None,
    Field(description="Part of a kernel's name that begins every layer (NAME:end: ends it). Default: found without."),
]
Mapping_ = Annotated[
    str | None, Field(description="Path of a capture or eager trace that gives graph replays their ops. Default: none.")
]
Limit = Annotated[int, Field(ge=1, le=500, description="Rows of the main table, 1 to 500; 40 by default.")]
Cursor = Annotated[str | None, Field(description="next_cursor of the last answer, for the next rows.")]
NoTriage = Annotated[
    bool,
    Field(description="Pick layers although no triage of this trace exists. False by default: triage comes first."),
]

_LONG = 60
_KEPT = ("inputs", "tool_version", "triage", "rank", "coverage", "skipped")


def _short(value: Any) -> Any:
    """Long cells lose their middle."""
    if isinstance(value, str) and len(value) > _LONG:
        return f"{value[: _LONG // 2]}…{value[-_LONG // 2 + 1 :]}"
    return round(value, 1) if isinstance(value, float) else value


def _run(
    trace: str, shown: Mapping[str, list[str] | None], paged: str, limit: int, cursor: str | None, **options: object
) -> Answer:
    """Run the command; show some tables and columns, keep the whole answer as an artifact."""
    if cursor is not None and not cursor.isdigit():
        raise InputUnusable(f"cursor {cursor!r} is none of this tool's", next_step="pass the last next_cursor")
    words = ["pipeline", trace]
    for name, value in options.items():
        if value is True:
            words.append(f"--{name.replace('_', '-')}")
        elif value is not None and value is not False:
            words += [f"--{name.replace('_', '-')}", str(value)]
    answer = run_command(words)
    if answer.get("kind") == "job":
        return answer
    small = dict(answer)
    small["tables"] = {n: _columns(answer["tables"][n], c) for n, c in shown.items() if n in answer["tables"]}
    small["header"] = {k: v for k, v in answer["header"].items() if k in _KEPT}
    points = small.pop("checklist", None) or {}
    for name in ("2_model", "3_passes", "6_representative_layers", "9_method"):
        if name in points:
            small[name[2:]] = points[name]
    result = capped(small, paged=paged, limit=limit, cursor=cursor)
    result.artifact = keep_artifact(answer)
    return result


def _columns(table: dict[str, Any], wanted: list[str] | None) -> dict[str, Any]:
    """Some columns of a table (and those in which something stands), cells shortened."""
    names: list[str] = table["columns"]
    at = [k for k, n in enumerate(names) if wanted is None or n in wanted]
    at = [k for k in at if any(row[k] is not None for row in table["rows"])] or at
    return {"columns": [names[k] for k in at], "rows": [[_short(row[k]) for k in at] for row in table["rows"]]}


@tool(toolset="profile", default=True, read_only=True, paged="passes")
def split_passes(
    trace: Trace,
    config: Config = None,
    rank: Rank = None,
    anchor: Anchor = None,
    limit: Limit = 40,
    cursor: Cursor = None,
) -> Answer:
    """Use it to see which forward passes a trace holds: stage, batch, tokens, wall, idle, layers of each, which are cold or
    cut off by the capture, and which steady one stands for its stage. Holds the layer count against the model's config."""
    columns = [
        "pass",
        "rank",
        "stage",
        "batch",
        "tokens",
        "start_ms",
        "wall_ms",
        "device_ms",
        "idle_ms",
        "layers",
        "avg_layer_us",
        "note",
        "temperature",
    ]
    clusters = ["cluster", "type", "layers", "wall_us", "share_pct", "members", "stage"]
    return _run(
        trace,
        {"passes": columns, "clusters": clusters},
        "passes",
        limit,
        cursor,
        config=config,
        rank=rank,
        anchor=anchor,
        no_triage=True,
    )


@tool(toolset="profile", read_only=True, paged="layers")
def build_layer_timeline(
    trace: Trace,
    config: Config = None,
    rank: Rank = None,
    stage: Stage = None,
    pass_number: Pass = None,
    anchor: Anchor = None,
    limit: Limit = 40,
    cursor: Cursor = None,
) -> Answer:
    """Use it to find which layers or layer types take the time of a pass: wall and device time of every layer by category,
    clusters of like layers with spread and outliers, and which cluster dominates. Needs no anchor kernel."""
    options: dict[str, object] = {"config": config, "rank": rank, "stage": stage, "pass": pass_number, "anchor": anchor}
    return _run(trace, {"clusters": None, "layers": None}, "layers", limit, cursor, **options, no_triage=True)


@tool(toolset="profile", default=True, read_only=True, paged="flow")
def compute_flow(
    trace: Trace,
    config: Config = None,
    stage: Stage = None,
    rank: Rank = None,
    pass_number: Pass = None,
    layer: Annotated[
        int | None, Field(ge=0, description="Number of the layer. Default: the representative one.")
    ] = None,
    compare_layer: Annotated[
        int | None, Field(ge=0, description="Also align this layer with it. Default: none.")
    ] = None,
    by_duration: Annotated[bool, Field(description="Hot list instead of execution order. False by default.")] = False,
    mapping: Mapping_ = None,
    no_triage: NoTriage = False,
    limit: Limit = 40,
    cursor: Cursor = None,
) -> Answer:
    """Use it after triage_trace to see one representative layer kernel by kernel: half, category, duration with range, gap,
    stream, op, dims, source line, share of the GPU's peak, and the seconds at which Perfetto shows it."""
    columns = [
        "order",
        "half",
        "category",
        "kernel",
        "dur_us",
        "dur_max_us",
        "gap_us",
        "share_pct",
        "stream",
        "dims",
        "source",
        "roofline_pct",
        "stage",
        "layer",
    ]
    options: dict[str, object] = {
        "config": config, "stage": stage, "rank": rank, "pass": pass_number, "layer": layer, "compare_layer": compare_layer,
        "sort": "duration" if by_duration else "order", "mapping": mapping, "no_triage": no_triage,
    }  # fmt: skip
    return _run(trace, {"flow": columns, "compare": None}, "flow", limit, cursor, **options)
