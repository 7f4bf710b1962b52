"""The backend gate: a profile of another path than the benchmark's is void, and the line that shows it is named.

Expected is what the benchmark's server arguments say; found is what the profiled server's log says, or, without a log,
what the trace itself shows. Without arguments, a log is held against what it was itself asked for. A log without CUDA
graphs is none of a trace that replays them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from infer_forge.base.errors import GateRefused
from infer_forge.base.records import Finding
from infer_forge.base.resources import load_yaml
from infer_forge.profile.scene import Scene

if TYPE_CHECKING:
    from infer_forge.engines.server_facts import ServerFacts


_BACKENDS = "references/attention_backends.yaml"
_STAGE_OF = {"attention_backend": None, "prefill_attention_backend": "prefill", "decode_attention_backend": "decode"}
_NEARLY_ALL = 0.9  # a second implementation below a tenth of the time is a helper (cascade, merge), not the backend


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
    """Without a log the trace itself must show it: whether graphs ran, and which attention kernels; the rest it cannot."""
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
        if name in _STAGE_OF and (shown := attention_shown(scenes, _STAGE_OF[name])) is not None:
            allowed = load_yaml(_BACKENDS)["backends"].get(str(fact.value).lower())
            if allowed is not None:
                if shown[0] not in allowed:
                    raise _void(name, fact.value, shown[0], f"kernel {shown[1][:120]}", where)
                continue
        findings.append(_unknown(name, where))
    return findings


def attention_shown(scenes: list[Scene], stage: str | None) -> tuple[str, str] | None:
    """The attention implementation whose kernels a trace shows, and one of their names; None where it does not tell.

    It tells when one implementation holds nearly all attention time of the stage (None: of all stages).
    """
    known: dict[str, str] = load_yaml(_BACKENDS)["kernels"]
    patterns = {family: re.compile(text) for family, text in known.items()}
    time_ns: dict[str, int] = {}
    example: dict[str, str] = {}
    total = 0
    for scene in scenes:
        mask = scene.is_category("attention", "mla")
        if stage is not None:
            mask &= np.array([scene.stage_name(s) == stage for s in scene.work.stage.tolist()], np.bool_)
        ids: list[int] = np.unique(scene.work.name[mask]).tolist()
        for name_id in ids:
            text = scene.trace.names[name_id]
            spent = int(scene.work.dur_ns[mask & (scene.work.name == name_id)].sum())
            total += spent
            family = next((f for f, pattern in patterns.items() if pattern.search(text)), None)
            if family is not None:
                time_ns[family] = time_ns.get(family, 0) + spent
                example.setdefault(family, text)
    best = max(time_ns, key=lambda f: time_ns[f], default=None)
    if best is None or time_ns[best] < _NEARLY_ALL * total:
        return None
    return best, example[best]
