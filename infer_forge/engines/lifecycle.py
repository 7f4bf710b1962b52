"""The one recordable way to run an engine: start, wait for health, tell what it is, stop only what was started.

Every start leaves `engine.json` in a folder of its own, beside the log: exact command, variables (secrets taken out),
place, process with proof, help and environment hashes, health, models served, how it ended. Whoever has that file can
watch and stop the engine from another process.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

from infer_forge.base import jsonio
from infer_forge.base.errors import ForgeError, GateRefused, InputUnusable, UsageFault
from infer_forge.base.paths import paths
from infer_forge.base.redact import redact_arguments, redact_environment
from infer_forge.engines import frameworks, help_text, http, runner, server_facts
from infer_forge.engines.command import Shape, check_shape

RECORD = "engine.json"
STARTING, HEALTHY, STOPPED, GONE = "starting", "healthy", "stopped", "gone"
FAILURES = ("oom", "port_in_use", "missing_part", "bad_config", "crash", "timeout", "wrong_model", "failed")
"""Ways in which a start fails; `row_status` maps them to the statuses of a benchmark row."""

_FACTS_BYTES = 4 << 20
"""How much of a log's start and end is read for facts: a server states them when it starts."""

_PRIORITY = ("oom", "port_in_use", "missing_part", "crash", "bad_config")


@dataclass
class Engine:
    """An engine that was started, `argv` and `env` without secrets.

    `status`: starting, healthy, stopped, gone, or one of `FAILURES` with its `reason`.
    """

    id: str
    framework: str
    argv: list[str]
    env: dict[str, str]
    place: str
    url: str
    log: str
    process: dict[str, Any]
    started_at: str
    folder: str
    status: str = STARTING
    reason: str | None = None
    model: str | None = None
    served_models: list[str] = field(default_factory=list[str])
    healthy_after_s: float | None = None
    flags: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    help_sha256: str | None = None
    environment_digest: str | None = None
    command_sha256: str = ""
    run_id: str | None = None
    stopped: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)

    @property
    def proof(self) -> runner.Process:
        """The process with its proof."""
        return runner.Process.of(self.process)

    def save(self) -> None:
        """Write the record."""
        jsonio.write_atomic(Path(self.folder) / RECORD, jsonio.dumps(self.to_json(), indent=True) + b"\n")


def row_status(status: str) -> str:
    """The benchmark row status of an engine's failure: oom, timeout or failed."""
    return status if status in ("oom", "timeout") else "failed"


def load(path: str | Path) -> Engine:
    """An engine by its record file, its folder, or its id. Raises `InputUnusable` when there is none."""
    place = Path(path)
    if not place.exists() and "/" not in str(path):
        place = paths().state / "engines" / str(path)
    if place.is_dir():
        place = place / RECORD
    raw = jsonio.read_json(place)
    try:
        known = {k: v for k, v in cast("dict[str, Any]", raw).items() if k in Engine.__dataclass_fields__}
        engine = Engine(**known)
    except (TypeError, AttributeError):
        raise InputUnusable("is no record of an engine", where=str(place)) from None
    if engine.process:
        runner.Process.of(engine.process)
    return engine


def _url(place: runner.Place, shape: Shape) -> str:
    if shape.port is None:
        port = frameworks.GRAMMARS[shape.framework].options["port"]
        raise UsageFault("the command names no port", next_step=f"add {port} N, so that two engines never meet")
    return f"http://{place.host.rpartition('@')[2] if place.host else '127.0.0.1'}:{shape.port}"


def start(
    argv: Sequence[str],
    *,
    place: str = "local",
    folder: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    url: str | None = None,
    help_of: help_text.Snapshot | None = None,
    allow_flags: Sequence[str] = (),
    run_id: str | None = None,
    environment_digest: str | None = None,
) -> Engine:
    """Start an engine and record it; it is not waited for (`wait`).

    Args:
        argv: launch command of an allowed shape, naming its port.
        folder: where record and log go (default: the state folder). Remote logs lie in the place's /tmp.
        url: where it will answer, when not at its host and port.
        help_of: the help its flags are held against.
        allow_flags: flags accepted though the help does not name them.

    Raises:
        GateRefused: the shape is not allowed, a flag is unknown, or somebody answers on that port already.
        MissingPart: the program or place is not there.
    """
    where = runner.place(place)
    shape = check_shape(argv)
    help_text.refuse_unverified_alias(shape, help_of)
    checks = help_text.check_flags(shape.words, help_of.server if help_of else None)
    help_text.refuse_unknown(checks, where=f"{shape.framework} server", allowed=allow_flags)
    address = url or _url(where, shape)
    _refuse_taken(address)
    identity = f"{shape.framework}-{datetime.now(timezone.utc):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
    home = (Path(folder) if folder else paths().state / "engines") / identity
    home.mkdir(parents=True)
    log = str(home / "server.log") if where.is_local else f"/tmp/infer-forge-engines/{identity}.log"
    variables = {**(env or {}), "INFER_FORGE_ENGINE_ID": identity}
    engine = Engine(
        id=identity,
        framework=shape.framework,
        argv=redact_arguments(argv),
        env=redact_environment(dict(env or {})),
        place=where.spec,
        url=address,
        log=log,
        process={},
        started_at=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        folder=str(home),
        model=shape.model,
        flags=[asdict(c) for c in checks],
        help_sha256=help_of.sha256() if help_of else None,
        environment_digest=environment_digest,
        command_sha256=jsonio.sha256_of([list(argv), sorted((env or {}).items())]),
        run_id=run_id,
    )
    try:
        process = where.start(argv, log=log, env=variables, cwd=cwd)
    except ForgeError as fault:
        engine.status, engine.reason = _failure(engine)
        engine.reason = engine.reason or fault.what
        engine.save()
        if isinstance(fault, InputUnusable):
            return engine
        raise
    engine.process = process.to_json()
    try:
        engine.save()
        _record_birth(engine, process)
    except BaseException:
        stop(engine, grace_s=5, machine_state=False)
        raise
    return engine


def _refuse_taken(url: str) -> None:
    if http.call(f"{url}/health", timeout_s=1.0).status:
        raise GateRefused(
            "somebody answers there already", where=url, next_step="choose another port; nothing was started or stopped"
        )


def _record_birth(engine: Engine, process: runner.Process) -> None:
    if not runner.place(engine.place).is_local:
        return  # a pid of another machine or pid namespace would be taken for one of ours
    from infer_forge.base import ownership

    try:
        ownership.record_birth(
            process.pid,
            launcher="engine start",
            run_id=engine.run_id,
            detail={"engine": engine.id, "folder": engine.folder},
        )
    except UsageFault:
        return  # it ended already; `wait` says how


def _failure(engine: Engine) -> tuple[str, str | None]:
    """(kind, line) of what the log says of a failed start."""
    text = runner.place(engine.place).read_tail(engine.log, 1 << 20)
    found = server_facts.facts_of_log(text, engine.framework, where=engine.log).failures
    for kind in _PRIORITY:
        for fact in found:
            if fact.name == kind:
                return kind, str(fact.value)
    last = [line for line in text.splitlines() if line.strip()][-1:]
    return "failed", last[0].strip()[:400] if last else None


def wait(engine: Engine, timeout_s: float = 1800.0, *, expect_model: str | None = None) -> Engine:
    """Wait until the engine is healthy, it failed, or the time is over; the record is kept up to date.

    Health is: its own process lives, its health route answers 200, and (where it can be seen) its own processes hold the
    port. `expect_model`: another served model is `wrong_model`.
    """
    if engine.status != STARTING or not engine.process:
        return engine
    grammar = frameworks.GRAMMARS[engine.framework]
    begin = time.monotonic()
    pause = 0.02
    while True:
        lives = runner.alive(engine.proof)
        if not lives:
            engine.status, engine.reason = _failure(engine)
            break
        if http.call(f"{engine.url}{grammar.health}", timeout_s=5.0).status == 200 and runner.alive(engine.proof):
            engine.healthy_after_s = round(time.monotonic() - begin, 3)
            _look(engine, expect_model)
            break
        if time.monotonic() - begin > timeout_s:
            kind, line = _failure(engine)
            engine.status = "timeout" if kind == "failed" else kind
            engine.reason = f"not healthy after {timeout_s:g} s" + (f"; its log says: {line}" if line else "")
            break
        time.sleep(pause)
        pause = min(pause * 1.3, 1.0)
    engine.save()
    return engine


def _look(engine: Engine, expect_model: str | None) -> None:
    engine.status = HEALTHY
    foreign = _foreign_listener(engine)
    if foreign is not None:
        engine.status, engine.reason = (
            "port_in_use",
            f"the port is held by process {foreign}, which is not this engine's",
        )
        return
    engine.served_models = served_models(engine.url)
    if expect_model is not None and expect_model not in engine.served_models:
        engine.status = "wrong_model"
        engine.reason = f"it serves {', '.join(engine.served_models) or 'no model'}, not {expect_model}"


def served_models(url: str) -> list[str]:
    """Ids that /v1/models lists; empty when it does not tell."""
    data: Any = http.call(f"{url}/v1/models").json()
    rows: Any = cast("dict[str, Any]", data).get("data") if isinstance(data, dict) else None
    return [str(cast("dict[str, Any]", r).get("id")) for r in cast("list[Any]", rows or []) if isinstance(r, dict)]


def _foreign_listener(engine: Engine) -> int | None:
    """Pid that holds the engine's port without being of its family; None: its own, or it cannot be seen."""
    if not runner.place(engine.place).is_local:
        return None
    import psutil

    port = int(engine.url.rsplit(":", 1)[1])
    try:
        holders = {
            c.pid
            for c in psutil.net_connections("tcp")
            if c.status == psutil.CONN_LISTEN and c.laddr and c.laddr[1] == port
        }
    except (psutil.Error, OSError):
        return None
    own = {s.pid for s in runner.family(engine.proof)}
    strangers = [p for p in holders if p is not None and p not in own]
    return strangers[0] if strangers and not holders & own else None


def health(engine: Engine) -> dict[str, Any]:
    """How the engine is now: process, health route, load. Status `gone` when its process ended by itself."""
    if not engine.process:
        return {"status": engine.status, "reason": engine.reason, "alive": False, "http": None}
    lives = runner.alive(engine.proof)
    answer = http.call(f"{engine.url}{frameworks.GRAMMARS[engine.framework].health}") if lives else None
    status = engine.status
    reason = engine.reason
    if status in (STARTING, HEALTHY):
        if not lives:
            kind, reason = _failure(engine)
            status = GONE if kind == "failed" else kind
        else:
            status = (
                HEALTHY if answer and answer.status == 200 else STARTING if engine.healthy_after_s is None else "sick"
            )
            reason = (
                None if status == HEALTHY else (answer.reason or f"health answers {answer.status}" if answer else None)
            )
    return {"status": status, "reason": reason, "alive": lives, "http": answer.status if answer else None}


def logs(engine: Engine, size_bytes: int = 65536) -> str:
    """The end of its log."""
    return runner.place(engine.place).read_tail(engine.log, size_bytes)


def facts(engine: Engine) -> server_facts.ServerFacts:
    """What its log says of it, and its arguments route where it has one."""
    where = runner.place(engine.place)
    head, tail = where.read_head(engine.log, _FACTS_BYTES), where.read_tail(engine.log, _FACTS_BYTES)
    text = head if len(head) < _FACTS_BYTES else f"{head}\n{tail}"
    found = server_facts.facts_of_log(text, engine.framework, where=engine.log)
    route = frameworks.GRAMMARS[engine.framework].facts_route
    raw: Any = http.call(f"{engine.url}{route}").json() if route else None
    if isinstance(raw, dict):
        told = server_facts.facts_of_args(cast("dict[str, Any]", raw), engine.framework, where=f"{engine.url}{route}")
        for name, fact in told.facts.items():
            found.facts.setdefault(name, fact)
    return found


def stop(engine: Engine, *, grace_s: float = 30.0, machine_state: bool = True) -> Engine:
    """Stop the engine and everything that it started, and nothing else; the state before and after is kept (A67, A69).

    An engine that ended already, another process with its pid, or another boot: nothing is signalled.
    """
    if engine.status == STOPPED or not engine.process:
        return engine
    before = _machine() if machine_state else None
    failed = engine.status if engine.status in FAILURES else None
    done = runner.stop(engine.proof, grace_s=grace_s)
    engine.stopped = {
        "at": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "ended": [{"pid": s.pid, "name": s.name, "start_ticks": s.start_ticks} for s in done.before],
        "killed": done.killed,
        "left": [s.pid for s in done.left],
        "seconds": round(done.seconds, 3),
        "answers_still": http.call(f"{engine.url}/health", timeout_s=1.0).status != 0,
        "machine_before": before,
        "machine_after": _machine() if machine_state else None,
    }
    if not done.left and failed is None:
        engine.status = STOPPED
    engine.save()
    if not done.left and runner.place(engine.place).is_local:
        from infer_forge.base import ownership

        ownership.disown("pid", str(engine.proof.pid), run_id=engine.run_id)
    return engine


def _machine() -> dict[str, Any] | None:
    if not any(os.path.exists(p) for p in ("/dev/nvidiactl", "/dev/kfd")):
        return None
    from infer_forge.base.machine import snapshot

    return snapshot().to_json()


def listed(folder: str | Path | None = None) -> list[Engine]:
    """Every recorded engine under a folder (default: the state folder), oldest first."""
    root = Path(folder) if folder else paths().state / "engines"
    found = [load(p) for p in sorted(root.glob(f"*/{RECORD}"))]
    return sorted(found, key=lambda e: e.started_at)
