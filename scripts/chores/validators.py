"""Other people's validators over our skills, plugin and server; one that is not there is skipped, and it is said.

`agentskills` (skills-ref) and `agnix` come with the dev extra; `claude`, `mcp-inspector` and `conformance` from
`scripts/real-clients`, from INFER_FORGE_CLIENTS or from PATH.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path

from chores import ROOT
from chores.real_clients import program, search_path

LIMIT_S = 120
_BOTH = (
    "completion-complete",
    "tools-list",
    "resources-list",
    "prompts-list",
    "tools-call-error",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
)
# Scenarios that any server must pass, by protocol version: Codex speaks one of the older, Claude Code the newer. The others of
# the suite need fixture tools of a reference server.
SCENARIOS = {
    "2025-11-25": ("server-initialize", "ping", *_BOTH),
    "2026-07-28": (
        *_BOTH,
        "caching",
        "http-header-validation",
        "sep-2164-resource-not-found",
        "input-required-result-unsupported-methods",
    ),
}
# Words of a program's own help without which it is too old for us.
_NEEDED = {
    "mcp-inspector": (["--cli", "--help"], "--strict"),
    "conformance": (["list"], "2026-07-28"),
}
FORGE = str(Path(sys.executable).parent / "infer-forge")


def _run(argv: list[str], home: str) -> str:
    """Output of a validator that failed, or an empty text."""
    environment = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{search_path()}", "HOME": home}
    environment |= {
        "INFER_FORGE_HOME": home,
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    done = subprocess.run(
        argv, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S
    )
    return (
        ""
        if done.returncode == 0
        else f"{' '.join(argv)}: exit {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}"
    )


def skills_ref(exe: str, home: str) -> list[str]:
    """The specification's own validator, over each skill."""
    return [_run([exe, "validate", str(p.parent)], home) for p in sorted((ROOT / "skills").glob("*/SKILL.md"))]


def agnix(exe: str, home: str) -> list[str]:
    """The linter of agent files, warnings are faults, for both clients."""
    return [_run([exe, "skills", "--strict", "-t", client], home) for client in ("claude-code", "codex")]


def claude_plugin(exe: str, home: str) -> list[str]:
    """Claude Code's own validator of plugin and marketplace."""
    return [_run([exe, "plugin", "validate", "--strict", "."], home)]


def inspector(exe: str, home: str) -> list[str]:
    """Portability of every tool schema."""
    patient = ["--connect-timeout", f"{LIMIT_S * 500}"]  # ms: a busy machine starts a server late
    served = [FORGE, "serve", "--toolsets", "all"]
    return [_run([exe, "--cli", *served, "--method", "tools/list", "--strict", *patient], home)]


def conformance(exe: str, home: str) -> list[str]:
    """The protocol suite's generic scenarios, over HTTP."""
    with _served(home) as url:
        argv = [exe, "server", "--url", url, "--spec-version"]
        wanted = [(version, name) for version, names in SCENARIOS.items() for name in names]
        return [_run([*argv, version, "--scenario", name], home) for version, name in wanted]


@contextlib.contextmanager
def _served(home: str) -> Generator[str]:
    """Our server on a free loopback port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    environment = {**os.environ, "INFER_FORGE_HOME": home}
    process = subprocess.Popen(
        [FORGE, "serve", "--http", f"127.0.0.1:{port}"], env=environment, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(timeout=10)


def _lacks(name: str, exe: str) -> str:
    """Why a program that is there cannot be used."""
    if name not in _NEEDED:
        return ""
    words, needed = _NEEDED[name]
    done = subprocess.run(
        [exe, *words], env={**os.environ, "PATH": search_path()}, capture_output=True, text=True, timeout=LIMIT_S
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["it says nothing"]
        fault = next((line for line in said if "Error" in line), said[-1])
        return f"does not run here: {fault.strip()}"
    return "" if needed in done.stdout else f"is too old to know {needed}"


VALIDATORS: dict[str, Callable[[str, str], list[str]]] = {
    "agentskills": skills_ref,
    "agnix": agnix,
    "claude": claude_plugin,
    "mcp-inspector": inspector,
    "conformance": conformance,
}


def main() -> None:
    """Run those that are there; print what was skipped and every fault; exit 1 when there is one."""
    faults: list[str] = []
    ran: list[str] = []
    for name, validate in VALIDATORS.items():
        exe = program(name)
        lacks = "is not there" if exe is None else _lacks(name, exe)
        if exe is None or lacks:
            print(f"skipped: {name} {lacks}")
            continue
        with tempfile.TemporaryDirectory() as home:
            faults += [f for f in validate(exe, home) if f]
        ran.append(name)
    print("\n".join(faults) or f"passed: {', '.join(ran)}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
