"""The role of a kernel at the borders of a layer: data of `references/layer_roles.yaml`, judged once a distinct name."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cache, lru_cache
from typing import Any, cast

from infer_forge.base.kernels import classify, simplify
from infer_forge.base.resources import load_yaml

ROLES = "references/layer_roles.yaml"


class Role(IntEnum):
    """What a kernel is for the segmentation of a pass."""

    OTHER = 0
    MIXER = 1
    FFN = 2
    GEMM = 3
    NORM = 4
    COMM = 5
    SIDE = 6
    BREAKER = 7
    FUSED = 8
    """An all-reduce that also holds the next norm."""
    OPEN = 9
    CLOSE = 10


@cache
def _rules() -> tuple[dict[str, Role], tuple[tuple[re.Pattern[str], Role], ...]]:
    data = cast("dict[str, Any]", load_yaml(ROLES))
    by_category = {c: Role[k.upper()] for k, row in data["roles"].items() for c in row["categories"]}
    return by_category, tuple((re.compile(r["re"]), Role[str(r["role"]).upper()]) for r in data["names"])


@lru_cache(maxsize=1 << 16)
def role_of(name: str) -> Role:
    """Role of a device item by its name as the trace spells it."""
    by_category, by_name = _rules()
    short = simplify(name).lower()
    for pattern, role in by_name:
        if pattern.search(short):
            return role
    return by_category.get(classify(name), Role.OTHER)


def numbers(part: str) -> dict[str, float]:
    """The figures of `alignment` or `learning`."""
    return {k: float(v) for k, v in cast("dict[str, Any]", load_yaml(ROLES)[part]).items()}
