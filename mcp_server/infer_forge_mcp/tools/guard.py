"""Tools of the safety guard: check a command, scan artifacts, list what is owned, ask a person for a grant."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from mcp.server.mcpserver import AcceptedElicitation, Elicit, ElicitationResult, Resolve
from mcp.server.mcpserver.context import Context
from pydantic import BaseModel, Field

from infer_forge_mcp.toolkit import Answer, tool


@tool(toolset="guard", default=True, read_only=True)
def check_command(
    command: Annotated[str, Field(description="Shell text.", max_length=200_000)],
    cwd: Annotated[str, Field(description="Absolute folder; default the server's.")] = "",
) -> Answer:
    """Use it before a command that kills, deletes, pushes, installs or touches GPUs, containers or jobs. Says allow,
    ask or deny, which rule decided, and what to run instead. Nothing is run."""
    from infer_forge.guard import check

    verdict = check(command, cwd=cwd or None).to_json()
    line = verdict["verdict"] + (f" [{verdict['rule_id']}]" if verdict["rule_id"] else "") + f": {verdict['why']}"
    verdict["argv"] = [word[:200] for word in verdict["argv"][:40]]
    verdict["hits"] = verdict["hits"][:8]
    return {"kind": "guard_check", "summary": [line], "next_step": verdict["safer"], **verdict}


@tool(toolset="guard", default=True, read_only=True, paged="secrets", further=("limit",))
def scan_artifacts(
    paths: Annotated[list[str], Field(description="Files or folders, 1 to 50.", min_length=1, max_length=50)],
    limit: Annotated[int, Field(ge=1, le=500, description="Rows, 1 to 500; default 50.")] = 50,  # noqa: ARG001 - the cap pages
    cursor: Annotated[str, Field(description="next_cursor to go on.")] = "0",  # noqa: ARG001
) -> Answer:
    """Use it before artifacts are committed, packed or handed on: finds secrets. It reads text, gzip traces, sqlite
    and Nsight reports, and knows the values of this environment's secret variables. Values are never shown."""
    from infer_forge.guard.catalogue import scan_report

    return scan_report(paths)[0]


@tool(toolset="guard", read_only=True)
def list_owned(
    run_id: Annotated[str, Field(description="The run; by default the one of the working folder.")] = "",
) -> Answer:
    """Use it before cleaning up: lists what the run owns (processes, paths, containers, jobs, ports) with the proof and
    its age, its claims, and live grants of people."""
    from infer_forge.guard.catalogue import status

    return status(run_id or None)


class Leave(BaseModel):
    """What a person is asked."""

    decision: Literal["allow", "refuse"] = Field(description="Whether this may be done")
    minutes: int = Field(default=30, ge=1, le=1440, description="For how many minutes")


def _can_ask(ctx: Context[Any]) -> bool:
    capabilities = ctx.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


def _ask(action: str, target: str, reason: str, ctx: Context[Any]) -> Elicit[Leave] | Leave:
    from infer_forge.guard.catalogue import grantable

    grantable(action)
    if not _can_ask(ctx):
        return Leave.model_construct(decision="refuse", minutes=0)
    return Elicit(f"An agent asks for leave: {action} on {target}. Its reason: {reason}", Leave)


@tool(toolset="guard", read_only=False, idempotent=False)
def request_grant(
    action: Annotated[str, Field(description="The rule_id that check_command or the hook named.", max_length=80)],
    target: Annotated[
        str, Field(description="The exact word of the command that it covers.", min_length=1, max_length=400)
    ],
    reason: Annotated[
        str, Field(description="Why it is needed, for the person who decides.", min_length=8, max_length=600)
    ],
    leave: Annotated[ElicitationResult[Leave], Resolve(_ask)],
) -> Answer:
    """Use it when the guard stopped something that the task needs: asks a person through the client, or names the
    command that a person runs at a terminal. Only a person decides."""
    import shlex

    from infer_forge.guard import catalogue

    if isinstance(leave, AcceptedElicitation) and leave.data.decision == "allow":
        catalogue.give(action, target, leave.data.minutes * 60.0, "person:client", reason, None)
        line = f"granted for {leave.data.minutes} minutes: {action} on {target}"
        return {"kind": "guard_grant", "summary": [line], "granted": True, "next_step": "run the command again"}
    command = f"infer-forge guard grant --action {shlex.quote(action)} --target {shlex.quote(target)} --for 30m"
    asked = not (isinstance(leave, AcceptedElicitation) and leave.data.minutes == 0)
    line = "not granted: the person declined or did not answer" if asked else "this client cannot ask a person"
    step = f"a person runs at a terminal: {command}"
    return {"kind": "guard_grant", "summary": [line], "granted": False, "command": command, "next_step": step}
