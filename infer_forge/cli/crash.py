"""`infer-forge crash`: one verdict out of logs and dumps; evidence for the next crash."""

from __future__ import annotations

from pathlib import Path

import click

from infer_forge.base.records import Report
from infer_forge.cli.common import emit, format_options, report_command, require
from infer_forge.cli.given_path import GivenPath


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
@click.option("--html", type=GivenPath(path_type=Path, dir_okay=False), help="Write the timeline page to this file.")
@click.option("--require", "wanted", metavar="C[,C]", help="Exit 4 unless the certainty is one of these.")
@format_options
def triage(
    paths: tuple[str, ...],
    engine: str | None,
    launch_blocking: bool | None,
    graphs: bool | None,
    caching: bool | None,
    world: int | None,
    host: str | None,
    crashed: str | None,
    html: Path | None,
    wanted: str | None,
    form: str,
    out: Path | None,
) -> None:
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


@command.command("record")
@click.argument("words", nargs=-1, required=True, metavar="-- COMMAND ...")
@click.option(
    "--for",
    "ask",
    multiple=True,
    type=click.Choice(["kernel", "call", "launch", "memory", "hang"]),
    help="Question of this run; repeat it. Default: kernel, and call with --level.",
)
@click.option(
    "--level",
    type=click.Choice(["1", "3", "5", "10"]),
    help="Level of the kernel-API logs: names, metadata, statistics, saved inputs.",
)
@click.option("--include", metavar="PATTERN", help="Only functions that fit, fnmatch, comma-separated.")
@click.option("--exclude", metavar="PATTERN", help="Not functions that fit.")
@click.option(
    "--patch",
    "patches",
    multiple=True,
    metavar="MODULE:FUNCTION",
    help="Record this function too (import hook); torch.ops.NAMESPACE:OP for a custom operator. Repeat it.",
)
@click.option(
    "--out", type=GivenPath(path_type=Path, file_okay=False), help="Folder of the evidence; must be new or empty."
)
@click.option("--timeout-s", type=float, help="End the command after so many seconds.")
@click.option(
    "--max-gib",
    type=click.FloatRange(0.001),
    default=16.0,
    show_default=True,
    help="Most that the evidence may take on the disk.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "md", "json"]),
    default="text",
    show_default=True,
    help="Form of the answer.",
)
def record(
    words: tuple[str, ...],
    ask: tuple[str, ...],
    level: str | None,
    include: str | None,
    exclude: str | None,
    patches: tuple[str, ...],
    out: Path | None,
    timeout_s: float | None,
    max_gib: float,
    form: str,
) -> None:
    """Run COMMAND so that a crash leaves evidence, then triage it.

    The command's output goes to stderr and into the folder. JSON keys: those of triage, and run.
    """
    from infer_forge.crash import run_recorded

    report = run_recorded(
        words,
        ask=ask,
        level=int(level) if level else None,
        include=include,
        exclude=exclude,
        patches=patches,
        out=out,
        timeout_s=timeout_s,
        max_bytes=int(max_gib * 2**30),
    )
    emit(report, form, None)


@command.command("replay")
@click.argument("folder", type=GivenPath(path_type=Path))
@click.argument("function", metavar="MODULE:FUNCTION")
@click.option("--rtol", type=float, default=1e-3, show_default=True, help="Relative tolerance of an element.")
@click.option("--atol", type=float, default=1e-5, show_default=True, help="Absolute tolerance of an element.")
@click.option("--device", help="Device to put tensors on, for example cuda:0. Default: cpu.")
@click.option("--require", "wanted", metavar="V[,V]", help="Exit 4 unless the verdict is one of these.")
@format_options
def replay(
    folder: Path,
    function: str,
    rtol: float,
    atol: float,
    device: str | None,
    wanted: str | None,
    form: str,
    out: Path | None,
) -> None:
    """Run a saved call of FOLDER again with a function (module:function or file.py:function) and compare its outputs.

    JSON keys: verdict (same, differs, raised, no_saved_output), function, saved_status, raised, seconds.
    """
    from infer_forge.crash import replay as verb

    report = verb(folder, function, rtol=rtol, atol=atol, device=device)
    emit(report, form, out)
    require(str(report.extra["verdict"]), wanted, known=("same", "differs", "raised", "no_saved_output"))


@command.command("verify")
@click.option(
    "--repro", required=True, metavar="COMMAND", help="The command that crashed before, as one shell word list."
)
@click.option("--runs", type=click.IntRange(1, 10_000), required=True, help="How often to run it now.")
@click.option("--crashed", type=click.IntRange(0), required=True, help="How often it crashed before the fix.")
@click.option("--of", type=click.IntRange(1), required=True, help="Out of so many runs before the fix.")
@click.option("--timeout-s", type=float, default=600.0, show_default=True, help="A run that takes longer hangs.")
@click.option("--require", "wanted", metavar="V[,V]", help="Exit 4 unless the verdict is one of these.")
@format_options
def verify(
    repro: str, runs: int, crashed: int, of: int, timeout_s: float, wanted: str | None, form: str, out: Path | None
) -> None:
    """Run a reproduction after a fix and state the probability that its passes are luck.

    JSON keys: verdict (verified, not_enough_runs, still_crashes), luck, luck_at_lower_bound, runs_needed.
    """
    from infer_forge.crash import verify as verb
    from infer_forge.crash.verifying import VERDICTS

    report = verb(repro, runs=runs, crashed=crashed, of=of, timeout_s=timeout_s)
    emit(report, form, out)
    require(str(report.extra["verdict"]), wanted, known=VERDICTS)


@command.command("plan")
@click.argument("paths", nargs=-1)
@click.option("--run", "crashed", metavar="COMMAND", help="The command that crashed.")
@click.option("--engine", help="sglang, vllm, trtllm or tokenspeed.")
@click.option(
    "--launch-blocking/--no-launch-blocking", default=None, help="A run with CUDA_LAUNCH_BLOCKING=1 was made."
)
@click.option("--graphs/--no-graphs", default=None, help="--no-graphs: a run without CUDA graphs was made.")
@click.option(
    "--caching/--no-caching", default=None, help="--no-caching: a run without the caching allocator was made."
)
@click.option("--world", type=click.IntRange(1), help="Number of ranks.")
@report_command
def plan(
    paths: tuple[str, ...],
    crashed: str | None,
    engine: str | None,
    launch_blocking: bool | None,
    graphs: bool | None,
    caching: bool | None,
    world: int | None,
) -> Report:
    """Plan the next runs from what PATHS tell, one question a run. Runs nothing.

    JSON keys: class, certainty, runs, stop.
    """
    from infer_forge.crash import Context, plan_runs

    return plan_runs(paths, context=Context(engine, launch_blocking, graphs, caching, world, None, crashed))


@command.command("collect")
@click.option("--url", required=True, help="Address of the server, for example http://127.0.0.1:30000.")
@click.option(
    "--out",
    "folder",
    type=GivenPath(path_type=Path, file_okay=False),
    help="Folder of the bundle; must be new or empty.",
)
@click.option(
    "--log",
    type=GivenPath(path_type=Path, dir_okay=False),
    help="The server's log file: its end goes into the bundle.",
)
@click.option(
    "--requests",
    type=GivenPath(path_type=Path, dir_okay=False),
    help='JSON lines {"path": .., "body": ..} of requests that fail.',
)
@click.option("--token-env", metavar="NAME", help="Variable that holds a bearer token.")
@click.option(
    "--resend",
    type=GivenPath(path_type=Path, file_okay=False, exists=True),
    metavar="BUNDLE",
    help="Instead: send the requests of this bundle to --url, which must be another server.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "md", "json"]),
    default="text",
    show_default=True,
    help="Form of the answer.",
)
def collect(
    url: str,
    folder: Path | None,
    log: Path | None,
    requests: Path | None,
    token_env: str | None,
    resend: Path | None,
    form: str,
) -> None:
    """A read-only bundle of a live server, secrets redacted; only GET is sent. Triage reads it.

    JSON keys: bundle, url, health, requests; with --resend verdict and failing.
    """
    from infer_forge.crash import collect as verb
    from infer_forge.crash import resend as again

    report = (
        again(resend, url)
        if resend is not None
        else verb(url, out=folder, log=log, requests=requests, token_env=token_env)
    )
    emit(report, form, None)


@command.command("explain")
@click.argument("what", nargs=-1, required=True)
@report_command
def explain(what: tuple[str, ...]) -> Report:
    """What a class, an Xid (xid 79) or a pasted line means, and what to do next."""
    from infer_forge.crash import explain as verb

    return verb(" ".join(what))
