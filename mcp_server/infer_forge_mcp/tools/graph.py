"""Tools of the task graph: what may begin, and why a node is as it is."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from infer_forge_mcp.toolkit import Answer, tool

Project = Annotated[str, Field(description="Which graph of the task store. Default: main.", max_length=80)]


@tool(toolset="tasks", read_only=True, paged="ready")
def list_ready_tasks(
    project: Project = "main",
    limit: Annotated[int | None, Field(ge=1, le=500, description="Rows, 1 to 500. Default: what fits.")] = None,  # noqa: ARG001 - the cap pages
    cursor: Annotated[str | None, Field(description="next_cursor to go on.")] = None,  # noqa: ARG001
) -> Answer:
    """Use it to choose what to work on next in a task graph: nodes whose imports were all verified and handed over, and what
    the other ones wait for. A suspect, rejected or superseded producer makes nothing ready."""
    from infer_forge.tasks import graph, open_store

    return graph.ready(graph.look(open_store(), project))


@tool(toolset="tasks", read_only=True)
def explain_node(
    node: Annotated[str, Field(description="Id of the node, or of the task that it stands for.", max_length=80)],
    project: Project = "main",
) -> Answer:
    """Use it before you stand on a node's result or redo its work: status and reasons, evidence with its reviewer, what it
    waits for, the chain of a doubt, and the rejected or unreleased paths beside it with their reasons."""
    from infer_forge.tasks import graph, open_store

    return graph.explain(open_store(), node, project)
