"""The questions that one run can answer, their environment, and the combinations that would lie."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from infer_forge.base.errors import GateRefused, UsageFault
from infer_forge.crash import signatures

QUESTIONS = {
    "kernel": ("coredump", "which kernel faults (GPU core dump)"),
    "call": ("call", "between which calls the fault lies (kernel-API logs)"),
    "launch": ("launch", "at which launch it surfaces (blocking, eager only)"),
    "memory": ("memory", "whether the caching allocator hides an out-of-bounds access (with compute-sanitizer)"),
    "hang": ("hang", "which rank is missing from a collective (flight recorder, user-triggered core dump)"),
}
LEVELS = (1, 3, 5, 10)
_ENGINE = re.compile(r"\b(?:sglang|vllm|trtllm-serve|tensorrt_llm|tokenspeed)\b")
_EAGER = ("--enforce-eager", "--disable-cuda-graph", "--cuda-graph-bs 0")
_BENCH = re.compile(r"bench_serving|bench serve|benchmark_serving|aiperf|bench_one_batch")
_TOOLS = re.compile(r"(?:^|/|\s)(?:compute-sanitizer|cuda-gdb|cuda-memcheck)\b")


def environment_for(
    questions: Sequence[str], out: Path, *, level: int, include: str | None, exclude: str | None, patches: Sequence[str]
) -> dict[str, str]:
    """The variables that a run needs to answer the questions; every path lies below `out`."""
    env: dict[str, str] = {}
    for question in questions:
        env |= signatures.environment(
            QUESTIONS[question][0], out=str(out), level=str(level), flashinfer_level=str(level)
        )
    if "call" in questions:
        for name, value in (("INCLUDE", include), ("EXCLUDE", exclude)):
            if value:
                env |= {f"SGLANG_KERNEL_API_DUMP_{name}": value, f"FLASHINFER_DUMP_{name}": value}
    if patches:
        env |= {
            "INFER_FORGE_RECORD_LEVEL": str(level),
            "INFER_FORGE_RECORD_DEST": str(out / "rank%r_pid%i" / "calls.log"),
            "INFER_FORGE_RECORD_DIR": str(out / "rank%r_pid%i" / "dumps"),
            "INFER_FORGE_RECORD_PATCH": ",".join(patches),
        }
        for name, value in (("INCLUDE", include), ("EXCLUDE", exclude)):
            if value:
                env[f"INFER_FORGE_RECORD_{name}"] = value
    return env


def check(
    questions: Sequence[str], command: Sequence[str], *, level: int | None, environ: Mapping[str, str] | None = None
) -> list[str]:
    """Refuse combinations whose answer would be wrong; give back warnings about the rest.

    Raises:
        UsageFault: an unknown question. GateRefused: a combination that lies; the message says what to change.
    """
    env = os.environ if environ is None else environ
    line = " ".join(command)
    for question in questions:
        if question not in QUESTIONS:
            raise UsageFault(f"no such question: {question}", next_step=f"use one of {', '.join(QUESTIONS)}")
    if "skip_abort" in env.get("CUDA_COREDUMP_GENERATION_FLAGS", "") or "skip_abort" in line:
        raise GateRefused(
            "skip_abort can swallow the fault, so that the run goes on as if nothing was",
            next_step="take skip_abort out of CUDA_COREDUMP_GENERATION_FLAGS",
        )
    if (
        "launch" in questions
        and _ENGINE.search(line)
        and not any(flag in line for flag in _EAGER)
        and "bench" not in line
    ):
        raise GateRefused(
            "blocking launches narrow a graph replay to the graph only, and the stack then blames the replay",
            next_step="add --disable-cuda-graph (SGLang) or --enforce-eager (vLLM) to the command, or ask --for kernel",
        )
    if "launch" in questions and "hang" in questions:
        raise GateRefused(
            "blocking launches change the order of collectives: a hang may go away or appear",
            next_step="ask one question a run",
        )
    if (level or 0) >= 5 and "hang" in questions:
        raise GateRefused(
            "statistics wait for the device before and after each call: they change the order that hangs",
            next_step="use --level 1 or 3 with --for hang",
        )
    if "kernel" in questions and _TOOLS.search(line):
        raise GateRefused(
            "a sanitizer or debugger and the core dump both want the GPU's debug interface",
            next_step="run the sanitizer with --for memory, or the plain command with --for kernel",
        )
    if (
        re.search(r"\bcompute-sanitizer\b", line)
        and "memory" not in questions
        and env.get("PYTORCH_NO_CUDA_MEMORY_CACHING") != "1"
    ):
        raise GateRefused(
            "under the caching allocator an out-of-bounds access "
            "lands in a neighbour's block and zero errors prove nothing",
            next_step="add --for memory",
        )
    if "memory" in questions and "expandable_segments:True" in env.get("PYTORCH_CUDA_ALLOC_CONF", ""):
        raise GateRefused(
            "expandable segments make memcheck report invalid writes that are none",
            next_step="unset PYTORCH_CUDA_ALLOC_CONF for this run",
        )
    warnings: list[str] = []
    if _BENCH.search(line):
        warnings.append("the command is a benchmark: its figures under debug variables are void")
    if level == 10:
        warnings.append("level 10 saves inputs, which may hold users' data: keep the folder private, never commit it")
    return warnings
