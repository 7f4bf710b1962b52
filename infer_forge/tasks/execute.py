"""Run a command and record it: intent before, start with proof, result with hashes after (B44).

A kill at any instant leaves an intent or a start without a result. `probe` then looks whether the process still lives;
nothing is run a second time unnoticed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from infer_forge.base import jsonio, ownership
from infer_forge.base.errors import GateRefused, HumanNeeded, InputUnusable, MissingPart, UsageFault
from infer_forge.base.gitstore import Store
from infer_forge.base.paths import paths
from infer_forge.tasks import events as history
from infer_forge.tasks.events import Event
from infer_forge.tasks.state import Execution, Task, fold, load, require_open

_TAIL_BYTES = 4000
_MOST_DATA_BYTES = 256_000


def run_folder(task_id: str, execution_id: str) -> Path:
    """Where output and artifacts of one execution lie."""
    return paths().runs / "tasks" / task_id / execution_id


def _guarded(argv: Sequence[str], cwd: str) -> dict[str, Any]:
    """The guard's verdict on a command, recorded with it.

    Raises:
        GateRefused: denied. HumanNeeded: a person must allow it.
    """
    from infer_forge.guard import check

    verdict = check(shlex.join(argv), cwd=cwd).to_json()
    if verdict["verdict"] == "deny":
        raise GateRefused(
            f"the guard denies it: {verdict.get('why')}",
            next_step=str(verdict.get("safer") or "infer-forge guard explain"),
        )
    if verdict["verdict"] == "ask":
        raise HumanNeeded(
            f"the guard asks a person: {verdict.get('why')}", next_step="infer-forge guard grant, at a terminal"
        )
    return {"verdict": verdict["verdict"], "rule_id": verdict.get("rule_id")}


def _begin(store: Store, task_id: str, label: str, argv: list[str], facts: dict[str, Any], *, again: bool) -> str:
    """Write the intent; refuse when the same label is open, or was done under the same command and `again` is not said."""
    execution_id = f"x-{secrets.token_hex(5)}"

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]]:
        task = fold(task_id, events)
        require_open(task)
        for other in task.open_executions:
            if other.label == label:
                raise GateRefused(
                    f"{label} is open as {other.id}", next_step=f"infer-forge task resume {task_id} probes it"
                )
        twin = next(
            (e for e in task.executions.values() if e.label == label and e.argv == argv and e.phase == "result"), None
        )
        if twin is not None and not again:
            raise GateRefused(
                f"{label} ran already as {twin.id} and ended with {twin.exit_code}",
                next_step="--again runs it once more",
            )
        block = task.active_block
        number = block.number if block else None
        return "intent", {"id": execution_id, "label": label, "argv": argv, "block": number, **facts}

    history.append(store, task_id, decide, op=execution_id)
    return execution_id


def record(
    store: Store,
    task_id: str,
    argv: Sequence[str],
    *,
    label: str | None = None,
    evidence: Sequence[tuple[str, Path]] = (),
    cwd: str | None = None,
    timeout_s: float | None = None,
    again: bool = False,
    repositories: dict[str, str] | None = None,
) -> tuple[Task, Execution]:
    """Run a command of this task and record it.

    Args:
        label: its name for predicates and resume; by default the program.
        evidence: (kind, file) pairs that the command writes; each becomes evidence of trust `observed` when it was
            written during the run.
        again: run a command that ran already under this label.
        repositories: commit of each repository at the time of the run.

    Raises:
        GateRefused, HumanNeeded: the guard, an open execution, or an ended task. MissingPart: no such program.
    """
    words, place = list(argv), os.path.realpath(cwd or os.getcwd())
    verdict = _guarded(words, place)
    name = label or Path(words[0]).name
    run = ownership.load().current(place)
    claims = [dict(c) for c in run.claims] if run is not None else []
    facts = {
        "cwd": place,
        "guard": verdict,
        "claims": claims,
        "repositories": repositories or {},
        "node": ownership.node_name(),
    }
    execution_id = _begin(store, task_id, name, words, facts, again=again)
    folder = run_folder(task_id, execution_id)
    folder.mkdir(parents=True, exist_ok=True)
    began = time.time()
    code, timed_out = _run(store, task_id, execution_id, words, place, folder, timeout_s)
    found = [_evidence_file(kind, path, began) for kind, path in evidence]
    result = {
        "id": execution_id,
        "exit_code": code,
        "timed_out": timed_out,
        "seconds": round(time.time() - began, 3),
        "stdout": _file_facts(folder / "stdout"),
        "stderr": _file_facts(folder / "stderr"),
        "artifacts": [{"kind": f["kind"], "path": f["path"], "sha256": f["sha256"]} for f in found],
    }
    history.append(store, task_id, lambda _: ("result", result), op=f"{execution_id}-result")
    epoch = max((int(c.get("epoch", 0)) for c in claims), default=None)
    for fact in found:
        add_evidence(store, task_id, fact, label=name, epoch=epoch)
    task = load(store, task_id)
    return task, task.executions[execution_id]


def _run(
    store: Store, task_id: str, execution_id: str, words: list[str], place: str, folder: Path, timeout_s: float | None
) -> tuple[int, bool]:
    with open(folder / "stdout", "wb") as out, open(folder / "stderr", "wb") as err:
        try:
            process = subprocess.Popen(
                words, cwd=place, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
        except OSError as exc:
            data = {
                "id": execution_id,
                "exit_code": 127,
                "phase": "resolved",
                "why": f"could not be started: {exc.strerror}",
            }
            history.append(store, task_id, lambda _: ("result", data))
            raise MissingPart(
                f"could not be started: {exc.strerror}", where=words[0], next_step="check the program's name"
            ) from None
        with contextlib.suppress(UsageFault):  # it may be over already
            ownership.record_birth(process.pid, launcher="task record", detail={"execution": execution_id})
        started = {"id": execution_id, "pid": process.pid, "start_ticks": ownership.process_start(process.pid)}
        started |= {"boot_id": ownership.boot_id(), "node": ownership.node_name()}
        history.append(store, task_id, lambda _: ("started", started), op=f"{execution_id}-started")
        try:
            return process.wait(timeout_s), False
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 15)
            try:
                return process.wait(10), True
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                return process.wait(), True


def _file_facts(path: Path) -> dict[str, Any]:
    size = path.stat().st_size
    with open(path, "rb") as file:
        file.seek(max(0, size - _TAIL_BYTES))
        tail = file.read().decode("utf-8", "replace")
    return {"path": str(path), "sha256": jsonio.sha256_file(path), "size_bytes": size, "tail": tail}


def _evidence_file(kind: str, path: Path, began: float) -> dict[str, Any]:
    """A file that a command was to write, as evidence; older than the run, it is only `recorded`."""
    if not path.is_file():
        return {"kind": kind, "path": str(path), "sha256": None, "trust": None, "data": {}}
    fresh = path.stat().st_mtime >= began - 1.0
    return evidence_of(kind, path, "observed" if fresh else "recorded")


def evidence_of(kind: str, path: Path, trust: str = "recorded") -> dict[str, Any]:
    """A file as evidence: hash, and its content when it is JSON of moderate size.

    Raises:
        InputUnusable: it is not there.
    """
    if not path.is_file():
        raise InputUnusable("no such file", where=str(path), next_step="name the file that holds the evidence")
    data: dict[str, Any] = {}
    if path.stat().st_size <= _MOST_DATA_BYTES:
        try:
            content: Any = jsonio.read_json(path)
            data = cast("dict[str, Any]", content) if isinstance(content, dict) else {"content": content}
        except InputUnusable:
            data = {}
    return {
        "kind": kind,
        "path": str(path.absolute()),
        "sha256": jsonio.sha256_file(path),
        "trust": trust,
        "data": data,
    }


def add_evidence(
    store: Store, task_id: str, fact: dict[str, Any], *, label: str = "", epoch: int | None = None
) -> Task:
    """Append one evidence item (see `evidence_of`); one without a file or data is not taken."""
    if fact["sha256"] is None:
        return load(store, task_id)
    item_id = f"e-{secrets.token_hex(5)}"

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]]:
        task = fold(task_id, events)
        require_open(task)
        block = task.active_block
        number = block.number if block else None
        return "evidence", {"id": item_id, "label": label, "block": number, "epoch": epoch, **fact}

    history.append(store, task_id, decide, op=item_id)
    return load(store, task_id)


def probe(execution: Execution) -> str:
    """What became of an open execution: `running`, `ended` (its process is gone), or `unknown` (another node, or never started)."""
    started = execution.started
    if not started:
        return "unknown"
    if started.get("node") != ownership.node_name() or started.get("boot_id") != ownership.boot_id():
        return "unknown" if started.get("node") != ownership.node_name() else "ended"
    alive = ownership.process_start(int(started["pid"])) == started.get("start_ticks")
    return "running" if alive else "ended"


def resolve(store: Store, task_id: str, execution_id: str, exit_code: int | None, why: str) -> Task:
    """Close an open execution whose process is gone: its result is what is known, never a guess.

    Raises:
        GateRefused: it runs still, or is not open.
    """

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]]:
        task = fold(task_id, events)
        execution = task.executions.get(execution_id)
        if execution is None or execution.phase not in ("intent", "started"):
            raise GateRefused(f"{execution_id} is not open", where=task_id)
        if probe(execution) == "running":
            raise GateRefused(
                f"{execution_id} still runs (pid {execution.started.get('pid')})",
                next_step="wait for it, or end it",
            )
        return "result", {"id": execution_id, "exit_code": exit_code, "phase": "resolved", "why": why}

    history.append(store, task_id, decide)
    return load(store, task_id)
