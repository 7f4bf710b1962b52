"""The checkout as a plugin, installed with one command by each real client: skills, hook and server work from its cache."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.clients.real.programs import ROOT, Home
from tests.clients.real.scripted_model import Call, scripted

PARTS = (".claude-plugin", ".codex-plugin", ".mcp.json", ".codex-mcp.json", "hooks", "skills", "README.md")
SEEN = (
    "plugin",
    "skill-ncu-report",
    "server-registered",
    "guard-hook-registered",
    "guard-hook-runs",
    "guard-answers-kept",
)
DENIED = "touch ran.txt; pkill -f infer-forge-no-such-process"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The plugin's files, as a clone of the repository has them."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in PARTS:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    return folder


def test_claude_installs_the_plugin_and_its_skills_hook_and_server_work(home: Home, checkout: Path) -> None:
    home.client("claude", "plugin", "marketplace", "add", str(checkout))
    home.client("claude", "plugin", "install", "infer-forge@infer-forge")
    home.forge("guard", "status", "--compile")  # the policy that the hook reads
    seen = home.checks("claude")
    assert {seen[rule][0] for rule in SEEN} == {"pass"}, seen
    tool = "mcp__plugin_infer-forge_infer-forge__check_command"
    script = [Call(tool, {"command": "ls"}), Call("Bash", {"command": DENIED, "description": "try"})]
    with scripted(script) as model:
        home.claude(model, "--allowedTools", "Bash,mcp__plugin_infer-forge_infer-forge")
    answered, refused = model.results()
    assert '"allow"' in answered.replace('\\"', '"')
    assert "process.by_name" in refused
    assert not (home.project / "ran.txt").exists()
    for folder in (ROOT / "skills").iterdir():
        assert f"infer-forge:{folder.name}" in json.dumps(model.last())


def test_codex_installs_the_plugin_and_its_skills_hook_and_server_work(home: Home, checkout: Path) -> None:
    home.client("codex", "plugin", "marketplace", "add", str(checkout))
    home.client("codex", "plugin", "add", "infer-forge@infer-forge")
    home.forge("guard", "status", "--compile")
    seen = home.checks("codex")
    assert {seen[rule][0] for rule in SEEN} == {"pass"}, seen
    wait = Call("exec_command", {"cmd": "sleep 3"})  # the client starts its first turn without waiting for a server
    asked = [
        Call("check_command", {"command": "ls"}, "mcp__infer_forge"),
        Call("read_node_status", {}, "mcp__infer_forge"),
    ]
    script = [wait, Call("exec_command", {"cmd": DENIED}), *asked]
    with scripted(script) as model:
        home.codex(model, "--dangerously-bypass-hook-trust", "-c", 'sandbox_mode="danger-full-access"')
    _, refused, answered, nodes = model.results()
    assert str(home.state) in nodes  # the server keeps its state where the command line does
    assert "process.by_name" in refused
    assert not (home.project / "ran.txt").exists()
    assert '"allow"' in answered.replace('\\"', '"')
    for folder in (ROOT / "skills").iterdir():
        assert f"{folder.name}/SKILL.md)" in json.dumps(model.last())
