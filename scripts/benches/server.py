"""The MCP server: from its start to the first answer. Codex leaves out what needs about a second."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benches import Row
from benches.places import home

_RUNS = 9
_HELLO: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "b", "version": "1"},
}
_ASKED = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _HELLO}).encode() + b"\n"


def _first_answer_s() -> float:
    began = time.perf_counter()
    argv = [sys.executable, "-m", "infer_forge", "serve"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(_ASKED)
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        took = time.perf_counter() - began
        process.kill()
    if answer["result"]["serverInfo"]["name"] != "infer-forge":
        raise RuntimeError(f"another server answered: {answer}")
    return took


def start() -> list[Row]:
    """Start of the process to the answer of `initialize`, the default tools."""
    with home():
        _first_answer_s()  # bytecode and files are read once
        took = sorted(_first_answer_s() for _ in range(_RUNS))
    median = took[_RUNS // 2]
    note = f"{took[0]:.2f} to {took[-1]:.2f} s"
    return [
        Row(
            "server, start to initialize answered", "under 0.7 s", median, "s", f"median of {_RUNS}", median < 0.7, note
        )
    ]


BENCHES: dict[str, Callable[[], list[Row]]] = {"start": start}
