"""Tools of the campaign room: begin, status, next step, checks, records, reports. Plans and prompts: `campaign_loop`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from infer_forge_mcp.toolkit import Answer, tool

Run = Annotated[
    str | None,
    Field(
        description="Default: INFER_FORGE_RUN, or this folder.",
        max_length=4096,
    ),
]
Limit = Annotated[int | None, Field(ge=1, le=200, description="Rows at the most, 1 to 200. Default: what fits.")]
Names = Annotated[list[str] | None, Field(description="Framework names. Default: none.")]


@tool(toolset="campaign", read_only=False)
def init_campaign(
    target_checkout: Annotated[
        str, Field(description="The SGLang git checkout that will be patched.", max_length=4096)
    ],
    root: Annotated[
        str, Field(description="Artifact root outside of the checkout; the run lies in its runs/.", max_length=4096)
    ],
    model: Annotated[str | None, Field(description="Model id or path. Default: from the configuration.")] = None,
    config: Annotated[str | None, Field(description="Search configuration (YAML). Default: none.")] = None,
    values: Annotated[
        dict[str, Any] | None,
        Field(
            description="What the user said: gpu_model, gpu_count, gpu_ids, precision, quantization, tokenizer. Default: inferred."
        ),
    ] = None,
    compare: Annotated[
        list[str] | None, Field(description="Compare with exactly these. Default: every installed one.")
    ] = None,
    exclude: Names = None,
    mode: Annotated[Literal["rlcr", "goal", "loop"], Field(description="Who keeps the loop. Default: goal.")] = "goal",
    executor: Annotated[str | None, Field(description="Who executes. Default: not named.")] = None,
    reviewer: Annotated[str | None, Field(description="Who reviews, never the executor. Default: not named.")] = None,
) -> Answer:
    """Use it to begin a campaign that makes SGLang meet or beat the best competitor on one model and machine. Makes the run
    directory, infers inputs with their origin; `missing` lists the only things to ask a person. Again it answers what stands."""
    from infer_forge.campaign import init

    given = {"model": model, **(values or {})}
    place = Path(config) if config else None
    return init(
        given, checkout=Path(target_checkout), root=Path(root), config=place, compare=compare or (), exclude=exclude or (), mode=mode,
        executor=executor, reviewer=reviewer,
    )  # fmt: skip


@tool(toolset="campaign", default=True, read_only=True)
def read_campaign_status(run: Run = None) -> Answer:
    """Use it first after a crash or in a new chat: where the campaign stands. The best candidate, failed directions,
    the last NCU result, whether the benchmark is still the locked one, when to stop, and the next step."""
    from infer_forge.campaign import open_campaign, status_report

    return status_report(open_campaign(run))


@tool(toolset="campaign", default=True, read_only=True)
def read_next_step(run: Run = None) -> Answer:
    """Use it whenever a step of a campaign is done: exactly one next step, with its command."""
    from infer_forge.campaign import next_report, open_campaign

    return next_report(open_campaign(run))


@tool(toolset="campaign", read_only=True, paged="checks")
def check_campaign(
    run: Run = None,
    phase: Annotated[
        Literal["init", "history", "contract", "baseline", "plan", "round", "patch", "result", "final"] | None,
        Field(description="Only the gates of this phase. Default: all."),
    ] = None,
    limit: Limit = None,  # noqa: ARG001 - the cap pages
    cursor: Annotated[str | None, Field(description="next_cursor to go on.")] = None,  # noqa: ARG001
) -> Answer:
    """Use it to see every gate of a campaign: rule id, pass, fail, unknown or n/a, the evidence, and the fix. A person or an
    agent that wants to stop or to open a round looks here first."""
    from infer_forge.campaign import check_report, open_campaign

    return check_report(open_campaign(run), (phase,) if phase else ())


@tool(toolset="campaign", default=True, read_only=False, idempotent=False)
def record_campaign(
    kind: Annotated[
        str,
        Field(
            description="inputs, companions, history, pr_check, ceiling, plan, round_open, gap, profile, idea, dismissal, ncu, attempt, "
            "accuracy, soak, mechanism, result, blocker, command, kernel_task, kernel_result, kernel_promotion, cleanup, "
            "round_close, stop, lock_contract, lock_baseline, review.",
            max_length=40,
        ),
    ],
    data: Annotated[dict[str, Any] | None, Field(description="Its fields; a wrong one is told.")] = None,
    run: Run = None,
) -> Answer:
    """Use it to record each step of a campaign as it happens. Figures, hashes and verdicts are computed from the files named.
    Refused, with what is missing, when a gate before it does not hold."""
    from infer_forge.campaign.doors import record_any

    return record_any(run, kind, data or {})


@tool(toolset="campaign", read_only=False)
def write_report(
    kind: Annotated[
        Literal["fairness", "root-cause", "layer-pipeline", "final", "all"],
        Field(description="Which report; all renews the views."),
    ],
    run: Run = None,
    code: Annotated[
        str | None, Field(description="With final: A150, A151, A152, A153 or blocked. Default: none.")
    ] = None,
    evidence: Annotated[
        list[str] | None, Field(description="With final: ids of records that show it. Default: none.")
    ] = None,
    stage: Annotated[str | None, Field(description="prefill or decode. Default: the one that loses the most.")] = None,
) -> Answer:
    """Use it to generate a campaign's report from its records: fairness, root cause (two traces compared), layer pipeline, final.
    Write your own words around the generated part, never into it."""
    from infer_forge.campaign import open_campaign
    from infer_forge.campaign import write_report as library

    return library(open_campaign(run), kind, code=code, evidence=evidence or (), stage=stage)[1]
