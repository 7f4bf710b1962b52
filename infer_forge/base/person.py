"""What only a person may do is asked of a person: somebody at a terminal, and no coding agent around the command.

The safety guard denies the same commands before they run (`guard/rules/persons.py`): a program that makes a terminal for
what it starts can look like a person from in here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from infer_forge.base.errors import HumanNeeded

_CLAUDE = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_PROJECT_DIR")
_PERSONS_OWN = ("HOME", "SQLITE_HOME", "INSTALL_DIR", "NON_INTERACTIVE", "API_KEY", "ACCESS_TOKEN", "CA_CERTIFICATE")
"""What people set for Codex in their shells (developers.openai.com/codex/environment-variables): no sign that it runs."""


def client_of(environ: Mapping[str, str] | None = None) -> str | None:
    """The client that this process runs under, by the variables that it sets: `claude`, `codex`, or None at a plain shell."""
    sign = _sign(os.environ if environ is None else environ)
    return None if sign is None else "claude" if sign in _CLAUDE else "codex"


def _sign(env: Mapping[str, str]) -> str | None:
    """The variable that tells of a client."""
    codex = (n for n in env if n.startswith("CODEX_") and n.removeprefix("CODEX_") not in _PERSONS_OWN)
    return next((n for n in _CLAUDE if env.get(n)), None) or next(codex, None)


def require_person(what: str, next_step: str) -> None:
    """Refuse unless a person sits at a terminal.

    Raises:
        HumanNeeded: an agent, a pipe or a server asks.
    """
    sign = _sign(os.environ)
    if sign or not (sys.stdin and sys.stdin.isatty()):
        why = f": {sign} says that a coding agent runs this" if sign else ""
        raise HumanNeeded(f"{what} is for a person at a terminal{why}", next_step=next_step)
