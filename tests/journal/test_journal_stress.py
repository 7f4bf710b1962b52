"""What was recorded is never lost: two writers at once, writers killed in the middle, an index killed while it is built."""

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

from infer_forge.journal import markdown, open_store
from infer_forge.journal.index import ask
from infer_forge.journal.search import search
from infer_forge.journal.store import REF

WRITER = """
import sys
from infer_forge.journal import add, markdown, open_store
name, count = sys.argv[1], int(sys.argv[2])
with open_store() as store:
    for number in range(count):
        record = markdown.make({"kind": "note", "title": f"{name} wrote {number}", "created": "2026-11-01", "body": "text"})
        (one,) = add(store, [record])
        print(one, flush=True)
"""
READER = """
from infer_forge.journal import open_store
from infer_forge.journal.search import search
with open_store() as store:
    print(len(search(store, "wrote", limit=100000)), flush=True)
"""


def _start(code: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True, env={**os.environ})


def _said(child: subprocess.Popen[str]) -> list[str]:
    out, _ = child.communicate(timeout=120)
    return out.split()


def _here() -> set[str]:
    with open_store() as store:
        texts = [c.decode() for _, c in store.read(REF).items("records/")]
    return {markdown.read(t).id for t in texts}


@pytest.mark.stress
def test_two_writers_lose_nothing_and_all_of_it_is_found(stress_count: Callable[[int], int]) -> None:
    count = stress_count(200)
    writers = [_start(WRITER, name, str(count)) for name in ("ann", "bob")]
    told = {i for w in writers for i in _said(w)}
    assert all(w.returncode == 0 for w in writers)
    assert len(told) == 2 * count
    assert _here() == told
    with open_store() as store:
        assert {h.id for h in search(store, "wrote", limit=10_000)} == told


@pytest.mark.stress
def test_a_killed_writer_loses_nothing_that_it_told(stress_count: Callable[[int], int], seeded: random.Random) -> None:
    told: set[str] = set()
    for number in range(stress_count(40)):
        child = _start(WRITER, f"round{number}", "500")
        assert child.stdout is not None
        told.add(child.stdout.readline().strip())
        time.sleep(seeded.random() * 0.05)  # let it be anywhere in its work
        child.send_signal(signal.SIGKILL)
        told |= {line.strip() for line in child.stdout if line.endswith("\n")}
        child.wait()
        child.stdout.close()
    assert told <= _here()
    with open_store() as store:
        assert told <= {h.id for h in search(store, "wrote", limit=100_000)}


@pytest.mark.stress
def test_an_index_whose_builder_was_killed_is_made_whole(
    stress_count: Callable[[int], int], seeded: random.Random
) -> None:
    from infer_forge.base.paths import paths
    from infer_forge.journal import add

    with open_store() as store:
        add(
            store,
            [markdown.make({"kind": "note", "title": f"me wrote {i}", "created": "2026-11-01"}) for i in range(300)],
        )
        folder: Path = paths().cache / "journal"
        for _ in range(stress_count(40)):
            for file in folder.glob("*.sqlite*"):
                file.unlink()
            child = _start(READER)
            time.sleep(0.2 + seeded.random() * 0.6)
            child.kill()
            child.communicate()
            assert len(search(store, "wrote", limit=1000)) == 300
            assert ask(store, lambda db: db.execute("PRAGMA integrity_check").fetchone()) == ("ok",)
