"""Make the project's own environment, then run one chore in it. Standard library only: it runs on a fresh machine.

The environment is `.venv` in the checkout (`INFER_FORGE_VENV` names another place); it is made anew when `pyproject.toml`
changes. Needs Python 3.10 or later with venv, and a package registry.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = {"try_it": ""}


def fail(text: str) -> None:
    """Say what is missing, in two lines, and stop."""
    sys.stderr.write(f"{text}\n")
    raise SystemExit(5)


def environment(extras: str) -> Path:
    """Python of the environment, with the project and `extras` installed; made once for each state of pyproject.toml."""
    if sys.version_info < (3, 10):  # noqa: UP036 - whoever starts this script may have an older python3
        fail(
            f"Python 3.10 or later is needed, this is {sys.version.split()[0]}\nnext: run it with a newer python3 first in PATH"
        )
    venv = Path(os.environ.get("INFER_FORGE_VENV") or ROOT / ".venv")
    python = venv / "bin" / "python"
    venv.parent.mkdir(parents=True, exist_ok=True)
    with open(venv.parent / f"{venv.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = venv / "installed"
        state = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
        done = stamp.read_text().split() if stamp.is_file() else []
        if python.is_file() and f"{state}{extras}" in done:
            return python
        sys.stderr.write(f"making the environment in {venv} ...\n")
        if not python.is_file() and subprocess.run([sys.executable, "-m", "venv", str(venv)]).returncode:
            fail(
                "python3 -m venv failed\nnext: install Python's venv module (Debian: apt install python3-venv) and try again"
            )
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if subprocess.run([*pip, "--editable", f"{ROOT}{extras}"]).returncode:
            fail("installing the project failed\nnext: check that pip reaches a package registry, then try again")
        stamp.write_text(" ".join([*(d for d in done if d.startswith(state)), f"{state}{extras}"]))
    return python


def main() -> None:
    """Run chore NAME with its arguments in the environment, in place of this process."""
    name, arguments = sys.argv[1], sys.argv[2:]
    python = environment(EXTRAS.get(name, "[dev]"))
    os.environ["PATH"] = f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    scripts = str(ROOT / "scripts")
    os.environ["PYTHONPATH"] = os.pathsep.join(p for p in (scripts, os.environ.get("PYTHONPATH", "")) if p)
    os.execv(python, [str(python), "-m", f"chores.{name}", *arguments])


if __name__ == "__main__":
    main()
