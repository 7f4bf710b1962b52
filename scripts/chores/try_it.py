"""The main job on a fresh machine: build the project's own sample trace and print the three tables for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from chores import ROOT

_AFTER = """
That was a generated trace. With one of your own:
  {exe} triage TRACE.json.gz                 the same for a file or a folder of ranks
  {exe} triage TRACE.json.gz --html out.html with pictures

For Claude Code or Codex (skills, MCP server, safety guard):
  {exe} install --client claude
  {exe} install --client codex
  {exe} doctor --client claude               what the client will see
"""


def main() -> None:
    """Generate, triage, and say what to do next."""
    sample = ROOT / "build" / "sample_trace.json.gz"
    sample.parent.mkdir(exist_ok=True)
    exe = Path(sys.executable).parent / "infer-forge"
    subprocess.run(
        [sys.executable, "-m", "trace_gen", "--spec", "sample", "--out", str(sample)], cwd=ROOT / "scripts", check=True
    )
    done = subprocess.run([str(exe), "triage", str(sample), *sys.argv[1:]])
    if done.returncode == 0:
        print(_AFTER.format(exe=exe))
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
