"""Score of passes and layers against the truth of a generated trace (a helper of this folder's tests)."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from infer_forge import trace as room
from infer_forge.pipeline.model import HALVES
from infer_forge.pipeline.structure import build
from trace_gen import Spec, generate


@dataclass
class Score:
    """Kernels seen, and how many have the right layer, the right half, the right pass; layer kernels and the tail apart."""

    kernels: int = 0
    layer: int = 0
    half: int = 0
    in_layers: int = 0
    tail_inside: int = 0
    passes: int = 0
    missing: int = 0
    micro: int = 0

    @property
    def micro_pct(self) -> float:
        return 100 * self.micro / max(1, self.in_layers)

    @property
    def layer_pct(self) -> float:
        return 100 * self.layer / max(1, self.kernels)

    @property
    def half_pct(self) -> float:
        return 100 * self.half / max(1, self.in_layers)


def without(path: Path, text: str) -> None:
    """Take the kernels whose name holds a text out of a trace file: a model that has them fused into others."""
    document = json.loads(gzip.decompress(path.read_bytes()))
    document["traceEvents"] = [e for e in document["traceEvents"] if text not in e["name"] or e.get("cat") != "kernel"]
    path.write_bytes(gzip.compress(json.dumps(document).encode()))


def score(spec: Spec, folder: Path, seed: int, fused: str = "") -> Score:
    """Generate, analyse, compare kernel by kernel (joined by rank, device, stream, start and name).

    Args:
        fused: a part of the name of kernels that are left out.
    """
    files, truth = generate(spec, folder / "t.json.gz", seed)
    for file in files if fused else ():
        without(file, fused)
    want = {(k.rank, k.device, k.stream, k.ts_ns, k.name): k for k in truth.kernels}
    found = Score()
    for file in files:
        for one in room.load(file, cache=False).split():
            work = one.work
            for device in np.unique(work.device).tolist():
                lane = build(one, one.rank, device, spec.layers, spec.mtp)
                found.passes += len(lane.passes)
                rank = (one.rank or 0) if spec.ranks > 1 else 0
                for row in lane.rows.tolist():
                    key = (rank, device, int(work.stream[row]), int(work.ts_ns[row]), one.names[work.name[row]])
                    true = want.get(key)
                    if true is None:
                        found.missing += 1
                        continue
                    found.kernels += 1
                    layer = int(lane.layer_of[row])
                    right = layer == (true.layer if true.layer is not None else -1)
                    found.layer += right
                    if true.part == "tail":
                        found.tail_inside += layer >= 0
                    if true.layer is not None:
                        found.in_layers += 1
                        number = int(lane.pass_of[row])
                        found.micro += number >= 0 and max(lane.passes[number].micro, 0) == true.micro
                        found.half += HALVES[int(lane.half_of[row])] == true.half
    return found
