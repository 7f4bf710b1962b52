"""Benches of the crash room: long logs of noise with one crash, a kernel-API log, and what the recorder costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benches import Row

ROOT = Path(__file__).resolve().parents[2]
_MEASURE = """
import json, resource, sys, time
from infer_forge.crash import triage
begin = time.perf_counter()
found = triage([sys.argv[1]]).extra
wall = time.perf_counter() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
print(json.dumps({"wall": wall, "peak": peak, "class": found["class"], "rank": found["rank"]}))
"""


def _noise(path: Path, size: int) -> None:
    """A server log of `size` bytes in two engines' spelling, with an illegal access of rank 3 at its end."""
    import random

    from tests.crash.crash_maker import ASYNC, NOISE, SYNC_FRAMES, Block, prefixed, trace

    rng = random.Random(1)
    lines = [
        prefixed(("sglang", "vllm")[i % 2], Block(i * 0.01, i % 8, []), rng.choice(NOISE), True, rng)
        for i in range(100_000)
    ]
    chunk = ("\n".join(lines) + "\n").encode()
    error = trace(SYNC_FRAMES, ["torch.AcceleratorError: CUDA error: an illegal memory access was encountered", *ASYNC])
    last = [prefixed("sglang", Block(5000, 3, []), line, i == 0, rng) for i, line in enumerate(error)]
    with open(path, "wb") as file:
        while file.tell() < size:
            file.write(chunk[: max(1, min(len(chunk), size - file.tell()))])
        file.write(("\n" + "\n".join(last) + "\n").encode())


def _measure(path: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return json.loads(done.stdout) if done.returncode == 0 else {}


def _grep(path: Path) -> float:
    """The floor: grep for three words over the same file."""
    begin = time.perf_counter()
    subprocess.run(
        ["grep", "-cE", "CUDA error|Traceback|Xid", str(path)],
        stdout=subprocess.DEVNULL,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    return time.perf_counter() - begin


def _log(size: int, goal_s: float, goal_mb: float | None) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.log"
        _noise(path, size)
        found = _measure(path)
        floor = _grep(path)
    right = found.get("class") == "ima_async" and found.get("rank") == 3
    work = f"triage of a log of {size / 1e6:,.0f} MB"
    rows = [
        Row(
            work,
            f"under {goal_s:g} s",
            found.get("wall"),
            "s",
            f"grep of three words: {floor:.2f} s",
            right and found["wall"] < goal_s,
        )
    ]
    if goal_mb is not None:
        rows.append(
            Row(
                work,
                f"at most {goal_mb:g} MB",
                found.get("peak"),
                "MB",
                "resident, whole process",
                right and found["peak"] <= goal_mb,
            )
        )
    return rows


def gigabyte_log() -> list[Row]:
    """1 GB of noise and one crash."""
    return _log(1_000_000_000, 60, 200)


def ten_megabyte_log() -> list[Row]:
    """10 MB, as pasted into a chat."""
    return _log(10_000_000, 1, None)


def api_log() -> list[Row]:
    """A kernel-API log of level 5: 200 MB of records."""
    stats = "min=0.000000 max=1.000000 mean=0.500000 nan_count=0 inf_count=0"
    tensor = f"  0=Tensor(\n      shape=(1, 8)\n      dtype=torch.bfloat16\n      device=cuda:0\n      {stats}\n  )\n"
    record = (
        f"{'=' * 80}\n[2026-03-01 10:00:01] SGLang Kernel API Call: "
        f"ops.NAME\nPositional input arguments:\n{tensor}Output:\n{tensor}"
    )
    chunk = "".join(record.replace("NAME", f"k{i % 40}") for i in range(2000))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel_api_41000.log"
        with open(path, "w", encoding="utf-8") as file:
            while file.tell() < 200_000_000:
                file.write(chunk)
            file.write(
                record.replace("NAME", "guilty").replace(
                    f"Output:\n{tensor}", "Output:\n  0=Tensor(\n      statistics=[unavailable: AcceleratorError]\n"
                )
            )
            file.write("RuntimeError: CUDA error: an illegal memory access was encountered\n")
        found = _measure(path)
    return [
        Row(
            "triage of a level-5 kernel-API log of 200 MB",
            "under 30 s",
            found.get("wall"),
            "s",
            f"peak {found.get('peak', 0):.0f} MB",
            found.get("wall", 99) < 30,
        )
    ]


def recorder() -> list[Row]:
    """What a recorded call costs at levels 0 and 1."""
    program = """
import time, os
from infer_forge.crash.recorder import record
def f(x): return x
def cost(g, n):
    begin = time.perf_counter()
    for _ in range(n): g(1)
    return (time.perf_counter() - begin) / n * 1e6
plain = cost(f, 200000)
os.environ["INFER_FORGE_RECORD_LEVEL"] = "0"
off = cost(record(f), 200000)
os.environ.update(INFER_FORGE_RECORD_LEVEL="1", INFER_FORGE_RECORD_DEST=os.devnull + "x" if False else "/tmp/infer-forge-bench-%i.log")
on = cost(record(f), 20000)
os.unlink(f"/tmp/infer-forge-bench-{os.getpid()}.log")
print(plain, off, on)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    plain, off, on = map(float, done.stdout.split())
    return [
        Row(
            "a call at level 0",
            "at most 1.1 x the plain call",
            off / plain,
            "x",
            f"plain {plain:.3f} us",
            off / plain <= 1.1,
        ),
        Row("a call at level 1, flushed", "at most 60 us", on, "us", "two system calls", on <= 60),
    ]


BENCHES: dict[str, Callable[[], list[Row]]] = {
    "ten_megabyte_log": ten_megabyte_log,
    "gigabyte_log": gigabyte_log,
    "api_log": api_log,
    "recorder": recorder,
}
