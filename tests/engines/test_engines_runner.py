"""The runner proves what it started, in three places, and stops that and nothing else."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infer_forge.base.errors import InputUnusable, MissingPart, UsageFault
from infer_forge.engines import runner
from infer_forge.engines.runner import Place, parse_stat, place
from tests.engines.fakes.launch import BIN

PLACES = ["local", "docker:box", "ssh:gpu7", "ssh:gpu7/docker:box"]


@pytest.fixture(autouse=True)
def fake_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")


def wait_for(path: Path) -> str:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if path.exists() and path.read_text().strip():
            return path.read_text()
        time.sleep(0.01)
    raise TimeoutError(str(path))


@pytest.mark.parametrize("spec", PLACES)
def test_a_started_process_is_proved_found_alive_and_stopped(spec: str, tmp_path: Path) -> None:
    log = tmp_path / "deep" / "out.log"
    process = place(spec).start(
        ["sh", "-c", "echo $$ $GREETING; exec sleep 60"], log=str(log), env={"GREETING": "it's me"}
    )
    assert wait_for(log).strip() == f"{process.pid} it's me"
    assert process.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert process.host == os.uname().nodename
    assert process.pgid == process.pid
    assert (process.container_id is not None) == ("docker" in spec)
    assert runner.Process.of(process.to_json()) == process
    assert runner.alive(process)
    done = runner.stop(process, grace_s=5)
    assert [s.pid for s in done.before] == [process.pid]
    assert done.killed == []
    assert done.left == []
    assert not runner.alive(process)


def test_children_that_left_the_session_go_too_and_a_stranger_stays(tmp_path: Path) -> None:
    stranger = subprocess.Popen(["sleep", "60"])
    log = tmp_path / "o.log"
    script = "setsid sleep 60 & sleep 60 & echo up; wait"
    process = place("local").start(["sh", "-c", script], log=str(log))
    wait_for(log)
    end = time.monotonic() + 5
    while len(runner.family(process)) < 3 and time.monotonic() < end:
        time.sleep(0.01)
    done = runner.stop(process, grace_s=5)
    assert len(done.before) == 3
    assert done.left == []
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_a_process_that_ignores_the_asking_is_killed(tmp_path: Path) -> None:
    code = "import signal,time;signal.signal(15,signal.SIG_IGN);print('up',flush=True);time.sleep(60)"
    log = tmp_path / "o.log"
    process = place("local").start([sys.executable, "-S", "-c", code], log=str(log))
    wait_for(log)
    done = runner.stop(process, grace_s=0.2)
    assert done.killed == [process.pid]
    assert done.left == []


def test_a_pid_that_was_used_again_is_never_signalled(tmp_path: Path) -> None:
    process = place("local").start(["sleep", "60"], log=str(tmp_path / "o.log"))
    for other in (
        dataclasses.replace(process, start_ticks=process.start_ticks - 1),
        dataclasses.replace(process, boot_id="another-boot"),
    ):
        assert not runner.alive(other)
        assert runner.stop(other).before == []
    assert runner.alive(process)
    runner.stop(process)


def test_orphans_of_a_dead_leader_are_still_ours(tmp_path: Path) -> None:
    log = tmp_path / "o.log"
    process = place("local").start(["sh", "-c", "sleep 60 & echo up; exit 3"], log=str(log))
    wait_for(log)
    end = time.monotonic() + 5
    while runner.alive(process) and time.monotonic() < end:
        time.sleep(0.01)
    left = runner.family(process)
    assert [s.name for s in left] == ["sleep"]
    assert runner.stop(process, grace_s=5).left == []


@pytest.mark.parametrize("spec", PLACES)
def test_a_command_runs_with_its_words_intact(spec: str) -> None:
    words = ["a b", "$HOME", "it's", '"q"', ";", "é\n"]
    done = place(spec).run(["printf", "%s|", *words], env={"X": "1"})
    assert done.out == "".join(f"{w}|" for w in words)


def test_a_command_that_takes_too_long_is_ended() -> None:
    begin = time.monotonic()
    done = place("local").run(["sh", "-c", "sleep 60; echo never"], timeout_s=0.2)
    assert done.timed_out
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("spec", ["docker:absent", "ssh:absent"])
def test_a_place_that_is_not_there_is_told(spec: str, tmp_path: Path) -> None:
    with pytest.raises(MissingPart, match="absent|No such|resolve"):
        place(spec).start(["sleep", "1"], log=str(tmp_path / "x.log"))
    with pytest.raises(MissingPart):
        place(spec).shell("true; echo x")


def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(MissingPart, match="no-such-program"):
        place("local").start(["no-such-program"], log=str(tmp_path / "x.log"))
    with pytest.raises(MissingPart):
        place("local").run(["no-such-program"])


@pytest.mark.parametrize(
    "spec", ["", "docker:", "ssh:a/ssh:b", "docker:a/ssh:b", "pod:x", "ssh:-oProxyCommand=x", "docker:--privileged"]
)
def test_what_is_no_place_is_refused(spec: str) -> None:
    with pytest.raises(UsageFault, match="no place"):
        place(spec)


def test_a_process_name_with_brackets_and_spaces_is_read_right() -> None:
    line = "42 (a) b (c) ) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 1 1"
    stat = parse_stat(line)
    assert stat is not None
    assert (stat.pid, stat.name, stat.start_ticks, stat.session) == (42, "a) b (c) ", 777, 42)
    assert parse_stat("") is None


def test_a_record_that_is_none_is_refused() -> None:
    with pytest.raises(InputUnusable):
        runner.Process.of({"pid": 1})


def test_the_place_is_written_and_read_alike() -> None:
    for spec in PLACES:
        assert place(spec).spec == spec
    assert Place().is_local


def test_a_place_has_the_name_that_the_team_gave_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "infer-forge.yaml").write_text("hosts: {gpu07: 'ssh:me@10.0.0.7/docker:dev'}\n")
    assert (place("gpu07").host, place("gpu07").container) == ("me@10.0.0.7", "dev")
    with pytest.raises(UsageFault, match="'gpu08' is no place"):
        place("gpu08")
