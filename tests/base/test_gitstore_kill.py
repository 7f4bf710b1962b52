"""kill -9 of writers on one store: every acknowledged commit is there, and the repository is whole."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from infer_forge.base.gitstore import Store

REF = "refs/forge/kill"
WRITER = """
import sys
from infer_forge.base.gitstore import Changes, Store
store = Store.open(sys.argv[1])
print("ready", flush=True)
number = 0
while True:
    number += 1
    name = f"{sys.argv[2]}/{number}"
    print(store.update("refs/forge/kill", lambda _: Changes(put={name: "x" * 2000}), name), flush=True)
"""


@pytest.mark.stress
@pytest.mark.timeout(1200)
def test_what_was_acknowledged_survives_a_kill_at_any_instant(
    tmp_path: Path, stress_count: Callable[[int], int], seeded: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infer_forge.base.gitstore.refs.LOCK_STANDS_S", 0.2)
    monkeypatch.setenv("INFER_FORGE_NO_FSYNC", "1")
    place = tmp_path / "s.git"
    told: list[str] = []
    for life in range(max(10, stress_count(200))):
        pair = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(place), f"{life}-{who}"], stdout=subprocess.PIPE, text=True
            )
            for who in range(2)
        ]
        for writer in pair:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        time.sleep(seeded.uniform(0, 0.1))  # the kill's random instant is what is tested
        for writer in pair:
            os.kill(writer.pid, signal.SIGKILL)
        for writer in pair:
            assert writer.stdout is not None
            told += [text.strip() for text in writer.stdout if len(text) == 41 and text.endswith("\n")]
            writer.stdout.close()
            writer.wait()
    store = Store.open(place)
    there = {commit.id for commit in store.history(REF)}
    assert told
    assert set(told) <= there
    assert len(there) == len(store.read(REF).list())
    done = subprocess.run(
        ["git", "-C", str(place), "fsck", "--strict", "--full"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
