"""Is a path that somebody named a file that can be read to an end?"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from infer_forge.base.errors import InputUnusable

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
