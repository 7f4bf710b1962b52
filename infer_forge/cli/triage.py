"""`infer-forge triage`: the tables of a torch-profiler trace, of several, or of a directory of ranks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from infer_forge.base.config import settings
from infer_forge.base.errors import UsageFault
from infer_forge.base.inputs import apart
from infer_forge.base.records import Report
from infer_forge.cli.common import Finite, existing, report_command, require
from infer_forge.cli.given_path import GivenPath

if TYPE_CHECKING:
    from infer_forge.profile.model import Options

_FILE = GivenPath(path_type=Path, dir_okay=False)


@click.command(name="triage")
@click.argument("traces", nargs=-1, required=True, type=GivenPath(path_type=Path))
@click.option("--mapping", type=_FILE, help="Trace of the graph capture: resolves the kernels of graph replays.")
@click.option(
    "--against",
    type=GivenPath(path_type=Path),
    help="A second trace (or folder), b beside a: differences are b - a in ms per step, so give the old one first.",
)
@click.option(
    "--min-share",
    type=Finite(0, 100),
    default=lambda: float(settings().get("triage.min_share_pct")),
    show_default="1.0, or the setting triage.min_share_pct",
    help="Hide rows below this per cent of their stage; the header has their sum.",
)
@click.option("--stage", help="Only this stage: prefill, decode, mixed, denoise, all, outside.")
@click.option("--rank", help="A rank number, or all. Default: the rank with the most busy time.")
@click.option(
    "--server-args",
    type=_FILE,
    help="Server arguments of the benchmark: a trace of another backend is refused (exit 4).",
)
@click.option("--server-log", type=_FILE, help="Log of the profiled server, for the same gate.")
@click.option(
    "--html", type=_FILE, help="Also write one self-contained page: stage timeline, sortable tables, overlap picture."
)
@click.option("--limit", type=click.IntRange(1), help="Rows of each table at the most.")
@click.option("--cursor", help="Row number at which every table begins (next_cursor of the last answer).")
@click.option("--no-cache", is_flag=True, help="Read the file itself; neither use nor fill the column cache.")
@click.option(
    "--cluster",
    metavar="tcp://HOST:PORT",
    help="Read on this Dask cluster; TRACE is then a path or fsspec URL as its workers see it.",
)
@click.option("--unverified", is_flag=True, help="Also use catalogue patterns whose source nobody has checked.")
@click.option("--require", "wanted", help="Exit 4 unless every stage's verdict is one of these (comma separated).")
@report_command
def command(
    traces: tuple[Path, ...],
    mapping: Path | None,
    against: Path | None,
    min_share: float,
    stage: str | None,
    rank: str | None,
    server_args: Path | None,
    server_log: Path | None,
    html: Path | None,
    limit: int | None,
    cursor: str | None,
    no_cache: bool,
    cluster: str | None,
    unverified: bool,
    wanted: str | None,
) -> Report:
    """Kernel, overlap and fuse tables of TRACE..., with the stages and why the device was idle.

    TRACE is a torch-profiler JSON (gzip and zstd too), several of them, or a folder of ranks that is read whole.
    """
    from infer_forge.profile.model import Options

    if wanted and against:
        raise UsageFault(
            "--require speaks of one trace's verdicts, and --against compares two",
            next_step="run triage --require on each of them",
        )
    if html is not None:
        apart(html, [p for p in (*traces, against, mapping, server_args, server_log) if p is not None])
    options = Options(
        rank=rank,
        stage=stage,
        min_share=min_share,
        mapping=mapping,
        server_args=server_args,
        server_log=server_log,
        limit=limit,
        cursor=cursor,
        cache=not no_cache,
        cluster=cluster,
        unverified=unverified,
    )
    if cluster is None:
        for path in (*traces, *([against] if against else [])):
            existing(path)  # before numpy is imported: a wrong name is answered at once
    if not wanted:
        return _run(traces, against, html, options)
    return _gated(_run(traces, against, html, replace(options, limit=None, cursor=None)), wanted, options)


def _gated(report: Report, wanted: str, options: Options) -> Report:
    """The report's page, once every verdict of the whole of it, not only of that page, is one of those wanted."""
    from infer_forge.profile.host import VERDICTS
    from infer_forge.profile.report import page_of

    verdicts = report.tables["host"].dicts()
    page = page_of(report, options)
    for row in verdicts:
        where = ", ".join(f"{part} {row[part]}" for part in ("rank", "device", "stage") if row[part] is not None)
        require(row["verdict"], wanted, known=VERDICTS, report=page, where=where)
    return page


def _run(traces: tuple[Path, ...], against: Path | None, html: Path | None, options: Options) -> Report:
    from infer_forge import profile

    if against is not None:
        report: Report = profile.compare(list(traces), [against], options)
        if html is not None:
            from infer_forge.base.page import Page

            Page("infer-forge triage: two traces").report(report).write(html)
        return report
    if html is None:
        return profile.triage(list(traces), options)
    return profile.write_page(list(traces), options, html)
