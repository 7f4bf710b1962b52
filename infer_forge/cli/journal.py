"""`infer-forge journal`: evidence across tasks."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import click

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.inputs import apart, finite
from infer_forge.base.records import Report
from infer_forge.cli.common import emit, format_options, report_command
from infer_forge.cli.given_path import GivenPath
from infer_forge.journal.dimensions import FILTERS

_HELP = {
    "date": "Only records of this year, month or day (YYYY, YYYY-MM, YYYY-MM-DD); repeatable.",
    "claim": "Only kernel_task or model_e2e claims; repeatable.",
    "contract": "Only records under the contract with this sha256; repeatable.",
}


def filter_options(function: Any) -> Any:
    """Add one option a dimension, each may be repeated (alternatives), and `--since`."""
    for dim in reversed(FILTERS):
        name = dim.replace("_", "-")
        told = _HELP.get(dim, f"Only records with this {name}; repeatable.")
        function = click.option(f"--{name}", multiple=True, help=told)(function)
    return click.option("--since", help="Only records from this date on (YYYY-MM-DD).")(function)


def _filters(chosen: dict[str, Any]) -> dict[str, list[str]]:
    return {dim: list(chosen[dim]) for dim in FILTERS if chosen[dim]}


@click.group(no_args_is_help=True)
def command() -> None:
    """Evidence across tasks: add, search, filter, compare, wiki, pull-request history."""


@command.command("add")
@click.argument("file", type=GivenPath(path_type=Path), required=False)
@click.option("--kind", help="Kind of record: note, pitfall, result, rejection, crash_case, ...")
@click.option("--title", help="Title of the record.")
@click.option("--body", default="", help="Text of the record.")
@click.option("--dim", "dims", multiple=True, metavar="DIM=VALUE", help="A dimension and its value; may be repeated.")
@click.option(
    "--artifact",
    "artifacts",
    multiple=True,
    type=GivenPath(path_type=Path),
    help="A file that it stands on; repeatable.",
)
@report_command
def add(
    file: Path | None,
    kind: str | None,
    title: str | None,
    body: str,
    dims: tuple[str, ...],
    artifacts: tuple[Path, ...],
) -> Report:
    """Add a record: a Markdown FILE with front matter (- for standard input), or --kind, --title, --body and --dim.

    A record never changes afterwards; a correction is a new record that supersedes. Secrets are masked.
    """
    from infer_forge.journal import markdown, open_store, record_report

    if file is not None:
        text = sys.stdin.read() if str(file) == "-" else _text(file)
        head, told = markdown.split(text, str(file))
        fields: dict[str, Any] = {**head, "body": told, "id": ""}
    elif kind and title:
        fields = {"kind": kind, "title": title, "body": body}
    else:
        raise UsageFault("name a file, or give --kind and --title", next_step="infer-forge journal add --help")
    fields["dims"] = {**(fields.get("dims") or {}), **_pairs(dims)}
    with open_store() as opened:
        return record_report(opened, fields, artifacts)


def _text(file: Path) -> str:
    try:
        return finite(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise InputUnusable(str(exc), where=str(file), next_step="name a Markdown file") from None


def _pairs(dims: tuple[str, ...]) -> dict[str, list[str]]:
    pairs: dict[str, list[str]] = {}
    for item in dims:
        name, equals, value = item.partition("=")
        if not equals:
            raise UsageFault(f"{item!r} is no DIM=VALUE", next_step="for example --dim model=qwen3-8b")
        pairs.setdefault(name, []).append(value)
    return pairs


@command.command("search")
@click.argument("query", nargs=-1, required=True)
@filter_options
@click.option("--limit", type=click.IntRange(1, 200), default=10, show_default=True, help="Hits at the most.")
@click.option(
    "--any", "any_term", is_flag=True, help="Also records that hold only some of the words, though others hold all."
)
@click.option("--superseded", is_flag=True, help="Also records that a later one supersedes.")
@report_command
def search(
    query: tuple[str, ...], limit: int, superseded: bool, any_term: bool, since: str | None, **chosen: Any
) -> Report:
    """Find records by words: filtered first, then ranked; each hit says why, and nothing is said when nothing fits."""
    from infer_forge.journal import search_report, store

    with store.open_store() as opened:
        return search_report(
            opened,
            " ".join(query),
            _filters(chosen),
            since=since,
            limit=limit,
            include_superseded=superseded,
            any_term=any_term,
        )


@command.command("filter")
@filter_options
@report_command
def filter_(since: str | None, **chosen: Any) -> Report:
    """How many records fit, and how they spread over the other dimensions: what exists, at a glance."""
    from infer_forge.journal import facet_report, store

    with store.open_store() as opened:
        return facet_report(opened, _filters(chosen), since=since)


@command.command("show")
@click.argument("record_id")
@report_command
def show(record_id: str) -> Report:
    """One record, and whether its artifacts are still what they were."""
    from infer_forge.journal import show_report, store

    with store.open_store() as opened:
        return show_report(opened, record_id)


@command.command("compare")
@click.argument("ids", nargs=-1)
@click.option(
    "--vary", help="The one dimension that may differ: framework, gpu, topology, precision, model, framework_rev."
)
@click.option(
    "--group-by",
    help="Split into groups that are comparable inside, this dimension differing; without ids all results that fit.",
)
@filter_options
@report_command
def compare(ids: tuple[str, ...], vary: str | None, group_by: str | None, since: str | None, **chosen: Any) -> Report:
    """Hold records against each other; what is not comparable gets no ratio, and the fields that differ are named.

    With --group-by and no ids the filters choose the results.
    """
    from infer_forge.journal import compare_records, group_records, group_results, store

    filters = _filters(chosen)
    if ids and (filters or since):
        raise UsageFault("ids and filters both choose the records", next_step="leave the ids or the filters away")
    if not ids and not group_by:
        raise UsageFault("no records are named", next_step="infer-forge journal compare ID ID, or --group-by DIM")
    if vary and group_by:
        raise UsageFault("--vary and --group-by exclude each other", next_step="leave one away")
    with store.open_store() as opened:
        if group_by is None:
            return compare_records(opened, ids, vary)
        by = group_by.replace("-", "_")
        return group_records(opened, ids, by) if ids else group_results(opened, by, filters, since=since)


@command.command("related")
@click.argument("record_id")
@click.option(
    "--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="Records at the most, per reason."
)
@report_command
def related(record_id: str, limit: int) -> Report:
    """Records linked with one, of the same idea, task or contract, and the closest by words."""
    from infer_forge.journal import related_records, store

    with store.open_store() as opened:
        return related_records(opened, record_id, limit)


@command.command("surface")
@click.argument("query", nargs=-1)
@click.option("--tool", "tools", multiple=True, metavar="NAME=VERSION", help="A tool in use; repeatable.")
@click.option(
    "--idea",
    "ideas",
    multiple=True,
    metavar="REPO:PATH[:SYMBOL]",
    help="A place in code that it touches; repeatable.",
)
@click.option("--deployment-point", type=GivenPath(path_type=Path), help="JSON file of the deployment point.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=5, show_default=True, help="Records at the most, per reason."
)
@report_command
def surface(
    query: tuple[str, ...], tools: tuple[str, ...], ideas: tuple[str, ...], deployment_point: Path | None, limit: int
) -> Report:
    """What work that starts should see unasked: pitfalls of its tools, the same ideas, the best known result."""
    from infer_forge.base import contracts, jsonio
    from infer_forge.journal import store, surface_records
    from infer_forge.journal.model import Idea

    versions = {n: v or None for n, _, v in (t.partition("=") for t in tools)}
    places = [i.split(":", 2) for i in ideas]
    if any(len(p) < 2 for p in places):
        raise UsageFault("an idea is REPO:PATH or REPO:PATH:SYMBOL", next_step="infer-forge journal surface --help")
    wanted = [Idea(repository=p[0], path=p[1], symbol=p[2] if len(p) > 2 else None) for p in places]
    point = contracts.point_of(jsonio.read_json(deployment_point)) if deployment_point else None
    with store.open_store() as opened:
        return surface_records(opened, point=point, tools=versions, ideas=wanted, query=" ".join(query), limit=limit)


@command.command("import")
@click.argument("folder", type=GivenPath(path_type=Path, exists=True), required=False)
@click.option(
    "--mapping", type=GivenPath(path_type=Path, exists=True), help="YAML: fields, dims, defaults; their names to ours."
)
@click.option("--pitfalls", is_flag=True, help="Write the shipped measurement pitfalls into the store.")
@click.option("--dry-run", is_flag=True, help="Say what would be imported.")
@format_options
def import_(
    folder: Path | None, mapping: Path | None, pitfalls: bool, dry_run: bool, form: str, out: Path | None
) -> None:
    """Bring in Markdown, JSON or JSONL (folder or file): a team's old notes; or, with --pitfalls, what infer-forge ships.

    What cannot be read is told, and the rest goes in. Exit code 3 when nothing of it could be read.
    """
    from infer_forge.journal import exchange, store

    if (folder is None) != pitfalls:
        raise UsageFault("name a folder, or give --pitfalls", next_step="infer-forge journal import --help")
    if out is not None:
        note = [out] if folder is not None and out.is_file() and out.resolve().is_relative_to(folder.resolve()) else []
        apart(out, [p for p in (folder, mapping, *note) if p is not None])
    with store.open_store() as opened:
        if folder is None:
            report = exchange.import_pitfalls(opened, dry_run=dry_run)
        else:
            report = exchange.import_notes(opened, folder, exchange.read_mapping(mapping), dry_run=dry_run)
    emit(report, form, out)
    refused = report.tables["refused"].rows
    if refused and not report.tables["imported"].rows:
        told = f"nothing could be imported: {len(refused)} refused, the first: {refused[0][0]}: {refused[0][1]}"
        raise InputUnusable(told, where=str(folder), next_step=report.next_step)


@command.command("export")
@click.option("--out", type=GivenPath(path_type=Path), help="File for the JSON lines; standard output without it.")
def export(out: Path | None) -> None:
    """All records as JSON lines."""
    from infer_forge.base.jsonio import write_atomic
    from infer_forge.journal import exchange, store

    faults: list[tuple[str, str]] = []
    with store.open_store() as opened:
        if out is None:
            for line in exchange.export(opened, faults):
                sys.stdout.buffer.write(line)
        else:
            write_atomic(out, b"".join(exchange.export(opened, faults)))
    for path, why in faults:
        click.echo(f"left out, since it is no record: {path}: {why}", err=True)


@command.command("sync")
@report_command
def sync() -> Report:
    """Bring records that wait here to the team's hub (setting remotes.journal), and the team's here."""
    from infer_forge.journal import store

    with store.open_store() as opened:
        return store.sync_report(opened)


@command.command("list")
@filter_options
@click.option("--limit", type=click.IntRange(1, 1000), default=30, show_default=True, help="Records at the most.")
@report_command
def list_(limit: int, since: str | None, **chosen: Any) -> Report:
    """The newest records that fit the filters."""
    from infer_forge.journal import search_report, store

    with store.open_store() as opened:
        return search_report(opened, "", _filters(chosen), since=since, limit=limit)


for _name in ("journal_wiki", "journal_history"):
    # groups of their own: wiki pages, pull-request history
    if (Path(__file__).parent / f"{_name}.py").is_file():
        command.add_command(importlib.import_module(f"infer_forge.cli.{_name}").command)
