"""What the sources of both sides say: compile flags, fast intrinsics, signatures, and what a kernel has no business with."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable
from infer_forge.kernel_task.folder import files_of
from infer_forge.kernel_task.rules import data

_SOURCES = (".py", ".cu", ".cuh", ".cpp", ".cc", ".c", ".h", ".hpp", ".hip", ".metal", ".triton", ".ptx")
_FLAG_KEYS = (
    "extra_cuda_cflags",
    "extra_cflags",
    "extra_cuda_flags",
    "extra_compile_args",
    "extra_ldflags",
    "nvcc_flags",
)


def normal_flag(flag: str) -> str:
    """One spelling of a flag: `--use_fast_math` and `-use_fast_math`, `--fmad=false` and `-fmad=false` are the same."""
    return f"-{flag.lstrip('-')}" if flag.startswith("--") else flag


def flags_of(folder: Path, patterns: Sequence[str]) -> set[str]:
    """Compile flags that the build files of one side use.

    Raises:
        InputUnusable: a build file that is JSON cannot be read.
    """
    found: set[str] = set()
    for file in files_of(folder, patterns):
        if file.name == "compile_commands.json":
            found |= _compile_commands(file)
        elif file.suffix == ".ninja":
            found |= _ninja(file.read_text("utf-8", "replace"))
        elif file.suffix == ".py":
            found |= _python_flags(file.read_text("utf-8", "replace"))
    ignored = tuple(data()["ignored_flags"])
    return {f for f in map(normal_flag, found) if f.startswith("-") and not _prefixed(f, ignored)}


def _prefixed(flag: str, prefixes: Iterable[str]) -> bool:
    name = flag.split("=")[0]
    short = [p for p in prefixes if len(p) == 2]
    return name in prefixes or any(flag.startswith(p) for p in short if p not in ("-c", "-o", "-g", "-v", "-x"))


def _compile_commands(file: Path) -> set[str]:
    entries = jsonio.read_json(file)
    if not isinstance(entries, list):
        raise InputUnusable("is no compilation database", where=str(file))
    out: set[str] = set()
    for entry in cast("list[Any]", entries):
        if isinstance(entry, dict):
            item = cast("dict[str, Any]", entry)
            words = item.get("arguments")
            out |= (
                set(map(str, cast("list[Any]", words)))
                if isinstance(words, list)
                else set(_words(str(item.get("command", ""))))
            )
    return out


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _ninja(text: str) -> set[str]:
    out: set[str] = set()
    for line in text.splitlines():
        name, sep, value = line.partition("=")
        if sep and ("flags" in name.lower() or name.strip() == "command"):
            out |= set(_words(value))
    return out


def _python_flags(text: str) -> set[str]:
    """Strings in the flag arguments of `load(...)`, `CUDAExtension(...)` and the like."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    out: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in _FLAG_KEYS:
            out |= {s for s in _strings(node.value) if s.startswith("-")}
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and "flag" in t.id.lower() for t in node.targets
        ):
            out |= {s for s in _strings(node.value) if s.startswith("-")}
    return out


def _strings(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield from _words(inner.value)


def flag_differences(baseline: set[str], candidate: set[str]) -> tuple[list[str], list[str]]:
    """One-sided flags: those that change numbers or speed, and the others; each with its side."""
    denied = tuple(data()["denied_flags"])
    bad: list[str] = []
    other: list[str] = []
    for flag in sorted(baseline ^ candidate):
        side = "candidate" if flag in candidate else "baseline"
        (bad if flag.startswith(denied) else other).append(f"{flag} ({side} only)")
    return bad, other


def source_files(folder: Path, entry: str, patterns: Sequence[str] = ()) -> list[Path]:
    """Source files of a side: the entry's file, its folder of the same name, and further patterns."""
    name = entry.partition(":")[0]
    stem = Path(name).stem
    found = files_of(folder, [name, f"{stem}/**/*", *patterns])
    return [p for p in found if p.suffix in _SOURCES]


def text_of(files: Iterable[Path]) -> str:
    """Source text without comments, so that a word in a comment accuses nobody."""
    return "\n".join(_uncommented(p.read_text("utf-8", "replace"), p.suffix) for p in files)


def _uncommented(text: str, suffix: str) -> str:
    if suffix == ".py":
        without = re.sub(r'(?s)"""(?!,).*?"""', '""', text)
        return re.sub(r"(?m)(^|\s)#.*$", r"\1", without)
    return re.sub(r"(?s)/\*.*?\*/", " ", re.sub(r"//[^\n]*", "", text))


def hits(text: str, group: str) -> list[str]:
    """What a group of patterns of the rule file finds, once each."""
    found: dict[str, None] = {}
    for pattern in data()[group]:
        for match in re.finditer(pattern, text):
            found.setdefault(match[0], None)
    return list(found)


def signature(folder: Path, entry: str) -> list[str] | None:
    """Parameters of a Python kernel (names, order, kinds, whether they have a default); None when it is not found there."""
    name, _, function = entry.partition(":")
    try:
        tree = ast.parse((folder / name).read_text("utf-8", "replace"))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == function:
            a = node.args
            plain = [*a.posonlyargs, *a.args]
            defaults = len(plain) - len(a.defaults)
            out = [f"{x.arg}{'=' if i >= defaults else ''}" for i, x in enumerate(plain)]
            out += [f"*{a.vararg.arg}"] if a.vararg else []
            out += [f"{x.arg} (keyword)" for x in a.kwonlyargs]
            return out + ([f"**{a.kwarg.arg}"] if a.kwarg else [])
    return None


def exported(text: str) -> set[str]:
    """Signatures in `m.def(...)` of TORCH_LIBRARY and names in PYBIND11 modules."""
    return {re.sub(r"\s+", " ", m[1]) for m in re.finditer(r"\bm\.def\(\s*\"([^\"]+)\"", text)}
