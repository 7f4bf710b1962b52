"""A run ends and deletes what is proved its own, and nothing else; only its forks are pushed to."""

from __future__ import annotations

from typing import Any

RUN = "/data/runs/run-abc"


def verdict(check: Any, command: str, **more: Any) -> str:
    return str(check(command, **more).verdict)


def test_only_processes_that_the_run_started_may_be_ended(check: Any) -> None:
    assert verdict(check, "kill 4242") == "allow"
    for command in ("kill 999", "kill 4242 999", "kill -9 999", "pkill -f sglang", "killall python", "kill -- -1"):
        assert verdict(check, command) == "deny", command
    assert verdict(check, "kill 4242", owned_pids=[], owned_pgids=[]) == "deny"


def test_only_what_the_run_declared_may_be_deleted_and_never_a_shared_cache(check: Any) -> None:
    assert verdict(check, f"rm -rf {RUN}/snapshots") == "allow"
    assert verdict(check, f"rm {RUN}/server.lock") == "allow"
    for place in (
        "/data/models",
        "/data/runs/run-xyz",
        "~/.cache/huggingface",
        "/root/.cache/huggingface/hub/models--a--b",
        "/tmp/other.lock",
    ):
        assert verdict(check, f"rm -rf {place}") == "deny", place
    assert verdict(check, f"rm -rf {RUN}/snapshots", owned_paths=[]) == "deny"


def test_a_push_goes_to_the_forks_of_the_run_and_never_upstream(check: Any) -> None:
    assert verdict(check, "git push origin run-abc/fix") == "allow"
    for command in (
        "git push upstream run-abc/fix",
        "git push https://github.com/sgl-project/sglang.git run-abc/fix",
        "git push origin main",
        "git push --force origin main",
    ):
        assert verdict(check, command) != "allow", command
    assert verdict(check, "git push origin run-abc/fix", push_allowed=[]) != "allow"
