"""Tools of the crash room: one verdict, the next runs, and what a signature means. All only read."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from infer_forge_mcp.toolkit import Answer, run_command, tool

Engine = Annotated[
    Literal["sglang", "vllm", "trtllm", "tokenspeed"] | None,
    Field(description="It words the next command only."),
]
Blocking = Annotated[bool | None, Field(description="CUDA_LAUNCH_BLOCKING=1 was set. Default: what the log states.")]
Graphs = Annotated[bool | None, Field(description="CUDA graphs were on. Default: what the log states.")]
Caching = Annotated[bool | None, Field(description="PyTorch's caching allocator was on. Default: what the log states.")]
World = Annotated[int | None, Field(ge=1, le=1_000_000, description="Number of ranks, 1 or more. Default: unknown.")]
Command = Annotated[str | None, Field(description="The command that crashed, put into the next command.")]
_KEPT_ROWS = 40
_JOB_ABOVE_BYTES = 100 << 20  # about 5 s of reading; more goes on as a job


def _option(name: str, value: str | bool | int) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    return [f"--{name}", str(value)]


@tool(
    toolset="crash",
    default=True,
    read_only=True,
    paged="timeline",
    further=("engine", "limit", "launch_blocking", "graphs", "caching_allocator", "world", "command"),
)
def triage_crash(
    paths: Annotated[
        list[str],
        Field(
            min_length=1,
            max_length=64,
            description="Logs, dumps, folders, kernel logs; any mix of ranks.",
        ),
    ],
    engine: Engine = None,
    launch_blocking: Blocking = None,
    graphs: Graphs = None,
    caching_allocator: Caching = None,
    world: World = None,
    command: Command = None,
    limit: Annotated[int, Field(ge=1, le=500, description="Rows, 1 to 500; default 40.")] = _KEPT_ROWS,
    cursor: Annotated[str | None, Field(description="next_cursor to go on.")] = None,
) -> Answer:
    """Use it first when a GPU process crashed, hung or ran out of memory: one verdict, its certainty, one next
    command. Gives class, certainty (proven, bounded, surfaced_only, unknown), first event, rank, kernel where
    something names it, suspects with line references, what is no evidence and what is missing. A surfaced_only
    frame is never the culprit."""
    from infer_forge.base.errors import UsageFault
    from infer_forge.crash import Context, triage
    from infer_forge.crash.read import total_bytes

    flags: dict[str, str | bool | int | None] = {
        "engine": engine,
        "launch-blocking": launch_blocking,
        "graphs": graphs,
        "caching": caching_allocator,
        "world": world,
        "run": command,
    }
    _ = (limit, cursor)  # the cap pages the table
    if "-" in paths:
        raise UsageFault("standard input is the server's own wire", next_step="write the log to a file and name it")
    if total_bytes(paths) > _JOB_ABOVE_BYTES:
        words = [w for name, value in flags.items() if value is not None for w in _option(name, value)]
        return run_command(["crash", "triage", *words, *(f"./{p}" if p.startswith("-") else p for p in paths)])
    return triage(paths, context=Context(engine, launch_blocking, graphs, caching_allocator, world, None, command))


@tool(toolset="crash", read_only=True)
def plan_crash_run(
    paths: Annotated[
        list[str] | None, Field(max_length=64, description="What is known so far: logs and dumps. Default: nothing.")
    ] = None,
    command: Command = None,
    engine: Engine = None,
    launch_blocking: Annotated[
        bool | None, Field(description="true: a blocking run was made already. Default: unknown.")
    ] = None,
    graphs: Annotated[
        bool | None, Field(description="false: a run without CUDA graphs was made already. Default: unknown.")
    ] = None,
    caching_allocator: Annotated[
        bool | None, Field(description="false: a run without the caching allocator was made already. Default: unknown.")
    ] = None,
    world: World = None,
) -> Answer:
    """Use it when a triage could not name the cause: the next runs in order, one question each, with command, environment
    and what either outcome says. It runs nothing. No runs are planned for hardware faults and configuration errors."""
    from infer_forge.crash import Context, plan_runs

    context = Context(engine, launch_blocking, graphs, caching_allocator, world, None, command)
    return plan_runs(paths or [], context=context)


@tool(toolset="crash", read_only=True)
def explain_signature(
    what: Annotated[
        str,
        Field(
            min_length=1, max_length=4000, description="A class such as ima_async, an Xid as 'xid 79', or one log line."
        ),
    ],
) -> Answer:
    """Use it for one error line, Xid number or class: meaning, whether the CUDA context is dead afterwards, whether it only
    surfaces there or is a mere consequence, and the next command. A whole log belongs into triage_crash."""
    from infer_forge.crash import explain

    return explain(what)
