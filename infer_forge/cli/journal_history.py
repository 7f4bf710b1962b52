"""`infer-forge journal history`: pull requests of a checkout as cards, and questions to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import click

from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault
from infer_forge.base.records import Header, InputFile, Report
from infer_forge.cli.common import emit, format_options, report_command
from infer_forge.cli.given_path import GivenPath

_PATH = GivenPath(path_type=Path, exists=True)


@click.group("history", no_args_is_help=True)
def command() -> None:
    """Pull requests of a git checkout as cards: build, query, show, check notes."""


@command.command("build")
@click.argument("repo", type=_PATH)
@click.option("--families", type=_PATH, help="YAML of model families; the shipped one without it.")
@click.option("--pulls", type=_PATH, help="Saved API output (JSON list or lines) with open and closed pull requests.")
@click.option("--framework", help="Whose repository it is; told from its folders without it.")
@click.option("--ref", default="HEAD", show_default=True, help="Branch or commit whose history is read.")
@report_command
def build(repo: Path, families: Path | None, pulls: Path | None, framework: str | None, ref: str) -> Report:
    """Read a checkout's history into cards: everything at first, then what is new."""
    from infer_forge.journal import build_history

    return build_history(repo, families, pulls=pulls, framework=framework, ref=ref)


@command.command("query")
@click.argument("model")
@click.option("--framework", help="Only this framework's repositories.")
@click.option("--about", default="", help="Words that the cards must hold.")
@click.option("--path", help="Only cards that touch this file or folder.")
@click.option("--config", type=_PATH, help="The model's config.json: its architectures decide the family.")
@click.option("--families", type=_PATH, help="YAML of model families; the shipped one without it.")
@click.option("--limit", type=click.IntRange(1, 200), default=10, show_default=True, help="Cards at the most.")
@report_command
def query(
    model: str,
    framework: str | None,
    about: str,
    path: str | None,
    config: Path | None,
    families: Path | None,
    limit: int,
) -> Report:
    """The pull requests that matter for a model id, an architecture or a family, with notes to keep."""
    from infer_forge.journal import query_history

    return query_history(
        model, framework=framework, about=about, path=path, config=config, families_file=families, limit=limit
    )


@command.command("show")
@click.argument("card", metavar="REPOSITORY#NUMBER")
@report_command
def show(card: str) -> Report:
    """One pull request in full, for example sglang#23954 or sgl-project/sglang#23954."""
    from infer_forge.journal import show_card

    repo, mark, number = card.rpartition("#")
    if not mark or not (number.isascii() and number.isdigit()) or len(number) > 18:
        raise UsageFault(f"{card!r} is no REPOSITORY#NUMBER", next_step="infer-forge journal history list")
    return show_card(repo, int(number))


@command.command("list")
@report_command
def list_() -> Report:
    """The repositories whose history is here."""
    from infer_forge.journal import list_history

    return list_history()


@command.command("check-notes")
@click.argument("file", type=_PATH)
@format_options
def check_notes_(file: Path, form: str, out: Path | None) -> None:
    """Check a JSON file of notes (a list, or an object with `notes`): every field, full commits, open ones never told as
    present, no figure in a decision without its record or author.

    Exit code 4 when a note is not acceptable.
    """
    from infer_forge.base import jsonio
    from infer_forge.journal import check_notes

    data: Any = jsonio.read_json(file)
    found: Any = cast("dict[str, Any]", data).get("notes") if isinstance(data, dict) else data
    if not isinstance(found, list) or not all(isinstance(n, dict) for n in cast("list[Any]", found)):
        raise InputUnusable("holds no list of notes", where=str(file))
    notes = cast("list[dict[str, Any]]", found)
    blocker: Any = cast("dict[str, Any]", data).get("blocker") if isinstance(data, dict) else None
    if not notes and not str(blocker or "").strip():
        raise InputUnusable(
            "holds no note", where=str(file), next_step="say under `blocker` what was tried and what was missing (A50)"
        )
    report = Report("journal_history_notes", Header(inputs=[InputFile.of(file)]))
    report.findings = check_notes(notes)
    report.extra = {"ok": not report.findings, "notes_checked": len(notes)}
    report.summary = [f"{len(notes)} notes, {len(report.findings)} faults"] + (
        [f"blocker: {blocker}"] if blocker else []
    )
    report.next_step = "mend the notes" if report.findings else "keep the notes file with the run"
    emit(report, form, out)
    if report.findings:
        raise GateRefused(f"{len(report.findings)} faults in the notes", where=str(file))
