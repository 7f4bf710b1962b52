"""PATH that a text changes: which file a plain name then means, when a folder in front of the old PATH holds one."""

from __future__ import annotations

import os
from typing import Any

from infer_forge.guard.model import UNKNOWN, Cmd, Word


def found(program: Word, cmd: Cmd, walk: Any) -> Word:
    """The file that the name means: one that this text writes or copies, or one that lies there; else the name as it is.

    Only folders before the first unknown piece (the old PATH) count. A file of the disk is noted as shadowing, so that a
    script with the name of a known program is read all the same.
    """
    values = [cmd.env["PATH"]] if "PATH" in cmd.env else [v[0] for v in walk.scope.vars["PATH"] if v]
    written: dict[str, Any] = walk.shell.notes.get("written", {})
    for value in values:
        for folder in value.raw.partition(UNKNOWN)[0].split(":"):
            path = os.path.normpath(os.path.join(folder, program.text))
            for cwd in cmd.cwds if folder else ():
                inside = os.path.relpath(path, cwd) if cwd and path.startswith(f"{cwd}/") else path
                for name in (inside, path):
                    if name in walk.scope.aliases or name in written:
                        return Word(name if "/" in name else f"./{name}")
                if os.path.isfile(os.path.join(cwd or "/", path)):
                    walk.shell.notes.setdefault("shadowing", set()).add(path)
                    return Word(path if "/" in path else f"./{path}")
    return program
