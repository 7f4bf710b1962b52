"""Run all tests, on as many processes as there are cores; arguments go to pytest."""

from __future__ import annotations

import os
import sys

from chores import ROOT


def main() -> None:
    """Replace this process by pytest."""
    os.chdir(ROOT)
    workers = str(len(os.sched_getaffinity(0)))
    chosen = [] if any(a in ("-n", "-p", "--pdb") or a.startswith("-n") for a in sys.argv[1:]) else ["-n", workers]
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *chosen, *sys.argv[1:]])


if __name__ == "__main__":
    main()
