"""Exact `ncu` command lines, with shell quoting."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from infer_forge.base.errors import UsageFault
from infer_forge.ncu.model import Launch, Session
from infer_forge.ncu.session import program_of

PLACEHOLDER = "YOUR_COMMAND"
NO_COLLECTIVES = "^(?!.*nccl)"


def kernel_filter(kernel: str | None) -> str:
    """ncu's `--kernel-name` value: the named kernel, or everything but collectives."""
    return f"regex:{kernel.removeprefix('regex:')}" if kernel else f"regex:{NO_COLLECTIVES}"


def pattern_of(kernel: str | None) -> re.Pattern[str] | None:
    """What `--kernel` asks for; None for every kernel.

    Raises:
        UsageFault: it is no regular expression.
    """
    if not kernel:
        return None
    try:
        return re.compile(kernel.removeprefix("regex:"))
    except re.error as exc:
        raise UsageFault(
            f"--kernel is no regular expression ({exc})", next_step="escape brackets: gemm\\(.*float"
        ) from None


def exact(name: str) -> str:
    """A regex that finds exactly this base name."""
    return f"^{re.escape(name)}$"


def collect_command(
    kernel: str | None,
    *,
    sections: Sequence[str] = (),
    metric_set: str | None = None,
    skip: int = 0,
    count: int = 5,
    output: str = "kernel-candidate",
    program: str | None = None,
    session: Session | None = None,
    more: Sequence[str] = (),
) -> str:
    """The command that collects what a digest needs; clock, cache and replay control as in `session`, else ncu's defaults."""
    clock = (session.clock_control if session else None) or "base"
    cache = (session.cache_control if session else None) or "all"
    replay = (session.replay_mode if session else None) or "kernel"
    words = ["ncu", "--target-processes", "all", "--kernel-name", kernel_filter(kernel)]
    if skip:
        words += ["--launch-skip", str(skip)]
    words += ["--launch-count", str(count), "--clock-control", clock, "--cache-control", cache, "--replay-mode", replay]
    if metric_set:
        words += ["--set", metric_set]
    for section in sections:
        words += ["--section", section]
    words += [*more, "-o", output]
    tail = program or program_of(session.command if session else None) or PLACEHOLDER
    return f"{shlex.join(words)} {tail}"


def verify_command(launch: Launch, session: Session, baseline: str) -> str:
    """Collect the candidate as the baseline was, then compare."""
    chosen = _same_metrics(session)
    collect = collect_command(
        exact(launch.kernel),
        sections=chosen[1],
        metric_set=chosen[0],
        output="kernel-candidate",
        session=session,
        count=5,
    )
    compare = shlex.join(["infer-forge", "ncu", "digest", "kernel-candidate.ncu-rep", "--baseline", baseline])
    return f"{collect} && {compare} --kernel {shlex.quote(exact(launch.kernel))}"


def _same_metrics(session: Session) -> tuple[str | None, list[str]]:
    """Set and sections of the baseline's command, so that the two reports can be compared."""
    stated = [p.partition("=") for p in (session.metric_set or "").split(", ") if "=" in p]
    sets = [v for n, _, v in stated if n == "set"]
    sections = [v for n, _, v in stated if n == "section"]
    if session.metric_set == "default":
        return None, []
    return (sets[0] if sets else None if sections else "full"), sections
