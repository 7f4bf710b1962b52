"""Tools of the bench room that fix what a result will mean: the two locks."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from infer_forge_mcp.toolkit import Answer, run_command, tool


@tool(toolset="bench", read_only=False, idempotent=False)
def lock_contract(
    run: Annotated[str, Field(description="The run directory.")],
    contract: Annotated[
        str | None, Field(description="Path of the contract to lock (JSON). Give this, config, or baseline true.")
    ] = None,
    config: Annotated[
        str | None, Field(description="Path of a search configuration to draft the contract from.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        Field(description="Fields of the contract as FIELD=VALUE, e.g. point.model.revision=abc. Default: none."),
    ] = None,
    baseline: Annotated[
        bool,
        Field(
            description="True locks the winner table instead, after the winners were measured again. Default: false."
        ),
    ] = False,
    dry_run: Annotated[bool, Field(description="True checks everything and locks nothing. Default: false.")] = False,
) -> Answer:
    """Use it before the first result or profile to lock a benchmark contract, and again (baseline true) after the winners
    were measured anew. Each is locked once; a second lock, an incomplete deployment point, early results, or a threshold
    that the pilot's noise cannot resolve are refused with what is missing. Only a person at a terminal can accept the last."""
    words = ["bench", "lock", "--run", run]
    words += ["--contract", contract] if contract else []
    words += ["--config", config] if config else []
    for item in settings or []:
        words += ["--set", item]
    words += ["--baseline"] if baseline else []
    words += ["--dry-run"] if dry_run else []
    return run_command(words)
