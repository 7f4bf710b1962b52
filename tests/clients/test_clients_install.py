"""Install puts things where each client looks, leaves everybody else's alone, can be repeated, and is undone by uninstall."""

from __future__ import annotations

import json
import re
import shutil
import stat
import sys
from pathlib import Path

import pytest

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.tables import Table
from infer_forge.clients import client_named, doctor, examine, install, skills, uninstall
from infer_forge.clients.model import CLIENT_NAMES, Hook

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parents[2]
GUARD = Hook("PreToolUse", "Bash|mcp__.*", "/opt/x/infer-forge-guard", 10)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take long to start a real server."""
    monkeypatch.setattr(doctor, "ANSWER_LIMIT_S", 120.0)


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Two skills of our own making in place of the real ones."""
    made: dict[str, Path] = {}
    for name in ("one-skill", "two-skill"):
        folder = tmp_path / "shipped" / name
        (folder / "scripts").mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\n---\n")
        (folder / "scripts" / "run.py").write_text("pass\n")
        made[name] = folder
    monkeypatch.setattr(skills, "shipped", lambda: made)
    return made


def outcomes(table: Table) -> list[str]:
    return [row[2] for row in table.rows]


@pytest.mark.parametrize("name", CLIENT_NAMES)
@pytest.mark.parametrize("in_project", [False, True])
def test_a_second_install_changes_nothing_and_uninstall_leaves_nothing(
    name: str, in_project: bool, tmp_path: Path, shipped: dict[str, Path]
) -> None:
    project = tmp_path / "project" if in_project else None
    first = install(name, project=project, hooks=[GUARD])
    assert set(outcomes(first.tables["changes"])) == {"added"}
    again = install(name, project=project, hooks=[GUARD])
    assert set(outcomes(again.tables["changes"])) == {"unchanged"}
    client = client_named(name)
    assert client.hooks(project) == [GUARD]
    assert client.server_command(project) is not None
    assert all((client.skills_folder(project) / s / "SKILL.md").is_file() for s in shipped)
    gone = uninstall(name, project=project)
    assert set(outcomes(gone.tables["changes"])) == {"removed"}
    assert "in place" not in gone.summary[0]
    assert (client.hooks(project), client.server_command(project)) == ([], None)
    assert not any(client.skills_folder(project).iterdir())


def test_links_follow_the_installation(shipped: dict[str, Path]) -> None:
    install("claude", link=True)
    target = client_named("claude").skills_folder(None) / "one-skill"
    assert target.resolve() == shipped["one-skill"].resolve()
    assert skills.state("one-skill", target) == "linked"


def test_an_upgrade_replaces_an_old_copy_but_not_an_edited_one(shipped: dict[str, Path]) -> None:
    install("claude")
    folder = client_named("claude").skills_folder(None)
    (folder / "two-skill" / "SKILL.md").write_text("edited by its user")
    for source in shipped.values():
        (source / "SKILL.md").write_text("new version")
    assert skills.state("one-skill", folder / "one-skill") == "outdated"
    report = install("claude")
    assert (folder / "one-skill" / "SKILL.md").read_text() == "new version"
    assert (folder / "two-skill" / "SKILL.md").read_text() == "edited by its user"
    assert any(o.startswith("skipped: it was edited") for o in outcomes(report.tables["changes"]))


def test_a_folder_of_the_same_name_that_is_not_ours_is_left_alone(shipped: dict[str, Path]) -> None:
    folder = client_named("claude").skills_folder(None) / "one-skill"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("somebody else's")
    install("claude")
    uninstall("claude")
    assert (folder / "SKILL.md").read_text() == "somebody else's"


def test_other_settings_and_hooks_of_the_user_stay_as_they_are(home: Path, shipped: dict[str, Path]) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    theirs = {"matcher": "Edit", "hooks": [{"type": "command", "command": "lint"}]}
    before = {
        "model": "x",
        "hooks": {"PreToolUse": [theirs], "Stop": [{"hooks": [{"type": "command", "command": "bell"}]}]},
    }
    settings.write_text(json.dumps(before))
    install("claude", hooks=[GUARD])
    now = json.loads(settings.read_text())
    assert now["hooks"]["PreToolUse"][0] == theirs
    assert now["hooks"]["PreToolUse"][1]["hooks"][0]["onFailure"] == "block"
    uninstall("claude")
    assert json.loads(settings.read_text()) == before
    assert json.loads((settings.parent / "settings.json.before-infer-forge").read_text()) == before


@pytest.mark.parametrize("name", CLIENT_NAMES)
def test_what_install_itself_wrote_is_kept_as_nobodys_earlier_settings(
    name: str, home: Path, shipped: dict[str, Path]
) -> None:
    install(name, hooks=[GUARD, Hook("Stop", "", "/opt/x/infer-forge task stop-check --hook", 30)])
    install(name, hooks=[Hook("PreToolUse", "Bash", GUARD.command, 15)])
    uninstall(name)
    assert list(home.rglob("*.before-infer-forge")) == []


def test_the_next_step_and_the_notes_of_an_install_are_about_what_was_installed(
    tmp_path: Path, shipped: dict[str, Path]
) -> None:
    skills_alone = [install(name, project=tmp_path / "a b", server=False) for name in CLIENT_NAMES]
    assert [r.next_step for r in skills_alone] == [
        f"infer-forge doctor --client {name} --project '{tmp_path}/a b'" for name in CLIENT_NAMES
    ]
    said = [" ".join(r.summary) for r in skills_alone]
    assert "approves" not in said[0]
    assert "hook" not in said[1]
    assert "trusted project" in said[1]


def test_a_broken_settings_file_is_refused_and_left_alone(home: Path, shipped: dict[str, Path]) -> None:
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text("{broken")
    with pytest.raises(InputUnusable, match=r"settings\.json"):
        install("claude", hooks=[GUARD])
    assert (home / ".claude" / "settings.json").read_text() == "{broken"


def test_codex_config_stays_valid_toml_and_keeps_what_was_there(home: Path, shipped: dict[str, Path]) -> None:
    config = home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text('model = "m"\n\n[mcp_servers.other]\ncommand = "x"\n')
    install("codex")
    parsed = tomllib.loads(config.read_text())
    assert set(parsed["mcp_servers"]) == {"other", "infer-forge"}
    assert parsed["mcp_servers"]["infer-forge"]["args"] == ["serve"]
    uninstall("codex")
    assert tomllib.loads(config.read_text()) == {"model": "m", "mcp_servers": {"other": {"command": "x"}}}


def test_a_server_table_written_by_hand_is_left_alone_and_used_by_doctor(home: Path, shipped: dict[str, Path]) -> None:
    config = home / ".codex" / "config.toml"
    config.parent.mkdir()
    text = '[mcp_servers.infer-forge]\ncommand = "/usr/bin/mine"\nargs = ["serve", "--read-only"]\n'
    config.write_text(text)
    report = install("codex")
    assert config.read_text() == text
    assert any("by hand" in o for o in outcomes(report.tables["changes"]))
    assert client_named("codex").server_command(None) == ["/usr/bin/mine", "serve", "--read-only"]


def test_an_unknown_client_is_a_usage_fault() -> None:
    with pytest.raises(UsageFault, match="no client 'cursor'"):
        install("cursor")


def blocked(_: str) -> tuple[bool, str]:
    return True, "canary was blocked"


def doctored(name: str, canary: bool = True) -> dict[str, str]:
    report = examine(name, canary=blocked if canary else None)
    return {row[0]: row[1] for row in report.tables["checks"].rows}


@pytest.mark.parametrize("name", CLIENT_NAMES)
def test_doctor_fails_before_an_install_and_names_each_missing_part(name: str, shipped: dict[str, Path]) -> None:
    found = doctored(name)
    for rule in ("skill-one-skill", "server-registered", "guard-hook-registered"):
        assert found[rule] == "fail"


def test_doctor_passes_after_an_install(
    tmp_path: Path, shipped: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "SLOW_START_S", 60.0)  # how fast the server starts is the benchmark's business
    program = tmp_path / "infer-forge-guard"
    program.write_text("#!/bin/sh\nexit 2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    install("claude", hooks=[Hook(event, "Bash", str(program), 10) for event in ("PreToolUse", "PostToolUse")])
    checks = examine("claude", canary=blocked, after_canary=kept).tables["checks"]
    assert {row[1] for row in checks.rows} == {"pass"}, checks.to_text()
    lost = examine("claude", canary=blocked, after_canary=lost_answer)
    assert lost.extra["outcome"] == "fail"


def lost_answer(_before: str, _after: str) -> tuple[bool, str]:
    return False, "nothing was written down"


def kept(before: str, after: str) -> tuple[bool, str]:
    return bool(before and after), "an answered question is written down"


def test_doctor_fails_when_no_hook_after_the_tool_keeps_what_a_person_allowed(
    tmp_path: Path, shipped: dict[str, Path]
) -> None:
    install("claude", hooks=[GUARD])
    assert doctored("claude")["guard-answers-kept"] == "fail"
    install("claude", hooks=[GUARD, Hook("PostToolUse", "Bash", GUARD.command, 10)])
    assert doctored("claude")["guard-answers-kept"] == "unknown"  # GUARD's program is not there


def test_a_hook_after_the_tool_is_registered_without_a_way_to_block(home: Path, shipped: dict[str, Path]) -> None:
    install("claude", hooks=[GUARD, Hook("PostToolUse", "Bash", GUARD.command, 10)])
    found = json.loads((home / ".claude/settings.json").read_text())["hooks"]
    assert found["PreToolUse"][0]["hooks"][0]["onFailure"] == "block"
    assert "onFailure" not in found["PostToolUse"][0]["hooks"][0]


def test_doctor_says_when_it_could_not_see_the_trust_of_codex(
    tmp_path: Path, shipped: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    install("codex", hooks=[GUARD])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctored("codex")["codex-trusts-hook"] == "unknown"


def test_a_server_that_does_not_answer_fails_the_check(home: Path, shipped: dict[str, Path]) -> None:
    (home / ".claude.json").write_text(
        json.dumps({"mcpServers": {"infer-forge": {"command": "/bin/true", "args": []}}})
    )
    assert doctored("claude")["server-answers"] == "fail"


@pytest.mark.parametrize("name", CLIENT_NAMES)
def test_a_slow_server_is_told_in_words_of_the_client_at_hand(
    name: str, shipped: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "SLOW_START_S", 0.0)
    install(name, hooks=[GUARD])
    report = doctor.examine(name, canary=blocked)
    row = next(r for r in report.tables["checks"].rows if r[0] == "server-answers")
    assert row[1] == "slow"
    assert re.search(r"answered in \d+\.\d\d s \(\d+\.\d\d s of processor time", row[2])
    assert "1 slow" in report.summary[0]
    failed = [r for r in report.tables["checks"].rows if r[1] == "fail"]
    assert report.next_step == failed[0][3]  # what fails comes before what is slow
    assert ("config.toml" in row[3]) == (name == "codex")
    assert f"infer-forge doctor --client {name}" in row[3]


def test_a_slow_server_alone_does_not_fail_the_doctor() -> None:
    checks = [doctor.Check("a", doctor.PASS, ""), doctor.Check("server-answers", doctor.SLOW, "", "wait")]
    assert doctor.outcome_of(checks) == "pass"
    assert doctor.outcome_of([*checks, doctor.Check("b", doctor.UNKNOWN, "")]) == "unknown"


def test_a_server_that_waits_on_a_busy_machine_is_told_apart_from_one_that_works_long(
    home: Path, shipped: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "SLOW_START_S", 0.3)
    answers = "".join(json.dumps({"id": i, "result": {"tools": []}}) + "\n" for i in (1, 2))
    works = "while time.process_time() < 0.4: pass"
    for name, start in (("busy", "time.sleep(0.4)"), ("works", works)):
        program = f"import sys, time\n{start}\nsys.stdout.write({answers!r})\nsys.stdout.flush()\nsys.stdin.read()"
        server = {"command": sys.executable, "args": ["-I", "-S", "-c", program]}
        (home / ".claude.json").write_text(json.dumps({"mcpServers": {"infer-forge": server}}))
        row = next(r for r in doctor.examine("claude").tables["checks"].rows if r[0] == "server-answers")
        assert (row[1], "the machine was busy" in row[2]) == ("slow", name == "busy"), row


def test_doctor_tells_when_the_login_shell_of_codex_does_not_find_the_command(
    home: Path, shipped: dict[str, Path]
) -> None:
    profile = home / ".profile"
    profile.write_text("PATH=/usr/bin:/bin\n")
    assert doctored("codex")["shell-finds-command"] == "fail"
    profile.write_text(f"PATH={Path(sys.executable).parent}:/usr/bin:/bin\n")
    assert doctored("codex")["shell-finds-command"] == "pass"


def plugged(name: str, home: Path, shipped: dict[str, Path]) -> Path:
    """The plugin as each client keeps it once it was installed with its own command."""
    base = home / f".{name}" / "plugins"
    folder = base / "cache" / "market" / "infer-forge" / "0.1.0"
    for skill, source in shipped.items():
        shutil.copytree(source, folder / "skills" / skill)
    hooks, servers = {"claude": ("hooks.json", ".mcp.json"), "codex": ("codex-hooks.json", ".codex-mcp.json")}[name]
    (folder / "hooks").mkdir()
    shutil.copy(ROOT / "hooks" / hooks, folder / "hooks")
    shutil.copy(ROOT / servers, folder)
    if name == "claude":
        installed = {"infer-forge@market": [{"scope": "user", "installPath": str(folder)}]}
        (base / "installed_plugins.json").write_text(json.dumps({"version": 2, "plugins": installed}))
    switch(home, name, True)
    return folder


def switch(home: Path, name: str, on: bool) -> None:
    if name == "claude":
        (home / ".claude" / "settings.json").write_text(json.dumps({"enabledPlugins": {"infer-forge@market": on}}))
        return
    table = f'model = "m"\n\n[plugins."infer-forge@market"]\nenabled = {"true" if on else "false"}\n\n[other]\n'
    (home / ".codex" / "config.toml").write_text(table)


@pytest.mark.parametrize("name", CLIENT_NAMES)
def test_doctor_looks_at_the_plugin_where_it_is_all_there_is(
    name: str, home: Path, shipped: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    folder = plugged(name, home, shipped)
    report = examine(name, canary=blocked, after_canary=kept)
    rows = {row[0]: row for row in report.tables["checks"].rows}
    assert rows["plugin"][2] == str(folder)
    for rule in ("skill-one-skill", "server-registered", "guard-hook-runs", "guard-answers-kept"):
        assert rows[rule][1] == "pass", rows[rule]
    assert rows["server-answers"][1] in ("pass", "slow"), rows["server-answers"]
    (shipped["one-skill"] / "SKILL.md").write_text("a newer package")
    outdated = next(r for r in examine(name).tables["checks"].rows if r[0] == "skill-one-skill")
    assert outdated[1] == "fail"
    assert outdated[3].startswith(f"{name} plugin ")
    switch(home, name, False)
    assert doctored(name)["guard-hook-registered"] == "fail"


@pytest.mark.parametrize("name", CLIENT_NAMES)
def test_doctor_of_a_plugin_whose_commands_are_not_on_path_says_so(
    name: str, home: Path, shipped: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    plugged(name, home, shipped)
    monkeypatch.setenv("PATH", str(home))
    rows = {row[0]: row for row in examine(name, canary=blocked).tables["checks"].rows}
    for rule, program in (("server-answers", "infer-forge"), ("guard-hook-runs", "infer-forge-guard")):
        assert rows[rule][1] == "fail"
        assert rows[rule][3] == f"put the folder of {program} on PATH, where {name} is started"


def test_doctor_says_when_plugin_and_install_are_both_there(home: Path, shipped: dict[str, Path]) -> None:
    plugged("claude", home, shipped)
    assert "the plugin is installed too" in install("claude", hooks=[GUARD]).summary[1]
    rows = {row[0]: row for row in examine("claude", canary=blocked).tables["checks"].rows}
    assert "each hook runs twice" in rows["plugin"][2]
    assert rows["guard-hook-registered"][2] == GUARD.command


def test_settings_that_cannot_be_read_fail_their_own_check_and_hide_no_other(
    home: Path, shipped: dict[str, Path]
) -> None:
    install("claude")
    (home / ".claude" / "settings.json").write_text("{broken")
    found = doctored("claude")
    assert (found["skill-one-skill"], found["guard-hook-registered"]) == ("pass", "fail")
