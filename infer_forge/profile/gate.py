"""The backend gate: a profile of another path than the benchmark's is void, and the line that shows it is named.

Expected is what the benchmark's server arguments say; found is what the profiled server's log says, or, without a log,
what the trace itself shows. Without arguments, a log is held against what it was itself asked for. A log without CUDA
graphs is none of a trace that replays them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base.errors import GateRefused
from infer_forge.base.records import Finding
from infer_forge.profile.scene import Scene

if TYPE_CHECKING:
    from infer_forge.engines.server_facts import ServerFacts


def check(
    scenes: list[Scene], server_args: Path | None, server_log: Path | None
) -> tuple[list[Finding], dict[str, Any]]:
    """Hold the profiled server against the benchmark's arguments.

    Returns:
        Findings for what could not be told, and the facts used, for the header (`model` for pattern conditions).

    Raises:
        GateRefused: attention backend, CUDA graph, model or path differ: the report would be void.
        InputUnusable: a file cannot be read, or is of no known framework.
    """
    if server_args is None and server_log is None:
        return [], {}
    from infer_forge.engines import server_facts

    wanted = server_facts.read_args(server_args) if server_args else None
    log = server_facts.read_log(server_log, wanted.framework if wanted else None) if server_log else None
    findings: list[Finding] = []
    if log is not None:
        expected = wanted if wanted is not None else {n: f.value for n, f in log.asked.items()}
        for miss in server_facts.compare(log, expected):
            if miss.state == "unknown":
                findings.append(_unknown(miss.name, str(server_log)))
                continue
            raise _void(miss.name, miss.expected, miss.found, miss.evidence, f"{server_log}:{miss.line}")
        _of_one_run(scenes, log, str(server_log))
    elif wanted is not None:
        findings += _by_trace(scenes, wanted, str(server_args))
    told = log or wanted
    facts: dict[str, Any] = {n: f.value for n, f in told.facts.items()} if told else {}
    if wanted is not None:
        facts = {**facts, **{n: f.value for n, f in wanted.facts.items()}}
    return findings, facts


def _void(name: str, expected: Any, found: Any, evidence: str, where: str) -> GateRefused:
    return GateRefused(
        f"the trace is void: {name} is {found!r}, the benchmark used {expected!r}: {evidence}",
        where=where,
        next_step="profile the server that the benchmark ran, with the same arguments, and run the triage again",
    )


def _unknown(name: str, where: str) -> Finding:
    text = f"whether {name} was the benchmark's cannot be told: neither log nor trace says it"
    return Finding("BACKEND_UNKNOWN", text, "warning", figure=where, next_step="give the log of the profiled server")


def _of_one_run(scenes: list[Scene], log: ServerFacts, where: str) -> None:
    fact = log.facts.get("cuda_graph")
    if fact is not None and fact.value is False and any(bool(s.work.graph.any()) for s in scenes):
        raise GateRefused(
            f"the trace is void: it replays CUDA graphs, and this log's server had none: {fact.evidence}",
            where=f"{where}:{fact.line}",
            next_step="give the log of the server that was profiled",
        )


def _by_trace(scenes: list[Scene], wanted: ServerFacts, where: str) -> list[Finding]:
    """Without a log the trace itself must show it: whether graphs ran can be seen, the rest cannot."""
    from infer_forge.engines.server_facts import GATED

    findings: list[Finding] = []
    for name in GATED:
        fact = wanted.facts.get(name)
        if fact is None or name == "diffusers_fallback":
            continue
        if name == "cuda_graph" and isinstance(fact.value, bool):
            seen = any(bool(s.work.graph.any()) for s in scenes)
            decodes = any("decode" in s.trace.stages for s in scenes)
            if seen != fact.value and (seen or decodes):
                proof = "graph replays in the trace" if seen else "no graph replay in a trace with decode steps"
                raise _void(name, fact.value, seen, proof, where)
            continue
        findings.append(_unknown(name, where))
    return findings
