"""The verb `plan`: the next runs, one question each, from what is known."""

from __future__ import annotations

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
    report.next_step = rows[0][2] if rows else str((known.get("next") or {}).get("command", stop))
    return report


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
    if known["certainty"] == "proven":
        return (
            [
                (
                    "verify",
                    "does the fix hold?",
                    f"infer-forge crash verify --repro {shlex.quote(command)} --runs 10 --crashed 1 --of 1",
                    {},
                    "the fix does not hold",
                    "the report states how likely luck is",
                )
            ]
            if known["cuda_crash"]
            else []
        )
    if known["class"] in ("nccl_timeout", "nccl_desync", "watchdog_hang", "oom_absurd"):
        return _hang(command)
    if known["cuda_crash"] is False:
        return []
    return _crash(known, command, eager, context)


def _hang(command: str) -> list[_Row]:
    return [
        ("hang", "which rank is missing from which collective?", f"infer-forge crash record --for hang -- {command}", signatures.environment("hang"), "triage the folder: the flight recorder names sequence and rank", "raise the load or the run time; a hang that comes seldom needs the same run again"),
        ("pyspy", "where does each rank stand?", "for p in PIDS; do py-spy dump --pid $p > stack_$p.txt; done", {}, "the odd one out among the stacks is the suspect", "all stand in one place: a kernel or the network hangs, not Python"),
        ("gpucore", "which kernel does each GPU run?", "dd if=/dev/zero bs=1M count=1 > crash-evidence/cuda_pipe_HOST.PID", {}, "a dump without exception shows the kernel that never ends", "the pipe was not made: start again with --for hang"),
    ]  # fmt: skip


def _crash(known: dict[str, Any], command: str, eager: str, context: Context) -> list[_Row]:
    """From the cheapest run that names the kernel to the most intrusive; a run that was made is left out."""
    record = "infer-forge crash record"
    one = _ONE_RANK.get(context.engine or "", "--tp 1")
    rows: list[_Row] = [
        ("kernel", "which kernel faults?", f"{record} --for kernel -- {command}", signatures.environment("coredump"), "the dump names the kernel: stop here", "timing changed: inconclusive, run it again"),
        ("eager", "does it need CUDA graphs?", f"{record} --for kernel -- {command} {eager}", signatures.environment("coredump"), "no: graphs are innocent, go on eager", "padding, capture-time addresses or freed buffers of the graph are the suspects"),
        ("launch", "at which launch does it surface?", f"{record} --for launch -- {command} {eager}", signatures.environment("launch"), "the stack is true in this run", "blocking changed the timing: inconclusive, no proof of a race"),
        ("call", "between which calls?", f"{record} --for call --level 5 --include 'NAMES' -- {command} {eager}", signatures.environment("call", level="5", flashinfer_level="5"), "the first unreadable input or output bounds it", "the fault lies outside the logged functions"),
        ("memory", "does the caching allocator hide an access?", f"{record} --for memory -- compute-sanitizer --tool memcheck --target-processes all {command} {eager}", signatures.environment("memory"), "the first record names kernel, thread and address", "zero errors with caching off: look at races (racecheck) and uninitialised memory (initcheck)"),
        ("one_rank", "does it need several ranks?", f"{record} --for kernel -- {command} {one}", signatures.environment("coredump"), "no: debug it on one rank", "peer memory, collectives or the sharded shapes are the suspects"),
    ]  # fmt: skip
    made = {"eager"} if context.graphs is False else set[str]()
    if context.launch_blocking:
        made.add("launch")
    if context.caching_allocator is False:
        made.add("memory")
    if context.world == 1:
        made.add("one_rank")
    if known["certainty"] == "bounded" and known.get("api"):
        rows[3] = (
            "call",
            "with which inputs?",
            f"{record} --for call --level 10 --include {shlex.quote('*' + str(known['api']).rsplit('.', 1)[-1] + '*')} -- {command} {eager}",
            signatures.environment("call", level="10", flashinfer_level="10"),
            "replay the saved call alone: infer-forge crash replay DUMP MODULE:FUNCTION",
            "the inputs were sound: state outside the call matters",
        )
        rows.insert(0, rows.pop(3))
    return [r for r in rows if r[0] not in made]
