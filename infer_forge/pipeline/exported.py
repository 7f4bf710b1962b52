"""Layer numbers of a trace that `--export` wrote: it has a track of layers, whose slices begin with the layers' first kernels."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from infer_forge.trace.model import Trace

SLICE = "layer {}"
"""Name of a layer's slice."""
_NAME = re.compile(r"layer (\d{1,5})")


def layer_marks(trace: Trace) -> dict[int, int]:
    """Start in ns -> number of the layer, of every slice on such a track; empty for a trace of another origin."""
    named = {k: int(hit[1]) for k, name in enumerate(trace.names) if (hit := _NAME.fullmatch(name))}
    marks = trace.annotations
    if not named:
        return {}
    at: list[int] = np.flatnonzero(np.isin(marks.name, list(named)) & ~marks.gpu).tolist()
    return {int(marks.ts_ns[k]): named[int(marks.name[k])] for k in at}


def numbers_of(starts_ns: Sequence[int], marks: dict[int, int]) -> list[int] | None:
    """The numbers of layers that begin at these times; None where one of them has no slice, or they do not ascend."""
    found = [marks.get(t) for t in starts_ns]
    known = [n for n in found if n is not None]
    return known if known and len(known) == len(found) and known == sorted({*known}) else None
