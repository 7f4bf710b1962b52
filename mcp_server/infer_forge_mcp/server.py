"""Wiring of the MCP server: which tools are on, instructions, transports."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from mcp.server import MCPServer

from infer_forge import __version__
from infer_forge.base.errors import UsageFault
from infer_forge_mcp import confirming
from infer_forge_mcp import tools as tool_modules
from infer_forge_mcp.toolkit import MARK, TOOLSETS, ToolSpec, build

INSTRUCTIONS = """infer-forge turns traces, Nsight Compute reports, crash logs and benchmark results into evidence.
Start with triage_trace for a torch-profiler trace, digest_ncu_report for a kernel report, triage_crash for logs,
check_results and decide_gap for benchmark results, check_command before a command on a shared GPU host, search_journal
before trying an idea, read_next_step inside a campaign. Tables are columns and rows; null means unknown, never zero;
an answer over the size limit names an artifact file with the whole of it. Work over 15 s becomes a job: read_job,
cancel_job. Every answer ends with next_step. The command line `infer-forge` does the same;
a server started with --toolsets NAME shows more tools of that room, and more parameters of these."""


def found_tools() -> dict[str, tuple[ToolSpec, Callable[..., Any]]]:
    """Every decorated function of the tool modules, by name."""
    found: dict[str, tuple[ToolSpec, Callable[..., Any]]] = {}
    for info in pkgutil.iter_modules(tool_modules.__path__):
        module = importlib.import_module(f"{tool_modules.__name__}.{info.name}")
        for value in list(vars(module).values()):
            spec = getattr(value, MARK, None)
            if isinstance(spec, ToolSpec) and value.__module__ == module.__name__:
                found[value.__name__] = (spec, value)
    return found


def chosen(toolsets: Iterable[str] = (), *, read_only: bool = False) -> dict[str, Callable[..., Any]]:
    """The functions that a choice of toolsets turns on: the defaults, the core ones, and every tool of the sets named.

    Args:
        toolsets: names of `TOOLSETS`, or `all`.
        read_only: leave out everything that changes something; wins over the sets.

    Raises:
        UsageFault: a name is no toolset.
    """
    names = {n.strip() for n in toolsets if n.strip()}
    unknown = names - {*TOOLSETS, "all", "default"}
    if unknown:
        raise UsageFault(
            f"no such toolset: {', '.join(sorted(unknown))}", next_step=f"use {', '.join(TOOLSETS)} or all"
        )

    def on(spec: ToolSpec) -> bool:
        wanted = spec.default or spec.toolset == "core" or spec.toolset in names or "all" in names
        return wanted and (bool(spec.annotations.read_only_hint) or not read_only)

    return {name: function for name, (spec, function) in found_tools().items() if on(spec)}


@asynccontextmanager
async def _quiet_stdout(_: MCPServer) -> AsyncGenerator[None]:
    """While stdio is the wire, a stray print() goes to stderr; the transport has taken its own handle by then."""
    kept, sys.stdout = sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.stdout = kept


def make_server(toolsets: Iterable[str] = (), *, read_only: bool = False, stdio: bool = False) -> MCPServer:
    """A server with the chosen tools, and the resources of the rooms whose tools are on.

    `stdio` says that standard output is the wire, so that prints must be kept off it.
    """
    named = {*toolsets}
    functions = chosen(named, read_only=read_only)
    server = MCPServer(
        "infer-forge",
        title="infer-forge",
        version=__version__,
        instructions=INSTRUCTIONS,
        tools=[build(f, brief=not named & {"all", getattr(f, MARK).toolset}) for f in functions.values()],
        log_level="WARNING",
        lifespan=_quiet_stdout if stdio else None,
    )
    for module_name in {f.__module__ for f in functions.values()}:
        register = getattr(sys.modules[module_name], "register", None)
        if register is not None:
            register(server)
    return server


def ready(toolsets: Iterable[str] = (), *, read_only: bool = False, http: str | None = None) -> Callable[[], None]:
    """A server with the chosen tools; what is returned serves over stdio, or over streamable HTTP at HOST:PORT, until stopped.

    Raises:
        UsageFault: the HTTP address is not HOST:PORT, or cannot be listened on.
    """
    address = _free_address(http) if http is not None else None
    server = make_server(toolsets, read_only=read_only, stdio=address is None)

    def serve() -> None:
        if not read_only:
            confirming.start()
        if address is None:
            server.run("stdio")
            return
        host, port = address
        server.run("streamable-http", host=host, port=port)

    return serve


def _free_address(http: str) -> tuple[str, int]:
    """Host and port, tried once: the server library answers a used port with a traceback."""
    import socket

    host, _, port = http.rpartition(":")
    if not host or not port.isdecimal() or len(port) > 5 or int(port) > 65535:
        raise UsageFault(f"{http!r} is no HOST:PORT", next_step="for example --http 127.0.0.1:8765")
    bare = host.removeprefix("[").removesuffix("]")
    try:
        with socket.create_server((bare, int(port)), family=socket.AF_INET6 if ":" in bare else socket.AF_INET):
            return bare, int(port)
    except OSError as exc:
        raise UsageFault(
            f"cannot listen there: {exc.strerror or exc}", where=http, next_step="name another address or port"
        ) from None
