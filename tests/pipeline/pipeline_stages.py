"""Inferred stages against the truth of a generated trace without annotations (a helper of this folder's tests)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from infer_forge.pipeline.model import Options, Pass
from infer_forge.pipeline.read import read
from infer_forge.pipeline.report import build_lanes
from trace_gen import Spec, generate


def stages(spec: Spec, folder: Path, seed: int) -> list[tuple[str, str, Pass]]:
    """True stage, true kind, and the pass that holds most of the step's kernels, for every pass found in an unmarked twin."""
    files, truth = generate(replace(spec, annotation="none"), folder / "t.json.gz", seed)
    want = {(k.rank, k.device, k.stream, k.ts_ns): k for k in truth.kernels}
    found: list[tuple[str, str, Pass]] = []
    for file in files:
        for lane in build_lanes(read([file], cache=False), None, Options()):
            work, rank = lane.trace.work, lane.trace.rank or 0
            for p in lane.passes:
                keys = [(rank, lane.device, int(work.stream[r]), int(work.ts_ns[r])) for r in p.rows.tolist()]
                seen = Counter((want[k].stage, want[k].step_kind) for k in keys if k in want)
                (stage, kind), _ = seen.most_common(1)[0]
                found.append((stage, kind or stage, p))
    return found
