"""The doctor beside a real campaign, on odd machines, and with the real programs where they are at hand."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infer_forge.campaign.rlcr import examine
from infer_forge.campaign.rlcr.runtime import MOST_BYTES, Runtime, ask, find, hook_flags, refused_flags
from tests.campaign.campaign_agent import Agent
from tests.campaign.conftest import Station
from tests.campaign.rlcr_scene import STAMP, Scene, git, program


def table(report: object) -> dict[str, tuple[str, str]]:
    """Rule -> (result, evidence)."""
    return {str(r[0]): (str(r[1]), str(r[2])) for r in report.tables["checks"].rows}  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType, reportUnknownArgumentType]


def test_evidence_of_the_round_is_asked_of_the_campaign(station: Station) -> None:
    from infer_forge.campaign import open_campaign

    def running(name: str) -> Agent:
        made = station(name)
        loop = made.checkout / ".humanize" / "rlcr" / STAMP
        loop.mkdir(parents=True)
        (loop / "state.md").write_text("---\ncurrent_round: 0\n---\n")
        return made

    agent = running("planned")
    early = table(examine(agent.checkout, "round", campaign=open_campaign(agent.run), keep=False))
    assert early["D38"] == ("fail", "round 0 of the loop, and 0 rounds of the campaign were opened")
    agent = running("round")
    later = table(examine(agent.checkout, "round", campaign=open_campaign(agent.run), keep=False))
    assert later["D38"][0] == "pass", later["D38"]
    (agent.checkout / "speed.json").write_text("{}")
    git(agent.checkout, "commit", "-qam", "nobody recorded this")
    loose = table(examine(agent.checkout, "round", campaign=open_campaign(agent.run), keep=False))
    assert "has no recorded attempt" in loose["D38"][1]
    agent = running("patched")
    open_ = table(examine(agent.checkout, "round", campaign=open_campaign(agent.run), keep=False))
    assert open_["D38"] == ("fail", f"attempt {agent.notes['attempt']} has no result")


def test_a_stop_code_fits_only_a_loop_that_ended_as_complete(station: Station) -> None:
    from infer_forge.campaign import open_campaign

    agent = station("stopped")
    loop = agent.checkout / ".humanize" / "rlcr" / STAMP
    loop.mkdir(parents=True)
    for name, wanted in (("complete-state.md", "pass"), ("maxiter-state.md", "fail")):
        for old in loop.iterdir():
            old.unlink()
        (loop / name).write_text("---\ncurrent_round: 1\n---\n")
        seen = table(examine(agent.checkout, "end", campaign=open_campaign(agent.run)))
        assert seen["end-2"][0] == wanted
    assert (agent.run / "humanize" / "rlcr-looks.jsonl").is_file()


def test_the_command_ends_with_4_for_a_fail_and_with_2_for_words_it_does_not_know(tmp_path: Path) -> None:
    scene = Scene(tmp_path).build()

    def forge(*words: str) -> subprocess.CompletedProcess[str]:
        argv = [
            sys.executable,
            "-m",
            "infer_forge.cli.main",
            "campaign",
            "doctor",
            "--checkout",
            str(scene.repo),
            *words,
        ]
        env = {**os.environ, **scene.environ, "PATH": f"{scene.bin}:{os.environ['PATH']}"}
        return subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, env=env)

    bad = forge("--moment", "before", "--format", "json", "--", ".humanize/none.md")
    assert bad.returncode == 4
    assert json.loads(bad.stdout)["humanize_would"] == "refuse"
    assert "Traceback" not in bad.stderr
    assert forge("--moment", "later").returncode == 2


def test_odd_places_give_answers_and_no_crash(tmp_path: Path) -> None:
    scene = Scene(tmp_path).build()
    (scene.repo / ".humanize").mkdir()
    (scene.repo / ".humanize/rlcr").write_text("a file")
    (scene.home / ".claude/settings.json").write_text("{broken")
    (scene.home / ".claude/skills/humanize/.claude-plugin/plugin.json").write_text("[1]")
    (scene.repo / "a\n\"b'.txt").write_text("x")
    for moment in ("before", "after", "round", "end"):
        seen = table(examine(scene.repo, moment, words=["x.md"], environ=scene.environ, home=scene.home))
        assert seen
    before = table(examine(scene.repo, "before", words=["x.md"], environ=scene.environ, home=scene.home))
    assert before["D1"][0] == "unknown"
    assert before["D5"][0] == "fail"
    assert before["D9"][0] == "fail"
    plain = tmp_path / "plain"
    plain.mkdir()
    assert table(examine(plain, "before", environ=scene.environ, home=scene.home))["D9"][0] == "fail"


def test_a_program_that_never_stops_talking_is_cut_off(tmp_path: Path) -> None:
    program(tmp_path / "codex", "while :; do echo --full-auto --disable; done\n")
    said = ask(["codex"], {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert said.rc is None
    assert len(said.text) <= MOST_BYTES


def test_a_flag_of_the_hook_that_we_did_not_know_is_asked_for_too(tmp_path: Path) -> None:
    scene = Scene(tmp_path).build()
    hook = scene.home / ".claude/skills/humanize/hooks/loop-codex-stop-hook.sh"
    hook.write_text('# codex exec --never\nCODEX_EXEC_ARGS+=("--newest-flag")\nCODEX_REVIEW_ARGS=(--base "$x")\n')
    flags = hook_flags(find(scene.environ, scene.home), scene.environ)
    assert flags == {"exec": ["--newest-flag"], "review": ["--base"]}
    assert refused_flags(flags, scene.environ) == (["codex exec --newest-flag"], [])
    assert "--full-auto" in hook_flags(Runtime(None), {})["exec"]


def test_the_real_reviewers_help_is_understood() -> None:
    if shutil.which("codex") is None:
        pytest.skip("no codex on PATH")
    refused, unread = refused_flags({"exec": ["--disable", "--no-such-flag-at-all"], "review": ["--base"]}, os.environ)
    assert unread == []
    assert refused == ["codex exec --no-such-flag-at-all"]


def test_a_real_start_passes_the_rules_of_the_moment_after(tmp_path: Path) -> None:
    runtime = find(os.environ, Path.home())
    if runtime.root is None or runtime.rewrite:
        pytest.skip(f"no Humanize 1.16 or 1.17 at hand; tried {', '.join(runtime.tried)}; set HUMANIZE_RUNTIME_ROOT")
    gone = [n for n in ("codex", "jq") if shutil.which(n) is None]
    if gone:
        pytest.skip(f"not on PATH: {', '.join(gone)}")
    scene = Scene(tmp_path).build()
    scene.plan()
    words = [".humanize/p.md", "--yolo", "--base-branch", "main"]
    env = {k: v for k, v in os.environ.items() if k != "CLAUDE_PROJECT_DIR"}
    script = str(runtime.root / "scripts" / "setup-rlcr-loop.sh")
    done = subprocess.run([script, *words], cwd=scene.repo, env=env, capture_output=True, text=True)
    seen = table(examine(scene.repo, "after", words=words, setup_rc=done.returncode))
    assert {k: v for k, v in seen.items() if v[0] != "pass"} == {}, done.stderr
    assert git(scene.repo, "status", "--porcelain") == ""
