"""Ends: a deliverable whose reproduction path was verified, or a handoff; archived once, immutable."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import GateRefused, UsageFault
from infer_forge.base.gitstore import Store
from infer_forge.journal import get
from infer_forge.journal import open_store as open_journal
from infer_forge.tasks import archive, baseline, blocks, define, ending, events
from infer_forge.tasks.evidence import add_evidence, evidence_of
from infer_forge.tasks.execute import record
from infer_forge.tasks.proposals import proposals
from infer_forge.tasks.resuming import take_up
from infer_forge.tasks.state import Task, load
from tests.tasks.task_samples import POINT, begun, block, definition, maker


@pytest.fixture
def store() -> Store:
    return events.open_store()


def ready(store: Store, folder: Path, **more: Any) -> Any:
    """A task whose acceptance passes."""
    task = block(store, begun(store, **more))
    record(store, task.id, ["false"], label="first try", cwd=str(folder))
    record(store, task.id, maker(folder), label="make", evidence=[("x", folder / "ev.json")], cwd=str(folder))
    return blocks.close_block(store, task.id, "confirmed", "advanced")


def test_a_deliverable_carries_its_reproduction_path_and_failed_attempts(store: Store, tmp_path: Path) -> None:
    task = ending.deliver(store, ready(store, tmp_path).id, "The file was written once")
    assert task.status == "delivered"
    assert task.ending
    assert task.archived
    path = task.ending["content"]["reproduction"]
    assert [c["argv"][0] for c in path["commands"]] == ["sh"]
    assert [c["label"] for c in path["failed_attempts"]] == ["first try"]
    assert path["results"][0]["decided_acceptance"] is True
    with open_journal() as journal:
        kept = get(journal, task.archived["journal"])
    assert (kept.kind, kept.extra["task_contract_sha256"], kept.verdict) == ("task_record", task.lock_sha, "delivered")
    assert "Failed attempts:" in kept.body
    assert {r for _, r, _ in define.verify(store, task.id)} == {"pass"}


def test_nothing_changes_after_the_end(store: Store, tmp_path: Path) -> None:
    task = ending.deliver(store, ready(store, tmp_path).id, "The file was written once")
    with pytest.raises(GateRefused, match="never changes again"):
        define.clarify(store, task.id, "one more thing")
    with pytest.raises(GateRefused):
        record(store, task.id, ["true"], label="late")
    assert ending.deliver(store, task.id, "The file was written once").last_seq == task.last_seq


def test_a_claim_without_evidence_is_no_deliverable(store: Store, tmp_path: Path) -> None:
    task = begun(store)
    with pytest.raises(GateRefused, match="no deliverable yet"):
        ending.deliver(store, task.id, "It is all done, believe me")


def test_evidence_that_changed_since_is_no_deliverable(store: Store, tmp_path: Path) -> None:
    task = ready(store, tmp_path)
    (tmp_path / "ev.json").write_text('{"verdict": "ok", "more": 1}')
    with pytest.raises(GateRefused, match="changed since"):
        ending.deliver(store, task.id, "The file was written once")


def test_a_commit_that_is_gone_is_no_deliverable(store: Store, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    git = ["git", "-c", "user.email=a@b", "-c", "user.name=a"]
    subprocess.run(["git", "init", "-q"], cwd=repo, check=True)
    (repo / ".gitignore").write_text("*\n")
    subprocess.run([*git, "add", "-f", ".gitignore"], cwd=repo, check=True)
    subprocess.run([*git, "commit", "-qm", "x"], cwd=repo, check=True)
    task = ready(store, repo)
    subprocess.run([*git, "commit", "-q", "--amend", "-m", "y"], cwd=repo, check=True)
    subprocess.run(["git", "reflog", "expire", "--expire=now", "--all"], cwd=repo, check=True)
    subprocess.run(["git", "gc", "-q", "--prune=now"], cwd=repo, check=True)
    with pytest.raises(GateRefused, match="is not in its repository"):
        ending.deliver(store, task.id, "The file was written once")


def test_a_commit_that_no_remote_shows_is_kept_in_a_bundle_that_holds_it(store: Store, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    git = ["git", "-c", "user.email=a@b", "-c", "user.name=a"]
    subprocess.run(["git", "init", "-q"], cwd=repo, check=True)
    (repo / ".gitignore").write_text("*\n")
    subprocess.run([*git, "add", "-f", ".gitignore"], cwd=repo, check=True)
    subprocess.run([*git, "commit", "-qm", "x"], cwd=repo, check=True)
    task = ending.deliver(store, ready(store, repo).id, "The file was written once")
    assert task.ending
    entry = task.ending["content"]["reproduction"]["commits"][0]
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=repo, check=True, capture_output=True, text=True
    ).stdout.strip()
    listed = subprocess.run(
        ["git", "bundle", "list-heads", entry["bundle"]["path"]], cwd=repo, check=True, capture_output=True, text=True
    ).stdout
    assert head in listed


def _kept(_: Store, task: Task) -> Task:
    """An archive that never happens."""
    return task


def test_an_end_that_was_cut_off_before_the_journal_is_archived_on_resume(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = ready(store, tmp_path)
    with monkeypatch.context() as cut:
        cut.setattr(ending, "archive", _kept)
        ended = ending.deliver(store, task.id, "The file was written once")
    assert ended.status == "delivered"
    assert ended.archived is None
    first, _ = take_up(store, task.id)
    assert first.archived is not None
    with open_journal() as journal:
        assert archive.record_of(first).extra == get(journal, first.archived["journal"]).extra


def test_an_end_while_the_journals_hub_is_away_is_archived_here(store: Store, tmp_path: Path, forge_home: Path) -> None:
    (forge_home / "infer-forge.yaml").write_text(f"remotes:\n  journal: {tmp_path / 'hub.git'}\n")
    task = ending.handoff(store, begun(store).id, "half of it", "take the other half")
    assert task.status == "handed_off"
    assert task.archived is not None
    with open_journal() as journal:
        assert get(journal, task.archived["journal"]).task_id == task.id


def test_an_end_before_the_creation_is_refused(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=2)).isoformat()
    with monkeypatch.context() as clock:
        clock.setattr(events, "now", lambda: later)
        task = define.new(store, define.definition_of(definition()))
    with pytest.raises(GateRefused, match="the clock of this machine"):
        ending.handoff(store, task.id, "nothing is done", "begin at the start")


def test_a_handoff_says_what_is_done_and_where_to_go_on(store: Store, tmp_path: Path) -> None:
    task = begun(store)
    with pytest.raises(UsageFault):
        ending.handoff(store, task.id, "much", "go")
    with pytest.raises(GateRefused, match="only a person"):
        ending.handoff(store, task.id, "half of it", "take the other half", outcome="abandoned")
    ended = ending.handoff(
        store,
        task.id,
        "half of it",
        "take the other half",
        still_holds=["the first half is right"],
        outcome="abandoned",
        person="ann",
        reason="another plan",
    )
    assert ended.status == "handed_off"
    assert ended.archived
    with open_journal() as journal:
        kept = get(journal, ended.archived["journal"])
    assert (kept.kind, kept.verdict) == ("handoff", "abandoned")


def test_a_result_of_another_deployment_point_is_refused_and_offered_as_a_new_task(
    store: Store, tmp_path: Path
) -> None:
    task = begun(store, contract={"deployment_point": POINT, "may_vary": ["runtime_profile.engine_config"]})
    other = {**POINT, "accelerator_platform": {"gpu_model": "B200", "gpu_count": 2}}
    tuned = {**POINT, "runtime_profile": {**POINT["runtime_profile"], "engine_config": {"mem_fraction_static": 0.9}}}
    from infer_forge.base import jsonio

    (tmp_path / "far.json").write_bytes(jsonio.dumps({"verdict": "ok", "header": {"deployment_point": other}}))
    (tmp_path / "near.json").write_bytes(jsonio.dumps({"verdict": "ok", "rows": [{"point": tuned}]}))
    with pytest.raises(GateRefused, match="gpu_model is 'B200'") as refused:
        add_evidence(store, task.id, evidence_of("x", tmp_path / "far.json"))
    offered = proposals(store)[0]
    assert offered["id"] in (refused.value.next_step or "")
    add_evidence(store, task.id, evidence_of("x", tmp_path / "near.json"))
    made = define.accept(store, offered["id"])
    assert made.typed.contract.deployment_point is not None
    assert made.typed.contract.deployment_point.accelerator_platform.gpu_model == "B200"
    assert not proposals(store)
    copy = ["cp", str(tmp_path / "far.json"), str(tmp_path / "out.json")]
    task, done = record(store, task.id, copy, label="make", evidence=[("x", tmp_path / "out.json")])
    assert done.result["refused"][0]["path"].endswith("out.json")
    assert len(task.evidence) == 1


def test_only_a_capability_task_changes_the_baseline(store: Store, tmp_path: Path) -> None:
    task = block(store, define.start(store, _locked(store).id))
    record(store, task.id, maker(tmp_path), label="make", evidence=[("x", tmp_path / "ev.json")])
    blocks.close_block(store, task.id, "confirmed", "advanced")
    changed = baseline.manifest({"another_tool": {}})
    with pytest.raises(GateRefused, match="no capability task delivered"):
        ending.deliver(store, task.id, "The file was written once", baseline=changed)
    assert (
        ending.deliver(store, task.id, "The file was written once", baseline=baseline.manifest({})).status
        == "delivered"
    )


def test_a_lock_that_did_not_know_the_tools_ends_under_the_same_files(store: Store, tmp_path: Path) -> None:
    task = ready(store, tmp_path)
    done = ending.deliver(store, task.id, "The file was written once", baseline=baseline.manifest({"a_tool": {}}))
    assert done.status == "delivered"


def _locked(store: Store) -> Any:
    task = define.new(store, define.definition_of(definition()))
    return define.lock(store, task.id, baseline=baseline.keep(store, baseline.manifest({})))


def test_a_deliverable_while_work_is_open_is_refused(store: Store, tmp_path: Path) -> None:
    task = block(store, begun(store))
    with pytest.raises(GateRefused, match="block 1 is active"):
        ending.deliver(store, task.id, "The file was written once")
    assert load(store, task.id).status == "active"


def test_a_changed_journal_copy_is_told_by_its_id(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = ending.deliver(store, ready(store, tmp_path).id, "Ⓐ file was\r\n written — once \t")
    assert {r for _, r, _ in define.verify(store, task.id)} == {"pass"}

    def changed(journal: Store, record_id: str) -> Any:
        kept = get(journal, record_id)
        kept.extra["content"]["summary"] = "Two files were written"
        return kept

    monkeypatch.setattr("infer_forge.journal.get", changed)
    found = {rule: (result, seen) for rule, result, seen in define.verify(store, task.id)}
    assert found["journal-record"][0] == "fail"
    assert "was changed" in found["journal-record"][1]


def test_who_gives_no_baseline_ends_under_the_one_that_is_seen(store: Store, tmp_path: Path, forge_home: Path) -> None:
    team = tmp_path / "skills"
    team.mkdir()
    (team / "SKILL.md").write_text("one")
    (forge_home / "infer-forge.yaml").write_text(f"skills: [{team}]\n")
    task = ready(store, tmp_path)
    (team / "SKILL.md").write_text("two")
    with pytest.raises(GateRefused, match="no capability task delivered"):
        ending.deliver(store, task.id, "The file was written once")
    (team / "SKILL.md").write_text("one")
    assert ending.deliver(store, task.id, "The file was written once").status == "delivered"
