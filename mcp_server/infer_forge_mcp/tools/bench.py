"""Tools of the bench and kernel_task rooms: rows, checks, the gap decision, the audit against reward hacking."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from infer_forge.base.errors import UsageFault
from infer_forge_mcp.results import capped, keep_artifact
from infer_forge_mcp.toolkit import Answer, tool

Files = Annotated[list[str], Field(min_length=1, description="Result files, folders or row ledgers.")]
Tool = Annotated[str, Field(description="Which tool wrote the files; auto (the default) finds it by the keys.")]
Contract = Annotated[str | None, Field(description="The locked contract.")]
Limit = Annotated[int, Field(ge=1, le=1000, description="Rows, 1 to 1000; default 40.")]
Cursor = Annotated[str | None, Field(description="next_cursor to go on.")]


@tool(toolset="bench", read_only=True, paged="rows")
def import_results(files: Files, tool_name: Tool = "auto", limit: Limit = 40, cursor: Cursor = None) -> Answer:  # noqa: ARG001
    """Use it when you hold benchmark result files and need their figures in one form: SGLang, vLLM, TensorRT-LLM, TokenSpeed,
    aiperf, genai-perf, SGLang diffusion dumps. One row a run, units in the names, null where nothing was measured. A file
    that is no result is refused with what it is. Check the rows with check_results before you compare."""
    from infer_forge.bench import import_report

    whole = import_report(files, tool_name).to_json()
    artifact = keep_artifact(whole)
    whole.pop("rows", None)
    result = capped(whole)
    result.artifact = artifact
    return result


@tool(toolset="bench", read_only=True, default=True, paged="findings", further=("tool_name", "limit"))
def check_results(
    files: Files,
    contract: Contract = None,
    tool_name: Tool = "auto",
    limit: Limit = 40,  # noqa: ARG001
    cursor: Cursor = None,  # noqa: ARG001
) -> Answer:
    """Use it before you trust or compare benchmark rows: impossible ones are refused or marked. TTFT 0, nothing
    completed, tokens off the label, percentiles that fall, profiler on, foreign GPU work, pretended acceptance:
    with rule id, evidence and fix. verdict is pass, fail or unknown; a refused row never ranks and never decides."""
    from infer_forge.bench import check_report, read_rows
    from infer_forge.bench.contracts_in import locked

    got = read_rows(files, tool_name)
    report = check_report(got.rows, *locked(contract))
    report.header.inputs = got.files
    return report


@tool(toolset="bench", read_only=True, default=True, further=("metric", "sla", "scenario_key", "threshold_pct"))
def decide_gap(
    target: Annotated[str, Field(description="Key of sides that is judged.")],
    sides: Annotated[
        dict[str, list[str]],
        Field(
            min_length=2,
            description="Name -> result files, folders or ledgers. Empty list: the contract's rows.",
        ),
    ],
    contract: Contract = None,
    metric: Annotated[str | None, Field(description="Default: the contract's, or output_token_throughput.")] = None,
    threshold_pct: Annotated[
        float | None,
        Field(gt=0, le=50, description="Noise threshold in percent, above 0 to 50; 1 by default, or the contract's."),
    ] = None,
    sla: Annotated[
        str | None, Field(description="Limits such as max_p50_ttft_ms=200,min_success_rate=1. Default: none.")
    ] = None,
    scenario_key: Annotated[
        str | None, Field(description="Row field that names the scenario. Default: load and lengths.")
    ] = None,
) -> Answer:
    """Use it to learn whether one engine is behind another: a verdict a scenario from paired launches. Verdicts:
    behind, ahead, tie, not_behind, inconclusive, sla_fail, void_*, insufficient; at fixed looks of 5, 8 and 12,
    with interval, reason, runs missing. Without a locked contract nothing may be built on it, and it says so."""
    from infer_forge.bench import read_rows
    from infer_forge.bench.contracts_in import locked
    from infer_forge.bench.gap import request_of, run_gap

    if target not in sides:
        raise UsageFault(f"the target {target!r} is none of the sides", next_step="name it as a key of sides")
    hold, hash_ = locked(contract)
    if contract is not None and not any(sides.values()):
        from infer_forge.base.records import InputFile
        from infer_forge.bench.importing import ledger_sides

        ledger = Path(contract).parent / "candidates.jsonl"
        rows = ledger_sides(ledger, target, [name for name in sides if name != target], hash_)
        inputs = [InputFile.of(ledger)]
    else:
        got = {name: read_rows(paths) for name, paths in {target: sides[target], **sides}.items()}
        rows = {name: one.rows for name, one in got.items()}
        inputs = [file for one in got.values() for file in one.files]
    request = request_of(
        rows, target, hold, hash_, metric=metric, threshold_pct=threshold_pct, sla=sla, scenario_key=scenario_key
    )
    request.inputs = inputs
    return run_gap(request)


@tool(toolset="bench", read_only=True, paged="findings")
def audit_evidence(
    folder: Annotated[str, Field(description="Folder of a kernel task (task.json) or of a benchmark run.")],
    limit: Limit = 40,  # noqa: ARG001
    cursor: Cursor = None,  # noqa: ARG001
) -> Answer:
    """Use it before you believe a kernel speed-up or a serving result: changed workload or harness, dropped shapes, one-sided
    flags, caches, poisoned outputs, times below the physical limit, edited files, a kernel gain sold as end to end. verdict
    is clean, suspect or void; every finding has a rule id and the fix."""
    from infer_forge.kernel_task import audit

    return audit(folder)
