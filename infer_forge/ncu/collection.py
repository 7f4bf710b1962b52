"""How to collect: the `ncu` command for a question, with the traps of serving processes taken care of."""

from __future__ import annotations

from infer_forge.base.errors import UsageFault
from infer_forge.base.records import Header, Report
from infer_forge.base.tables import Column, Table
from infer_forge.ncu import policy
from infer_forge.ncu.commands import PLACEHOLDER, collect_command, kernel_filter, pattern_of

PURPOSES = ("sota", "quick", "source")
_WHAT = {
    "sota": "everything that a digest and a comparison use: bottleneck, stalls, memory tables, occupancy, roofline",
    "quick": "class, occupancy and launch shape in few passes",
    "source": "the same as sota, plus the hot lines and SASS instructions",
}


def plan(
    kernel: str | None = None,
    *,
    purpose: str = "sota",
    skip: int = 0,
    count: int = 5,
    output: str | None = None,
    program: str | None = None,
    nvtx_range: str | None = None,
    graph: bool = False,
) -> Report:
    """The command that answers a question about a kernel, and what must be true before it is run.

    JSON keys: `command`, `export_command` (the CSV for machines without the extra), `digest_command`, `checks`.

    Args:
        kernel: regular expression on the base name; None profiles every kernel but collectives.
        purpose: `sota`, `quick` or `source`.
        skip, count: launches to pass over (warm-up) and to profile; a ratio needs at least 3.
        program: the command to profile, as one shell string; a placeholder when None.
        nvtx_range: profile only inside this NVTX range. graph: the kernel runs inside a CUDA graph.

    Raises:
        UsageFault: an unknown purpose, a kernel that is no regular expression, or numbers out of range.
    """
    if purpose not in PURPOSES:
        raise UsageFault(f"unknown purpose {purpose!r}", next_step=f"use one of {', '.join(PURPOSES)}")
    if skip < 0 or count < 1:
        raise UsageFault(
            "launches to skip must be 0 or more, launches to profile 1 or more", next_step="--launch-count 5"
        )
    pattern_of(kernel)
    name = output or f"kernel-{purpose}"
    more: list[str] = []
    if purpose == "source":
        more += ["--import-source", "yes"]
    if graph:
        more += ["--graph-profiling", "node"]
    if nvtx_range:
        more += ["--nvtx", "--nvtx-include", nvtx_range]
    quick: list[str] = policy.data()["sections"]["quick"] if purpose == "quick" else []
    command = collect_command(
        kernel,
        sections=quick,
        metric_set=None if quick else "full",
        skip=skip,
        count=count,
        output=name,
        program=program,
        more=more,
    )
    report = Report("ncu-plan", Header(more={"purpose": purpose}))
    checks = _checks(kernel, purpose, skip, count, program)
    report.add(Table("checks", [Column("check", "text"), Column("why", "text")], checks))
    report.summary = [f"for: {_WHAT[purpose]}", f"command: {command}"]
    report.extra = {
        "command": command,
        "export_command": f"ncu --import {name}.ncu-rep --csv --page raw > {name}.csv",
        "digest_command": f"infer-forge ncu digest {name}.ncu-rep",
        "checks": [row[0] for row in checks],
    }
    report.next_step = f"{command} > {name}.log 2>&1; then infer-forge ncu digest {name}.ncu-rep, or infer-forge ncu check-log {name}.log"
    return report


def _checks(kernel: str | None, purpose: str, skip: int, count: int, program: str | None) -> list[list[str]]:
    rows = [
        ["counters are permitted", "ERR_NVGPUCTRPERM otherwise: a person with rights on the host must allow it"],
        ["no DCGM profiling, no other profiler on this GPU", "the counters have one owner at a time"],
        ["the GPU is yours alone and idle", "ncu replays each kernel in 10 to 50 passes and fixes clocks"],
        [
            "one process, tensor parallel 1, or a harness of the kernel",
            f"under kernel replay a collective waits for peers that do not come; the filter is {kernel_filter(kernel)}",
        ],
        ["--target-processes all stands in it", "serving engines run kernels in child processes"],
        [
            "clock control base and cache control all, the same for baseline and candidate",
            "other clocks or warm caches make two reports incomparable",
        ],
        ["shapes, dtype and layout come from the model run", "a kernel at other shapes has another bottleneck"],
    ]
    if skip == 0:
        rows.append(
            [
                "--launch-skip passes the warm-up",
                "the first launch pays for loading and autotuning; count launches in a trace",
            ]
        )
    if count < policy.limit("min_launches"):
        rows.append(["--launch-count of at least 3", "a ratio needs 3 launches a side"])
    if purpose == "source":
        rows.append(
            [
                "the kernel is compiled with -lineinfo",
                "without it only SASS instructions are named (Triton has line info by itself)",
            ]
        )
    if program is None:
        rows.append([f"{PLACEHOLDER} is replaced", "by the harness, or by a short offline run of the model"])
    return rows
