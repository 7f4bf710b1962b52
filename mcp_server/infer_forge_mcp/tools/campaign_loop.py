"""Tools of the campaign's loop: the refined plan and the prompts, from the locked contract."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from infer_forge_mcp.toolkit import Answer, tool

Run = Annotated[
    str | None,
    Field(
        description="Run directory of the campaign. Default: INFER_FORGE_RUN, or the one in the server's folder.",
        max_length=4096,
    ),
]
Focus = Annotated[
    list[str] | None, Field(description="What the work should look at first, a few words each. Default: nothing.")
]
Requirements = Annotated[
    list[str] | None, Field(description="What must hold besides, a sentence each. Default: nothing.")
]
Adopt = Annotated[
    str | None,
    Field(
        description="Plan of Humanize's gen-plan, taken once the linter passes it. Default: none, the template.",
        max_length=4096,
    ),
]


@tool(toolset="campaign", read_only=False)
def write_plan(run: Run = None, adopt: Adopt = None, focus: Focus = None, requirements: Requirements = None) -> Answer:
    """Use it after the baseline is locked, to write the loop's refined plan into the checkout, complete by the plan linter and
    accepted by Humanize's input rules. `verdict` is pass or fail; the next step records the plan."""
    from infer_forge.campaign.book import open_campaign
    from infer_forge.campaign.plan import write_plan as write

    source = Path(adopt) if adopt else None
    return write(open_campaign(run), adopt=source, focus=focus, requirements=requirements)


@tool(toolset="campaign", read_only=True)
def render_campaign_prompt(
    run: Run = None,
    mode: Annotated[
        Literal["rlcr", "goal", "loop"] | None,
        Field(description="Who keeps the loop. Default: the campaign's own mode."),
    ] = None,
    focus: Focus = None,
    requirements: Requirements = None,
) -> Answer:
    """Use it when a campaign is handed to an agent: its prompt for RLCR, Codex /goal (at most 4,000 characters) or Claude /loop,
    with the same obligations in every mode. The text is in `prompt`."""
    from infer_forge.campaign.book import open_campaign
    from infer_forge.campaign.prompts import prompt_of

    campaign = open_campaign(run)
    chosen = mode or str(campaign.records[0]["mode"])
    return prompt_of(campaign, chosen, focus=focus, requirements=requirements)
