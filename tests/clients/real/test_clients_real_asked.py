"""A question of the guard in the real Claude Code, answered by a person's stand-in: does the answer leave evidence?"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from infer_forge.guard import hook_config
from tests.clients.real.programs import Home
from tests.clients.real.scripted_model import Call, scripted

ASKED = 'touch ran.txt; eval "$INFER_FORGE_NOTHING"'
PERSON = """
import json, sys
from mcp.server import MCPServer

server = MCPServer("person")

@server.tool(structured_output=False)
def answer(tool_name: str, input: dict, tool_use_id: str = "") -> str:
    "What a person says when the client asks."
    said = sys.argv[1]
    return json.dumps({"behavior": "allow", "updatedInput": input} if said == "yes" else {"behavior": "deny", "message": "no"})

server.run("stdio")
"""


def answered(home: Home, command: str, said: str) -> None:
    """Let the model ask for one shell command while a person at the client says yes or no."""
    program = home.folder / "person.py"
    program.write_text(PERSON)
    config = home.folder / "person.json"
    server = {"command": sys.executable, "args": [str(program), said]}
    config.write_text(json.dumps({"mcpServers": {"person": server}}))
    with scripted([Call("Bash", {"command": command, "description": "try"})]) as model:
        home.claude(model, "--mcp-config", str(config), "--permission-prompt-tool", "mcp__person__answer")


def questions(home: Home) -> list[tuple[str, str]]:
    rows = json.loads(home.forge("guard", "status", "--format", "json"))["tables"]["asked"]["rows"]
    return [(row[1], row[3]) for row in rows]


@pytest.mark.parametrize(("said", "outcome"), [("yes", "ran"), ("no", "not seen")])
def test_what_a_person_allows_in_claude_code_is_on_record(home: Home, said: str, outcome: str) -> None:
    home.forge("install", "--client", "claude", "--no-server")
    answered(home, ASKED, said)
    assert (home.project / "ran.txt").exists() is (said == "yes")
    assert questions(home) == [("shell.unread", outcome)]


def test_a_command_that_was_allowed_and_failed_is_on_record_as_well(home: Home) -> None:
    home.forge("install", "--client", "claude", "--no-server")
    answered(home, f"{ASKED}; exit 3", "yes")
    assert (home.project / "ran.txt").exists()
    assert questions(home) == [("shell.unread", "failed")]


@pytest.mark.parametrize("client", hook_config.CLIENTS)
def test_both_clients_run_the_hook_after_a_tool(home: Home, client: str) -> None:
    """The measurement that the evidence stands on: the event, and the id of the call that both hooks see."""
    home.forge("install", "--client", client, "--no-server")
    file = home.folder / (".claude/settings.json" if client == "claude" else ".codex/hooks.json")
    settings = json.loads(file.read_text())
    seen = {event: home.folder / f"{event}.json" for event in ("PreToolUse", "PostToolUse")}
    for event, place in seen.items():
        settings["hooks"][event][0]["hooks"][0]["command"] = f"cat > {shlex.quote(str(place))}"
    file.write_text(json.dumps(settings))
    if client == "claude":
        with scripted([Call("Bash", {"command": "touch ran.txt", "description": "try"})]) as model:
            home.claude(model, "--allowedTools", "Bash")
    else:
        with scripted([Call("exec_command", {"cmd": "touch ran.txt"})]) as model:
            home.codex(model, "--dangerously-bypass-hook-trust", "-c", 'sandbox_mode="danger-full-access"')
    before, after = (json.loads(Path(place).read_text()) for place in seen.values())
    assert (before["hook_event_name"], after["hook_event_name"]) == ("PreToolUse", "PostToolUse")
    assert before["tool_use_id"] == after["tool_use_id"]
    assert before["session_id"] == after["session_id"]
