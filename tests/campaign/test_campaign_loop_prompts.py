"""Prompts: the same obligations in every mode, every limit readable, every command real, the examples made by the renderer."""

from __future__ import annotations

from pathlib import Path

import pytest

from chores.command_words import commands_in, fault
from chores.prompts import table
from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.campaign import prompts
from infer_forge.campaign.plan_lint import data
from infer_forge.campaign.prompts import GOAL_LIMIT, MODES, SECTIONS, example_facts, examples, limits_of, parse, render

NAMES = [str(e["name"]) for e in examples()]


def entry(name: str) -> dict[str, object]:
    """An example by name."""
    return next(e for e in examples() if e["name"] == name)


@pytest.mark.parametrize("name", NAMES)
def test_obligations_limits_and_all_sections_but_one_are_equal_between_modes(name: str) -> None:
    facts = example_facts(dict(entry(name)))
    read = {mode: parse(render(mode, facts)) for mode in MODES}
    first = read["rlcr"]
    assert set(first.obligations) == set(data()["clauses"])
    for mode, prompt in read.items():
        assert prompt.mode == mode
        assert prompt.obligations == first.obligations
        assert prompt.limits == limits_of(facts)
        assert {k: v for k, v in prompt.sections.items() if k != "Mode"} == {
            k: v for k, v in first.sections.items() if k != "Mode"
        }
        assert all(prompt.sections[s] for s in SECTIONS)
    assert len({p.sections["Mode"] for p in read.values()}) == len(MODES)


@pytest.mark.parametrize("name", NAMES)
def test_every_goal_prompt_fits_and_every_command_in_it_exists(name: str) -> None:
    facts = example_facts(dict(entry(name)))
    assert len(render("goal", facts)) <= GOAL_LIMIT
    for mode in MODES:
        found = list(commands_in(render(mode, facts)))
        assert len(found) >= 10
        assert [f for c in found if (f := fault(c))] == []


def test_every_prompt_holds_the_calls_for_claim_journal_and_guard() -> None:
    text = render("loop", example_facts(examples()[0]))
    for words in (
        "infer-forge node status --claim",
        "infer-forge journal search",
        "infer-forge guard status --refresh",
    ):
        assert words in parse(text).sections["Each round"]
    assert "record round-open" in text


def test_the_examples_are_what_the_renderer_makes_and_cover_what_people_ask_for(project_root: Path) -> None:
    written = {p.stem for p in (project_root / "prompts").glob("*.md")} - {"README"}
    assert written == set(NAMES)
    assert len(NAMES) >= 12
    for item in examples():
        assert (project_root / "prompts" / f"{item['name']}.md").read_text() == render(
            str(item["mode"]), example_facts(item)
        ), item["name"]
    assert (project_root / "prompts" / "README.md").read_text() == table()
    models = " ".join(str(item["contract"]["point"]["model"]["id"]) for item in examples())
    for word in (
        "V3.2",
        "V4",
        "Qwen3-Next",
        "Qwen3-235B",
        "gpt-oss-120b",
        "Kimi-K2",
        "GLM",
        "MiniMax-M2",
        "Llama",
        "FLUX",
    ):
        assert word in models
    assert {str(item["contract"]["point"]["accelerator_platform"]["gpu_model"]) for item in examples()} >= {
        "H200",
        "B200",
        "MI300X",
    }


def test_a_prompt_that_goal_would_cut_off_is_refused_and_the_other_modes_take_it() -> None:
    facts = example_facts(examples()[0])
    facts.requirements = ["a requirement that goes on and on " * 40]
    with pytest.raises(UsageFault, match="takes 4000"):
        render("goal", facts)
    assert len(render("rlcr", facts)) > GOAL_LIMIT


def test_what_the_user_asks_besides_stands_in_every_mode() -> None:
    facts = example_facts(examples()[0])
    facts.focus, facts.requirements = ["the sampler"], ["keep the public API"]
    for mode in MODES:
        held = parse(render(mode, facts)).sections["Constraints"]
        assert "the sampler" in held
        assert "keep the public API" in held


def test_what_is_no_prompt_is_refused_by_the_parser() -> None:
    text = render("goal", example_facts(examples()[0]))
    for bad in ("", "# SOTA campaign\n", text.replace("**Limits.**", "**Limit.**"), text.replace("(goal)", "")):
        with pytest.raises(InputUnusable):
            parse(bad)
    with pytest.raises(UsageFault):
        render("timer", example_facts(examples()[0]))


def test_a_drafted_contract_gives_a_prompt_before_anything_is_locked(tmp_path: Path) -> None:
    facts = example_facts(examples()[0])
    place = tmp_path / "contract.json"
    place.write_text(facts.contract.model_dump_json())
    report = prompts.prompt_of_file(place, "goal", checkout=tmp_path / "sglang", root=tmp_path / "art")
    assert report.extra["contract_sha256"] is None
    assert f"{tmp_path}/art/runs/" in report.extra["prompt"]
    place.write_text("[]")
    with pytest.raises(InputUnusable):
        prompts.prompt_of_file(place, "goal", checkout=tmp_path, root=tmp_path)
