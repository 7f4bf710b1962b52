"""A process group is ended when its last member is, not when its leader is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from infer_forge.base import ownership, process_group

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc"), reason="there is no /proc: groups cannot be looked at")


def _begun(script: str, ready: Path) -> subprocess.Popen[bytes]:
    """A shell that leads a session of its own, once its child wrote its pid into `ready`."""
    child = subprocess.Popen(["sh", "-c", script, "sh", str(ready)], start_new_session=True, stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child.stdout:
        assert child.stdout.readline() == b"ready\n"
    return child


SLOW_TO_END = """sh -c 'trap "sleep 0.4; exit 0" TERM; echo $$ > "$1"; echo ready; while :; do sleep 0.05; done' sh "$1" &
wait"""
IGNORES = SLOW_TO_END.replace("sleep 0.4; exit 0", "")


def test_a_member_that_needs_a_while_to_end_is_waited_for_when_its_leader_is_gone(tmp_path: Path) -> None:
    child = _begun(SLOW_TO_END, tmp_path / "pid")
    born = ownership.process_start(child.pid)
    member = int((tmp_path / "pid").read_text())
    assert process_group.end(child, grace_s=20) == -15
    assert ownership.live_start(member) is None
    assert not process_group.alive(child.pid, born)


def test_a_member_that_ignores_the_request_is_killed_after_the_grace(tmp_path: Path) -> None:
    child = _begun(IGNORES, tmp_path / "pid")
    member = int((tmp_path / "pid").read_text())
    assert process_group.alive(child.pid, ownership.process_start(child.pid))
    assert process_group.end(child, grace_s=0.2) == -15
    assert ownership.live_start(member) is None


def test_members_are_ended_though_their_leader_was_waited_for_before(tmp_path: Path) -> None:
    child = _begun(SLOW_TO_END.replace("\nwait", ""), tmp_path / "pid")
    assert child.wait() == 0
    member = int((tmp_path / "pid").read_text())
    assert ownership.live_start(member) is not None
    assert process_group.end(child, grace_s=20) == 0
    assert ownership.live_start(member) is None


def test_where_there_is_no_proc_a_group_is_asked_by_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = _begun(IGNORES, tmp_path / "pid")
    monkeypatch.setattr(process_group, "_PROC", str(tmp_path / "none"))
    assert process_group.alive(child.pid, 0)  # 0 is no start of any process: only the group can answer
    assert (
        process_group.end(child, grace_s=0.2, kill_s=0.2) == -15
    )  # an init that reaps nobody leaves a zombie that answers


def test_a_group_that_ended_by_itself_is_left_alone(tmp_path: Path) -> None:
    child = subprocess.Popen(["true"], start_new_session=True)
    child.wait()
    assert process_group.end(child, grace_s=5) == 0
