"""The start of the review loop: the exact line, the first prompt, and what the mode's prompt names."""

from __future__ import annotations

from pathlib import Path

import pytest

from infer_forge.campaign.prompts import MODES, example_facts, examples, parse, render
from infer_forge.campaign.rlcr import examine
from tests.campaign.rlcr_scene import Scene, git

WORDS = [".humanize/p.md", "--yolo", "--base-branch", "main"]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """A machine on which a loop can begin."""
    made = Scene(tmp_path / "m").build()
    made.plan()
    return made


def looked(scene: Scene, moment: str, words: list[str] | None = None) -> dict[str, tuple[str, str]]:
    """Rule -> (result, evidence)."""
    report = examine(scene.repo, moment, words=words, environ=scene.environ, home=scene.home, setup_rc=0)
    return {str(r[0]): (str(r[1]), str(r[2])) for r in report.tables["checks"].rows}


def test_the_start_line_is_the_runtimes_script_with_the_refined_plan_and_yolo(scene: Scene) -> None:
    scene.plan(name=".humanize/sglang-sota-agent/refined-plan.md")
    report = examine(scene.repo, "before", environ=scene.environ, home=scene.home)
    root = scene.home / ".claude/skills/humanize"
    line = str(report.extra["start"])
    assert f"{root}/scripts/setup-rlcr-loop.sh" in line.replace('"', "").replace("'", "")
    assert ".humanize/sglang-sota-agent/refined-plan.md --yolo" in line
    assert str(scene.repo) in line


def test_a_folder_without_a_repository_or_a_commit_begins_no_loop(scene: Scene, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    (empty / ".humanize").mkdir(parents=True)
    (empty / ".humanize" / "p.md").write_text("# Plan\n\none\ntwo\nthree\nfour\n")

    def clean() -> tuple[str, str]:
        report = examine(empty, "before", words=WORDS, environ=scene.environ, home=scene.home)
        return next((str(r[1]), str(r[2])) for r in report.tables["checks"].rows if r[0] == "D9")

    assert clean() == ("fail", "it is no git repository")
    git(empty, "init", "-q", "-b", "work")
    assert clean() == ("fail", "it has no commit")


def test_a_base_that_is_missing_or_one_of_several_is_named(scene: Scene) -> None:
    assert looked(scene, "before", WORDS)["D8"] == ("pass", "main")
    git(scene.repo, "branch", "master")
    seen = looked(scene, "before", WORDS[:2])["D8"]
    assert seen == ("fail", "main would be taken, master is there too")
    assert looked(scene, "before", WORDS)["D8"][0] == "pass"
    assert looked(scene, "before", [*WORDS[:3], "nope"])["D8"] == ("fail", "there is no local branch nope")


def test_the_first_prompt_has_the_set_up_of_the_rounds_contract(scene: Scene) -> None:
    scene.start()
    assert looked(scene, "after", WORDS)["D24"][0] == "pass"
    prompt = scene.loop / "round-0-prompt.md"
    prompt.write_text(prompt.read_text().replace("Round Contract Setup", "Set-up"))
    assert looked(scene, "after", WORDS)["D24"] == ("fail", "it does not")
    prompt.unlink()
    assert looked(scene, "after", WORDS)["D24"] == ("fail", "there is no round-0-prompt.md")


def test_a_state_that_asks_questions_under_yolo_is_another_start(scene: Scene) -> None:
    scene.start(ask_codex_question="false")
    assert looked(scene, "after", WORDS)["D21"][0] == "pass"
    scene.write_state(ask_codex_question="true")
    seen = looked(scene, "after", WORDS)["D21"]
    assert seen[0] == "fail"
    assert "ask_codex_question" in seen[1]


@pytest.mark.parametrize("mode", MODES)
def test_a_prompt_names_model_place_hardware_numbers_deployment_root_requirements_and_focus(mode: str) -> None:
    facts = example_facts(examples()[0])
    facts.focus, facts.requirements = ["the sampler"], ["keep the public API"]
    text = render(mode, facts)
    point = facts.contract.point
    platform, topology = point.accelerator_platform, point.serving_topology
    for word in (
        str(point.model.id), facts.root, facts.run, facts.checkout, f"{platform.gpu_count} x {platform.gpu_model}",
        f"{point.model.precision}, quantization {point.model.quantization or 'none'}", f"TP{topology.tp}",
    ):  # fmt: skip
        assert word in text
    assert "the sampler" in text
    assert "keep the public API" in text
    read = parse(text)
    assert read.limits["min_gpus"] == str(facts.contract.point.accelerator_platform.gpu_count)
    assert read.title.startswith(f"SGLang on {facts.model}")
