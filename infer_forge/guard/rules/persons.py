"""What infer-forge asks a person for is no agent's to type, not even in a terminal that it makes itself."""

from __future__ import annotations

import re
from typing import Any

from infer_forge.guard.model import DENY, Cmd

COMMANDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("guard", "grant"): (),
    ("guard", "own"): ("--force", "-f"),
    ("guard", "status"): ("--compile",),
    ("guard", "clocks"): ("--standing", "--drop", "--force"),
    ("node", "release"): ("--force",),
    ("node", "mark"): ("--clear",),
    ("node", "policy"): ("--set", "--retire"),
    ("node", "collect"): ("--trust",),
    ("task", "decide"): (),
    ("task", "deliver"): ("--accept-baseline",),
    ("task", "handoff"): ("--abandon",),
    ("task", "restore"): ("--commit",),
    ("task", "resume"): ("--person", "--more-blocks", "--more-minutes"),
    ("bench", "lock"): ("--accept-by",),
    ("campaign", "lock"): ("--accept-by",),
}
"""Command -> the options with which it needs a person; none named: always. A test holds it against the help texts."""

_MAKE_TERMINALS = r"(?:script|unbuffer|expect|socat|faketty)\b|.*\b(?:pty|pexpect|ptyprocess)\b"
"""Wrappers in which a command finds a terminal that no person sits at."""


def typed(words: list[str], cmd: Cmd, bench: Any) -> bool:
    """Deny a command of ours (its words behind the program's name) that needs a person; whether it was one."""
    verb = [w for w in words if not w.startswith("-")][:2]
    options = COMMANDS.get((verb[0], verb[1])) if len(verb) > 1 else None
    if options is None:
        return False
    if verb == ["guard", "own"] and any(re.match(_MAKE_TERMINALS, v) for v in cmd.via):
        bench.hit(
            DENY, "guard.grant", f"{cmd.via[-1]} makes a terminal, and what guard own asks there is a person's", cmd
        )
        return True
    given = [w.split("=", 1)[0] for w in words]
    option = next((o for o in options if o in given), "")
    if options and not option:
        return False
    name = " ".join((*verb, option)).rstrip()
    bench.hit(DENY, "guard.grant", f"{name} is for a person at a terminal of their own", cmd)
    return True
