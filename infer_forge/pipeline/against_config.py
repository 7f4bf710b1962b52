"""What the kernels of the layers say against the config, where both have as many layers: a config of another model.

Layer by layer: experts where the config has none and the reverse, a state where it has attention and the reverse, latent attention
that it does not know. Over all layers: the hidden size, where the ops' dims were recorded. A kernel whose name tells nothing is
no evidence; a layer is judged by most of its whole passes, so that a lost kernel does not count.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, cast

import numpy as np

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable
from infer_forge.base.kernels import classify
from infer_forge.pipeline.layer_types import ATTENDING, STATES, LayerType
from infer_forge.pipeline.model import Lane, Pass
from infer_forge.pipeline.model_config import ModelShape
from infer_forge.pipeline.tables import spans

_PASSES = 8
"""Whole passes that are looked at."""
_PRODUCTS = 3
"""Distinct products with dims in the layers, below which the hidden size is not judged."""
_SHORT = 40
"""Characters of a list of layers that is still read."""
_MIXERS = {"attention": "attention", "mla": "latent attention (MLA)", "linear_attention": "a mixer that keeps a state"}


def disagreements(lane: Lane, shape: ModelShape) -> list[str]:
    """What of the config the layers' kernels contradict, in words; empty where nothing does, or nothing can be told."""
    passes = [p for p in lane.passes if p.layers and not p.partial and not p.relative]
    counts = (shape.layers, (shape.layers or 0) + shape.drafts)
    fitting = [p for p in passes if p.given or len(p.layers) in counts][:_PASSES]
    if not fitting or shape.diffusion:
        return []
    found: dict[str, list[int]] = defaultdict(list)
    for number, seen in sorted(_categories(lane, fitting).items()):
        if number < len(shape.types):
            for text in _of_layer(shape, shape.types[number], seen):
                found[text].append(number)
    said = [f"{_where(at)}: {text}" for text, at in found.items()]
    return said + _hidden(lane, fitting[0], shape)


def _where(at: list[int]) -> str:
    text = spans(at)
    return f"layer{'s' * (len(at) > 1)} {text}" if len(text) <= _SHORT else f"{len(at)} layers from {at[0]} on"


def _categories(lane: Lane, passes: list[Pass]) -> dict[int, set[str]]:
    """Layer -> categories that most passes show in it."""
    work, names = lane.trace.work, lane.trace.names
    seen: Counter[tuple[int, str]] = Counter()
    for p in passes:
        inside = p.rows[lane.layer_of[p.rows] >= 0]
        pairs = np.unique(np.stack([lane.layer_of[inside], work.name[inside]], axis=1), axis=0)
        rows: list[list[int]] = pairs.tolist()
        seen.update({(layer, classify(names[name])) for layer, name in rows})
    found: dict[int, set[str]] = defaultdict(set)
    for (layer, category), n in seen.items():
        if 2 * n > len(passes):
            found[layer].add(category)
    return found


def _of_layer(shape: ModelShape, kind: LayerType, seen: set[str]) -> list[str]:
    """What one layer's kernels say against its type."""
    said: list[str] = []
    routed = bool(seen & {"moe", "hash"})
    if routed and kind.ffn not in ("MOE", "HASH", "UNKNOWN"):
        said.append(f"kernels of experts, where the config has {kind.ffn or 'no FFN'}")
    if not routed and kind.ffn in ("MOE", "HASH") and "activation" in seen:
        said.append(f"no kernel that is known to be of experts, where the config has {kind.ffn}")
    attends = seen & {"attention", "mla"}
    shown = " and ".join(_MIXERS[c] for c in sorted(seen & {*_MIXERS}))
    if kind.attention in STATES and attends and "linear_attention" not in seen:
        said.append(f"{shown}, where the config has {kind.attention}")
    if kind.attention in ATTENDING and "linear_attention" in seen and not attends:
        said.append(f"{shown}, where the config has {kind.attention}")
    if (
        "mla" in seen
        and kind.attention == "FULL_ATTN"
        and not shape.mla
        and all(t.attention in ATTENDING | STATES for t in shape.types)
    ):
        said.append(f"{shown}, of which the config knows nothing")
    return said


def _hidden(lane: Lane, p: Pass, shape: ModelShape) -> list[str]:
    """The hidden size stands among the dims of the products and norms of a layer, however the model is split."""
    if shape.hidden is None:
        return []
    products, norms = _operands(lane, p, "gemm"), _operands(lane, p, "norm")
    if len(products) < _PRODUCTS or not norms or any(shape.hidden in numbers for numbers in (*products, *norms)):
        return []
    return [f"no product or norm of the layers has an operand of the config's hidden size {shape.hidden}"]


def _operands(lane: Lane, p: Pass, category: str) -> list[set[int]]:
    """The numbers in the dims of each distinct op of a category inside the layers."""
    work, trace = lane.trace.work, lane.trace
    rows = p.rows[(lane.layer_of[p.rows] >= 0)]
    ids = [int(n) for n in np.unique(work.name[rows]) if classify(trace.names[int(n)]) == category]
    texts: set[str] = set()
    for row in rows[np.isin(work.name[rows], ids)].tolist():
        at = int(work.op_row[row])
        own = trace.op_texts[int(trace.ops.dims[at])] if at >= 0 and trace.ops.dims[at] >= 0 else None
        texts.add(own or trace.mapped_shapes.get(row, (None, None))[0] or "")
    return [numbers for text in sorted(texts - {""}) if (numbers := _numbers(text))]


def _numbers(text: str) -> set[int]:
    """All whole numbers in an op's dims."""
    try:
        todo: list[Any] = [jsonio.loads(text)]
    except InputUnusable:
        return set()
    found: set[int] = set()
    while todo:
        item = todo.pop()
        if isinstance(item, list):
            todo += cast("list[Any]", item)
        elif isinstance(item, int):
            found.add(item)
    return found
