"""A small continuous-batching scheduler: prefill steps, then decode steps that give every running request a token."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.engines.fakes.settings import Settings


@dataclass
class Request:
    """One request on its way: how many tokens it wants, and the queue on which they arrive (None ends it)."""

    prompt_tokens: int
    max_tokens: int
    made: int = 0
    out: queue.SimpleQueue[int | None] = field(default_factory=queue.SimpleQueue[int | None])


@dataclass(frozen=True)
class Step:
    """One step that ran: its kind, batch, new tokens, and when (seconds since start, and seconds long)."""

    index: int
    stage: str
    batch: int
    tokens: int
    at: float
    seconds: float


class Scheduler(threading.Thread):
    """Runs steps while there is work; `on_step` is told of each (the profiler listens there)."""

    def __init__(self, settings: Settings, on_step: Callable[[Step], None]) -> None:
        super().__init__(daemon=True)
        self.settings = settings
        self._on_step = on_step
        self._waiting: deque[Request] = deque()
        self._running: list[Request] = []
        self._work = threading.Condition()
        self._random = random.Random(settings.seed)
        self._born = time.perf_counter()
        self.steps = 0
        self.stalled_until = 0.0

    def submit(self, request: Request) -> None:
        """Queue a request."""
        with self._work:
            self._waiting.append(request)
            self._work.notify()

    @property
    def load(self) -> tuple[int, int]:
        """(running, waiting) requests."""
        return len(self._running), len(self._waiting)

    def _spend(self, seconds: float) -> float:
        noise = self.settings.noise
        seconds *= max(0.05, self._random.gauss(1.0, noise)) if noise else 1.0
        time.sleep(seconds)
        return seconds

    def _step(self, stage: str, batch: int, tokens: int, seconds: float) -> None:
        at = time.perf_counter() - self._born
        spent = self._spend(seconds)
        self.steps += 1
        self._on_step(Step(self.steps, stage, batch, tokens, at, spent))

    def run(self) -> None:
        """Serve for ever."""
        settings = self.settings
        while True:
            with self._work:
                while not self._waiting and not self._running:
                    self._work.wait()
                fresh = list(self._waiting)
                self._waiting.clear()
            pause = self.stalled_until - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            if fresh:
                tokens = sum(r.prompt_tokens for r in fresh)
                cost = settings.ttft_ms / 1e3 + tokens * settings.prefill_us_per_token / 1e6
                self._step("prefill", len(fresh), tokens, cost)
                self._running.extend(fresh)
            else:
                per = settings.tokens_per_step
                self._step("decode", len(self._running), round(len(self._running) * per), settings.itl_ms / 1e3)
            self._hand_out(bool(fresh), fresh)

    def _hand_out(self, prefill: bool, fresh: list[Request]) -> None:
        for request in fresh if prefill else list(self._running):
            count = 1
            if not prefill and self.settings.accept_length:
                whole, part = divmod(self.settings.accept_length, 1)
                count = int(whole) + (self._random.random() < part)
            count = min(count, request.max_tokens - request.made)
            if count > 0:
                request.made += count
                request.out.put(count)
            if request.made >= request.max_tokens:
                request.out.put(None)
                self._running.remove(request)
