"""Programs that a command line writes, compiles and may run at once: C, C++, CUDA, Rust and Go by what their source spells out.

Only source that stands in the same text is read (standard input, or a file that the text writes): a build of what lies
on the disk stays silent. There is no parser for each language: calls with strings and numbers become the shell command
that does the same, and what a program computes is not seen.
"""

from __future__ import annotations

import os
import re
from typing import Any

from infer_forge.guard.model import Cmd, Redirect, Word
from infer_forge.guard.output import read_file, text_of

_SOURCE = re.compile(r"\.(?:c|cc|cpp|cxx|c\+\+|cu|hip|rs|go|zig)$")
_COMMENT = re.compile(r"/\*.*?\*/|^\s*//[^\n]*$", re.DOTALL | re.MULTILINE)
_TEXT = r'"((?:[^"\\]|\\.)*)"'
_STRING = re.compile(_TEXT)
_SHELL = re.compile(r"\b(?:system|popen)\s*\(\s*" + _TEXT)
_EXEC = re.compile(r"\b(?:exec[lv]\w*|posix_spawnp?)\s*\(([^;]*)")
_COMMAND = re.compile(r"\bCommand::new\s*\(([^;]*)|\bexec\.Command\s*\(([^)]*)")
_DELETE = re.compile(
    r"\b(?:unlink|remove|rmdir|truncate|remove_all|remove_file|remove_dir|remove_dir_all|Remove|RemoveAll|Truncate)\s*\(\s*"
    + _TEXT
)
_KILL = re.compile(r"\b(?:kill|killpg|syscall\.Kill)\s*\(\s*(-?\d+)\s*,")
_WRITE = re.compile(
    rf"\bfopen\s*\(\s*{_TEXT}\s*,\s*\"[wa]|\bopen\s*\(\s*{_TEXT}\s*,[^;)]*O_(?:WRONLY|RDWR)|\bofstream\s*\w*\s*[({{]\s*{_TEXT}"
    rf"|\bFile::create\s*\(\s*{_TEXT}|\bfs::write\s*\(\s*{_TEXT}|\bos\.(?:WriteFile|Create)\s*\(\s*{_TEXT}"
)


def compiled(cmd: Cmd, walk: Any) -> None:
    """gcc, clang, nvcc, rustc, `go run` and their kin: the source that this text hands to them."""
    written: dict[str, str | None] = walk.shell.notes.get("written", {})
    sources = [word for word in cmd.argv[1:] if _SOURCE.search(word.text)]
    for word in sources:
        if os.path.normpath(word.text) in written:
            _read(read_file(word, cmd.cwds, walk.shell.notes), cmd, walk)
    if not sources and cmd.stdin is not None and any(w.text in ("-", "/dev/stdin") or "-x" in w.text for w in cmd.argv):
        _read(text_of(cmd.stdin, walk), cmd, walk)


def _read(code: str | None, cmd: Cmd, walk: Any) -> None:
    """Judge what the source spells out; what is made of a source that cannot be seen is asked about when it is run."""
    if code is None:
        out = next((w.text for i, w in enumerate(cmd.argv) if i and cmd.argv[i - 1].text == "-o"), "a.out")
        walk.shell.notes.setdefault("fetched", set()).add(os.path.normpath(out))
        return
    flat = re.sub(r'"\s*"', "", _COMMENT.sub(" ", code))
    for match in _SHELL.finditer(flat):
        walk.nested(_plain(match.group(1)), cmd, f"{cmd.name}: system", stdin=None)
    for match in _EXEC.finditer(flat):
        _run(_STRING.findall(match.group(1))[1:], cmd, walk)
    for match in _COMMAND.finditer(flat):
        _run(_STRING.findall(match.group(1) or match.group(2)), cmd, walk)
    for match in _DELETE.finditer(flat):
        words = [Word("rm"), Word("-rf"), Word(_plain(match.group(1)), quoted=True)]
        walk.emit(cmd.inner(words, f"{cmd.name}: remove", env={}, stdin=None))
    for match in _KILL.finditer(flat):
        words = [Word("kill"), Word("-9"), Word("--"), Word(match.group(1))]
        walk.emit(cmd.inner(words, f"{cmd.name}: kill", env={}, stdin=None))
    for match in _WRITE.finditer(flat):
        made = cmd.inner([Word(":")], f"{cmd.name}: write", env={}, stdin=None)
        made.redirects = [
            Redirect(">", "", Word(_plain(next(g for g in match.groups() if g is not None)), quoted=True))
        ]
        walk.emit(made)


def _run(words: list[str], cmd: Cmd, walk: Any) -> None:
    if words:
        walk.emit(cmd.inner([Word(_plain(w), quoted=True) for w in words], f"{cmd.name}: exec", env={}, stdin=None))


def _plain(text: str) -> str:
    return text.replace('\\"', '"').replace("\\\\", "\\")
