"""Long work runs as a subprocess with a state file, survives its starter, and is cancelled by id."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from infer_forge.base import jobs
from infer_forge.base.errors import InputUnusable
from infer_forge.base.jsonio import read_json, sha256_file


def test_a_job_gives_the_json_that_its_command_printed() -> None:
    job = jobs.wait(jobs.start(["config", "show", "--format", "json"]).id, 30)
    assert (job.state, job.exit_code) == (jobs.DONE, 0)
    assert job.result is not None
    assert read_json(job.result)["kind"] == "config"
    assert job.result_sha256 == sha256_file(job.result)


def test_a_failed_job_tells_what_the_command_said() -> None:
    job = jobs.wait(jobs.start(["job", "read", "nothing"]).id, 30)
    assert (job.state, job.exit_code) == (jobs.FAILED, 3)
    assert "no job has the id" in str(job.error)


def test_a_job_outlives_the_process_that_started_it() -> None:
    code = "from infer_forge.base import jobs; print(jobs.start(['config', 'show', '--format', 'json']).id)"
    job_id = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert jobs.wait(job_id, 30).state == jobs.DONE


def test_a_running_job_is_cancelled_with_all_that_it_started() -> None:
    job = jobs.start(["job", "wait", "x"])
    os.killpg(job.pid, signal.SIGSTOP)
    os.killpg(job.pid, signal.SIGCONT)
    ended = jobs.cancel(job.id)
    assert ended.state in (jobs.CANCELLED, jobs.FAILED)
    with pytest.raises(ProcessLookupError):
        os.killpg(job.pid, 0)


def test_a_killed_job_is_called_lost_and_not_running() -> None:
    job = jobs.start(["config", "show", "--format", "json"])
    os.killpg(job.pid, signal.SIGKILL)
    assert jobs.wait(job.id, 10).state == jobs.LOST


def test_a_reused_pid_is_not_taken_for_the_job(forge_home: Path) -> None:
    job = jobs.wait(jobs.start(["config", "show"]).id, 30)
    folder = forge_home / "state" / "jobs" / job.id
    (folder / "outcome.json").unlink()
    record = read_json(folder / "job.json") | {"pid": os.getpid(), "pid_start": 1}
    (folder / "job.json").write_bytes(__import__("orjson").dumps(record))
    assert jobs.read(job.id).state == jobs.LOST


def test_progress_of_a_job_is_read_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(jobs.PROGRESS_VARIABLE, str(tmp_path))
    jobs.progress(3, 10, "reading")
    assert read_json(tmp_path / "progress.json") == {"done": 3, "total": 10, "what": "reading"}


def test_an_unknown_id_is_refused() -> None:
    with pytest.raises(InputUnusable, match="no job"):
        jobs.read("../../etc/passwd")
