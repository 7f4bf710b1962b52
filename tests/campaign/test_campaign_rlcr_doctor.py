"""The loop doctor on loops of our own making: every rule fails for its reason and passes without it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from infer_forge.base.errors import UsageFault
from infer_forge.base.records import Report
from infer_forge.campaign.rlcr import examine, loops_in, parse_state, parse_tracker
from infer_forge.campaign.rlcr.pages import contract_faults
from infer_forge.campaign.rlcr.runtime import ask
from tests.campaign.rlcr_scene import STAMP, Scene, codex, git, program

BEFORE = [".humanize/p.md", "--yolo", "--base-branch", "main"]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Built once; every test gets a copy."""
    made = Scene(tmp_path_factory.mktemp("rlcr")).build()
    made.plan()
    return made


@pytest.fixture
def scene(tmp_path: Path, template: Scene) -> Scene:
    """A machine on which a loop can begin."""
    return template.copy(tmp_path / "machine")


def look(
    scene: Scene, moment: str | None = None, words: list[str] | None = None, **more: object
) -> dict[str, tuple[str, str]]:
    """Rule -> (result, evidence)."""
    report = report_of(scene, moment, words, **more)
    return {str(r[0]): (str(r[1]), str(r[2])) for r in report.tables["checks"].rows}


def report_of(scene: Scene, moment: str | None = None, words: list[str] | None = None, **more: object) -> Report:
    """The doctor's report on the scene."""
    environ = {**scene.environ, **{str(k): str(v) for k, v in dict(more.pop("environ", {})).items()}}  # pyright: ignore[reportArgumentType, reportCallIssue]
    return examine(scene.repo, moment, words=words, environ=environ, home=scene.home, **more)  # pyright: ignore[reportArgumentType]


def test_a_sound_machine_passes_every_rule_but_the_plan_and_the_missing_campaign(scene: Scene) -> None:
    seen = look(scene, "before", BEFORE)
    assert {k for k, v in seen.items() if v[0] != "pass"} == {"D13", "D16"}
    assert seen["D13"][0] == "fail"
    assert seen["D16"][0] == "unknown"
    assert list(seen) != []
    assert len(seen) == 16


def _no_runtime(s: Scene) -> None:
    (s.home / ".claude/skills/humanize/scripts/setup-rlcr-loop.sh").unlink()


def _rewrite(s: Scene) -> None:
    _no_runtime(s)
    (s.home / ".claude/skills/humanize/pyproject.toml").write_text('[project]\nname = "humanize2"\n')


def _newer(s: Scene) -> None:
    (s.home / ".claude/skills/humanize/.claude-plugin/plugin.json").write_text('{"version": "1.18.0"}')


def _no_full_auto(s: Scene) -> None:
    codex(s.bin, flags="--disable --base --sandbox")


def _renamed(s: Scene) -> None:
    codex(s.bin, features="hooks stable true")


def _no_codex(s: Scene) -> None:
    (s.bin / "codex").unlink()


def _not_logged_in(s: Scene) -> None:
    codex(s.bin, login=1)


def _no_hook(s: Scene) -> None:
    (s.home / ".claude/settings.json").write_text("{}")


def _detached(s: Scene) -> None:
    git(s.repo, "switch", "-q", "--detach")


def _on_base(s: Scene) -> None:
    git(s.repo, "switch", "-q", "main")


def _dirty(s: Scene) -> None:
    (s.repo / "new.txt").write_text("x")


def _not_ignored(s: Scene) -> None:
    (s.repo / ".gitignore").write_text("")
    git(s.repo, "commit", "-qam", "no ignore")


def _tracked(s: Scene) -> None:
    git(s.repo, "add", "-f", ".humanize/p.md")
    git(s.repo, "commit", "-qm", "tracked")


def _long(s: Scene) -> None:
    (s.repo / "python/mod.py").write_text("x\n" * 2001)


def _zombie(s: Scene) -> None:
    s.start()
    newer = s.loop.parent / "2026-09-09_00-00-00"
    newer.mkdir()
    (newer / "complete-state.md").write_text("---\n---\n")


def _finalizing(s: Scene) -> None:
    s.start()
    s.write_state("finalize-state.md")


@pytest.mark.parametrize(
    ("change", "rule", "result", "word"),
    [
        (_no_runtime, "D1", "fail", "tried"),
        (_rewrite, "D1", "fail", "rewrite"),
        (_newer, "D1", "unknown", "1.18.0"),
        (_no_codex, "D2", "fail", "codex"),
        (_no_full_auto, "D3", "fail", "--full-auto"),
        (_renamed, "D3", "unknown", "hooks"),
        (_no_codex, "D3", "unknown", "not on PATH"),
        (_not_logged_in, "D4", "fail", ""),
        (_no_hook, "D5", "fail", "no client"),
        (_detached, "D7", "fail", "detached"),
        (_on_base, "D7", "fail", "base"),
        (_dirty, "D9", "fail", "new.txt"),
        (_not_ignored, "D10", "fail", "not ignored"),
        (_tracked, "D10", "fail", "tracks"),
        (_tracked, "D12", "fail", "tracks"),
        (_zombie, "D11", "fail", STAMP),
        (_finalizing, "D11", "fail", "finalize-state.md"),
        (_long, "D15", "fail", "2001"),
    ],
)
def test_what_is_wrong_before_a_start_is_named_by_its_rule(
    scene: Scene, change: Callable[[Scene], None], rule: str, result: str, word: str
) -> None:
    change(scene)
    seen = look(scene, "before", BEFORE)[rule]
    assert seen[0] == result
    assert word in seen[1]


@pytest.mark.parametrize(
    ("words", "rule", "word"),
    [
        (["a b.md"], "D12", "blanks"),
        (["/tmp/x.md"], "D12", "absolute"),
        ([".humanize/q;x.md"], "D12", ";"),
        ([".humanize/none.md"], "D12", "does not exist"),
        ([".humanize/p.md", "--max", "1"], "D14", "never reviewed"),
        ([".humanize/p.md", "--max", "many"], "D14", "whole number"),
        ([".humanize/p.md", "--strict-success"], "D14", "unknown option"),
        ([".humanize/p.md", "--codex-model", "m:max"], "D14", "effort"),
        ([".humanize/p.md", "--codex-model"], "D14", "needs a value"),
        (["--skip-impl"], "D14", "only reviews"),
        ([".humanize/p.md", "--base-branch", "nope"], "D8", "nope"),
    ],
)
def test_words_that_make_no_reviewed_loop_are_refused(scene: Scene, words: list[str], rule: str, word: str) -> None:
    seen = look(scene, "before", words)[rule]
    assert seen[0] == "fail"
    assert word in seen[1]


def test_a_plan_behind_a_link_in_a_submodule_or_too_short_is_refused(scene: Scene) -> None:
    (scene.repo / ".humanize/link.md").symlink_to("p.md")
    (scene.repo / ".humanize/sub").mkdir()
    (scene.repo / ".humanize/sub/.git").write_text("gitdir: x")
    scene.plan(name=".humanize/sub/p.md")
    scene.plan("# a\n# b\n# c\n# d\n# e\n", ".humanize/heads.md")
    scene.plan("a\nb\nc\n", ".humanize/short.md")
    words = {"link": "symbolic link", "sub/p": "submodule", "heads": "no heading", "short": "3 lines"}
    for name, word in words.items():
        seen = look(scene, "before", [f".humanize/{name}.md"])["D12"]
        assert seen[0] == "fail"
        assert word in seen[1]


def test_a_program_that_never_answers_is_ended_and_counts_as_unseen(tmp_path: Path) -> None:
    program(tmp_path / "codex", "sleep 60\n")
    said = ask(["codex", "exec", "--help"], {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, limit_s=0.3)
    assert said.rc is None
    assert "no answer" in str(said.why)


def test_without_the_sandbox_the_flag_that_is_gone_is_not_needed(scene: Scene) -> None:
    codex(scene.bin, flags="--disable --base --dangerously-bypass-approvals-and-sandbox")
    seen = look(scene, "before", BEFORE, environ={"HUMANIZE_CODEX_BYPASS_SANDBOX": "1"})["D3"]
    assert seen[0] == "pass"
    assert "without a sandbox" in seen[1]


def test_a_fresh_start_passes_and_reports_that_no_session_owns_it(scene: Scene) -> None:
    scene.start()
    seen = look(scene, "after", BEFORE, setup_rc=0)
    assert {v[0] for v in seen.values()} == {"pass"}
    assert "any session" in seen["D25"][1]
    assert len(seen) == 9


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"current_round": "2"}, "D20"),
        ({"current_round": ""}, "D19"),
        ({"drift_status": "odd"}, "D19"),
        ({"ask_codex_question": "true"}, "D21"),
        ({"base_branch": "gone"}, "D22"),
        ({"base_commit": "0" * 40}, "D22"),
    ],
)
def test_a_state_that_does_not_fit_the_start_fails_by_its_rule(scene: Scene, change: dict[str, str], rule: str) -> None:
    scene.start(**change)
    assert look(scene, "after", BEFORE, setup_rc=0)[rule][0] == "fail"


def test_no_loop_a_failed_script_and_two_loops_are_told_apart(scene: Scene) -> None:
    seen = look(scene, "after", BEFORE, setup_rc=1)
    assert seen["D17"][0] == seen["D18"][0] == "fail"
    assert seen["D19"][0] == "n/a"
    scene.start()
    other = scene.loop.parent / "2026-09-09_00-00-00"
    other.mkdir()
    (other / "methodology-analysis-state.md").write_text("---\n---\n")
    assert "several" in look(scene, "after", BEFORE)["D18"][1]


def test_a_changed_plan_and_a_missing_prompt_are_seen(scene: Scene) -> None:
    scene.start()
    scene.plan("other\n" * 9)
    (scene.loop / "round-0-prompt.md").unlink()
    seen = look(scene, "after", BEFORE)
    assert seen["D23"][0] == seen["D24"][0] == "fail"


def test_a_round_that_was_worked_and_reviewed_passes(scene: Scene) -> None:
    scene.start()
    look(scene, "after", BEFORE)
    scene.round(0)
    scene.round(1, review=False, last_mainline_verdict="advanced")
    seen = look(scene, "round")
    assert {k: v for k, v in seen.items() if v[0] not in ("pass", "n/a")} == {
        "D38": ("unknown", "no campaign is named")
    }
    assert len(seen) == 14


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "# Round 1\n\n## Mainline Objective\nClose it.\n\n## Target ACs\n- AC-2\n\n## Out of scope\nAC-1, AC-3, AC-4\n",
            None,
        ),
        ("1. **Mainline objective:** close it\n2. **Target ACs:**\n   - AC-1\n   - AC-2\n3. Queued: AC-3\n", None),
        ("- Mainline Objective: close it\n- Target ACs: AC-1, AC-2, AC-3\n", "3 target"),
        ("- Mainline Objective: close it\n- Target ACs:\n- Queued: AC-3\n", "0 target"),
        ("- Mainline Objective:\n- Target ACs: AC-1\n", "blank"),
        ("- Mainline Objective: [one objective]\n- Target ACs: AC-1\n", "blank"),
        ("- Target ACs: AC-1\n", "no mainline"),
        ("<!-- Mainline Objective: x, AC-1 -->\n", "empty"),
    ],
)
def test_a_contract_is_read_in_any_of_its_spellings(text: str, fault: str | None) -> None:
    faults = contract_faults(text)
    assert bool(faults) == (fault is not None), faults
    assert fault is None or fault in faults[0]


def test_an_untouched_scaffold_and_an_empty_contract_do_not_pass_as_they_do_with_the_hook(scene: Scene) -> None:
    scene.start()
    (scene.loop / "round-0-contract.md").write_text("\n")
    seen = look(scene, "round")
    assert seen["D31"] == ("fail", "round 0: it is empty")
    assert seen["D32"][0] == "fail"
    assert seen["D33"][0] == "fail"
    assert seen["D30"][0] == "unknown"


def test_a_round_number_that_fell_or_skipped_is_seen(scene: Scene) -> None:
    scene.start()
    scene.round(0)
    look(scene, "round")
    scene.write_state(current_round=0, last_mainline_verdict="advanced")
    assert "stood at 1" in look(scene, "round", keep=False)["D26"][1]
    scene.write_state(current_round=4)
    assert look(scene, "round", keep=False)["D26"][0] == "fail"


def test_a_loop_that_comes_back_from_its_end_was_renamed_by_hand(scene: Scene) -> None:
    scene.start()
    scene.round(0)
    scene.write_state("complete-state.md", current_round=1, last_mainline_verdict="advanced")
    look(scene, "end")
    scene.write_state("state.md", current_round=1, last_mainline_verdict="advanced")
    assert look(scene, "round")["D27"][0] == "fail"


def test_another_branch_plan_or_goal_is_seen(scene: Scene) -> None:
    scene.start()
    scene.round(0)
    look(scene, "round")
    git(scene.repo, "switch", "-qc", "other")
    scene.plan("other\n" * 9)
    scene.tracker(goal="Serve a little.")
    seen = look(scene, "round")
    assert [seen[r][0] for r in ("D28", "D29", "D30")] == ["fail"] * 3


def test_a_plan_that_was_changed_together_with_its_copy_is_seen_from_the_first_look(scene: Scene) -> None:
    scene.start()
    look(scene, "after", BEFORE)
    scene.plan("other\n" * 9)
    (scene.loop / "plan.md").write_text("other\n" * 9)
    assert "own copy" in look(scene, "round")["D29"][1]


def test_a_stale_result_a_missing_and_a_double_verdict_are_seen(scene: Scene) -> None:
    scene.start()
    scene.round(0)
    scene.review(0, "Mainline Progress Verdict: ADVANCED\n", stale=True)
    assert "older than its prompt" in look(scene, "round", keep=False)["D35"][1]
    scene.review(0, "fine\n")
    assert "0 verdicts" in look(scene, "round", keep=False)["D35"][1]
    scene.review(0, "Mainline Progress Verdict: ADVANCED\nMainline Progress Verdict: STALLED\n")
    assert "2 verdicts" in look(scene, "round", keep=False)["D35"][1]
    (scene.loop / "round-0-review-result.md").unlink()
    assert look(scene, "round", keep=False)["D35"][0] == "unknown"


def test_findings_that_the_hook_misses_are_found_in_the_whole_log(scene: Scene) -> None:
    scene.start()
    scene.round(0)
    (scene.loop / ".review-phase-started").write_text("build_finish_round=0\n")
    scene.write_state(current_round=1, review_started="true", last_mainline_verdict="advanced")
    scene.log(1, "- [P2] early and lost\n" + "noise\n" * 60)
    assert "line 1" in look(scene, "round", keep=False)["D36"][1]
    scene.log(1, "the reviewer says in the middle: [P1] deep in the line\n")
    assert look(scene, "round", keep=False)["D36"][0] == "fail"
    scene.log(1, "- [P1] seen\n")
    scene.review(1, "- [P1] seen\n")
    assert look(scene, "round", keep=False)["D36"][0] == "pass"
    scene.log(1, "all of [P0-9] looked for, nothing found\n")
    assert look(scene, "round", keep=False)["D36"][0] == "pass"


def test_a_stalled_loop_and_an_edited_verdict_are_seen(scene: Scene) -> None:
    scene.start()
    scene.round(0, "STALLED", mainline_stall_count=2, drift_status="replan_required")
    assert "replan" in look(scene, "round", keep=False)["D37"][1]
    scene.write_state(current_round=1, last_mainline_verdict="advanced")
    assert "the last review says stalled" in look(scene, "round", keep=False)["D37"][1]


@pytest.mark.parametrize("name", ["stop", "maxiter", "cancel", "unexpected"])
def test_no_other_end_counts_as_complete(scene: Scene, name: str) -> None:
    scene.start()
    scene.round(0)
    scene.write_state(f"{name}-state.md", current_round=1)
    seen = look(scene, "end")
    assert seen["end-1"][0] == "fail"
    assert name in seen["end-1"][1]


def test_a_complete_end_passes_but_for_the_missing_campaign(scene: Scene) -> None:
    scene.start()
    scene.round(0, last="COMPLETE")
    (scene.loop / ".review-phase-started").write_text("build_finish_round=0\n")
    scene.review(1, "- [P1] seen\n")
    scene.log(1, "- [P1] seen\n")
    scene.log(2, "clean\n")
    (scene.loop / "round-2-review-prompt.md").write_text("review\n")
    scene.write_state("complete-state.md", current_round=2, review_started="true", last_mainline_verdict="advanced")
    seen = look(scene, "end")
    assert {k for k, v in seen.items() if v[0] not in ("pass", "n/a")} == {"end-2"}
    assert seen["end-2"][0] == "unknown"


def test_the_moment_is_found_out(scene: Scene) -> None:
    assert report_of(scene).extra["moment"] == "before"
    scene.start()
    assert report_of(scene, words=BEFORE).extra["moment"] == "after"
    assert report_of(scene).extra["moment"] == "round"
    scene.write_state("stop-state.md")
    assert report_of(scene).extra["moment"] == "end"


def test_a_start_that_humanize_would_take_and_we_do_not_is_told_as_such(scene: Scene) -> None:
    _detached(scene)
    report = report_of(scene, "before", BEFORE)
    assert report.extra["humanize_would"] == "accept"
    assert report.extra["verdict"] == "fail"
    assert "setup-rlcr-loop.sh" in report.extra["start"]


def test_a_state_file_is_read_line_by_line_whatever_it_holds() -> None:
    cut = parse_state("---\ncurrent_round: 3\n", Path("state.md"))
    assert any("cut off" in f for f in cut.faults)
    odd = parse_state("---\ncurrent_round: 1\ncurrent_round: 9\nkey: [a, {b: c}\n: :\n\tx\n---\n", Path("state.md"))
    assert odd.number("current_round") == 1
    assert "current_round stands twice" in odd.faults
    assert parse_state("", Path("s")).faults
    assert parse_state("\0\udcff", Path("s")).faults


def test_stray_plan_headings_do_not_split_the_goal_tracker(scene: Scene) -> None:
    scene.start()
    found = parse_tracker((scene.loop / "goal-tracker.md").read_text())
    assert found.goal == "Serve faster."
    assert found.criteria == ["AC-1", "AC-2"]
    assert not found.faults


def test_hostile_loop_folders_are_looked_at_without_a_crash(
    scene: Scene, stress_count: Callable[[int], int], seeded: object
) -> None:
    import random

    chance = seeded if isinstance(seeded, random.Random) else random.Random(1)
    scene.start()
    scene.round(0)
    kept = {p: p.read_bytes() for p in scene.loop.iterdir()}
    for _ in range(stress_count(100)):
        victim = chance.choice(sorted(kept))
        data = bytearray(kept[victim])
        for _ in range(chance.randint(1, 20)):
            data.insert(chance.randrange(len(data) + 1), chance.randrange(256))
        victim.write_bytes(bytes(data[: chance.randrange(len(data) + 1)]))
        for moment in ("after", "round", "end"):
            assert report_of(scene, moment, BEFORE, keep=False).extra["verdict"] in ("fail", "unknown")
        victim.write_bytes(kept[victim])


def test_loops_are_listed_oldest_first_and_a_missing_folder_holds_none(scene: Scene) -> None:
    assert loops_in(scene.repo) == []
    scene.start()
    (scene.loop.parent / "2025-01-01_00-00-00").mkdir()
    assert [item.folder.name for item in loops_in(scene.repo)] == ["2025-01-01_00-00-00", STAMP]


def test_a_missing_folder_and_an_unknown_moment_are_usage_faults(tmp_path: Path) -> None:
    with pytest.raises(UsageFault):
        examine(tmp_path / "none")
    with pytest.raises(UsageFault):
        examine(tmp_path, "later")
