"""One spelling for models, GPUs, frameworks and precisions, so that `H200` and `NVIDIA H200` are one thing to a search."""

from __future__ import annotations

import re
from functools import cache

from infer_forge.base.config import settings
from infer_forge.base.resources import load_yaml

_NOISE = re.compile(r"[\s\-_.]+")


def _key(text: str) -> str:
    return _NOISE.sub("", text).casefold()


@cache
def _table(dim: str) -> dict[str, str]:
    known: dict[str, list[str]] = load_yaml("references/aliases.yaml").get(dim, {})
    return {_key(s): name for name, spellings in known.items() for s in (name, *spellings)}


def canonical(dim: str, value: str) -> str:
    """The canonical spelling of a value of a dimension; an unknown value stays as it is, trimmed."""
    text = " ".join(value.split())
    if dim == "model":
        own: dict[str, str] = settings().get("models")
        for alias, name in own.items():
            if _key(alias) == _key(text):
                return str(name)
    return _table(dim).get(_key(text), text)
