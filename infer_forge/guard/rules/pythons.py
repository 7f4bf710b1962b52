"""pip, uv, poetry: a run installs into its own virtual environment, or into one that the same line makes."""

from __future__ import annotations

import os
from typing import Any

from infer_forge.guard.model import ASK, DENY, Cmd, Word
from infer_forge.guard.rules import flag, option
from infer_forge.guard.rules.env import boxed, mine, owned_folder


def _venv_owned(cmd: Cmd, bench: Any) -> bool:
    """Whether the Python that a pip belongs to lies in an owned virtual environment."""
    program = cmd.argv[0].text
    if "/" in program:
        folder = Word(os.path.dirname(os.path.dirname(program)) if program.count("/") > 1 else ".")
        return owned_folder(folder, cmd, bench) or _venv_made(os.path.join(cmd.cwds[0] or "/", folder.text), cmd, bench)
    active = [*bench.shell.notes.get("venvs", []), bench.ctx.venv]
    if cmd.via[-1:] == ("uv",) and not any(active):
        return _uv_found(cmd, bench)
    return any(a and (mine(os.path.normpath(a), bench) or _venv_made(a, cmd, bench)) for a in active)


def _venv_made(folder: str, cmd: Cmd, bench: Any) -> bool:
    """Whether an earlier command of the same line makes this virtual environment, which is not there yet."""
    path = os.path.normpath(folder)
    if os.path.lexists(path):
        return False
    for maker in bench.shell.cmds:
        words = maker.words()
        at = 2 if maker.name == "uv" and words[1:2] == ["venv"] else 3 if words[1:3] == ["-m", "venv"] else 0
        at = at or (1 if maker.name == "virtualenv" else 0)
        if at and maker.span < cmd.span:
            named = [w for w in words[at:] if not w.startswith("-")] or [".venv"]
            if any(os.path.normpath(os.path.join(c or "/", n)) == path for c in maker.cwds for n in named):
                return True
    return False


def pip(cmd: Cmd, bench: Any) -> None:
    """pip, uv, poetry: installing into the run's own environment passes."""
    words = [t for t in cmd.words()[1:] if not t.startswith("-")]
    if boxed(cmd, bench) or not words:
        return
    if cmd.name == "uv":
        if words[:2] in (["pip", "install"], ["pip", "uninstall"], ["pip", "sync"]):
            if flag(cmd, "", "--system", "--break-system-packages"):
                bench.hit(DENY, "env.pip", "--system changes the Python that every run of the node uses", cmd)
                return
            return
        if (
            words[:2] == ["python", "uninstall"]
            or words[:2] == ["tool", "uninstall"]
            or words[:2] == ["cache", "clean"]
        ):
            bench.hit(ASK, "env.pip", f"uv {' '.join(words[:2])} reaches what other runs use", cmd)
        return
    if cmd.name == "poetry" or words[0] not in ("install", "uninstall", "inject", "upgrade", "wheel"):
        if cmd.name.startswith("pip") and words[:1] == ["cache"] and words[1:2] and words[1] in ("purge", "remove"):
            bench.hit(ASK, "files.user_cache", "the cache is shared with other runs of this user", cmd)
        return
    if words[0] == "wheel" or flag(cmd, "", "--dry-run") or cmd.name == "pipx":
        return
    if owned_folder(option(cmd, "--target", "-t", "--prefix", "--root"), cmd, bench):
        return
    if cmd.via[-1:] == ("uv",) and owned_folder(_uv_home(cmd), cmd, bench):
        return
    if flag(cmd, "", "--break-system-packages") or "sudo" in cmd.via:
        bench.hit(DENY, "env.pip", "this changes the Python of the system, which every run of the node uses", cmd)
    elif not _venv_owned(cmd, bench):
        where = cmd.argv[0].text if "/" in cmd.argv[0].text else "the Python that is first on the path"
        bench.hit(DENY, "env.pip", f"{where} is not proved to be in this run's own environment", cmd)


def _uv_found(cmd: Cmd, bench: Any) -> bool:
    """The `.venv` that uv finds by itself in the folder or above, or that `uv venv` made earlier in the line; it takes no other.

    uv documentation, "Using Python environments": VIRTUAL_ENV, CONDA_PREFIX, then .venv.
    """
    if "CONDA_PREFIX" in bench.ctx.env or "CONDA_PREFIX" in cmd.env or "UV_SYSTEM_PYTHON" in cmd.env:
        return False
    made = any(c.name == "uv" and c.words()[1:2] == ["venv"] and c.span < cmd.span for c in bench.shell.cmds)
    for cwd in cmd.cwds:
        if cwd and made and _venv_made(f"{cwd}/.venv", cmd, bench):
            continue
        folder = cwd
        while folder and not made and folder != "/" and not os.path.isdir(f"{folder}/.venv"):
            folder = os.path.dirname(folder)
        if not folder or folder == "/" or not mine(os.path.normpath(f"{folder}/.venv"), bench):
            return False
    return bool(cmd.cwds)


def _uv_home(cmd: Cmd) -> Word | None:
    """The environment that `uv pip install --python PATH` names: the folder itself, or the one around bin/python."""
    python = option(cmd, "-p", "--python")
    if python is None or ("/" not in python.text and not python.text.startswith(".")):
        return None
    inside = python.text.rstrip("/").rpartition("/bin/")
    return python.cut(0, len(inside[0])) if inside[1] else python
