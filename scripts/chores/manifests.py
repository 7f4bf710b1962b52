"""The plugin manifests of both clients, made from one place so that none drifts: `python -m chores.manifests [--check]`.

Claude Code reads `.claude-plugin/plugin.json`, `hooks/hooks.json`, `.mcp.json`; Codex prefers `.codex-plugin/plugin.json`,
does not expand `${CLAUDE_PLUGIN_ROOT}` in a server's command, and hands it only the variables that are named. So both call
the console scripts on PATH; a missing one blocks the guarded tools (the hook ends with 2) and leaves the server away.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from chores import ROOT
from infer_forge import __version__
from infer_forge.clients.codex import PASSED_ON
from infer_forge.guard import hook_config

NAME = "infer-forge"
DESCRIPTION = "Reproducible inference optimisation: trace triage, crash verdicts, fair benchmarks, a safety guard, and a SOTA loop."
AUTHOR = {"name": "the infer-forge authors"}


def _hooks(client: str) -> dict[str, Any]:
    script = hook_config.SCRIPT
    return hook_config.entries(
        client, hook_config.fail_closed(client, script), hook_config.after_command(client, script)
    )


def manifests() -> dict[str, dict[str, Any]]:
    """Path -> content of every manifest."""
    plugin: dict[str, Any] = {
        "name": NAME,
        "version": __version__,
        "description": DESCRIPTION,
        "author": AUTHOR,
        "license": "Apache-2.0",
        "keywords": ["llm", "inference", "profiling", "cuda", "sglang", "vllm", "tensorrt-llm"],
    }
    command: dict[str, Any] = {"command": NAME, "args": ["serve"]}
    market = {
        "name": NAME,
        "owner": AUTHOR,
        "metadata": {"description": DESCRIPTION, "version": __version__},
        "plugins": [{"name": NAME, "source": "./", "description": DESCRIPTION, "version": __version__}],
    }
    codex = {**plugin, "skills": "./skills/", "hooks": "./hooks/codex-hooks.json", "mcpServers": "./.codex-mcp.json"}
    return {
        ".claude-plugin/plugin.json": plugin,
        ".claude-plugin/marketplace.json": market,
        ".codex-plugin/plugin.json": codex,
        ".mcp.json": {"mcpServers": {NAME: command}},
        ".codex-mcp.json": {"mcpServers": {NAME: {**command, "env_vars": list(PASSED_ON)}}},
        "hooks/hooks.json": _hooks("claude"),
        "hooks/codex-hooks.json": _hooks("codex"),
    }


def main() -> None:
    """Write the manifests, or with --check say which differ."""
    drifted: list[str] = []
    for name, content in manifests().items():
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        path = ROOT / name
        if "--check" in sys.argv:
            drifted += [] if path.is_file() and path.read_text() == text else [name]
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    if drifted:
        sys.exit(f"out of date: {', '.join(drifted)}; run python -m chores.manifests")
    print(f"{len(manifests())} manifests of version {__version__}")


if __name__ == "__main__":
    main()
