"""What build tools install: into the run's own folders it passes, into the system it does not."""

from __future__ import annotations

import re
from typing import Any

from infer_forge.guard.model import ASK, DENY, Cmd, Word
from infer_forge.guard.output import read_file
from infer_forge.guard.rules import option
from infer_forge.guard.rules.env import boxed, owned_folder
from infer_forge.guard.rules.where import candidates, matches


def installed(cmd: Cmd, bench: Any) -> None:
    """cmake --install, ninja install, cargo install --root: where it goes decides; a prefix that is not known asks."""
    words = cmd.words()[1:]
    if boxed(cmd, bench) or any(w in ("-n", "--dry-run", "--help", "-h") for w in words):
        return
    target: Word | None
    if cmd.name == "cargo":
        target = option(cmd, "--root") if words[:1] == ["install"] else None
        if target is None:
            return
    else:
        folder = option(cmd, "--install", "--build") if cmd.name == "cmake" else option(cmd, "-C") or Word(".")
        wanted = "--install" in words or any(w == "install" or w.startswith("install/") for w in words)
        if folder is None or not wanted:
            return
        target = option(cmd, "--prefix") or _cmake_prefix(folder, cmd, bench)
    if target is None:
        bench.hit(ASK, "env.packages", "where this installs to is not known", cmd)
    elif not owned_folder(target, cmd, bench):
        why = f"{target.text or 'the prefix'} is not proved to be this run's, and this installs into it"
        system = any(matches(p, bench.pol["system_paths"]) for p in candidates(target, cmd, bench, follow=True) or [])
        bench.hit(DENY if system else ASK, "env.packages", why, cmd, targets=(target.text,))


def _cmake_prefix(folder: Word, cmd: Cmd, bench: Any) -> Word | None:
    """CMAKE_INSTALL_PREFIX of a build folder, from its cache or from the same line."""
    for other in bench.shell.cmds:
        if other.name == "cmake":
            given = next((w for w in other.argv if w.text.startswith("-DCMAKE_INSTALL_PREFIX")), None)
            if given is not None and "=" in given.text:
                return given.cut(given.text.index("=") + 1)
    text = read_file(Word(f"{folder.text}/CMakeCache.txt"), cmd.cwds, bench.shell.notes)
    found = re.search(r"^CMAKE_INSTALL_PREFIX:\w+=(.+)$", text or "", re.MULTILINE)
    return Word(found.group(1), quoted=True) if found else None
