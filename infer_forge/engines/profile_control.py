"""Taking torch profiles from a running engine, the way its framework allows; nothing is invented (A114-A116).

`detect` asks the server what it offers without starting anything; `start` and `stop` do it where HTTP does; for the others
`launch_flags` and `launch_env` say what the launch needs. Finding complete files is the capture's business: `patterns` and
`directory` say where they come.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from infer_forge.base.errors import InputUnusable, MissingPart
from infer_forge.engines import frameworks, http
from infer_forge.engines.grammar import Profile

HTTP, LAUNCH_ENV, RUN_DIRECTORY, NONE = "http", "launch_env", "run_directory", "none"
_LOAD = re.compile(
    r"^\S*(num_running_reqs|num_requests_running|num_running|num_queue_reqs|num_requests_waiting|num_waiting)\b"
    r"[^ ]* ([\d.eE+-]+)$",
    re.MULTILINE,
)


class ProfileRefused(InputUnusable):
    """The engine refused to start a profile: none of ours runs, so there is none of ours to stop."""


@dataclass(frozen=True)
class Capabilities:
    """What a running engine offers.

    Attributes:
        way: `http`, `launch_env` (its launch named iterations and file), `run_directory`, or `none`.
        by_stage: whether it separates prefill and decode itself. counts_steps: whether it stops by itself.
        directory: where its files come, when the launch fixed it; None: the start request says, or nobody knows.
        patterns: names of its files.
        reason: what was seen. next_step: what to do when `way` is none. note: what goes wrong with it.
    """

    framework: str
    way: str
    by_stage: bool
    counts_steps: bool
    directory: str | None
    patterns: tuple[str, ...]
    reason: str
    next_step: str = ""
    note: str = ""


def offers(url: str, route: str, *, timeout_s: float = 5.0) -> bool | None:
    """Whether a server has a route, without calling it: its route list, else the answer to OPTIONS. None: cannot tell.

    GET is never used: some servers start a profile on it.
    """
    listing: Any = http.call(f"{url}/openapi.json", timeout_s=timeout_s).json()
    known: Any = cast("dict[str, Any]", listing).get("paths") if isinstance(listing, dict) else None
    if isinstance(known, dict):
        return route in known
    status = http.call(f"{url}{route}", method="OPTIONS", timeout_s=timeout_s).status
    if status in (200, 204, 405):
        return True
    return False if status == 404 else None


def detect(
    framework: str,
    url: str | None,
    *,
    argv: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    directory: str | None = None,
) -> Capabilities:
    """What this engine offers now.

    Args:
        url: its address; None for an engine that is not asked.
        argv, env: its launch, when known (an engine record has them).
        directory: its run directory, for frameworks that leave traces there.

    Raises:
        InputUnusable: the server does not answer.
    """
    grammar = frameworks.grammar(framework)
    profile = grammar.profile
    variables = env or {}
    told = variables.get(profile.directory_variable or "") or _told_directory(argv)
    if profile.control == LAUNCH_ENV:
        return _from_launch(grammar.name, profile, variables)
    live = None
    if url is not None and profile.start_route:
        if http.call(f"{url}{grammar.health}").status == 0:
            raise InputUnusable("the server does not answer", where=url, next_step="start it, or correct the address")
        live = offers(url, profile.start_route)
    if live:
        return _made(grammar.name, HTTP, profile, told, "the server has the profile routes")
    if profile.control == RUN_DIRECTORY:
        place = directory or told
        if place:
            return _made(
                grammar.name, RUN_DIRECTORY, profile, place, "no profile route; traces of its run directory are read"
            )
        return _made(
            grammar.name,
            NONE,
            profile,
            None,
            "no profile route and no run directory",
            f"start it with {profile.directory_variable}=DIR, or name its run directory",
        )
    wish = (
        f"start it with {' '.join(profile.launch_flags('DIR'))}"
        if profile.launch_flags
        else "use a build that has the routes"
    )
    seen = (
        "the server has no profile routes"
        if live is False
        else "the server does not tell whether it has profile routes"
    )
    return _made(grammar.name, NONE, profile, told, seen, wish)


def _made(
    framework: str, way: str, profile: Profile, directory: str | None, reason: str, step: str = ""
) -> Capabilities:
    by_stage = profile.by_stage and way == HTTP
    return Capabilities(
        framework, way, by_stage, profile.counts_steps, directory, profile.patterns, reason, step, profile.note
    )


def _from_launch(framework: str, profile: Profile, env: Mapping[str, str]) -> Capabilities:
    wanted = profile.launch_env("FILE", 100, 150) if profile.launch_env else {}
    if all(env.get(k) for k in wanted):
        target = next((env[k] for k, v in wanted.items() if v == "FILE"), None)
        window = ", ".join(f"{k}={env[k]}" for k in wanted)
        return _made(framework, LAUNCH_ENV, profile, target, f"its launch had {window}")
    step = "start it with " + " ".join(f"{k}={v}" for k, v in wanted.items())
    return _made(
        framework,
        NONE,
        profile,
        None,
        "it is profiled by variables of its launch, and this launch is not known to have them",
        step,
    )


def _told_directory(argv: Sequence[str]) -> str | None:
    match = re.search(r'torch_profiler_dir["\']?\s*[:=]\s*["\']?([^"\'},\s]+)', " ".join(argv))
    return match.group(1) if match else None


def launch_flags(framework: str, directory: str) -> list[str]:
    """Flags that a launch needs so that profiles can be taken later; empty where none are needed."""
    make = frameworks.grammar(framework).profile.launch_flags
    return make(directory) if make else []


def launch_env(framework: str, target: str, first: int, last: int) -> dict[str, str]:
    """Variables that a launch needs: for an iteration range and a trace file (or folder); empty where none are needed."""
    make = frameworks.grammar(framework).profile.launch_env
    return make(target, first, last) if make else {}


def start(offer: Capabilities, url: str, wish: Mapping[str, object], *, timeout_s: float = 60.0) -> dict[str, Any]:
    """Start a profile over HTTP; returns the request and the answer, for the record.

    `wish`: output_dir, num_steps, profile_by_stage, with_stack, record_shapes, activities, start_step, profile_id,
    profile_prefix. What this framework cannot do is not sent.

    Raises:
        MissingPart: this engine has no such way. InputUnusable: it refused, or did not answer.
    """
    if offer.way != HTTP:
        raise MissingPart(
            f"no profile can be started here: {offer.reason}", where=url, next_step=offer.next_step or None
        )
    profile = frameworks.GRAMMARS[offer.framework].profile
    body = profile.request(wish) if profile.request else None
    answer = http.call(f"{url}{profile.start_route}", method="POST", body=body, timeout_s=timeout_s)
    if answer.status != 200:
        raise (InputUnusable if answer.status == 0 else ProfileRefused)(
            f"start_profile answered {_said(answer)}",
            where=url,
            next_step="stop a running profile first, then start again",
        )
    return {"route": profile.start_route, "request": body, "status": answer.status, "answer": _said(answer)}


def stop(offer: Capabilities, url: str, *, timeout_s: float = 1800.0) -> dict[str, Any]:
    """Stop a profile over HTTP; it may take minutes (files are exported before the answer). Never raises for a refusal.

    `stopped` is true when the engine said so or said that none was running; None when it did not answer.
    """
    profile = frameworks.GRAMMARS[offer.framework].profile
    if offer.way != HTTP:
        return {"route": None, "status": None, "stopped": None, "answer": offer.reason}
    answer = http.call(f"{url}{profile.stop_route}", method="POST", timeout_s=timeout_s)
    said = _said(answer)
    idle = bool(re.search(r"not (?:in progress|started|running|initialized)", said))
    stopped = None if answer.status == 0 else answer.status == 200 or idle
    return {"route": profile.stop_route, "status": answer.status or None, "stopped": stopped, "answer": said}


def _said(answer: http.Answer) -> str:
    if answer.status == 0:
        return f"nothing: {answer.reason}"
    return f"{answer.status} {answer.body[:300].decode('utf-8', 'replace').strip()}".strip()


def load(url: str) -> tuple[int | None, int | None]:
    """(running, waiting) requests by the metrics route; None where it does not tell."""
    answer = http.call(f"{url}/metrics")
    running = waiting = None
    if answer.status == 200:
        for name, value in _LOAD.findall(answer.body.decode("utf-8", "replace")):
            number = int(float(value))
            if "run" in name:
                running = (running or 0) + number
            else:
                waiting = (waiting or 0) + number
    return running, waiting
