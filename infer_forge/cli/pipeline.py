"""`infer-forge pipeline`: passes, layers, clusters and compute flow of a trace."""

from __future__ import annotations

from pathlib import Path

import click

from infer_forge.base.errors import UsageFault
from infer_forge.base.records import Report
from infer_forge.cli.common import existing, report_command
from infer_forge.cli.given_path import GivenPath

_FILE = GivenPath(path_type=Path, dir_okay=False)


@click.command(name="pipeline")
@click.argument("traces", nargs=-1, required=True, type=GivenPath(path_type=Path))
@click.option("--config", type=_FILE, help="config.json of the deployed model: the layers found are held against it.")
@click.option("--rank", help="A rank number. Default: the lowest. The passes table always has every rank.")
@click.option("--stage", help="Only this stage's layers, clusters and flow: prefill, decode, mixed, denoise.")
@click.option(
    "--pass", "pass_number", type=click.IntRange(0), help="Look into this pass instead of the representative ones."
)
@click.option("--layer", type=click.IntRange(0), help="Flow of this layer instead of the representative one.")
@click.option("--compare-layer", type=click.IntRange(0), help="Align a second layer with the first, kernel by kernel.")
@click.option("--anchor", help="Part of a kernel's name that begins every layer; NAME:end when it ends one.")
@click.option(
    "--mapping", type=_FILE, help="Capture or eager trace: gives the kernels of graph replays their ops and source."
)
@click.option(
    "--sort", type=click.Choice(["order", "duration"]), default="order", show_default=True, help="Order of the flow."
)
@click.option(
    "--triage", type=_FILE, help="Triage report (JSON) that this stands on. Default: the stored one of this trace."
)
@click.option("--no-triage", is_flag=True, help="Pick layers although no triage of this trace exists.")
@click.option(
    "--export", type=_FILE, help="Write a trimmed trace of the chosen pass that opens in Perfetto (.json or .json.gz)."
)
@click.option("--export-layers", help="Only these layers in it, such as 0,12-14.")
@click.option("--export-ranks", is_flag=True, help="Every rank in it.")
@click.option("--limit", type=click.IntRange(1), help="Rows of each table at the most.")
@click.option("--no-cache", is_flag=True, help="Read the file itself; neither use nor fill the column cache.")
@report_command
def command(
    traces: tuple[Path, ...],
    config: Path | None,
    rank: str | None,
    stage: str | None,
    pass_number: int | None,
    layer: int | None,
    compare_layer: int | None,
    anchor: str | None,
    mapping: Path | None,
    sort: str,
    triage: Path | None,
    no_triage: bool,
    export: Path | None,
    export_layers: str | None,
    export_ranks: bool,
    limit: int | None,
    no_cache: bool,
) -> Report:
    """Passes, layers, clusters, compute flow and Perfetto ranges of TRACE...

    TRACE is a torch-profiler JSON, an Nsight Systems SQLite export, several of them, or a folder of ranks. The layers are found
    from the kernels themselves; a config says what they should be.
    """
    for path in (*traces, *(p for p in (config, mapping, triage) if p)):
        existing(path)
    from infer_forge import pipeline

    options = pipeline.Options(
        config=config, rank=rank, stage=stage, pass_number=pass_number, layer=layer, compare_layer=compare_layer, anchor=anchor,
        mapping=mapping, sort=sort, triage=triage, no_triage=no_triage, export=export, export_layers=_numbers(export_layers),
        export_ranks=export_ranks, limit=limit, cache=not no_cache,
    )  # fmt: skip
    return pipeline.analyse_pipeline(list(traces), options)


def _numbers(text: str | None) -> tuple[int, ...]:
    """`0,12-14` -> 0, 12, 13, 14."""
    found: list[int] = []
    for part in (text or "").split(","):
        low, _, high = part.strip().partition("-")
        if not low:
            continue
        if not low.isdecimal() or (high and not high.isdecimal()) or len(low) > 6 or len(high) > 6:
            raise UsageFault(f"{part!r} is no layer or range of layers", next_step="write --export-layers 0,12-14")
        if int(high or low) < int(low):
            raise UsageFault(f"{part.strip()} runs backwards", next_step=f"write --export-layers {high}-{low}")
        found += range(int(low), int(high or low) + 1)
    return tuple(found)
