"""Whether what a row of the requirement table names is there: a test function, a gate, a command, a heading, a check, a file.

Everything is read as text or syntax, nothing of the library is imported but the command line.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from chores import ROOT

_REASON_WORDS = 5
"""A `n/a` is argued in a sentence: so many words at the least."""


@cache
def tests_of(path: Path) -> dict[str, str]:
    """Test functions of a file, those of its classes too: name -> source."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    found = (n for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return {n.name: "\n".join(lines[n.lineno - 1 : n.end_lineno]) for n in found if n.name.startswith("test_")}


@cache
def gates() -> frozenset[str]:
    """Ids of the campaign's gates: the first word of every `@rule(...)`."""
    found: set[str] = set()
    for file in sorted((ROOT / "infer_forge" / "campaign").glob("rules_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "rule":
                first = node.args[0] if node.args else None
                if isinstance(first, ast.Constant):
                    found.add(str(first.value))
    return frozenset(found)


@cache
def anchors(path: Path) -> frozenset[str]:
    """Anchors of the headings of a Markdown page, as GitHub makes them."""
    heads = re.findall(r"^#{1,6} +(.+?) *$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads)


def test_fault(word: str) -> str | None:
    """`path::test_name`."""
    name, _, function = word.partition("::")
    path = ROOT / name
    if not path.is_file():
        return f"{name} is not there"
    return None if function in tests_of(path) else f"{name} has no test {function}"


def source_of(word: str) -> str:
    """Source of the test `path::test_name`; empty where it is not there."""
    name, _, function = word.partition("::")
    path = ROOT / name
    return tests_of(path).get(function, "") if path.is_file() else ""


def gate_fault(word: str) -> str | None:
    """A gate of `campaign check`."""
    return None if word in gates() else f"no gate {word}"


def command_fault(word: str) -> str | None:
    """A command line, its options too."""
    from chores.command_words import fault

    return fault(f"infer-forge {word}")


def check_fault(word: str) -> str | None:
    """A step of `scripts/check`."""
    from chores.check import STEPS

    return None if word in STEPS else f"scripts/check has no step {word}"


def reason_fault(word: str) -> str | None:
    """Why a row does not apply."""
    return None if len(word.split()) >= _REASON_WORDS else "n/a without a reason"


def place_fault(word: str) -> str | None:
    """A file, or a heading of a page as `PAGE.md#anchor`; a whole file of tests says nothing of a row."""
    name, _, anchor = word.partition("#")
    path = ROOT / name
    if not path.exists():
        return f"{name} is not there"
    if name.startswith("tests/"):
        return f"{name} is a whole file of tests: name the one that would fail"
    return None if not anchor or anchor in anchors(path) else f"{name} has no heading #{anchor}"
