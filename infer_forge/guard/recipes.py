"""Recipes: make, just and the scripts of package.json are read and checked like scripts, where they can be read."""

from __future__ import annotations

import os
import re
from typing import Any

from infer_forge.guard.model import Cmd, Word
from infer_forge.guard.output import read_file

# GNU make manual, "Variables Used by Implicit Rules"
_MAKE_DEFAULTS = {
    "MAKE": "make",
    "CC": "cc",
    "CXX": "g++",
    "CPP": "cc -E",
    "AR": "ar",
    "AS": "as",
    "LD": "ld",
    "FC": "f77",
    "RM": "rm -f",
    "CURDIR": ".",
    "SHELL": "/bin/sh",
    **dict.fromkeys(("CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "LDLIBS"), ""),
}


def make(cmd: Cmd, walk: Any) -> None:
    """make and just: a recipe that can be read is checked like a script; one that cannot is asked about."""
    words = cmd.argv
    texts = cmd.words()
    if any(
        t in ("-n", "--dry-run", "--just-print", "--version", "-v", "--help", "-h", "--list", "-l", "-p", "-q")
        for t in texts[1:]
    ):
        return
    folder = None
    file = None
    targets: list[str] = []
    variables: dict[str, str] = {}
    i = 1
    while i < len(words):
        text = texts[i]
        if text in (
            "-C",
            "--directory",
            "-f",
            "--file",
            "--makefile",
            "-I",
            "-o",
            "-W",
            "-d",
            "--justfile",
        ) and i + 1 < len(words):
            if text in ("-C", "--directory", "-d"):
                folder = words[i + 1]
            elif text in ("-f", "--file", "--makefile", "--justfile"):
                file = words[i + 1]
            i += 2
            continue
        if text == "-j" and i + 1 < len(words) and texts[i + 1].isdigit():
            i += 2
            continue
        if re.match(r"^\w+[:?+]?=", text):
            key, _, value = text.partition("=")
            variables[key.rstrip(":?+")] = value
        elif not text.startswith("-"):
            targets.append(text)
        i += 1
    from infer_forge.guard.shells import moved

    cwds = moved(cmd.cwds, folder) if folder else cmd.cwds
    names = (
        [file]
        if file
        else [
            Word(n)
            for n in (
                ("justfile", "Justfile", ".justfile") if cmd.name == "just" else ("GNUmakefile", "makefile", "Makefile")
            )
        ]
    )
    content = next((c for c in (read_file(n, cwds, walk.shell.notes) for n in names) if c is not None), None)
    if content is None or cmd.place.node or cmd.place.container:
        walk.shell.problem(
            f"the recipe of {cmd.name} {' '.join(targets)} cannot be read here, so what it does is not known".replace(
                "  ", " "
            ),
            cmd.span,
        )
        return
    if "SHELL" in variables:
        walk.nested(variables["SHELL"], cmd, "make SHELL", stdin=None)
    _recipes(content, targets, variables, cmd, walk, cwds)


def _recipes(
    content: str, targets: list[str], variables: dict[str, str], cmd: Cmd, walk: Any, cwds: tuple[str | None, ...]
) -> None:
    content = content.replace("\\\n", " ")
    rules: dict[str, tuple[list[str], list[str]]] = {}
    current: list[str] = []
    first = ""
    for line in content.split("\n"):
        assigned = re.match(r"^(?:export\s+|override\s+)?(\w+)\s*(?::{1,3}|\?|\+)?=\s*(.*)$", line)
        if line.startswith("\t") or (cmd.name == "just" and line.startswith("  ")):
            for name in current:
                rules[name][1].append(line.strip())
        elif assigned:
            variables.setdefault(assigned.group(1), assigned.group(2))
        elif re.match(r"^[^\s#=][^=]*::?(?!=)", line):
            head, _, rest = line.partition(":")
            needs, _, inline = rest.lstrip(":").partition(";")
            current = head.split()
            for name in current:
                kept = rules.setdefault(name, ([], []))
                kept[0].extend(needs.split())
                kept[1].extend([inline.strip()] if inline.strip() else [])
            if not first and not head.startswith("."):
                first = current[0]
    wanted, seen = list(targets or ([first] if first else [])), set[str]()
    lines: list[str] = []
    while wanted and len(seen) < 200:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        entry = rules.get(name) or next(
            (
                r
                for pattern, r in rules.items()
                if "%" in pattern and re.fullmatch(re.escape(pattern).replace("%", ".+"), name)
            ),
            None,
        )
        if entry is None:
            if name in targets and not os.path.exists(os.path.join(cwds[0] or "/", name)):
                walk.shell.problem(f"the recipe of {name} is not in the file that can be read", cmd.span)
            continue
        wanted += entry[0]
        lines += entry[1]
    _check_recipe(lines, variables, cmd, walk, cwds)


def _check_recipe(
    lines: list[str], variables: dict[str, str], cmd: Cmd, walk: Any, cwds: tuple[str | None, ...]
) -> None:
    def value(match: re.Match[str]) -> str:
        name = match.group(1) or match.group(2) or match.group(3)
        if name in variables:
            return variables[name]
        return _MAKE_DEFAULTS.get(name, "${__unknown}")

    scope = walk.scope.copy()
    scope.cwds = cwds
    text: list[str] = []
    for line in lines:
        body = line.lstrip("@-+ ")
        for _ in range(4):
            body = re.sub(r"\$\((\w+)\)|\$\{(\w+)\}|\$([@<^*?])", value, body)
        body = re.sub(
            r"\$\((?:shell|wildcard|patsubst|addprefix|subst|notdir|filter|foreach|if|info|warning|error)\b[^)]*\)",
            "${__unknown}",
            body,
        )
        body = re.sub(r"\{\{\s*(\w+)[^}]*\}\}", lambda m: variables.get(m.group(1), "${__unknown}"), body)
        text.append(body.replace("$$", "$"))
    if text:
        walk.shell.in_file += 1
        walk.nested("\n".join(text), cmd, cmd.name, scope=scope, stdin=None)
        walk.shell.in_file -= 1


def npx(cmd: Cmd, walk: Any) -> None:
    """`npx -c CODE` is code for a shell; any other npx is a runner like `uv run`."""
    from infer_forge.guard.unwrap import launcher

    if not _called(cmd, walk):
        launcher(cmd, walk)


def _called(cmd: Cmd, walk: Any) -> bool:
    for i, word in enumerate(cmd.argv[1:], 1):
        if word.text in ("-c", "--call") and i + 1 < len(cmd.argv):
            walk.nested(cmd.argv[i + 1].raw, cmd, f"{cmd.name} -c", stdin=None)
            return True
        if word.text.startswith("--call="):
            walk.nested(word.cut(7).raw, cmd, f"{cmd.name} -c", stdin=None)
            return True
    return False


def npm(cmd: Cmd, walk: Any) -> None:
    """`npm run NAME`: the script's text from package.json, when it can be read; `npm exec -- CMD`."""
    import json

    if any(t in ("exec", "x") for t in cmd.words()[1:3]) and _called(cmd, walk):
        return
    texts = [t for t in cmd.words()[1:] if not t.startswith("-")]
    if not texts:
        return
    verb = texts[0]
    if any(t.split("=", 1)[0] == "script-shell" for t in texts[1:]):
        walk.shell.problem(f"{cmd.name} gets another shell for its scripts", cmd.span)
    if verb in ("exec", "x", "dlx"):
        rest = cmd.argv[cmd.words().index(verb) + 1 :]
        rest = [w for w in rest if w.text != "--"]
        if rest:
            walk.emit(cmd.inner(rest, f"{cmd.name} {verb}"))
        return
    name = texts[1] if verb in ("run", "run-script") and len(texts) > 1 else verb
    content = read_file(Word("package.json"), cmd.cwds, walk.shell.notes)
    if content is None or verb in ("install", "ci", "add", "i"):
        return
    try:
        scripts = json.loads(content).get("scripts", {})
    except (ValueError, AttributeError):
        return
    if isinstance(scripts, dict) and isinstance(scripts.get(name), str):  # pyright: ignore[reportUnknownMemberType]
        walk.shell.in_file += 1
        walk.nested(scripts[name], cmd, f"{cmd.name} run {name}", stdin=None)  # pyright: ignore[reportUnknownArgumentType]
        walk.shell.in_file -= 1
