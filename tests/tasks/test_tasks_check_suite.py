"""The capability task: its outcome is held against what changed, and its check suite against what was really run."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from infer_forge.base.errors import GateRefused
from infer_forge.base.gitstore import Store
from infer_forge.cli.main import cli
from infer_forge.journal import Record, add
from infer_forge.journal import open_store as open_journal
from infer_forge.tasks import baseline, check_suite, define, ending, events, proposals, runtime
from infer_forge.tasks.execute import record
from infer_forge.tasks.state import Task, load
from tests.tasks.task_samples import EXIT, definition

SUITE = {**EXIT, "selector": {"label": "check-suite"}}
TOOLS = {"a_tool": {"x": 1}}


@pytest.fixture
def store() -> Store:
    return events.open_store()


@pytest.fixture
def team(tmp_path: Path, forge_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A team's own suite of two commands, beside the settings file that names it, and its own skills."""
    folder = tmp_path / "team"
    (folder / "skills").mkdir(parents=True)
    (folder / "skills" / "SKILL.md").write_text("one\n")
    for name in ("lint", "smoke"):
        script(folder, name)
    suite = f"skills: [{folder / 'skills'}]\ncheck_suite: [./lint --all, ./smoke]\n"
    (folder / "infer-forge.yaml").write_text(suite)
    monkeypatch.chdir(folder)
    return folder


def script(folder: Path, name: str, body: str = "echo all is well") -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def capability(store: Store, **more: Any) -> Task:
    task = define.new(store, define.definition_of(definition(SUITE, type="capability", goal_tag="capability", **more)))
    define.lock(store, task.id, baseline=baseline.keep(store, baseline.manifest(TOOLS)))
    return define.start(store, task.id)


def run_suite(store: Store, task: Task, folder: Path, *, again: bool = False) -> None:
    for line in baseline.manifest()["check_suite"]["commands"]:
        record(store, task.id, check_suite.words_of(line), label="check-suite", cwd=str(folder), again=again)


def cited() -> str:
    note = Record(kind="note", title="a lesson", created=datetime.datetime.now(datetime.timezone.utc))
    with open_journal() as journal:
        return add(journal, [note])[0]


def deliver(store: Store, task: Task, outcome: str = "no_change", **more: Any) -> Task:
    now = more.pop("baseline", None) or baseline.manifest(TOOLS)
    said = {"outcome": outcome, "records": [cited()]}
    return ending.deliver(store, task.id, "The decision stands on records", capability=said, baseline=now, **more)


def test_a_capability_task_ends_as_its_baseline_says(store: Store, team: Path) -> None:
    task = capability(store)
    run_suite(store, task, team)
    same = baseline.manifest(TOOLS)
    with pytest.raises(GateRefused, match="ends with an outcome"):
        ending.deliver(store, task.id, "Nothing had to change", baseline=same)
    with pytest.raises(GateRefused, match="nothing was removed"):
        deliver(store, task, "retire")
    uncited = {"outcome": "no_change", "records": ["20260101-000000-aaaaaaaaaa"]}
    with pytest.raises(GateRefused, match="no record"):
        ending.deliver(store, task.id, "Nothing had to change", capability=uncited, baseline=same)
    assert deliver(store, task, "retire", baseline=baseline.manifest({})).status == "delivered"


def test_the_lock_names_the_suite_by_its_commands_and_the_hash_of_its_programs(store: Store, team: Path) -> None:
    task = capability(store)
    assert task.lock
    kept = baseline.kept(store, task.lock["baseline"]["digest"])["check_suite"]
    assert kept["commands"] == ["./lint --all", "./smoke"]
    assert set(kept["programs"].values()) == {check_suite.program_of(str(team / "lint"))["sha256"]}  # type: ignore[index]
    assert task.lock["baseline"]["check_suite"]["sha256"] == kept["sha256"]
    script(team, "lint", "exit 0")
    changed = baseline.changes(baseline.kept(store, task.lock["baseline"]["digest"]), baseline.manifest(TOOLS))
    assert changed["changed"] == ["check_suite"]


def test_another_command_under_the_suites_label_is_no_run_of_it(store: Store, team: Path) -> None:
    task = capability(store)
    record(store, task.id, ["true"], label="check-suite")
    record(store, task.id, ["./lint"], label="check-suite", cwd=str(team))
    record(store, task.id, ["./smoke"], label="check-suite", cwd=str(team))
    with pytest.raises(GateRefused, match=r"check suite, ./lint --all: no finished execution of exactly this command"):
        deliver(store, task)


@pytest.mark.parametrize("body", ["echo never looked", "echo all is well"])
def test_the_same_command_line_of_another_folder_is_no_run_of_the_suite(
    store: Store, team: Path, tmp_path: Path, body: str
) -> None:
    task = capability(store)
    run_suite(store, task, team)
    for name in ("lint", "smoke"):
        script(tmp_path, name, body)
    run_suite(store, task, tmp_path, again=True)
    with pytest.raises(GateRefused, match="ran another ./lint"):
        deliver(store, task)


def test_a_suite_that_failed_the_last_time_is_named(store: Store, team: Path) -> None:
    (team / "broken").write_text("")
    for name in ("lint", "smoke"):
        script(team, name, f"echo looking; test ! -e {team}/broken")
    task = capability(store)
    run_suite(store, task, team)
    with pytest.raises(GateRefused, match="ended with 1"):
        deliver(store, task)
    (team / "broken").unlink()
    run_suite(store, task, team, again=True)
    assert deliver(store, task).status == "delivered"


def test_a_run_before_the_runtime_changed_does_not_vouch_for_it(store: Store, team: Path) -> None:
    task = capability(store)
    run_suite(store, task, team)
    proposals.wake(store, "runtime", "driver 570 -> 580")
    with pytest.raises(GateRefused, match="began before the runtime changed .driver 570"):
        deliver(store, task)
    run_suite(store, task, team, again=True)
    assert deliver(store, task).status == "delivered"


def test_a_change_that_nobody_noticed_until_the_end_is_noticed_there(
    store: Store, team: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    runtime.notice(store)
    task = capability(store)
    run_suite(store, task, team)
    installed = tmp_path / "site" / "vllm-0.11.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.11.0\n")
    with pytest.raises(GateRefused, match="began before the runtime changed .package vllm absent 0.11.0"):
        deliver(store, task)


def test_a_run_on_other_skills_than_the_delivered_ones_does_not_count(store: Store, team: Path) -> None:
    task = capability(store)
    run_suite(store, task, team)
    (team / "skills" / "SKILL.md").write_text("two\n")
    with pytest.raises(GateRefused, match="ran on other skills"):
        deliver(store, task, "update")
    run_suite(store, task, team, again=True)
    assert deliver(store, task, "update").status == "delivered"


def test_a_suite_that_changed_since_the_lock_needs_a_person(store: Store, team: Path) -> None:
    task = capability(store)
    script(team, "lint", "echo nothing is looked at any more")
    run_suite(store, task, team)
    with pytest.raises(GateRefused, match="check suite itself changed"):
        deliver(store, task, "update")
    assert deliver(store, task, "update", accepted_by="ann").status == "delivered"


def test_a_run_whose_output_is_gone_does_not_count(store: Store, team: Path) -> None:
    task = capability(store)
    run_suite(store, task, team)
    last = list(load(store, task.id).executions.values())[-1]
    Path(last.result["stdout"]["path"]).unlink()
    with pytest.raises(GateRefused, match="is gone or was changed"):
        deliver(store, task)


def test_the_run_must_be_on_the_node_whose_runtime_changed(
    store: Store, team: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = {"name": "local python3: driver", "origin": "runtime of gpu07", "status": "verified"}
    task = capability(store, context=[change])
    run_suite(store, task, team)
    with pytest.raises(GateRefused, match="the runtime changed on gpu07"):
        deliver(store, task)
    monkeypatch.setenv("INFER_FORGE_NODE", "gpu07")
    run_suite(store, task, team, again=True)
    assert deliver(store, task).status == "delivered"


def test_the_packs_own_suite_is_data_and_its_programs_are_the_checkouts(store: Store) -> None:
    named = check_suite.suite()
    assert named["commands"] == ["scripts/check", "scripts/test"]
    assert all(named["programs"].values())


def test_the_command_line_shows_the_baseline_its_suite_and_what_is_missing(store: Store, team: Path) -> None:
    task = capability(store)
    told = json.loads(CliRunner().invoke(cli, ["task", "baseline", task.id, "--format", "json"]).stdout)
    assert [r[0] for r in told["tables"]["check_suite"]["rows"]] == ["./lint --all", "./smoke"]
    assert len(told["missing"]) == 2
    assert told["manifest"]["tools"]
    run = told["tables"]["check_suite"]["rows"][0][2].split()[1:]
    assert CliRunner().invoke(cli, run).exit_code == 0
    told = json.loads(CliRunner().invoke(cli, ["task", "baseline", task.id, "--format", "json"]).stdout)
    assert len(told["missing"]) == 1
