"""Find `infer-forge ...` commands in texts and hold them against the real command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from infer_forge.cli.main import COMMANDS, cli

_FENCE = re.compile(r"```[a-z]*\n(.*?)```", re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_INDENTED = re.compile(r"^ {4,}(?:\$ )?(infer-forge .+)$", re.MULTILINE)
_ITEM = re.compile(r"^- (infer-forge .+)$", re.MULTILINE)
_ENDS = re.compile(r"\s(?:\||&&|;|>|#)\s?|\s(?:->|→)\s")
_PLACEHOLDER = re.compile(r"[A-Z][A-Z0-9_]*|\.\.\.|…|<.*>|\[.*|.*\]|\{.*\}")


def commands_in(text: str) -> Iterator[str]:
    """Every `infer-forge ...` command line in code blocks (fenced or indented), inline code and list items of a Markdown text."""
    for block in _FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            stripped = line.strip().removeprefix("$ ")
            if stripped.startswith("infer-forge "):
                yield stripped
    plain = _FENCE.sub("", text)
    yield from (line.strip() for line in _INDENTED.findall(plain.replace("\\\n", " ")))
    for code in _INLINE.findall(plain):
        if code.startswith("infer-forge "):
            yield code
    yield from _ITEM.findall(text)


def fault(command: str) -> str | None:
    """What is wrong with a command line: an unknown command, subcommand or flag; None when all of them exist."""
    words = _words(_ENDS.split(command)[0])
    if len(words) < 2 or words[1].startswith("-"):
        return None
    if words[1] not in COMMANDS:
        return None if _PLACEHOLDER.fullmatch(words[1]) else f"no command {words[1]!r}"
    current: click.Command = cli
    context = click.Context(cli)
    rest = words[1:]
    while rest and isinstance(current, click.Group):
        if rest[0].startswith("-"):
            break
        names = [n for n in rest[0].split("|") if n]
        found = [current.get_command(context, n) for n in names]
        if None in found:
            return (
                None
                if _PLACEHOLDER.fullmatch(rest[0])
                else f"{current.name or 'infer-forge'} has no subcommand {rest[0]!r}"
            )
        if len(found) > 1:
            return None
        current = found[0] or current
        rest = rest[1:]
    return _flag_fault(current, rest)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _flag_fault(command: click.Command, words: list[str]) -> str | None:
    """An option that the command does not have."""
    known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)} | {"--help", "-h"}
    if type(command) is not click.Command:  # a command that parses words of its own: its help page names them
        known |= set(re.findall(r"--[a-z][a-z0-9-]*", command.get_help(click.Context(command))))
    for word in words:
        if word == "--":
            return None
        flag = word.lstrip("[").rstrip("],.").split("=")[0]
        if flag.startswith("--") and flag not in known and "|" not in flag:
            return f"{command.name} has no option {flag}"
    return None


def faults_in(path: Path) -> list[str]:
    """All wrong commands of one file, as `FILE: COMMAND: what is wrong`."""
    text = path.read_text(encoding="utf-8")
    found = ((c, fault(c)) for c in commands_in(text))
    return [f"{path}: `{c}`: {why}" for c, why in found if why]
