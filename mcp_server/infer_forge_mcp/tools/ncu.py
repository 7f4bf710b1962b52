"""Tools of the ncu room: digest of a report, comparison of two, how to collect."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from infer_forge.base.records import Report
from infer_forge_mcp.results import ForgeResult, capped, keep_artifact
from infer_forge_mcp.toolkit import Answer, tool

Path = Annotated[str, Field(description=".ncu-rep, .ncu-repz, ncu --csv or text page.")]
Kernel = Annotated[str | None, Field(description="Regex on its name; default: most time.")]
Launch = Annotated[
    int | None, Field(ge=0, description="Only the launch at this place in the report, from 0. Default: all launches.")
]


def _small(report: Report) -> ForgeResult:
    """The compact answer, and the whole report as an artifact."""
    from infer_forge.ncu.compact import compact

    whole = report.to_json()
    result = capped(compact(whole))
    result.artifact = keep_artifact(whole)
    return result


@tool(toolset="ncu", default=True, read_only=True, further=("launch", "source", "triage"))
def digest_ncu_report(
    report: Path,
    kernel: Kernel = None,
    launch: Launch = None,
    source: Annotated[bool, Field(description="Add stalled source lines; needs .ncu-rep.")] = False,
    triage: Annotated[
        str | None,
        Field(
            description="Path of a stored triage report (JSON): launches, gaps and synchronisation of a small kernel."
        ),
    ] = None,
) -> Answer:
    """Use it on an Nsight Compute report to get a kernel's class and exactly one next edit. Also the saturated unit,
    flags with thresholds and the metric that must move. Says what was not collected instead of guessing; the edit
    is then one collect command. No end-to-end claim follows from it."""
    from infer_forge.ncu import digest

    return _small(digest([report], kernel=kernel, launch=launch, source=source, triage=triage))


@tool(toolset="ncu", read_only=True)
def compare_ncu_reports(
    baseline: Path,
    candidate: Path,
    kernel: Kernel = None,
    baseline_kernel: Annotated[
        str | None, Field(description="Regular expression for the baseline, when its kernel has another name.")
    ] = None,
    launch: Launch = None,
) -> Answer:
    """Use it after an edit to a kernel, with a report from before and one from after: comparability gate, deltas with
    direction and significance, verdict improved, regressed, same or not_comparable, and where the bottleneck moved. A ratio
    needs 3 launches a side."""
    from infer_forge.ncu import compare

    return _small(compare(baseline, candidate, kernel=kernel, baseline_kernel=baseline_kernel, launch=launch))


@tool(toolset="ncu", read_only=True)
def plan_ncu_collection(
    kernel: Annotated[
        str | None, Field(description="Regular expression on the kernel's base name. Default: all but collectives.")
    ] = None,
    purpose: Annotated[
        Literal["sota", "quick", "source"],
        Field(
            description="sota: everything a digest and a comparison use (default); quick: class only; source: hot lines."
        ),
    ] = "sota",
    program: Annotated[
        str | None, Field(description="Command to profile, as one shell string. Default: a placeholder.")
    ] = None,
    launch_skip: Annotated[int, Field(ge=0, description="Launches to pass over, 0 or more; 0 by default.")] = 0,
    launch_count: Annotated[int, Field(ge=1, le=1000, description="Launches to profile, 1 to 1000; 5 by default.")] = 5,
    graph: Annotated[bool, Field(description="The kernel runs inside a CUDA graph. False by default.")] = False,
    failed_log: Annotated[
        str | None,
        Field(description="Path of the output of a failed ncu run: the answer is its cause and remedy instead."),
    ] = None,
) -> Answer:
    """Use it before profiling a kernel with Nsight Compute, or when ncu failed: the exact ncu command with clock and cache
    control and what must be true first, or the cause of a failed run with its remedy. It runs nothing."""
    from infer_forge.ncu import check_log, plan

    if failed_log is not None:
        return check_log(failed_log)
    return plan(kernel, purpose=purpose, program=program, skip=launch_skip, count=launch_count, graph=graph)
