"""Run a command and record it: intent before, start with proof, result with hashes after (B44).

A kill at any instant leaves an intent or a start without a result. `probe` then looks what became of it (see `running`);
nothing is run a second time unnoticed, and what ended unseen is read from the run folder, never guessed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio, ownership
from infer_forge.base.errors import ForgeError, GateRefused, HumanNeeded, MissingPart, UsageFault
from infer_forge.base.gitstore import Store
from infer_forge.base.paths import paths
from infer_forge.tasks import baseline, check_suite, repositories, running, surroundings
from infer_forge.tasks import events as history
from infer_forge.tasks.events import Event
from infer_forge.tasks.evidence import add_evidence, evidence_of, expected, sort_out
from infer_forge.tasks.state import ACTIVE, Execution, Task, fold, load, require_open

__all__ = ["add_evidence", "evidence_of", "probe", "record", "resolve", "run_folder", "settle"]

_TAIL_BYTES = 4000


def run_folder(task_id: str, execution_id: str) -> Path:
    """Where output and artifacts of one execution lie."""
    return paths().runs / "tasks" / task_id / execution_id


def _guarded(store: Store, task_id: str, argv: Sequence[str], cwd: str) -> dict[str, Any]:
    """The guard's verdict on a command, recorded with it; what it refuses is noted on the task.

    Raises:
        GateRefused: denied. HumanNeeded: a person must allow it.
    """
    command = shlex.join(argv)
    verdict = judged(command, f"task-{task_id}-{time.time_ns()}", cwd)
    if verdict["verdict"] == "allow":
        return {"verdict": "allow", "rule_id": verdict.get("rule_id")}
    rule, why = str(verdict.get("rule_id")), str(verdict.get("why"))
    denied = verdict["verdict"] == "deny"
    topic = "denied_write" if denied else "grant_needed"
    note(store, task_id, topic, {"command": command, "cwd": cwd, "rule_id": rule, "why": why})
    if denied:
        raise GateRefused(
            f"the guard denies it: {why} [{rule}]",
            next_step=str(verdict.get("safer") or f"infer-forge guard explain {rule}"),
        )
    raise HumanNeeded(
        f"the guard asks a person: {why} [{rule}]",
        next_step=f"a person runs at a terminal: infer-forge guard grant --action {rule} --for 30m",
    )


def judged(command: str, ident: str, cwd: str) -> dict[str, Any]:
    """The guard's verdict on what is run now; a claim that was not confirmed lately is confirmed first, which a hook cannot."""
    from infer_forge.guard import check_to_run
    from infer_forge.nodes import verbs

    verdict = check_to_run(command, ident, cwd=cwd)
    if verdict.rule_id == "claim.stale":
        with contextlib.suppress(ForgeError):  # a hub that does not answer confirms nothing, and the question stays
            verbs.confirm_claims()
        verdict = check_to_run(command, ident, cwd=cwd)
    return verdict.to_json()


def note(store: Store, task_id: str, topic: str, data: Mapping[str, Any]) -> None:
    """Append a note of a topic to an open task; one that stands there already is not repeated."""
    body = {"topic": topic, **data}

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]] | None:
        task = fold(task_id, events)
        require_open(task, locked=False)
        if any(all(n.get(k) == v for k, v in body.items()) for n in task.notes):
            return None
        return "noted", body

    history.append(store, task_id, decide)


def _begin(store: Store, task_id: str, facts: dict[str, Any], *, again: bool) -> None:
    """Write the intent; refuse when the same label is open, or the same command ran under it and `again` is not said."""
    label, argv = facts["label"], facts["argv"]

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]]:
        task = fold(task_id, events)
        require_open(task)
        if task.status != ACTIVE:
            raise GateRefused(
                f"the task is {task.status}{f': {task.reason}' if task.reason else ''}",
                where=task_id,
                next_step=f"infer-forge task {'start' if task.status == 'defined' else 'resume'} {task_id}",
            )
        for other in task.open_executions:
            if other.label == label:
                raise GateRefused(
                    f"{label} is open as {other.id}", next_step=f"infer-forge task resume {task_id} probes it"
                )
        ran = [e for e in task.executions.values() if e.phase in ("result", "resolved")]
        twin = next((e for e in reversed(ran) if e.label == label and e.argv == argv), None)
        if twin is not None and not again:
            ended = "nobody saw how it ended" if twin.exit_code is None else f"it ended with {twin.exit_code}"
            raise GateRefused(f"{label} ran already as {twin.id}: {ended}", next_step="--again runs it once more")
        block = task.active_block
        more = {"block": block.number if block else None, "lock": task.lock_sha}
        return "intent", {**facts, **more, "again": twin.id if twin else None}

    history.append(store, task_id, decide, op=facts["id"])


def _program(argv: Sequence[str], cwd: str) -> str:
    """Where the program lies; one that is not there is refused before anything is recorded."""
    if not argv:
        raise UsageFault("no command is given", next_step="infer-forge task record TASK --label NAME -- COMMAND ARGS")
    word = argv[0]
    found = shutil.which(os.path.join(cwd, word) if os.sep in word else word)
    if not found:
        raise MissingPart(
            "no such program, or it cannot be run", where=word, next_step="check its name and that it is executable"
        )
    return found


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
    further: Mapping[str, str] | None = None,
) -> tuple[Task, Execution]:
    """Run a command of this task and record it.

    Args:
        label: its name for predicates and resume; by default the program.
        evidence: (kind, file) pairs that the command writes; each becomes evidence of trust `observed` when it was
            written during the run.
        again: run a command that ran already under this label.
        further: name -> folder (or commit) of further repositories; the working folder's and the task's worktrees of its
            workspace are found by themselves.

    Raises:
        GateRefused, HumanNeeded: the guard, an open execution, or an ended task. MissingPart: no such program.
    """
    words, place = [str(w) for w in argv], os.path.realpath(cwd or os.getcwd())
    program = _program(words, place)
    task_type = load(store, task_id).typed.type
    execution_id = f"x-{secrets.token_hex(5)}"
    folder = run_folder(task_id, execution_id)
    run = ownership.load().current(place)
    claims = [dict(c) for c in run.claims] if run is not None else []
    facts: dict[str, Any] = {
        "id": execution_id,
        "label": label or Path(words[0]).name,
        "argv": words,
        "program": check_suite.program_of(program),
        "cwd": place,
        "guard": _guarded(store, task_id, words, place),
        "claims": claims,
        "epoch": max((int(c.get("epoch") or 0) for c in claims), default=None),
        "node": ownership.node_name(),
        "folder": str(folder),
        "environment": surroundings.environment(),
        "repositories": repositories.standing_on(task_id, place, folder, further),
        "evidence": [[kind, os.path.join(place, path)] for kind, path in evidence],
        "timeout_s": timeout_s,
        "began": time.time(),
    }
    if task_type == "capability":
        facts["baseline_files"] = jsonio.sha256_of(baseline.in_force())
    _begin(store, task_id, facts, again=again)
    why = _run(store, task_id, facts, folder)
    task = settle(store, task_id, execution_id, ended_by=why)
    if why == "interrupt":
        raise KeyboardInterrupt
    return task, task.executions[execution_id]


def _run(store: Store, task_id: str, facts: dict[str, Any], folder: Path) -> str | None:
    """Start the command, record the start, wait; why it was ended, if it was."""
    execution_id: str = facts["id"]
    folder.mkdir(parents=True, exist_ok=True)
    environ = {"INFER_FORGE_TASK": task_id, "INFER_FORGE_EXECUTION": execution_id}
    process = running.launch(facts["argv"], facts["cwd"], folder, environ)
    with contextlib.suppress(UsageFault):  # it may be over already
        ownership.record_birth(process.pid, launcher="task record", detail={"execution": execution_id})
    started = {
        "id": execution_id,
        "pid": process.pid,
        "start_ticks": ownership.process_start(process.pid),
        "boot_id": ownership.boot_id(),
        "node": ownership.node_name(),
        "epoch": facts["epoch"],
        "cwd": facts["cwd"],
        "environment_digest": facts["environment"]["digest"],
        "commits": {r["name"]: r["commit"] for r in facts["repositories"]},
    }
    try:
        history.append(store, task_id, lambda _: ("started", started), op=f"{execution_id}-started")
    except ForgeError:
        running.wait(process, None)  # the command is under way: its end lies in the run folder, for resume
        raise
    return running.wait(process, facts["timeout_s"])


def probe(execution: Execution) -> str:
    """What became of an open execution, looked at now.

    `running`; `ended` (its exit code lies in the run folder); `lost` (its process is gone, and no exit code is there);
    `never_started` (and now it never will); `unknown` (it was started on another node).
    """
    return _looked(execution)[0]


def _looked(execution: Execution) -> tuple[str, int | None]:
    if execution.intent.get("node") != ownership.node_name() or not execution.intent.get("folder"):
        return running.UNKNOWN, None
    folder = Path(execution.intent["folder"])
    if execution.started and running.start_facts(folder) is None:
        return running.LOST, None  # it was started, and its run folder was removed
    try:
        return running.look(folder)
    except OSError:
        return running.UNKNOWN, None  # the run folder cannot be written here: another container, another user


def settle(store: Store, task_id: str, execution_id: str, *, ended_by: str | None = None) -> Task:
    """Record how an execution of this node ended, from its run folder, with the evidence that it wrote.

    Raises:
        GateRefused: it is not open, runs still, or was started on another node.
    """
    execution = load(store, task_id).executions.get(execution_id)
    if execution is None or execution.phase not in ("intent", "started"):
        raise GateRefused(f"{execution_id} is not open", where=task_id)
    state, code = _looked(execution)
    if ended_by is not None and state == running.LOST:
        code, state = (124 if ended_by == "timeout" else 130), running.ENDED
    if state in (running.RUNNING, running.UNKNOWN):
        raise GateRefused(
            f"{execution_id} runs still" if state == running.RUNNING else f"{execution_id} was started on another node",
            where=task_id,
            next_step="wait for it, or end it" if state == running.RUNNING else f"infer-forge task resume {task_id}",
        )
    phase = {running.ENDED: "result", running.LOST: "resolved"}.get(state, running.NEVER_STARTED)
    result = _result(execution, phase, code, ended_by)

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]] | None:
        task = fold(task_id, events)
        require_open(task)
        if task.executions[execution_id].phase not in ("intent", "started"):
            return None  # another probe was quicker
        return "result", sort_out(task, result)

    history.append(store, task_id, decide, op=f"{execution_id}-result")
    return load(store, task_id)


def _result(execution: Execution, phase: str, code: int | None, ended_by: str | None) -> dict[str, Any]:
    """What the result event says, evidence included: one event, so that none of it can be lost alone."""
    folder, intent = Path(execution.intent["folder"]), execution.intent
    found = expected(execution) if phase != running.NEVER_STARTED else []
    why = {
        "resolved": "its process is gone, and nobody saw how it ended",
        running.NEVER_STARTED: "it was recorded, never started, and never will be",
    }.get(phase)
    result: dict[str, Any] = {
        "id": execution.id,
        "phase": phase,
        "exit_code": code,
        "why": why,
        "timed_out": ended_by == "timeout",
        "ended_by": ended_by,
        "seconds": _seconds(folder, float(intent.get("began") or 0)),
        "evidence": found,
        "artifacts": [{"kind": f["kind"], "path": f["path"], "sha256": f["sha256"]} for f in found],
        "absent": [p for _, p in intent.get("evidence", []) if not Path(p).is_file()],
    }
    for name in ("stdout", "stderr"):
        result[name] = _file_facts(folder / name)
    return result


def _seconds(folder: Path, began: float) -> float | None:
    """Time from the intent to the exit file; None when that file is absent, or the clock was set back meanwhile."""
    try:
        passed = round((folder / "exit").stat().st_mtime - began, 3)
    except OSError:
        return None
    return passed if passed >= 0 else None


def _file_facts(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    size = path.stat().st_size
    with open(path, "rb") as file:
        file.seek(max(0, size - _TAIL_BYTES))
        tail = file.read().decode("utf-8", "replace")
    return {"path": str(path), "sha256": jsonio.sha256_file(path), "size_bytes": size, "tail": tail}


def resolve(store: Store, task_id: str, execution_id: str, exit_code: int | None, why: str) -> Task:
    """Close an open execution whose process is gone, by what is known of it from outside; the reason is kept.

    Raises:
        GateRefused: it runs still, or is not open.
    """

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]]:
        task = fold(task_id, events)
        execution = task.executions.get(execution_id)
        if execution is None or execution.phase not in ("intent", "started"):
            raise GateRefused(f"{execution_id} is not open", where=task_id)
        if probe(execution) == running.RUNNING:
            raise GateRefused(
                f"{execution_id} still runs (pid {execution.started.get('pid')})",
                next_step="wait for it, or end it",
            )
        return "result", {"id": execution_id, "exit_code": exit_code, "phase": "resolved", "why": why}

    history.append(store, task_id, decide)
    return load(store, task_id)
