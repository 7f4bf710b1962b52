"""Tools of the pipeline room: passes, layers, compute flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from infer_forge.base.errors import InputUnusable
from infer_forge_mcp.results import capped, keep_artifact
from infer_forge_mcp.toolkit import Answer, run_command, tool

Trace = Annotated[str, Field(description="Trace, nsys SQLite, or folder of ranks.")]
Config = Annotated[str, Field(description="The model's config.json.")]
Rank = Annotated[str, Field(description="A rank number. Default: the lowest.")]
Stage = Annotated[str, Field(description="prefill, decode, mixed, denoise; default each.")]
Pass = Annotated[int, Field(ge=-1, description="Number of the pass. Default -1: the representative ones.")]
Anchor = Annotated[str, Field(description="Part of a kernel's name that begins every layer. Default: found without.")]
MappingTrace = Annotated[str, Field(description="Trace of the graph capture.")]
Limit = Annotated[int, Field(ge=1, le=500, description="Rows, 1 to 500; default 40.")]
Cursor = Annotated[str | None, Field(description="next_cursor to go on.")]

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
    if cursor is not None and not cursor.isdecimal():
        raise InputUnusable(f"cursor {cursor!r} is none of this tool's", next_step="pass the last next_cursor")
    words = ["pipeline"]
    for name, value in options.items():
        if value is True:
            words.append(f"--{name.replace('_', '-')}")
        elif value not in (None, False, "", -1):
            words.append(f"--{name.replace('_', '-')}={value}")
    answer = run_command(words, operand=trace)
    if answer.get("kind") == "job":
        return answer
    small = dict(answer)
    small["tables"] = {n: _columns(answer["tables"][n], c) for n, c in shown.items() if n in answer["tables"]}
    small["header"] = {k: v for k, v in answer["header"].items() if k in _KEPT}
    points: dict[str, Any] = small.pop("checklist", None) or {}
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


@tool(toolset="profile", default=True, read_only=True, paged="passes", further=("rank", "limit"))
def split_passes(
    trace: Trace, config: Config = "", rank: Rank = "", limit: Limit = 40, cursor: Cursor = None
) -> Answer:
    """Use it to see a trace's forward passes: stage, batch, wall, idle, layers. Tells cold or cut-off ones, the steady
    one that stands for its stage, and the layer count against the config."""
    columns = [
        *("pass", "rank", "stage", "batch", "tokens", "start_ms", "wall_ms", "device_ms", "idle_ms", "layers"),
        *("avg_layer_us", "note", "temperature", "stage_confidence"),
    ]
    clusters = ["cluster", "type", "layers", "wall_us", "share_pct", "members", "stage"]
    shown = {"passes": columns, "clusters": clusters}
    return _run(trace, shown, "passes", limit, cursor, config=config, rank=rank)


@tool(toolset="profile", read_only=True, paged="layers")
def build_layer_timeline(
    trace: Trace,
    config: Config = "",
    rank: Rank = "",
    stage: Stage = "",
    pass_number: Pass = -1,
    anchor: Anchor = "",
    limit: Limit = 40,
    cursor: Cursor = None,
) -> Answer:
    """Use it to find which layers or layer types take the time of a pass: wall and device time of every layer by category,
    clusters of like layers with spread and outliers, and which cluster dominates. Needs no anchor kernel."""
    options: dict[str, object] = {"config": config, "rank": rank, "stage": stage, "pass": pass_number, "anchor": anchor}
    return _run(trace, {"clusters": None, "layers": None}, "layers", limit, cursor, **options)


@tool(
    toolset="profile",
    default=True,
    read_only=True,
    paged="flow",
    further=("by_duration", "no_triage", "compare_layer", "mapping", "limit"),
)
def compute_flow(
    trace: Trace,
    config: Config = "",
    stage: Stage = "",
    layer: Annotated[int, Field(ge=-1, description="Default -1: the representative one.")] = -1,
    compare_layer: Annotated[int, Field(ge=-1, description="Aligned with it. Default -1: none.")] = -1,
    by_duration: Annotated[bool, Field(description="Hot list. False by default.")] = False,
    mapping: MappingTrace = "",
    no_triage: Annotated[bool, Field(description="Without a stored triage of this trace. False by default.")] = False,
    limit: Limit = 40,
    cursor: Cursor = None,
) -> Answer:
    """Use it after triage_trace to see one representative layer kernel by kernel. Gives half, category, duration, gap,
    dims, source line and share of the GPU's peak."""
    columns = [
        *("order", "half", "category", "kernel", "dur_us", "dur_max_us", "gap_us", "share_pct", "stream", "dims"),
        *("source", "roofline_pct", "stage", "layer"),
    ]
    options: dict[str, object] = {
        "config": config, "stage": stage, "layer": layer, "compare_layer": compare_layer,
        "sort": "duration" if by_duration else "order", "mapping": mapping, "no_triage": no_triage,
    }  # fmt: skip
    return _run(trace, {"flow": columns, "compare": None}, "flow", limit, cursor, **options)
