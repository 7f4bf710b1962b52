"""Every check that is no test. One line a step; the output of a step is shown when it fails.

scripts/check                 all steps
scripts/check lint types      only these
scripts/check --stress        the mutation, race and kill tests, whole
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from chores import ROOT

PYTHON = sys.executable
STEPS: dict[str, list[list[str]]] = {
    "lint": [[PYTHON, "-m", "ruff", "check", "."], [PYTHON, "-m", "ruff", "format", "--check", "."]],
    "types": [["pyright", "--pythonpath", PYTHON]],
    "imports": [["lint-imports", "--no-cache"]],
    "skills": [[PYTHON, "-m", "chores.skill_check"]],
    "manifests": [[PYTHON, "-m", "chores.manifests", "--check"]],
    "docs": [
        [PYTHON, "-m", "chores.doc_check"],
        [PYTHON, "-m", "chores.tool_docs", "--check"],
        [PYTHON, "-m", "chores.bench", "--check"],
        [PYTHON, "-m", "chores.requirement_table", "--check"],
    ],
    "validators": [[PYTHON, "-m", "chores.validators"]],
}


def run(name: str) -> bool:
    """Run one step; say how it went."""
    start = time.monotonic()
    for command in STEPS[name]:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            print(f"FAIL  {name}: {' '.join(command[:4])}\n{done.stdout[-6000:]}{done.stderr[-3000:]}", flush=True)
            return False
        skipped = [line for line in done.stdout.splitlines() if line.startswith("skipped: ")]
        print("".join(f"{line}\n" for line in skipped), end="", flush=True)
    print(f"ok    {name} ({time.monotonic() - start:.1f} s)", flush=True)
    return True


def main() -> None:
    """Run the steps named, or all."""
    names = [a for a in sys.argv[1:] if not a.startswith("-")]
    unknown = [n for n in names if n not in STEPS] + [a for a in sys.argv[1:] if a.startswith("-") and a != "--stress"]
    if unknown:
        sys.exit(f"no such step: {', '.join(unknown)}; use {', '.join(STEPS)} or --stress")
    if "--stress" in sys.argv:
        os.environ["INFER_FORGE_STRESS"] = "1"
        command = [PYTHON, "-m", "pytest", "-m", "stress", "-n", str(len(os.sched_getaffinity(0))), "--timeout", "3600"]
        sys.exit(subprocess.run(command, cwd=ROOT).returncode)
    results = [run(name) for name in names or STEPS]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
