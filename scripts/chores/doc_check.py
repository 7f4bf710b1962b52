"""Docs are true: every `infer-forge` command and flag that a document names exists, links resolve, help texts load."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from chores import ROOT
from chores.command_words import faults_in
from infer_forge.cli.main import COMMANDS, cli

_LINK = re.compile(r"\]\(([^)#?\s]*)(?:#([^)\s]*))?\)")
_HEADING = re.compile(r"^#+ +(.*?)\s*$", re.MULTILINE)
_FOREIGN = re.compile(r"^[a-z]+:")


def documents() -> list[Path]:
    """README, AGENTS, docs, skills, playbooks, prompts."""
    found = [ROOT / "README.md", ROOT / "AGENTS.md"]
    for folder in ("docs", "skills", "playbooks", "prompts", "references"):
        found += sorted((ROOT / folder).rglob("*.md"))
    return found


def broken_links(path: Path) -> list[str]:
    """Links to files, and to headings of Markdown files, that are not there."""
    faults: list[str] = []
    for target, anchor in _LINK.findall(path.read_text(encoding="utf-8")):
        file = path.parent / target if target else path
        if _FOREIGN.match(target):
            continue
        if not file.exists():
            faults.append(f"{path}: link to {target}: no such file")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            faults.append(f"{path}: link to {target}#{anchor}: no such heading")
    return faults


def anchors(path: Path) -> set[str]:
    """The names under which a page's headings are linked: lower case, words joined by hyphens, other signs left out."""
    headings = _HEADING.findall(path.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def silent_commands(command: click.Command, name: str) -> list[str]:
    """Commands, subcommands and options without a help text."""
    faults = [] if command.help else [f"{name}: no help text"]
    faults += [
        f"{name} {p.opts[0]}: no help text" for p in command.params if isinstance(p, click.Option) and not p.help
    ]
    if isinstance(command, click.Group):
        for sub, child in command.commands.items():
            faults += silent_commands(child, f"{name} {sub}")
    return faults


def main() -> None:
    """Print every fault; exit 1 when there is one."""
    faults = [f for path in documents() for f in (*faults_in(path), *broken_links(path))]
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        faults += silent_commands(command, name) if command else [f"{name}: cannot be loaded"]
    print("\n".join(faults) or f"{len(documents())} documents, {len(COMMANDS)} commands: all true")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
