"""What `install` writes into the clients' hook settings, and the canaries that `doctor` sends through the installed hooks."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from typing import Any

from infer_forge.base.errors import MissingPart, UsageFault

CLIENTS = ("claude", "codex")
TIMEOUT_S = 15
"""Time that the client gives the hook; the hook's own watchdog (5 s) and `timeout` (10 s) come first."""
INNER_TIMEOUT_S = 10
MATCHER = "Bash|Edit|Write|MultiEdit|NotebookEdit|Read|Monitor|PowerShell|apply_patch|shell|exec_command|mcp__.*"
AFTER_MATCHER = MATCHER.replace("|Read|", "|")
"""Tools that the guard may ask about; reading is never one of them."""
AFTER_TIMEOUT_S = 10
SCRIPT = "infer-forge-guard"
CANARY = "canary"
QUESTION = 'eval "$INFER_FORGE_CANARY"'
"""What doctor itself asks through the hook: no question to a person."""
_BLOCKED = "infer-forge-guard: blocked. If no reason stands before this, the guard itself failed: infer-forge doctor"
_ASK = '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask", '


def executable() -> str:
    """Absolute path of the hook's executable: beside the running Python, else on PATH.

    Raises:
        MissingPart: it is not installed.
    """
    beside = os.path.join(os.path.dirname(sys.executable), SCRIPT)
    found = beside if os.access(beside, os.X_OK) else shutil.which(SCRIPT)
    if not found:
        raise MissingPart(f"{SCRIPT} is not installed", next_step="pip install infer-forge")
    return os.path.abspath(found)


def hook_command(client: str, path: str | None = None) -> str:
    """The command line of the hook as `install` writes it: `fail_closed`, with a time limit of its own where `timeout` is there.

    Raises:
        UsageFault: the client is unknown.
    """
    if client not in CLIENTS:
        raise UsageFault(f"no such client: {client}", next_step=f"use one of {', '.join(CLIENTS)}")
    limit = f"{shutil.which('timeout')} -k 1 {INNER_TIMEOUT_S} " if shutil.which("timeout") else ""
    return fail_closed(client, f"{limit}{shlex.quote(path or executable())}")


def fail_closed(client: str, program: str) -> str:
    """Shell text that runs the hook and blocks unless it ended well and said nothing (or, to a client that can ask, "ask").

    Both clients run the command when a hook crashes, runs out of time or prints no JSON; Codex also when the answer is
    `ask`, `deny` without a reason, or exit 2 without a word on stderr (seen with 2.1.328 and 0.169.0). So everything but
    the expected answer becomes exit 2 with a line on stderr.
    """
    expected = 'test -z "$said"'
    if client == "claude":
        expected = f"""case $said in ''|'{_ASK}'*'}}}}') printf %s "$said";; *) false;; esac"""
    return f"said=$({program} --client {client}) && {expected} || {{ echo '{_BLOCKED}' >&2; exit 2; }}"


def after_command(client: str, program: str | None = None) -> str:
    """Shell text of the hook after a tool: nothing is started while no question waits for its answer.

    The folder is the one that `base.paths` computes, written out in shell, so that the usual case costs no Python.
    """
    if client not in CLIENTS:
        raise UsageFault(f"no such client: {client}", next_step=f"use one of {', '.join(CLIENTS)}")
    state = (
        "s=${INFER_FORGE_STATE:-${INFER_FORGE_HOME:+$INFER_FORGE_HOME/state}}; "
        "s=${s:-${XDG_STATE_HOME:-$HOME/.local/state}/infer-forge}"
    )
    run = f"{shlex.quote(program or executable())} --client {client} --after"
    waits = 'set -- "$s"/audit/asked/*; if test -e "$1" || test -z "$HOME"'
    return f"{state}; {waits}; then {run}; else cat >/dev/null; fi"


def events(client: str) -> tuple[str, ...]:
    """Events after a tool that the client is known to have; Claude Code tells failed ones apart."""
    return ("PostToolUse", "PostToolUseFailure") if client == "claude" else ("PostToolUse",)


def entries(client: str, before: str, after: str) -> dict[str, Any]:
    """The `hooks` object for Claude Code's settings.json or Codex's hooks.json (one shape serves both).

    `onFailure: block` is for Claude Code 2.1.295 and later; Codex ignores it. After a tool there is nothing to block.
    """
    hook: dict[str, Any] = {"type": "command", "command": before, "timeout": TIMEOUT_S}
    if client == "claude":
        hook["onFailure"] = "block"
    made: dict[str, Any] = {"PreToolUse": [{"matcher": MATCHER, "hooks": [hook]}]}
    for event in events(client):
        later = {"type": "command", "command": after, "timeout": AFTER_TIMEOUT_S}
        made[event] = [{"matcher": AFTER_MATCHER, "hooks": [later]}]
    return {"hooks": made}


def hook_entries(client: str, path: str | None = None) -> dict[str, Any]:
    """`entries` with the commands that `install` writes."""
    return entries(client, hook_command(client, path), after_command(client, path))


def is_ours(entry: Any) -> bool:
    """Whether a PreToolUse entry of a settings file is the guard's, so that install replaces it and uninstall removes it."""
    return isinstance(entry, dict) and SCRIPT in json.dumps(entry)


def payload(client: str, command: str, cwd: str, **more: Any) -> dict[str, Any]:
    """A hook input as the client writes it."""
    made: dict[str, Any] = {
        "session_id": CANARY,
        "transcript_path": "",
        "cwd": cwd,
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "tool_use_id": CANARY,
        "permission_mode": "default",
    }
    if client == "codex":
        made |= {"turn_id": CANARY, "model": CANARY}
    return made | more


def canary(client: str, command: str | None = None, *, cwd: str | None = None) -> list[dict[str, Any]]:
    """Send four inputs through the hook as it is installed and say what came back. Nothing of what they name is run.

    Args:
        client: `claude` or `codex`.
        command: the command line that stands in the client's settings; by default what `install` would write.
        cwd: the folder that the inputs name.

    Returns:
        One entry an input: `name`, `wanted`, `got` (`passes` or `blocks`), `ok`, `reason`.
    """
    line = command or hook_command(client)
    folder = cwd or os.getcwd()
    cases: list[tuple[str, str, bytes]] = [
        ("a harmless command passes", "passes", json.dumps(payload(client, "true", folder)).encode()),
        (
            "a kill by name is blocked",
            "blocks",
            json.dumps(payload(client, "pkill -9 -f infer-forge-canary", folder)).encode(),
        ),
        (
            "an unreadable command is blocked or asked",
            "blocks",
            json.dumps(payload("codex", 'eval "$INFER_FORGE_CANARY"', folder, permission_mode="dontAsk")).encode(),
        ),
        ("invalid input is blocked", "blocks", b"{"),
    ]
    out: list[dict[str, Any]] = []
    for name, wanted, data in cases:
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", line], input=data, capture_output=True, timeout=TIMEOUT_S, check=False
            )
            got = verdict_of(client, done.returncode, done.stdout)
            reason = (done.stderr or done.stdout).decode("utf-8", "replace").strip()[:300]
        except subprocess.TimeoutExpired:
            got, reason = "passes", f"no answer within {TIMEOUT_S} s, after which the client runs the command"
        out.append({"name": name, "wanted": wanted, "got": got, "ok": got == wanted, "reason": reason})
    return out


def after_canary(client: str, before: str, after: str, *, cwd: str | None = None) -> tuple[bool, str]:
    """Ask about a harmless question through the hook as installed, then say that the tool ran: is that written down?

    Nothing is run. Codex cannot ask, so only the start of its second hook is proved.
    """
    import contextlib
    import time

    from infer_forge.guard import asked

    data = payload(client, QUESTION, cwd or os.getcwd(), tool_use_id=f"canary-{time.time_ns()}")
    waits = os.path.join(asked.folder(), asked.key(data))
    try:
        if client == "claude":
            _speak(before, data)
            if not os.path.exists(os.path.join(asked.folder(), asked.key(data))):
                return (
                    False,
                    "a question leaves nothing to wait for: the audit folder cannot be written, or it was not asked",
                )
        done = _speak(after, {**data, "hook_event_name": "PostToolUse", "tool_response": {}})
    except subprocess.TimeoutExpired:
        return False, f"no answer within {TIMEOUT_S} s"
    if done.returncode != 0:
        return False, (done.stderr or done.stdout).decode("utf-8", "replace").strip()[:300]
    if os.path.exists(waits):
        with contextlib.suppress(OSError):
            os.unlink(waits)
        return False, "the hook after the tool did not see the question: its folder is another one"
    return True, "an answered question is written down" if client == "claude" else "it starts; Codex itself never asks"


def _speak(line: str, data: dict[str, Any]) -> subprocess.CompletedProcess[bytes]:
    text = json.dumps(data).encode()
    return subprocess.run(["/bin/sh", "-c", line], input=text, capture_output=True, timeout=TIMEOUT_S, check=False)


def verdict_of(client: str, code: int, stdout: bytes) -> str:
    """What a client does with a hook's answer: `passes` or `blocks` (measured on Claude Code 2.1.328 and Codex 0.169.0)."""
    if code == 2:
        return "blocks"
    if code != 0:
        return "passes"
    try:
        data: Any = json.loads(stdout or b"{}")
        answer: dict[str, Any] = data.get("hookSpecificOutput") or {}
    except (ValueError, AttributeError):
        return "passes"
    decision, reason = answer.get("permissionDecision"), answer.get("permissionDecisionReason")
    if decision == "deny":
        return "blocks" if reason or client == "claude" else "passes"
    if decision == "ask":
        return "blocks" if client == "claude" else "passes"
    return "passes"
