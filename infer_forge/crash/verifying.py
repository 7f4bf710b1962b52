"""The verb `verify`: how likely is it that a fix only looks like one?

With a crash rate p before, N passes after a change that changed nothing have probability (1 - p)^N. The rate itself is
known from K crashes in M runs only, so the figure is also given for the lower 95 % bound of p (Clopper and Pearson, 1934).
"""

from __future__ import annotations

import math
import os
import shlex
import time
from pathlib import Path
from typing import Any

from infer_forge.base.errors import ForgeError, GateRefused, UsageFault
from infer_forge.base.paths import paths
from infer_forge.base.records import Header, Report
from infer_forge.base.tables import Column, Table

LUCK = 0.05
VERDICTS = ("verified", "not_enough_runs", "still_crashes", "not_reproduced")


def luck(rate: float, runs: int) -> float:
    """Probability that `runs` runs pass though nothing changed."""
    return (1.0 - rate) ** runs


def lower_bound(crashed: int, of: int, confidence: float = 0.95) -> float:
    """One-sided lower bound of a rate after `crashed` of `of` (exact binomial): the p with P(X >= crashed | p) = 1 - confidence."""
    if crashed == 0:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(100):
        mid = (low + high) / 2
        tail = sum(math.comb(of, i) * mid**i * (1 - mid) ** (of - i) for i in range(crashed, of + 1))
        if tail < 1 - confidence:
            low = mid
        else:
            high = mid
    return low


def runs_needed(rate: float, target: float = LUCK) -> int | None:
    """Passes after which luck is at most `target`; None at rate 0."""
    if rate <= 0:
        return None
    return 1 if rate >= 1 else math.ceil(math.log(target) / math.log(1 - rate) - 1e-12)


def verify(
    repro: str, *, runs: int, crashed: int, of: int, timeout_s: float = 600.0, shell_cwd: Path | None = None
) -> Report:
    """Run a reproduction several times after a fix and state the probability of luck.

    Args:
        repro: the command, the same that crashed before. runs: how often. crashed, of: before the fix.

    Returns:
        Report with `verdict` (`VERDICTS`), `luck`, `luck_at_lower_bound`, `runs_needed`.

    Raises:
        GateRefused: it never crashed before: passes prove nothing. UsageFault: counts that cannot be.
    """
    if not 0 <= crashed <= of or of < 1 or runs < 1:
        raise UsageFault(
            f"{crashed} of {of} before and {runs} runs cannot be",
            next_step="--crashed K --of M with K at most M, --runs at least 1",
        )
    if of > 100_000:
        raise UsageFault("more than 100,000 runs before", next_step="give a smaller sample")
    if crashed == 0:
        raise GateRefused(
            "the reproduction never crashed before the fix: passing now proves nothing",
            next_step="make it crash first, at least once, without the fix",
        )
    words = shlex.split(repro)
    if not words:
        raise UsageFault("no command to run")
    folder = paths().runs / "crash-verify" / f"{int(time.time())}-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[Any, ...]] = []
    for number in range(1, runs + 1):
        rows.append(_once(words, folder / f"run{number:04d}.log", timeout_s, number, shell_cwd))
        if rows[-1][1] != "pass":
            break  # one crash answers it
    return _judged(repro, rows, runs, crashed, of, folder)


def _once(words: list[str], log: Path, timeout_s: float, number: int, cwd: Path | None) -> tuple[Any, ...]:
    from infer_forge.engines import runner

    begin = time.monotonic()
    where = runner.place("local")
    done = where.run(words, timeout_s=timeout_s, cwd=str(cwd) if cwd else None)
    log.write_text(done.out + done.err, encoding="utf-8", errors="replace")
    state = "hang" if done.timed_out else "pass" if done.code == 0 else "crash"
    cls = None
    if state != "pass":
        from infer_forge.crash.triaging import triage

        try:
            cls = str(triage([log]).extra["class"])
        except ForgeError:
            cls = None
    return (number, state, done.code, round(time.monotonic() - begin, 3), cls, str(log))


def _judged(repro: str, rows: list[tuple[Any, ...]], runs: int, crashed: int, of: int, folder: Path) -> Report:
    passed = sum(r[1] == "pass" for r in rows)
    rate = crashed / of
    bound = lower_bound(crashed, of)
    chance, careful = luck(rate, passed), luck(bound, passed)
    failed = next((r for r in rows if r[1] != "pass"), None)
    verdict = "still_crashes" if failed is not None else "verified" if chance <= LUCK else "not_enough_runs"
    needed = runs_needed(rate)
    report = Report("crash-verify", Header(thresholds={"luck": LUCK}))
    report.add(
        Table(
            "runs",
            [
                Column("run", "int"),
                "state",
                Column("exit", "number"),
                Column("seconds", "s"),
                Column("class", "text"),
                "log",
            ],
            rows,
            "Runs",
        )
    )
    report.extra = {
        "verdict": verdict,
        "repro": repro,
        "passed": passed,
        "runs": runs,
        "rate_before": rate,
        "rate_lower_bound": bound,
        "luck": chance,
        "luck_at_lower_bound": careful,
        "runs_needed": needed,
        "runs_needed_at_lower_bound": runs_needed(bound),
        "folder": str(folder),
    }
    if failed is not None:
        report.summary = [f"still_crashes: run {failed[0]} ended as {failed[1]} (exit {failed[2]}), class {failed[4]}"]
        report.next_step = f"infer-forge crash triage {shlex.quote(str(failed[5]))}"
        return report
    report.summary = [
        f"{verdict}: {passed} passes; before, {crashed} of {of} crashed ({rate:.0%})",
        (
            f"were nothing mended, so many passes would come by luck with probability "
            f"{chance:.2%} (at the rate's lower 95 % bound {bound:.1%}: {careful:.2%})"
        ),
    ]
    report.next_step = (
        "the fix holds by this reproduction; keep it as a test"
        if verdict == "verified"
        else f"run it {needed} times (at the lower bound {runs_needed(bound)})"
    )
    return report
