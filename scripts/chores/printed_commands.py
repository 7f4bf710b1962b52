"""Find the `infer-forge ...` commands that the library prints (next steps, findings) and hold them against click."""

from __future__ import annotations

import ast
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from chores import ROOT
from infer_forge.cli.main import COMMANDS, cli

VALUE = "VALUE"
"""Stands for what a text fills in when it is printed."""
_PROGRAM = re.compile(r"infer-forge (?=[a-z])")
_ENDS = re.compile(r"[;:]\s|,\s|\.\s|\s\(|\)|`|\n|\s#\s|\s(?:&&|\||>)\s|[.,;:]$")
_PROSE = re.compile(r"[a-z]+(?:'s)?")
_CHOICES = 8


def commands_of(file: Path) -> Iterator[tuple[int, str]]:
    """(line, command) of every command that a string of a Python file holds; docstrings speak to readers and are left out."""
    source = file.read_text(encoding="utf-8")
    if "infer-forge " not in source:
        return
    tree = ast.parse(source)
    skipped = {id(text) for node in ast.walk(tree) for text in _docstrings(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in ast.walk(node) if part is not node}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and id(node) not in skipped:
            for text in dict.fromkeys(_texts(node)):
                for match in _PROGRAM.finditer(text):
                    if match.start() and text[match.end() :].split()[0] not in COMMANDS:
                        continue  # a sentence about infer-forge
                    yield node.lineno, _ENDS.split(text[match.start() :])[0].split(" infer-forge ")[0]


def _docstrings(node: ast.AST) -> Iterator[ast.AST]:
    """The string expressions that stand as statements."""
    if isinstance(node, ast.Expr) and isinstance(node.value, (ast.Constant, ast.JoinedStr)):
        yield from ast.walk(node.value)


def _texts(node: ast.expr) -> list[str]:
    """What a string may read: a choice between constants is followed both ways, everything else becomes `VALUE`."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else [VALUE]
    if isinstance(node, ast.JoinedStr):
        parts = [_texts(v.value if isinstance(v, ast.FormattedValue) else v) for v in node.values]
        return ["".join(way) for way in itertools.islice(itertools.product(*parts), _CHOICES)]
    if isinstance(node, ast.IfExp):
        return [*_texts(node.body), *_texts(node.orelse)]
    return [VALUE]


def lacking(command: str) -> str | None:
    """Why a printed command cannot be typed as it stands (placeholders filled in); None when it can.

    Words of plain lower-case letters behind a command are prose (`infer-forge task list shows them`) and end it.
    """
    words = _words(command)[1:]
    if words[0] not in COMMANDS:
        return f"there is no command {words[0]!r}"
    current: click.Command = cli
    while words and isinstance(current, click.Group):
        found = current.get_command(click.Context(current), words[0])
        if found is None:
            break
        current, words = found, words[1:]
    if "--help" in words:
        return None
    if isinstance(current, click.Group):
        if words and words[0] != VALUE and not _PROSE.fullmatch(words[0]):
            return f"{current.name} has no subcommand {words[0]!r}"
        return None  # its help names the subcommands
    return _unfit(current, words)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _unfit(command: click.Command, words: list[str]) -> str | None:
    """An option that the command does not have, or a required one or an operand that is not there."""
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    options = {o: p for p in command.params if isinstance(p, click.Option) for o in (*p.opts, *p.secondary_opts)}
    given, operands = set[str | None](), 0
    rest = iter(words)
    for word in rest:
        name = word.split("=")[0]
        if word == "--":
            operands += len(list(rest))
        elif name in options:
            given.add(options[name].name)
            takes = 0 if options[name].is_flag or options[name].count or "=" in word else options[name].nargs
            if len(list(itertools.islice(rest, takes))) < takes:
                return f"{name} has no value"
        elif name.startswith("--"):
            if type(command) is click.Command:
                return f"{command.name} has no option {name}"
        elif _PROSE.fullmatch(word) and not _chosen(arguments[operands : operands + 1], word):
            break
        else:
            operands += 1
    required = [p.opts[0] for p in command.params if p.required and isinstance(p, click.Option) and p.name not in given]
    if required:
        return f"lacks {', '.join(required)}"
    wanted = sum(max(p.nargs, 1) for p in arguments if p.required)
    return f"lacks operands: {operands} of {wanted}" if operands < wanted else None


def _chosen(argument: list[click.Argument], word: str) -> bool:
    """Whether a word is one of those that the operand may be."""
    kind = argument[0].type if argument else None
    return isinstance(kind, click.Choice) and word in kind.choices


def faults(*places: str) -> list[str]:
    """Every command that the Python files below these places of the checkout print and that cannot be typed.

    Each as `FILE:LINE: COMMAND: why`. A place is a folder, or the beginning of a file's name in one.
    """
    found: list[str] = []
    for place in places:
        folder = ROOT / place
        files = folder.rglob("*.py") if folder.is_dir() else folder.parent.glob(f"{folder.name}*.py")
        for file in sorted(files):
            for line, command in commands_of(file):
                if why := lacking(command):
                    found.append(f"{file.relative_to(ROOT)}:{line}: {command}: {why}")
    return found
