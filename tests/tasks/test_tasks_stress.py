"""Recorders that are killed at random instants: what was acknowledged stands, and nothing runs twice unnoticed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from infer_forge.base.gitstore import Store
from infer_forge.tasks import events, running
from infer_forge.tasks.execute import record
from infer_forge.tasks.resuming import take_up
from infer_forge.tasks.state import load
from tests.tasks.task_samples import begun, block, until

_RECORD = """
import sys
from pathlib import Path
from infer_forge.tasks.events import open_store
from infer_forge.tasks.execute import record
task, label, script, evidence = sys.argv[1:]
print("ready", flush=True)
_, done = record(open_store(), task, ["sh", script], label=label, evidence=[("x", Path(evidence))])
print("done", done.id, done.exit_code, flush=True)
"""


def _killed(
    words: list[str], folder: Path, delay_s: float, *, group: bool, after_intent: bool, store: Store, task_id: str
) -> bytes:
    """Run a recorder, kill it after a while (and what it started, when `group`), and give what it said until then.

    The while begins when it begins, or when its intent is written (`after_intent`), where the narrow moments lie.
    """
    process = subprocess.Popen([sys.executable, "-c", _RECORD, *words], stdout=subprocess.PIPE, cwd=folder)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    if after_intent:
        until(lambda: any(e.label == words[1] for e in load(store, task_id).executions.values()))
    threading.Event().wait(delay_s)
    process.kill()
    said = process.stdout.read()
    process.wait()
    process.stdout.close()
    if group:
        for execution in load(store, task_id).open_executions:
            facts = running.start_facts(Path(execution.intent["folder"]))
            if facts:
                try:
                    os.killpg(facts["pid"], signal.SIGKILL)
                except ProcessLookupError:
                    continue
    return said


@pytest.mark.stress
@pytest.mark.timeout(1500)
def test_a_recorder_killed_at_any_instant_loses_nothing_and_runs_nothing_twice(
    tmp_path: Path, stress_count: Callable[[int], int], seeded: random.Random
) -> None:
    store = events.open_store()
    task = block(store, begun(store))
    ledger, script = tmp_path / "ran", tmp_path / "work.sh"
    script.write_text(
        f'echo "$INFER_FORGE_EXECUTION" >> {ledger}\nsleep 0.02\necho "{{\\"verdict\\": \\"ok\\"}}" > $PWD/ev.json\n'
    )
    ledger.touch()
    phases: Counter[str] = Counter()
    for number in range(stress_count(200)):
        label = f"run-{number}"
        if number % 25 == 24:
            task = block(store, begun(store))
        said = _killed(
            [task.id, label, str(script), str(tmp_path / "ev.json")],
            tmp_path,
            seeded.uniform(0.0, 0.08 if number % 2 else 0.30),
            group=seeded.random() < 0.3,
            after_intent=number % 2 == 1,
            store=store,
            task_id=task.id,
        )
        until(lambda name=task.id: all(p.state != running.RUNNING for p in take_up(store, name)[1]))
        now = load(store, task.id)
        assert not now.open_executions
        mine = [e for e in now.executions.values() if e.label == label]
        ran = ledger.read_text().split()
        for execution in mine:
            phases[execution.phase] += 1
            seen = ran.count(execution.id)
            assert seen == (0 if execution.phase == running.NEVER_STARTED else seen)
            assert seen <= 1, "a command ran twice under one record"
            if execution.phase == "result":
                assert (execution.exit_code, seen) == (0, 1)
                assert [i.kind for i in now.evidence if i.execution == execution.id] == ["x"]
        if said:
            assert said.decode().split()[:2] == ["done", mine[0].id], "what was acknowledged is in the state"
            assert mine[0].phase == "result"
        known = {e for name in events.task_ids(store) for e in load(store, name).executions}
        assert set(ran) <= known, "everything that ran has a record"
        if not mine or mine[0].phase == running.NEVER_STARTED:
            _, again = record(store, task.id, ["sh", str(script)], label=label, cwd=str(tmp_path))
            assert again.exit_code == 0
    assert sum(phases.values()) > 0
