"""Tools of the profile room: the tables of a trace, and two traces side by side."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from infer_forge_mcp.results import capped, keep_artifact
from infer_forge_mcp.toolkit import Answer, run_command, tool

Trace = Annotated[str, Field(description="Torch-profiler trace, or folder of ranks.")]
Stage = Annotated[
    str | None,
    Field(description="prefill, decode, mixed, denoise, all or outside; default each."),
]
MinShare = Annotated[
    float,
    Field(
        ge=0,
        le=100,
        description="Least % of its stage, 0 to 100; default 1.",
    ),
]


def _options(**given: object) -> list[str]:
    """Command-line words of the options that are set."""
    words: list[str] = []
    for name, value in given.items():
        if value is not None:
            words.append(f"--{name.replace('_', '-')}={value}")
    return words


# Rows of the tables beside the kernel table in an answer; whole tables stand in the artifact.
_BESIDE = {"overlap": 6, "fuse": 8, "stages": 8, "host": 8, "collectives": 6, "skew": 8}
_LONG = 72


def _short(value: Any) -> Any:
    """Long cells lose their middle: names are told apart by both ends."""
    if isinstance(value, str) and len(value) > _LONG:
        return f"{value[: _LONG // 2]}…{value[-_LONG // 2 + 1 :]}"
    return round(value, 1) if isinstance(value, float) else value


def _compact(answer: dict[str, Any], limit: int, cursor: str | None) -> Answer:
    """The kernel table's page with the head of the others; the whole answer goes to an artifact file."""
    if answer.get("kind") == "job":
        return answer
    if cursor is not None and not cursor.isdecimal():
        from infer_forge.base.errors import InputUnusable

        raise InputUnusable(f"cursor {cursor!r} is none of this tool's", next_step="pass the last next_cursor")
    small = dict(answer)
    small["tables"] = {
        name: {"columns": t["columns"], "rows": [[_short(v) for v in row] for row in t["rows"][: _BESIDE.get(name)]]}
        for name, t in answer["tables"].items()
        if name == "kernel" or name in _BESIDE
    }
    small.pop("fuse_notes", None)
    keys = ("inputs", "tool_version", "capture", "ranks", "mapping", "hidden", "skipped")
    small["header"] = {k: answer["header"][k] for k in keys if k in answer["header"]}
    result = capped(small, paged="kernel", limit=limit, cursor=cursor)
    left = {n: len(t["rows"]) - len(result.tables[n].rows) for n, t in answer["tables"].items() if n in result.tables}
    result.omitted_rows = {n: rows for n, rows in left.items() if rows > 0}
    result.artifact = keep_artifact(answer)
    return result


@tool(toolset="profile", default=True, read_only=True, paged="kernel", further=("server_args", "server_log"))
def triage_trace(
    trace: Trace,
    stage: Stage = None,
    rank: Annotated[str | None, Field(description="Number or all; default the busiest.")] = None,
    min_share: MinShare = 1.0,
    mapping: Annotated[str | None, Field(description="Trace of the graph capture.")] = None,
    server_args: Annotated[
        str | None, Field(description="Path of the benchmark's server arguments; refuses a trace of another backend.")
    ] = None,
    server_log: Annotated[
        str | None, Field(description="Path of the profiled server's log, for the same gate.")
    ] = None,
    limit: Annotated[int, Field(ge=1, le=500, description="Kernels, 1 to 500; default 40.")] = 40,
    cursor: Annotated[str | None, Field(description="next_cursor to go on.")] = None,
) -> Answer:
    """Use it first on a profile: where GPU time goes by stage and kernel, overlap, fusions, why the GPU was idle.
    Kernels come with op and source line; says what could overlap, which known fusions are missing or active, and
    what the trace does not show. Pages through the kernel table; the whole answer is in the artifact file."""
    options = _options(
        stage=stage, rank=rank, min_share=min_share, mapping=mapping, server_args=server_args, server_log=server_log
    )
    return _compact(run_command(["triage", *options], operand=trace), limit, cursor)


@tool(toolset="profile", default=True, read_only=True, paged="kernel", further=("rank", "min_share", "limit"))
def compare_traces(
    trace: Trace,
    against: Annotated[str, Field(description="The second; differences are second minus first.")],
    stage: Stage = None,
    rank: Annotated[str | None, Field(description="A rank number. Default: the busiest rank of each side.")] = None,
    min_share: MinShare = 1.0,
    limit: Annotated[int, Field(ge=1, le=500, description="Kernels, 1 to 500; default 40.")] = 40,
    cursor: Annotated[str | None, Field(description="next_cursor to go on.")] = None,
) -> Answer:
    """Use it to see what changed between two profiles, in ms per step. Kernels, stages, idle and fusions are aligned
    by kernel family and source line; also tells what a faster engine does differently."""
    options = _options(stage=stage, rank=rank, min_share=min_share)
    return _compact(run_command(["triage", f"--against={against}", *options], operand=trace), limit, cursor)
