"""The tool reference `docs/tools.md`, made from the server itself: `python -m chores.tool_docs [--check]`."""

from __future__ import annotations

import sys
from typing import Any

import anyio
from mcp.client import Client
from mcp_types import Tool

from chores import ROOT
from infer_forge_mcp.server import chosen, found_tools, make_server
from infer_forge_mcp.toolkit import TOOLSETS

PLACE = ROOT / "docs" / "tools.md"
_HEAD = """# Tools of the MCP server

Made from the server by `python -m chores.tool_docs`; `scripts/check docs` tells when it has drifted.

`infer-forge serve` offers the tools marked **default**, in their brief form: the first sentence of the description, and
without the parameters in italics. `infer-forge serve --toolsets crash,nodes` adds the whole of those toolsets, `all`
everything; `--read-only` leaves out what changes something, whatever else is said. Unknown arguments are refused.

Hints: *reads* changes nothing; *acts* changes infer-forge's own records or files that it is told to write; *removes* may
take something away; *reaches out* touches more than infer-forge's state and the files named. Codex without approvals runs
what reads, and what acts without removing or reaching out.

An answer is at most 8,000 characters: `summary`, `tables` (columns and rows), `findings`, `next_step`, the `header` with
inputs and their sha256, `omitted_rows`, `next_cursor`, and `artifact`, a file with the whole answer. Work over 15 s answers
with a `job`. Null or absent means unknown, never zero.
"""


def _tools() -> dict[str, Tool]:
    async def ask() -> list[Tool]:
        async with Client(make_server(("all",))) as client:
            return (await client.list_tools()).tools

    return {t.name: t for t in anyio.run(ask)}


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " \\| ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(_kind(s) for s in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    words = {"string": "text", "object": "map", "boolean": "true or false"}
    name = str(schema.get("type", "any"))
    return words.get(name, name)


def _hints(tool: Tool) -> str:
    hints = tool.annotations
    assert hints is not None
    words = ["reads" if hints.read_only_hint else "acts"]
    words += ["removes"] if hints.destructive_hint else []
    words += ["reaches out"] if hints.open_world_hint else []
    return ", ".join(words)


def _one(tool: Tool, default: bool, further: tuple[str, ...]) -> str:
    lines = [f"### {tool.name}", "", f"{'**default**, ' if default else ''}{_hints(tool)}. {tool.description}", ""]
    schema = tool.input_schema
    properties: dict[str, dict[str, Any]] = schema.get("properties", {})
    if properties:
        lines += ["| parameter | kind | |", "|---|---|---|"]
    for name, one in properties.items():
        shown = f"*{name}*" if name in further else f"**{name}**" if name in schema.get("required", ()) else name
        lines.append(f"| {shown} | {_kind(one)} | {one.get('description', '')} |".replace("  ", " "))
    return "\n".join([*lines, ""])


def text() -> str:
    """The whole page."""
    tools, specs, defaults = _tools(), {n: s for n, (s, _) in found_tools().items()}, set(chosen())
    parts = [_HEAD]
    for toolset in ("core", *TOOLSETS):
        names = sorted(n for n, s in specs.items() if s.toolset == toolset)
        parts.append(f"## {toolset}\n")
        parts += [_one(tools[n], n in defaults, specs[n].further) for n in names]
    return "\n".join(parts).rstrip() + "\n"


def main() -> None:
    """Write the page, or with --check say that it differs."""
    if "--check" not in sys.argv:
        PLACE.write_text(text(), encoding="utf-8")
    elif not PLACE.is_file() or PLACE.read_text(encoding="utf-8") != text():
        sys.exit("docs/tools.md is out of date; run python -m chores.tool_docs with scripts on PYTHONPATH")
    print(f"{len(found_tools())} tools")


if __name__ == "__main__":
    main()
