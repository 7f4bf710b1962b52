"""Types of a capture: what is asked for, what one workload gave, and the limits that keep a server safe."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PREFILL, DECODE = "prefill", "decode"
WORKLOADS = {"both": (PREFILL, DECODE), PREFILL: (PREFILL,), DECODE: (DECODE,)}


@dataclass(frozen=True)
class Shape:
    """Lengths of the requests of one workload, in tokens (A117: prefill is long input and one token out, decode the reverse)."""

    input_len: int
    output_len: int


@dataclass(frozen=True)
class Plan:
    """What to capture.

    Attributes:
        shapes: workload -> request lengths.
        requests: requests in flight at once.
        warmup: requests before the profiler is started. steps: forward passes wanted in the trace.
        stacks, shapes_recorded: ask the profiler for Python stacks, for input shapes (both slow the server down).
        window_s: the longest time that the profiler is left running. export_s: the longest wait for complete files.
    """

    framework: str
    url: str
    out: Path
    shapes: dict[str, Shape]
    requests: int = 8
    warmup: int = 10
    steps: int = 5
    stacks: bool = False
    shapes_recorded: bool = False
    window_s: float = 60.0
    export_s: float = 600.0
    directory: str | None = None
    record: str | None = None
    seed: int = 0


@dataclass
class Taken:
    """What one workload gave.

    Attributes:
        files: complete trace files in the output folder.
        requests_ok, requests_failed: of the load that ran under the profiler. first_error: what the first of the latter said.
        tokens_seen: streamed tokens of that load.
        stall_s: the longest time the server did not answer /health while it exported; None when nobody asked.
        control: requests to the profiler and its answers.
    """

    workload: str
    shape: Shape
    files: list[Path] = field(default_factory=list[Path])
    requests_ok: int = 0
    requests_failed: int = 0
    first_error: str | None = None
    tokens_seen: int = 0
    prompt_form: str = "token ids"
    stall_s: float | None = None
    profiled_s: float | None = None
    control: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
