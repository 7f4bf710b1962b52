"""The MCP server as a real process over stdio, one that can be killed in the middle of a call."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

DYING = Path(__file__).parent / "dying"
"""Folder of the `sitecustomize` that ends a process at a chosen write."""


class Refused(Exception):
    """The tool or command refused; the text is what the agent sees."""


class Killed(Exception):
    """The process was killed before it answered."""


def doomed(at: str) -> dict[str, str]:
    """An environment in which the next Python process dies at this write (see `dying/sitecustomize.py`)."""
    path = os.pathsep.join(p for p in (str(DYING), os.environ.get("PYTHONPATH", "")) if p)
    return {**os.environ, "PYTHONPATH": path, "FORGE_DIES_AT": at}


class Server:
    """`infer-forge serve` as a client starts it."""

    def __init__(self, dies_at: str | None = None) -> None:
        argv = [sys.executable, "-m", "infer_forge", "serve", "--toolsets", "campaign"]
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=doomed(dies_at) if dies_at else None
        )  # fmt: skip
        self.number = 0
        who = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}
        self._ask("initialize", who)
        self._send({"method": "notifications/initialized"})

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.number += 1
        self._send({"id": self.number, "method": method, "params": params})
        assert self.process.stdout is not None
        while True:
            line = self.process.stdout.readline()
            if not line:
                code = self.process.wait()
                assert code == -signal.SIGKILL, f"the server ended with {code}"
                raise Killed(method)
            answer = json.loads(line)
            if answer.get("id") == self.number:
                return answer["result"]

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """A tool's structured answer.

        Raises:
            Refused: the tool refused. Killed: the server died before it answered.
        """
        result = self._ask("tools/call", {"name": name, "arguments": arguments})
        if result.get("isError"):
            raise Refused(result["content"][0]["text"])
        return result["structuredContent"]

    def end(self) -> None:
        """Close its input and wait; a dead one is collected."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self.process.wait(timeout=30)
