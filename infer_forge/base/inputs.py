"""Are a file and a folder that somebody named such that reading them comes to an end, and does an output spare them?"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from infer_forge.base.errors import InputUnusable, UsageFault

MOST_ENTRIES = 100_000
"""Entries of a folder that a search looks at: six profiles of 1,024 ranks are 6,144 files, the root of a system has millions."""
_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def finite(path: str | Path) -> Path:
    """The path, unless reading it would never end: a pipe without a writer blocks for ever, /dev/zero fills the memory.

    Folders and missing files pass: who reads them says what he wanted instead.

    Raises:
        InputUnusable: it is a pipe, a socket or a device.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return Path(path)
    kind = next((name for test, name in _KINDS if test(mode)), None)
    if kind is not None:
        raise InputUnusable(f"is {kind}, not a file", where=str(path), next_step="write it to a file and give that")
    return Path(path)


def apart(out: Path, inputs: Iterable[str | Path]) -> None:
    """Refuse an output that is an input or another output, under whatever name: writing it would destroy the other.

    Raises:
        UsageFault: it is one of them.
    """
    for given in inputs:
        try:
            same = out.resolve() == Path(given).resolve() or out.samefile(given)
        except (OSError, ValueError):
            same = False
        if same:
            raise UsageFault(
                "is named as another file of this command too, which would be overwritten",
                where=str(out),
                next_step="name another file",
            )


def files_in(folder: Path, *, endings: tuple[str, ...]) -> list[Path]:
    """Files of a folder, at any depth and in order, whose lower-case names end so; hidden ones and links to folders are left out.

    Raises:
        InputUnusable: it holds more than `MOST_ENTRIES` files and folders; none of them was opened.
    """
    found: list[Path] = []
    seen = 0
    for place, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        seen += len(folders) + len(names)
        if seen > MOST_ENTRIES:
            raise InputUnusable(
                f"is too large a folder to search: {seen:,} files and folders were looked at, {len(found):,} of them "
                "end as wanted, and there are more",
                where=str(folder),
                next_step="name the folder inside it that holds them, or the files",
            )
        found += [Path(place) / n for n in sorted(names) if n.lower().endswith(endings) and not n.startswith(".")]
    return found
