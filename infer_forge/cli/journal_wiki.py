"""`infer-forge journal wiki`: the journal's linked pages."""

from __future__ import annotations

from pathlib import Path

import click

from infer_forge.base.errors import GateRefused
from infer_forge.base.records import Report
from infer_forge.cli.common import emit, format_options, report_command
from infer_forge.cli.given_path import GivenPath


@click.group("wiki", no_args_is_help=True)
def command() -> None:
    """The journal as linked pages, made from its records only: build, lint, serve."""


@command.command("build")
@click.option("--folder", type=GivenPath(path_type=Path, file_okay=False), help="Where; in the cache without it.")
@click.option("--html", "html_site", is_flag=True, help="A static site with a search box, not Markdown.")
@report_command
def build(folder: Path | None, html_site: bool) -> Report:
    """Write a page for each model, GPU, kernel family, framework and record, linked both ways."""
    from infer_forge.journal import build_wiki, open_store

    with open_store() as store:
        return build_wiki(store, folder, html_site=html_site)


@command.command("lint")
@click.option("--folder", type=GivenPath(path_type=Path, exists=True, file_okay=False), help="The wiki's folder.")
@format_options
def lint(folder: Path | None, form: str, out: Path | None) -> None:
    """Stale pages, unsourced claims, orphans, contradicting metrics at one deployment point. Exit code 4 on a serious fault."""
    from infer_forge.journal import lint_wiki, open_store

    with open_store() as store:
        report = lint_wiki(store, folder)
    emit(report, form, out)
    if not report.extra["ok"]:
        raise GateRefused(report.summary[0], next_step=report.next_step)


@command.command("serve")
@click.option("--folder", type=GivenPath(path_type=Path, exists=True, file_okay=False), help="A built wiki.")
@click.option("--html/--markdown", "html_site", default=True, show_default=True, help="Which one, without --folder.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8737, show_default=True, help="Port; 0 takes a free one."
)
def serve(folder: Path | None, html_site: bool, port: int) -> None:
    """Build the wiki anew (without --folder) and serve it on this machine until stopped."""
    from infer_forge.journal import build_wiki, open_store
    from infer_forge.journal.wiki_site import web_server, wiki_folder

    if folder is None:
        with open_store() as store:
            build_wiki(store, html_site=html_site)
    with web_server(folder or wiki_folder(html_site), port) as server:
        click.echo(f"http://127.0.0.1:{server.server_address[1]}/index.html", err=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("stopped", err=True)
