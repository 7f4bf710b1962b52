"""What the hook does with each tool of the clients: shells are checked, edits keep off the guard, MCP tools that act are looked into."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

from infer_forge.guard.model import ALLOW, ASK, DENY, RANK, Cmd, Redirect, Word


class Decision(NamedTuple):
    """What the hook does with one tool call.

    Attributes:
        shown: what the audit log shows; None: not worth an entry.
        locks: clock locks that the command makes, if it runs.
    """

    verdict: str
    rule: str = ""
    why: str = ""
    safer: str = ""
    shown: str | None = None
    locks: tuple[dict[str, Any], ...] = ()


_SILENT = Decision(ALLOW)

SHELL_TOOLS = frozenset(
    (
        "Bash",
        "bash",
        "shell",
        "exec_command",
        "local_shell",
        "unified_exec",
        "write_stdin",
        "Monitor",
        "PowerShell",
        "KillShell",
    )
)
EDIT_TOOLS = frozenset(("Edit", "Write", "MultiEdit", "NotebookEdit", "apply_patch", "ApplyPatch"))
_COMMAND_KEYS = ("command", "cmd", "script", "shell_command", "commands", "bash", "code", "shell")
_OURS = re.compile(r"(?:plugin[_:-]infer[_-]forge[_:-])?infer[_-]forge")
"""Our own server, registered by name or through the plugin; another server with this name in its own is none of ours."""
_READING = re.compile(
    r"^(?:read|get|list|search|find|show|describe|check|explain|query|fetch|view|status|lookup|compare|count|validate|plan|preview|scan|digest|triage|split|compute|decide)(?:_|$)",
    re.IGNORECASE,
)
_ACTING = re.compile(
    r"(?:^|_)(?:delete|remove|kill|drop|destroy|terminate|purge|reset|truncate|prune|stop|shutdown|merge|push|publish|deploy|upload|format|revoke|uninstall)(?:_|$)",
    re.IGNORECASE,
)


def decide(tool: str, tool_input: dict[str, Any], cwd: Any) -> Decision:
    """Decide on one tool call."""
    folder = cwd if isinstance(cwd, str) and cwd else os.getcwd()
    if tool in SHELL_TOOLS:
        return _shell(tool, tool_input, folder)
    if tool in EDIT_TOOLS:
        return _edit(tool, tool_input, folder)
    if tool.startswith("mcp__"):
        return _mcp(tool, tool_input, folder)
    if tool in ("Read", "NotebookRead", "view_image"):
        return _read(tool_input, folder)
    return _SILENT


def _policy(folder: str) -> dict[str, Any] | Decision:
    from infer_forge.guard import compiled

    try:
        return compiled.load(folder)
    except compiled.PolicyFault as exc:
        step = "a person runs at a terminal: infer-forge guard status --compile"
        return Decision(DENY, "policy.changed", str(exc), step, "")


def _check(command: str, folder: str, shown: str) -> Decision:
    from infer_forge.guard.context import from_ownership
    from infer_forge.guard.decide import check_with

    policy = _policy(folder)
    if isinstance(policy, Decision):
        return policy._replace(shown=shown)
    verdict = check_with(command, from_ownership(folder), policy)
    locks = tuple(h.facts for h in (*verdict.hits, *verdict.granted) if h.rule == "gpu.clock_lock")
    return Decision(verdict.verdict, verdict.rule_id or "", verdict.why, verdict.safer, shown, locks)


def _shell(tool: str, tool_input: dict[str, Any], folder: str) -> Decision:
    command = tool_input.get("command", tool_input.get("cmd", tool_input.get("chars")))
    if tool == "KillShell":
        return _SILENT
    if isinstance(command, list) and all(isinstance(c, str) for c in command):  # pyright: ignore[reportUnknownVariableType]
        import shlex

        command = shlex.join(command)  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(command, str):
        raise TypeError(f"the tool {tool} came without a command")
    if tool == "PowerShell":
        return Decision(DENY, "shell.unread", "PowerShell is not read by this guard", "use a POSIX shell", command)
    where = tool_input.get("workdir") or tool_input.get("cwd")
    return _check(command, os.path.join(folder, where) if isinstance(where, str) and where else folder, command)


def _edit(tool: str, tool_input: dict[str, Any], folder: str) -> Decision:
    policy = _policy(folder)
    if isinstance(policy, Decision):
        return policy._replace(shown=tool)
    paths = [v for k, v in tool_input.items() if k in ("file_path", "path", "notebook_path") and isinstance(v, str)]
    text = "\n".join(
        str(v)
        for k, v in tool_input.items()
        if k in ("content", "new_string", "edits", "input", "patch", "new_source", "command")
    )
    paths += re.findall(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", text, re.MULTILINE) and [
        a or b
        for a, b in re.findall(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", text, re.MULTILINE)
    ]
    bench = _bench(policy, folder)
    worst = _SILENT
    from infer_forge.base import redact
    from infer_forge.guard.rules.where import write

    hits = redact.find(text)
    if hits:
        worst = Decision(
            DENY,
            "secrets.literal",
            f"the new text holds a secret ({hits[0].kind})",
            policy["rules"]["secrets.literal"]["safer"],
            tool,
        )
    from infer_forge.guard.rules.diagnosis import edit_fault

    for path in paths:
        fault = edit_fault(path, folder, bench)
        if fault:
            safer = policy["rules"]["diagnosis.write"]["safer"]
            return Decision(DENY, "diagnosis.write", fault, safer, f"{tool} {path}")
        cmd = Cmd([Word(":")], {}, [Redirect(">", "", Word(path, quoted=True))], None, (0, 0), (folder,))
        verdict, rule, why = write(Word(path, quoted=True), cmd, bench, truncating=False)
        if rule in ("files.outside", "files.overwrite"):
            continue
        if RANK[verdict] > RANK[worst.verdict]:
            safer = policy["rules"].get(rule, {}).get("safer", "")
            worst = Decision(verdict, rule, why, safer, f"{tool} {path}")
    return worst


def _read(tool_input: dict[str, Any], folder: str) -> Decision:
    from infer_forge.guard.rules.where import matches

    policy = _policy(folder)
    path = tool_input.get("file_path") or tool_input.get("path")
    if isinstance(policy, Decision) or not isinstance(path, str):
        return _SILENT
    real = os.path.realpath(os.path.join(folder, os.path.expanduser(path)))
    if matches(real, policy["secret_files"]) and not matches(real, policy["secret_files_not"]):
        return Decision(
            DENY,
            "secrets.file",
            f"{path} holds credentials",
            policy["rules"]["secrets.file"]["safer"],
            f"Read {path}",
        )
    return _SILENT


def _bench(policy: dict[str, Any], folder: str) -> Any:
    from infer_forge.guard.context import from_ownership
    from infer_forge.guard.rules import Bench
    from infer_forge.guard.shell import Shell

    return Bench(Shell(from_ownership(folder), policy))


def _commands(tool_input: dict[str, Any]) -> list[str]:
    """Shell texts among a tool's arguments: strings, word lists, and `command` with `args`."""
    import shlex

    out: list[str] = []
    args: Any = tool_input.get("args", tool_input.get("arguments"))
    words = [str(a) for a in args] if isinstance(args, list) else list[str]()  # pyright: ignore
    for key in (*_COMMAND_KEYS, "argv"):
        value: Any = tool_input.get(key)
        if isinstance(value, list) and value:
            items = [str(v) for v in value]  # pyright: ignore
            out.append(shlex.join(items) if len(items) > 1 and key != "commands" else "\n".join(items))
        elif isinstance(value, str) and value.strip():
            out.append(f"{value} {shlex.join(words)}" if words else value)
    return out


def _mcp(tool: str, tool_input: dict[str, Any], folder: str) -> Decision:
    """A tool of an MCP server: commands among its arguments are checked; a verb that acts and cannot be looked into is asked about."""
    server, _, verb = tool.removeprefix("mcp__").rpartition("__")
    ours = _OURS.fullmatch(server) is not None
    worst = _SILENT
    found = False
    for command in [] if ours else _commands(tool_input):
        found = True
        decision = _check(command, folder, f"{tool}: {command}")
        if RANK[decision.verdict] > RANK[worst.verdict] or worst.shown is None:
            worst = decision
    if found or ours or _READING.match(verb):
        return worst
    if _ACTING.search(verb):
        why = f"{tool} changes something outside of this guard's sight"
        return Decision(ASK, "gate.tool", why, "", f"{tool} {sorted(tool_input)}")
    return worst
