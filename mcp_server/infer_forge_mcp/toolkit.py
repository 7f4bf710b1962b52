"""How a tool of the server is written.

    from infer_forge_mcp.toolkit import tool, run_command

    @tool(toolset="ncu", default=True, read_only=True)
    def digest_ncu_report(report: Annotated[str, Field(description="Path of ...")]) -> Answer:
        \"\"\"Use it when ... (at most 400 characters; the first sentence says when to use it).\"\"\"
        return run_command(["ncu", "digest", report])          # long or heavy work: a job of the same command line
        # or, for quick work in this process:  from infer_forge.ncu import digest; return digest(...)  -> a Report

A tool returns a `Report`, the JSON dictionary of one, or a `ForgeResult`. Import the library inside the function. Raise a
`ForgeError` (or let the library raise it): the model gets its cause and next step. Write defaults and ranges into the
parameter descriptions, since Codex drops them from the schema.

Hints: `read_only` tools change nothing; `destructive` ones remove or overwrite; `idempotent` ones may be repeated;
`open_world` ones reach beyond this machine's infer-forge state and the files named. Codex runs a tool unasked only when
it is read-only, or neither destructive nor open-world.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, cast

from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools.base import Tool
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import ValidationError

from infer_forge.base import jobs, jsonio
from infer_forge.base.errors import ForgeError, InputUnusable, UsageFault
from infer_forge.base.records import Report
from infer_forge_mcp.results import ForgeResult, capped

TOOLSETS = ("profile", "ncu", "crash", "bench", "guard", "nodes", "journal", "tasks", "campaign")
JOB_WAIT_S = 15.0  # a tool answers in under 20 s; what is not done by then goes on as a job
MARK = "__forge_tool__"
_USAGE = re.compile(r"Usage: .*?^Error: (.*)", re.DOTALL | re.MULTILINE)
"""What click prints of a wrong option or operand."""
Answer: TypeAlias = Report | ForgeResult | dict[str, Any]
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class ToolSpec:
    """What the decorator recorded: toolset, whether it is among the defaults, the hints, paging, further parameters."""

    toolset: str
    default: bool
    annotations: ToolAnnotations
    paged: str | None
    further: tuple[str, ...]


def tool(
    *,
    toolset: str,
    read_only: bool,
    default: bool = False,
    destructive: bool = False,
    idempotent: bool = True,
    open_world: bool = False,
    paged: str | None = None,
    further: tuple[str, ...] = (),
) -> Callable[[F], F]:
    """Mark a function as a tool of the server; its docstring is the description.

    Args:
        toolset: one of `TOOLSETS`, or `core` (always on).
        paged: the table that the function's `limit` and `cursor` parameters page through; the cap does the paging.
        further: parameters of a default tool that are offered only where its toolset was asked for by name; so are the
            sentences of its description behind the first. Default tools are read at every turn and must stay small.
    """

    def mark(function: F) -> F:
        hints = ToolAnnotations(
            title=function.__name__.replace("_", " ").capitalize(),
            read_only_hint=read_only,
            destructive_hint=destructive,
            idempotent_hint=idempotent,
            open_world_hint=open_world,
        )
        setattr(function, MARK, ToolSpec(toolset, default, hints, paged, further))
        return function

    return mark


def run_command(argv: list[str], *, operand: str | None = None, wait_s: float = JOB_WAIT_S) -> dict[str, Any]:
    """Run `infer-forge ARGV --format json` as a job, wait a while, and give its JSON, or the running job.

    Args:
        argv: the command and its options.
        operand: what a caller named; never taken for an option, whatever it begins with.
        wait_s: how long to wait.

    Raises:
        UsageFault: a word holds a zero byte, which no command line can.
        ForgeError: the command failed; the message is the command's own.
    """
    words = [*argv, "--format", "json", *([] if operand is None else ["--", operand])]
    if any("\0" in word for word in words):
        raise UsageFault("a zero byte stands in an argument", next_step="leave it out")
    job = jobs.wait(jobs.start(words).id, wait_s)
    return job_answer(job)


def job_answer(job: jobs.Job) -> dict[str, Any]:
    """The JSON that a finished job printed; for a running one, its state and how to go on.

    Raises:
        ForgeError: the job failed, was cancelled or lost.
    """
    if job.state == jobs.DONE:
        if not job.result:
            raise ForgeError("the command gave no answer", where=f"job {job.id}")
        return jsonio.read_json(job.result)
    state = {"id": job.id, "state": job.state, "progress": job.progress}
    if job.state == jobs.RUNNING:
        step = f'call read_job with job_id "{job.id}"'
        return {"kind": "job", "summary": [f"still running as job {job.id}"], "job": state, "next_step": step}
    error = (job.error or f"the work ended as {job.state}").removeprefix("infer-forge: ")
    wrong = _USAGE.match(error)
    if wrong:  # a command line's help is none for who called a tool
        raise UsageFault(wrong[1].strip().rstrip("."), next_step="mend the argument and call again")
    raise ForgeError(error)


class ForgeTool(Tool):
    """A tool that refuses unknown arguments and tells bad ones in one line."""

    async def run(self, arguments: dict[str, Any], context: Any, convert_result: bool = False) -> Any:
        """Check the argument names, then run; see the base class."""
        known = self.parameters.get("properties", {})
        unknown = sorted(set(arguments) - set(known))
        if unknown:
            raise ToolError(
                f"unknown argument: {', '.join(unknown)}. next: use only {', '.join(known) or 'no arguments'}"
            )
        empty = [name for name in self.parameters.get("required", ()) if arguments.get(name) == ""]
        if empty:  # as a path, for one, it would mean the folder where the server stands
            raise ToolError(f"empty argument: {', '.join(empty)}. next: say what is meant and call again")
        try:
            self.fn_metadata.validate_arguments(arguments)
        except ValidationError as exc:
            raise ToolError(_plain_errors(exc)) from None
        return await super().run(arguments, context, convert_result=convert_result)


def _plain_errors(exc: ValidationError) -> str:
    """Pydantic's complaints without its links: one clause an argument."""
    parts = [f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}" for e in exc.errors(include_url=False)]
    return f"wrong arguments: {'; '.join(parts[:4])}. next: mend them and call again"


def build(function: Callable[..., Any], *, brief: bool = False) -> ForgeTool:
    """Make the server's tool object out of a decorated function.

    Args:
        brief: the definition of the default toolset: the description's first sentence, and no `further` parameters.
    """
    spec: ToolSpec = getattr(function, MARK)
    signature = inspect.signature(function, eval_str=True)

    def convert(answer: Answer, arguments: dict[str, Any]) -> CallToolResult:
        return _wire(answer, spec, arguments)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(**kwargs: Any) -> CallToolResult:
            try:
                return convert(await function(**kwargs), kwargs)
            except ForgeError as exc:
                raise ToolError(_one_line(exc)) from exc

        call: Any = call_async
    else:

        @functools.wraps(function)
        def call_sync(**kwargs: Any) -> CallToolResult:
            try:
                return convert(function(**kwargs), kwargs)
            except ForgeError as exc:
                raise ToolError(_one_line(exc)) from exc

        call = call_sync
    call.__signature__ = signature.replace(return_annotation=CallToolResult)
    call.__annotations__ = {n: p.annotation for n, p in signature.parameters.items()} | {"return": CallToolResult}
    description = " ".join((function.__doc__ or "").split())
    if brief:
        description = re.split(r"(?<=\.) (?=[A-Z])", description, maxsplit=1)[0]
    made = ForgeTool.from_function(
        call,
        description=description,
        title=spec.annotations.title,
        annotations=spec.annotations,
        structured_output=False,  # one schema serves all tools: made once, it saves start-up time
    )
    made.parameters = _plain(_slim(made.parameters), spec.further if brief else ()) | {"additionalProperties": False}
    made.fn_metadata.output_schema = _output_schema()
    return made  # pyright: ignore[reportReturnType]


@functools.cache
def _output_schema() -> dict[str, Any]:
    """The schema of `ForgeResult`, which every tool answers with (`_wire` makes nothing else)."""
    return _slim(ForgeResult.model_json_schema(), drop=("title", "description", "default"))


def _slim(schema: Any, drop: tuple[str, ...] = ("title",)) -> Any:
    """A JSON schema without what repeats names: definitions are read by models, and every byte is paid at each turn."""
    if isinstance(schema, list):
        return [_slim(item, drop) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    fields = cast("dict[str, Any]", schema)
    return {k: _slim(v, drop) for k, v in fields.items() if k not in drop or isinstance(v, dict)}


# The server checks them, and the words tell them; Codex drops them before the model sees the schema.
_BOUNDS = (
    "default",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "minItems",
    "maxItems",
    "minProperties",
)


def _plain(parameters: dict[str, Any], left_out: tuple[str, ...]) -> dict[str, Any]:
    """Parameters as the words tell them: no null branch, default or bound, and without those left out."""
    properties: dict[str, dict[str, Any]] = {}
    for name, schema in cast("dict[str, dict[str, Any]]", parameters.get("properties", {})).items():
        kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
        alone = kinds[0] if len(kinds) == 1 else ({"anyOf": kinds} if kinds else {})
        merged = {**alone, **{k: v for k, v in schema.items() if k != "anyOf"}}
        if name not in left_out:
            properties[name] = {k: v for k, v in merged.items() if k not in _BOUNDS}
    return {**parameters, "properties": properties}


def _one_line(exc: ForgeError) -> str:
    return str(exc).replace("\n", ". ")


def _wire(answer: Answer, spec: ToolSpec, arguments: dict[str, Any]) -> CallToolResult:
    """The answer as structured content, with the same compact JSON as text for clients of before 2025-06-18."""
    if isinstance(answer, ForgeResult):
        result = answer
    else:
        data: dict[str, Any] = jsonio.loads(jsonio.dumps(answer.to_json())) if isinstance(answer, Report) else answer
        job = data.pop("job", None) if data.get("kind") == "job" else None
        cursor = arguments.get("cursor")
        if cursor is not None and not str(cursor).isdecimal():
            raise InputUnusable(
                f"cursor {cursor!r} is none of this tool's", next_step="pass the next_cursor of the last answer"
            )
        result = capped(data, paged=spec.paged, limit=arguments.get("limit"), cursor=cursor)
        result.job = job
    content = result.model_dump(mode="json", exclude_none=True, exclude_defaults=True) | {"kind": result.kind}
    text = jsonio.dumps(content).decode()
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=content)
