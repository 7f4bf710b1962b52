"""Long work as a subprocess of the same command line, with a state file that outlives whoever started it.

State file `<paths().jobs>/<id>/state.json`: id, argv, pid, start time of the pid (so that a reused pid is not taken for
the job), created, state, exit code, result path and sha256, error. Progress stands in `progress.json` beside it, written
by the worker itself through `progress()`. A job is cancelled by id; a finished one can be read for days.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio, ownership, process_group
from infer_forge.base.errors import InputUnusable
from infer_forge.base.paths import paths

PROGRESS_VARIABLE = "INFER_FORGE_JOB_DIR"
RUNNING, DONE, FAILED, CANCELLED, LOST = "running", "done", "failed", "cancelled", "lost"
_POLL_S = 0.05


@dataclass
class Job:
    """One job as its state file tells it.

    Attributes:
        state: `running`, `done`, `failed`, `cancelled`, or `lost` (the process is gone and left no exit code).
        result: file with the JSON that the command printed; set when done.
        error: what the command said on stderr when it failed.
        progress: `{"done", "total", "what"}` or None.
    """

    id: str
    argv: list[str]
    pid: int
    pid_start: int | None
    created: float
    state: str = RUNNING
    exit_code: int | None = None
    finished: float | None = None
    result: str | None = None
    result_sha256: str | None = None
    error: str | None = None
    progress: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


def start(argv: list[str]) -> Job:
    """Run `infer-forge ARGV` in the background, its standard output kept as the result.

    A small supervising process waits for the command and writes the outcome, so that the job survives its starter.
    """
    _sweep()
    job_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
    folder = paths().jobs / job_id
    folder.mkdir(parents=True)
    worker = subprocess.Popen(
        [sys.executable, "-m", "infer_forge.base.jobs", str(folder), *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    job = Job(job_id, argv, worker.pid, ownership.live_start(worker.pid), time.time())
    jsonio.write_atomic(folder / "job.json", jsonio.dumps(job))
    _children[job_id] = worker
    return job


_children: dict[str, subprocess.Popen[bytes]] = {}


def read(job_id: str) -> Job:
    """State of a job now.

    Raises:
        InputUnusable: no job has this id.
    """
    folder = paths().jobs / Path(job_id).name
    if not (folder / "job.json").is_file():
        raise InputUnusable(f"no job has the id {job_id!r}", next_step="start the work again")
    job = Job(**jsonio.read_json(folder / "job.json"))
    if (folder / "progress.json").is_file():
        job.progress = jsonio.read_json(folder / "progress.json")
    child = _children.get(job_id)
    if child is not None:
        child.poll()
    if (folder / "outcome.json").is_file():
        return _with_outcome(job, folder)
    if not _alive(job):
        # the outcome may have been written between the two looks
        return _with_outcome(job, folder) if (folder / "outcome.json").is_file() else _lost(job)
    return job


def _with_outcome(job: Job, folder: Path) -> Job:
    for key, value in jsonio.read_json(folder / "outcome.json").items():
        setattr(job, key, value)
    return job


def _lost(job: Job) -> Job:
    job.state, job.error = LOST, "the process ended without writing an outcome (killed, or the machine restarted)"
    return job


def wait(job_id: str, seconds: float) -> Job:
    """Wait up to `seconds` for a job to end, and give its state then."""
    deadline = time.monotonic() + seconds
    while True:
        job = read(job_id)
        if job.state != RUNNING or time.monotonic() >= deadline:
            return job
        time.sleep(_POLL_S)


def cancel(job_id: str) -> Job:
    """End a running job and all that it started; a finished job stays as it is."""
    job = read(job_id)
    if job.state != RUNNING:
        return job
    folder = paths().jobs / job.id
    jsonio.write_atomic(folder / "outcome.json", jsonio.dumps({"state": CANCELLED, "finished": time.time()}))
    with contextlib.suppress(ProcessLookupError):
        os.killpg(job.pid, signal.SIGTERM)
    deadline = time.monotonic() + 3
    while process_group.alive(job.pid, job.pid_start) and time.monotonic() < deadline:
        read(job_id)
        time.sleep(_POLL_S)
    if process_group.alive(job.pid, job.pid_start):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
    return read(job_id)


def progress(done: float, total: float | None, what: str) -> None:
    """Tell how far long work is: to the job's file when this process is a job, else as a line on stderr of a terminal."""
    folder = os.environ.get(PROGRESS_VARIABLE)
    if folder:
        jsonio.write_atomic(Path(folder) / "progress.json", jsonio.dumps({"done": done, "total": total, "what": what}))
    elif sys.stderr.isatty():
        share = f" {100 * done / total:3.0f} %" if total else ""
        sys.stderr.write(f"\r\x1b[K{what}{share}")
        if total and done >= total:
            sys.stderr.write("\n")
        sys.stderr.flush()


def _alive(job: Job) -> bool:
    if job.pid_start is None:
        try:
            os.kill(job.pid, 0)
        except OSError:
            return False
        return True
    return ownership.live_start(job.pid) == job.pid_start


def _sweep() -> None:
    """Remove the folders of jobs that ended long ago."""
    from infer_forge.base.config import settings

    keep_s = settings().get("jobs.keep_days") * 86_400
    root = paths().jobs
    for folder in root.iterdir() if root.is_dir() else ():
        outcome = folder / "outcome.json"
        if outcome.is_file() and time.time() - outcome.stat().st_mtime > keep_s:
            shutil.rmtree(folder, ignore_errors=True)


def _supervise(folder: Path, argv: list[str]) -> None:
    """Run the command in this process group, and write its outcome."""
    result = folder / "result.json"
    environment = os.environ | {PROGRESS_VARIABLE: str(folder)}
    with open(result, "wb") as out, open(folder / "stderr.txt", "wb") as err:
        code = subprocess.run(
            [sys.executable, "-m", "infer_forge", *argv],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environment,
        ).returncode
    done = code == 0
    outcome: dict[str, Any] = {"state": DONE if done else FAILED, "exit_code": code, "finished": time.time()}
    if result.stat().st_size:
        outcome |= {"result": str(result), "result_sha256": jsonio.sha256_file(result)}
    if not done:
        outcome["error"] = (folder / "stderr.txt").read_text(errors="replace").strip()[-2000:] or f"exit code {code}"
    if not (folder / "outcome.json").exists():
        jsonio.write_atomic(folder / "outcome.json", jsonio.dumps(outcome))


if __name__ == "__main__":
    _supervise(Path(sys.argv[1]), sys.argv[2:])
