"""Small traces by hand, for what the generator does not write."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Event = dict[str, Any]
Write = Callable[..., Path]


@pytest.fixture
def write_trace(tmp_path: Path) -> Write:
    """Write events as a kineto file; `text` replaces the JSON of the events, `keys` are further top-level keys."""

    def write(events: list[Event] | None = None, name: str = "t.json", text: str | None = None, **keys: Any) -> Path:
        body = text if text is not None else ",\n".join("  " + json.dumps(e) for e in events or [])
        head = "".join(f"  {json.dumps(k)}: {json.dumps(v)},\n" for k, v in keys.items())
        path = tmp_path / name
        path.write_bytes(f'\n{{\n{head}  "traceEvents": [\n{body}\n  ]\n}}\n'.encode("utf-8", "surrogateescape"))
        return path

    return write


@pytest.fixture
def kernel() -> Callable[..., Event]:
    """A kernel event."""

    def make(ts: Any, dur: Any, name: str = "k", **args: Any) -> Event:
        filled = {"device": 0, "stream": 7, **args}
        return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": filled}

    return make


@pytest.fixture
def host() -> Callable[..., Event]:
    """A host event of any category on thread (10, 10)."""

    def make(category: str, name: str, ts: Any, dur: Any, tid: Any = 10, **args: Any) -> Event:
        filled = {k.replace("_", " ") if k.startswith("External") else k: v for k, v in args.items()}
        return {"ph": "X", "cat": category, "name": name, "pid": 10, "tid": tid, "ts": ts, "dur": dur, "args": filled}

    return make
