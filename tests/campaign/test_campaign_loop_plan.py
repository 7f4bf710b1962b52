"""The refined plan and its linter: ours is complete, one of gen-plan's shape passes, and every missing part is named by its rule."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault
from infer_forge.campaign.facts import Facts
from infer_forge.campaign.plan import PLAN, draft_text, plan_text, write_draft, write_plan
from infer_forge.campaign.plan_lint import clause_in, criteria_of, data, lint, lint_file, parse
from infer_forge.campaign.prompts import example_facts, examples
from infer_forge.campaign.rlcr.plan_input import content_faults
from tests.campaign.conftest import Station
from tests.campaign.rlcr_scene import Scene

# The shape that Humanize's gen-plan gives a plan, with words of our own: obligations paraphrased, tests below each criterion.
GENERATED = """# Close the decode gap of the demo model

## Goal Description
Serve the demo model at least as fast as the rival.

## Acceptance Criteria

Following a test-first way, each criterion says what passes and what fails.

- AC-1: The workload stays.
  - Positive Tests (expected to PASS):
    - the check of the contract passes
  - Negative Tests (expected to FAIL):
    - a dropped scenario
  - AC-1.1: also in the last round
    - Positive: it does
- AC-2: The verdict is tie or ahead.
  - Positive Tests (expected to PASS):
    - the stop check ends with 0
  - Negative Tests (expected to FAIL):
    - behind on one scenario

## Path Boundaries

### Upper Bound (Maximum Acceptable Scope)
Several patches of the attention path.

### Lower Bound (Minimum Acceptable Scope)
One patch.

### Allowed Choices
- Can use: Triton, `std::vector<float>`
- Cannot use: a changed benchmark

## Dependencies and Sequence

### Milestones
1. Explain the gap.
2. Patch.

## Implementation Notes

- Never change the workload or the service level between runs.
- Read the history of pull requests before choosing a source path of this model.
- Look at the fairness report before the gap is blamed on a code bottleneck.
- The gap verdict is computed first in each round, before code is edited.
- Profile SGLang and the rival whenever SGLang is slower.
- The layer pipeline is analysed once the triage is done, before a kernel is picked.
- Work on source code rather than on launch flags.
- Kernel work uses ncu in the same loop.
- Re-run the benchmark of the real model after each accepted patch.
- If a patch recovers only part of it, continue with more small patches.
- Log each attempt in the ledger, the failed and the rejected ones as well.

--- Original Design Draft Start ---

# Draft
Words of the user.
"""


def failed(text: str) -> dict[str, str]:
    """Rule -> evidence of what fails."""
    return {c.rule: c.evidence for c in lint(text) if c.result == "fail"}


@pytest.mark.parametrize("index", range(len(examples())))
def test_our_plan_is_complete_and_long_enough_for_every_example(index: int) -> None:
    facts = example_facts(examples()[index])
    facts.winners = [
        {"scenario": s.name, "framework": "vllm", "candidate_id": "c|1", "mean": 12.5, "metric": "m", "launches": 5}
        for s in facts.contract.grid.scenarios
    ]
    text = plan_text(facts)
    assert failed(text) == {}
    assert content_faults(text) == []
    assert set(criteria_of(parse(text))) == {f"AC-{n}" for n in range(1, 6)}
    assert facts.model in text


def test_a_plan_of_the_shape_that_gen_plan_gives_passes_the_same_linter() -> None:
    assert failed(GENERATED) == {}


def test_the_draft_holds_every_clause_for_gen_plan_to_keep() -> None:
    plan = parse(draft_text(example_facts(examples()[0])))
    assert all(clause_in(plan, ident) for ident in data()["clauses"])


@pytest.mark.parametrize("ident", [f"A{n}" for n in range(79, 90)])
def test_a_clause_that_is_missing_or_taken_back_fails_by_its_own_rule_alone(ident: str) -> None:
    text = plan_text(example_facts(examples()[0]))
    line = next(x for x in text.split("\n") if x.startswith(f"- {ident}: "))
    assert set(failed(text.replace(line, f"- {ident}: be good"))) == {ident}
    assert set(failed(text.replace(line, f"{line[:-1]}, but this is optional."))) == {ident}
    for verb in ("keep", "run", "use", "change", "go on", "record"):
        said = f"{verb.capitalize()} " if f": {verb.capitalize()} " in line else f", {verb} "
        if said in line:
            turned = line.replace(said, f"Do not {verb} " if said[0] != "," else f", do not {verb} ", 1)
            assert set(failed(text.replace(line, turned))) == {ident}
            break
    else:
        pytest.fail(f"{ident} was not turned round")
    assert set(failed(GENERATED.replace(_generated_line(ident), "- Work well."))) == {ident}


NEAR = [
    ("A79", "Keep the SLA unchanged in every run."),
    ("A79", "Keep the workload unchanged in every run."),
    ("A79", "Keep workload and SLA in mind."),
    ("A80", "Consult the notes before any source choice."),
    ("A80", "Keep the history in a drawer before any source choice."),
    ("A80", "Consult the history notes whenever you like."),
    ("A81", "Consult the notes before a gap is called a code bottleneck."),
    ("A81", "Keep the fairness diagnostics before a gap is called a bottleneck."),
    ("A81", "Consult the fairness diagnostics when a gap is called a bottleneck."),
    ("A81", "Consult the fairness diagnostics before the tea."),
    ("A82", "Run the decision inside the loop before any patch."),
    ("A82", "Think of the gap before any patch."),
    ("A82", "Run the gap decision beside the patch."),
    ("A82", "The gap decision comes first in the morning."),
    ("A83", "When SGLang is behind, think of both sides."),
    ("A83", "Profile both sides."),
    ("A84", "After the triage, before a kernel is chosen, think."),
    ("A84", "Run the pipeline before a kernel is chosen, with the profile at hand."),
    ("A84", "After lunch, before a kernel is chosen, run the pipeline."),
    ("A84", "After the triage run the pipeline."),
    ("A85", "Change what you like, not only parameters of the benchmark."),
    ("A85", "Change SGLang code and the parameters of the server."),
    ("A85", "Change SGLang code, not only the weather."),
    ("A86", "Work on a kernel inside the same loop."),
    ("A86", "Use Nsight Compute inside the same loop."),
    ("A87", "After a patch, run the benchmark again."),
    ("A87", "After every change, run the benchmark again."),
    ("A87", "After every accepted patch, run the benchmark."),
    ("A87", "After every accepted patch, sing again."),
    ("A88", "When it closes only part of it, go on with minimal patches."),
    ("A88", "When one patch closes part, go on with several further patches."),
    ("A88", "When it closes only part of the gap, go on with several small steps."),
    ("A88", "Go on with several further minimal patches."),
    ("A89", "Tell of every attempt and every failed idea."),
    ("A89", "Record every failed idea."),
    ("A89", "Record every attempt."),
]
"""Clause -> a sentence to which one thing is wanting."""


@pytest.mark.parametrize(("ident", "sentence"), NEAR)
def test_a_clause_of_which_one_thing_is_wanting_fails_by_its_own_rule_alone(ident: str, sentence: str) -> None:
    text = plan_text(example_facts(examples()[0]))
    line = next(x for x in text.split("\n") if x.startswith(f"- {ident}: "))
    assert set(failed(text.replace(line, f"- {ident}: {sentence}"))) == {ident}


def test_every_sign_of_every_clause_has_a_sentence_that_lacks_it_alone() -> None:
    lacked: set[tuple[str, int]] = set()
    for ident, sentence in NEAR:
        signs: list[str] = data()["clauses"][ident]["signs"]
        gone = [k for k, sign in enumerate(signs) if not re.search(sign, sentence, re.IGNORECASE)]
        assert len(gone) == 1, (ident, sentence, gone)
        lacked.add((ident, gone[0]))
    assert lacked == {(i, k) for i, c in data()["clauses"].items() for k in range(len(c["signs"]))}


def _generated_line(ident: str) -> str:
    block = clause_in(parse(GENERATED), ident)
    assert block
    return next(x for x in GENERATED.split("\n") if x.strip() == block)


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("## Goal Description", "## Words", "C25-goal"),
        ("## Acceptance Criteria", "## Wishes", "C25-criteria"),
        ("## Path Boundaries", "## Paths", "C25-boundaries"),
        ("### Milestones", "### Steps", "C25-milestones"),
        ("## Implementation Notes", "## More", "C25-notes"),
        ("    - a dropped scenario\n", "", "C25-tests"),
        (
            "- AC-2: The verdict is tie or ahead.\n  - Positive Tests (expected to PASS):\n    - the stop check ends with 0\n",
            "- AC-2: x\n",
            "C25-tests",
        ),
        ("Serve the demo model", "Serve <model name>", "A78"),
        ("Serve the demo model", "TBD serve it", "A78"),
        ("Serve the demo model", "Serve {{model}}", "A78"),
        ("Serve the demo model", "[To be filled in]", "A78"),
        ("Serve the demo model", "run `infer-forge campaign next --run <run dir>`", "A78"),
    ],
)
def test_a_missing_part_or_a_placeholder_fails_by_its_rule(old: str, new: str, rule: str) -> None:
    assert old in GENERATED
    assert rule in failed(GENERATED.replace(old, new, 1))


def test_code_links_and_markup_are_no_placeholders() -> None:
    more = "\nSee <https://example.org/a>, `#include <cuda.h>`, Map<K, V>, x < y and y > z, <br> and\n\n```\ncall <name>\n```\n"
    assert failed(GENERATED + more) == {}


@pytest.mark.parametrize(
    "text",
    ["", "#\n", "\n" * 9, "```\n## Goal\n" * 3, "- AC-1\n" * 3000, "<" * 50_000, "AC-1 " * 20_000, "[To be" * 9_000],
)
def test_no_text_crashes_the_linter_or_passes_it(text: str) -> None:
    assert len(failed(text)) > 10


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\0\1")
    for place in (tmp_path / "a", tmp_path / "none", tmp_path):
        with pytest.raises(InputUnusable):
            lint_file(place)


def test_a_campaigns_plan_stands_where_the_loop_expects_it_and_is_about_this_campaign(
    station: Station, tmp_path: Path
) -> None:
    from infer_forge.campaign import open_campaign
    from infer_forge.campaign.rlcr import examine

    agent = station("planned")
    told = agent.campaign("plan", "--focus", "decode attention")
    place = agent.checkout / PLAN
    assert told["path"] == str(place)
    assert told["verdict"] == "pass", told["faults"]
    text = place.read_text()
    campaign = open_campaign(agent.run)
    assert "decode attention" in text
    assert [c.rule for c in lint(text, campaign) if c.result != "pass"] == []
    other = text.replace(str(agent.run), "/elsewhere/run")
    assert [c.rule for c in lint(other, campaign) if c.result == "fail"] == ["A78-facts"]
    machine = Scene(tmp_path / "m").build()
    seen = examine(agent.checkout, "before", campaign=campaign, environ=machine.environ, home=machine.home)
    table = {str(r[0]): str(r[1]) for r in seen.tables["checks"].rows}
    assert (table["D12"], table["D13"], table["D16"]) == ("pass", "pass", "pass")
    assert seen.extra["humanize_would"] == "accept"
    assert PLAN in seen.extra["start"]


def test_draft_prompt_and_tools_answer_for_a_real_campaign(station: Station) -> None:
    from infer_forge.campaign import open_campaign

    agent = station("planned")
    assert Path(agent.campaign("draft")["path"]).read_text().startswith("# Draft")
    assert agent.tool("write_plan", run=str(agent.run))["data"]["verdict"] == "pass"
    prompt = agent.tool("render_campaign_prompt", run=str(agent.run), mode="goal")["data"]["prompt"]
    assert prompt == agent.campaign("prompt", "--mode", "goal")["prompt"]
    sha256 = open_campaign(agent.run).contract
    assert sha256
    assert sha256[1][:12] in prompt
    saved = agent.tmp / "goal.md"
    agent.campaign("prompt", "--mode", "goal", "--out", str(saved))
    assert agent.record("plan", path=str(agent.checkout / PLAN))
    agent.campaign("doctor", "--moment", "before", ok=4)


def test_a_plan_is_refused_before_the_baseline_under_an_active_loop_and_outside_of_the_checkout(
    station: Station,
) -> None:
    from infer_forge.campaign import open_campaign

    early = open_campaign(station("searched").run)
    with pytest.raises(GateRefused, match="A76"):
        write_plan(early)
    assert write_draft(early).extra["path"]
    agent = station("planned")
    campaign = open_campaign(agent.run)
    with pytest.raises(UsageFault, match="inside the checkout"):
        write_plan(campaign, Path("../outside.md"))
    (agent.tmp / "away").mkdir()
    (agent.checkout / ".humanize").symlink_to(agent.tmp / "away")
    with pytest.raises(UsageFault, match="link"):
        write_plan(campaign)
    assert list((agent.tmp / "away").iterdir()) == []
    (agent.checkout / ".humanize").unlink()
    write_plan(campaign)
    loop = agent.checkout / ".humanize/rlcr/2026-01-01_00-00-00"
    loop.mkdir(parents=True)
    (loop / "finalize-state.md").write_text("---\n---\n")
    with pytest.raises(GateRefused, match="active"):
        write_plan(campaign)


def test_a_generated_plan_is_adopted_only_when_it_is_about_this_campaign(station: Station, tmp_path: Path) -> None:
    from infer_forge.campaign import open_campaign
    from infer_forge.campaign.facts import facts_of

    campaign = open_campaign(station("planned").run)
    source = tmp_path / "plan.md"
    source.write_text(GENERATED)
    with pytest.raises(GateRefused, match="A78-facts"):
        write_plan(campaign, adopt=source)
    source.write_text(GENERATED + draft_text(facts_of(campaign)))
    report = write_plan(campaign, adopt=source)
    assert report.extra["verdict"] == "pass"
    assert Path(report.extra["path"]).read_text() == source.read_text()


def test_facts_say_what_is_unknown_instead_of_guessing() -> None:
    facts: Facts = example_facts(examples()[0])
    facts.contract.point.accelerator_platform.gpu_count = None
    facts.contract.point.model.precision = None
    assert "all x H200" in facts.hardware
    assert "precision of the contract" in facts.numbers
