from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infer_forge.base import ownership
from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.paths import paths


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INFER_FORGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("INFER_FORGE_RUN_ID", raising=False)
    return tmp_path


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)


def test_a_recorded_birth_holds_while_the_process_lives_and_not_after() -> None:
    child = sleeper()
    try:
        entry = ownership.record_birth(child.pid, launcher="engine start", run_id="r1")
        run = ownership.load().runs["r1"]
        assert {o.kind for o in run.owned} == {"pid", "pgid"}
        assert entry.holds()
        assert all(o.holds() for o in run.owned)
    finally:
        child.kill()
        child.wait()
    assert not entry.holds()


def test_a_reused_pid_does_not_pass_as_the_old_process() -> None:
    child = sleeper()
    try:
        entry = ownership.record_birth(child.pid, launcher="t", run_id="r1")
        other = entry._replace(start_ticks=(entry.start_ticks or 0) - 1)
        assert not other.holds()
        assert not entry._replace(boot_id="another boot").holds()
        assert not entry._replace(node="another-node").holds()
    finally:
        child.kill()
        child.wait()


def test_only_a_process_that_the_launcher_started_gets_a_birth() -> None:
    with pytest.raises(UsageFault):
        ownership.record_birth(1, launcher="t")
    child = sleeper()
    child.kill()
    child.wait()
    with pytest.raises(UsageFault):
        ownership.record_birth(child.pid, launcher="t")


def test_the_run_of_a_caller_is_the_named_one_then_the_deepest_root_then_the_default(home: Path) -> None:
    ownership.begin_run("outer", home / "a")
    ownership.begin_run("inner", home / "a" / "b")
    book = ownership.load()
    assert ownership.run_id_of(book, str(home / "a" / "b" / "c"), {}) == "inner"
    assert ownership.run_id_of(book, str(home / "a" / "bb"), {}) == "outer"
    assert ownership.run_id_of(book, str(home), {}) == ownership.DEFAULT_RUN
    assert ownership.run_id_of(book, str(home), {"INFER_FORGE_RUN_ID": "x"}) == "x"


def test_a_home_or_the_root_folder_cannot_become_a_run_root() -> None:
    for root in ("/", os.path.expanduser("~"), "/tmp"):
        with pytest.raises(UsageFault):
            ownership.begin_run("r", root)


def test_disowning_a_process_takes_its_group_along() -> None:
    child = sleeper()
    try:
        ownership.record_birth(child.pid, launcher="t", run_id="r")
        assert ownership.disown("pid", str(child.pid), run_id="r") == 2
        assert ownership.load().runs["r"].owned == []
    finally:
        child.kill()
        child.wait()


def test_many_writers_at_once_lose_nothing() -> None:
    def write(number: int) -> None:
        ownership.own("job", str(number), how="test", run_id="r")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(40)))
    assert {o.target for o in ownership.load().runs["r"].owned} == {str(i) for i in range(40)}


def test_a_damaged_file_is_refused_and_left_as_it_is() -> None:
    file = paths().ownership
    file.parent.mkdir(parents=True)
    file.write_text('{"v":1,"runs":')
    with pytest.raises(InputUnusable):
        ownership.load()
    with pytest.raises(InputUnusable):
        ownership.own("job", "1", how="test")
    assert file.read_text() == '{"v":1,"runs":'


def test_a_field_of_a_newer_version_does_not_stop_the_reading() -> None:
    ownership.own("job", "1", how="test", run_id="r")
    file = paths().ownership
    data = json.loads(file.read_text())
    data["runs"]["r"]["later"] = 1
    data["runs"]["r"]["owned"][0]["later"] = 1
    file.write_text(json.dumps(data))
    assert ownership.load().runs["r"].owned[0].target == "1"


def test_an_expired_grant_is_dropped_when_another_comes() -> None:
    ownership.add_grant(ownership.Grant("process.kill", "7", until=1.0, by="ann"), run_id="r")
    ownership.add_grant(ownership.Grant("process.kill", "8", until=9e9, by="ann"), run_id="r")
    assert [g.target for g in ownership.load().runs["r"].grants] == ["8"]


def test_a_symlink_is_owned_by_what_it_points_to(home: Path) -> None:
    (home / "real").mkdir()
    (home / "link").symlink_to(home / "real")
    assert ownership.own("path", str(home / "link"), how="test").target == str(home / "real")
