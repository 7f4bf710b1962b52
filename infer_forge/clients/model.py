"""What a client is to us: where it looks for skills, servers and hooks, and how to put ours there and take them away."""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from infer_forge.base.errors import MissingPart, UsageFault

SERVER_NAME = "infer-forge"
CLIENT_NAMES = ("claude", "codex")
OUR_PROGRAMS = ("infer-forge-guard", "infer-forge")


@dataclass(frozen=True)
class Change:
    """One thing that install or uninstall did, or found already done: what, where, and how it ended."""

    what: str
    where: str
    outcome: str  # added | updated | unchanged | removed | absent | skipped: <why>


@dataclass(frozen=True)
class Hook:
    """A hook entry for a client's settings.

    Attributes:
        event: `PreToolUse` or `Stop`.
        matcher: regular expression over tool names; empty for events without one.
        command: the shell command, its program as an absolute path.
        timeout_s: the client's own limit.
    """

    event: str
    matcher: str
    command: str
    timeout_s: int

    @property
    def program(self) -> str:
        """Which program it runs: an entry with one of ours and the same event is ours, whatever its folder."""
        return Path(program_in(self.command)).name


def program_in(command: str) -> str:
    """The program of a hook's command line, as written: ours wherever it stands (behind `timeout`, say), else the first word."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    words = [w.rpartition("$(")[2] or w for w in words]
    return next((w for w in words if Path(w).name in OUR_PROGRAMS), words[0] if words else "")


@dataclass(frozen=True)
class PluginPlace:
    """Where a client keeps our plugin, and which of its files it reads.

    Attributes:
        folder: the client's own copy of the plugin.
        servers: file of MCP servers in it.
        hooks: file of hooks in it.
        again: what mends or renews it.
    """

    folder: Path
    servers: str
    hooks: str
    again: str


def served_by(settings: dict[str, Any]) -> list[str] | None:
    """Command of our server in a JSON file of MCP servers; None where it has none."""
    servers: dict[str, Any] = settings.get("mcpServers") or {}
    entry: dict[str, Any] | None = servers.get(SERVER_NAME)
    return [entry["command"], *entry.get("args", [])] if entry else None


class Place(Protocol):
    """Where a client sees us: its own settings, or an installed plugin."""

    NAME: str
    AGAIN: str
    """What mends it."""

    def skills_folder(self, project: Path | None) -> Path:
        """Where the client finds skills."""
        ...

    def server_command(self, project: Path | None) -> list[str] | None:
        """The registered command; None when there is none."""
        ...

    def hooks(self, project: Path | None) -> list[Hook]:
        """All registered command hooks, ours and others'."""
        ...


class Client(Place, Protocol):
    """What a client's module must do. `project` is None for the user's own settings."""

    def plugin(self, project: Path | None) -> PluginPlace | None:
        """Our plugin, when it is installed and enabled."""
        ...

    def add_server(self, project: Path | None, command: list[str]) -> Change:
        """Register the MCP server."""
        ...

    def remove_server(self, project: Path | None) -> Change:
        """Take the registration away."""
        ...

    def add_hook(self, project: Path | None, hook: Hook) -> Change:
        """Register a hook."""
        ...

    def remove_hooks(self, project: Path | None, programs: set[str]) -> list[Change]:
        """Take away the entries whose program is among these."""
        ...

    def notes(self, project: Path | None, *, server: bool, hooks: bool) -> list[str]:
        """What a person still has to do or know once the skills, and the server or the hooks with them, are in place."""
        ...


def client_named(name: str) -> Client:
    """The client of this name.

    Raises:
        UsageFault: no such client.
    """
    if name not in CLIENT_NAMES:
        raise UsageFault(f"no client {name!r}", next_step=f"use one of {', '.join(CLIENT_NAMES)}")
    module: Any = importlib.import_module(f"infer_forge.clients.{name}")
    return module.CLIENT


def executable(name: str) -> str:
    """Absolute path of one of our own programs, in the environment that runs now, else on PATH.

    Raises:
        MissingPart: neither has it.
    """
    # not resolved: a virtual environment's python is a link out of it
    beside = Path(sys.executable).parent / name
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(name)
    if not found:
        raise MissingPart(
            f"the program {name} is not installed", next_step="pip install infer-forge in this environment"
        )
    return found
