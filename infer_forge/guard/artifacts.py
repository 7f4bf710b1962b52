"""Scanning artifacts for secrets before they leave: text, gzip (traces), sqlite, Nsight reports; redaction on request.

Binary files are searched for secrets in their strings (ASCII and UTF-16) and masked with as many characters as there
were, so that lengths inside the file stay right.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infer_forge.base import redact
from infer_forge.base.errors import InputUnusable
from infer_forge.base.jsonio import write_atomic
from infer_forge.guard.rows import secrets_of

BLOCK = 4 * 1024 * 1024
OVERLAP = 16 * 1024
"""Longer than any secret that is looked for, so that none is cut by a block's edge."""
MAX_FILES = 20_000
_SKIP_FOLDERS = frozenset((".git", "node_modules", "__pycache__", ".venv", "venv"))
_UTF16 = re.compile(rb"(?:[\x20-\x7e]\x00){12,}")
_TEXT_ENDINGS = (
    ".json",
    ".txt",
    ".log",
    ".md",
    ".csv",
    ".yaml",
    ".yml",
    ".toml",
    ".jsonl",
    ".html",
    ".xml",
    ".py",
    ".sh",
    ".diff",
    ".patch",
    ".ini",
    ".cfg",
    ".env",
)


@dataclass(frozen=True)
class Found:
    """One secret in a file: never its value, only its kind and place; no offset where it lies in pieces (rows of SQLite)."""

    path: str
    kind: str
    offset: int | None
    line: int | None
    length: int


@dataclass
class Scanned:
    """What a scan saw: hits, the files read, and those that could not be read."""

    found: list[Found]
    files: int
    bytes_read: int
    unreadable: list[tuple[str, str]]
    redacted: list[str]


def scan(paths: Iterable[str | os.PathLike[str]], *, redact_files: bool = False) -> Scanned:
    """Look through files and folders for secrets.

    Args:
        paths: files or folders; .git and environments inside folders are left out, named files never are.
        redact_files: replace each secret in place; the file is written anew, atomically.

    Raises:
        InputUnusable: a path does not exist.
    """
    known = redact.environment_secrets()
    out = Scanned([], 0, 0, [], [])
    for path in _files(paths):
        try:
            hits, size = _scan_file(path, known)
        except (OSError, EOFError, ValueError) as exc:
            out.unreadable.append((str(path), " ".join(str(exc).split())[:120]))
            continue
        out.files += 1
        out.bytes_read += size
        out.found += hits
        if hits and redact_files:
            redact_file(path, known)
            if any(h.offset is None for h in hits):
                out.unreadable.append(
                    (str(path), "a secret in its rows lies in pieces: delete it with SQL, then VACUUM")
                )
            else:
                out.redacted.append(str(path))
    return out


def _files(paths: Iterable[str | os.PathLike[str]]) -> Iterator[Path]:
    count = 0
    for entry in paths:
        path = Path(entry)
        if not path.exists():
            raise InputUnusable("no such file or folder", where=str(path), next_step="check the path")
        if path.is_file():
            yield path
            continue
        for folder, names, files in os.walk(path):
            names[:] = sorted(n for n in names if n not in _SKIP_FOLDERS)
            for name in sorted(files):
                file = Path(folder, name)
                if file.is_file() and not file.is_symlink():
                    count += 1
                    if count > MAX_FILES:
                        raise InputUnusable(
                            f"has more than {MAX_FILES:,} files",
                            where=str(path),
                            next_step="scan its folders one by one",
                        )
                    yield file


def _open(path: Path) -> Any:
    with open(path, "rb") as file:
        magic = file.read(4)
    if magic[:2] == b"\x1f\x8b":
        import gzip

        return gzip.open(path, "rb")
    if magic == b"\x28\xb5\x2f\xfd":
        raise ValueError("zstd is not read; unpack it first")
    return open(path, "rb")


def _scan_file(path: Path, known: dict[str, str]) -> tuple[list[Found], int]:
    found: list[Found] = []
    base, lines, size = 0, 0, 0
    binary = False
    keep = b""
    seen: set[tuple[str, int]] = set()
    exact = pieces = secrets_of(path)
    with _open(path) as file:
        while block := file.read(BLOCK):
            size += len(block)
            data = keep + block
            pieces = {value: kind for value, kind in pieces.items() if value not in data}
            binary = binary or b"\0" in data[:4096]
            for kind, start, end in _hits(data, known, binary, exact):
                offset = base + start
                if (kind, offset) not in seen:
                    seen.add((kind, offset))
                    line = None if binary else lines + data.count(b"\n", 0, start) + 1
                    found.append(Found(str(path), kind, offset, line, end - start))
            cut = max(0, len(data) - OVERLAP)
            lines += data.count(b"\n", 0, cut)
            keep = data[cut:]
            base += cut
    found += [Found(str(path), kind, None, None, len(value)) for value, kind in pieces.items()]
    return found, size


def _hits(
    data: bytes, known: dict[str, str], binary: bool, exact: Mapping[bytes, str] | None = None
) -> list[tuple[str, int, int]]:
    """(kind, start, end) in bytes. Latin-1 keeps byte positions. `exact`: what is known from elsewhere to be a secret."""
    out = [(kind, m.start(), m.end()) for v, kind in (exact or {}).items() for m in re.finditer(re.escape(v), data)]
    text = data.decode("latin-1")
    seen = redact.find(text, {k.encode().decode("latin-1"): v for k, v in known.items()})
    taken = list(out)
    out += [(h.kind, h.start, h.end) for h in seen if not any(s < h.end and h.start < e for _, s, e in taken)]
    if binary:
        out += _length_prefixed(text)
        for match in _UTF16.finditer(data):
            text = match.group(0)[::2].decode("ascii")
            out += [(h.kind, match.start() + 2 * h.start, match.start() + 2 * h.end) for h in redact.find(text, known)]
    return out


def _length_prefixed(text: str) -> list[tuple[str, int, int]]:
    """Secrets behind a byte that gives their length and happens to be a letter or a digit (protobuf, pickle, msgpack)."""
    out: list[tuple[str, int, int]] = []
    for hit in redact.glued(text):
        before = ord(text[hit.start - 1])
        for length in (before, before - 0xA0):
            if 0 < length <= hit.end - hit.start and redact.find(text[hit.start : hit.start + length]):
                out.append((hit.kind, hit.start, hit.start + length))
    return out


def redact_file(path: str | os.PathLike[str], known: dict[str, str] | None = None) -> int:
    """Replace every secret in a file, keeping its compression and, in binary files, every length; how many were replaced.

    Raises:
        InputUnusable: the file cannot be read or written.
    """
    target = Path(path)
    values = redact.environment_secrets() if known is None else known
    try:
        with _open(target) as file:
            data: bytes = file.read()
        hits = _hits(data, values, b"\0" in data[:4096], secrets_of(target))
        if not hits:
            return 0
        binary = b"\0" in data[:4096]
        made = _masked(data, hits, binary)
        if _is_gzip(target):
            import gzip

            made = gzip.compress(made, mtime=0)
        mode = target.stat().st_mode
        write_atomic(target, made)
        os.chmod(target, mode & 0o7777)
    except (OSError, EOFError, ValueError) as exc:
        raise InputUnusable(f"cannot be redacted ({exc})", where=str(target), next_step="remove the file") from None
    return len(hits)


def _is_gzip(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _masked(data: bytes, hits: list[tuple[str, int, int]], binary: bool) -> bytes:
    parts: list[bytes] = []
    at = 0
    for kind, start, end in sorted(hits, key=lambda h: h[1]):
        if start < at:
            continue
        if not binary:
            mark = redact.MASK.format(kind).encode()
        elif data[start + 1 : start + 2] == b"\0":
            mark = b"*\0" * ((end - start) // 2)
        else:
            mark = b"*" * (end - start)
        parts += [data[at:start], mark]
        at = end
    return b"".join([*parts, data[at:]])
