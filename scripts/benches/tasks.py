"""Tasks: reading a long history, listing many, the Stop hook's own time, what recording adds to a command."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benches import Row
from benches.places import home

DEFINITION: dict[str, Any] = {
    "type": "code",
    "title": "Write one file",
    "contract": {
        "goal": "A file with one verdict exists",
        "scope": "this folder and nothing else",
        "acceptance": [{"kind": "exit_is", "selector": {"label": "make"}, "value": 0}],
        "verification": ["run make"],
    },
    "exit_criteria": ["the file is there"],
}
EVENTS, TASKS, RUNS = 400, 100, 10


def _started(store: Any) -> str:
    from infer_forge.tasks import define

    task = define.new(store, define.definition_of(DEFINITION))
    define.lock(store, task.id)
    return define.start(store, task.id).id


def _timed(work: Callable[[], Any]) -> float:
    """The least of three, in seconds."""
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return best


def histories() -> list[Row]:
    """A task of some hundred events, and a store of a hundred tasks."""
    from infer_forge.tasks import define, events, views
    from infer_forge.tasks.state import load

    with home(INFER_FORGE_NO_FSYNC="1"):
        store = events.open_store()
        long = _started(store)
        for number in range(EVENTS):
            define.clarify(store, long, f"note {number}")
        one = _timed(lambda: load(store, long))
        for _ in range(TASKS):
            _started(store)
        many = _timed(lambda: views.list_report(store))
    return [
        Row(f"state of a task of {EVENTS} events", "under 0.2 s", round(one, 3), "s", "chain verified", one < 0.2),
        Row(f"list of {TASKS} tasks", "under 1 s", round(many, 3), "s", "each chain verified", many < 1.0),
    ]


def doors() -> list[Row]:
    """The Stop hook from start to answer, and what `task record` adds to a command that does nothing."""
    from infer_forge.tasks import binding, events, execute

    with home() as folder:
        store = events.open_store()
        task = _started(store)
        binding.bind(task, str(folder))
        payload = json.dumps({"hook_event_name": "Stop", "stop_hook_active": False, "cwd": str(folder)}).encode()
        words = [str(Path(sys.executable).parent / "infer-forge"), "task", "stop-check", "--hook"]
        hook = _timed(lambda: subprocess.run(words, input=payload, capture_output=True, check=True))
        plain = _timed(lambda: subprocess.run(["true"], check=True))
        execute.record(store, task, ["true"], label="warm", cwd=str(folder))
        begin = time.perf_counter()
        for number in range(RUNS):
            execute.record(store, task, ["true"], label=f"run-{number}", cwd=str(folder))
        added = (time.perf_counter() - begin) / RUNS - plain
    return [
        Row(
            "Stop hook, process start to answer", "under 2 s", round(hook, 3), "s", "the client gives 30 s", hook < 2.0
        ),
        Row("what a record adds to a command", "under 0.5 s", round(added, 3), "s", "the bare command", added < 0.5),
    ]


BENCHES = {"histories": histories, "doors": doors}
