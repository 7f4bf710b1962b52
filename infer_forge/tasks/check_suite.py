"""The check suite of the capability baseline: named in the manifest, and run as named before a capability task ends (B67).

A label proves nothing: what counts is an execution of exactly these command lines, with the programs whose hash the manifest
has, after the runtime last changed, on the baseline that is delivered, ended with 0, and with its output still there.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.config import settings
from infer_forge.base.errors import ForgeError, InputUnusable
from infer_forge.base.gitstore import Store
from infer_forge.base.resources import data_root, load_yaml
from infer_forge.tasks import runtime
from infer_forge.tasks.state import Execution, Task

LABEL = "check-suite"
_ORIGIN = "runtime of "
_MOST_PROGRAM_BYTES = 64 << 20


def root() -> Path:
    """Where programs of the suite that are named with a slash lie: beside the settings file that names it, else the checkout."""
    found = settings()
    return Path(found.origin["check_suite"]).parent if found.get("check_suite") else data_root()


def suite() -> dict[str, Any]:
    """The suite for the manifest: `commands`, `programs` (line -> sha256 of its own program, null where it has none), `sha256`.

    Raises:
        InputUnusable: a line cannot be read as a command.
    """
    lines: list[str] = settings().get("check_suite") or load_yaml("references/check_suite.yaml")["commands"]
    programs = {line: _own_program(line) for line in lines}
    return {"commands": lines, "programs": programs, "sha256": jsonio.sha256_of([lines, programs])}


def _own_program(line: str) -> str | None:
    words = words_of(line)
    own = root() / words[0]
    return jsonio.sha256_file(own) if "/" in words[0] and own.is_file() else None


def words_of(line: str) -> list[str]:
    """A command line of the suite as words.

    Raises:
        InputUnusable: it is none.
    """
    try:
        words = shlex.split(line)
    except ValueError:
        words = []
    if not words:
        raise InputUnusable(f"{line!r} is no command line", where="check_suite", next_step="mend this setting")
    return words


def program_of(path: str | None) -> dict[str, Any] | None:
    """The program that an execution runs: path, hash (null where it is too large), whether it lies where the suite's do.

    A copy in another checkout would look at other files. None where there is no such program.
    """
    if path is None or not Path(path).is_file():
        return None
    real = Path(path).resolve()
    small = real.stat().st_size <= _MOST_PROGRAM_BYTES
    beside = real.is_relative_to(root().resolve())
    return {"path": str(real), "sha256": jsonio.sha256_file(real) if small else None, "in_suite_root": beside}


def how_to_run(task_id: str, line: str) -> str:
    """The command that runs one line of the suite for a task."""
    place = f" --cwd {shlex.quote(str(root()))}" if "/" in words_of(line)[0] else ""
    return f"infer-forge task record {task_id} --label {LABEL}{place} -- {line}"


def faults(
    store: Store,
    task: Task,
    locked: Mapping[str, Any],
    now: Mapping[str, Any],
    *,
    accepted: bool = False,
    look: bool = True,
) -> list[str]:
    """What is missing before the check suite counts as run for a task's end; empty when it does.

    Args:
        locked: the manifest of the lock. now: the one in force now.
        accepted: a person lets it count though the suite itself changed, or the runtime cannot be seen.
        look: look at the runtime once more, and keep what is seen; a view that writes nothing leaves it out.
    """
    named: dict[str, Any] | None = now.get("check_suite")
    if not named:
        return ["the capability baseline names no check suite"]
    found: list[str] = []
    if not accepted:
        before: dict[str, Any] = locked.get("check_suite") or {}
        if before.get("sha256") != named["sha256"]:
            found.append("the check suite itself changed since the lock: a person accepts that (--accept-baseline)")
        found += _runtime_unseen(store) if look else []
    for line in named["commands"]:
        why = _fault(store, task, line, named["programs"].get(line), str(now["files_sha256"]))
        if why:
            found.append(f"check suite, {line}: {why}; run {how_to_run(task.id, line)}")
    return found


def _runtime_unseen(store: Store) -> list[str]:
    """Look at the runtime once more; what cannot be seen is not unchanged."""
    try:
        seen = runtime.notice(store, quick=True)
    except ForgeError as exc:
        return [f"whether the runtime changed is unknown: {exc.what}"]
    if not seen.unseen:
        return []
    names = ", ".join(f"{fact} of {subject}" for subject, fact, _ in seen.unseen[:3])
    return [f"whether the runtime changed is unknown: {names} cannot be seen now (a person may accept it)"]


def _fault(store: Store, task: Task, line: str, program: str | None, files: str) -> str | None:
    """Why the newest run of one command of the suite does not count; None when it does."""
    words = words_of(line)
    if "/" in words[0] and program is None:
        return f"{words[0]} is not in {root()}: work from a checkout, or set check_suite"
    runs = [e for e in task.executions.values() if e.argv == words and e.phase == "result"]
    if not runs:
        labelled = [e.id for e in task.executions.values() if e.label == LABEL]
        other = f" ({', '.join(labelled[:3])} ran another command under its label)" if labelled else ""
        return f"no finished execution of exactly this command{other}"
    run = runs[-1]
    ran: Mapping[str, Any] = run.intent.get("program") or {}
    if program is not None and (ran.get("sha256") != program or not ran.get("in_suite_root")):
        return f"{run.id} ran another {words[0]} than the one of the baseline"
    if run.exit_code != 0:
        return f"{run.id} ended with {run.exit_code}"
    if run.intent.get("baseline_files") != files:
        return f"{run.id} ran on other skills, references or playbooks than those that are delivered"
    return _too_early(store, task, run) or _outputs(run)


def _too_early(store: Store, task: Task, run: Execution) -> str | None:
    """Whether a run began before the runtime that it vouches for, or on another node than the change was seen on."""
    node = str(run.intent.get("node"))
    wanted = {c.origin.removeprefix(_ORIGIN) for c in task.typed.context if c.origin.startswith(_ORIGIN)}
    if wanted and node not in wanted:
        return f"{run.id} ran on {node}, and the runtime changed on {', '.join(sorted(wanted))}"
    last = runtime.last_change(store, node)
    if last is not None and str(run.intent["at"]) <= last[0]:
        return f"{run.id} began before the runtime changed ({last[1]}, seen {last[0]})"
    return None


def _outputs(run: Execution) -> str | None:
    """Whether the run left output or evidence files, and they are still what was recorded."""
    kept = [f for f in (run.result.get("stdout"), run.result.get("stderr")) if f and f["size_bytes"]]
    kept += run.result.get("artifacts") or []
    if not kept:
        return f"{run.id} left neither output nor evidence: a command of the suite prints what it looked at, or keeps a file"
    lost = [f["path"] for f in kept if not Path(f["path"]).is_file() or jsonio.sha256_file(f["path"]) != f["sha256"]]
    return f"{', '.join(lost[:3])} of {run.id} is gone or was changed" if lost else None
