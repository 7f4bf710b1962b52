"""A builder of small kineto-shaped traces: kernels with launches, ops and step marks at stated times."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from infer_forge.profile.model import Options
from infer_forge.profile.read import Input, read

GPU = {"id": 0, "name": "NVIDIA B200", "computeMajor": 10, "computeMinor": 0, "numSms": 148}


@dataclass
class TraceWriter:
    """Collects events; times are microseconds."""

    path: Path
    world: int | None = None
    rank: int | None = None
    vendor: str = "nvidia"
    capability: tuple[int, int] = (10, 0)
    stacks: bool = False
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    correlation: int = 100

    def kernel(
        self,
        name: str,
        ts: float,
        dur: float,
        *,
        stream: int = 7,
        device: int = 0,
        launch: tuple[float, float] | None = (-1.0, 0.5),
        cat: str = "kernel",
        api: str = "cudaLaunchKernel",
        op: str | None = None,
        **more: Any,
    ) -> TraceWriter:
        """One device item. `launch` is (start, duration) of its call; a negative start is relative to ts; None: no call."""
        self.correlation += 1
        args = {"correlation": self.correlation, "stream": stream, "device": device, **more}
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": device, "tid": stream, "ts": ts, "dur": dur, "args": args}
        )
        if launch is not None:
            begin = ts + launch[0] if launch[0] < 0 else launch[0]
            self.call(api, begin, launch[1], self.correlation)
            if op:
                self.events.append(
                    {
                        "ph": "X",
                        "cat": "cpu_op",
                        "name": op,
                        "pid": 1,
                        "tid": 1,
                        "ts": begin - 0.1,
                        "dur": launch[1] + 0.2,
                        "args": {},
                    }
                )
        return self

    def call(self, api: str, ts: float, dur: float, correlation: int, **args: Any) -> TraceWriter:
        """A runtime call of the host."""
        self.events.append(
            {
                "ph": "X",
                "cat": "cuda_runtime",
                "name": api,
                "pid": 1,
                "tid": 1,
                "ts": ts,
                "dur": dur,
                "args": {"correlation": correlation, **args},
            }
        )
        return self

    def step(self, name: str, ts: float, dur: float, *, device: int = 0) -> TraceWriter:
        """A step mark on the host and on the device."""
        for cat, pid, tid in (("user_annotation", 1, 1), ("gpu_user_annotation", device, 7)):
            self.events.append(
                {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": {}}
            )
        return self

    def run(
        self,
        names: Sequence[str],
        *,
        repeat: int,
        gap: float = 1.0,
        dur: float = 5.0,
        start: float = 1000.0,
        **more: Any,
    ) -> TraceWriter:
        """The names one behind the other on one stream, so many times."""
        ts = start
        for _ in range(repeat):
            for name in names:
                self.kernel(name, ts, dur, **more)
                ts += dur + gap
        return self

    def write(self) -> Path:
        """Write the file."""
        document: dict[str, Any] = {"schemaVersion": 1, "traceEvents": self.events}
        major, minor = self.capability
        if self.vendor == "nvidia":
            document |= {"cuda_runtime_version": 12090, "cupti_version": 26}
            document["deviceProperties"] = [GPU | {"computeMajor": major, "computeMinor": minor}]
        elif self.vendor == "amd":
            document |= {"hip_runtime_version": 60000000, "roctracer_version": 1}
        if self.world is not None:
            document["distributedInfo"] = {"backend": "nccl", "rank": self.rank or 0, "world_size": self.world}
        if self.stacks:
            document["with_stack"] = 1
        self.path.write_text(json.dumps(document))
        return self.path


@pytest.fixture
def trace_writer(tmp_path: Path) -> Callable[..., TraceWriter]:
    """Make a writer: `trace_writer(name="t.json", world=..)`."""

    def make(name: str = "t.trace.json", **facts: Any) -> TraceWriter:
        return TraceWriter(tmp_path / name, **facts)

    return make


@pytest.fixture
def read_one() -> Callable[[TraceWriter | Path], Input]:
    """Read a trace without the cache."""

    def run(what: TraceWriter | Path) -> Input:
        return read([what.write() if isinstance(what, TraceWriter) else what], Options(cache=False))

    return run
