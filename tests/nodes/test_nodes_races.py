"""Races and kills on one hub: exactly one winner, no double claim, no acknowledged claim lost."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infer_forge.nodes.model import NodeRecord
from infer_forge.nodes.registry import CLAIMS, Registry, set_policy

WRITERS = 8


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    path = tmp_path / "hub.git"
    subprocess.run(["git", "init", "-q", "--bare", str(path)], check=True)
    first = Registry.open(str(path), create=True)
    first.ensure_policy()
    set_policy(first, {"verify_after_release": "false"})
    return path


def start(hub: Path, home: Path, name: str, rounds: str, width: int, seed: int) -> subprocess.Popen[str]:
    env = os.environ | {"INFER_FORGE_HOME": str(home), "INFER_FORGE_NO_FSYNC": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.nodes.racer", f"file://{hub}", name, rounds, str(width), str(seed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
        start_new_session=True,
    )


def line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def end(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        if process.stdin:
            process.stdin.close()
        process.wait()
        if process.stdout:
            process.stdout.close()


def fsck(hub: Path) -> None:
    done = subprocess.run(
        ["git", "-C", str(hub), "fsck", "--strict", "--full"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.stress
@pytest.mark.timeout(3000)
def test_of_eight_that_race_for_overlapping_gpus_exactly_one_wins(
    hub: Path, tmp_path: Path, stress_count: Callable[[int], int]
) -> None:
    rounds = stress_count(1000)
    racers = [start(hub, tmp_path / f"h{i}", f"w{i}", str(rounds), 2, i) for i in range(WRITERS)]
    for racer in racers:
        assert line(racer) == {"ready": True}
    commits = 0
    for number in range(rounds):
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        told = [line(racer) for racer in racers]
        assert not [t for t in told if t["won"] is None], told
        winners = [t for t in told if t["won"]]
        assert len(winners) == 1, (number, told)
        commits += len(winners)
    end(racers)
    judge = Registry.open(str(hub), create=True)
    judge.store.refresh(CLAIMS)
    assert sum(len(record.claims) for record in judge.nodes()) == commits
    assert len(list(judge.store.history(CLAIMS))) == commits
    fsck(hub)


@pytest.mark.stress
@pytest.mark.timeout(3000)
def test_a_kill_at_any_instant_gives_no_double_claim_and_loses_no_acknowledged_one(
    hub: Path, tmp_path: Path, stress_count: Callable[[int], int], seeded: random.Random
) -> None:
    kills = max(20, stress_count(200))
    told: list[dict[str, Any]] = []
    guard = threading.Lock()

    def listen(process: subprocess.Popen[str], ready: threading.Event) -> None:
        assert process.stdout is not None
        process.stdout.readline()
        ready.set()
        for text in process.stdout:
            if text.endswith("\n"):
                with guard:
                    told.append(json.loads(text))

    def launch(place: int, life: int) -> tuple[subprocess.Popen[str], threading.Thread]:
        process = start(hub, tmp_path / f"h{place}", f"w{place}", "free", 3, 1000 * place + life)
        ready = threading.Event()
        thread = threading.Thread(target=listen, args=(process, ready))
        thread.start()
        assert ready.wait(60)
        return process, thread

    running = [launch(place, 0) for place in range(3)]
    for life in range(1, kills + 1):
        time.sleep(seeded.uniform(0, 0.3))  # the kill's random instant is what is tested
        place = seeded.randrange(len(running))
        process, thread = running[place]
        (os.killpg if life % 2 else os.kill)(process.pid, signal.SIGKILL)  # with and without its `git push`
        process.wait()
        thread.join()
        end([process])
        running[place] = launch(place, life)
    for process, thread in running:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        thread.join()
        end([process])
    judge = Registry.open(str(hub), create=True)
    judge.store.refresh(CLAIMS)
    _check_history(judge, told)
    fsck(hub)
    for place in range(3):
        fsck(tmp_path / f"h{place}" / "stores" / "registry.git")


def _check_history(judge: Registry, told: list[dict[str, Any]]) -> None:
    """Replay every commit: no state holds two overlapping claims, epochs grow by one, what was acknowledged is there."""
    chain = list(judge.store.history(CLAIMS))[::-1]
    claimed = [c.trailers["Claim"] for c in chain if c.trailers["Event"] == "claim"]
    epochs = [int(c.trailers["Epoch"]) for c in chain if c.trailers["Event"] == "claim"]
    assert epochs == list(range(1, len(epochs) + 1))
    assert len(set(claimed)) == len(claimed)
    for commit in chain:
        record: NodeRecord = judge.node("n0", judge.store.at(commit.id))
        held = [g.index for c in record.claims for g in c.gpus]
        assert len(set(held)) == len(held), commit
    acknowledged = {t["claim"] for t in told if t.get("won")}
    assert acknowledged
    assert acknowledged <= set(claimed)
    released = {c.trailers["Claim"] for c in chain if c.trailers["Event"] == "released"}
    assert {t["released"] for t in told if "released" in t} <= released
