"""How a fake engine behaves: read from FAKE_ENGINE and from `--fake key=value`, both hidden from its help."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields
from typing import Any


@dataclass
class Settings:
    """One fake engine's speed and faults. Times in the unit of their name; counts of 0 mean never."""

    # speed
    ttft_ms: float = 1.0  # cost of a prefill step, before tokens
    prefill_us_per_token: float = 0.0
    itl_ms: float = 0.2  # duration of a decode step
    noise: float = 0.0  # coefficient of variation of a step, and of a modelled benchmark
    seed: int = 0
    speed_file: str = ""  # JSON with any of the three speeds, read at start: a "source file" that a patch can change
    accept_length: float = 0.0  # tokens a decode step of speculative decoding yields; 0: no speculation
    # start
    slow_start: float = 0.0  # seconds until it listens
    hang_start: bool = False  # never listens, never ends
    crash_start: str = ""  # cuda | import | config: dies with that text
    oom_start: bool = False  # dies with the engine's out-of-memory text
    port_in_use: bool = False  # behaves as if the port were taken
    workers: int = 0  # child processes beside the server
    ignore_term: bool = False  # SIGTERM does not end it
    # serving
    crash_after: int = 0  # dies in the n-th request with a CUDA error
    hang_after: int = 0  # from the n-th request on nothing is answered
    error_every: int = 0  # every n-th request answers 500
    sick_after: int = 0  # from the n-th request on /health answers 503
    empty_output: bool = False  # requests end at once without a token
    eos_at: int = 0  # ends after n tokens unless ignore_eos is asked
    reasoning: bool = False  # tokens come as reasoning_content
    # facts
    wrong_model: str = ""  # serves this id instead
    wrong_backend: bool = False  # falls back to another attention backend and says so in the log
    no_cuda_graph: bool = False
    version: str = ""
    # profiles
    no_profile: bool = False  # the profile routes do not exist
    profile_route: bool = False  # TokenSpeed: a build that has them
    late_trace: float = 0.0  # seconds until the file appears
    slow_trace: float = 0.0  # seconds over which the file grows
    no_trace: bool = False  # says yes and writes nothing
    truncated_trace: bool = False
    stall_export: float = 0.0  # seconds in which nothing is served while a trace is exported
    profile_busy: bool = False  # start_profile answers that one is running
    trace_steps: int = 64  # at most so many steps go into one trace
    verify_steps: bool = False  # decode steps appear as TARGET_VERIFY

    @property
    def tokens_per_step(self) -> float:
        """Tokens that one decode step yields a request."""
        return self.accept_length or 1.0


def _value(kind: str, text: str) -> Any:
    if kind == "bool":
        return text.lower() not in ("0", "false", "no", "")
    return {"int": int, "float": float, "str": str}[kind](text)


def read(words: list[str]) -> Settings:
    """Settings from FAKE_ENGINE (words `key=value` or `key`, separated by spaces or commas), then from `words`."""
    settings = Settings()
    kinds = {f.name: str(f.type) for f in fields(Settings)}
    for word in [*os.environ.get("FAKE_ENGINE", "").replace(",", " ").split(), *words]:
        key, _, text = word.partition("=")
        if key not in kinds:
            raise SystemExit(f"fake engine: no setting {key!r}; known: {', '.join(kinds)}")
        setattr(settings, key, _value(kinds[key], text or "1"))
    if settings.speed_file:
        with open(settings.speed_file, encoding="utf-8") as file:
            for key, value in json.load(file).items():
                setattr(settings, key, float(value))
    return settings
