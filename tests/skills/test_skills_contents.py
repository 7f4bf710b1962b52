"""What the skills, prompts and pages say: triggers, parts, who runs what, scopes, what is promised and what is private."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from chores.skill_check import QUESTIONS, SCOPES, frontmatter, skill_faults
from infer_forge.campaign.prompts import MODES, example_facts, examples, render

SKILLS = sorted(p.parent for p in (Path(__file__).parents[2] / "skills").glob("*/SKILL.md"))
ASKS = re.compile(
    r"\b(?:ask|tell|have|let|want)\s+(?:the\s+)?user\s+(?:to\s+)?(?:run|start|execute|profile|benchmark|generate|refine|set up)"
    r"|\bplease run\b|\bthe user (?:runs|starts|executes)\b",
    re.IGNORECASE,
)
PROMISE = re.compile(r"\b\d+(?:\.\d+)?\s?(?:x|×|times|%)\s+(?:faster|sooner|quicker|less time)\b", re.IGNORECASE)
ADDRESS = re.compile(r"(?<![\w.])(?!10\.0\.0\.)(?:10|172|192|100)\.\d{1,3}\.\d{1,3}\.\d{1,3}(?![\w.])")
HOME = re.compile(r"/(?:home|Users)/(?!you\b|user\b|me\b|NAME\b|eng\b)[a-z]\w+/")


def texts(root: Path, *patterns: str) -> list[Path]:
    """Files of the project."""
    found = [p for pattern in patterns for p in root.glob(pattern) if p.is_file()]
    assert len(found) > 5
    return found


def test_the_loops_skill_is_triggered_by_a_model_that_shall_meet_or_beat_the_others(project_root: Path) -> None:
    head, _ = frontmatter((project_root / "skills" / "sota-humanize-loop" / "SKILL.md").read_text())
    description = str(head["description"])
    for word in (
        "given a model",
        "keep improving",
        "SGLang",
        "meets or beats",
        "best reproducible result",
        "same environment",
    ):
        assert word.lower() in description.lower()
    for framework in ("vLLM", "TensorRT-LLM", "TokenSpeed"):
        assert framework in description


@pytest.mark.parametrize("folder", SKILLS, ids=lambda p: p.name)
def test_every_skill_is_in_order(folder: Path) -> None:
    assert skill_faults(folder) == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        *((f"## {question}", "## Other", "sections must come in the order") for question in QUESTIONS),
        ("Hard stop", "Stop", "names no hard stop"),
        ("infer-forge campaign next", "infer-forge campaign further", "no subcommand 'further'"),
        ("  scope: ", "  reach: ", "metadata names no scope"),
        ("## Deliver", "## Deliver\n\npkill -f sglang", "kills by name"),
        ("## Deliver", "## Deliver\n\nssh 10.1.2.3", "names a host address"),
        ("## Deliver", "## Deliver\n\n[x](../../other.md)", "leaves the skill"),
        ("allowed-tools:", "tools:", "is not portable"),
    ],
)
def test_a_skill_that_lacks_a_part_is_told(project_root: Path, tmp_path: Path, old: str, new: str, told: str) -> None:
    folder = shutil.copytree(project_root / "skills" / "sota-humanize-loop", tmp_path / "sota-humanize-loop")
    file = folder / "SKILL.md"
    text = file.read_text()
    assert old.lower() in text.lower()
    file.write_text(re.sub(re.escape(old), lambda _: new, text, flags=re.IGNORECASE))
    assert any(told in fault for fault in skill_faults(folder))


def test_skills_cover_their_scopes(project_root: Path) -> None:
    scopes = {p.name: frontmatter((p / "SKILL.md").read_text())[0]["metadata"]["scope"] for p in SKILLS}
    assert set(scopes.values()) == set(SCOPES)
    assert scopes["infer-forge-task"] == "task"


def test_nobody_is_asked_to_run_what_the_agent_runs(project_root: Path) -> None:
    assert ASKS.search("Then ask the user to run the benchmark.")
    for file in texts(project_root, "skills/**/*.md", "prompts/*.md", "playbooks/*.md"):
        assert not ASKS.search(file.read_text(encoding="utf-8")), file
    for entry in examples():
        for mode in MODES:
            assert not ASKS.search(render(mode, example_facts(entry)))


def test_a_round_is_read_executed_committed_summed_up_and_reviewed_in_this_order() -> None:
    text = render("rlcr", example_facts(examples()[0])).split("**Mode.**")[1]
    order = [
        "`infer-forge campaign plan --run RUN`", "--moment before", "--moment after", "read the round prompt", "work, commit",
        "write the summary", "--moment round", "end the turn so that the Stop hook reviews", "follow the next prompt exactly",
    ]  # fmt: skip
    places = [text.index(word) for word in order]
    assert places == sorted(places)
    assert "Exit code not 0, or no active state: stop and report" in text


def test_every_work_type_is_shipped_pointed_to_or_out_of_scope(project_root: Path) -> None:
    page = (project_root / "docs" / "index.md").read_text().split("## Work types")[1].split("## ")[0]
    rows = [r for r in page.splitlines() if r.startswith("| ") and "| work |" not in r]
    assert all(re.search(r"\*\*(we ship|we point to|out of scope)\*\*", r) for r in rows)
    for work in (
        "crash", "integration of a kernel", "tests", "CI", "profiling", "incident triage", "benchmark", "capacity planning",
        "pipeline analysis", "compute simulation", "review", "pull-request history", "SOTA loops",
    ):  # fmt: skip
        assert work.lower() in page.lower(), work


def test_production_readiness_stays_with_people(project_root: Path) -> None:
    for file in texts(project_root, "skills/**/*.md", "docs/*.md", "playbooks/*.md", "prompts/*.md", "README.md"):
        for line in file.read_text(encoding="utf-8").splitlines():
            if re.search(r"production[- ]read", line, re.IGNORECASE):
                assert re.search(r"\b(no|never|not|read-only|person|people)\b", line, re.IGNORECASE), f"{file}: {line}"
    for file in (project_root / "infer_forge").rglob("*.py"):
        assert not re.search(r"production[-_ ]ready", file.read_text(encoding="utf-8"), re.IGNORECASE), file
    page = (project_root / "docs" / "index.md").read_text().split("## What stays with people")[1]
    for word in ("goal", "threshold", "merging pull requests", "releases", "production"):
        assert word in page


def test_nothing_promises_that_work_ends_sooner(project_root: Path) -> None:
    assert PROMISE.search("tasks end 3x faster")
    assert "does not promise that a task ends sooner" in (project_root / "README.md").read_text()
    for file in texts(project_root, "README.md", "skills/**/*.md", "playbooks/*.md", "prompts/*.md", "docs/*.md"):
        assert not PROMISE.search(file.read_text(encoding="utf-8")), file


def test_no_private_host_or_home_stands_in_what_is_shipped(project_root: Path) -> None:
    assert ADDRESS.search("ssh 10.4.0.7")
    assert HOME.search("/home/ann/runs")
    kinds = ("**/*.py", "**/*.md", "**/*.yaml", "**/*.json")
    for folder in ("infer_forge", "mcp_server", "skills", "playbooks", "references", "prompts", "hooks"):
        for file in (p for kind in kinds for p in (project_root / folder).glob(kind)):
            text = file.read_text(encoding="utf-8")
            found = ADDRESS.search(text) or HOME.search(text)
            assert not found, f"{file}: {found.group() if found else ''}"


def test_the_page_of_the_loop_says_which_mode_suits_which_work(project_root: Path) -> None:
    page = (project_root / "docs" / "rlcr.md").read_text().lower()
    for word in ("pull request", "correctness", "days", "goal"):
        assert word in page
