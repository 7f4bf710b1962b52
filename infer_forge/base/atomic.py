"""Atomic writes. Standard library only, so that what the guard's hook imports may write too."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomic(path: str | Path, data: bytes | str) -> Path:
    """Write a whole file so that a reader (or a crash) sees the old or the new content, never a part.

    A temporary file in the same folder is flushed to the disk and renamed over the target; missing folders are made.
    A symbolic link is followed. What is no regular file (`/dev/null`, `/dev/stdout`, a pipe) is written into, never
    replaced: a rename over `/dev/null` would take it from the whole machine.
    """
    target = Path(path)
    content = data.encode() if isinstance(data, str) else data
    if target.exists() and not target.is_file() and not target.is_dir():
        with open(target, "wb") as file:
            file.write(content)
        return target
    target = target.resolve() if target.is_symlink() else target
    target.parent.mkdir(parents=True, exist_ok=True)
    fd, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return target


def _umask() -> int:
    """The process's umask; there is no way to read it but to set it and set it back."""
    current = os.umask(0o022)
    os.umask(current)
    return current
