"""Claude Code: skills in `~/.claude/skills`, user servers in `~/.claude.json`, project servers in `.mcp.json`, hooks in settings.json.

Seen with Claude Code 2.1.332: project servers wait for a person's approval; `onFailure: "block"` closes the hook's
crash and time-out holes from 2.1.295 on.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from infer_forge.clients import settings_json
from infer_forge.clients.model import SERVER_NAME, Change, Hook, PluginPlace, served_by


class Claude:
    """Claude Code."""

    NAME = "claude"
    AGAIN = "infer-forge install --client claude"

    def home(self) -> Path:
        """The configuration folder: `CLAUDE_CONFIG_DIR`, else `~/.claude`."""
        return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")

    def skills_folder(self, project: Path | None) -> Path:
        """`~/.claude/skills` or the project's."""
        return (project / ".claude" if project else self.home()) / "skills"

    def servers_file(self, project: Path | None) -> Path:
        """Where servers are registered: `.mcp.json` of the project, else `.claude.json` of the user."""
        if project:
            return project / ".mcp.json"
        moved = os.environ.get("CLAUDE_CONFIG_DIR")
        return Path(moved) / ".claude.json" if moved else Path.home() / ".claude.json"

    def settings_file(self, project: Path | None) -> Path:
        """Where hooks are registered."""
        return (project / ".claude" if project else self.home()) / "settings.json"

    def add_server(self, project: Path | None, command: list[str]) -> Change:
        """Register the stdio server; an older registration of ours is brought up to date."""
        file = self.servers_file(project)

        def edit(settings: dict[str, Any]) -> str:
            servers = settings.setdefault("mcpServers", {})
            wanted = {"type": "stdio", "command": command[0], "args": command[1:]}
            kept = servers.get(SERVER_NAME)
            servers[SERVER_NAME] = wanted if kept is None else {**kept, **wanted}
            return "added" if kept is None else ("unchanged" if servers[SERVER_NAME] == kept else "updated")

        return Change("MCP server", str(file), settings_json.change(file, edit))

    def remove_server(self, project: Path | None) -> Change:
        """Take the registration away."""
        file = self.servers_file(project)
        if not file.is_file():
            return Change("MCP server", str(file), "absent")

        def edit(settings: dict[str, Any]) -> str:
            return "removed" if settings.get("mcpServers", {}).pop(SERVER_NAME, None) else "absent"

        return Change("MCP server", str(file), settings_json.change(file, edit))

    def server_command(self, project: Path | None) -> list[str] | None:
        """The registered command."""
        return served_by(settings_json.read(self.servers_file(project)))

    def plugin(self, project: Path | None) -> PluginPlace | None:
        """Our plugin as `plugins/installed_plugins.json` tells, when `enabledPlugins` of the user or project has it."""
        files = [self.settings_file(None)]
        if project:
            files += [self.settings_file(project), self.settings_file(project).with_name("settings.local.json")]
        enabled: set[str] = set()
        for file in files:
            switches: dict[str, Any] = settings_json.read(file).get("enabledPlugins") or {}
            enabled |= {name for name, on in switches.items() if on}
        known: dict[str, Any] = (
            settings_json.read(self.home() / "plugins" / "installed_plugins.json").get("plugins") or {}
        )
        for name in sorted(enabled & set(known)):
            for copy in known[name]:
                folder = Path(copy.get("installPath") or "/nowhere")
                if name.split("@")[0] == SERVER_NAME and folder.is_dir():
                    return PluginPlace(folder, ".mcp.json", "hooks/hooks.json", f"claude plugin update {name}")
        return None

    def add_hook(self, project: Path | None, hook: Hook) -> Change:
        """Register a hook; one that can block blocks when it fails."""
        handler: dict[str, Any] = {"type": "command", "command": hook.command, "timeout": hook.timeout_s}
        if not hook.event.startswith("PostToolUse"):
            handler["onFailure"] = "block"
        return settings_json.add_hook(self.settings_file(project), hook, handler)

    def remove_hooks(self, project: Path | None, programs: set[str]) -> list[Change]:
        """Take our hooks away."""
        return settings_json.remove_hooks(self.settings_file(project), programs)

    def hooks(self, project: Path | None) -> list[Hook]:
        """All command hooks of the settings file."""
        return settings_json.hooks_in(self.settings_file(project))

    def notes(self, project: Path | None, *, server: bool, hooks: bool) -> list[str]:
        """What a person still has to do."""
        if project and server:
            return ["Claude Code connects a project's server only after a person approves it: run `claude` there once"]
        return []


CLIENT = Claude()
