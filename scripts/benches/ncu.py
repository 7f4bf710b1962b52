"""Benches of the ncu room: four full actions, a very large report, a long CSV page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benches import Row

ROOT = Path(__file__).resolve().parents[2]
FOUR_ACTIONS = "AlpriElse_cs599k__rms_norm_matrix_ncu-reports_2025-04-21_v2-float4.ncu-rep"


def _tree_resident(pid: int) -> int:
    """Resident bytes of a process and its children; what is shared counts once for each."""
    import psutil

    try:
        process = psutil.Process(pid)
        return sum(p.memory_info().rss for p in (process, *process.children(recursive=True)))
    except psutil.Error:
        return 0


def _measure(words: list[str]) -> tuple[float, float, dict[str, Any]]:
    """Wall seconds, peak resident MB of the process tree, and the JSON of one command."""
    began = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-m", "infer_forge", *words, "--format", "json"], stdout=subprocess.PIPE)
    peak = 0
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.01):
            peak = max(peak, _tree_resident(child.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    out, _ = child.communicate()
    wall = time.perf_counter() - began
    done.set()
    watcher.join()
    return wall, peak / 1e6, json.loads(out) if child.returncode == 0 else {}


def _best(words: list[str], runs: int = 3) -> tuple[float, float, dict[str, Any]]:
    """The run with the median wall time, and the peak of all runs."""
    measured = sorted((_measure(words) for _ in range(runs)), key=lambda m: m[0])
    wall, _, answer = measured[len(measured) // 2]
    return wall, max(peak for _, peak, _ in measured), answer


def four_actions() -> list[Row]:
    """A full H100 report of four launches: 2,129 metrics a launch."""
    place = Path(os.environ.get("INFER_FORGE_CORPUS") or ROOT.parent / "shared" / "corpus") / "ncu" / FOUR_ACTIONS
    if not place.is_file():
        missing = "the real report is not here"
        work, goals = "digest of four full actions", ("under 1 s in all", "at most 300 MB")
        return [Row(work, goal, None, "", "none", None, missing) for goal in goals]
    wall, peak, answer = _best(["ncu", "digest", str(place)])
    whole = bool(answer) and answer["header"]["coverage"]["launches_read"] == 4
    return [
        Row(
            "digest of four full actions",
            "under 1 s in all",
            wall,
            "s",
            "start to exit of the command",
            whole and wall < 1,
        ),
        Row(
            "digest of four full actions",
            "at most 300 MB",
            peak,
            "MB",
            "resident, command and subprocess",
            whole and peak <= 300,
        ),
    ]


def large_report() -> list[Row]:
    """A generated container of about 700 MB with 1,200 results: capped, not fatal."""
    from tests.ncu.ncu_maker import Kernel, block_ends, busy, container

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.ncu-rep"
        data = container([Kernel("k", busy(), padding=580_000)] * 2)
        ends = block_ends(data)
        with open(path, "wb") as file:
            file.write(data)
            for _ in range(1198):
                file.write(data[ends[-2] : ends[-1]])
        wall, peak, answer = _measure(["ncu", "digest", str(path)])
    coverage: dict[str, Any] = answer.get("header", {}).get("coverage", {})
    ok = coverage.get("launches_in_file") == 1200 and bool(coverage.get("capped"))
    size = "1,200 results, 696 MB"
    return [
        Row(f"digest of {size}", "capped answer within 10 s", wall, "s", "all 1,200 actions: 14.5 s", ok and wall < 10),
        Row(f"digest of {size}", "at most 2 GB", peak, "MB", "all 1,200 actions: 8.8 GB", ok and peak < 2000),
    ]


def long_csv_page() -> list[Row]:
    """A raw CSV page of 2,000 launches with 60 metrics."""
    from tests.ncu.ncu_maker import DURATION, Kernel, busy, wide_csv

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "raw.csv"
        more = {f"x__m{i}.sum": float(i) for i in range(50)}
        path.write_text(wide_csv([Kernel(f"k{i % 7}", busy(ns=1e5 + i) | more) for i in range(2000)], {DURATION: "ns"}))
        wall, peak, answer = _measure(["ncu", "digest", str(path)])
        megabytes = path.stat().st_size / 1e6
    ok = bool(answer) and answer["header"]["coverage"]["launches_read"] == 2000
    work = "digest of a raw CSV page of 2,000 launches"
    return [Row(work, "under 5 s", wall, "s", f"peak {peak:.0f} MB", ok and wall < 5, f"{megabytes:.1f} MB")]


BENCHES: dict[str, Callable[[], list[Row]]] = {
    "four_actions": four_actions,
    "large_report": large_report,
    "long_csv_page": long_csv_page,
}
