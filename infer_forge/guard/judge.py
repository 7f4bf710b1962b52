"""`check` for people, programs and servers: finds the context and the policy itself, and decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infer_forge.guard import policy
from infer_forge.guard.context import Context, from_dict, from_ownership
from infer_forge.guard.decide import check_with
from infer_forge.guard.model import ALLOW, Verdict


def check_to_run(command: str, ident: str, *, cwd: str | None = None) -> Verdict:
    """`check` for a program that runs the command at once when it is allowed, where no hook sees it.

    A clock lock that a person has granted is written down under `ident`, so that the end of the claim gives it back.

    Raises:
        InputUnusable, HumanNeeded: see `check`. OSError: the lock could not be written down, so it must not be made.
    """
    verdict = check(command, cwd=cwd)
    locks = [h.facts for h in verdict.granted if h.rule == "gpu.clock_lock"]
    if verdict.verdict == ALLOW and locks:
        from infer_forge.base import clocks

        for number, facts in enumerate(locks):
            clocks.append("allowed", id=ident if not number else f"{ident}.{number}", **facts)
    return verdict


def check(command: str, context: Context | Mapping[str, Any] | None = None, *, cwd: str | None = None) -> Verdict:
    """Decide on a shell command without running anything.

    Args:
        command: the text as a shell would get it.
        context: a `Context`, or a mapping of the shape that `--context` takes; by default what the ownership file proves.
        cwd: the folder in which it would run.

    Raises:
        InputUnusable: the context or a guard.yaml is wrong.
        HumanNeeded: a changed guard.yaml loosens the compiled policy.
    """
    if context is None:
        ctx = from_ownership(cwd)
    elif isinstance(context, Context):
        ctx = context
    else:
        ctx = from_dict(context)
    if cwd:
        ctx.cwd = cwd
    return check_with(command, ctx, policy.current(cwd))
