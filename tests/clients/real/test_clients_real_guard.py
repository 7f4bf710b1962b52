"""The guard's failure matrix through both real clients: what a bare hook lets through, the installed one blocks.

A cell runs one shell command that leaves a file behind; the file says whether the client ran it.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from infer_forge.guard import hook_config
from tests.clients.real.programs import Home
from tests.clients.real.scripted_model import Call, ScriptedModel, scripted

COMMAND = "touch ran.txt"
DENIED = "touch ran.txt; pkill -f infer-forge-no-such-process"
ASKED = 'touch ran.txt; eval "$INFER_FORGE_NOTHING"'


def answer(decision: str, reason: str | None = "because") -> str:
    said = {"hookEventName": "PreToolUse", "permissionDecision": decision}
    if reason:
        said["permissionDecisionReason"] = reason
    return f"printf %s {shlex.quote(json.dumps({'hookSpecificOutput': said}))}"


FAULTS = {
    "deny": answer("deny"),
    "deny without a reason": answer("deny", None),
    "ask": answer("ask"),
    "crash": "exit 1",
    "invalid JSON": "echo this is no JSON",
    "half an answer": 'printf %s \'{"hookSpecificOutput": {"hookEventName"\'',
    "time-out": "sleep 8",
    "killed": "kill -9 $$",
}
# Measured on Claude Code 2.1.332 (with onFailure: block) and Codex 0.171.0: where a bare hook lets the command run.
RUNS = {
    "claude": {"invalid JSON", "half an answer"},
    "codex": set(FAULTS) - {"deny"},
}


def register(home: Home, client: str, line: str, timeout_s: int) -> None:
    """Put a hook's command line where `install` put the guard's."""
    file = home.folder / (".claude/settings.json" if client == "claude" else ".codex/hooks.json")
    settings = json.loads(file.read_text())
    handler = settings["hooks"]["PreToolUse"][0]["hooks"][0]
    handler |= {"command": line, "timeout": timeout_s}
    file.write_text(json.dumps(settings))


def shell_call(home: Home, client: str, command: str) -> ScriptedModel:
    """Let the model ask for one shell command."""
    if client == "claude":
        with scripted([Call("Bash", {"command": command, "description": "try"})]) as model:
            home.claude(model, "--allowedTools", "Bash")
    else:
        with scripted([Call("exec_command", {"cmd": command})]) as model:
            home.codex(model, "--dangerously-bypass-hook-trust", "-c", 'sandbox_mode="danger-full-access"')
    return model


def ran(home: Home) -> bool:
    return (home.project / "ran.txt").exists()


def faulty(home: Home, fault: str) -> Path:
    program = home.folder / "faulty-guard"
    program.write_text(f"#!/bin/sh\n{FAULTS[fault]}\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("client", hook_config.CLIENTS)
def test_what_a_bare_hook_lets_through(home: Home, client: str, fault: str) -> None:
    """The measurement that the guard's command line stands on; a client that changes shows here."""
    home.forge("install", "--client", client)
    register(home, client, str(faulty(home, fault)), 1)
    shell_call(home, client, COMMAND)
    assert ran(home) is (fault in RUNS[client])


@pytest.mark.parametrize("fault", [*FAULTS, "missing"])
@pytest.mark.parametrize("client", hook_config.CLIENTS)
def test_the_installed_hook_blocks_whatever_goes_wrong_in_the_guard(
    home: Home, client: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook_config, "INNER_TIMEOUT_S", 1)
    program = home.folder / "nowhere" if fault == "missing" else faulty(home, fault)
    home.forge("install", "--client", client)
    register(home, client, hook_config.hook_command(client, str(program)), hook_config.TIMEOUT_S)
    shell_call(home, client, COMMAND)
    assert not ran(home)


@pytest.mark.parametrize(("command", "rule"), [(DENIED, "process.by_name"), (ASKED, "shell.unread")])
@pytest.mark.parametrize("client", hook_config.CLIENTS)
def test_the_installed_guard_blocks_and_tells_the_model_why(home: Home, client: str, command: str, rule: str) -> None:
    home.forge("install", "--client", client)
    model = shell_call(home, client, command)
    assert not ran(home)
    assert rule in model.results()[0]
    assert "infer-forge guard" in model.results()[0]


@pytest.mark.parametrize("client", hook_config.CLIENTS)
def test_the_installed_guard_lets_an_ordinary_command_run(home: Home, client: str) -> None:
    home.forge("install", "--client", client)
    shell_call(home, client, COMMAND)
    assert ran(home)


def test_codex_runs_no_hook_that_nobody_trusted_and_doctor_says_so(home: Home) -> None:
    """The one cell that no hook can close."""
    home.forge("install", "--client", "codex")
    with scripted([Call("exec_command", {"cmd": DENIED})]) as model:
        home.codex(model, "-c", 'sandbox_mode="danger-full-access"')
    assert ran(home)
    report = home.checks("codex")
    assert report["codex-trusts-hook"] == ("fail", "trustStatus untrusted")
