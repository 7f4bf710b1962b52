"""`infer-forge serve`: the MCP server."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable
from typing import Any

import click


@click.command()
@click.option("--http", metavar="HOST:PORT", help="Serve streamable HTTP there instead of stdio.")
@click.option(
    "--toolsets",
    default="",
    help="Further tools: profile,ncu,crash,bench,guard,nodes,journal,tasks,campaign,all. The defaults stay.",
)
@click.option("--read-only", is_flag=True, help="Offer only tools that change nothing; wins over --toolsets.")
def command(http: str | None, toolsets: str, read_only: bool) -> None:
    """The MCP server: stdio by default, for Claude Code, Codex and every other MCP client."""
    _started(toolsets.split(","), read_only, http)()


def _started(toolsets: list[str], read_only: bool, http: str | None) -> Callable[[], None]:
    """The server, made without garbage collection: all that a start makes stays, and looking through it is slow."""
    gc.disable()
    try:
        # The server is a door beside this one, not below it: it is looked up by name when it is asked for.
        server: Any = importlib.import_module("infer_forge_mcp.server")
        return server.ready(toolsets, read_only=read_only, http=http)
    finally:
        gc.freeze()  # nor do later collections look through it
        gc.enable()
