"""Real Claude Code and Codex reach the installed skills and server: what the model is shown, and what comes back to it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infer_forge_mcp.server import chosen, found_tools
from tests.clients.real.programs import ROOT, Home
from tests.clients.real.scripted_model import Call, ScriptedModel, scripted

SKILL = "llm-torch-profiler-analysis"
SERVER = "mcp__infer-forge__"
CODEX_SERVER = "mcp__infer_forge"
ALLOWED = ("--allowedTools", "Bash,Skill,mcp__infer-forge")
CAP = 8_000


@pytest.fixture(scope="session")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's own sample trace."""
    path = tmp_path_factory.mktemp("trace") / "sample.json.gz"
    argv = [sys.executable, "-m", "trace_gen", "--spec", "sample", "--out", str(path)]
    subprocess.run(argv, cwd=ROOT / "scripts", check=True, capture_output=True, timeout=200)
    return path


def answer_in(result: str) -> dict[str, Any]:
    """The structured answer in what a client told the model."""
    for text in (result, *(part.get("text", "") for part in _parts(result))):
        found = re.search(r"\{\"kind\".*\}", text, re.DOTALL)
        if found:
            return json.JSONDecoder().raw_decode(found[0])[0]
    raise AssertionError(f"no structured answer in {result[:500]}")


def _parts(result: str) -> list[dict[str, Any]]:
    return json.loads(result) if result.startswith("[") else []


def shown(model: ScriptedModel) -> str:
    """All that the model had been sent by the end. A server that starts late on a busy machine is told of late."""
    return json.dumps(model.last(), ensure_ascii=False)


def installed(home: Home, client: str) -> None:
    """Install; and since these tests are not about speed, have Codex wait for the server."""
    home.forge("install", "--client", client)
    if client == "codex":
        config = home.folder / ".codex" / "config.toml"
        table = "[mcp_servers.infer-forge]"
        config.write_text(config.read_text().replace(table, f"{table}\nrequired = true"))


def check_triage(answer: dict[str, Any], trace: Path) -> None:
    assert answer["kind"] == "triage"
    assert answer["header"]["inputs"][0]["path"] == str(trace)
    assert len(answer["header"]["inputs"][0]["sha256"]) == 64
    assert answer["tables"]["kernel"]["rows"]
    assert answer["next_step"]


def test_claude_finds_a_deferred_tool_by_its_name_and_triages_a_trace(home: Home, trace: Path) -> None:
    installed(home, "claude")
    name = f"{SERVER}triage_trace"
    script = [Call("ToolSearch", {"query": f"select:{name}"}), Call(name, {"trace": str(trace)})]
    with scripted(script) as model:
        done = home.claude(model, *ALLOWED)
    assert (done["is_error"], done["permission_denials"]) == (False, [])
    opening = shown(model)
    for tool in chosen():
        assert f"{SERVER}{tool}" in opening
    assert name not in {t.get("name") for t in model.main_requests()[0]["tools"]}
    loaded = next(t for t in model.last()["tools"] if t.get("name") == name)
    assert set(loaded["input_schema"]["properties"]) >= {"trace", "stage", "min_share", "limit"}
    check_triage(answer_in(model.results()[1]), trace)


def test_claude_is_told_what_the_server_is_for(home: Home) -> None:
    installed(home, "claude")
    with scripted([Call("ToolSearch", {"query": "trace"})]) as model:
        home.claude(model, *ALLOWED)
    assert "Start with triage_trace for a torch-profiler trace" in shown(model)


def test_claude_loads_an_installed_skill_and_runs_its_script(home: Home, trace: Path) -> None:
    installed(home, "claude")
    script = home.folder / ".claude" / "skills" / SKILL / "scripts" / "triage.py"
    command = f"python3 {script} {trace} --format json --min-share 20"
    with scripted(
        [Call("Skill", {"skill": SKILL}), Call("Bash", {"command": command, "description": "triage"})]
    ) as model:
        home.claude(model, *ALLOWED)
    for folder in (ROOT / "skills").iterdir():
        assert folder.name in shown(model)
    assert "## When" in json.dumps(model.last())
    assert answer_in(model.results()[1])["header"]["inputs"][0]["path"] == str(trace)


def test_codex_triages_a_trace_through_the_installed_server(home: Home, trace: Path) -> None:
    installed(home, "codex")
    with scripted([Call("triage_trace", {"trace": str(trace)}, CODEX_SERVER)]) as model:
        events = home.codex(model)
    space = next(t for t in model.main_requests()[0]["tools"] if t.get("name") == CODEX_SERVER)
    assert {t["name"] for t in space["tools"]} == set(chosen())
    assert "Start with triage_trace" in space["description"]
    assert any(e.get("item", {}).get("type") == "mcp_tool_call" for e in events)
    check_triage(answer_in(model.results()[0]), trace)


def test_codex_is_told_of_the_skills_and_runs_a_skills_script(home: Home, trace: Path) -> None:
    installed(home, "codex")
    home.profile()
    folder = home.folder / ".codex" / "skills" / SKILL
    command = f"python3 {folder}/scripts/triage.py {trace} --format json --min-share 20 | head -c 3000"
    script = [Call("exec_command", {"cmd": f"cat {folder}/SKILL.md"}), Call("exec_command", {"cmd": command})]
    with scripted(script) as model:
        home.codex(model, "--dangerously-bypass-approvals-and-sandbox")
    for skill in (ROOT / "skills").iterdir():
        assert f"{skill.name}/SKILL.md)" in shown(model)
    assert "## When" in model.results()[0]
    assert str(trace) in model.results()[1]


def test_codex_keeps_the_state_where_the_command_line_keeps_it(home: Home) -> None:
    installed(home, "codex")
    with scripted([Call("read_node_status", {}, CODEX_SERVER)]) as model:
        home.codex(model)
    assert str(home.state) in model.results()[0]


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_a_long_answer_reaches_the_model_whole_and_names_the_file_with_the_rest(
    home: Home, trace: Path, client: str
) -> None:
    installed(home, client)
    prefix = SERVER if client == "claude" else ""
    arguments = {"trace": str(trace), "min_share": 0, "limit": 500}
    call = Call(f"{prefix}triage_trace", arguments, CODEX_SERVER if client == "codex" else None)
    with scripted([call]) as model:
        if client == "claude":
            home.claude(model, *ALLOWED)
        else:
            home.codex(model)
    result = model.results()[0]
    assert "truncated" not in result
    assert "tool-results" not in result
    answer = answer_in(result)
    assert len(json.dumps(answer, separators=(",", ":"), ensure_ascii=False)) <= CAP
    whole = json.loads(Path(answer["artifact"]["path"]).read_text())
    left_out = answer["omitted_rows"]["kernel"]
    assert left_out == len(whole["tables"]["kernel"]["rows"]) - len(answer["tables"]["kernel"]["rows"]) > 0


def test_codex_without_approvals_runs_what_is_annotated_as_safe_and_refuses_what_is_not(home: Home) -> None:
    installed(home, "codex")
    config = home.folder / ".codex" / "config.toml"
    config.write_text(config.read_text().replace('"serve"]', '"serve", "--toolsets", "nodes"]'))
    claim = {"node": "n1", "gpus": [0]}
    acting = {n: spec.annotations for n, (spec, _) in found_tools().items() if spec.toolset == "nodes"}
    assert acting["claim_node"].open_world_hint
    assert acting["release_node"].destructive_hint
    script = [
        Call("check_command", {"command": "nvidia-smi"}, CODEX_SERVER),
        Call("claim_node", claim, CODEX_SERVER),
        Call("release_node", {"claim_id": "c"}, CODEX_SERVER),
    ]
    with scripted(script) as model:
        home.codex(model)
    read, claimed, released = model.results()
    assert answer_in(read)["data"]["verdict"] == "allow"
    for refused in (claimed, released):
        assert "requires approval" in refused
    assert not (home.state / "stores").exists()


def slow(home: Home, client: str, seconds: float) -> None:
    """Make the installed server start late."""
    file = home.folder / (".claude.json" if client == "claude" else ".codex/config.toml")
    exe = str(Path(sys.executable).parent / "infer-forge")
    late = home.folder / "late-server"
    late.write_text(f'#!/bin/sh\nsleep {seconds}\nexec {exe} "$@"\n')
    late.chmod(0o755)
    text = file.read_text()
    assert exe in text
    file.write_text(text.replace(f'"{exe}"', f'"{late}"', 1))


def test_claude_waits_for_a_server_that_starts_slowly(home: Home) -> None:
    installed(home, "claude")
    slow(home, "claude", 3)
    with scripted([Call(f"{SERVER}check_command", {"command": "ls"})]) as model:
        home.claude(model, *ALLOWED)
    assert answer_in(model.results()[0])["data"]["verdict"] == "allow"


@pytest.mark.parametrize("required", [False, True])
def test_codex_leaves_a_slow_server_out_of_the_first_turn_unless_it_is_required(home: Home, required: bool) -> None:
    """Why the server must answer in well under a second, and what `doctor` advises when it does not."""
    if required:
        installed(home, "codex")
    else:
        home.forge("install", "--client", "codex")
    slow(home, "codex", 3)
    with scripted([]) as model:
        home.codex(model)
    names = {t.get("name") for t in model.main_requests()[0]["tools"]}
    assert (CODEX_SERVER in names) is required
