"""What each constraint says, and how proofs, files on disk, repositories and grants decide."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from guard_verdicts import TABLE


@pytest.mark.parametrize(("command", "wanted"), TABLE.items())
def test_the_verdict_is(check: Any, command: str, wanted: str) -> None:
    found = check(command)
    assert found.verdict == wanted, (found.rule_id, found.why)


def test_without_a_context_kills_deletes_and_resets_are_denied_and_the_rest_passes_or_asks(tmp_path: Path) -> None:
    from infer_forge.guard import check

    for command in (
        "kill 4242",
        "kill $X",
        "rm -rf build",
        "rm -rf $X",
        "docker rm x",
        "scancel 1",
        "git reset --hard",
    ):
        assert check(command, cwd=str(tmp_path)).verdict == "deny", command
    for command in ("ls", "git status", "echo x > out.txt", "python bench.py"):
        assert check(command, cwd=str(tmp_path)).verdict == "allow", command


def test_a_kill_never_reaches_the_callers_own_parents(check: Any) -> None:
    parent = os.getppid()
    found = check(f"kill {parent}", owned_pids=[parent])
    assert (found.verdict, found.rule_id) == ("deny", "process.ancestor")
    assert check(f"kill -- -{os.getpgid(parent)}", owned_pgids=[os.getpgid(parent)]).verdict == "deny"


def test_a_pid_file_of_the_run_is_read_and_its_pids_are_judged(check: Any, tmp_path: Path) -> None:
    own = {"cwd": str(tmp_path), "owned_paths": [str(tmp_path)]}
    (tmp_path / "a.pid").write_text("4242\n")
    (tmp_path / "b.pid").write_text("999\n")
    assert check("kill $(cat a.pid)", **own).verdict == "allow"
    assert check("kill $(cat b.pid)", **own).verdict == "deny"
    assert check("kill `< a.pid`", **own).verdict == "allow"
    assert check("xargs kill < b.pid", **own).verdict == "deny"


def test_a_symlink_that_leads_out_is_not_owned(check: Any, tmp_path: Path) -> None:
    inside, outside = tmp_path / "run", tmp_path / "other"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    own = {"cwd": str(inside), "owned_paths": [str(inside)]}
    assert check("rm link", **own).verdict == "allow"
    assert check("rm -rf link/", **own).verdict == "deny"
    assert check("rm -rf link/x", **own).verdict == "deny"
    assert check("cd link && rm -rf x", **own).verdict == "deny"


def test_a_script_on_disk_is_read_with_its_arguments(check: Any, tmp_path: Path) -> None:
    own = {"cwd": str(tmp_path), "owned_paths": [str(tmp_path)]}
    (tmp_path / "good.sh").write_text("set -e\necho hi\nrm -rf build\n")
    (tmp_path / "bad.sh").write_text('#!/bin/sh\nrm -rf "$1"\n')
    (tmp_path / "bad.py").write_text("import subprocess\nsubprocess.run(['pkill', '-f', 'python'])\n")
    (tmp_path / "Makefile").write_text("X = /data/models\nclean:\n\trm -rf $(X)\nall:\n\techo ok\n")
    assert check("bash good.sh", **own).verdict == "allow"
    assert check("./good.sh", **own).verdict == "allow"
    assert check("bash bad.sh /data/models", **own).verdict == "deny"
    assert check("bash bad.sh build", **own).verdict == "allow"
    assert check("python bad.py", **own).verdict == "deny"
    assert check("make all", **own).verdict == "allow"
    assert check("make clean", **own).verdict == "deny"
    assert check("make clean X=build", **own).verdict == "allow"


@pytest.mark.parametrize("allowed", [[], ["origin"]])
@pytest.mark.parametrize(
    "line",
    ["git push --force origin main", "git push origin +main", "git push origin :main", "git push -d origin master"],
)
def test_the_trunk_is_never_rewritten_though_nobody_listed_it(check: Any, line: str, allowed: list[str]) -> None:
    assert check(line, push_allowed=allowed, protected_branches=[]).verdict == "deny"


def test_a_push_where_nothing_is_recorded_asks_and_names_the_list_of_repositories(
    tmp_path: Path,
) -> None:
    from infer_forge.guard import check

    for words in (["init", "-q", "-b", "main"], ["remote", "add", "origin", "git@git.local:me/x.git"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)
    for line in ("git push origin main", "git push -f origin fix"):
        asked = check(line, cwd=str(tmp_path))
        assert (asked.verdict, asked.rule_id) == ("ask", "push.target")
        assert "guard.yaml" in str(asked.safer)
    assert check("git push -f origin main", cwd=str(tmp_path)).verdict == "deny"


def test_a_real_repository_decides_where_a_push_goes(check: Any, tmp_path: Path) -> None:
    repo = tmp_path / "repo"

    def run(*words: str) -> None:
        subprocess.run(["git", "-C", str(repo), *words], check=True, capture_output=True)

    subprocess.run(["git", "init", "-q", "-b", "mine", str(repo)], check=True)
    run("remote", "add", "fork", "git@git.local:eng/sglang.git")
    own: dict[str, Any] = {
        "cwd": str(repo),
        "push_allowed": ["git@git.local:eng/sglang.git"],
        "remotes": {},
        "branch": None,
    }
    assert check("git push fork mine", **own).verdict == "allow"
    assert check("git push fork HEAD", **own).verdict == "allow"
    assert check("git push", **own).verdict != "allow"
    run("config", "branch.mine.remote", "fork")
    run("config", "branch.mine.merge", "refs/heads/mine")
    assert check("git push", **own).verdict == "allow"
    run("config", "remote.fork.pushurl", "git@evil:x/y.git")
    assert check("git push", **own).verdict == "deny"
    run("config", "--unset", "remote.fork.pushurl")
    run("config", "url.git@evil:.pushInsteadOf", "git@git.local:")
    assert check("git push fork mine", **own).verdict == "deny"
    run("config", "--unset", "url.git@evil:.pushInsteadOf")
    assert check("git push fork mine", **own).verdict == "allow"
    run("config", "url.ssh://evil/.insteadOf", "git@git.local:")
    assert check("git push fork mine", **own).verdict == "deny"


def test_an_alias_of_a_repository_is_opened(check: Any, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run(["git", "-C", str(tmp_path), "config", "alias.zap", "!rm -rf /data/models"], check=True)
    subprocess.run(["git", "-C", str(tmp_path), "config", "alias.st", "status"], check=True)
    assert check("git zap", cwd=str(tmp_path)).verdict == "deny"
    assert check("git st", cwd=str(tmp_path)).verdict == "allow"


def test_a_grant_lifts_one_rule_for_one_target_until_it_ends(check: Any) -> None:
    grant = {"action": "process.kill", "target": "999", "until": time.time() + 60, "by": "ann"}
    assert check("kill 999", grants=[grant]).verdict == "allow"
    assert check("kill 998", grants=[grant]).verdict == "deny"
    assert check("kill 999 998", grants=[grant]).verdict == "deny"
    assert check("kill 999", grants=[{**grant, "until": time.time() - 1}]).verdict == "deny"
    assert check("pkill x", grants=[grant]).verdict == "deny"
    assert check("kill 1", grants=[{**grant, "action": "env_isolation.*", "target": "*"}]).verdict == "deny"
    assert check("kill 998", grants=[{**grant, "action": "env_isolation.*", "target": "*"}]).verdict == "allow"


def test_the_reviewer_is_never_the_coder(check: Any) -> None:
    from infer_forge.guard import review_allowed

    assert check("codex review", coder="gpt-5.1-codex").verdict == "deny"
    assert check("codex review", coder="claude-opus-4").verdict == "allow"
    assert check("claude -p review --model claude-sonnet", coder="claude-opus-4").verdict == "deny"
    assert not review_allowed("claude-opus-4", "claude-sonnet-4")
    assert review_allowed("claude-opus-4", "gpt-5.1-codex")
    assert not review_allowed("", "gpt-5")


def test_a_verdict_says_where_why_and_what_instead(check: Any) -> None:
    text = "ls && r\\\nm -rf /data/models"
    found = check(text)
    start, end = found.span
    assert text.encode()[start:end].decode() == "r\\\nm -rf /data/models"
    assert found.argv == ["rm", "-rf", "/data/models"]
    assert found.why
    assert found.safer
    assert found.coverage == "full"
    assert check("python nosuch.py").coverage == "partial"


def test_locked_contracts_and_ledgers_are_known_by_their_content(check: Any, tmp_path: Path) -> None:
    from infer_forge.base import contracts
    from infer_forge.base.ledger import Ledger

    own = {"cwd": str(tmp_path), "owned_paths": [str(tmp_path)]}
    (tmp_path / "bench").mkdir()
    contracts.lock_once(tmp_path / "bench" / "contract.json", "benchmark", {"metric": "tput"})
    Ledger(tmp_path / "bench" / "rows.jsonl").append("row", {"x": 1})
    (tmp_path / "plain.json").write_text('{"a": 1}')
    (tmp_path / "out").mkdir()
    for acting in (
        "rm bench/contract.json",
        "echo {} > bench/contract.json",
        "sed -i s/a/b/ bench/rows.jsonl",
        "echo x >> bench/rows.jsonl",
        "mv bench/rows.jsonl /dev/null",
        "rm -rf bench",
        "rm -rf *",
        'python3 -c \'open("bench/contract.json", "w")\'',
    ):
        assert check(acting, **own).verdict == "deny", acting
    for harmless in (
        "cat bench/contract.json",
        "cp bench/rows.jsonl out/",
        "rm plain.json",
        "rm -rf out",
        "echo {} > plain.json",
    ):
        assert check(harmless, **own).verdict == "allow", harmless


def test_what_the_same_command_line_makes_may_be_removed_by_it(check: Any, tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    old.touch()
    assert check(f"cat > {new} <<'E'\nprint(1)\nE\npython {new}; rm {new}").verdict == "allow"
    assert check(f"mkdir {new} && cd {new} && ls && cd - && rm -rf {new}").verdict == "allow"
    assert check(f"echo x > {old}; rm {old}").verdict == "deny"
    assert check(f"rm {new}").verdict == "deny"
    assert check(f"ln -s /data/models {new}; rm -rf {new}/").verdict == "deny"
    assert check(f"echo x > {new}; ssh gpu08 rm {new}").verdict == "deny"
