"""What only a person may do is asked of a person: somebody at a terminal, and no coding agent around the command.

The safety guard denies the same commands before they run (`guard/rules/persons.py`): a program that makes a terminal for
what it starts can look like a person from in here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from infer_forge.base.errors import HumanNeeded


def client_of(environ: Mapping[str, str] | None = None) -> str | None:
    """The client that this process runs under, by the variables that it sets: `claude`, `codex`, or None at a plain shell."""
    env = os.environ if environ is None else environ
    if env.get("CLAUDECODE") or env.get("CLAUDE_CODE_ENTRYPOINT") or env.get("CLAUDE_PROJECT_DIR"):
        return "claude"
    if any(name.startswith("CODEX_") and name != "CODEX_HOME" for name in env):  # a person's own setting
        return "codex"
    return None


def require_person(what: str, next_step: str) -> None:
    """Refuse unless a person sits at a terminal.

    Raises:
        HumanNeeded: an agent, a pipe or a server asks.
    """
    if client_of() or not (sys.stdin and sys.stdin.isatty()):
        raise HumanNeeded(f"{what} is for a person at a terminal", next_step=next_step)
