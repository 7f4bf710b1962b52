"""For tests: start a fake engine on a free port, wait until it serves, stop it again."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

BIN = Path(__file__).resolve().parent.parent / "bin"
"""Folder to put first on PATH."""

SITE = Path(__file__).resolve().parent.parent / "site"
"""Folder to put first on PYTHONPATH, for `python -m sglang.launch_server` and the like."""


def environment(settings: str = "", bench: str = "", **more: str) -> dict[str, str]:
    """An environment in which the fakes are found first; `settings` is FAKE_ENGINE, `bench` FAKE_BENCH."""
    env = dict(os.environ)
    env["PATH"] = f"{BIN}{os.pathsep}{env.get('PATH', '')}"
    env["PYTHONPATH"] = f"{SITE}{os.pathsep}{env.get('PYTHONPATH', '')}".rstrip(os.pathsep)
    env["FAKE_ENGINE"], env["FAKE_BENCH"] = settings, bench
    return {**env, **more}


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def command(framework: str, model: str, port: int, words: Sequence[str] = ()) -> list[str]:
    """The plain launch command of a framework, with the fake's full path."""
    address = ["--host", "127.0.0.1", "--port", str(port), *words]
    if framework == "sglang":
        return [sys.executable, "-S", "-m", "sglang.launch_server", "--model-path", model, *address]
    program = {"vllm": "vllm", "tensorrt_llm": "trtllm-serve", "tokenspeed": "tokenspeed"}[framework]
    backend = ["--backend", "pytorch"] if framework == "tensorrt_llm" else []
    return [str(BIN / program), "serve", model, *backend, *address]


@dataclass
class Running:
    """A fake engine that runs: its address, process and log."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path


def wait_healthy(url: str, process: subprocess.Popen[bytes], seconds: float = 10.0) -> None:
    """Wait until /health answers 200; fails when the process ends first."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except (OSError, urllib.error.URLError):
            if process.poll() is not None:
                raise RuntimeError(f"the fake engine ended with {process.returncode}") from None
            time.sleep(0.005)
    raise TimeoutError(url)


@contextlib.contextmanager
def engine(
    framework: str,
    *,
    settings: str = "",
    words: Sequence[str] = (),
    model: str = "fake/Model-8B",
    log: Path | None = None,
    wait: bool = True,
    env: Mapping[str, str] | None = None,
) -> Generator[Running]:
    """A running fake engine. `words` are further flags of its command line, `settings` its FAKE_ENGINE."""
    port = free_port()
    with tempfile.TemporaryDirectory() as scratch:
        place = log or Path(scratch) / "server.log"
        with place.open("wb") as out:
            process = subprocess.Popen(
                command(framework, model, port, words),
                env=environment(settings, **(env or {})),
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        url = f"http://127.0.0.1:{port}"
        try:
            if wait:
                wait_healthy(url, process)
            yield Running(url, process, place)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()
