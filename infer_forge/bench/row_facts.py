"""What a row carries beside the result file: the plan of its run, its deployment point, and every condition that was seen."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from infer_forge.base import contracts
from infer_forge.base.redact import redact_arguments, redact_environment
from infer_forge.bench.search_config import Candidate
from infer_forge.bench.session import Session, Task
from infer_forge.engines import frameworks, lifecycle, server_facts
from infer_forge.engines.grammar import ClientPlan


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


def environment_digest(session: Session, framework: str) -> str | None:
    """Digest of the environment in which a framework runs; None when it was not told."""
    environment = session.environments.get(framework)
    return environment.digest if environment else None


def _help_version(session: Session, framework: str) -> str | None:
    taken = session.helps.get(framework)
    return taken.server.version if taken else None


def launch_of(session: Session, candidate: Candidate, argv: list[str] | None = None) -> tuple[str, dict[str, str]]:
    """Command and the engine's own variables of a launch, as rows carry them. `argv`: as it was launched, if it was."""
    prefixes = frameworks.GRAMMARS[candidate.framework].environment
    variables = {**{k: v for k, v in os.environ.items() if k.startswith(prefixes)}, **candidate.env}
    words = candidate.command(session.config, 0) if argv is None else argv
    return shlex.join(redact_arguments(words)), redact_environment(variables)


def conditions(
    session: Session,
    candidate: Candidate,
    engine: lifecycle.Engine | None,
    told: server_facts.ServerFacts | None,
    task: Task,
) -> dict[str, Any]:
    """Row fields that the result file does not know. None is left as it is."""
    config = session.config
    client = session.client
    words = [*candidate.flags, *candidate.options]
    argv = candidate.command(config, 0) if engine is None else engine.argv
    taken = session.helps.get(candidate.framework)
    server_command, variables = launch_of(session, candidate, argv)
    environment = session.environments.get(candidate.framework)
    machine: dict[str, Any] = environment.facts if environment else {}

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
        **_workload(session, task),
        "spec_decode.enabled": any("specul" in w for w in words),
        "spec_decode.algorithm": fact("speculative_algorithm"),
        "cache.prefix_cache_enabled": fact("prefix_cache"),
        "cache.kv_cache_tokens": fact("kv_cache_tokens"),
        "memory.gpu_memory_utilization": fact("memory_fraction"),
        "memory.kv_cache_dtype": fact("kv_cache_dtype"),
        **_identity(session, engine),
        "identity.attention_backend": fact("attention_backend"),
        "client.name": client.name if client else None,
        "client.version": client.version if client else None,
        "client.sha256": client.sha256 if client else None,
        "server_command": server_command,
        "server_env": variables,
        "profiler_on": any("profiler" in w for w in argv) or any("PROFILE" in k for k in variables),
        "validated_cli_flags": {c["flag"]: c["state"] for c in engine.flags} if engine else None,
        "artifacts.server_log": engine.log if engine else None,
        "artifacts.server_help_sha256": taken.server.sha256 if taken else None,
        "artifacts.server_binary_help_sha256": taken.server.sha256 if taken and engine else None,
    }


def _workload(session: Session, task: Task) -> dict[str, Any]:
    """What was asked of the server."""
    config, scenario = session.config, task.scenario
    prompts = session.workload.scenarios[scenario.name] if session.workload else None
    sampling = session.contract.sampling if session.contract else None
    return {
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
    }


def _identity(session: Session, engine: lifecycle.Engine | None) -> dict[str, Any]:
    """What was served, and how it was split."""
    config, model = session.config, session.fingerprint
    return {
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
    }
