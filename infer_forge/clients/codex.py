"""Codex: skills in `$CODEX_HOME/skills`, servers in `config.toml`, hooks in `hooks.json`.

Seen with Codex 0.171.0: hooks stay silent until a person trusts them; a project's `.codex/config.toml` counts only in a
trusted project; optional servers that take more than about a second to start are missing from the first turn.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from infer_forge.base import jsonio
from infer_forge.clients import settings_json
from infer_forge.clients.model import SERVER_NAME, Change, Hook, PluginPlace

_BEGIN, _END = "# infer-forge: begin (written by infer-forge install)", "# infer-forge: end"
_BLOCK = re.compile(rf"\n*{re.escape(_BEGIN)}\n(.*?){re.escape(_END)}\n", re.DOTALL)
_TABLE = re.compile(rf"^\s*\[mcp_servers\.(?:\"{SERVER_NAME}\"|{SERVER_NAME})\]", re.MULTILINE)
_COMMAND = re.compile(r'^command\s*=\s*("(?:[^"\\]|\\.)*")', re.MULTILINE)
_ARGS = re.compile(r"^args\s*=\s*(\[[^\]]*\])", re.MULTILINE)
_PLUGIN = re.compile(rf'^\s*\[plugins\."{SERVER_NAME}@([^"/]+)"\]([^\[]*)', re.MULTILINE)
_OFF = re.compile(r"^\s*enabled\s*=\s*false", re.MULTILINE)
PASSED_ON = ("INFER_FORGE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")


class Codex:
    """Codex."""

    NAME = "codex"
    AGAIN = "infer-forge install --client codex"

    def home(self, project: Path | None) -> Path:
        """`.codex` of the project, else `$CODEX_HOME`, else `~/.codex`."""
        return project / ".codex" if project else Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")

    def skills_folder(self, project: Path | None) -> Path:
        """Where Codex finds skills."""
        return self.home(project) / "skills"

    def config_file(self, project: Path | None) -> Path:
        """config.toml."""
        return self.home(project) / "config.toml"

    def add_server(self, project: Path | None, command: list[str]) -> Change:
        """Register the server in a block of our own; a table that somebody wrote by hand is left alone."""
        file = self.config_file(project)
        old = file.read_text(encoding="utf-8") if file.is_file() else ""
        rest = _BLOCK.sub("\n", old)
        if _TABLE.search(rest):
            return Change(
                "MCP server", str(file), f"skipped: [mcp_servers.{SERVER_NAME}] was written by hand; it stays as it is"
            )
        # JSON strings are valid TOML basic strings.
        table = f"[mcp_servers.{SERVER_NAME}]\ncommand = {json.dumps(command[0])}\nargs = {json.dumps(command[1:])}\n"
        # Codex hands a server few variables; without these it would keep its state elsewhere than the command line does.
        passed = f"env_vars = {json.dumps(list(PASSED_ON))}\n"
        block = f"{_BEGIN}\n{table}{passed}startup_timeout_sec = 30\ntool_timeout_sec = 120\n{_END}\n"
        new = f"{rest.rstrip()}\n\n{block}" if rest.strip() else block
        if new == old:
            return Change("MCP server", str(file), "unchanged")
        self._write(file, new, others=rest)
        return Change("MCP server", str(file), "updated" if _BLOCK.search(old) else "added")

    def _write(self, file: Path, text: str, others: str) -> None:
        if others.strip():
            settings_json.back_up(file)
        jsonio.write_atomic(file.resolve() if file.is_symlink() else file, text)

    def remove_server(self, project: Path | None) -> Change:
        """Take our block away."""
        file = self.config_file(project)
        old = file.read_text(encoding="utf-8") if file.is_file() else ""
        if not _BLOCK.search(old):
            return Change("MCP server", str(file), "absent")
        new = _BLOCK.sub("\n", old).strip()
        self._write(file, f"{new}\n" if new else "", others=new)
        return Change("MCP server", str(file), "removed")

    def server_command(self, project: Path | None) -> list[str] | None:
        """The registered command, from our block or from a table written by hand."""
        file = self.config_file(project)
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
        found = _TABLE.search(text)
        if not found:
            return None
        table = text[found.end() :].split("\n[", 1)[0]
        command, args = _COMMAND.search(table), _ARGS.search(table)
        return [json.loads(command[1]), *(json.loads(args[1]) if args else [])] if command else None

    def plugin(self, project: Path | None) -> PluginPlace | None:
        """Our plugin as `config.toml` of the user enables it, in the newest copy of Codex's plugin cache."""
        file = self.config_file(None)
        found = _PLUGIN.search(file.read_text(encoding="utf-8")) if file.is_file() else None
        if not found or _OFF.search(found[2]):
            return None
        copies = (self.home(None) / "plugins" / "cache" / found[1] / SERVER_NAME).glob("*/")
        newest = max((c for c in copies if c.is_dir()), key=lambda c: c.stat().st_mtime, default=None)
        again = f"codex plugin add {SERVER_NAME}@{found[1]}"
        return PluginPlace(newest, ".codex-mcp.json", "hooks/codex-hooks.json", again) if newest else None

    def hooks_file(self, project: Path | None) -> Path:
        """hooks.json."""
        return self.home(project) / "hooks.json"

    def add_hook(self, project: Path | None, hook: Hook) -> Change:
        """Register a hook. Codex knows no `onFailure`: the hook itself must end with 2 on every failure."""
        handler = {"type": "command", "command": hook.command, "timeout": hook.timeout_s}
        return settings_json.add_hook(self.hooks_file(project), hook, handler)

    def remove_hooks(self, project: Path | None, programs: set[str]) -> list[Change]:
        """Take our hooks away."""
        return settings_json.remove_hooks(self.hooks_file(project), programs)

    def hooks(self, project: Path | None) -> list[Hook]:
        """All command hooks."""
        return settings_json.hooks_in(self.hooks_file(project))

    def notes(self, project: Path | None, *, server: bool, hooks: bool) -> list[str]:
        """What a person still has to do."""
        trust = "Codex runs no hook before a person trusts it: start `codex`, open /hooks and trust infer-forge-guard"
        notes = [trust] if hooks else []
        if project:
            notes.append(
                "Codex reads a project's .codex folder only in a trusted project: start `codex` there once and trust it"
            )
        return notes


CLIENT = Codex()
