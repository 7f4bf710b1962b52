"""One server launch measured: start, wait, load every scenario, record a row for each whatever happens, stop.

The unit of independence is the launch. Each launch leaves its rows (also those that could not be measured, with the
status and the reason), the engine's record and log, and the load generator's own files. The server is stopped in any
case, and only what was started here.
"""

from __future__ import annotations

import secrets
import shlex
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base import contracts, jsonio
from infer_forge.base.errors import ForgeError, InputUnusable
from infer_forge.base.redact import redact, redact_arguments
from infer_forge.bench.row_facts import conditions, environment_digest, plan_of, point_of
from infer_forge.bench.search_config import Candidate, SearchConfig
from infer_forge.bench.session import Launch, Session, Task, free_port, tasks
from infer_forge.engines import command, frameworks, http, lifecycle, profile_lock, runner

if TYPE_CHECKING:
    from infer_forge.bench.model import Row
    from infer_forge.bench.run_layout import Layout


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def measure(
    session: Session, candidate: Candidate, *, block_id: str | None = None, block_position: int | None = None
) -> Launch:
    """Measure one launch of a candidate; every row is on disk when this returns. Never raises for what the engine does."""
    launch_id = f"{candidate.framework}-{datetime.now(timezone.utc):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
    session.store.event(
        "launch_begins", launch_id=launch_id, candidate_id=candidate.id, candidate=candidate.name, framework=candidate.framework,
        purpose=session.purpose, contract_hash=session.contract_hash, block_id=block_id,
    )  # fmt: skip
    place = {"launch_id": launch_id, "block_id": block_id, "block_position": block_position}
    begin = time.monotonic()
    engine: lifecycle.Engine | None = None
    launch = Launch(
        launch_id, candidate, "ok", None, [], 0.0, point=contracts.normal(point_of(session, candidate, None))
    )
    try:
        engine, fault = _begin(session, candidate)
        if engine is not None:
            launch.engine_folder = engine.folder
        if fault is not None or engine is None:
            launch.status, launch.reason = fault or ("failed", "it did not start")
            launch.absent = "No such file" in launch.reason or launch.reason.startswith("missing_part")
            _give_up(session, candidate, engine, place, launch, tasks(session.config))
        else:
            _load_all(session, candidate, engine, place, launch)
    finally:
        if engine is not None:
            lifecycle.stop(engine, grace_s=session.grace_s)
        launch.seconds = time.monotonic() - begin
        session.store.event(
            "launch_ends", launch_id=launch_id, candidate_id=candidate.id, framework=candidate.framework, purpose=session.purpose,
            contract_hash=session.contract_hash, status=launch.status, reason=launch.reason, rows=len(launch.rows),
            seconds=round(launch.seconds, 3), complete=len(launch.rows) == len(tasks(session.config)), absent=launch.absent,
            candidate=candidate.name, point=launch.point, deployment_point_hash=contracts.point_sha256(launch.point),
        )  # fmt: skip
    return launch


def _begin(session: Session, candidate: Candidate) -> tuple[lifecycle.Engine | None, tuple[str, str] | None]:
    """(the engine, why it is not healthy)."""
    entry = session.config.engine(candidate.framework)
    argv = candidate.command(session.config, free_port())
    model = session.config.served_model_name
    nameable = "served_model_name" in frameworks.GRAMMARS[candidate.framework].options
    expect = (model or session.config.model) if nameable else None
    try:
        engine = lifecycle.start(
            argv, place=entry.place, url=entry.address(argv), folder=session.layout.engines, env=candidate.env,
            help_of=session.helps.get(candidate.framework), environment_digest=environment_digest(session, candidate.framework),
        )  # fmt: skip
    except ForgeError as fault:
        return None, ("failed", f"it could not be started: {fault.what}")
    try:
        lifecycle.wait(engine, session.config.budget.start_timeout_s, expect_model=expect)
    except BaseException:
        lifecycle.stop(engine, grace_s=session.grace_s)  # interrupted while it starts: nobody else knows it yet
        raise
    if engine.status != lifecycle.HEALTHY:
        return engine, (lifecycle.row_status(engine.status), f"{engine.status}: {engine.reason}")
    return engine, None


def _load_all(
    session: Session, candidate: Candidate, engine: lifecycle.Engine, place: Mapping[str, Any], launch: Launch
) -> None:
    """Run every task; when the engine dies, the rest is recorded as not measured."""
    from infer_forge.bench.host_audit import gpu_state, host_audit
    from infer_forge.bench.read import annotate

    todo = tasks(session.config)
    told = lifecycle.facts(engine)
    launch.point = contracts.normal(point_of(session, candidate, told))
    asked: set[str] = set()
    for index, task in enumerate(todo):
        fresh = session.workload is not None and task.slot < session.workload.scenarios[task.scenario.name].slots
        flushed = None if fresh or task.scenario.name not in asked else _flush(engine)
        own = [s.pid for s in runner.family(engine.proof)] if runner.place(engine.place).is_local else []
        before, started, host = gpu_state(own), _now(), host_audit()
        row = _run(session, candidate, engine, launch.id, task)
        facts = conditions(session, candidate, engine, told, task) | dict(place)
        facts |= {"started_at": started, "host": host, "gpu_before": before, "gpu_after": gpu_state(own)}
        facts["workload.prompts_unique"] = True if fresh else None
        facts["workload.cache_flushed"] = flushed
        asked.add(task.scenario.name)
        known = {k: v for k, v in facts.items() if v is not None}
        annotate(row, known)
        session.store.add([row])
        launch.rows.append(row)
        now = lifecycle.health(engine)
        if not now["alive"]:
            launch.status = lifecycle.row_status(str(now["status"]))
            launch.reason = f"the engine died: {now['status']}: {now['reason']}"
            _give_up(session, candidate, engine, place, launch, todo[index + 1 :])
            return
    bad = [r for r in launch.rows if r.status != "ok"]
    if bad:
        launch.status, launch.reason = bad[0].status, bad[0].failure_reason


def _flush(engine: lifecycle.Engine) -> bool | None:
    route = frameworks.GRAMMARS[engine.framework].flush_route
    if route is None:
        return None
    return http.call(f"{engine.url}{route}", method="POST", timeout_s=30).status == 200


def _give_up(
    session: Session,
    candidate: Candidate,
    engine: lifecycle.Engine | None,
    place: Mapping[str, Any],
    launch: Launch,
    todo: list[Task],
) -> None:
    """A row for every run that could not be made: nothing is ever dropped."""
    from infer_forge.bench.read import annotate

    for task in todo:
        row = _empty(session, launch.status, launch.reason or "not measured")
        facts = conditions(session, candidate, engine, None, task) | dict(place) | {"started_at": _now()}
        annotate(row, {k: v for k, v in facts.items() if v is not None})
        session.store.add([row])
        launch.rows.append(row)


def _empty(session: Session, status: str, reason: str) -> Row:
    from infer_forge.bench.model import Row

    return Row.model_validate(
        {
            "tool": frameworks.client(session.config.client).name,
            "status": status,
            "failure_reason": redact(reason)[:2000],
        }
    )


def _run(session: Session, candidate: Candidate, engine: lifecycle.Engine, launch_id: str, task: Task) -> Row:
    """One run of the load generator: its row, or a failed one with the reason."""
    from infer_forge.bench.read import import_file

    plan = plan_of(session, candidate, engine.url, launch_id, task)
    argv = command.client_command(session.config.client, plan)
    Path(plan.result).parent.mkdir(parents=True, exist_ok=True)
    try:
        profile_lock.refuse_while_active(engine.url, "a benchmark")
        done = runner.Place().run(argv, timeout_s=session.config.budget.run_timeout_s)
    except ForgeError as fault:
        row = _empty(session, "failed", f"the load generator was not started: {fault.what}")
        row.benchmark_command = shlex.join(redact_arguments(argv))
        return row
    Path(f"{plan.result}.log").write_text(redact(done.out + done.err), encoding="utf-8")
    written = _written(Path(plan.result))
    if done.timed_out:
        row = _empty(
            session, "timeout", f"the load generator did not end within {session.config.budget.run_timeout_s:g} s"
        )
    elif done.code or written is None:
        last = (done.err.strip() or done.out.strip() or "it said nothing").splitlines()[-1]
        row = _empty(
            session,
            "failed",
            f"the load generator ended with {done.code} and {'a' if written else 'no'} result: {last}",
        )
    else:
        try:
            row = import_file(written).rows[-1]
        except InputUnusable as fault:
            row = _empty(session, "failed", f"its result cannot be used: {fault.what}")
    row.benchmark_command = shlex.join(redact_arguments(argv))
    row.artifacts.raw_result = str(written) if written else None
    return row


def _written(path: Path) -> Path | None:
    if path.is_file():
        return path
    found = sorted(path.parent.glob("profile_export_*.json"))
    return found[-1] if found else None


def orphans(layout: Layout, *, grace_s: float = 30.0) -> list[str]:
    """Stop engines of this run that an earlier, killed command left behind; their ids. Only what its records prove."""
    stopped: list[str] = []
    if not layout.engines.exists():
        return stopped
    for engine in lifecycle.listed(layout.engines):
        if (
            engine.status != lifecycle.STOPPED
            and engine.process
            and engine.stopped is None
            and runner.family(engine.proof)
        ):
            lifecycle.stop(engine, grace_s=grace_s)
            stopped.append(engine.id)
    return stopped


def plan_hash(config: SearchConfig) -> str:
    """Hash of a configuration, for the record of a search."""
    return jsonio.sha256_of(contracts.normal(config.model_dump(mode="json", by_alias=True)))
