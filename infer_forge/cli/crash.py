"""`infer-forge crash`: one verdict out of logs and dumps; evidence for the next crash."""

from __future__ import annotations

from pathlib import Path

import click

from infer_forge.cli.common import emit, format_options, require


@click.group()
def command() -> None:
    """Logs and dumps become one verdict; runs are recorded so that the next crash tells more."""


@command.command("triage")
@click.argument("paths", nargs=-1, required=True)
@click.option("--engine", help="sglang, vllm, trtllm or tokenspeed; only words the next command.")
@click.option(
    "--launch-blocking/--no-launch-blocking",
    default=None,
    help="CUDA_LAUNCH_BLOCKING=1 was set. Default: what the log states.",
)
@click.option("--graphs/--no-graphs", default=None, help="CUDA graphs were on. Default: what the log states.")
@click.option(
    "--caching/--no-caching", default=None, help="PyTorch's caching allocator was on. Default: what the log states."
)
@click.option("--world", type=click.IntRange(1, 1_000_000), help="Number of ranks.")
@click.option("--host", help="The node's name, for the command that marks it.")
@click.option("--run", "crashed", metavar="COMMAND", help="The command that crashed, to be put into the next command.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write the timeline page to this file.")
@click.option("--require", "wanted", metavar="C[,C]", help="Exit 4 unless the certainty is one of these.")
@format_options
def triage(
    paths: tuple[str, ...], engine: str | None, launch_blocking: bool | None, graphs: bool | None, caching: bool | None,
    world: int | None, host: str | None, crashed: str | None, html: Path | None, wanted: str | None, form: str, out: Path | None,
) -> None:  # fmt: skip
    """One verdict out of PATHS: logs, folders, gzip files, dumps, transcripts; - reads standard input.

    JSON keys: class, certainty, first_event, surfaced_at, kernel, api, rank, device, location, sync_boundary, suspects,
    cascade_count, contradictory, not_evidence, missing_inputs, next.
    """
    from infer_forge.crash import CERTAINTIES, Context
    from infer_forge.crash import triage as verb

    context = Context(engine, launch_blocking, graphs, caching, world, host, crashed)
    report = verb(paths, context=context)
    if html is not None:
        from infer_forge.crash import write_page

        write_page(report, html)
    emit(report, form, out)
    require(str(report.extra["certainty"]), wanted, known=CERTAINTIES)
