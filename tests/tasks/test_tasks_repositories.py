"""What a recorded run stands on: the worktrees of its task, captured by themselves, and proved before a result counts."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from infer_forge import workspace as ws
from infer_forge.base.errors import GateRefused
from infer_forge.base.gitstore import Store
from infer_forge.cli.main import cli
from infer_forge.tasks import blocks, ending, events
from infer_forge.tasks.execute import record
from infer_forge.tasks.repositories import told
from infer_forge.tasks.state import Execution, Task
from tests.tasks.task_samples import begun, block, maker


@pytest.fixture
def store() -> Store:
    return events.open_store()


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace of two repositories, `eng` and `kern`, whose remotes are folders."""
    (tmp_path / "gitconfig").write_text("[user]\n\tname = T\n\temail = t@localhost\n[init]\n\tdefaultBranch = main\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    made = ws.init_workspace(tmp_path / "root")
    for name in ("eng", "kern"):
        git(tmp_path, "init", "-q", "--bare", f"{name}.git")
        git(tmp_path, "clone", "-q", str(tmp_path / f"{name}.git"), name)
        (tmp_path / name / "f").write_text(name)
        git(tmp_path / name, "add", "f")
        git(tmp_path / name, "commit", "-qm", "one")
        git(tmp_path / name, "push", "-q", "origin", "HEAD:main")
        ws.add_repo(made, (tmp_path / f"{name}.git").as_uri(), "stack")
    return made.root


def trees(root: Path, task: Task) -> Path:
    """The task's worktrees, made through the command line; gives their folder."""
    words = ["workspace", "task", task.id, "--repo", "eng", "--repo", "kern", "--root", str(root)]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    return root / "worktrees" / task.id


def ran(store: Store, task: Task, folder: Path, **more: Any) -> Execution:
    folder.mkdir(exist_ok=True)
    words = maker(folder)
    evidence = [("x", folder / "ev.json")]
    return record(store, task.id, words, label="make", evidence=evidence, cwd=str(folder), **more)[1]


def commits(done: Execution) -> dict[str, str]:
    return {r["name"]: r["commit"] for r in done.intent["repositories"]}


def test_a_run_captures_every_worktree_of_its_task_wherever_it_runs(store: Store, root: Path, tmp_path: Path) -> None:
    task = block(store, begun(store))
    folder = trees(root, task)
    heads = {name: git(folder / name, "rev-parse", "HEAD") for name in ("eng", "kern")}
    assert commits(ran(store, task, tmp_path / "elsewhere")) == heads
    inside = commits(ran(store, task, folder / "eng" / "sub"))
    assert inside == heads
    blocks.close_block(store, task.id, "confirmed", "advanced")
    ended = ending.deliver(store, task.id, "The file was written once").ending
    assert ended
    assert {c["name"] for c in ended["content"]["reproduction"]["commits"]} == {"eng", "kern"}


def test_dirty_detached_and_untracked_worktrees_are_told_with_the_record(
    store: Store, root: Path, tmp_path: Path
) -> None:
    task = begun(store)
    folder = trees(root, task)
    (folder / "eng" / "f").write_text("changed")
    (folder / "kern" / "new").write_text("untracked")
    git(folder / "kern", "checkout", "-q", "--detach")
    words = ["task", "record", task.id, "--cwd", str(tmp_path), "--label", "look", "--", "true"]
    out = CliRunner().invoke(cli, words).output
    assert "eng: 1 changed files, kept as a patch" in out
    assert "kern: new in no commit and in no patch" in out
    assert "is on no branch" in out


def test_a_result_whose_worktree_is_gone_is_no_deliverable(store: Store, root: Path, tmp_path: Path) -> None:
    task = block(store, begun(store))
    folder = trees(root, task)
    shutil.rmtree(folder / "kern")
    done = ran(store, task, tmp_path / "elsewhere")
    lost = next(r for r in done.intent["repositories"] if r["name"] == "kern")
    assert lost["commit"] is None
    assert told(lost)[0][0] == "missing"
    blocks.close_block(store, task.id, "confirmed", "advanced")
    with pytest.raises(GateRefused, match="ran without kern: its worktree is not there"):
        ending.deliver(store, task.id, "The file was written once")


def test_a_result_counts_still_after_its_worktrees_were_closed(store: Store, root: Path, tmp_path: Path) -> None:
    task = block(store, begun(store))
    folder = trees(root, task)
    (folder / "eng" / "f").write_text("more")
    git(folder / "eng", "commit", "-qam", "two")
    ran(store, task, tmp_path / "elsewhere")
    blocks.close_block(store, task.id, "confirmed", "advanced")
    CliRunner().invoke(cli, ["workspace", "verify", "--task", task.id, "--bundle", "--root", str(root)])
    done = CliRunner().invoke(cli, ["workspace", "task", task.id, "--close", "--root", str(root)])
    assert done.exit_code == 0, done.output
    assert not (folder / "eng").exists()
    ended = ending.deliver(store, task.id, "The file was written once").ending
    assert ended
    kept = {c["name"]: c.get("bundle") for c in ended["content"]["reproduction"]["commits"]}
    assert kept["eng"] is not None


def test_a_named_repository_that_no_run_captured_is_no_deliverable(store: Store, root: Path, tmp_path: Path) -> None:
    task = block(store, begun(store, repositories=["eng"]))
    ran(store, task, tmp_path / "elsewhere")
    blocks.close_block(store, task.id, "confirmed", "advanced")
    with pytest.raises(GateRefused, match="captured no commit of eng"):
        ending.deliver(store, task.id, "The file was written once")
    ran(store, task, tmp_path / "elsewhere", again=True, further={"eng": str(tmp_path / "eng")})
    assert ending.deliver(store, task.id, "The file was written once").status == "delivered"


def test_a_commit_that_its_remote_dropped_is_kept_as_a_bundle_though_the_tracking_branch_still_names_it(
    store: Store, root: Path, tmp_path: Path
) -> None:
    task = block(store, begun(store))
    tree = trees(root, task) / "eng"
    (tree / "f").write_text("more")
    git(tree, "commit", "-qam", "two")
    git(tree, "-c", "protocol.file.allow=always", "push", "-q", "origin", f"HEAD:refs/heads/task/{task.id}")
    ran(store, task, tmp_path / "elsewhere")
    blocks.close_block(store, task.id, "confirmed", "advanced")
    git(tmp_path / "eng.git", "update-ref", "-d", f"refs/heads/task/{task.id}")
    assert git(tree, "branch", "-r", "--contains", "HEAD") != ""
    ended = ending.deliver(store, task.id, "The file was written once").ending
    assert ended
    kept = {c["name"]: c.get("bundle") for c in ended["content"]["reproduction"]["commits"]}
    assert kept["eng"] is not None
    assert kept["kern"] is None


def test_a_worktree_whose_git_folder_is_damaged_is_not_captured_as_the_repository_around_it(
    store: Store, root: Path, tmp_path: Path
) -> None:
    task = block(store, begun(store, repositories=["eng"]))
    folder = trees(root, task) / "eng"
    (folder / ".git").unlink()
    (folder / ".git").mkdir()
    execution = ran(store, task, tmp_path)
    facts = {r["name"]: r for r in execution.intent["repositories"]}
    assert facts["eng"]["commit"] is None
    assert "damaged" in facts["eng"]["missing"]
    blocks.close_block(store, task.id, "confirmed", "advanced")
    with pytest.raises(GateRefused, match="ran without eng"):
        ending.deliver(store, task.id, "one file with a verdict")


def test_a_checkout_that_git_tells_nothing_of_is_not_taken_for_a_clean_one(
    store: Store, root: Path, tmp_path: Path
) -> None:
    task = block(store, begun(store, repositories=["eng"]))
    folder = trees(root, task) / "eng"
    Path(git(folder, "rev-parse", "--path-format=absolute", "--git-path", "index")).write_text("damaged")
    execution = ran(store, task, tmp_path)
    facts = next(r for r in execution.intent["repositories"] if r["name"] == "eng")
    assert facts["changed"] is None
    assert [what for what, _ in told(facts)] == ["unseen"]
    blocks.close_block(store, task.id, "confirmed", "advanced")
    with pytest.raises(GateRefused, match="whether files were changed was not seen: eng"):
        ending.deliver(store, task.id, "one file with a verdict")
