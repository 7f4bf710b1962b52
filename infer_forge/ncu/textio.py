"""Lines of a text file in any encoding that a redirected profiler writes, streamed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_LONGEST = 1 << 20


def encoding_of(head: bytes) -> str | None:
    """Encoding by byte-order mark (PowerShell redirects write UTF-16); None when the bytes are no text."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if head.startswith(b"\xef\xbb\xbf"):
        return "utf-8-sig"
    if b"\0" in head:
        return None
    odd = sum(1 for b in head if b < 9 or (13 < b < 32 and b != 27))
    return None if head and odd > len(head) // 20 else "utf-8"


def read_lines(path: str | Path, encoding: str) -> Iterator[str]:
    """Lines without their end; undecodable bytes are replaced; a line beyond 1 MiB is cut there."""
    with open(path, encoding=encoding, errors="replace", newline=None) as file:
        while line := file.readline(_LONGEST):
            yield line.rstrip("\r\n")
