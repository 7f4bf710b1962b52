"""The project's own traces: kineto-shaped JSON from a description, deterministic by seed, with the truth beside it.

    from trace_gen import SPECS, generate
    files, truth = generate(SPECS["qwen3_moe"], folder / "t.json.gz", seed=101)

On a shell: `python scripts/trace_gen --spec sample --out sample.trace.json.gz`. Standard library only.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from trace_gen.families import FAMILIES, config, forward
from trace_gen.files import TraceFile, opened, write_step
from trace_gen.model import CollectiveTruth, Item, Kernel, Spec, Step, StepTruth, Truth
from trace_gen.specs import HELD_OUT_SEEDS, SPECS, WORKING_SEEDS
from trace_gen.timeline import Lane, Simulation, StepRun
from trace_gen.write import RankWriter


def rank_path(out: Path, rank: int) -> Path:
    """File of one rank beside `out`: `x.trace.json.gz` -> `x-TP-0.trace.json.gz`."""
    stem, dot, rest = out.name.partition(".")
    return out.with_name(f"{stem}-TP-{rank}{dot}{rest or 'trace.json'}")


def generate(spec: Spec, out: Path, seed: int = WORKING_SEEDS[0], *, truth: bool = True) -> tuple[list[Path], Truth]:
    """Write the trace of a spec.

    Args:
        spec: what to write; `spec.events` stops at the first whole step that reaches it.
        out: the file; with several ranks that are not merged, one file each beside it (`rank_path`). `.gz` compresses.
        seed: one of WORKING_SEEDS, or any number; HELD_OUT_SEEDS are for the final run alone.
        truth: record the truth of every kernel (about 300 bytes each); without it only the event count is kept.

    Returns:
        The files, and the truth. Kernels that were cut or dropped are not in it.
    """
    sim = Simulation(spec, seed)
    found = Truth()
    kept = found if truth else None
    together = spec.merged or spec.devices > 1 or spec.ranks == 1
    with ExitStack() as stack:
        files: list[TraceFile] = []
        groups = [list(range(len(sim.lanes)))] if together else [[n] for n in range(len(sim.lanes))]
        for group in groups:
            lane = sim.lanes[group[0]]
            if spec.only_rank is not None and lane.rank != spec.only_rank:
                continue
            path = out if together or spec.only_rank is not None else rank_path(out, lane.rank)
            files.append(TraceFile(spec, [sim.lanes[n] for n in group], stack.enter_context(opened(path)), path))
        ranks = {lane.rank: file for file in files for lane in file.lanes}
        total = len(spec.steps) * spec.cycles
        for run in sim.run():
            last = spec.events is None and run.number == total - 1
            found.collectives.extend(run.collectives)
            for number, lane in enumerate(sim.lanes):
                if lane.rank in ranks:
                    write_step(ranks[lane.rank], sim, run, number, kept, last)
            if spec.events is not None and sum(file.writer.events for file in files) >= spec.events:
                break
        for file in files:
            file.close()
            found.events += file.writer.events
        return [file.path for file in files], found


def generate_capture(spec: Spec, out: Path, seed: int = WORKING_SEEDS[0]) -> Path:
    """Write the capture trace of a spec's CUDA graphs: the launches with their ops and stacks, and no kernels, once per graph step.

    As in real captures, an AMD launch carries the kernel's name and an NVIDIA one does not.
    """
    marked = [step for step in dict.fromkeys(spec.steps) if step.graph]
    plain = replace(
        spec, steps=tuple(replace(step, graph=0) for step in marked), cycles=1, drop=0.0, annotation="none", events=None
    )
    sim = Simulation(plain, seed)
    with opened(out) as raw:
        file = TraceFile(plain, [sim.lanes[0]], raw, out)
        for run in sim.run():
            lane, (begin, length) = sim.lanes[0], run.host[0]
            batch = run.step.context + run.step.generation
            file.writer.load = (run.step.tokens, batch)
            mode = (
                "FULL"
                if spec.framework == "vllm"
                else {"prefill": "EXTEND", "decode": "DECODE"}.get(run.step.stage, "MIXED")
            )
            file.writer.mark(lane, f"capture_{batch}_{mode}", begin, length, None)
            _capture_graphs(file.writer, lane, run, marked[run.number].graph)
        file.close()
    return out


def _capture_graphs(writer: RankWriter, lane: Lane, run: StepRun, graphs: int) -> None:
    """The launches of one step between begin and end of a stream capture, as many captures as the step has graphs."""
    captured = [p for p in run.kernels[0] if not p.item.name.startswith("Mem")]
    size = -(-len(captured) // graphs)
    api = "hip" if writer.spec.vendor == "amd" else "cuda"
    pad = writer.spec.frames * 60 if writer.spec.stacks else 0
    for start in range(0, len(captured), size):
        group = captured[start : start + size]
        begin, end = group[0].op[0] - pad - 90, sum(group[-1].op) + pad + 20
        writer.host_event(lane, "cuda_runtime", f"{api}StreamBeginCapture", begin, 20, '"cbid": 317, "correlation": 0')
        for placed in group:
            writer.eager(lane, placed, False)
        writer.host_event(lane, "cuda_runtime", f"{api}StreamEndCapture", end, 30, '"cbid": 318, "correlation": 0')
        writer.host_event(lane, "cuda_runtime", f"{api}GraphInstantiate", end + 50, 60, '"cbid": 319, "correlation": 0')


def generate_mapping(spec: Spec, out: Path, seed: int = WORKING_SEEDS[0]) -> Path:
    """Write the eager twin of a spec: the same steps without graphs, with ops and stacks, for mapping."""
    plain = replace(
        spec,
        steps=tuple(replace(step, graph=0) for step in spec.steps),
        cycles=1,
        stacks=True,
        drop=0.0,
        only_rank=0 if spec.ranks > 1 else None,
    )
    return generate(plain, out, seed, truth=False)[0][0]


__all__ = [
    "FAMILIES",
    "HELD_OUT_SEEDS",
    "SPECS",
    "WORKING_SEEDS",
    "CollectiveTruth",
    "Item",
    "Kernel",
    "Spec",
    "Step",
    "StepTruth",
    "Truth",
    "config",
    "forward",
    "generate",
    "generate_capture",
    "generate_mapping",
    "rank_path",
]
