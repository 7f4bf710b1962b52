"""Recorded commands: written before and after, probed when nobody saw the end, refused a second time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infer_forge.base.errors import GateRefused, HumanNeeded, MissingPart
from infer_forge.base.gitstore import Store
from infer_forge.tasks import events, running
from infer_forge.tasks.execute import probe, record, settle
from infer_forge.tasks.resuming import take_up
from infer_forge.tasks.state import load
from tests.tasks.task_samples import begun, block, maker, until


@pytest.fixture
def store() -> Store:
    return events.open_store()


def test_a_run_is_recorded_with_intent_start_and_result(store: Store, tmp_path: Path) -> None:
    task = block(store, begun(store))
    task, done = record(
        store, task.id, maker(tmp_path), label="make", evidence=[("x", tmp_path / "ev.json")], cwd=str(tmp_path)
    )
    assert (done.phase, done.exit_code) == ("result", 0)
    assert done.started["pid"] > 0
    assert done.started["environment_digest"] == done.intent["environment"]["digest"]
    assert done.intent["lock"] == task.lock_sha
    item = task.evidence[-1]
    assert (item.kind, item.trust, item.data, item.execution) == ("x", "observed", {"verdict": "ok"}, done.id)


def test_a_command_that_ran_is_refused_until_again_is_said(store: Store, tmp_path: Path) -> None:
    task = begun(store)
    record(store, task.id, ["true"], label="make")
    with pytest.raises(GateRefused, match="ran already"):
        record(store, task.id, ["true"], label="make")
    task, second = record(store, task.id, ["true"], label="make", again=True)
    assert second.intent["again"] in task.executions


def test_old_evidence_is_only_recorded_not_observed(store: Store, tmp_path: Path) -> None:
    task = begun(store)
    old = tmp_path / "old.json"
    old.write_text('{"verdict": "ok"}')
    os.utime(old, (1e9, 1e9))
    task, _ = record(store, task.id, ["true"], label="make", evidence=[("x", old)])
    assert task.evidence[-1].trust == "recorded"


def test_a_missing_program_leaves_no_record(store: Store) -> None:
    task = begun(store)
    with pytest.raises(MissingPart):
        record(store, task.id, ["no-such-program-here"])
    assert not load(store, task.id).executions


def test_what_the_guard_refuses_does_not_run_and_is_noted(store: Store) -> None:
    task = begun(store)
    with pytest.raises(GateRefused, match="guard denies"):
        record(store, task.id, ["pkill", "-f", "sglang"])
    with pytest.raises(HumanNeeded):
        record(store, task.id, ["twine", "upload", "dist/x"]) if _has("twine") else _asked(store, task.id)
    now = load(store, task.id)
    assert not now.executions
    assert now.notes_of("denied_write")[0]["rule_id"] == "process.by_name"


def _has(name: str) -> bool:
    import shutil

    return shutil.which(name) is not None


def _asked(store: Store, task_id: str) -> None:
    record(store, task_id, ["sh", "-c", "$UNKNOWN_PROGRAM x"])


@pytest.fixture
def from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time-out counts from the command's start, however long a loaded machine takes to begin it."""
    wait = running.wait

    def later(process: subprocess.Popen[bytes], timeout_s: float | None) -> str | None:
        folder = Path(str(list(process.args)[4]))  # pyright: ignore[reportArgumentType]
        until(lambda: running.start_facts(folder) is not None)
        return wait(process, timeout_s)

    monkeypatch.setattr(running, "wait", later)


@pytest.mark.usefixtures("from_the_start")
def test_a_timeout_ends_the_whole_group_and_is_told(store: Store) -> None:
    task = begun(store)
    _, done = record(store, task.id, ["sh", "-c", "sleep 60 & sleep 60"], label="slow", timeout_s=0.2)
    assert done.exit_code not in (0, None)
    assert done.result["timed_out"] is True


@pytest.mark.usefixtures("from_the_start")
def test_a_child_that_outlives_its_shell_for_a_moment_does_not_keep_a_timed_out_run_open(store: Store) -> None:
    task = begun(store)
    slow = "sh -c 'trap \"sleep 0.4; exit 0\" TERM; while :; do sleep 0.05; done' & wait"
    _, done = record(store, task.id, ["sh", "-c", slow], label="slow", timeout_s=0.3)
    assert done.phase == "result"
    assert done.result["timed_out"] is True


def test_a_recorder_that_dies_leaves_a_run_whose_end_is_found(store: Store, tmp_path: Path) -> None:
    task = begun(store)
    gate = tmp_path / "gate"
    script = tmp_path / "wait.sh"
    script.write_text(f"while [ ! -e {gate} ]; do sleep 0.01; done; exit 3\n")
    code = (
        "import sys\nfrom infer_forge.tasks.events import open_store\nfrom infer_forge.tasks.execute import record\n"
        "record(open_store(), sys.argv[1], ['sh', sys.argv[2]], label='long')"
    )
    process = subprocess.Popen([sys.executable, "-c", code, task.id, str(script)])
    until(lambda: any(e.phase == "started" for e in load(store, task.id).executions.values()))
    process.send_signal(signal.SIGKILL)
    process.wait()
    execution = load(store, task.id).open_executions[0]
    assert probe(execution) == "running"
    with pytest.raises(GateRefused, match="runs still"):
        settle(store, task.id, execution.id)
    with pytest.raises(GateRefused, match="is open as"):
        record(store, task.id, ["sh", str(script)], label="long")
    gate.touch()
    until(lambda: probe(execution) == "ended")
    task, found = take_up(store, task.id)
    assert [(p.state, p.exit_code) for p in found] == [("ended", 3)]
    assert task.executions[execution.id].exit_code == 3


def test_a_probe_takes_the_start_from_a_command_that_has_not_started(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert running.look(folder) == (running.NEVER_STARTED, None)
    process = running.launch(["touch", str(tmp_path / "ran")], str(tmp_path), folder, {})
    assert process.wait() == 125
    assert not (tmp_path / "ran").exists()
    assert running.look(folder) == (running.NEVER_STARTED, None)


def test_a_run_whose_processes_were_all_killed_is_lost_not_guessed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    process = running.launch(["sleep", "60"], str(tmp_path), folder, {})
    until(lambda: running.start_facts(folder) is not None)
    assert running.look(folder)[0] == running.RUNNING
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    until(lambda: running.look(folder) == (running.LOST, None))


def test_changed_files_of_a_repository_are_kept_as_a_patch(store: Store, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    for words in (["init", "-q"], ["config", "user.email", "a@b"], ["config", "user.name", "a"]):
        subprocess.run(["git", *words], cwd=repo, check=True)
    (repo / "f").write_text("one\n")
    subprocess.run(["git", "add", "f"], cwd=repo, check=True)
    subprocess.run(["git", "commit", "-qm", "x"], cwd=repo, check=True)
    (repo / "f").write_text("two\n")
    task = begun(store)
    _, done = record(store, task.id, ["true"], label="make", cwd=str(repo))
    facts = done.intent["repositories"][0]
    assert facts["changed"] == 1
    assert "+two" in Path(facts["patch"]["path"]).read_text()


def test_a_started_run_whose_folder_was_removed_is_lost_not_never_started(store: Store, tmp_path: Path) -> None:
    import shutil

    task = begun(store)
    data = {
        "id": "x-1",
        "label": "far",
        "argv": ["true"],
        "node": os.uname().nodename,
        "folder": str(tmp_path / "gone"),
    }
    events.append(store, task.id, lambda _: ("intent", data))
    events.append(store, task.id, lambda _: ("started", {"id": "x-1", "pid": 1}))
    shutil.rmtree(tmp_path / "gone", ignore_errors=True)
    assert probe(load(store, task.id).executions["x-1"]) == "lost"


def test_secrets_in_evidence_are_masked_and_the_record_stays_whole(store: Store, tmp_path: Path) -> None:
    task = begun(store)
    token = "hf_" + "a1B2" * 9
    script = tmp_path / "say.sh"
    script.write_text(
        f"""printf '{{"verdict": "ok", "key": "%s"}}' {token[:10]}{token[10:]} > {tmp_path}/ev.json; echo {token}\n"""
    )
    task, _ = record(store, task.id, ["sh", str(script)], label="make", evidence=[("x", tmp_path / "ev.json")])
    text = b"".join(c for _, c in store.read(events.ref_of(task.id)).items("events/"))
    assert token.encode() not in text
    assert task.evidence[-1].data["verdict"] == "ok"


@pytest.mark.parametrize("text", ["[" * 400 + "]" * 400, '{"a": 1' + "0" * 400 + "}", '{"a": NaN}', "\xff", ""])
def test_odd_evidence_never_keeps_a_run_open(store: Store, tmp_path: Path, text: str) -> None:
    task = begun(store)
    (tmp_path / "in").write_bytes(text.encode("latin-1"))
    copy = ["cp", str(tmp_path / "in"), str(tmp_path / "ev.json")]
    task, done = record(store, task.id, copy, label="make", evidence=[("x", tmp_path / "ev.json")])
    assert (done.phase, len(task.evidence)) == ("result", 1)


_DIES_AT = """
import os, sys
from pathlib import Path
from infer_forge.tasks import events, execute, running

moment, task, folder = sys.argv[1:]
launch, append = running.launch, events.append


def die():
    os.kill(os.getpid(), 9)


def launched(*words):
    if moment == "before the launch":
        die()
    process = launch(*words)
    if moment == "after the launch":
        die()
    return process


def appended(store, name, decide, *, op=None):
    kinds = {"started": "the start", "result": "the result"}
    what = kinds.get(str(op).rsplit("-", 1)[-1])
    if moment == f"before {what}":
        die()
    event = append(store, name, decide, op=op)
    if moment == f"after {what}":
        die()
    return event


running.launch, events.append = launched, appended
made = Path(folder) / "ev.json"
execute.record(events.open_store(), task, ["sh", f"{folder}/make.sh"], label="make", evidence=[("x", made)], cwd=folder)
"""


@pytest.mark.parametrize(
    "moment",
    [
        "before the launch",
        "after the launch",
        "before the start",
        "after the start",
        "before the result",
        "after the result",
    ],
)
def test_a_recorder_killed_at_each_moment_leaves_what_really_happened(
    store: Store, tmp_path: Path, moment: str
) -> None:
    task = begun(store)
    words = maker(tmp_path)
    script = tmp_path / "make.sh"
    script.write_text(f'echo "$INFER_FORGE_EXECUTION" >> {tmp_path}/ran\n' + script.read_text())
    process = subprocess.Popen([sys.executable, "-c", _DIES_AT, moment, task.id, str(tmp_path)])
    assert process.wait() == -signal.SIGKILL
    until(lambda: all(p.state != running.RUNNING for p in take_up(store, task.id)[1]))
    now = load(store, task.id)
    execution = next(iter(now.executions.values()))
    ran = (tmp_path / "ran").read_text().split() if (tmp_path / "ran").exists() else []
    if execution.phase == running.NEVER_STARTED:
        assert moment in ("before the launch", "after the launch", "before the start")
        assert (ran, now.evidence) == ([], [])
        _, again = record(store, task.id, words, label="make", cwd=str(tmp_path))
        assert again.exit_code == 0
    else:
        assert moment != "before the launch"
        assert (execution.phase, execution.exit_code, ran) == ("result", 0, [execution.id])
        assert [i.trust for i in now.evidence] == ["observed"]
        with pytest.raises(GateRefused, match="ran already"):
            record(store, task.id, words, label="make", cwd=str(tmp_path))


def test_a_clock_that_was_set_back_during_a_run_makes_no_negative_time(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = block(store, begun(store))
    began = time.time()
    monkeypatch.setattr(time, "time", lambda: began + 7200)  # the shell, which ends the run, has the clock of before
    _, done = record(store, task.id, ["true"], label="short", cwd=str(tmp_path))
    assert (done.exit_code, done.result["seconds"]) == (0, None)
