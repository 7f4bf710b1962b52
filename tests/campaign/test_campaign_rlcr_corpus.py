"""Loops that a real Humanize 1.16.0 wrote, and set-ups that it refused or took, judged right."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from infer_forge.campaign.rlcr import examine, loops_in
from tests.campaign.rlcr_scene import PLAN, Scene, git

STAMP = "2026-01-01_00-00-00"
WORDS = [".humanize/sglang-sota-agent/refined-plan.md", "--yolo", "--max", "8", "--base-branch", "main", "--privacy"]
# fixture -> moment -> rules that must fail there; what is not named must not fail. "moment" is what is found out alone.
EXPECTED: dict[str, dict[str, set[str]]] = {
    "01_after_setup": {"after": set()},
    "02_round0_gates": {"round": {"D35"}},
    "03_stalled_to_stop": {"end": {"end-1"}, "round": {"D37"}},
    "04_complete_path": {"end": set(), "round": set()},
    "05_maxiter": {"end": {"end-1", "end-3"}},
    "06_stop_marker": {"end": {"end-1"}},
    "07_skip_impl": {"after": {"D24"}},
    "08_branch_switch": {"round": {"D28"}},
    "09_plan_modified": {"round": {"D29"}},
    "11_truncated_state": {"end": {"end-1", "end-3", "D19"}},
    "13_second_setup_refused": {"before": {"D11", "D13"}, "after": set()},
}
SKIP_IMPL = ["--skip-impl", "--base-branch", "main", "--privacy"]


def played(corpus: Path, name: str, tmp_path: Path) -> Scene:
    """A fixture's tree in a repository of its own; base commit and file times as they were in the loop."""
    scene = Scene(tmp_path).build()
    source = corpus / "rlcr" / name / "tree" / "dot-humanize"
    shutil.copytree(source, scene.repo / ".humanize")
    folder = scene.repo / ".humanize" / "rlcr" / STAMP
    base = git(scene.repo, "rev-parse", "main")
    for state in folder.glob("*state.md"):
        lines = [f"base_commit: {base}" if x.startswith("base_commit:") else x for x in state.read_text().split("\n")]
        state.write_text("\n".join(lines))
    if name not in ("01_after_setup", "07_skip_impl", "13_second_setup_refused"):
        scene.commit()
    for prompt in folder.glob("round-*-review-prompt.md"):
        os.utime(prompt, (1000, 1000))
    if name == "08_branch_switch":
        git(scene.repo, "switch", "-qc", "elsewhere")
    if name == "04_complete_path":
        scene_log(scene, 2, (folder / "round-2-review-result.md").read_text())
        scene_log(scene, 3, "no findings\n")
    return scene


def scene_log(scene: Scene, number: int, text: str) -> None:
    """A cached review log, which the fixtures do not hold."""
    made = scene.log(number, text)
    place = made.parent.parent / STAMP
    place.mkdir(exist_ok=True)
    made.rename(place / made.name)


@pytest.mark.parametrize(("name", "moment"), [(n, m) for n, table in EXPECTED.items() for m in table])
def test_what_a_real_loop_left_is_judged_right(corpus: Path, tmp_path: Path, name: str, moment: str) -> None:
    scene = played(corpus, name, tmp_path)
    words = SKIP_IMPL if name == "07_skip_impl" else WORDS
    report = examine(scene.repo, moment, words=words, environ=scene.environ, home=scene.home, setup_rc=0, keep=False)
    failed = {str(r[0]): str(r[2]) for r in report.tables["checks"].rows if r[1] == "fail"}
    wanted = EXPECTED[name][moment]
    assert set(failed) == wanted, failed


def test_every_fixture_has_its_verdict_and_every_state_is_read(corpus: Path) -> None:
    names = {p.name for p in (corpus / "rlcr").iterdir() if p.is_dir()}
    assert names == set(EXPECTED)
    for name in names:
        tree = corpus / "rlcr" / name / "tree"
        assert not loops_in(tree)
        from infer_forge.campaign.rlcr.loops import Loop

        loop = Loop(tree / "dot-humanize" / "rlcr" / STAMP)
        assert loop.state is not None
        assert bool(loop.state.faults) == (name == "11_truncated_state"), loop.state.faults


def _case(scene: Scene, case: str) -> dict[str, str]:
    """Make the situation of a refused (or taken) set-up; gives further environment."""
    text = PLAN + "\nmore\nand more\n"
    scene.plan(text)
    repo = scene.repo
    if case == "s_detached_head":
        git(repo, "switch", "-q", "--detach")
    elif case == "s_no_gitignore":
        (repo / ".gitignore").unlink()
        git(repo, "commit", "-qam", "none")
    elif case == "s_dirty_tracked":
        (repo / "python/mod.py").write_text("y\n")
    elif case == "s_untracked_file":
        (repo / "new.txt").write_text("y\n")
    elif case == "s_no_main_branch":
        git(repo, "branch", "-m", "main", "trunk")
    elif case == "s_plan_space":
        scene.plan(text, ".humanize/a b.md")
    elif case in ("s_plan_tracked", "s_plan_tracked_flag_ok"):
        scene.plan(text, "p.md")
        git(repo, "add", "p.md")
        git(repo, "commit", "-qm", "plan")
    elif case == "s_plan_short":
        scene.plan("a\nb\nc\n")
    elif case == "s_plan_headings_only":
        scene.plan("# a\n\n# b\n\n# c\n# d\n")
    elif case == "s_plan_symlink":
        (repo / ".humanize/q.md").symlink_to("p.md")
    elif case == "s_plan_outside_gitignored_dir_untracked":
        scene.plan(text, "plan.md")
    elif case == "s_branch_with_hash":
        git(repo, "switch", "-qc", "opt#1")
    elif case == "s_CLAUDE_PROJECT_DIR_elsewhere":
        (scene.place / "elsewhere").mkdir()
        return {"CLAUDE_PROJECT_DIR": str(scene.place / "elsewhere")}
    elif case == "s_codex_not_on_path":
        (scene.bin / "codex").unlink()
    return {}


def test_the_25_setups_are_foretold_and_what_humanize_lets_pass_we_do_not(corpus: Path, tmp_path: Path) -> None:
    cases: list[dict[str, Any]] = json.loads((corpus / "rlcr" / "setup_failures.json").read_text())["cases"]
    assert len(cases) == 25
    template = Scene(tmp_path / "template").build()
    ours = {"s_detached_head": "D7", "s_no_gitignore": "D10", "s_max_zero": "D14"}
    wrong: list[str] = []
    for case in cases:
        name = str(case["case"])
        scene = template.copy(tmp_path / name)
        environ = {**scene.environ, **_case(scene, name)}
        report = examine(scene.repo, "before", words=case["args"], environ=environ, home=scene.home)
        would = report.extra["humanize_would"]
        if would != ("accept" if case["rc"] == 0 else "refuse"):
            wrong.append(f"{name}: {would}, really {case['rc']} {case['stderr'][:1]} {report.extra['refused_by']}")
        failed = {str(r[0]) for r in report.tables["checks"].rows if r[1] == "fail"} - {"D13"}
        if bool(failed) != (case["rc"] != 0 or name in ours) or (name in ours and ours[name] not in failed):
            wrong.append(f"{name}: failed {failed}")
    assert not wrong
