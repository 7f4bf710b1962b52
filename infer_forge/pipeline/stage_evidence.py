"""What the kernels of an unmarked pass show of its stage: telling kernels, dims of the launching ops, graph replay, products a layer.

Rules are data of `references/stage_evidence.yaml`, judged once a distinct name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from math import prod
from typing import Any, cast

import numpy as np

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable
from infer_forge.base.kernels import classify
from infer_forge.base.resources import load_yaml
from infer_forge.pipeline.model import Lane, Pass
from infer_forge.trace.columns import I32, I64

RULES = "references/stage_evidence.yaml"
_FRAMEWORKS = (("sglang", ("sglang", "sgl_kernel")), ("vllm", ("vllm::", "vllm/", "_c_cache_ops")))


@dataclass(frozen=True)
class Telling:
    """A kernel rule: the stage that it shows; `always` where it is launched beside the other stage's kernels without work."""

    pattern: re.Pattern[str]
    stage: str
    always: bool


@dataclass
class Evidence:
    """What one pass shows. None is "not seen"."""

    kernels: dict[str, str] = field(default_factory=dict[str, str])
    """Stage -> one kernel that shows it. `verify` is a key of its own."""
    only_always: bool = False
    """Every decode kernel is one that prefill steps launch too."""
    serving: bool = False
    """Keys and values are cached, or tokens are drawn."""
    requests: int | None = None
    """Rows of the logits."""
    tokens: int | None = None
    """Rows of the layers' operands."""
    sequences: tuple[int, int] | None = None
    """Batch and length where operands keep them apart."""
    graph_launches: int = 0
    """Graph launches that hold the layers' kernels; 0 where some were launched alone."""
    work_us: float | None = None
    """Median time of a layer's dense products. They read the same weights in every pass, so among decode passes it hardly
    differs, while attention grows with the cache and experts with the batch."""
    names: frozenset[int] = frozenset()
    """Kernel name ids inside the layers."""


@cache
def rules() -> dict[str, Any]:
    """The data file as it stands."""
    return cast("dict[str, Any]", load_yaml(RULES))


def limit(name: str) -> float:
    """A threshold of the data file."""
    return float(rules()["limits"][name])


@cache
def _telling() -> tuple[Telling, ...]:
    return tuple(
        Telling(re.compile(r["re"], re.IGNORECASE), r["stage"], bool(r.get("always"))) for r in rules()["kernels"]
    )


@cache
def _verify() -> re.Pattern[str]:
    return re.compile("|".join(r["re"] for r in rules()["verify"]), re.IGNORECASE)


@lru_cache(maxsize=1 << 14)
def stage_shown(name: str) -> Telling | None:
    """The rule that a kernel name meets; None for a kernel that serves several stages, or none."""
    if _verify().search(name):
        return Telling(_verify(), "verify", False)
    return next((t for t in _telling() if t.pattern.search(name)), None)


def trains(lane: Lane) -> str:
    """A kernel of a backward pass, a loss or an optimiser; "" where there is none."""
    found = rules()["training"]
    backward = re.compile(found["names"], re.IGNORECASE)
    for n in _distinct(lane.trace.work.name[lane.rows]):
        name = lane.trace.names[n]
        if classify(name) in found["categories"] or backward.search(name):
            return name
    return ""


def framework_of(lane: Lane) -> str | None:
    """The engine, as kernel and op names tell it."""
    work, names = lane.trace.work, lane.trace.names
    used = {names[i].lower() for c in (work.source, work.op, work.name) for i in _distinct(c[lane.rows]) if i >= 0}
    return next((name for name, words in _FRAMEWORKS if any(w in text for text in used for w in words)), None)


def _distinct(ids: I32) -> list[int]:
    return [int(i) for i in np.unique(ids)]


def gather(lane: Lane, p: Pass) -> Evidence:
    """The evidence of one pass."""
    found = Evidence()
    inside = p.rows[lane.layer_of[p.rows] >= 0]
    if not len(inside):
        return found
    _kernels(lane, p, inside, found)
    _launches(lane, inside, found)
    _dims(lane, p, found)
    found.work_us = _work(lane, p, inside)
    return found


def _kernels(lane: Lane, p: Pass, inside: I64, found: Evidence) -> None:
    names, work = lane.trace.names, lane.trace.work
    found.names = frozenset(_distinct(work.name[inside]))
    always: list[bool] = []
    for n in sorted(found.names):
        shown = stage_shown(names[n])
        if shown is not None:
            found.kernels.setdefault(shown.stage, names[n])
            if shown.stage == "decode":
                always.append(shown.always)
    found.only_always = bool(always) and all(always)
    serving = rules()["serving"]["categories"]
    for n in _distinct(work.name[p.rows]):
        shown = stage_shown(names[n])
        if shown is not None and shown.stage == "verify":
            found.kernels.setdefault("verify", names[n])
        found.serving |= shown is not None or classify(names[n]) in serving


def _launches(lane: Lane, inside: I64, found: Evidence) -> None:
    work = lane.trace.work
    replayed = work.graph[inside]
    if float(replayed.mean()) >= limit("whole_graph"):
        found.graph_launches = len(np.unique(work.correlation[inside[replayed]]))


def _dims(lane: Lane, p: Pass, found: Evidence) -> None:
    """Tokens from the operands inside layers, requests from the logits; the most frequent figure counts."""
    trace = lane.trace
    work = trace.work
    if not bool((work.op_row[p.rows] >= 0).any()):
        return
    operands = [(re.compile(r["re"]), int(r["at"]), int(r["rank"])) for r in rules()["operands"]]
    tokens, drawn, made, pairs = Counter[int](), Counter[int](), Counter[int](), Counter[tuple[int, int]]()
    within = lane.layer_of[p.rows] >= 0
    ops = work.op_row[p.rows]
    launched = Counter(zip(ops[ops >= 0].tolist(), within[ops >= 0].tolist(), strict=True))
    for (row, layer), count in launched.items():
        dims = _operands(lane, row)
        name = trace.names[int(trace.ops.name[row])]
        if not layer:
            _logits(name, dims, count, drawn, made)
            continue
        for pattern, at, rank in operands:
            shape = _shape(dims, at)
            if pattern.search(name) and shape is not None and (len(shape) == rank or (not rank and len(shape) > 1)):
                lead = shape if rank else shape[:1]
                tokens[lead[0]] += count
                break
        else:
            shape = _shape(dims, 0)
            if shape is not None and len(shape) == 3 and all(shape):
                pairs[shape[0], shape[1]] += count
    found.tokens = tokens.most_common(1)[0][0] if tokens else None
    rows = drawn or (made if found.serving else None)  # a model that serves nobody makes logits of every token
    found.requests = rows.most_common(1)[0][0] if rows else None
    found.serving |= bool(drawn)
    if pairs and found.tokens is not None:
        likely = pairs.most_common(1)[0][0]
        found.sequences = likely if prod(likely) == found.tokens else None


def _logits(name: str, dims: Sequence[Any], count: int, drawn: Counter[int], made: Counter[int]) -> None:
    """Count the rows of the logits that an op outside of the layers draws from, or makes."""
    shapes = [s for s in (_shape(dims, k) for k in range(3)) if s is not None and len(s) == 2]
    head = rules()["head"]
    if re.search(rules()["drawn"], name):
        if shapes and shapes[0][1] >= limit("vocabulary"):
            drawn[shapes[0][0]] += count
    elif re.search(head["re"], name) and len(shapes) == 2 and shapes[1][1] >= int(head["weights"]):
        made[shapes[0][0]] += count


def _operands(lane: Lane, row: int) -> Sequence[Any]:
    at = int(lane.trace.ops.dims[row])
    if at < 0:
        return ()
    try:
        found = jsonio.loads(lane.trace.op_texts[at])
    except InputUnusable:
        return ()
    return cast("list[Any]", found) if isinstance(found, list) else ()


def _shape(dims: Sequence[Any], at: int) -> list[int] | None:
    """The dims of one operand; None where it is none or a list of tensors."""
    if at >= len(dims) or not isinstance(dims[at], list) or not dims[at]:
        return None
    one = cast("list[Any]", dims[at])
    return [int(d) for d in one] if all(isinstance(d, int) and d > 0 for d in one) else None


def _work(lane: Lane, p: Pass, inside: I64) -> float | None:
    """Median over the layers that the capture did not cut."""
    work = lane.trace.work
    cut = {layer.number for layer in p.layers if layer.cut}
    ids = _distinct(work.name[inside])
    dense = [n for n in ids if classify(lane.trace.names[n]) == "gemm"]
    mine = inside[np.isin(work.name[inside], dense)]
    if not len(mine):
        return None
    sums = np.bincount(lane.layer_of[mine], weights=work.dur_ns[mine])
    kept = [v for k, v in enumerate(sums.tolist()) if v and k not in cut]
    return float(np.median(kept)) / 1000 if kept else None
