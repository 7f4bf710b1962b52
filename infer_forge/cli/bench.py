"""`infer-forge bench ...`: import, check, rank, fairness and the gap decision; the contract and search commands join when present."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.records import Report
from infer_forge.cli.common import Finite, emit, format_options, report_command, require
from infer_forge.cli.given_path import GivenPath

if TYPE_CHECKING:
    from infer_forge.bench.importing import Rows
    from infer_forge.bench.model import Row

_FILES = GivenPath(path_type=Path)
_TOOLS_HELP = (
    "auto, sglang.bench_serving, sglang.bench_one_batch_server, vllm.bench_serve, tensorrt-llm.benchmark_serving, "
    "tokenspeed.bench_serve, aiperf, genai-perf or sglang.diffusion_perf_dump"
)

# Subcommands of another module of this folder, registered when it is asked for: name -> its first line of help.
_RUNS_MODULE = "infer_forge.cli.bench_runs"


class _Bench(click.Group):
    """The group; commands of `bench_runs` (workload, pilot, lock, search) join it when that module can be imported."""

    def _runs(self) -> dict[str, click.Command]:
        try:
            module = importlib.import_module(_RUNS_MODULE)
        except ModuleNotFoundError as exc:
            if exc.name == _RUNS_MODULE:
                return {}
            raise
        return {c.name: c for c in module.commands if c.name}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Own commands, then those of `bench_runs`."""
        return [*super().list_commands(ctx), *self._runs()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command of either."""
        return super().get_command(ctx, cmd_name) or self._runs().get(cmd_name)


@click.group(cls=_Bench)
def command() -> None:
    """Benchmark results that can be trusted: rows, checks, ranking, fairness, and the gap decision."""


def _context(settings: tuple[str, ...]) -> dict[str, Any]:
    """`--set field=value` as row fields: the text where the field takes text, else its JSON value.

    Raises:
        UsageFault: no such field, or neither form fits it.
    """
    import json

    from infer_forge.bench.model import Row
    from infer_forge.bench.read import annotate

    out: dict[str, Any] = {}
    for item in settings:
        name, sep, text = item.partition("=")
        if not sep or not name:
            raise UsageFault(f"--set needs FIELD=VALUE, not {item!r}")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        try:
            annotate(Row(tool="any"), {name: text})
            out[name] = text
        except UsageFault:
            annotate(Row(tool="any"), {name: value})
            out[name] = value
    return out


@command.command("import")
@click.argument("files", nargs=-1, required=True, type=_FILES)
@click.option("--tool", default="auto", show_default=True, help=f"Which tool wrote the files: {_TOOLS_HELP}.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="FIELD=VALUE",
    help="A row field to set on every row: framework=vllm, launch_id=3.",
)
@click.option("--into", type=_FILES, help="Append the rows to this ledger (hash chain).")
@report_command
def import_(files: tuple[Path, ...], tool: str, settings: tuple[str, ...], into: Path | None) -> Report:
    """Result files (or folders of them) become canonical rows.

    A file that is named and is no result is refused (exit 3); in a folder, strangers are listed and left out.
    """
    from infer_forge.bench import importing

    report = importing.import_report(files, tool, _context(settings))
    if into is not None:
        from infer_forge.bench.model import Row

        count = importing.record([Row.model_validate(r) for r in report.extra["rows"]], into)
        report.summary.append(f"{count} rows appended to {into}")
    return report


def _gather(files: tuple[Path, ...], tool: str, settings: tuple[str, ...]) -> Rows:
    from infer_forge.bench.importing import read_rows

    return read_rows(files, tool, _context(settings))


def _row_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--contract", type=_FILES, help="The locked contract to hold the rows against."),
        click.option(
            "--set", "settings", multiple=True, metavar="FIELD=VALUE", help="A row field to set on every row."
        ),
        click.option(
            "--tool", default="auto", show_default=True, help="Which tool wrote the files (auto: found by the keys)."
        ),
    ):
        function = option(function)
    return function


@command.command()
@click.argument("files", nargs=-1, required=True, type=_FILES)
@_row_options
@format_options
def check(
    files: tuple[Path, ...],
    tool: str,
    settings: tuple[str, ...],
    contract: Path | None,
    form: str,
    out: Path | None,
) -> None:
    """Refuse or mark rows that are impossible or cannot be trusted.

    Exit 0: no row is refused; 4: one is; 3: something that a decision needs is unknown.
    """
    from infer_forge.bench.checks import check_report
    from infer_forge.bench.contracts_in import locked as locked_contract

    got = _gather(files, tool, settings)
    report = check_report(got.rows, *locked_contract(contract))
    report.header.inputs = got.files
    emit(report, form, out)
    code = {"pass": 0, "fail": 4, "unknown": 3}[report.extra["verdict"]]
    if code:
        sys.exit(code)


@command.command()
@click.argument("files", nargs=-1, required=True, type=_FILES)
@_row_options
@click.option("--sla", help="Limits such as max_p50_ttft_ms=200,min_success_rate=1 (default: the contract's).")
@click.option("--scenario-key", help="A row field or driver key that names the scenario.")
@report_command
def rank(
    files: tuple[Path, ...],
    tool: str,
    settings: tuple[str, ...],
    contract: Path | None,
    sla: str | None,
    scenario_key: str | None,
) -> Report:
    """Rank candidates scenario by scenario, the SLA computed again from the rows. Impossible rows never rank."""
    from infer_forge.bench.contracts_in import locked as locked_contract
    from infer_forge.bench.metrics import sla_limits
    from infer_forge.bench.rank import rank_report

    got = _gather(files, tool, settings)
    report = rank_report(got.rows, sla_limits(sla), *locked_contract(contract), scenario_key=scenario_key)
    report.header.inputs = got.files
    return report


class _NamedFiles(click.Command):
    """Reads `--target NAME FILE...` and any number of `--against NAME FILE...`; what else begins with a dash is click's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the named groups out of the words and leave the rest to click."""
        groups: list[tuple[str, str, list[str]]] = []
        rest: list[str] = []
        at = 0
        while at < len(args):
            word, sep, value = args[at].partition("=")
            at += 1
            if word not in ("--target", "--against"):
                rest.append(args[at - 1])
                continue
            words = [value] if sep else []
            while at < len(args) and not args[at].startswith("-"):
                words.append(args[at])
                at += 1
            if not words:
                raise UsageFault(f"{word} needs a name", next_step=f"{word} NAME FILE...")
            groups.append((word, words[0], words[1:]))
        ctx.meta["sides"] = groups
        return super().parse_args(ctx, rest)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The two named groups, then click's options."""
        with formatter.section("Sides"):
            formatter.write_dl(
                [
                    (
                        "--target NAME FILE...",
                        "The system that is judged, and its result files, folders or row ledgers.",
                    ),
                    ("--against NAME FILE...", "A competitor; may be given several times."),
                ]
            )
        super().format_options(ctx, formatter)


def _sides(
    ctx: click.Context, rows: Path | None, hash_: str | None, target: str | None, tool: str
) -> tuple[dict[str, list[Row]], str, list[Any]]:
    """Rows by side, the target's name, the input files."""
    groups: list[tuple[str, str, list[str]]] = ctx.meta["sides"]
    targets = [name for word, name, _ in groups if word == "--target"]
    if len(targets) > 1:
        raise UsageFault("--target is given twice", next_step="give one target and any number of --against")
    if len({name for _, name, _ in groups}) < len(groups):
        raise UsageFault("two sides have the same name", next_step="give each side a name of its own")
    if rows is not None:
        return _ledger_sides(groups, rows, hash_, targets[0] if targets else target)
    if not targets or len(groups) < 2:
        raise UsageFault(
            "a target and at least one competitor are needed", next_step="--target NAME FILE... --against NAME FILE..."
        )
    from infer_forge.bench.importing import read_rows

    sides: dict[str, list[Row]] = {}
    files: list[Any] = []
    for _, name, paths in groups:
        if not paths:
            raise UsageFault(f"{name} has no files", next_step=f"--target {name} FILE..., or --rows LEDGER")
        got = read_rows(paths, tool)
        sides[name] = got.rows
        files += got.files
    return sides, targets[0], files


def _ledger_sides(
    groups: list[tuple[str, str, list[str]]], rows: Path, hash_: str | None, target: str | None
) -> tuple[dict[str, list[Row]], str, list[Any]]:
    """Sides by framework (or candidate id) from a ledger of rows."""
    from infer_forge.base.records import InputFile
    from infer_forge.bench.importing import ledger_sides

    if target is None:
        raise UsageFault("which framework is the target?", next_step="--target NAME, or --contract FILE")
    if not rows.exists():
        raise InputUnusable("no such ledger", where=str(rows))
    others = [name for word, name, _ in groups if word == "--against"]
    return ledger_sides(rows, target, others, hash_), target, [InputFile.of(rows)]


def _own_rows(ctx: click.Context, contract: Path | None, rows: Path | None) -> Path | None:
    """The ledger that lies beside a contract, when nobody names files: the contract's own rows."""
    if rows is not None or contract is None or any(paths for _, _, paths in ctx.meta["sides"]):
        return rows
    beside = contract.parent / "candidates.jsonl"
    return beside if beside.exists() else None


def _evidence(
    server_args: tuple[str, ...], server_log: tuple[str, ...], help_snapshot: tuple[str, ...]
) -> list[tuple[str, str]]:
    kinds = (("args", server_args), ("log", server_log), ("help", help_snapshot))
    return [(kind, text) for kind, texts in kinds for text in texts]


def _side_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option(
            "--help-snapshot",
            multiple=True,
            metavar="NAME=FILE",
            help="Help snapshot of a side (infer-forge engine help-snapshot).",
        ),
        click.option(
            "--server-log",
            multiple=True,
            metavar="NAME=FILE",
            help="Server log of a side: fills what its rows do not say.",
        ),
        click.option(
            "--server-args", multiple=True, metavar="NAME=FILE", help="Saved server arguments of a side (JSON or YAML)."
        ),
        click.option(
            "--rows",
            type=_FILES,
            help="Take the runs from this ledger of rows (default: the one beside the contract); sides are its frameworks.",
        ),
        click.option(
            "--contract", type=_FILES, help="The locked contract: threshold, metric, SLA and looks come from it."
        ),
        click.option(
            "--tool", default="auto", show_default=True, help="Which tool wrote the files (auto: found by the keys)."
        ),
    ):
        function = option(function)
    return function


@command.command("fairness", cls=_NamedFiles)
@_side_options
@click.option("--write", "folder", type=_FILES, help="Also write fairness.md and fairness.json into this folder.")
@click.option("--require", "wanted", help="Exit 4 unless the verdict is one of these: pass, fail, unknown.")
@format_options
@click.pass_context
def fairness_(
    ctx: click.Context,
    tool: str,
    contract: Path | None,
    rows: Path | None,
    server_args: tuple[str, ...],
    server_log: tuple[str, ...],
    help_snapshot: tuple[str, ...],
    folder: Path | None,
    wanted: str | None,
    form: str,
    out: Path | None,
) -> None:
    """Twelve diagnostics of whether the sides did the same work under the same conditions: pass, fail or unknown."""
    from infer_forge.base import jsonio
    from infer_forge.bench import evidence
    from infer_forge.bench.contracts_in import locked as locked_contract
    from infer_forge.bench.fairness import fairness_report

    locked, hash_ = locked_contract(contract)
    sides, _, files = _sides(ctx, _own_rows(ctx, contract, rows), hash_, locked.target if locked else None, tool)
    evidence.apply(sides, _evidence(server_args, server_log, help_snapshot))
    report = fairness_report(sides, locked)
    report.header.inputs = files
    if folder is not None:
        jsonio.write_atomic(folder / "fairness.md", report.render("md") + "\n")
        jsonio.write_atomic(folder / "fairness.json", report.render("json") + "\n")
        report.summary.append(f"written: {folder / 'fairness.md'} and fairness.json")
    emit(report, form, out)
    require(report.extra["verdict"], wanted, known=("pass", "fail", "unknown"))


@command.command(cls=_NamedFiles)
@_side_options
@click.option("--metric", help="The figure that decides (default: the contract's, else output_token_throughput).")
@click.option(
    "--threshold",
    type=Finite(0.0, 50.0, min_open=True),
    help="Noise threshold in percent (default 1).",
)
@click.option("--sla", help="Limits such as max_p50_ttft_ms=200,min_success_rate=1 (default: the contract's).")
@click.option("--scenario-key", help="A row field or driver key that names the scenario.")
@click.option(
    "--launch-per",
    type=click.Choice(["file", "row"]),
    default="file",
    show_default=True,
    help="What counts as one server launch, where rows do not say.",
)
@click.option("--html", type=_FILES, help="Write a page with the tables and the plot.")
@click.option("--svg", type=_FILES, help="Write the plot: runs, intervals, threshold band.")
@click.option(
    "--require",
    "wanted",
    help="Exit 4 unless the verdict over all scenarios is one of these, and one to build on (under a locked contract).",
)
@format_options
@click.pass_context
def gap(
    ctx: click.Context,
    tool: str,
    contract: Path | None,
    rows: Path | None,
    server_args: tuple[str, ...],
    server_log: tuple[str, ...],
    help_snapshot: tuple[str, ...],
    metric: str | None,
    threshold: float | None,
    sla: str | None,
    scenario_key: str | None,
    launch_per: str,
    html: Path | None,
    svg: Path | None,
    wanted: str | None,
    form: str,
    out: Path | None,
) -> None:
    """Is the target behind? A verdict a scenario from paired launches, with what is missing where it cannot be said.

    Verdicts: behind, ahead, tie, not_behind, inconclusive, sla_fail, void_fairness, void_workload, void_interference,
    insufficient. Looks are taken at 5, 8 and 12 pairs only.
    """
    from infer_forge.bench import evidence, gap_pair, gap_plot
    from infer_forge.bench import gap as library
    from infer_forge.bench.contracts_in import locked as locked_contract

    locked, hash_ = locked_contract(contract)
    sides, target, files = _sides(ctx, _own_rows(ctx, contract, rows), hash_, locked.target if locked else None, tool)
    evidence.apply(sides, _evidence(server_args, server_log, help_snapshot))
    request = library.request_of(
        sides,
        target,
        locked,
        hash_,
        metric=metric,
        threshold_pct=threshold,
        sla=sla,
        scenario_key=scenario_key,
        launch_per=launch_per,
    )
    request.inputs = files
    result = library.decide_gap(request)
    report = library.gap_report(result)
    if svg is not None:
        gap_plot.write_svg(result, svg)
        report.summary.append(f"written: {svg}")
    if html is not None:
        gap_plot.write_html(result, report, html)
        report.summary.append(f"written: {html}")
    emit(report, form, out)
    require(report.extra["overall"]["verdict"], wanted, known=gap_pair.VERDICTS)
    library.require_decision(result, wanted)
