"""What a path suggests about a trace. Only a hint: the contents decide."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from infer_forge.trace.groups import rank_parts, ranks_of
from infer_forge.trace.model import Trace

_STAGE = re.compile(r"(?<![a-z])(extend|prefill|decode|denoise)(?![a-z])", re.IGNORECASE)


def path_hints(path: Path) -> dict[str, str]:
    """`stage` (prefill, decode, denoise) and `rank` (such as TP0-PP1) as the file's or folder's name suggests them."""
    found: dict[str, str] = {}
    for text in (path.name, path.parent.name):
        words = {("prefill" if m[1].lower() == "extend" else m[1].lower()) for m in _STAGE.finditer(text)}
        if len(words) == 1 and "stage" not in found:
            found["stage"] = words.pop()
    parts = rank_parts(path.name) or rank_parts(path.parent.name)
    if parts:
        found["rank"] = "-".join(f"{kind}{number}" for kind, number in parts)
    return found


def with_path_rank(trace: Trace) -> None:
    """Give a trace without a rank of its own the rank of its name."""
    if len(trace.groups) != 1 or trace.groups[0].rank is not None:
        return
    parts = rank_parts(trace.path.name) or rank_parts(trace.path.parent.name)
    rank = ranks_of([parts])[0] if parts else None
    if rank is not None:
        trace.groups[0] = replace(trace.groups[0], rank=rank, rank_from="file name")
