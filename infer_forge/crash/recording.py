"""The verb `run_recorded` (`crash record`): a command runs so that a crash leaves evidence, which is then triaged."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

from infer_forge.base import jsonio, ownership, process_group, redact
from infer_forge.base.errors import ForgeError, InputUnusable, MissingPart, UsageFault
from infer_forge.base.paths import paths
from infer_forge.base.records import Finding, Report
from infer_forge.crash import questions
from infer_forge.crash.model import Context

MAX_LOG = 256 << 20
_SITE = '''"""Start-up hook of `infer-forge crash record`: loads the recorder, then the site's own sitecustomize."""
import importlib.machinery, importlib.util, os, sys

_here = os.path.dirname(os.path.abspath(__file__))
_spec = importlib.util.spec_from_file_location("infer_forge_crash_recorder", os.environ["INFER_FORGE_RECORDER_FILE"])
if _spec and _spec.loader:
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["infer_forge_crash_recorder"] = _module
    try:
        _spec.loader.exec_module(_module)
        _module.install_from_environment()
    except Exception as _fault:
        sys.stderr.write(f"infer-forge recorder: not active: {_fault}\\n")
_rest = [p for p in sys.path if os.path.abspath(p or ".") != _here]
_next = importlib.machinery.PathFinder.find_spec("sitecustomize", _rest)
if _next is not None and _next.loader is not None:
    _next.loader.exec_module(importlib.util.module_from_spec(_next))
'''


class Capped:
    """A log with bounded size: the first half stays, of the rest the newest."""

    def __init__(self, path: Path, limit: int = MAX_LOG) -> None:
        """Open `path`; beyond half of `limit` lines go to two files that take turns."""
        self.path = path
        self.half = limit // 4
        self.file = open(path, "wb", buffering=0)  # noqa: SIM115 (closed in close)
        self.size = 0
        self.turns = 0

    def write(self, data: bytes) -> None:
        """Append; a full disk ends the log, not the run."""
        with contextlib.suppress(OSError, ValueError):
            if self.size + len(data) > (self.half * 2 if self.turns == 0 else self.half):
                self.file.close()
                tail = self.path.with_name(f"{self.path.stem}.tail{self.path.suffix}")
                if self.turns:
                    os.replace(tail, self.path.with_name(f"{self.path.stem}.tail0{self.path.suffix}"))
                self.file = open(tail, "wb", buffering=0)  # noqa: SIM115
                self.size, self.turns = 0, self.turns + 1
            self.file.write(data)
            self.size += len(data)

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def run_recorded(
    command: Sequence[str],
    *,
    ask: Sequence[str] = (),
    level: int | None = None,
    include: str | None = None,
    exclude: str | None = None,
    patches: Sequence[str] = (),
    out: Path | None = None,
    timeout_s: float | None = None,
    max_bytes: int = 16 << 30,
) -> Report:
    """Run a command with the variables that the question needs, record all around it, and triage what came out.

    Args:
        ask: questions (`kernel`, `call`, `launch`, `memory`, `hang`); none: `kernel`, and `call` when a level is given.
        level: of the kernel-API logs: 1, 3, 5, 10. patches: `module:function` for code without logging.
        out: folder of the evidence; a new one under the run root by default. max_bytes: for all of it.

    Returns:
        The triage's report with `run` added: folder, exit, environment, what was pruned.

    Raises:
        UsageFault, GateRefused: see `questions.check`. MissingPart: the command cannot be started.
    """
    if not command:
        raise UsageFault("no command", next_step="infer-forge crash record -- COMMAND ...")
    if level is not None and level not in questions.LEVELS:
        raise UsageFault(f"level {level} does not exist", next_step="use 1, 3, 5 or 10")
    asked = list(dict.fromkeys(ask)) or (["kernel", "call"] if level or patches else ["kernel"])
    if level and "call" not in asked and not patches:
        asked.append("call")
    warnings = questions.check(asked, command, level=level)
    folder = _folder(out)
    env = questions.environment_for(asked, folder, level=level or 1, include=include, exclude=exclude, patches=patches)
    if patches:
        env |= _site(folder)
    record = _before(folder, command, asked, level, env)
    run = _Run(command, folder, env, max_bytes, timeout_s)
    record |= run.go(record)
    record["gpus_after"] = _gpus()
    jsonio.write_atomic(folder / "record.json", jsonio.dumps(record, indent=True))
    report = _triaged(folder, asked, command, record)
    report.extra["run"] = {
        "folder": str(folder),
        **{k: record[k] for k in ("exit", "signal", "ended_by", "seconds", "questions", "level", "env", "pruned")},
    }
    report.summary.insert(0, f"evidence in {folder}; {_ended(record)}")
    report.findings += [Finding("CAUTION", w) for w in warnings]
    if record["pruned"]:
        report.findings.append(Finding("PRUNED", f"{record['pruned']} completed dumps were dropped for the size limit"))
    return report


def _folder(out: Path | None) -> Path:
    if out is None:
        stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        out = paths().runs / "crash" / f"{stamp}-{os.getpid()}"
    folder = out.resolve()
    if folder.exists() and any(folder.iterdir()):
        raise UsageFault(
            "the folder is not empty: old evidence would be taken for new",
            where=str(folder),
            next_step="name a new folder",
        )
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _site(folder: Path) -> dict[str, str]:
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(_SITE, encoding="utf-8")
    recorder = site / "infer_forge_crash_recorder.py"
    shutil.copyfile(Path(__file__).with_name("recorder.py"), recorder)
    before = os.environ.get("PYTHONPATH")
    return {
        "PYTHONPATH": f"{site}{os.pathsep}{before}" if before else str(site),
        "INFER_FORGE_RECORDER_FILE": str(recorder),
    }


def _before(
    folder: Path, command: Sequence[str], asked: list[str], level: int | None, env: dict[str, str]
) -> dict[str, Any]:
    """Command, environment digest, commits, GPU state; written before the start, so that a power cut leaves it too."""
    from infer_forge.engines import env as engine_env
    from infer_forge.engines import runner

    try:
        digest: Any = engine_env.environment(runner.place("local"), python=sys.executable).to_json()
    except ForgeError as fault:
        digest = {"unknown": fault.what}
    record: dict[str, Any] = {
        "kind": "crash-record",
        "state": "running",
        "command": [redact.redact(w) for w in command],
        "cwd": os.getcwd(),
        "host": platform.node(),
        "started": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        "questions": asked,
        "level": level,
        "env": redact.redact_environment(env),
        "environment": digest,
        "commit": _commit(),
        "gpus_before": _gpus(),
        "exit": None,
        "signal": None,
        "ended_by": None,
        "seconds": None,
        "pruned": 0,
    }
    jsonio.write_atomic(folder / "record.json", jsonio.dumps(record, indent=True))
    return record


def _commit() -> str | None:
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def _gpus() -> Any:
    from infer_forge.base.machine import snapshot

    try:
        return snapshot().to_json()
    except ForgeError as fault:
        return {"unknown": fault.what}


class _Run:
    """The child: its output copied to files, its folder kept below the limit."""

    def __init__(
        self, command: Sequence[str], folder: Path, env: dict[str, str], max_bytes: int, timeout_s: float | None
    ) -> None:
        self.command, self.folder, self.env = list(command), folder, env
        self.max_bytes, self.timeout_s = max_bytes, timeout_s
        self.pruned = 0

    def go(self, record: dict[str, Any]) -> dict[str, Any]:
        """Run to the end. Gives the fields of the record that tell it."""
        begin = time.monotonic()
        try:
            child = subprocess.Popen(
                self.command,
                env={**os.environ, **self.env},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as exc:
            raise MissingPart(f"cannot be started: {exc.strerror or exc}", where=self.command[0]) from None
        with contextlib.suppress(ForgeError, OSError):  # it may have ended already
            ownership.record_birth(child.pid, launcher="crash record", detail={"folder": str(self.folder)})
        record["pid"] = child.pid
        jsonio.write_atomic(self.folder / "record.json", jsonio.dumps(record, indent=True))
        copies = [self._copy(child.stdout, "stdout.log"), self._copy(child.stderr, "stderr.log")]
        ended_by = self._wait(child, begin)
        for thread in copies:
            thread.join(timeout=10)
        code = child.returncode
        name = (
            signal.Signals(-code).name
            if code is not None and code < 0 and -code in {s.value for s in signal.Signals}
            else None
        )
        return {
            "state": "ended",
            "exit": code,
            "signal": name,
            "ended_by": ended_by,
            "seconds": round(time.monotonic() - begin, 3),
            "pruned": self.pruned,
        }

    def _copy(self, stream: IO[bytes] | None, name: str) -> threading.Thread:
        target = Capped(self.folder / name)

        def pump() -> None:
            if stream is None:
                return
            with stream, contextlib.closing(target), contextlib.suppress(OSError, ValueError):
                while data := os.read(stream.fileno(), 65536):
                    target.write(data)
                    with contextlib.suppress(OSError, ValueError):
                        sys.stderr.buffer.write(data)
                        sys.stderr.buffer.flush()

        thread = threading.Thread(target=pump, daemon=True)
        thread.start()
        return thread

    def _wait(self, child: subprocess.Popen[bytes], begin: float) -> str | None:
        """Wait; look after the disk; end the child's own group at a time-out, a full budget or Ctrl-C."""
        pause = 0.05
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(timeout=pause)
                if child.returncode is not None:
                    return None
                pause = min(1.0, pause * 2)
                if self.timeout_s is not None and time.monotonic() - begin > self.timeout_s:
                    return self._end(child, "timeout")
                if not self._keep_below():
                    return self._end(child, "disk_limit")
        except KeyboardInterrupt:
            return self._end(child, "interrupt")

    def _end(self, child: subprocess.Popen[bytes], why: str) -> str:
        process_group.end(child, grace_s=15.0)
        return why

    def _keep_below(self) -> bool:
        """Drop the oldest dumps of completed calls while the evidence is over the limit; False when that is not enough."""
        total, dumps = _sizes(self.folder)
        for path, size in dumps:
            if total <= self.max_bytes:
                break
            shutil.rmtree(path, ignore_errors=True)
            total -= size
            self.pruned += 1
        return total <= self.max_bytes


def _sizes(folder: Path) -> tuple[int, list[tuple[Path, int]]]:
    """Bytes of the folder, and its completed dumps, oldest first."""
    total = 0
    found: list[tuple[float, Path, int]] = []
    for place, _, names in os.walk(folder):
        size = 0
        for name in names:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(place, name)).st_size
        total += size
        if "_call" in os.path.basename(place) and any(n.startswith("outputs.") for n in names):
            with contextlib.suppress(OSError):
                found.append((os.stat(place).st_mtime, Path(place), size))
    return total, [(p, s) for _, p, s in sorted(found, key=lambda f: f[0])]


def _triaged(folder: Path, asked: list[str], command: Sequence[str], record: dict[str, Any]) -> Report:
    import shlex

    from infer_forge.crash.triaging import triage

    context = Context(
        launch_blocking="launch" in asked or None,
        caching_allocator=False if "memory" in asked else None,
        command=shlex.join(command),
        host=record["host"],
    )
    try:
        return triage([folder], context=context)
    except InputUnusable as fault:
        raise InputUnusable(f"the run left nothing to read: {fault.what}", where=str(folder)) from None


def _ended(record: dict[str, Any]) -> str:
    if record["ended_by"]:
        return f"ended by the recorder: {record['ended_by']}"
    return f"ended by {record['signal']}" if record["signal"] else f"exit {record['exit']}"
