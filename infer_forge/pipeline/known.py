"""Known kernels of a layer (`references/layer_anchors.yaml`) held against the layers that were found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np

from infer_forge.base.records import Finding
from infer_forge.base.resources import load_yaml
from infer_forge.pipeline.anchor import by_anchor
from infer_forge.pipeline.model import HALVES, Lane
from infer_forge.trace.columns import I64

ANCHORS = "references/layer_anchors.yaml"


@dataclass(frozen=True)
class Anchor:
    """A kernel that stands `each` times in every layer that has it; `at` is start, end or inside."""

    kernel: str
    each: int
    half: str
    at: str
    source: str


@dataclass(frozen=True)
class Check:
    """An anchor against the layers of the whole passes."""

    anchor: Anchor
    layers: int
    """Layers that hold it."""
    agree: int
    """Of these, with the right number of it, in the right half, and at the border where it marks one."""
    outside: int
    """Launches of it outside of every layer."""
    per_pass: float
    """Layers a pass that its launches make."""

    @property
    def agrees_pct(self) -> float:
        """Share of layers that agree; launches outside count against it."""
        missed = self.outside / self.anchor.each
        return round(100.0 * self.agree / max(1.0, self.layers + missed), 2)

    @property
    def holds(self) -> bool:
        """Whether the layers are as the anchor says."""
        return self.agrees_pct >= float(cast("dict[str, Any]", load_yaml(ANCHORS))["limits"]["agree_pct"])

    def to_json(self) -> dict[str, Any]:
        """For the ninth point of the checklist."""
        return {
            "kernel": self.anchor.kernel, "agrees_pct": self.agrees_pct, "layers": self.layers, "outside_layers": self.outside,
            "layers_a_pass": self.per_pass, "source": self.anchor.source,
        }  # fmt: skip


@cache
def anchors() -> tuple[Anchor, ...]:
    """The data file."""
    rows = cast("dict[str, Any]", load_yaml(ANCHORS))["anchors"]
    return tuple(Anchor(r["kernel"], int(r["each"]), r["half"], r["at"], r["source"]) for r in rows)


def check(lane: Lane) -> list[Check]:
    """Every anchor whose kernel occurs in a whole pass."""
    found: list[Check] = []
    for anchor in anchors():
        ids = [k for k, name in enumerate(lane.trace.names) if anchor.kernel in name.lower()]
        one = _check(lane, anchor, ids) if ids else None
        if one is not None:
            found.append(one)
    return found


def _check(lane: Lane, anchor: Anchor, ids: list[int]) -> Check | None:
    work = lane.trace.work
    layers = agree = outside = launches = passes = 0
    for p in lane.passes:
        if p.partial or not p.layers:
            continue
        rows = p.rows[np.isin(work.name[p.rows], ids)]
        passes += 1
        launches += len(rows)
        outside += int((lane.layer_of[rows] < 0).sum())
        for layer in p.layers:
            mine = layer.rows[np.isin(work.name[layer.rows], ids)]
            if len(mine):
                layers += 1
                agree += int(len(mine) == anchor.each and _placed(lane, anchor, layer.rows, mine))
    if not launches:
        return None
    return Check(anchor, layers, agree, outside, round(launches / anchor.each / passes, 2))


def _placed(lane: Lane, anchor: Anchor, rows: I64, mine: I64) -> bool:
    if anchor.half and any(HALVES[int(h)] != anchor.half for h in lane.half_of[mine]):
        return False
    main = rows[lane.trace.work.stream[rows] == lane.trace.work.stream[mine[0]]]
    return anchor.at == "inside" or bool(mine[0] == main[0] if anchor.at == "start" else mine[-1] == main[-1])


def take_over(lane: Lane, layers: int | None) -> None:
    """Layers from an anchor that marks a border, where no period was found in any pass."""
    if any(p.layers for p in lane.passes):
        return
    used = {lane.trace.names[int(n)].lower() for n in np.unique(lane.trace.work.name[lane.rows])}
    for anchor in anchors():
        if anchor.at != "inside" and lane.passes and any(anchor.kernel in name for name in used):
            by_anchor(lane, f"{anchor.kernel}:{anchor.at}", layers, anchor.each)
            lane.method = f"anchor of references: {lane.method}"
            return


def findings(checks: list[Check]) -> list[Finding]:
    """A warning for every anchor that the layers do not bear out."""
    return [
        Finding(
            "ANCHOR_DISAGREES",
            f"anchor of references {c.anchor.kernel} ({c.anchor.source}): {c.agrees_pct} % of the layers found hold it as it should "
            f"stand; its launches make {c.per_pass:g} layers a pass. The period of the kernels was followed",
            "warning",
            c.agrees_pct,
            next_step="hold both against the config's layer count; --anchor NAME follows the anchor instead",
        )
        for c in checks
        if not c.holds
    ]
