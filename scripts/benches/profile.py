"""Benchmarks of the profile room (ratios to one `json.load` of the same file, default garbage collection, own process)."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benches import Row
from benches.places import kept, trace
from benches.process import spent
from trace_gen import generate
from trace_gen.model import Spec, Step

_LOAD = "import gzip,json,sys,time;t=time.perf_counter();json.load(gzip.open(sys.argv[1]));print(time.perf_counter()-t)"
_TRIAGE = ("-m", "infer_forge.cli.main", "triage", "--format", "json", "--out", os.devnull)
_RUNS = 3


def _trace(events: int) -> Path:
    """A stack-heavy SGLang-shaped trace of about so many events; made once, kept between runs."""
    steps = (Step("prefill", 2, 4096), *(Step("decode", generation=16) for _ in range(3)))
    spec = Spec(family="qwen3_moe", layers=48, steps=steps, stacks=True, frames=12, noise_ops=2, events=events)
    return trace(f"stacks-{events}", spec)


def _timed(argv: list[str], env: dict[str, str] | None = None, *, cpu: bool = False) -> tuple[float, float]:
    """Wall (or CPU) seconds, and the peak of the resident MB of a command and all that it starts."""
    took = spent([sys.executable, *argv], env)
    return (took.cpu_s if cpu else took.wall_s), took.together_mb


def _best(run: Callable[[], tuple[float, float]], times: int = _RUNS) -> tuple[float, float]:
    """The least time and the largest memory of several runs."""
    return _best_of([run() for _ in range(times)])


def _best_of(runs: list[tuple[float, float]]) -> tuple[float, float]:
    return min(seconds for seconds, _ in runs), max(megabytes for _, megabytes in runs)


def _sizes(events: int, ratio: float, memory: int, again: float) -> list[Row]:
    path = _trace(events)
    loads, firsts = list[tuple[float, float]](), list[tuple[float, float]]()
    with tempfile.TemporaryDirectory() as home:
        env = {"INFER_FORGE_HOME": home}
        for _ in range(_RUNS if events < 2_000_000 else 2):  # interleaved, so that a busy machine hits both
            loads.append(_timed(["-c", _LOAD, str(path)]))
            firsts.append(_timed([*_TRIAGE, str(path), "--no-cache"], env))
        _timed([*_TRIAGE, str(path)], env)
        second = _best(lambda: _timed([*_TRIAGE, str(path)], env))
    load, first = _best_of(loads), _best_of(firsts)
    base = f"json.load {load[0]:.2f} s, {load[1]:.0f} MB"
    name = f"{events // 1_000_000}M events"
    return [
        Row(
            f"full triage of {name}",
            f"at most {ratio} x json.load",
            first[0] / load[0],
            "x",
            base,
            first[0] <= ratio * load[0],
            f"{first[0]:.2f} s",
        ),
        Row(f"resident memory of it ({name})", f"at most {memory} MB", first[1], "MB", base, first[1] <= memory),
        Row(
            f"the same again ({name}, column cache)",
            f"at most {again} x json.load",
            second[0] / load[0],
            "x",
            base,
            second[0] <= again * load[0],
            f"{second[0]:.2f} s, {second[1]:.0f} MB",
        ),
    ]


def one_million() -> list[Row]:
    """1M events, about 280 MB."""
    return _sizes(1_000_000, 0.3, 200, 0.05)


def four_million() -> list[Row]:
    """4M events, about 1.1 GB."""
    return _sizes(4_000_000, 0.2, 450, 0.02)


def windows() -> list[Row]:
    """4,000 stage windows with 40,000 kernels against one window with the same kernels."""
    steps = tuple(Step("decode", generation=8) for _ in range(4))
    took: dict[bool, float] = {}
    with tempfile.TemporaryDirectory() as home:
        env = {"INFER_FORGE_HOME": home}
        for one in (True, False):
            path = trace(f"windows-{one}", Spec(family="llama", layers=1, steps=steps, cycles=1000, one_window=one))
            took[one] = _best(lambda p=path: _timed([*_TRIAGE, str(p), "--no-cache"], env, cpu=True), 5)[0]
    more = took[False] - took[True]
    base = f"one window {took[True]:.2f} s CPU"
    return [Row("4,000 stage windows against one", "at most 0.1 s more", more, "s CPU", base, more <= 0.1)]


def ranks() -> list[Row]:
    """A directory of 8 ranks against one of them."""

    def make(folder: Path) -> None:
        folder.mkdir()
        spec = Spec(family="qwen3_moe", layers=24, ranks=8, stacks=True, cycles=8)
        generate(spec, folder / "t.trace.json.gz", truth=False)

    folder = kept("ranks", make)
    one = sorted(folder.glob("*.json.gz"))[0]
    with tempfile.TemporaryDirectory() as home:
        env = {"INFER_FORGE_HOME": home}
        alone = _best(lambda: _timed([*_TRIAGE, str(one), "--no-cache"], env))[0]
        all_ranks = _best(lambda: _timed([*_TRIAGE, str(folder), "--no-cache"], env))[0]
    factor = all_ranks / alone
    cores = os.cpu_count() or 1
    note = f"{cores} cores, shared" if cores < 3 else f"{cores} cores"
    return [
        Row("a directory of 8 ranks", "at most 5 x one rank", factor, "x", f"one rank {alone:.2f} s", factor <= 5, note)
    ]


def start() -> list[Row]:
    """`--help`, and `triage` before it reads."""
    rows: list[Row] = []
    for words, limit in ((["--help"], 0.1), (["triage", "none.json"], 0.2)):
        took: list[float] = []
        for _ in range(9):
            before = time.perf_counter()
            subprocess.run([sys.executable, "-m", "infer_forge.cli.main", *words], capture_output=True, check=False)
            took.append(time.perf_counter() - before)
        best = min(took)
        rows.append(
            Row(
                f"infer-forge {' '.join(words)}", f"at most {limit * 1000:.0f} ms", best * 1000, "ms", "", best <= limit
            )
        )
    return rows


def exactness() -> list[Row]:
    """Kernel sums of the generated traces against a naive sum over the JSON."""
    import gzip
    from fractions import Fraction

    path = trace("exact", Spec(family="qwen3_moe", layers=12, cycles=4, stacks=True))
    with gzip.open(path) as file:
        document = json.loads(file.read(), parse_float=Fraction)
    device = ("kernel", "gpu_memcpy", "gpu_memset")
    events: list[dict[str, Any]] = document["traceEvents"]
    want = sum((Fraction(e["dur"]) for e in events if e.get("cat") in device), Fraction(0))
    from infer_forge.profile import triage
    from infer_forge.profile.model import Options

    rows = triage([path], Options(rank="all", min_share=0.0, cache=False, keep=False)).tables["kernel"].dicts()
    got = sum(round(r["time_us"] * 1000) for r in rows)
    off = abs(got - int(want * 1000))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [
        Row(
            "sum of the kernel table",
            "exact to the nanosecond",
            off,
            "ns",
            "naive sum over the JSON",
            off == 0,
            f"{peak:.0f} MB",
        )
    ]


BENCHES: dict[str, Callable[[], list[Row]]] = {
    "1m": one_million,
    "4m": four_million,
    "windows": windows,
    "ranks": ranks,
    "start": start,
    "exact": exactness,
}
