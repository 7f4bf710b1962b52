"""What a client will see of us: skills, server, hooks; each as a check that passes, fails, is slow, or could not be looked at."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infer_forge.base.errors import InputUnusable
from infer_forge.base.records import Report
from infer_forge.base.tables import Table
from infer_forge.clients import skills
from infer_forge.clients.model import Client, Hook, Place, client_named, executable, program_in
from infer_forge.clients.plugin import Plugin

PASS, FAIL, UNKNOWN, SLOW = "pass", "fail", "unknown", "slow"
# Codex drops optional servers that need about a second from the first turn (seen with 0.171.0): slow, and no fault.
SLOW_START_S = 1.0
ANSWER_LIMIT_S = 20.0


@dataclass(frozen=True)
class Check:
    """One check: rule id, outcome, what was seen, how to mend it."""

    rule: str
    outcome: str
    evidence: str
    fix: str = ""


def examine(
    client: str,
    *,
    project: Path | None = None,
    canary: Callable[[str], tuple[bool, str]] | None = None,
    after_canary: Callable[[str, str], tuple[bool, str]] | None = None,
) -> Report:
    """Look at everything that `client` will see.

    Args:
        canary: runs a dangerous sample through a hook command and says whether it was blocked (the guard gives it).
        after_canary: the same for the pair of commands before and after a tool: is an answered question written down?

    The report's `extra["outcome"]` is `pass`, `fail` or `unknown`.
    """
    found, checks = _seen(client_named(client), project)
    checks += [
        *_looked("skills", lambda: _skill_checks(found, project)),
        *_looked("server-registered", lambda: _server_checks(found, project)),
        *_looked("guard-hook-registered", lambda: _hook_checks(found, project, canary)),
        *_looked("guard-answers-kept", lambda: _after_checks(found, project, after_canary)),
    ]
    if client == "codex":
        checks += [_codex_trust(checks), _login_shell()]
    report = Report("doctor", extra={"outcome": outcome_of(checks), "client": client})
    report.add(
        Table(
            "checks", ["rule", "outcome", "evidence", "fix"], [(c.rule, c.outcome, c.evidence, c.fix) for c in checks]
        )
    )
    counts = {o: sum(c.outcome == o for c in checks) for o in (PASS, FAIL, UNKNOWN, SLOW)}
    report.summary = [f"{client}: " + ", ".join(f"{n} {o}" for o, n in counts.items() if n)]
    worst_first = [c for outcome in (FAIL, UNKNOWN, SLOW) for c in checks if c.outcome == outcome and c.fix]
    report.next_step = worst_first[0].fix if worst_first else f"start {client} and ask for a triage of a trace"
    return report


def _seen(client: Client, project: Path | None) -> tuple[Place, list[Check]]:
    """What the client reads us from: the plugin where it is all there is, else what `install` puts in place."""
    try:
        place = client.plugin(project)
        put = client.server_command(project) is not None or bool(_guards(client, project))
    except (InputUnusable, OSError):
        return client, []  # the checks say which file cannot be read
    if place is None:
        return client, []
    if not put:
        return Plugin(client, place), [Check("plugin", PASS, str(place.folder))]
    twice = f"{place.folder}; what infer-forge install put in place is there too: each hook runs twice, take one away"
    return client, [Check("plugin", PASS, twice)]


def _guards(client: Place, project: Path | None) -> dict[str, str]:
    """Event -> command of the guard's hooks; of several the last."""
    return {h.event: h.command for h in client.hooks(project) if _is_guard(h)}


def _is_guard(hook: Hook) -> bool:
    return hook.program == "infer-forge-guard"


def _start_fix(client: Place, program: str) -> str:
    """A program that is named without its folder must be found on PATH."""
    return client.AGAIN if os.sep in program else f"put the folder of {program} on PATH, where {client.NAME} is started"


def _looked(rule: str, look: Callable[[], list[Check]]) -> list[Check]:
    """The checks of one part; settings that cannot be read fail this part and hide no other."""
    try:
        return look()
    except InputUnusable as exc:
        return [Check(rule, FAIL, f"{exc.where}: {exc.what}", exc.next_step or "mend the file")]
    except OSError as exc:
        return [Check(rule, FAIL, f"{exc.filename}: {exc.strerror}", "make it readable for this user")]


def outcome_of(checks: Iterable[Check]) -> str:
    """`fail` when any fails, else `unknown` when any is unknown, else `pass`: what is slow works."""
    outcomes = {c.outcome for c in checks}
    return FAIL if FAIL in outcomes else UNKNOWN if UNKNOWN in outcomes else PASS


def _skill_checks(client: Place, project: Path | None) -> list[Check]:
    folder = client.skills_folder(project)
    again = client.AGAIN
    checks: list[Check] = []
    for name in skills.shipped():
        state = skills.state(name, folder / name)
        if isinstance(client, Plugin) and state == "foreign":
            state = "outdated"  # the client's own copy of the plugin, of another version than this package
        good = state in ("linked", "current")
        fix = "" if good else again if state in ("absent", "outdated") else f"move {folder / name} away, then {again}"
        checks.append(Check(f"skill-{name}", PASS if good else FAIL, f"{folder / name}: {state}", fix))
    return checks


def _server_checks(client: Place, project: Path | None) -> list[Check]:
    command = client.server_command(project)
    again = client.AGAIN
    if command is None:
        return [Check("server-registered", FAIL, "no MCP server infer-forge is registered", again)]
    registered = Check("server-registered", PASS, " ".join(command))
    try:
        asked = [_ask_server(command) for _ in range(2)]  # the first start may read cold files
    except (OSError, ValueError, subprocess.TimeoutExpired) as exc:
        fix = _start_fix(client, command[0]) if isinstance(exc, FileNotFoundError) else again
        return [registered, Check("server-answers", FAIL, f"{type(exc).__name__}: {exc}", fix)]
    took, processor, tools = min(asked, key=lambda a: a[0])
    of_it = "" if processor is None else f" ({processor:.2f} s of processor time with the list of tools)"
    evidence = f"initialize answered in {took:.2f} s{of_it}, {tools} tools"
    if took <= SLOW_START_S:
        return [registered, Check("server-answers", PASS, evidence)]
    busy = "; the machine was busy" if processor is not None and processor <= SLOW_START_S else ""
    return [registered, Check("server-answers", SLOW, f"{evidence}{busy}", _slow_fix(client))]


def _slow_fix(client: Place) -> str:
    again = f"infer-forge doctor --client {client.NAME}"
    if client.NAME == "codex":
        return (
            "add required = true to [mcp_servers.infer-forge] in config.toml: else the first turn of `codex exec` "
            f"starts without the tools; or, where the machine was only busy: {again}"
        )
    return f"the first turn may miss the tools while the server starts; when the machine is less busy: {again}"


@contextlib.contextmanager
def _deadline(process: subprocess.Popen[Any]) -> Generator[None]:
    """A program that does not answer is ended, so that a check never hangs."""
    timer = threading.Timer(ANSWER_LIMIT_S, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _ask_server(command: list[str]) -> tuple[float, float | None, int]:
    """Start the registered server as the client would; seconds to its first answer, those of a processor that it had
    spent by the list of tools (None where the system does not tell), and the number of tools.
    """
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "doctor", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    start = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with _deadline(process), process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write("".join(f"{json.dumps(m)}\n" for m in messages).encode())
            process.stdin.flush()
            first = json.loads(process.stdout.readline() or "null")
            took = time.monotonic() - start
            listed = json.loads(process.stdout.readline() or "null")
            processor = _processor_s(process.pid)
        finally:
            process.kill()
    if not first or "result" not in first or not listed:
        raise ValueError("the server gave no answer")
    return took, processor, len(listed["result"]["tools"])


def _processor_s(pid: int) -> float | None:
    """Processor seconds that a running process and what it started have spent; None where the system does not tell."""
    import psutil

    try:
        root = psutil.Process(pid)
        return sum(sum(p.cpu_times()[:4]) for p in (root, *root.children(recursive=True)))
    except psutil.Error:
        return None


def _hook_checks(client: Place, project: Path | None, canary: Callable[[str], tuple[bool, str]] | None) -> list[Check]:
    command = next((h.command for h in client.hooks(project) if _is_guard(h) and h.event == "PreToolUse"), None)
    if command is None:
        evidence = "the safety guard's hook is not registered: nothing is blocked"
        return [Check("guard-hook-registered", FAIL, evidence, client.AGAIN)]
    program = program_in(command)
    checks = [Check("guard-hook-registered", PASS, command)]
    if shutil.which(program) is None:
        return [*checks, Check("guard-hook-runs", FAIL, f"{program} cannot be run", _start_fix(client, program))]
    if canary is None:
        return [*checks, Check("guard-hook-runs", UNKNOWN, "no canary was given")]
    blocked, said = canary(command)
    fix = "" if blocked else "infer-forge guard status"
    return [*checks, Check("guard-hook-runs", PASS if blocked else FAIL, said, fix)]


def _after_checks(
    client: Place, project: Path | None, canary: Callable[[str, str], tuple[bool, str]] | None
) -> list[Check]:
    """Whether what a person allows inside the client leaves evidence: the guard's hook after the tool."""
    ours = _guards(client, project)
    before, after = ours.get("PreToolUse"), ours.get("PostToolUse")
    if before is None:
        return []  # said already
    fix = client.AGAIN
    if after is None:
        evidence = "no hook after the tool: what a person allows in the client leaves no record"
        return [Check("guard-answers-kept", FAIL, evidence, fix)]
    if canary is None or shutil.which(program_in(before)) is None:
        return [Check("guard-answers-kept", UNKNOWN, "no canary was given, or the hook cannot be run", fix)]
    kept, said = canary(before, after)
    return [Check("guard-answers-kept", PASS if kept else FAIL, said, "" if kept else fix)]


def _codex_trust(checks: list[Check]) -> Check:
    """Whether Codex trusts the hook: asked of its app-server, when codex is there."""
    if not any(c.rule == "guard-hook-registered" and c.outcome == PASS for c in checks):
        return Check("codex-trusts-hook", UNKNOWN, "no hook to trust", "infer-forge install --client codex")
    by_hand = "start `codex`, open /hooks and trust infer-forge-guard"
    codex = shutil.which("codex")
    if not codex:
        return Check(
            "codex-trusts-hook", UNKNOWN, "codex is not on PATH, so its trust state could not be read", by_hand
        )
    try:
        status = _ask_codex(codex)
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as exc:
        return Check("codex-trusts-hook", UNKNOWN, f"codex app-server did not tell ({type(exc).__name__})", by_hand)
    good = status == "trusted"
    return Check("codex-trusts-hook", PASS if good else FAIL, f"trustStatus {status}", "" if good else by_hand)


def _login_shell() -> Check:
    """Whether the login shell in which Codex runs commands finds ours; `/etc/profile` often sets PATH anew."""
    shell = shutil.which("bash") or "/bin/sh"
    try:
        done = subprocess.run(
            [shell, "-lc", "command -v infer-forge"], capture_output=True, text=True, timeout=ANSWER_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        return Check("shell-finds-command", UNKNOWN, f"{shell} -l did not tell ({type(exc).__name__})")
    if done.returncode == 0:
        return Check("shell-finds-command", PASS, done.stdout.strip())
    folder = Path(executable("infer-forge")).parent
    evidence = f"Codex runs commands in a login shell ({shell} -l), and that does not find infer-forge"
    return Check("shell-finds-command", FAIL, evidence, f"add to ~/.profile: export PATH={folder}:$PATH")


def _ask_codex(codex: str) -> str:
    """trustStatus of our hook as `codex app-server` lists it."""
    client_info = {"name": "infer-forge-doctor", "title": "doctor", "version": "1"}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": {"clientInfo": client_info}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [str(Path.cwd())]}},
    ]
    text = "".join(f"{json.dumps(m)}\n" for m in messages)
    process = subprocess.Popen(
        [codex, "app-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with _deadline(process), process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(text)
            process.stdin.flush()
            for _ in range(40):
                message = json.loads(process.stdout.readline())
                if message.get("id") == 2:
                    return _trust_in(message["result"])
        finally:
            process.kill()
    raise ValueError("no answer")


def _trust_in(listed: dict[str, Any]) -> str:
    hooks = [h for place in listed.get("data", []) for h in place.get("hooks", [])]
    ours = [h for h in hooks if "infer-forge-guard" in json.dumps(h)]
    found = [str(h.get("trustStatus", "unknown")) for h in ours]
    return next((status for status in found if status != "trusted"), found[0]) if found else "not listed"
