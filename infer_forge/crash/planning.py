"""The verb `plan`: the next runs, one question each, from what is known."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infer_forge.base.records import Header, Report
from infer_forge.base.tables import Column, Table
from infer_forge.crash import signatures
from infer_forge.crash.model import Context

_EAGER = {"vllm": "--enforce-eager", "sglang": "--disable-cuda-graph"}
_ONE_RANK = {"vllm": "--tensor-parallel-size 1", "sglang": "--tp 1"}
HANGS = ("nccl_timeout", "nccl_desync", "watchdog_hang", "oom_absurd")
_Row = tuple[str, str, str, dict[str, str], str, str]


def plan_runs(paths: Sequence[str | Path] = (), *, context: Context | None = None) -> Report:
    """Plan the next runs: each with its command, environment, the answer that each outcome gives, and when to stop.

    Args:
        paths: what is known so far (triaged first); none: nothing is known but that it crashes.
        context: engine and command word the commands.

    Returns:
        Report with table `runs`, keys `class`, `certainty`, `runs`, `stop`.

    Raises:
        InputUnusable: a path cannot be used.
    """
    stated = context or Context()
    known: dict[str, Any] = {"class": None, "certainty": "unknown", "cuda_crash": None, "hardware": None}
    header = Header()
    if paths:
        from infer_forge.crash.triaging import triage

        before = triage(paths, context=stated)
        known, header = before.extra, before.header
    command = stated.command or "COMMAND"
    eager = _EAGER.get(stated.engine or "", "--disable-cuda-graph")
    rows = _rows(known, command, eager, stated)
    report = Report("crash-plan", header)
    columns = [Column("run", "int"), "question", "command", "environment", "if_it_crashes", "if_it_does_not"]
    report.add(
        Table(
            "runs",
            columns,
            [
                (i, q, c, " ".join(f"{k}={shlex.quote(v)}" for k, v in e.items()), yes, no)
                for i, (_, q, c, e, yes, no) in enumerate(rows, 1)
            ],
            "Runs, one question each",
        )
    )
    stop = _stop(known)
    report.extra = {
        "class": known["class"],
        "certainty": known["certainty"],
        "stop": stop,
        "runs": [
            {"id": i, "question": q, "command": c, "env": e, "if_it_crashes": yes, "if_it_does_not": no}
            for i, q, c, e, yes, no in rows
        ],
    }
    report.summary = [f"known: {known['class'] or 'nothing yet'} ({known['certainty']})", stop]
    report.next_step = rows[0][2] if rows else _next_command(known, stop)
    return report


def _next_command(known: dict[str, Any], otherwise: str) -> str:
    step: Any = known.get("next")
    return str(step["command"]) if step else otherwise


def _stop(known: dict[str, Any]) -> str:
    if known.get("hardware"):
        return "hardware or driver: no run of the program tells more"
    if known["certainty"] == "proven":
        return "the cause is named: no further run, mend it and verify the fix"
    if known["cuda_crash"] is False and known["class"] not in (
        "nccl_timeout",
        "nccl_desync",
        "watchdog_hang",
        "oom_absurd",
    ):
        return "no CUDA crash: no debug run of this kind helps"
    return "stop at the first run whose record names a kernel or a rank"


def _rows(known: dict[str, Any], command: str, eager: str, context: Context) -> list[_Row]:
    if known.get("hardware"):
        return []
    words = {
        "command": command,
        "eager": eager,
        "one": _ONE_RANK.get(context.engine or "", "--tp 1"),
        "quoted": shlex.quote(command),
    }
    if known["certainty"] == "proven":
        return _filled("proven", words) if known["cuda_crash"] else []
    if known["class"] in HANGS:
        return _filled("hang", words)
    if known["cuda_crash"] is False:
        return []
    rows = _filled("crash", words)
    if known["certainty"] == "bounded" and known.get("api"):
        words["name"] = shlex.quote(f"*{str(known['api']).rsplit('.', 1)[-1]}*")
        rows = [*_filled("bounded", words), *(r for r in rows if r[0] != "call")]
    made = {"eager"} if context.graphs is False else set[str]()
    made |= {"launch"} if context.launch_blocking else set()
    made |= {"memory"} if context.caching_allocator is False else set()
    made |= {"one_rank"} if context.world == 1 else set()
    return [r for r in rows if r[0] not in made]


def _filled(plan: str, words: dict[str, str]) -> list[_Row]:
    """The runs of a plan of the data file, from the cheapest that tells most to the most intrusive."""
    rows: list[_Row] = []
    for run in signatures.data()["plans"][plan]:
        level = str(run.get("level", 1))
        env = signatures.environment(run["env"], level=level, flashinfer_level=level) if run.get("env") else {}
        command = re.sub(r"\{(\w+)\}", lambda m: words.get(m.group(1), m.group(0)), run["command"])
        rows.append((run["id"], run["question"], command, env, run["if_it_crashes"], run["if_it_does_not"]))
    return rows
