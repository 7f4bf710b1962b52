"""`infer-forge ceiling`: the floor of a step on a deployment point."""

from __future__ import annotations

from pathlib import Path

import click

from infer_forge.base.records import Report
from infer_forge.cli.common import existing, report_command
from infer_forge.cli.given_path import GivenPath

_FILE = GivenPath(path_type=Path, dir_okay=False)


@click.command(name="ceiling")
@click.option("--config", required=True, type=_FILE, help="config.json of the deployed model.")
@click.option(
    "--deployment-point",
    "point",
    required=True,
    type=_FILE,
    help="Deployment point (JSON), or a contract that holds one.",
)
@click.option("--trace", type=_FILE, help="Trace of that point: its steps are held against their floors.")
@click.option(
    "--input-len",
    type=click.IntRange(1, 1_000_000_000),
    help="Prompt tokens. Default: the contract's first scenario, else 1024.",
)
@click.option(
    "--output-len",
    type=click.IntRange(1, 1_000_000_000),
    help="Output tokens; decode is taken in their middle. Default: likewise.",
)
@click.option(
    "--batch", type=click.IntRange(1, 1_000_000_000), help="Requests of a decode step. Default: likewise, else 16."
)
@click.option("--no-cache", is_flag=True, help="Read the trace itself; neither use nor fill the column cache.")
@report_command
def command(
    config: Path,
    point: Path,
    trace: Path | None,
    input_len: int | None,
    output_len: int | None,
    batch: int | None,
    no_cache: bool,
) -> Report:
    """The least time of a prefill and a decode step: bytes and operations of each family against the GPU's peaks."""
    for path in (config, point, *([trace] if trace else [])):
        existing(path)
    from infer_forge import pipeline

    return pipeline.step_ceiling(
        config, point, input_len=input_len, output_len=output_len, batch=batch, trace=trace, cache=not no_cache
    )
