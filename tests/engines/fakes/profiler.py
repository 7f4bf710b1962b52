"""The profiler of a fake engine: which steps it records, when it writes, and under which names."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from tests.engines.fakes import traces
from tests.engines.fakes.scheduler import Scheduler, Step
from tests.engines.fakes.settings import Settings


class Profiler:
    """Records steps between start and stop (or for a number of steps, or an iteration range) and exports them."""

    def __init__(self, framework: str, settings: Settings, ranks: int, log: Any) -> None:
        self.framework, self.settings, self.ranks, self._log = framework, settings, ranks, log
        self.scheduler: Scheduler | None = None
        self._lock = threading.Lock()
        self._steps: list[Step] | None = None
        self._wanted: dict[str, Any] = {}
        self._range: tuple[int, int] | None = None
        self.directory = ""
        window, path = os.environ.get("TLLM_PROFILE_START_STOP"), os.environ.get("TLLM_TORCH_PROFILE_TRACE")
        if framework == "tensorrt_llm" and window and path:
            first, _, last = window.partition("-")
            self._range = (int(first), int(last or first))
            self._path = Path(path)

    @property
    def active(self) -> bool:
        """Whether a recording runs."""
        return self._steps is not None

    def on_step(self, step: Step) -> None:
        """A step ran."""
        if self._range:
            self._in_range(step)
            return
        with self._lock:
            if self._steps is None:
                return
            self._steps.append(step)
            wanted = self._wanted.get("num_steps")
            if not wanted:
                return
            if self._wanted.get("profile_by_stage"):
                kinds = [s.stage for s in self._steps]
                full = min(kinds.count("prefill"), kinds.count("decode")) >= wanted
            else:
                full = len(self._steps) >= wanted
            if full:
                self._finish()

    def _in_range(self, step: Step) -> None:
        assert self._range is not None
        first, last = self._range
        with self._lock:
            if step.index == first:
                self._steps = []
            if self._steps is not None:
                self._steps.append(step)
            if step.index == last and self._steps is not None:
                self._finish()

    def start(self, wanted: dict[str, Any]) -> str | None:
        """Begin; returns why not."""
        with self._lock:
            if self._steps is not None or self.settings.profile_busy:
                return "Profiling is already in progress. Call /stop_profile first."
            self._wanted = wanted
            self._steps = []
            self._log(f"Profiling starts. Traces will be saved to: {self._output()} (with profile id: {self._id()})")
            return None

    def stop(self) -> str | None:
        """End and export; returns why not."""
        with self._lock:
            if self._steps is None:
                return "Profiling is not in progress. Call /start_profile first."
            job = self._finish()
        if not self.settings.late_trace:
            job.join()
        return None

    def _id(self) -> str:
        return str(self._wanted.setdefault("profile_id", None) or self._wanted.setdefault("made_id", str(time.time())))

    def _output(self) -> Path:
        return Path(self._wanted.get("output_dir") or self.directory or "/tmp")

    def _finish(self) -> threading.Thread:
        steps, self._steps = self._steps or [], None
        if self.settings.stall_export and self.scheduler:
            self.scheduler.stalled_until = time.monotonic() + self.settings.stall_export
        job = threading.Thread(target=self._export, args=(steps, dict(self._wanted)), daemon=True)
        job.start()
        return job

    def _export(self, steps: list[Step], wanted: dict[str, Any]) -> None:
        by_stage = bool(wanted.get("profile_by_stage"))
        groups = {"EXTEND": "prefill", "DECODE": "decode"} if by_stage else {"": ""}
        for name, stage in groups.items():
            chosen = [s for s in steps if not stage or s.stage == stage]
            limit = int(wanted.get("num_steps") or self.settings.trace_steps)
            chosen = chosen[: min(limit, self.settings.trace_steps)]
            for rank in range(self.ranks):
                self._write(chosen, name, rank, wanted)
        self._log("Profiling done. Traces are saved.")

    def _write(self, steps: list[Step], stage: str, rank: int, wanted: dict[str, Any]) -> None:
        data = traces.content(
            self.framework, self.settings, steps, rank=rank, world=self.ranks, stack=bool(wanted.get("with_stack"))
        )
        if self._range:
            path = (
                self._path if self.ranks == 1 else self._path.with_name(f"{self._path.stem}-{rank}{self._path.suffix}")
            )
        else:
            identity = str(wanted.get("profile_id") or wanted.get("made_id"))
            path = self._output() / traces.file_name(
                self.framework,
                profile_id=identity,
                stage=stage,
                rank=rank,
                world=self.ranks,
                prefix=str(wanted.get("profile_prefix") or ""),
            )
        traces.write(path, data, self.settings)
