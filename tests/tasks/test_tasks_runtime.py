"""Whether the runtime changed: seen by the tool itself, proposed once, never started; what cannot be seen is not unchanged."""

from __future__ import annotations

import json
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from infer_forge.base.gitstore import Store
from infer_forge.base.paths import paths
from infer_forge.cli.main import cli
from infer_forge.engines.lifecycle import Engine
from infer_forge.tasks import define, events, proposals, runtime, runtime_look


@pytest.fixture
def store() -> Store:
    return events.open_store()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed distributions that the interpreter on PATH sees."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def installed(site: Path, name: str, version: str | None, commit: str | None = None) -> None:
    """Install one version of a distribution in place of the last; None: remove it."""
    for old in site.glob(f"{name}-*.dist-info"):
        shutil.rmtree(old)
    if version is None:
        return
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if commit:
        source = {"url": "https://git.example/x", "vcs_info": {"vcs": "git", "commit_id": commit}}
        (folder / "direct_url.json").write_text(json.dumps(source))


def engine(number: int, model: str, program: str = "python3") -> Engine:
    """The record of an engine that was started with a model."""
    folder = paths().state / "engines" / f"sglang-{number}"
    folder.mkdir(parents=True)
    facts: dict[str, Any] = {"id": folder.name, "framework": "sglang", "env": {}, "log": "", "process": {}}
    argv = [program, "-m", "sglang.launch_server", "--port", "1"]
    at = f"2026-04-0{number}T00:00:00Z"
    made = Engine(argv=argv, place="local", url="", started_at=at, folder=str(folder), model=model, **facts)
    made.save()
    return made


def facts(noticed: runtime.Noticed) -> list[tuple[str, str, str]]:
    return [(c.fact, c.before, c.now) for c in noticed.changes]


def test_a_changed_framework_is_noticed_and_proposes_one_task_that_nobody_started(store: Store, site: Path) -> None:
    installed(site, "sglang", "0.5.10", "a" * 40)
    assert (runtime.notice(store).verdict, proposals.proposals(store)) == ("first_look", [])
    assert runtime.notice(store).verdict == "unchanged"
    installed(site, "sglang", "0.5.11", "b" * 40)
    seen = runtime.notice(store)
    changed = [("commit sglang", "a" * 40, "b" * 40), ("package sglang", "0.5.10", "0.5.11")]
    assert (seen.verdict, facts(seen)) == ("changed", changed)
    assert runtime.notice(store).verdict == "unchanged"
    assert [p["id"] for p in proposals.proposals(store)] == [seen.proposal]
    assert events.task_ids(store) == []
    task = define.accept(store, str(seen.proposal))
    assert (task.status, task.typed.type) == ("defined", "capability")
    assert {"before": "0.5.10", "now": "0.5.11"} in [c.value for c in task.typed.context]


def test_a_framework_that_comes_or_goes_is_a_change(store: Store, site: Path) -> None:
    runtime.notice(store)
    installed(site, "vllm", "0.11.0")
    assert facts(runtime.notice(store)) == [("package vllm", "absent", "0.11.0")]
    installed(site, "vllm", None)
    assert facts(runtime.notice(store)) == [("package vllm", "0.11.0", "absent")]
    assert runtime.notice(store).verdict == "unchanged"


def test_changes_join_a_proposal_that_waits_and_propose_anew_after_its_answer(store: Store, site: Path) -> None:
    installed(site, "sglang", "1")
    runtime.notice(store)
    installed(site, "sglang", "2")
    first = runtime.notice(store)
    installed(site, "sglang", "1")
    second = runtime.notice(store)
    assert (second.proposal, second.joined) == (first.proposal, True)
    proposals.answer(store, str(first.proposal), "dismissed")
    installed(site, "sglang", "2")
    third = runtime.notice(store)
    assert third.proposal not in (None, first.proposal)
    assert not third.joined


def test_what_was_seen_once_and_is_not_seen_now_is_unknown_and_its_last_value_stays(
    store: Store, site: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    config = model / "config.json"
    config.write_text('{"a": 1}')
    engine(1, str(model))
    runtime.notice(store)
    config.unlink()
    seen = runtime.notice(store)
    assert (seen.verdict, seen.changes) == ("cannot_tell", [])
    assert f"config {model}" in [fact for _, fact, _ in seen.unseen]
    config.write_text('{"a": 1}')
    assert runtime.notice(store).verdict == "unchanged"
    config.unlink()
    runtime.notice(store)
    config.write_text('{"a": 2}')
    assert f"config {model}" in [c.fact for c in runtime.notice(store).changes]


def test_of_several_who_look_at_once_one_proposal_and_one_change_are_kept(store: Store, site: Path) -> None:
    runtime.notice(store)
    installed(site, "sglang", "1")
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(runtime.notice, events.open_store()) for _ in range(4)]
        seen = [a.result() for a in asked]
    assert len({n.proposal for n in seen if n.proposal}) == len(proposals.proposals(store)) == 1
    kept = [json.loads(text) for _, text in store.read(runtime.REF).items()]
    assert [len(k["changes"]) for k in kept] == [1]


def test_a_model_that_is_served_for_the_first_time_is_a_change(store: Store, site: Path) -> None:
    engine(1, "org/one")
    runtime.notice(store)
    engine(2, "org/two")
    assert facts(runtime.notice(store)) == [("served org/two", "absent", "yes")]
    shutil.rmtree(paths().state / "engines" / "sglang-1")
    assert runtime.notice(store).changes == []


def test_the_interpreter_of_a_recorded_engine_is_looked_at_while_it_is_there(
    store: Store, site: Path, tmp_path: Path
) -> None:
    own = tmp_path / "venv" / "bin"
    own.mkdir(parents=True)
    (own / "python3").symlink_to(sys.executable)
    (own / "vllm").write_text(f"#!{own}/python3\n")
    (own / "vllm").chmod(0o755)
    engine(1, "org/one", str(own / "vllm"))
    engine(2, "org/two", str(own / "python3"))
    subjects = [s.subject for s in runtime_look.look()]
    assert subjects.count(f"local {own}/python3") == 1
    shutil.rmtree(own)
    assert [s.why for s in runtime_look.look()] == [None, None]


def test_a_damaged_engine_record_is_told_and_hides_no_environment(store: Store, site: Path) -> None:
    made = engine(1, "org/one")
    (Path(made.folder) / "engine.json").write_text("{}")
    seen = runtime.notice(store)
    assert [fact for _, fact, _ in seen.unseen] == ["everything"]
    assert seen.first > 0


def test_a_place_that_does_not_answer_is_told_with_the_reason(store: Store, site: Path) -> None:
    runtime.notice(store)
    words = ["task", "wake", "--on", "runtime", "--place", "docker:no-such-container", "--format", "json"]
    told = json.loads(CliRunner().invoke(cli, words).stdout)
    assert told["verdict"] == "cannot_tell"
    assert told["tables"]["unseen"]["rows"][0][:2] == ["docker:no-such-container python3", "everything"]
    assert told["tables"]["unseen"]["rows"][0][2]
    assert "driver" in told["never_seen"]


def test_the_inbox_looks_by_itself_and_offers_what_it_found(store: Store, site: Path) -> None:
    installed(site, "sglang", "0.5.10")
    assert "nothing waits" in CliRunner().invoke(cli, ["task", "inbox"]).stdout
    installed(site, "sglang", "0.5.11")
    out = CliRunner().invoke(cli, ["task", "inbox"]).stdout
    assert "package sglang 0.5.10 -> 0.5.11" in out
    assert f"infer-forge task new --from {proposals.proposals(store)[0]['id']}" in out


def test_an_inbox_that_cannot_look_says_that_it_does_not_know(forge_home: Path, tmp_path: Path, site: Path) -> None:
    (forge_home / "infer-forge.yaml").write_text(f"remotes:\n  tasks: {tmp_path / 'no-hub.git'}\n")
    done = CliRunner().invoke(cli, ["task", "inbox"])
    assert done.exit_code == 0, done.output
    assert "whether the runtime changed is unknown" in done.output


def test_a_quick_look_takes_nothing_that_it_did_not_look_at_for_lost(store: Store, site: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "tokenizer.json").write_text("{}")
    engine(1, str(model))
    runtime.notice(store)
    assert runtime.notice(store, quick=True).verdict == "unchanged"
