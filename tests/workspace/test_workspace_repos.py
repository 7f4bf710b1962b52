"""The workspace on real repositories of this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infer_forge import workspace as ws
from infer_forge.base.errors import ForgeError, GateRefused, InputUnusable, UsageFault
from infer_forge.workspace import gitcall, layout, states
from infer_forge.workspace.model import Workspace

_CONFIG = "[user]\n\tname = Test\n\temail = test@localhost\n[init]\n\tdefaultBranch = main\n"


@pytest.fixture(autouse=True)
def _git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git with an identity of its own and nothing of the user's settings."""
    (tmp_path / "gitconfig").write_text(_CONFIG)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)


def git(folder: Path, *words: str) -> str:
    """Run git in a folder."""
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder: Path, name: str = "f", text: str = "x") -> str:
    """One more commit in a checkout."""
    (folder / name).write_text(text)
    git(folder, "add", name)
    git(folder, "commit", "-q", "-m", f"{name}: {text}")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the link `now`, behind which every test finds its own copy of what is made here once.

    `hub` holds two bare repositories of three commits, `eng` and `kern`, and a checkout of each; `root` is a workspace
    with both. Their addresses go through the link, so that the copies need no change.
    """
    place = tmp_path_factory.mktemp("workspace-template")
    (place / "made").mkdir()
    (place / "now").symlink_to(place / "made")
    (place / "gitconfig").write_text(_CONFIG)
    hub = place / "now" / "hub"
    hub.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", str(place / "gitconfig"))
        for name in ("eng", "kern"):
            git(hub, "init", "-q", "--bare", "-b", "main", f"{name}.git")
            git(hub, "clone", "-q", str(hub / f"{name}.git"), name)
            git(hub / name, "checkout", "-q", "-B", "main")
            for n in range(3):
                commit(hub / name, text=f"{name} {n}")
            git(hub / name, "push", "-q", "origin", "main")
        made = ws.init_workspace(place / "now" / "root")
        ws.add_repo(made, (hub / "eng.git").as_uri(), "stack")
        ws.add_repo(made, (hub / "kern.git").as_uri(), "harness")
    return place


@pytest.fixture
def upstream(template: Path, tmp_path: Path) -> Path:
    """The hub folder of this test."""
    shutil.copytree(template / "made", tmp_path / "copy", symlinks=True)
    (template / "now").unlink()
    (template / "now").symlink_to(tmp_path / "copy")
    return template / "now" / "hub"


@pytest.fixture
def space(upstream: Path) -> Workspace:
    """The workspace of this test."""
    return layout.read(upstream.parent / "root")


def one(space: Workspace, name: str = "eng") -> states.RepoState:
    """The state of one repository."""
    return states.states(space, (name,))[0]


def test_repositories_are_submodules_with_roles_and_default_branches(space: Workspace) -> None:
    again = layout.read(space.root)
    assert {n: (e.role, e.branch, e.path) for n, e in again.entries.items()} == {
        "eng": ("stack", "main", "stack/eng"),
        "kern": ("harness", "main", "harness/kern"),
    }
    assert git(space.root, "config", "-f", ".gitmodules", "submodule.eng.branch") == "main"
    assert set(states.pins(space.root)) == {"stack/eng", "harness/kern"}
    assert git(space.root, "status", "--porcelain") == ""
    assert one(space).states == ["ok"]
    assert ws.init_workspace(space.root).entries.keys() == again.entries.keys()


def test_the_file_transport_is_allowed_for_the_command_only(space: Workspace) -> None:
    configs = [space.root / ".git" / "config", Path(os.environ["GIT_CONFIG_GLOBAL"])]
    assert all("protocol" not in file.read_text() for file in configs)
    url = git(space.root / "stack/eng", "remote", "get-url", "origin")
    assert gitcall.run(space.root, "ls-remote", url)[0] != 0
    assert gitcall.run(space.root, "ls-remote", url, local=True)[0] == 0
    assert [gitcall.is_local(u) for u in (url, "/x", "../x", "x.git", "https://a/x", "git@a:x", "ssh://a/x")] == [
        *[True] * 4,
        *[False] * 3,
    ]


def test_a_failed_add_leaves_nothing_and_can_be_tried_again(space: Workspace, upstream: Path) -> None:
    with pytest.raises(ForgeError):
        ws.add_repo(space, (upstream / "none.git").as_uri(), "stack", branch="main")
    assert git(space.root, "status", "--porcelain") == ""
    git(upstream, "clone", "-q", "--bare", "eng.git", "none.git")
    assert ws.add_repo(space, (upstream / "none.git").as_uri(), "stack").name == "none"
    assert set(states.pins(space.root)) == {"stack/eng", "harness/kern", "stack/none"}


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://user:secret@git.example/x", "credentials"),
        ("https://token@git.example/x", "credentials"),
        ("ext::sh -c touch% /tmp/x", "no address"),
        ("--upload-pack=touch", "no address"),
        ("nothing-known", "no address"),
        ("../x", "no address"),
    ],
)
def test_addresses_that_hold_secrets_or_commands_are_refused(space: Workspace, url: str, why: str) -> None:
    with pytest.raises(UsageFault, match=why):
        ws.add_repo(space, url, "stack")


def test_names_roles_and_places_are_held_to_the_rules(space: Workspace, upstream: Path) -> None:
    url = (upstream / "eng.git").as_uri()
    with pytest.raises(GateRefused, match="is in the workspace"):
        ws.add_repo(space, url, "stack")
    with pytest.raises(UsageFault, match="has a role"):
        ws.add_repo(space, url, name="other")
    with pytest.raises(UsageFault, match="is no name"):
        ws.add_repo(space, url, "stack", name="../out")
    (space.root / layout.DESCRIPTOR).write_text(
        "repositories: {x: {url: 'https://a.example/x', branch: main, role: stack, path: ../../x}}"
    )
    with pytest.raises(InputUnusable, match="role or path"):
        layout.read(space.root)


def test_a_workspace_is_made_only_in_a_place_of_its_own(tmp_path: Path, upstream: Path) -> None:
    with pytest.raises(UsageFault, match="inside the repository"):
        ws.init_workspace(upstream / "eng" / "inner")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    with pytest.raises(UsageFault, match="not empty"):
        ws.init_workspace(tmp_path / "full")
    with pytest.raises(InputUnusable, match="no workspace here"):
        ws.find_root(tmp_path)


def test_dirty_and_detached_are_told(space: Workspace) -> None:
    folder = space.root / "stack/eng"
    (folder / "f").write_text("changed")
    (folder / "new file").write_text("new")
    git(folder, "checkout", "-q", "--detach")
    state = one(space)
    assert (state.changed, state.untracked, state.branch) == (1, 1, None)
    assert state.states == ["dirty", "detached"]
    codes = {f.code for f in ws.status(space).findings}
    assert codes == {"DIRTY", "DETACHED"}


def test_ahead_behind_and_diverged_are_told_against_what_was_fetched(space: Workspace, upstream: Path) -> None:
    folder = space.root / "stack/eng"
    commit(upstream / "eng", "g")
    git(upstream / "eng", "push", "-q", "origin", "main")
    assert "behind" not in one(space).states
    ws.sync_repos(space)
    assert (one(space).states, one(space).behind) == (["behind"], 1)
    commit(folder, "h")
    state = one(space)
    assert (state.ahead, state.behind) == (1, 1)
    assert state.states == ["off_pin", "diverged"]
    git(folder, "reset", "-q", "--hard", "HEAD~1")
    assert ws.sync_repos(space, forward=True).tables["synced"].dicts()[0]["done"] == "moved forward by 1 commits"
    commit(folder, "i")
    assert one(space).states == ["off_pin", "ahead"]


def test_a_shallow_clone_and_an_absent_repository_are_told(space: Workspace, upstream: Path, tmp_path: Path) -> None:
    entry = ws.add_repo(space, (upstream / "kern.git").as_uri(), "stack", name="cut", depth=1)
    assert one(space, "cut").states == ["shallow"]
    git(tmp_path, "clone", "-q", str(space.root), "other")
    other = layout.read(tmp_path / "other")
    assert one(other, "eng").states == ["absent"]
    assert ws.verify(other).extra["verdict"] == "unknown"
    report = ws.sync_repos(other)
    assert (report.extra["failed"], one(other, "eng").commit) == (0, one(space, "eng").commit)
    assert ws.prove_commit(space.folder(entry), one(space, "cut").commit or "").state == "remote"


def test_a_pinned_commit_that_nobody_has_is_told(space: Workspace) -> None:
    ghost = "1234567890" * 4
    git(space.root, "update-index", "--cacheinfo", f"160000,{ghost},stack/eng")
    git(space.root, "commit", "-q", "-m", "a pin of nothing")
    assert one(space).states == ["missing_commit"]
    report = ws.verify(space)
    assert report.extra["verdict"] == "fail"
    assert "is not in" in report.tables["checks"].dicts()[0]["why"]


def test_another_address_than_the_workspaces_is_told(space: Workspace, upstream: Path) -> None:
    folder, here = space.root / "stack/eng", (upstream / "eng.git").as_uri()
    git(folder, "remote", "set-url", "origin", here.removesuffix(".git") + "/")
    assert one(space).states == ["ok"]
    git(folder, "remote", "set-url", "origin", (upstream / "kern.git").as_uri())
    assert one(space).states == ["other_address"]
    assert "the checkout asks file://" in one(space).said[0]
    git(folder, "remote", "set-url", "origin", here)
    git(space.root, "config", "-f", ".gitmodules", "submodule.eng.url", "https://git.example/eng")
    assert ".gitmodules says https://git.example/eng" in one(space).said[0]
    assert [f.code for f in ws.status(space).findings] == ["OTHER_ADDRESS"]


def test_pins_move_only_to_commits_that_the_remote_has(space: Workspace) -> None:
    folder = space.root / "stack/eng"
    made = commit(folder, "g")
    with pytest.raises(GateRefused, match="no branch or tag"):
        ws.pin(space)
    git(folder, "push", "-q", "origin", "main")
    assert ws.pin(space, ("eng",))[0].pinned == made
    (folder / "f").write_text("dirty")
    with pytest.raises(GateRefused, match="no commit that tells it"):
        ws.pin(space)
    with pytest.raises(InputUnusable, match="not in the workspace"):
        ws.pin(space, ("nothing",))


def test_a_remote_tracking_branch_is_no_proof(space: Workspace, upstream: Path) -> None:
    folder = space.root / "stack/eng"
    made = commit(folder, "g")
    git(folder, "push", "-q", "origin", "main")
    assert ws.prove_commit(folder, made).state == "remote"
    git(upstream / "eng", "push", "-q", "--force", "origin", "main")
    assert git(folder, "branch", "-r", "--contains", made)
    assert ws.prove_commit(folder, made).state == "local_only"


def test_a_commit_below_a_branch_that_was_not_fetched_is_proved_and_no_ref_moves(
    space: Workspace, upstream: Path
) -> None:
    folder = space.root / "stack/eng"
    made = commit(folder, "g")
    git(folder, "push", "-q", "origin", "HEAD:refs/heads/side")
    git(folder, "update-ref", "-d", "refs/remotes/origin/side")
    git(upstream / "eng", "fetch", "-q")
    git(upstream / "eng", "checkout", "-q", "side")
    commit(upstream / "eng", "h")
    git(upstream / "eng", "push", "-q", "origin", "side")
    before = git(folder, "for-each-ref")
    assert ws.prove_commit(folder, made).state == "remote"
    assert git(folder, "for-each-ref") == before


def test_a_silent_remote_is_unknown_and_not_missing(space: Workspace, upstream: Path) -> None:
    (upstream / "eng.git").rename(upstream / "gone.git")
    folder = space.root / "stack/eng"
    assert ws.prove_commit(folder, one(space).commit or "").state == "unreachable"
    assert ws.prove_commit(folder, "0" * 40).state == "missing"
    assert ws.verify(space).extra["verdict"] == "unknown"
    report = ws.sync_repos(space)
    assert (report.extra["failed"], report.findings[0].code) == (1, "SYNC_FAILED")
    bundle = ws.make_bundle(folder, one(space).commit or "", space.root / ".git" / "b.bundle")
    assert bundle["prerequisites"] == []
    assert ws.prove_commit(folder, bundle["commit"], bundles=(bundle,)).state == "bundle"


def test_a_task_has_worktrees_of_just_its_repositories_on_a_named_branch(space: Workspace) -> None:
    manifest = ws.task_worktrees(space, "t-1", ("eng",))
    tree = space.root / "worktrees/t-1/eng"
    assert git(tree, "branch", "--show-current") == "task/t-1"
    assert not (space.root / "worktrees/t-1/kern").exists()
    assert manifest["repositories"]["eng"]["base"] == states.pins(space.root)["stack/eng"]
    commit(tree, "g")
    assert ws.task_worktrees(space, "t-1", ("eng", "kern"))["repositories"]["eng"] == manifest["repositories"]["eng"]
    assert git(space.root, "status", "--porcelain") == ""
    assert [r["repo"] for r in ws.status(space).tables["worktrees"].dicts()] == ["t-1/eng", "t-1/kern"]
    assert one(space).branch == "main"


def test_a_tasks_manifest_names_its_environment_and_where_its_records_are(space: Workspace) -> None:
    assert ws.task_worktrees(space, "t-1", ("eng",))["environment"] is None
    said = ws.task_worktrees(space, "t-1", ("eng",), environment="docker:dev")
    assert (said["environment"], said["records"]) == ("docker:dev", "refs/tasks/t-1")
    assert ws.task_worktrees(space, "t-1", ("kern",))["environment"] == "docker:dev"
    assert "environment: docker:dev\n" in (space.root / "tasks/t-1.yaml").read_text()
    with pytest.raises(UsageFault, match="no place"):
        ws.task_worktrees(space, "t-1", ("eng",), environment="somewhere")


def test_worktrees_that_cannot_all_be_made_are_not_made_at_all(space: Workspace) -> None:
    git(space.root / "harness/kern", "checkout", "-q", "-b", "task/t-1")
    with pytest.raises(GateRefused, match="kern"):
        ws.task_worktrees(space, "t-1", ("eng", "kern"))
    assert not (space.root / "worktrees/t-1/eng").exists()
    assert git(space.root / "stack/eng", "branch", "--list", "task/*") == ""
    for bad in ("../x", "a b", "", "x.lock"):
        with pytest.raises(UsageFault):
            ws.task_worktrees(space, bad, ("eng",))
    with pytest.raises(InputUnusable, match="not in the workspace"):
        ws.task_worktrees(space, "t-2", ("none",))
    with pytest.raises(UsageFault, match="no repository is named"):
        ws.task_worktrees(space, "t-2", ())


def test_the_commits_of_a_result_are_captured_and_accepted_only_when_they_can_be_had_again(space: Workspace) -> None:
    ws.task_worktrees(space, "t-1", ("eng", "kern"))
    tree = space.root / "worktrees/t-1/eng"
    assert ws.verify(space, task="t-1").extra["verdict"] == "pass"
    made = commit(tree, "g")
    report = ws.verify(space, task="t-1")
    assert (report.extra["verdict"], report.tables["checks"].dicts()[0]["result"]) == ("fail", "fail")
    report = ws.verify(space, task="t-1", bundle=True)
    assert report.extra["verdict"] == "pass"
    file = Path(report.extra["capture"]["path"])
    record = json.loads(file.read_text())["repositories"]["eng"]
    assert (record["commit"], record["branch"], record["proof"]) == (made, "task/t-1", "bundle")
    assert record["bundle"]["prerequisites"] == [states.pins(space.root)["stack/eng"]]
    assert ws.verify(space, file).extra["verdict"] == "pass"
    bundle = Path(record["bundle"]["path"])
    bundle.write_bytes(bundle.read_bytes()[:-9] + b"x" * 9)
    assert ws.verify(space, file).extra["verdict"] == "fail"
    (tree / "f").write_text("uncommitted")
    assert "files are in no commit" in ws.verify(space, task="t-1", bundle=True).tables["checks"].dicts()[0]["why"]


def test_a_bundle_restores_the_commit_in_a_fresh_clone(space: Workspace, upstream: Path, tmp_path: Path) -> None:
    ws.task_worktrees(space, "t-1", ("eng",))
    made = commit(space.root / "worktrees/t-1/eng", "g")
    bundle = ws.make_bundle(space.root / "worktrees/t-1/eng", made, tmp_path / "x.bundle")
    git(tmp_path, "clone", "-q", str(upstream / "eng.git"), "fresh")
    assert made in git(tmp_path / "fresh", "bundle", "unbundle", bundle["path"])
    assert git(tmp_path / "fresh", "show", f"{made}:g") == "x"
    with pytest.raises(GateRefused, match="needs no bundle"):
        ws.make_bundle(space.root / "stack/eng", one(space).commit or "", tmp_path / "y.bundle")


def test_worktrees_are_closed_only_when_nothing_would_be_lost(space: Workspace) -> None:
    ws.task_worktrees(space, "t-1", ("eng",))
    tree = space.root / "worktrees/t-1/eng"
    made = commit(tree, "g")
    with pytest.raises(GateRefused, match="no branch or tag"):
        ws.close_worktrees(space, "t-1")
    (tree / "f").write_text("changed")
    with pytest.raises(GateRefused, match="changed files"):
        ws.close_worktrees(space, "t-1")
    git(tree, "checkout", "-q", "f")
    ws.verify(space, task="t-1", bundle=True)
    assert ws.close_worktrees(space, "t-1") == ["eng"]
    assert git(space.root / "stack/eng", "rev-parse", "task/t-1") == made
    with pytest.raises(InputUnusable, match="has no worktrees"):
        ws.close_worktrees(space, "t-9")


def test_a_record_that_is_none_and_ids_that_leave_the_root_are_refused(space: Workspace, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    sound = {"path": "/x", "commit": "a" * 40, "bundle": None}
    wrong = [sound | b for b in ({"commit": "--all"}, {"bundle": {"path": "x"}}, {"path": None})]
    records: list[Any] = [[], {}, {"repositories": {"x": 3}}, *({"repositories": {"x": w}} for w in wrong)]
    for bad in records:
        file.write_text(json.dumps(bad))
        with pytest.raises(InputUnusable, match="no capture"):
            ws.verify(space, file)
    file.write_text(json.dumps({"repositories": {"x": sound}}))
    assert ws.verify(space, file).extra["verdict"] == "unknown"
    for task in ("../x", "/etc/passwd", "a/b"):
        with pytest.raises(UsageFault, match="no task id"):
            ws.verify(space, task=task)
        with pytest.raises(UsageFault, match="no task id"):
            ws.close_worktrees(space, task)


def test_the_root_holds_coordination_only(space: Workspace) -> None:
    assert ws.lint_root(space) == []
    (space.root / "fix.py").write_text("x = 1\n")
    (space.root / "skills" / "s").mkdir(parents=True)
    (space.root / "skills" / "s" / "run.py").write_text("x = 1\n")
    (space.root / "trace.json").write_bytes(b"0" * 1_000_001)
    git(space.root, "init", "-q", "stray")
    found = dict(ws.lint_root(space))
    assert set(found) == {"fix.py", "trace.json", "stray/"}
    assert ws.verify(space).extra["verdict"] == "fail"


def test_the_stack_map_names_addresses_without_credentials_and_says_what_is_not_sure() -> None:
    known = ws.known_repos()
    wanted = "sglang vllm dynamo deepgemm flashmla flashinfer humming deepep mooncake"
    assert set(wanted.split()) <= set(known)
    for name, entry in known.items():
        assert name == name.lower()
        assert entry["url"].startswith("https://github.com/")
        assert entry["role"] in ("stack", "harness", "builtin")
        assert entry["verified"] is (entry["branch"] is not None)
        assert bool(entry.get("unverified")) is not entry["verified"]


def test_the_command_line_speaks_for_every_verb(upstream: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"

    def run(*words: str, code: int = 0) -> dict[str, object]:
        argv = [sys.executable, "-m", "infer_forge", "workspace", *words, "--format", "json"]
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, cwd=root if root.exists() else tmp_path
        )
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout) if done.stdout else {"error": done.stderr}

    run("init", str(root))
    run("add", (upstream / "eng.git").as_uri(), "--role", "stack")
    run("task", "t-1", "--repo", "eng")
    run("verify", "--task", "t-1")
    commit(root / "worktrees/t-1/eng", "g")
    assert run("verify", "--task", "t-1", code=4)["verdict"] == "fail"
    assert run("verify", "--task", "t-1", "--bundle")["verdict"] == "pass"
    run("task", "t-1", "--close")
    run("pin")
    (upstream / "eng.git").rename(upstream / "gone.git")
    run("sync", code=3)
    assert run("verify", code=3)["verdict"] == "unknown"
    assert "no address" in str(run("add", "unknown-name", code=2)["error"])
    assert "sglang" in json.dumps(run("known"))


def test_a_surrounding_repositorys_variables_are_not_taken_for_the_folders(
    space: Workspace, upstream: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = one(space)
    monkeypatch.setenv("GIT_DIR", str(upstream / "kern.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(upstream / "nothing"))
    assert one(space) == before


@pytest.mark.parametrize(
    "content", [b"repositories: [1", b"a list", b"\xff\xfe", b"made: 2020-99-99", b"repositories: &r [*r]"]
)
def test_a_damaged_manifest_of_one_task_is_told_and_all_else_is_shown(space: Workspace, content: bytes) -> None:
    for task in ("t-1", "t-2"):
        ws.task_worktrees(space, task, ("eng",))
    manifest = space.root / "tasks" / "t-1.yaml"
    manifest.write_bytes(content)
    report = ws.status(space)
    assert [f.code for f in report.findings] == ["MANIFEST_UNREADABLE"]
    assert [row[0] for row in report.tables["worktrees"].rows] == ["t-1/eng", "t-2/eng"]
    assert "1 need attention" in report.summary[0]
    with pytest.raises(InputUnusable) as refused:
        ws.close_worktrees(space, "t-1")
    restored = str(refused.value.next_step)
    assert report.findings[0].next_step == restored
    subprocess.run(restored.split(), check=True)
    assert ws.status(space).findings == []


def test_worktrees_that_no_manifest_names_and_names_that_the_workspace_lacks_are_told(space: Workspace) -> None:
    ws.task_worktrees(space, "t-1", ("eng", "kern"))
    manifest = space.root / "tasks" / "t-1.yaml"
    manifest.write_text("repositories: {eng: {}, ghost: {}}")
    said = [(f.code, f.message) for f in ws.status(space).findings]
    assert said == [
        ("MANIFEST_INCOMPLETE", "t-1: its manifest names ghost, which the workspace does not have"),
        ("MANIFEST_INCOMPLETE", "t-1: its manifest does not name its worktrees of kern"),
    ]
    manifest.unlink()
    report = ws.status(space)
    assert [f.code for f in report.findings] == ["MANIFEST_MISSING"]
    assert [row[0] for row in report.tables["worktrees"].rows] == ["t-1/eng", "t-1/kern"]


def _index(folder: Path) -> None:
    Path(git(folder, "rev-parse", "--path-format=absolute", "--git-path", "index")).write_text("damaged")


def _ref(folder: Path) -> None:
    Path(git(folder, "rev-parse", "--path-format=absolute", "--git-path", "refs/heads/main")).write_text("damaged")


def _object(folder: Path) -> None:
    made = commit(folder, text="lost")
    Path(git(folder, "rev-parse", "--path-format=absolute", "--git-path", f"objects/{made[:2]}/{made[2:]}")).unlink()


def _git_folder(folder: Path) -> None:
    (folder / ".git").unlink()
    (folder / ".git").mkdir()


@pytest.mark.parametrize("damage", [_index, _ref, _object, _git_folder])
def test_a_damaged_repository_is_told_as_such_and_the_others_are_shown(
    space: Workspace, damage: Callable[[Path], None]
) -> None:
    damage(space.root / "stack/eng")
    report = ws.status(space)
    assert [f.code for f in report.findings] == ["UNREADABLE"]
    rows = {row["repo"]: row for row in report.tables["repositories"].dicts()}
    assert rows["eng"]["state"] == ["unreadable"]
    assert rows["eng"]["changed"] is None
    assert rows["kern"]["state"] == ["ok"]
    with pytest.raises(GateRefused, match="eng"):
        ws.pin(space)


def test_a_worktree_that_cannot_be_read_is_unknown_not_clean_and_is_not_closed(space: Workspace) -> None:
    ws.task_worktrees(space, "t-1", ("eng",))
    _index(space.root / "worktrees/t-1/eng")
    assert ws.verify(space, task="t-1").extra["verdict"] == "unknown"
    assert ws.verify(space, space.root / "tasks/t-1.commits.json").extra["verdict"] == "unknown"
    with pytest.raises(GateRefused, match="git cannot read it"):
        ws.close_worktrees(space, "t-1")


def test_a_descriptor_whose_fields_are_no_text_is_refused_by_name(space: Workspace) -> None:
    (space.root / layout.DESCRIPTOR).write_text("repositories: {eng: {url: 3, branch: main, role: stack, path: a}}")
    with pytest.raises(InputUnusable, match="eng: address, branch, role and path are text"):
        layout.read(space.root)


def test_a_shallow_commit_of_our_own_is_told_as_it_is(space: Workspace, upstream: Path) -> None:
    entry = ws.add_repo(space, (upstream / "kern.git").as_uri(), "stack", name="cut", depth=1)
    folder = space.folder(entry)
    made = commit(folder, "g")
    record = ws.capture({"cut": folder}, bundles_to=space.root / ".git" / "b")["repositories"]["cut"]
    assert record["commit"] == made
    assert record["verdict"] in ("pass", "fail")
    assert (record["proof"] == "bundle") is (record["verdict"] == "pass")


def test_an_address_that_is_a_command_is_refused_in_the_descriptor_too(space: Workspace) -> None:
    file = space.root / layout.DESCRIPTOR
    file.write_text(file.read_text().replace("file://", "ext::sh -c touch% x #"))
    with pytest.raises(InputUnusable, match="no address"):
        layout.read(space.root)
