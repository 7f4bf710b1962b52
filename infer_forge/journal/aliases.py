"""One spelling for models, GPUs, frameworks and precisions, so that `H200` and `NVIDIA H200` are one thing to a search."""

from __future__ import annotations

import os
import re
import time
from functools import cache, lru_cache

from infer_forge.base.config import settings
from infer_forge.base.resources import load_yaml

_NOISE = re.compile(r"[\s\-_.]+")


def _key(text: str) -> str:
    return _NOISE.sub("", text).casefold()


@cache
def _table(dim: str) -> dict[str, str]:
    known: dict[str, list[str]] = load_yaml("references/aliases.yaml").get(dim, {})
    return {_key(s): name for name, spellings in known.items() for s in (name, *spellings)}


@lru_cache(maxsize=1)
def _own_models(_second: int, _folder: str, _home: str | None) -> dict[str, str]:
    """The team's own aliases, read again when a second has passed or the settings' place is another: records come by thousands."""
    own: dict[str, str] = settings().get("models")
    return {_key(alias): str(name) for alias, name in own.items()}


def canonical(dim: str, value: str) -> str:
    """The canonical spelling of a value of a dimension; an unknown value stays as it is, trimmed."""
    text = " ".join(value.split())
    if dim == "model":
        own = _own_models(int(time.monotonic()), os.getcwd(), os.environ.get("INFER_FORGE_HOME"))
        if _key(text) in own:
            return own[_key(text)]
    return _table(dim).get(_key(text), text)
