"""One server launch measured: start, wait, load every scenario, record a row for each whatever happens, stop.

The unit of independence is the launch. Each launch leaves its rows (also those that could not be measured, with the
status and the reason), the engine's record and log, and the load generator's own files. The server is stopped in any
case, and only what was started here.
"""

from __future__ import annotations

import os
import secrets
import shlex
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base import contracts, jsonio
from infer_forge.base.errors import ForgeError, GateRefused, InputUnusable
from infer_forge.base.redact import redact, redact_environment
from infer_forge.bench.ledger_rows import RowStore
from infer_forge.bench.search_config import Candidate, SearchConfig
from infer_forge.bench.workload import Workload
from infer_forge.engines import command, frameworks, help_text, http, lifecycle, runner, server_facts
from infer_forge.engines.grammar import ClientPlan

if TYPE_CHECKING:
    from infer_forge.base.contract_model import BenchmarkContract, Scenario
    from infer_forge.bench.model import Row
    from infer_forge.bench.run_layout import Layout
    from infer_forge.engines.env import Environment
    from infer_forge.engines.fingerprint import Fingerprint


@dataclass(frozen=True)
class ClientIdentity:
    """The load generator at hand: name, version and hash of its file. Null where it cannot be told."""

    name: str
    version: str | None
    sha256: str | None


@dataclass
class Session:
    """What all launches of one command share.

    Attributes:
        purpose: `search`, `decision` or `pilot`; carried by every row.
        contract, contract_hash: the locked contract; None only for a pilot.
        fingerprint: of the model's local folder, where there is one. environments: framework -> environment digest.
        helps: framework -> help snapshot.
    """

    layout: Layout
    config: SearchConfig
    store: RowStore
    purpose: str
    contract: BenchmarkContract | None = None
    contract_hash: str | None = None
    workload: Workload | None = None
    client: ClientIdentity | None = None
    fingerprint: Fingerprint | None = None
    environments: dict[str, Environment] = field(default_factory=dict[str, "Environment"])
    helps: dict[str, help_text.Snapshot] = field(default_factory=dict[str, help_text.Snapshot])
    run_id: str | None = None
    grace_s: float = 30.0


@dataclass(frozen=True)
class Task:
    """One run of the load generator inside a launch."""

    scenario: Scenario
    concurrency: int | None
    seed: int
    repeat: int
    slot: int


@dataclass
class Launch:
    """One launch and what came of it. `absent`: the engine is not installed (whole) in that place. `point`: its deployment point."""

    id: str
    candidate: Candidate
    status: str
    reason: str | None
    rows: list[Row]
    seconds: float
    engine_folder: str | None = None
    absent: bool = False
    point: dict[str, Any] = field(default_factory=dict[str, Any])


_MODULE = (
    "import hashlib,importlib.util,sys; s=importlib.util.find_spec(sys.argv[1]); "
    "print(hashlib.sha256(open(s.origin,'rb').read()).hexdigest())"
)


def client_identity(name: str) -> ClientIdentity:
    """The load generator of that name on this machine."""
    known = frameworks.client(name)
    words = ["python3" if w == "python" else w for w in known.launch]
    here = runner.Place()
    try:
        if "-m" in words:
            told = here.run([words[0], "-c", _MODULE, words[words.index("-m") + 1]]).out.strip()
            sha = told if len(told) == 64 else None
        else:
            _, sha = help_text.binary(here, words[0])
        version = help_text.version(here, known.version_argv)
    except ForgeError:
        return ClientIdentity(known.name, None, None)
    return ClientIdentity(known.name, version, sha)


def require_client(contract: BenchmarkContract, found: ClientIdentity) -> None:
    """Refuse another load generator than the contract's, where both state something. Raises `GateRefused`."""
    wanted = contract.client
    for what, want, have in (
        ("name", wanted.name, found.name),
        ("version", wanted.version, found.version),
        ("sha256", wanted.sha256, found.sha256),
    ):
        if want and have and want != have:
            raise GateRefused(
                f"the load generator's {what} is {have}, the contract locked {want}",
                next_step="install the locked version; one client for all",
            )


def free_port() -> int:
    """A port that was free a moment ago on this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def tasks(config: SearchConfig) -> list[Task]:
    """Every run of one launch, in order: scenarios, their concurrencies, the seeds."""
    seeds = len(config.seeds)
    return [
        Task(scenario, concurrency, seed, index, load * seeds + index)
        for scenario in config.grid.scenarios
        for load, concurrency in enumerate(scenario.concurrencies)
        for index, seed in enumerate(config.seeds)
    ]


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
            help_of=session.helps.get(candidate.framework), environment_digest=_digest(session, candidate.framework),
        )  # fmt: skip
    except ForgeError as fault:
        return None, ("failed", f"it could not be started: {fault.what}")
    lifecycle.wait(engine, session.config.budget.start_timeout_s, expect_model=expect)
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
        facts = _annotations(session, candidate, engine, told, task) | dict(place)
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
        facts = _annotations(session, candidate, engine, None, task) | dict(place) | {"started_at": _now()}
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
        done = runner.Place().run(argv, timeout_s=session.config.budget.run_timeout_s)
    except ForgeError as fault:
        row = _empty(session, "failed", f"the load generator could not be started: {fault.what}")
        row.benchmark_command = redact(shlex.join(argv))
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
    row.benchmark_command = redact(shlex.join(argv))
    row.artifacts.raw_result = str(written) if written else None
    return row


def _written(path: Path) -> Path | None:
    if path.is_file():
        return path
    found = sorted(path.parent.glob("profile_export_*.json"))
    return found[-1] if found else None


def plan_of(session: Session, candidate: Candidate, url: str, launch_id: str, task: Task) -> ClientPlan:
    """The plan of one run: the contract's conditions and this server."""
    config, contract = session.config, session.contract
    sampling = contract.sampling if contract else None
    grammar = frameworks.GRAMMARS[candidate.framework]
    served = config.served_model_name if "served_model_name" in grammar.options else None
    view = None
    if session.workload is not None:
        loader = frameworks.client(config.client)
        prompts = session.workload.scenarios[task.scenario.name]
        file = prompts.view(loader.view, task.slot) or prompts.view(loader.view, 0)
        view = str(Path(session.workload.folder) / str(file))
    load = "all" if task.concurrency is None else f"c{task.concurrency}"
    rate = task.scenario.request_rate
    return ClientPlan(
        base_url=url, model=served or config.model, tokenizer=config.tokenizer, input_len=task.scenario.input_len,
        output_len=task.scenario.output_len, num_prompts=task.scenario.num_prompts, concurrency=task.concurrency,
        request_rate=None if rate == "inf" else float(rate), prompts_file=view, endpoint=config.endpoint, seed=task.seed,
        temperature=sampling.temperature if sampling else 0.0, top_p=sampling.top_p if sampling else 1.0,
        ignore_eos=sampling.ignore_eos if sampling else True,
        result=str(session.layout.results / launch_id / f"{task.scenario.name}-{load}-s{task.seed}" / "result.json"),
    )  # fmt: skip


def point_of(session: Session, candidate: Candidate, told: server_facts.ServerFacts | None) -> dict[str, Any]:
    """The deployment point of a row: the contract's, with this candidate as its runtime profile."""
    base = session.contract.point.model_dump(mode="json") if session.contract else {}
    runtime: dict[str, Any] = dict(base.get("runtime_profile") or {})
    runtime |= {
        "framework": candidate.framework,
        "engine_config": {
            "options": candidate.options,
            "flags": candidate.flags,
            "env": redact_environment(candidate.env),
        },
    }
    version = (told.value("version") if told else None) or _help_version(session, candidate.framework)
    environment = session.environments.get(candidate.framework)
    if version:
        runtime["version"] = version
    if environment:
        runtime["environment_digest"] = environment.digest
        runtime["image_digest"] = environment.facts.get("image_digest") or environment.facts.get("image_id")
        runtime["commits"] = environment.facts.get("commits") or {}
    return {**base, "runtime_profile": runtime}


def _digest(session: Session, framework: str) -> str | None:
    environment = session.environments.get(framework)
    return environment.digest if environment else None


def _help_version(session: Session, framework: str) -> str | None:
    taken = session.helps.get(framework)
    return taken.server.version if taken else None


def _annotations(
    session: Session,
    candidate: Candidate,
    engine: lifecycle.Engine | None,
    told: server_facts.ServerFacts | None,
    task: Task,
) -> dict[str, Any]:
    """Row fields that the result file does not know. None is left as it is."""
    config, scenario = session.config, task.scenario
    client = session.client
    words = [*candidate.flags, *candidate.options]
    argv = candidate.command(config, 0) if engine is None else engine.argv
    taken = session.helps.get(candidate.framework)
    prompts = session.workload.scenarios[scenario.name] if session.workload else None
    prefixes = frameworks.GRAMMARS[candidate.framework].environment
    variables = {**{k: v for k, v in os.environ.items() if k.startswith(prefixes)}, **candidate.env}
    sampling = session.contract.sampling if session.contract else None

    environment = session.environments.get(candidate.framework)
    machine: dict[str, Any] = environment.facts if environment else {}
    model = session.fingerprint

    def fact(name: str) -> Any:
        """What the server said, else what its command asked for."""
        seen = told.value(name) if told else None
        return candidate.options.get(name) if seen is None else seen

    return {
        "framework": candidate.framework,
        "framework_version": fact("version") or _help_version(session, candidate.framework),
        "framework_commit": machine.get("commits", {}).get(frameworks.GRAMMARS[candidate.framework].packages[0]),
        "image_digest": machine.get("image_digest") or machine.get("image_id"),
        "candidate_id": candidate.id,
        "model": config.model,
        "lane": session.contract.lane if session.contract else None,
        "run_id": session.run_id,
        "repeat_index": task.repeat,
        "purpose": session.purpose,
        "contract_hash": session.contract_hash,
        "deployment_point_hash": contracts.point_sha256(point_of(session, candidate, told)),
        "hardware.gpu_model": config.gpu.model,
        "hardware.gpu_count": config.gpu.count,
        "hardware.driver_version": machine.get("driver"),
        "hardware.cuda_version": machine.get("cuda"),
        "hardware.visible_devices": variables.get("CUDA_VISIBLE_DEVICES") or os.environ.get("CUDA_VISIBLE_DEVICES"),
        "workload.scenario": scenario.name,
        "workload.dataset_sha256": prompts.sha256 if prompts else None,
        "workload.input_len_label_tokens": float(scenario.input_len),
        "workload.output_len_label_tokens": float(scenario.output_len),
        "workload.num_prompts": scenario.num_prompts,
        "workload.max_concurrency": task.concurrency,
        "workload.endpoint": config.endpoint,
        "workload.seed": task.seed,
        "workload.temperature": sampling.temperature if sampling else 0.0,
        "workload.top_p": sampling.top_p if sampling else 1.0,
        "workload.ignore_eos": sampling.ignore_eos if sampling else True,
        "workload.streaming": True,
        "workload.warmup_requests": 1,
        "spec_decode.enabled": any("specul" in w for w in words),
        "spec_decode.algorithm": fact("speculative_algorithm"),
        "cache.prefix_cache_enabled": fact("prefix_cache"),
        "cache.kv_cache_tokens": fact("kv_cache_tokens"),
        "memory.gpu_memory_utilization": fact("memory_fraction"),
        "memory.kv_cache_dtype": fact("kv_cache_dtype"),
        "identity.served_model": engine.served_models[0] if engine and engine.served_models else None,
        "identity.model_fingerprint": model.sha256 if model else None,
        "identity.tokenizer_sha256": model.tokenizer_sha256 if model else None,
        "identity.chat_template_sha256": model.chat_template_sha256 if model else None,
        "identity.tokenizer": config.tokenizer or config.model,
        "identity.dtype": config.precision,
        "identity.quantization": config.quantization,
        "identity.tensor_parallel": config.tp,
        "identity.pipeline_parallel": config.pp,
        "identity.data_parallel": config.dp,
        "identity.expert_parallel": config.ep,
        "identity.attention_backend": fact("attention_backend"),
        "client.name": client.name if client else None,
        "client.version": client.version if client else None,
        "client.sha256": client.sha256 if client else None,
        "server_command": redact(shlex.join(argv)),
        "server_env": redact_environment(variables),
        "profiler_on": any("profiler" in w for w in argv) or any("PROFILE" in k for k in variables),
        "validated_cli_flags": {c["flag"]: c["state"] for c in engine.flags} if engine else None,
        "artifacts.server_log": engine.log if engine else None,
        "artifacts.server_help_sha256": taken.server.sha256 if taken else None,
        "artifacts.server_binary_help_sha256": taken.server.sha256 if taken and engine else None,
    }


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
