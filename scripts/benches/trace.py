"""Benchmarks of the trace room: reading alone, held against one `json.load` of the same file in its own process."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benches import Row
from benches.places import trace
from benches.process import spent
from trace_gen import SPECS

_LOAD = "import gzip, json, sys; json.load(gzip.open(sys.argv[1]))"
_READ = "import sys; from infer_forge.trace import load; load(sys.argv[1], cache=False)"
_AGAIN = "import sys; from infer_forge.trace import load; load(sys.argv[1])"
_ALL = "import sys; from infer_forge.trace import load_many; load_many(sys.argv[1], cache=False)"
_ALONE = {"INFER_FORGE_TRACE_WORKER": "1"}
"""Keeps the reader from starting a second process: one core, comparable with `json.load`."""


def _trace(name: str) -> Path:
    """A generated trace, made once a machine."""
    return trace(name, SPECS[name])


def _run(program: str, path: Path, home: str, **more: str) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds, and the peak of the resident MB of a command and all that it starts."""
    took = spent([sys.executable, "-c", program, str(path)], {"INFER_FORGE_HOME": home, **more})
    return took.wall_s, took.cpu_s, took.together_mb


def _reading(name: str, size: str, goal: float, memory: int, again: float, rounds: int) -> list[Row]:
    path = _trace(name)
    loads: list[tuple[float, float, float]] = []
    alone: list[tuple[float, float, float]] = []
    with tempfile.TemporaryDirectory() as home:
        for _ in range(rounds):  # interleaved, so that a busy machine hits both
            loads.append(_run(_LOAD, path, home))
            alone.append(_run(_READ, path, home, **_ALONE))
        both = [_run(_READ, path, home) for _ in range(rounds)]
        _run(_AGAIN, path, home)
        cached = min(_run(_AGAIN, path, home) for _ in range(3))
    load, read, shared = min(loads), min(alone), min(both)
    cpu = min(r[1] for r in alone) / min(r[1] for r in loads)
    base = f"json.load {load[0]:.2f} s, {load[2]:.0f} MB"
    peak = max(run[2] for run in (*alone, *both))
    return [
        Row(f"read {size}, one process", f"at most {goal} x json.load", read[0] / load[0], "x", base, read[0] <= goal * load[0],
            f"{read[0]:.2f} s; by CPU {cpu:.2f} x"),
        Row(f"read {size}, two processes where a core is free", f"at most {goal} x json.load", shared[0] / load[0], "x", base,
            shared[0] <= goal * load[0], f"{shared[0]:.2f} s"),
        Row(f"resident memory of reading {size}", f"at most {memory} MB", peak, "MB", base, peak <= memory),
        Row(f"read {size} again (cache)", f"at most {again} x json.load", cached[0] / load[0], "x", base,
            cached[0] <= again * load[0], f"{cached[0]:.2f} s"),
    ]  # fmt: skip


def one_million() -> list[Row]:
    """1M events, about 280 MB."""
    return _reading("big1m", "1M events", 0.3, 200, 0.05, 3)


def four_million() -> list[Row]:
    """4M events, about 1.1 GB."""
    return _reading("big4m", "4M events", 0.2, 450, 0.02, 2)


def windows() -> list[Row]:
    """4,000 stage windows against one window over the same kernels."""
    with tempfile.TemporaryDirectory() as home:
        many, one = (min(_run(_READ, _trace(n), home, **_ALONE)[1] for _ in range(5)) for n in ("windows4k", "window1"))
    more = many - one
    return [
        Row("4,000 stage windows", "at most 0.1 s more than one", more, "s", f"one window {one:.2f} s CPU", more <= 0.1)
    ]


def directory() -> list[Row]:
    """Eight ranks of 1M events."""
    path = _trace("big1m")
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as place:
        for rank in range(8):
            shutil.copy(path, Path(place) / f"run-TP-{rank}.trace.json.gz")
        one = min(_run(_READ, path, home, **_ALONE)[0] for _ in range(2))
        eight = min(_run(_ALL, Path(place), home)[0] for _ in range(2))
    load = os.getloadavg()[0]
    cores = os.cpu_count() or 1
    note = f"{eight:.2f} s; load {load:.1f} on {cores} cores"
    ok = eight <= 5 * one if load < cores + 1 or eight <= 5 * one else None
    return [
        Row(
            "a directory of 8 ranks",
            "at most 5 x one rank on two free cores",
            eight / one,
            "x",
            f"{one:.2f} s",
            ok,
            note,
        )
    ]


BENCHES: dict[str, Callable[[], list[Row]]] = {
    "1m": one_million,
    "4m": four_million,
    "windows": windows,
    "directory": directory,
}
