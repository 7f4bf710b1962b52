"""Layers from a kernel that the user names: it begins (or ends) every layer."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np

from infer_forge.base.errors import UsageFault
from infer_forge.pipeline.model import HALVES, Lane, Layer
from infer_forge.pipeline.roles import Role
from infer_forge.pipeline.segment import FFN, NONE, Names, cut


def by_anchor(lane: Lane, anchor: str, layers: int | None, a_layer: int | None = None) -> None:
    """Replace the layers of every pass by those between occurrences of the anchor.

    Args:
        anchor: a part of the kernel's name; `NAME:end` when the kernel ends a layer.
        layers: the config's count; an anchor that occurs k times as often stands k times in a layer.
        a_layer: how often it stands in a layer, where that is known.

    Raises:
        UsageFault: no kernel has such a name, or none is named.
    """
    text, _, where = anchor.rpartition(":") if anchor.endswith((":start", ":end")) else (anchor, "", "start")
    if not text.strip():
        raise UsageFault("the anchor names no kernel", next_step="--anchor NAME, or NAME:end where it ends a layer")
    hits_by_name = {k for k, name in enumerate(lane.trace.names) if text.lower() in name.lower()}
    work = lane.trace.work
    if not hits_by_name or not np.isin(work.name[lane.rows], list(hits_by_name)).any():
        raise UsageFault(f"no kernel is named like {text!r}", next_step="see the kernel names of infer-forge triage")
    names = Names(lane.trace.names)
    counts = Counter(int(np.isin(work.name[p.rows], list(hits_by_name)).sum()) for p in lane.passes if not p.partial)
    usual = counts.most_common(1)[0][0] if counts else 0
    each = a_layer or (max(1, round(usual / layers)) if layers and usual else 1)
    for p in lane.passes:
        lane.layer_of[p.rows], lane.half_of[p.rows], lane.place_of[p.rows] = -1, 0, -1
        at = np.flatnonzero(np.isin(work.name[p.rows], list(hits_by_name)))
        p.layers = []
        bounds = _bounds(at.tolist(), each, where == "end", [names.role(int(n)) for n in work.name[p.rows]])
        for number, (a, b) in enumerate(bounds):
            rows = p.rows[a:b]
            p.layers.append(Layer(number, rows, (), False))
            lane.layer_of[rows] = number
            half = "attn"
            ids = work.name[rows].tolist()
            for segment in cut(ids, names):
                half = "ffn" if segment.kind == FFN else half if segment.kind == NONE else "attn"
                lane.half_of[rows[segment.start : segment.end]] = HALVES.index(half)
    lane.method = f"anchor {text!r} at the {'end' if where == 'end' else 'start'} of a layer, {each} a layer"


def _bounds(at: list[int], each: int, end: bool, roles: list[Role]) -> list[tuple[int, int]]:
    """[from, to) of each layer. The outer border, which no anchor marks, is as long as the median layer, up to a breaker."""
    marks = at[each - 1 :: each] if end else at[::each]
    if not marks:
        return []
    steps = np.diff(marks)
    usual = int(np.median(steps)) if len(steps) else len(roles)
    if end:
        first = max([0, marks[0] + 1 - usual, *(k + 1 for k in range(marks[0]) if roles[k] is Role.BREAKER)])
        edges = [first, *(m + 1 for m in marks)]
    else:
        last = min(
            [len(roles), marks[-1] + usual, *(k for k in range(marks[-1] + 1, len(roles)) if roles[k] is Role.BREAKER)]
        )
        edges = [*marks, last]
    return list(pairwise(edges))
