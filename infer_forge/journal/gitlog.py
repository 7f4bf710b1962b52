"""One pass over `git log -p -U0` of a checkout: commits with subject, files, lines and the symbols of their hunk headers.

With `-U0` a hunk header says exactly how many lines went and came, and git names the enclosing function after it, so that
no patch line needs to be looked at. The first-parent line is followed, and a merge is shown against its first parent:
there a squashed and a merged pull request are both one commit with the whole change
(git-log(1): `--first-parent`, `--diff-merges`).
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from infer_forge.base.errors import InputUnusable, MissingPart
from infer_forge.base.resources import data_path

_MARK = b"\0\1commit "
_FORMAT = "%x00%x01commit %H%x1f%cI%x1f%s%x1f%b%x1e"
_CHUNK = 1 << 20
_HEAD = re.compile(rb"([0-9a-f]{40,64})\x1f([^\x1f]*)\x1f([^\x1f]*)\x1f(.*?)\x1e", re.DOTALL)
# Lines of a patch that say something: all others begin with `+`, `-`, `\`, or are extended headers.
_LINE = re.compile(
    rb"^(?:diff --git (?P<names>.+)|\+\+\+ (?P<new>.+)|--- (?P<old>.+)|rename from (?P<was>.+)"
    rb"|@@ -\d+(?:,(?P<gone>\d+))? \+\d+(?:,(?P<come>\d+))? @@ ?(?P<symbol>.*))$",
    re.MULTILINE,
)
_BODY_CHARS = 2000
_MOST_SYMBOLS = 60
_OCTAL = re.compile(rb"\\([0-7]{3}|.)")
_SYMBOL_NAME = re.compile(
    r"\b(?:def|class|struct|fn|func|function|enum|namespace|interface|trait|impl)\s+([A-Za-z_]\w*(?:::\w+)*)|([A-Za-z_]\w*(?:::\w+)*)\s*\("
)


@dataclass
class FileChange:
    """One file of a commit: path after it, lines that came and went, the path before a rename."""

    path: str
    added: int = 0
    removed: int = 0
    renamed_from: str | None = None


@dataclass
class LoggedCommit:
    """One commit of the first-parent line."""

    sha: str
    time: str
    subject: str
    body: str
    files: list[FileChange] = field(default_factory=list[FileChange])
    symbols: list[str] = field(default_factory=list[str])


def git(repo: Path, *words: str) -> str:
    """Output of a git command in a checkout.

    Raises:
        InputUnusable: git says no. MissingPart: git is not installed.
    """
    try:
        done = subprocess.run(
            ["git", "-C", str(repo), *words], capture_output=True, stdin=subprocess.DEVNULL, check=False
        )
    except FileNotFoundError:
        raise MissingPart("the `git` program is not installed", next_step="install git 2.31 or later") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise InputUnusable(said[-1][:200] if said else "git failed", where=str(repo), next_step="name a git checkout")
    return done.stdout.decode("utf-8", "replace").strip()


def is_ancestor(repo: Path, old: str, new: str) -> bool:
    """Whether `old` is reached from `new` along the history."""
    words = ["git", "-C", str(repo), "merge-base", "--is-ancestor", old, new]
    return subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, check=False).returncode == 0


def commits(repo: Path, since: str | None, tip: str) -> Iterator[LoggedCommit]:
    """Commits of the first-parent line after `since` (None: all) up to `tip`, newest first, streamed.

    Raises:
        InputUnusable: git broke off.
    """
    settings = [
        "-c",
        f"core.attributesFile={data_path('references/diff_drivers.gitattributes')}",
        "-c",
        "core.quotePath=true",
        "-c",
        "log.showSignature=false",
        "-c",
        "diff.noprefix=false",
    ]
    settings += ["-c", "diff.mnemonicPrefix=false", "-c", "core.pager=cat"]
    words = [
        "git",
        "-C",
        str(repo),
        *settings,
        "log",
        "--first-parent",
        "--diff-merges=first-parent",
        "-p",
        "-U0",
        "-M",
    ]
    words += ["--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", "--no-notes"]
    words += [f"--format={_FORMAT}", f"{since}..{tip}" if since else tip, "--"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        try:
            for block in _blocks(child.stdout):
                yield from _commit(block)
            said = child.stderr.read().decode("utf-8", "replace").strip()
        except GeneratorExit:
            child.kill()
            raise
    if child.returncode:
        raise InputUnusable(said.splitlines()[-1][:200] if said else "git log broke off", where=str(repo))


def _blocks(stream: IO[bytes]) -> Iterator[bytes]:
    """The output cut at the marks, each commit whole."""
    held = bytearray()
    while chunk := stream.read(_CHUNK):
        looked = max(0, len(held) - len(_MARK))
        held += chunk
        last = held.rfind(_MARK, looked)
        if last > 0:
            yield from bytes(held[:last]).split(_MARK)
            del held[: last + len(_MARK)]
    yield from bytes(held).split(_MARK)


def _commit(block: bytes) -> Iterator[LoggedCommit]:
    head = _HEAD.match(block)
    if head is None:
        return
    sha, time, subject, body = (g.decode("utf-8", "replace") for g in head.groups())
    commit = LoggedCommit(sha, time, subject, body.strip()[:_BODY_CHARS])
    _read_patch(commit, block, head.end())
    yield commit


def _read_patch(commit: LoggedCommit, block: bytes, start: int) -> None:
    current: FileChange | None = None
    symbols: dict[str, None] = {}
    for match in _LINE.finditer(block, start):
        kind = match.lastgroup
        if kind == "symbol":
            if current is not None:
                gone, come = match["gone"], match["come"]
                current.removed += 1 if gone is None else int(gone)
                current.added += 1 if come is None else int(come)
                if match["symbol"] and len(symbols) < _MOST_SYMBOLS:
                    symbols[match["symbol"].decode("utf-8", "replace").strip()] = None
        elif kind == "names":
            current = FileChange(_path_of_names(match["names"]))
            commit.files.append(current)
        elif current is not None and not (current.added or current.removed):
            _name(current, kind, match)
    commit.symbols = list(dict.fromkeys(n for s in symbols if (n := symbol_name(s))))


def _name(current: FileChange, kind: str | None, match: re.Match[bytes]) -> None:
    """The `+++`, `---` and `rename from` lines before a file's first hunk."""
    if kind == "was":
        current.renamed_from = _unquoted(match["was"])
    elif kind == "new" and match["new"] != b"/dev/null":
        current.path = _unquoted(match["new"]).removeprefix("b/")
    elif kind == "old" and match["old"] != b"/dev/null" and not current.path:
        current.path = _unquoted(match["old"]).removeprefix("a/")


def _path_of_names(names: bytes) -> str:
    """The path in `a/X b/X`: both sides are equal but for a rename, whose `+++` line says the new one."""
    half = names[: (len(names) - 1) // 2]
    if not names.startswith(b'"') and half[2:] == names[len(half) + 3 :]:
        return half[2:].decode("utf-8", "replace")
    last = names.rsplit(b' "b/', 1) if names.endswith(b'"') else names.rsplit(b" b/", 1)
    return _unquoted(b'"' + last[-1] if names.endswith(b'"') else last[-1]) if len(last) == 2 else ""


def _unquoted(name: bytes) -> str:
    """A path as git writes it: C-quoted when it holds unusual bytes."""
    name = name.rstrip(b"\t")
    if len(name) > 1 and name.startswith(b'"') and name.endswith(b'"'):
        plain = {b"n": b"\n", b"t": b"\t"}
        name = _OCTAL.sub(lambda m: bytes([int(m[1], 8)]) if len(m[1]) == 3 else plain.get(m[1], m[1]), name[1:-1])
    return name.decode("utf-8", "replace")


def symbol_name(header: str) -> str | None:
    """The name in what git puts after a hunk header: `def forward(self, x):` -> `forward`; None when it names nothing."""
    match = _SYMBOL_NAME.search(header)
    return (match[1] or match[2]) if match else None
