"""`infer-forge-guard`: the PreToolUse hook of Claude Code and Codex, which fails closed, and the hook after a tool ran.

It reads one JSON object from standard input. Exit 0 without output leaves the decision to the client, exit 2 with a
reason on standard error blocks in both clients; `ask` is only ever printed for a client that can ask. Whatever goes
wrong (no JSON, an exception, its own watchdog) ends in exit 2. It starts no process and opens no network.
Standard library and tree-sitter only; everything is imported inside `main`, so that a broken import blocks as well.
With `--after` it is the PostToolUse hook: it only notes that a command which a person was asked about did run (see
`guard.asked`), can block nothing any more, and says so with exit 1 when it cannot note it.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

WATCHDOG_S = 5.0
"""Shorter than the time that the clients give the hook."""
MAX_INPUT = 4 * 1024 * 1024
BLOCK = 2


def main(argv: list[str] | None = None) -> NoReturn:
    """Entry point; always ends the process."""
    words = sys.argv[1:] if argv is None else argv
    try:
        _watchdog()
        client = words[words.index("--client") + 1] if "--client" in words[:-1] else ""
        code, out, err = _answer(_read(), client)
    except BaseException as exc:
        code, out, err = (
            1 if "--after" in words else BLOCK,
            "",
            f"infer-forge-guard blocked this: it failed ({type(exc).__name__}: {str(exc)[:200]}). A person must look: infer-forge doctor",
        )
    _end(code, out, err)


def _end(code: int, out: str, err: str) -> NoReturn:
    try:
        if out:
            data = out.encode()
            if os.write(1, data) != len(data):
                code = BLOCK
        if err:
            os.write(2, (err + "\n").encode("utf-8", "replace"))
    except OSError:
        code = BLOCK
    os._exit(code)


def _watchdog() -> None:
    import signal

    def bark(_signal: int, _frame: Any) -> None:
        _end(BLOCK, "", f"infer-forge-guard blocked this: no decision within {WATCHDOG_S:.0f} s. Run a shorter command")

    signal.signal(signal.SIGALRM, bark)
    wanted = os.environ.get("INFER_FORGE_GUARD_WATCHDOG_S")
    signal.setitimer(signal.ITIMER_REAL, min(max(float(wanted), 0.01), WATCHDOG_S) if wanted else WATCHDOG_S)


def _read() -> dict[str, Any]:
    import json

    chunks: list[bytes] = []
    size = 0
    while chunk := os.read(0, 1 << 16):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_INPUT:
            raise ValueError("the hook's input is larger than 4 MiB")
    data = json.loads(b"".join(chunks))
    if not isinstance(data, dict):
        raise TypeError("the hook's input is no JSON object")
    return data  # pyright: ignore[reportUnknownVariableType]


def _answer(data: dict[str, Any], client: str) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) for one hook input."""
    event = data.get("hook_event_name")
    if event in ("PostToolUse", "PostToolUseFailure"):
        from infer_forge.guard import asked

        asked.ran(data, client, failed=event == "PostToolUseFailure")
        return 0, "", ""
    if event != "PreToolUse":
        if isinstance(event, str) and event:
            return 0, "", ""
        raise ValueError("the hook's input names no event")
    tool, tool_input = data.get("tool_name"), data.get("tool_input")
    if not isinstance(tool, str) or not tool:
        raise ValueError("the hook's input names no tool")
    from infer_forge.guard import tools

    arguments: dict[str, Any] = tool_input if isinstance(tool_input, dict) else {}  # pyright: ignore[reportUnknownVariableType]
    found = tools.decide(tool, arguments, data.get("cwd"))
    verdict, rule = found.verdict, found.rule
    asks = verdict == "ask"
    can_ask = client == "claude" and data.get("permission_mode") in ("default", "acceptEdits", "plan", "auto")
    final = "deny" if asks and not can_ask else verdict
    if found.shown is not None:
        _note(data, client, tool, found, final)
    if verdict == "allow":
        return 0, "", ""
    reason = f"infer-forge guard: {found.why} [{rule}]." + (f" Instead: {found.safer}." if found.safer else "")
    if asks:
        reason += f" A person can allow it at a terminal: infer-forge guard grant --action {rule} --for 30m, or run it themselves."
    if final == "ask":
        import json

        out = {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "ask",
                "permissionDecisionReason": reason,
            }
        }
        return 0, json.dumps(out), ""
    return BLOCK, "", reason


def _note(data: dict[str, Any], client: str, tool: str, found: Any, final: str) -> None:
    """Audit the decision; what a person is asked about, and what locks a clock, is looked for after the tool has run."""
    from infer_forge.guard import audit

    entry = {
        "session": str(data.get("session_id", ""))[:80],
        "client": client,
        "tool": tool[:80],
        "verdict": final,
        "rule": found.rule,
        "command": found.shown,
        "cwd": str(data.get("cwd", ""))[:400],
    }
    if final == "ask" or (found.locks and final == "allow"):
        from infer_forge.guard import asked

        entry["ask"] = asked.expect(data, found.locks, final)
    audit.append(entry)


if __name__ == "__main__":
    main()
