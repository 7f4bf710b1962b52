"""Types of the pipeline room: what it is asked for, and what it finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from infer_forge.pipeline.segment import Template
from infer_forge.trace.columns import I32, I64
from infer_forge.trace.model import Trace

HALVES = ("", "attn", "ffn")
"""Halves by id; 0 is outside layers."""


@dataclass(frozen=True)
class Options:
    """Choices of a pipeline analysis.

    Attributes:
        config: the deployed model's config.json; None when it is not known.
        rank: a rank number; None takes the lowest.
        pass_number: the pass to look into; None takes the representative one of each stage.
        layer: the layer of the flow; None takes the representative one.
        compare_layer: a second layer, aligned with the first.
        stage: only this stage's layers, clusters and flow.
        anchor: a part of a kernel's name that stands once in every layer, with `:end` where it ends the layer.
        mapping: capture or eager trace that gives graph replays their ops.
        sort: order of the flow: `order` or `duration`.
        triage: a stored triage report (JSON) that this analysis stands on. no_triage: do without one.
        export: file of a trimmed trace. export_ranks: all ranks in it.
        cache: use and fill the column cache. limit: rows a table at the most.
    """

    config: Path | None = None
    rank: int | str | None = None
    pass_number: int | None = None
    layer: int | None = None
    compare_layer: int | None = None
    stage: str | None = None
    anchor: str | None = None
    mapping: Path | None = None
    sort: str = "order"
    triage: Path | None = None
    no_triage: bool = False
    export: Path | None = None
    export_layers: tuple[int, ...] = ()
    export_ranks: bool = False
    cache: bool = True
    limit: int | None = None
    keep: bool = True


@dataclass
class Layer:
    """One layer of one pass."""

    number: int
    """Index in the model where the pass lets it be known; within the pass otherwise (see `Pass.relative`)."""
    rows: I64
    """Rows of the trace's work, ascending by start; side streams included."""
    templates: tuple[int, ...]
    """Learnt halves that it is made of."""
    exact: bool
    """Every kernel of the main stream matches its template by name, and none is missing."""
    cut: bool = False
    """The capture began or ended inside it."""


@dataclass
class Pass:
    """One forward pass on one device of one rank."""

    number: int
    rank: int | str | None
    device: int
    stage: str
    kind: str | None
    batch: int | None
    tokens: int | None
    context_tokens: int | None
    generation_requests: int | None
    step: str | None
    """Text of the annotation; None where there is none."""
    window: int
    """Row of the trace's windows; -1 without an annotation."""
    rows: I64
    layers: list[Layer]
    start_ns: int
    end_ns: int
    device_ns: int
    busy_ns: int
    partial: str = ""
    """Why it is no whole pass; "" for a whole one."""
    relative: bool = False
    """Layer numbers count from the first layer seen, because neither end of the pass is there."""
    given: bool = False
    """It is read from a file that `--export` wrote, with the layer numbers of the trace that it comes from."""
    temperature: str = ""
    """`cold`, `warm-up` or `steady`; "" where it cannot be told."""
    evidence: str = ""
    micro: int = -1
    """Number of the micro-batch where two of a step run side by side; -1 otherwise."""
    stage_from: str = "annotation"
    """`annotation`, or `kernels` where the stage was inferred (`infer_forge.pipeline.stage`)."""
    stage_confidence: str = ""
    """`high`, `medium`, `low`, `none` for an inferred stage."""
    stage_evidence: str = ""

    @property
    def wall_ns(self) -> int:
        """From the first start to the last end of its device work."""
        return self.end_ns - self.start_ns

    @property
    def idle_ns(self) -> int:
        """Time in it in which the device does nothing."""
        return self.wall_ns - self.busy_ns


@dataclass
class Lane:
    """One device of one rank: its work, passes, and where every work item belongs."""

    trace: Trace
    rank: int | str | None
    device: int
    rows: I64
    passes: list[Pass]
    templates: list[Template]
    pass_of: I32
    """Per row of the trace's work: number of the pass, -1 outside."""
    layer_of: I32
    """Number of the layer, -1 outside layers."""
    half_of: np.ndarray[tuple[int], np.dtype[np.int8]]
    """Id into `HALVES`."""
    place_of: I32
    """Half template * 1024 + position in it for a kernel that matched; -1 otherwise. Aligns layers with one another."""
    method: str = ""
    woven: str = ""
    """`paired` where two micro-batches share a stream and were told apart by the order of their kernels; `shifted` where that
    order leaves open whose a kernel is."""
    notes: list[str] = field(default_factory=list[str])
    against: list[str] = field(default_factory=list[str])
    """What of the config the kernels contradict, the layer count included: its types and sizes are not used then."""


def of_step(lane: Lane, p: Pass) -> list[Pass]:
    """The passes of a pass's step: itself, and the other micro-batch that runs beside it."""
    if p.micro < 0:
        return [p]
    beside = [q for q in lane.passes if q.micro >= 0 and q.micro != p.micro and q.window == p.window]
    return [p, *(q for q in beside if q.start_ns < p.end_ns and p.start_ns < q.end_ns)]


PLACE = 1024
"""Factor that packs a template and a position into `Lane.place_of`."""
