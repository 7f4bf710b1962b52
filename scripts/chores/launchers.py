"""The one text of every skill's script: `python -m chores.launchers` writes it, `skill_check` holds the scripts to it.

A script is named for the command that it runs (`triage.py` runs `infer-forge triage`), so that all of them are the same
bytes. It works wherever the skill's folder was copied or linked: by the package of the Python that runs it, else by the
command on PATH, else it says what is missing and ends with 5. `uv run` reads the dependency from its head.
"""

from __future__ import annotations

from pathlib import Path

from chores import ROOT

LAUNCHER = '''#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["infer-forge"]
# ///
"""The same as `infer-forge NAME ...`, where NAME is this file's: by the installed package, or the command on PATH."""

import os
import sys

words = [os.path.basename(__file__)[: -len(".py")], *sys.argv[1:]]
try:
    from infer_forge.cli.main import main
except (ImportError, SyntaxError) as exc:
    missing = exc
else:
    main(words)
try:
    os.execvp("infer-forge", ["infer-forge", *words])
except OSError:
    sys.stderr.write(
        f"infer-forge is not installed for {sys.executable or 'this Python'}, nor on PATH ({missing})\\n"
        "next: pip install infer-forge (Python 3.10 or later), or run this file with uv run\\n"
    )
    sys.exit(5)
'''


def scripts() -> list[Path]:
    """The Python scripts of all skills."""
    return sorted((ROOT / "skills").glob("*/scripts/*.py"))


def main() -> None:
    """Write the text into every script."""
    for path in scripts():
        path.write_text(LAUNCHER, encoding="utf-8")
        path.chmod(0o755)
    print(f"{len(scripts())} launchers")


if __name__ == "__main__":
    main()
