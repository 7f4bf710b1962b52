"""`infer-forge capture`: prefill and decode profiles from a running server."""

from __future__ import annotations

from pathlib import Path

import click

from infer_forge.base.errors import UsageFault
from infer_forge.base.records import Report
from infer_forge.cli.common import Finite
from infer_forge.cli.given_path import GivenPath

_DEFAULT = {"prefill": (4096, 1), "decode": (1, 512)}


@click.command()
@click.option("--framework", required=True, help="sglang, vllm, trtllm or tokenspeed.")
@click.option("--url", required=True, help="Address of the running server, for example http://127.0.0.1:30000.")
@click.option(
    "--out", "folder", required=True, type=GivenPath(path_type=Path, file_okay=False), help="Folder for the traces."
)
@click.option(
    "--workload",
    type=click.Choice(["both", "prefill", "decode"]),
    default="both",
    show_default=True,
    help="What to capture.",
)
@click.option(
    "--campaign",
    type=GivenPath(path_type=Path, exists=True),
    help="Take the lengths from this run directory's slow scenario.",
)
@click.option(
    "--input-len",
    type=click.IntRange(1, 10_000_000),
    help="Prompt length of the prefill workload in tokens (4096 without it).",
)
@click.option(
    "--output-len",
    type=click.IntRange(1, 100_000_000),
    help="Output length of the decode workload in tokens (512 without it).",
)
@click.option(
    "--requests", type=click.IntRange(1, 4096), default=8, show_default=True, help="Requests in flight at once."
)
@click.option(
    "--warmup",
    type=click.IntRange(0, 100_000),
    default=10,
    show_default=True,
    help="Requests before the profiler starts.",
)
@click.option(
    "--steps", type=click.IntRange(1, 1000), default=5, show_default=True, help="Forward passes wanted in the trace."
)
@click.option("--stacks/--no-stacks", default=False, help="Record Python stacks (slow; refused on a busy server).")
@click.option("--shapes/--no-shapes", default=False, help="Record input shapes (slow; refused on a busy server).")
@click.option(
    "--window-s",
    type=Finite(0, min_open=True),
    default=60.0,
    show_default=True,
    help="Longest time that the profiler stays on, in seconds.",
)
@click.option(
    "--export-s",
    type=Finite(0, min_open=True),
    default=600.0,
    show_default=True,
    help="Longest wait for complete files, in seconds.",
)
@click.option("--run-directory", help="Folder that the engine's own launch fixed for its traces (vLLM, TokenSpeed).")
@click.option(
    "--record",
    type=GivenPath(exists=True, dir_okay=False),
    help="Record that `engine start` wrote: how the engine was launched.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the prompts.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "md", "json"]),
    default="text",
    show_default=True,
    help="Form of the answer.",
)
def command(
    framework: str,
    url: str,
    folder: Path,
    workload: str,
    campaign: Path | None,
    input_len: int | None,
    output_len: int | None,
    requests: int,
    warmup: int,
    steps: int,
    stacks: bool,
    shapes: bool,
    window_s: float,
    export_s: float,
    run_directory: str | None,
    record: str | None,
    seed: int,
    form: str,
) -> None:
    """Take prefill (long input, one token out) and decode (one token in, long output) profiles, apart from each other.

    The profiler is off afterwards, whatever happens. The output folder gets the traces and capture.json.
    """
    from infer_forge.capture import Plan, Shape, slow_scenario, take
    from infer_forge.capture.model import WORKLOADS
    from infer_forge.cli.common import emit
    from infer_forge.engines.frameworks import canonical

    if campaign and (input_len or output_len):
        raise UsageFault(
            "--campaign gives the lengths already", next_step="leave --input-len and --output-len out, or --campaign"
        )
    wanted = {n: Shape(*_DEFAULT[n]) for n in WORKLOADS[workload]}
    scenario = None
    if campaign:
        scenario, slow = slow_scenario(campaign)
        wanted = {n: slow[n] for n in wanted}
    if input_len and "prefill" in wanted:
        wanted["prefill"] = Shape(input_len, 1)
    if output_len and "decode" in wanted:
        wanted["decode"] = Shape(1, output_len)
    plan = Plan(
        canonical(framework),
        url.rstrip("/"),
        folder,
        wanted,
        requests=requests,
        warmup=warmup,
        steps=steps,
        stacks=stacks,
        shapes_recorded=shapes,
        window_s=window_s,
        export_s=export_s,
        directory=run_directory,
        record=record,
        seed=seed,
    )
    report: Report = take(plan)
    if scenario:
        report.header.more["scenario"] = scenario
        report.summary.insert(0, f"lengths of the slow scenario {scenario}")
    emit(report, form, None)
