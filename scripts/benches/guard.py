"""The guard: the hook as a process against the bare imports that it cannot do without, and checks inside a server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benches import Row
from benches.places import home

ROUNDS = 60
BARE = "import tree_sitter, tree_sitter_bash, json, re"
COMMANDS = (
    "ls -la && git status",
    "kill -9 $(nvidia-smi --query-compute-apps=pid --format=csv,noheader)",
    "git push origin feature/x",
    "rm -rf build && cmake -S . -B build && cmake --build build -j8 2>&1 | tee build.log",
    "docker exec sglang bash -lc 'python -m sglang.bench_serving --port 30000'",
    "python3 - <<'E'\nimport os\nprint(os.getcwd())\nE",
)


def _timed(argv: list[str], data: bytes, env: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(argv, input=data, capture_output=True, env=env, check=False)
    return (time.perf_counter() - began) * 1e3


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def hook() -> list[Row]:
    """p50 and p95 of one hook call, interleaved with the bare imports."""
    from infer_forge.guard import policy
    from infer_forge.guard.hook_config import executable, payload

    with home() as folder:
        # An installed package has its bytecode; a machine that writes none would time the compiler on every call.
        env = {**os.environ, "PYTHONPYCACHEPREFIX": f"{folder}/pyc"}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        policy.compile_policy(str(folder))
        mine: list[float] = []
        bare: list[float] = []
        line = [executable(), "--client", "claude"]
        for number in range(-len(COMMANDS), ROUNDS):
            data = json.dumps(payload("claude", COMMANDS[number % len(COMMANDS)], str(folder))).encode()
            bare.append(_timed([sys.executable, "-c", BARE], b"", env))
            mine.append(_timed(line, data, env))
        bare, mine = bare[len(COMMANDS) :], mine[len(COMMANDS) :]
    p50, p95, base = _quantile(mine, 0.5), _quantile(mine, 0.95), _quantile(bare, 0.5)
    label = f"bare imports p50 {base:.1f} ms"
    ratio = p50 / base
    return [
        Row("hook call, p50", "at most 1.6 x the bare imports of the same run", ratio, "x", label, ratio <= 1.6),
        Row("hook call, p50", "at most 60 ms", p50, "ms", label, p50 <= 60),
        Row("hook call, p95", "at most 90 ms", p95, "ms", label, p95 <= 90),
    ]


def checks() -> list[Row]:
    """p50 and p99 of one check in a process that is warm, over the ordinary commands of the tests."""
    from infer_forge.guard import policy
    from infer_forge.guard.context import from_dict
    from infer_forge.guard.decide import check_with

    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "guard"))
    from guard_forms import FORMS  # pyright: ignore
    from guard_ordinary import ORDINARY  # pyright: ignore

    made = policy.compile_policy(keep=False)
    facts: dict[str, Any] = {
        "run_id": "r",
        "cwd": "/data/runs/r",
        "owned_paths": ["/data/runs/r"],
        "owned_pids": [4242],
    }
    population: list[str] = [*ORDINARY, *FORMS]
    times: list[float] = []
    used: list[float] = []
    for turn in range(4):
        for command in population:
            context = from_dict(facts)
            began, began_cpu = time.perf_counter(), time.process_time()
            check_with(command, context, made)
            if turn:
                times.append((time.perf_counter() - began) * 1e3)
                used.append((time.process_time() - began_cpu) * 1e3)
    p50, p99 = _quantile(times, 0.5), _quantile(times, 0.99)
    return [
        Row("check in the server, p50", "no goal", p50, "ms", "-", None, f"of {len(times)}, for the reader"),
        Row(
            "check in the server, processor time, p99",
            "at most 1 ms",
            _quantile(used, 0.99),
            "ms",
            "-",
            _quantile(used, 0.99) <= 1,
        ),
        Row("check in the server, p99", "at most 1 ms", p99, "ms", "-", p99 <= 1.0, f"of {len(times)}"),
    ]


BENCHES: dict[str, Callable[[], list[Row]]] = {"guard-hook": hook, "guard-checks": checks}
